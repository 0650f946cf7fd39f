"""`agentbench images`: what sandboxes start from."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Build, list and prune images.", no_args_is_help=True, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]


@app.command()
def base(
    names: Annotated[list[str] | None, typer.Argument(help="Images that are to stand on it; `base` if absent.")] = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="TIME", help="Of snapshot.debian.org: 20261101T000000Z.")
    ] = None,
) -> None:
    """Make an image of Debian from its archive by mmdebstrap, where no registry can be reached."""
    from agentbench.cli.console import say
    from agentbench.sandbox import images

    for name in names or ("base",):
        made = images.debian(name, snapshot=snapshot)
        say(f"{made.name}  {made.id.removeprefix('sha256:')[:12]}  {made.mib:.0f} MiB")


@app.command()
def build(
    names: Annotated[list[str] | None, typer.Argument(help="What to build; everything if absent.")] = None,
    base_image: Annotated[str | None, typer.Option("--base-image", help="What to begin with.")] = None,
    wheels: Annotated[Path | None, typer.Option("--wheels", help="A folder of wheels; else pip collects them.")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Also what is unchanged, without the engine's cache.")] = False,
) -> None:
    """Build images; one whose content is unchanged is not built again."""
    from agentbench.cli.console import say
    from agentbench.sandbox import images, ingredients

    for name in names or ingredients.names():
        made = images.build(name, base_image=base_image, wheels=wheels, anew=anew)
        say(f"{made.name}  {made.id.removeprefix('sha256:')[:12]}  {made.mib:.0f} MiB")


@app.command("list")
def list_(json: Json = False) -> None:
    """List the images that are here; as JSON, with every package and wheel that went in."""
    from agentbench.cli.console import emit, say_table
    from agentbench.sandbox import images

    found = images.images()
    if json:
        for each in found:
            emit(**each._asdict(), root=images.root(each))
        return
    rows = [(i.name, i.id.removeprefix("sha256:")[:12], i.version, i.content[:12], f"{i.mib:.0f}") for i in found]
    say_table("images", ("name", "id", "version", "content", "MiB"), rows)


@app.command()
def prune() -> None:
    """Remove images that a newer build replaced."""
    from agentbench.cli.console import say
    from agentbench.sandbox import images

    say(f"removed {len(images.prune())} images")
