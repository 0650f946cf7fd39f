"""`agentbench replay`: are the recorded rewards true?"""

from pathlib import Path
from typing import Annotated

import typer

from agentbench.cli.options import option
from agentbench.evaluate.config import EvalConfig


def replay(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", min=1, help="Episodes to replay; all if absent.")
    ] = None,
    sandbox: Annotated[str, option(EvalConfig, "sandbox")] = "none",
    allow_unsandboxed: Annotated[bool, option(EvalConfig, "allow_unsandboxed")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Play recorded actions again, and compare rewards, observations and hashes."""
    from agentbench.cli.console import emit, say
    from agentbench.core.errors import IntegrityError, NothingSelected
    from agentbench.core.records import RunDirectory
    from agentbench.evaluate.replay import place_of, run_difference
    from agentbench.evaluate.replay import replay as play_again
    from agentbench.rollout.place import kind_of

    played, different = 0, 0
    directory = RunDirectory.open(run)
    place = place_of(directory, kind_of(sandbox), allow_unsandboxed=allow_unsandboxed)
    for result in play_again(directory, limit=episodes, place=place):
        played += 1
        different += result.difference is not None
        if json:
            emit(event="replayed", key=result.key, difference=result.difference)
        elif result.difference is not None:
            say(f"{result.key}: {result.difference}")
    false = run_difference(directory, place=place)
    if json:
        told = {"replayed": played, "different": different, "difference": false, "sandbox": place.record}
        emit(event="done", run_dir=str(run), **told)
    if different:
        raise IntegrityError(f"{different} of {played} episodes of {run} do not replay as recorded")
    if false:
        raise IntegrityError(f"{run}: {false}")
    if played == 0:
        raise NothingSelected(f"{run} has no scored episode to replay")
    say(f"{played} episodes replayed: rewards, observations and hashes are as recorded")
