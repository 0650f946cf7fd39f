"""The command `agentbench`: its verbs, and the one place where an error becomes a line and an exit code."""

import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType

import typer

from agentbench import __version__
from agentbench.cli import envs, model
from agentbench.cli.console import say_error
from agentbench.cli.demo import demo
from agentbench.cli.doctor import doctor
from agentbench.cli.eval import eval_
from agentbench.cli.play import play
from agentbench.cli.replay import replay
from agentbench.cli.train import train
from agentbench.core.errors import AgentBenchError

app = typer.Typer(
    name="agentbench",
    help="Evaluate and train language-model agents over many turns.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("eval")(eval_)
app.command("play")(play)
app.command("train")(train)
app.command("replay")(replay)
app.add_typer(envs.app, name="envs")
app.add_typer(model.app, name="model")
app.command("doctor")(doctor)
app.command("demo")(demo)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"agentbench {__version__}")
        raise typer.Exit


@app.callback()
def root(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print it.")) -> None:
    """Evaluate and train language-model agents over many turns."""


def run() -> None:
    """Run the command line and leave with the exit code of the README's table."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except AgentBenchError as error:
        say_error(str(error))
        _leave(error.exit_code)
    except KeyboardInterrupt:
        say_error("interrupted")
        _leave(130)
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else int(bool(end.code)))
    except Exception as error:
        say_error(f"a bug in AgentBench: {type(error).__name__}: {error} (details in {_save_trace()})")
        _leave(70)


_terminated = False


def _terminate(_number: int, _frame: FrameType | None) -> None:
    """Make SIGTERM as orderly as Ctrl-C: cancel what runs, write what is known, then leave with 143."""
    global _terminated
    _terminated = True
    signal.raise_signal(signal.SIGINT)


def _leave(code: int) -> None:
    sys.exit(143 if _terminated and code == 130 else code)


def _save_trace() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="agentbench-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return Path(file.name)
