"""`agentbench envs`: what there is, whether it keeps the contract, and how to begin a new one."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List, describe, check and begin environments.", no_args_is_help=True, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """List environments and their variants."""
    from agentbench.cli.console import emit, say_table
    from agentbench.core.registry import environments

    entries = environments().values()
    if json:
        for entry in entries:
            emit(
                name=entry.name,
                version=entry.version,
                variants=list(entry.variants),
                splits=entry.splits,
                max_turns=entry.max_turns,
                needs=sorted(entry.needs),
                summary=entry.summary,
            )
        return
    rows = [
        (
            entry.name,
            str(entry.version),
            ", ".join(entry.variants),
            ", ".join(sorted(entry.needs)) or "-",
            entry.summary,
        )
        for entry in entries
    ]
    say_table("environments", ("name", "version", "variants", "needs", "what it tests"), rows)


@app.command()
def info(name: Annotated[str, typer.Argument(help="name[/variant]")], json: Json = False) -> None:
    """Describe one environment, and show the beginning of its first task."""
    from agentbench.cli.console import emit, say, say_table
    from agentbench.core.errors import before_any_episode
    from agentbench.core.registry import resolve

    resolved = resolve(name)
    entry = resolved.entry
    with before_any_episode(f"{resolved.id} cannot be shown"):
        env = resolved.make()
        observation, _ = env.reset(seed=0)
        env.close()
    if json:
        emit(
            id=resolved.id,
            split=resolved.split,
            kwargs=dict(resolved.kwargs),
            max_turns=resolved.max_turns,
            splits=entry.splits,
            instructions=resolved.instructions,
            observation=observation,
            licence=entry.licence,
            source=entry.source,
            needs=sorted(resolved.needs),
            deterministic=entry.deterministic,
        )
        return
    say(f"{resolved.id}: {entry.summary}\n\n{resolved.instructions}\n\n{observation}\n")
    weights = ", ".join(f"{term.name} x {term.weight:g}" for term in resolved.reward.terms)
    say(f"turns: {resolved.max_turns}   splits: {', '.join(entry.splits)}   reward: {weights}")
    say(f"needs: {', '.join(sorted(resolved.needs)) or 'nothing'}   licence: {entry.licence}   source: {entry.source}")
    variants = [(key, ", ".join(f"{k}={v}" for k, v in v.kwargs.items())) for key, v in entry.variants.items()]
    say_table("variants", ("name", "arguments"), variants)


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="name[/variant], or a Python file that defines ENTRY.")],
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="Tasks that each check plays.")] = 5,
    every: Annotated[bool, typer.Option("--all", help="Check every variant, not only the named one.")] = False,
) -> None:
    """Try an environment against the contract: seeds, oracle, silence, hostile actions, snapshots."""
    from agentbench.cli.console import say
    from agentbench.core.checks import check_env
    from agentbench.core.errors import IntegrityError
    from agentbench.core.registry import resolve

    first = resolve(name)
    base = name if ".py" in name else first.entry.name
    chosen = [resolve(f"{base}/{variant}") for variant in first.entry.variants] if every else [first]
    for resolved in chosen:
        say(resolved.id)
        try:
            check_env(resolved, episodes=episodes, report=lambda rule: say(f"  ok  {rule}"))
        except AssertionError as error:
            raise IntegrityError(f"{resolved.id} breaks the contract: {error}") from error


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def build(context: typer.Context, name: Annotated[str, typer.Argument(help="An environment.")]) -> None:
    """Make further tasks; `agentbench envs build NAME --help` says from what."""
    import importlib

    from agentbench.core.errors import UsageError
    from agentbench.core.registry import environments, resolve

    entry = resolve(name).entry
    if not entry.builder:
        makers = ", ".join(key for key, other in environments().items() if other.builder)
        raise UsageError(f"{entry.name} makes no tasks from a command line; these do: {makers}")
    module, _, function = entry.builder.partition(":")
    getattr(importlib.import_module(module), function)(context.args)


@app.command()
def new(path: Annotated[Path, typer.Argument(help="File to write, for example ./guess.py")]) -> None:
    """Write a small complete environment to start from."""
    from agentbench.cli.console import say
    from agentbench.core.errors import RecordError, UsageError

    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UsageError(f"{path} is no name for a Python module; expected something like ./guess.py")
    if path.exists():
        raise UsageError(f"{path} exists; choose another name")
    try:
        path.write_text(TEMPLATE.replace("guess", path.stem.lower()), encoding="utf-8")
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error
    say(f"wrote {path}; try: agentbench envs check {path}; agentbench eval --env {path} --model oracle")


TEMPLATE = '''\
"""A first environment: find a number by asking whether it is higher or lower. Change it into yours."""

from typing import Any

from agentbench.core.env import Env, Step
from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm


class NumberEnv(Env):
    def __init__(self, largest: int = 15, split: str = "test") -> None:
        self.largest = largest
        self.offset = ("train", "valid", "test").index(split)  # Splits differ in content, not only in seeds.

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.secret = 3 * int(self.np_random.integers(self.largest // 3)) + self.offset + 1
        self.low, self.high = 1, self.largest
        return f"I think of a number from 1 to {self.largest}.", {"valid": True}

    def step(self, action: str) -> Step:
        text = action.strip()
        valid = text.isascii() and text.isdecimal() and len(text) < 10
        if not valid:
            return Step("Say a number.", 0.0, False, False, self._info(valid=False, found=False))
        number = int(text)
        found = number == self.secret
        if number < self.secret:
            self.low = max(self.low, number + 1)
        elif not found:
            self.high = min(self.high, number - 1)
        answer = "Found!" if found else "Higher." if number < self.secret else "Lower."
        return Step(answer, float(found), found, False, self._info(valid=True, found=found))

    def oracle(self) -> list[str]:
        return [str(self.secret)]

    def random_action(self) -> str:
        return str(self.action_random.integers(1, self.largest + 1))

    def _info(self, *, valid: bool, found: bool) -> dict[str, Any]:
        anchor = f"{self.low}-{self.high}"
        return {"success": found, "valid": valid, "terms": {"found": float(found)}, "anchor": anchor}


ENTRY = EnvEntry(
    name="guess",
    title="Guess",
    version=0,
    entry_point=":NumberEnv",
    summary="Find a number by asking whether it is higher or lower.",
    instructions="Find the number. Answer with a number and nothing else; you are told whether to go higher or lower.",
    max_turns=6,
    reward=RewardSpec((RewardTerm("found"),)),
    variants={"small": Variant({"largest": 15}), "large": Variant({"largest": 300}, max_turns=12)},
)
'''
