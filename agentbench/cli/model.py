"""`agentbench model`: small models to begin with."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Make small models.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Make small models."""


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Folder to write.")],
    size: Annotated[str, typer.Option(help="xs, s or m: 0.4, 1.8 or 10 million parameters.")] = "xs",
    seed: Annotated[int, typer.Option(help="Decides the weights.")] = 0,
) -> None:
    """Write a small Qwen3-architecture checkpoint with random weights and a byte-level tokenizer."""
    from agentbench.cli.console import say
    from agentbench.core.errors import PrerequisiteError, UsageError

    if path.exists():
        raise UsageError(f"{path} exists; choose another folder")
    try:
        from agentbench.policies.init import init_named

        init_named(size, path, seed=seed)
    except ModuleNotFoundError as error:
        raise PrerequisiteError(f"this needs {error.name}: install AgentBench with the extra [hf]") from error
    say(f"wrote {path}; try: agentbench eval --model {path} --env sokoban/tiny")
