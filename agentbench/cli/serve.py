"""`agentbench serve`: an environment for another process."""

from typing import Annotated

import typer


def serve(
    env: Annotated[str, typer.Argument(help="Name of an environment, or a Python file that defines ENTRY.")],
    stdio: Annotated[bool, typer.Option("--stdio", help="Speak JSON lines on standard input and output.")] = False,
) -> None:
    """Serve an environment to another process, which chooses variant, split and arguments."""
    from agentbench.core.errors import UsageError
    from agentbench.core.registry import resolve
    from agentbench.remote.client import serve_env

    resolve(env)
    if not stdio:
        raise UsageError("say how to serve: --stdio is standard input and output")
    serve_env(env)
