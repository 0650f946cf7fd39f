"""`agentbench demo`: the main job on something that is always there."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for run directories.")] = Path("runs"),
    episodes: Annotated[int, typer.Option("--episodes", "-n", help="Tasks to play.")] = 50,
) -> None:
    """Evaluate an untrained model between its floor (random) and its ceiling (oracle) on Sokoban."""
    import tempfile

    from agentbench.cli.console import interval, number, percent, say, say_table
    from agentbench.cli.eval import run_evaluation
    from agentbench.core.errors import PrerequisiteError
    from agentbench.evaluate.config import EvalConfig
    from agentbench.testing import tiny_model

    rows = []
    with tempfile.TemporaryDirectory(prefix="agentbench-demo-") as folder:
        try:
            checkpoint = str(tiny_model(Path(folder) / "untrained"))
        except ModuleNotFoundError as error:
            raise PrerequisiteError(f"the demo needs {error.name}: install AgentBench with the extra [hf]") from error
        names = {"oracle": "oracle", "random": "random", checkpoint: "a model with random weights"}
        for model, name in names.items():
            say(f"{name}: {episodes} episodes of Sokoban ...")
            config = EvalConfig.parse(
                {"model": model, "env": "sokoban", "episodes": episodes, "out": out, "max_tokens": 8, "jobs": 16}
            )
            run = run_evaluation(config, title=name)
            summary = run.summary
            rows.append(
                (
                    name,
                    interval(summary),
                    number(summary["reward"]),
                    number(summary["turns"], 1),
                    percent(summary["invalid_rate"]),
                    percent(summary["coverage"]),
                )
            )
    say_table(
        f"sokoban, {episodes} tasks of the test split",
        ("policy", "success", "reward", "turns", "invalid", "coverage"),
        rows,
    )
    say(f"\nthe last run: {run.run_dir}")
    say("what next:")
    say("  agentbench eval --model PATH --env sokoban     your own checkpoint (a transformers folder)")
    say("  agentbench play --env sokoban                  play it yourself")
    say(f"  agentbench replay {run.run_dir}")
