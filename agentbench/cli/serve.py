"""`agentbench serve`: an environment for another process, or its site for people."""

import importlib.util
from typing import Annotated

import typer


def serve(
    env: Annotated[str, typer.Argument(help="Name of an environment, or a Python file that defines ENTRY.")],
    stdio: Annotated[bool, typer.Option("--stdio", help="Speak JSON lines on standard input and output.")] = False,
    site: Annotated[bool, typer.Option("--site", help="Show its pages to people, on this machine.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the site; 0 takes a free one.")] = 0,
) -> None:
    """Serve an environment to another process, or its site to people.

    The other process chooses variant, split and arguments.
    """
    from agentbench.cli.console import say
    from agentbench.core.errors import PrerequisiteError, UsageError
    from agentbench.core.registry import resolve, site_of
    from agentbench.remote.client import serve_env

    resolved = resolve(env)
    if stdio == site:
        raise UsageError("say how to serve: --stdio for another process, or --site for people")
    if site:
        lacking = [package for package in ("starlette", "uvicorn") if importlib.util.find_spec(package) is None]
        if lacking:
            raise PrerequisiteError(f"a site needs {', '.join(lacking)}; install with: pip install -e '.[serve]'")
        site_of(resolved)(resolved, port, lambda address: say(f"serving {resolved.id} at {address}; Ctrl-C ends it"))
    else:
        serve_env(env)
