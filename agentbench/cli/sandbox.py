"""`agentbench sandbox`: what untrusted work runs in, and what was left of it."""

from typing import Annotated

import typer

app = typer.Typer(help="List sandboxes, and remove what was left of them.", no_args_is_help=True, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """List the containers that are sandboxes, whoever made them."""
    from agentbench.cli.console import emit, say, say_table
    from agentbench.sandbox.engine import sandboxes

    found = sandboxes()
    if json:
        for each in found:
            emit(**each._asdict())
    elif not found:
        say("no sandbox is left, and none runs")
    else:
        rows = [
            (each.id[:12], each.image, each.status, each.owner, "orphaned" if each.orphaned else "in use")
            for each in found
        ]
        say_table("sandboxes", ("container", "image", "status", "owner", "state"), rows)


@app.command()
def cleanup(
    everything: Annotated[bool, typer.Option("--all", help="Also those in use, by whatever process.")] = False,
    json: Json = False,
) -> None:
    """Remove sandboxes whose owner is dead or whose lifetime is over, and their temporary folders."""
    import shutil

    from agentbench.cli.console import emit, say
    from agentbench.core.errors import PrerequisiteError
    from agentbench.sandbox import engine
    from agentbench.sandbox.chromium import sweep
    from agentbench.sandbox.process import stale_folders

    folders = stale_folders()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    folders += sweep()
    try:
        gone = engine.cleanup(everything=everything)
    except PrerequisiteError as error:
        if not folders:
            raise
        say(f"containers were not looked at: {error}")
        gone = []
    if json:
        emit(containers=[each.id for each in gone], folders=[str(folder) for folder in folders])
    else:
        say(f"removed {len(gone)} containers and {len(folders)} temporary folders")
