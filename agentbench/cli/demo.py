"""`agentbench demo`: the main job on a trained agent that comes with the package, between its floor and its ceiling."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

ENV = "sokoban/tiny"
RECIPE = "sokoban-tiny"


def demo(
    train: Annotated[bool, typer.Option("--train", help="Train the agent anew first: about ten minutes.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for run directories.")] = Path("runs"),
    episodes: Annotated[int, typer.Option("--episodes", "-n", help="Tasks to play.")] = 100,
) -> None:
    """Evaluate a small trained agent on Sokoban beside random play, its supervised stage and the oracle."""
    from agentbench.cli.console import say, say_table
    from agentbench.core.errors import PrerequisiteError

    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise PrerequisiteError(f"the demo needs {name}: install AgentBench with the extra [hf]")
    supervised, trained = _train(out) if train else ("bundled:sokoban-tiny-supervised", "bundled:sokoban-tiny")
    names = {
        "random": "random play",
        supervised: "taught by the oracle",
        trained: "then turn-PPO",
        "oracle": "the oracle",
    }
    rows = []
    for model, name in names.items():
        run = _evaluate(model, name, episodes, out)
        rows.append((name, *_cells(run.summary)))
    say_table(
        f"{ENV}, {episodes} tasks of the test split: rooms that training never saw",
        ("policy", "success", "reward", "turns", "invalid", "coverage"),
        rows,
    )
    say(f"\nthe last run: {run.run_dir}")
    say("what next:")
    say("  agentbench eval --model PATH --env sokoban     your own checkpoint (a transformers folder)")
    say("  agentbench play --env sokoban                  play it yourself")
    say(f"  agentbench train --config {RECIPE}       train this agent from nothing")
    say(f"  agentbench replay {run.run_dir}")


def _evaluate(model: str, name: str, episodes: int, out: Path) -> Any:
    from agentbench.cli.console import say
    from agentbench.cli.eval import run_evaluation
    from agentbench.evaluate.config import EvalConfig

    say(f"{name}: {episodes} episodes ...")
    values = {"model": model, "env": ENV, "episodes": episodes, "out": out, "max_tokens": 8, "jobs": 32}
    return run_evaluation(EvalConfig.parse(values), title=name)


def _cells(summary: dict[str, Any]) -> tuple[str, ...]:
    from agentbench.cli.console import interval, number, percent

    return (
        interval(summary),
        number(summary["reward"]),
        number(summary["turns"], 1),
        percent(summary["invalid_rate"]),
        percent(summary["coverage"]),
    )


def _train(out: Path) -> tuple[str, str]:
    """Run the recipe of the bundled agent; return its supervised stage and its best checkpoint."""
    from agentbench.cli.train import bundled_recipe, run_training
    from agentbench.train.config import TrainConfig

    trained = run_training(TrainConfig.parse({**bundled_recipe(RECIPE), "out": str(out)}))
    return str(trained.run_dir / "checkpoints" / "warm-start"), str(trained.best)
