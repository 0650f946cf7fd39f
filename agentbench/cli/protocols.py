"""`agentbench protocols`: one policy under every protocol that goes by an environment's name.

What is called by one name is often several things: other turn caps, other reward maps, other prompts. The same tasks,
played under each of them, show how far a published number depends on that choice.
"""

from typing import Annotated, Any

import typer

from agentbench.cli.console import emit, interval, number, percent, say_table
from agentbench.cli.eval import reward, run_evaluation
from agentbench.cli.options import options_of
from agentbench.core.errors import UsageError
from agentbench.core.registry import Resolved, resolve
from agentbench.evaluate.config import EvalConfig

COLUMNS = ("protocol", "turns allowed", "success", "reward", "turns", "invalid", "coverage")


@options_of(EvalConfig)
def protocols(
    given: dict[str, Any],
    variants: Annotated[
        str, typer.Option(help="Variants to play, separated by commas; else those that name a protocol.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="One JSON object per protocol on stdout.")] = False,
) -> None:
    """Evaluate one policy under several protocols of an environment."""
    from agentbench.evaluate.evaluate import require_valid

    base = resolve(EvalConfig.parse(given).env)
    rows, runs = [], []
    for variant in chosen(base, variants):
        name = f"{base.entry.name}/{variant}:{base.split}"
        config = EvalConfig.parse({**given, "env": name})
        run = run_evaluation(config, title=name)
        allowed = config.max_turns or resolve(name).max_turns
        summary = run.summary
        if json:
            emit(protocol=variant, max_turns=allowed, run_dir=str(run.run_dir), summary=summary)
        cells = (interval(summary), reward(summary), number(summary["turns"], 1), percent(summary["invalid_rate"]))
        rows.append((variant, str(allowed), *cells, percent(summary["coverage"])))
        runs.append(run)
    say_table(f"{given['model']} on {base.entry.name}, split {base.split}", COLUMNS, rows)
    for run in runs:
        require_valid(run)


def chosen(base: Resolved, variants: str) -> list[str]:
    """Return the variants to play.

    Raises:
        UsageError: The environment names no protocols, or has no such variant.
    """
    known = base.entry.variants
    named = [name.strip() for name in variants.split(",") if name.strip()]
    if not named:
        named = [name for name, variant in known.items() if "protocol" in variant.kwargs]
    if not named:
        raise UsageError(f"{base.entry.name} names no protocols; say which variants to play with --variants")
    for name in named:
        if name not in known:
            raise UsageError(f"{base.entry.name} has no variant {name!r}; known: {', '.join(known)}")
    return named
