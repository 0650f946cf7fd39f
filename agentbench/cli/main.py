"""The command `agentbench`: its verbs, and the one place where an error becomes a line and an exit code."""

import importlib
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import typer

from agentbench import __version__
from agentbench.cli.console import say_error
from agentbench.core.errors import AgentBenchError


class Verb(NamedTuple):
    """One thing that the command can do; its module is imported when it is asked for."""

    target: str
    """`module:function` in this package, or `module:app` for a verb with verbs of its own."""
    help: str


VERBS = {
    "eval": Verb("eval:eval_", "Evaluate a policy on an environment: resumable, reproducible, with error bars."),
    "play": Verb("play:play", "Play an environment yourself, in the terminal or, where it has pages, in your browser."),
    "train": Verb("train:train", "Train a policy by a recipe; the run can be killed and resumed."),
    "report": Verb("report:report", "Write one self-contained HTML page about runs, with Markdown and figures."),
    "leaderboard": Verb("leaderboard:app", "Rows that anybody can check, and the tables made from them."),
    "replay": Verb("replay:replay", "Play recorded actions again, and compare rewards, observations and hashes."),
    "power": Verb("power:power", "Say how many tasks and trials a difference needs, and what they cost."),
    "compare": Verb("compare:compare", "Say which of several runs is better, and how sure that is."),
    "gate": Verb("gate:gate", "Compare a checkpoint with a baseline: regressed, ok or inconclusive."),
    "protocols": Verb("protocols:protocols", "Evaluate one policy under several protocols of an environment."),
    "envs": Verb("envs:app", "List, describe, check and begin environments."),
    "model": Verb("model:app", "Make small models."),
    "serve": Verb("serve:serve", "Serve an environment to another process, or its site to people."),
    "images": Verb("images:app", "Build, list and prune the images of environments."),
    "sandbox": Verb("sandbox:app", "List sandboxes, and remove what was left of them."),
    "doctor": Verb("doctor:doctor", "Say what is installed here and what each missing part would be for."),
    "demo": Verb(
        "demo:demo",
        "Evaluate a small trained agent on Sokoban beside random play, its supervised stage and the oracle.",
    ),
}


def build(wanted: str | None) -> typer.Typer:
    """Return the command line with one verb ready to run, and the others named for the help.

    Args:
        wanted: The verb on the command line.
    """
    app = typer.Typer(
        name="agentbench",
        help="Evaluate and train language-model agents over many turns.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    for name, verb in VERBS.items():
        if name != wanted:
            app.command(name, help=verb.help)(_named_only)
            continue
        module, _, attribute = verb.target.partition(":")
        target = getattr(importlib.import_module(f"agentbench.cli.{module}"), attribute)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name, help=verb.help)
        else:
            app.command(name, help=verb.help)(target)
    return app


def run() -> None:
    """Run the command line and leave with the exit code of the README's table."""
    # A shell starts background jobs with SIGINT ignored; who sends it to us means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        build(next((word for word in sys.argv[1:] if not word.startswith("-")), None))()
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


def _named_only() -> None:
    """Stand for a verb that this call does not run."""


def _version(value: bool) -> None:
    if value:
        typer.echo(f"agentbench {__version__}")
        raise typer.Exit


def _root(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print it.")) -> None:
    """Evaluate and train language-model agents over many turns."""


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
