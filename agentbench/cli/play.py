"""`agentbench play`: a person takes the policy's seat, and the game is recorded like any other run.

An environment that lives in a browser is played there, on a page that shows the goal and, at the end, the score.
"""

from pathlib import Path
from typing import Annotated

import typer


def play(
    env: Annotated[
        str, typer.Option("--env", "-e", help="name[/variant][@version][:split], or a Python file.")
    ] = "sokoban",
    env_args: Annotated[
        list[str] | None, typer.Option("--env-args", "-E", metavar="KEY=VALUE", help="Argument of the environment.")
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", help="Tasks to play.")] = 1,
    seed: Annotated[int, typer.Option(help="Root seed: other tasks.")] = 0,
    max_turns: Annotated[int | None, typer.Option(help="Turns per episode.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for run directories.")] = Path("runs"),
) -> None:
    """Play an environment yourself, in the terminal or, where it has pages, in your browser."""
    from agentbench.cli.eval import run_evaluation
    from agentbench.cli.options import parse_pairs
    from agentbench.core.registry import resolve
    from agentbench.evaluate.config import EvalConfig

    model = "human:browser" if "browser" in resolve(env).needs else "human"
    values = {"model": model, "env": env, "episodes": episodes, "seed": seed, "max_turns": max_turns, "jobs": 1}
    run_evaluation(EvalConfig.parse({**values, "env_args": parse_pairs(env_args or []), "out": out}))
