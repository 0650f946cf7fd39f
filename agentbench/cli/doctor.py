"""`agentbench doctor`: what works on this machine, and what to do about what does not."""

from typing import Annotated, NamedTuple

import typer


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    found: str | None
    """None: missing."""
    serves: str
    """What it is needed for, and how to get it."""


def doctor(
    env: Annotated[str | None, typer.Option("--env", "-e", help="Also check what this environment needs.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Also check that this model loads.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Say what is installed here and what each missing part would be for; exit 4 if something asked for is missing."""
    from agentbench.cli.console import emit, say, say_table

    findings = [*_base(), *_extras(), *_programs(), *_isolation(), *_images()]
    if json:
        for finding in findings:
            emit(**finding._asdict())
    else:
        rows = [(finding.what, finding.found or "missing", finding.serves) for finding in findings]
        say_table("this machine", ("what", "found", "for"), rows)
    if env is not None:
        from agentbench.core.registry import resolve
        from agentbench.rollout.launch import check_needs

        check_needs(resolve(env))
        say(f"{env}: everything that it needs is here")
    if model is not None:
        from agentbench.policies.choose import choose_policy

        getattr(choose_policy(model), "close", lambda: None)()
        say(f"{model}: loads")


def _base() -> list[Finding]:
    import os
    import platform
    import shutil

    import agentbench

    free = shutil.disk_usage(".").free / 2**30
    writable = os.access(".", os.W_OK)
    return [
        Finding("agentbench", agentbench.__version__, "itself"),
        Finding("python", platform.python_version(), "everything (3.11 or later)"),
        Finding("cores", str(os.cpu_count()), "episodes in flight"),
        Finding("disk", f"{free:.1f} GiB free" if writable else None, "runs are written to this folder"),
    ]


def _extras() -> list[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    def found(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    wanted = {
        "torch": "local models: install with the extra [hf]",
        "transformers": "local models: install with the extra [hf]",
        "docker": "sandboxes: install with the extra [docker]",
        "pip": "images: it collects their wheels; python -m ensurepip",
        "playwright": "the browser: install with the extra [browser]",
        "starlette": "the browser environments' sites: install with the extra [browser]",
        "uvicorn": "the browser environments' sites: install with the extra [browser]",
        "textworld": "genuine TextWorld games: install with the extra [textworld]",
        "matplotlib": "reports: install with the extra [report]",
    }
    return [Finding(package, found(package), serves) for package, serves in wanted.items()]


def _programs() -> list[Finding]:
    import shutil

    from agentbench.sandbox import browser

    wanted = {
        "git": "the commit in lock.json",
        "docker": "containers",
        "mmdebstrap": "images where no registry can be reached: apt-get install mmdebstrap",
    }
    found = [Finding(f"{program} (program)", shutil.which(program), serves) for program, serves in wanted.items()]
    serves = f"the browser: apt-get install chromium, or name one in {browser.VARIABLE}"
    return [*found, Finding("chromium (program)", browser.program(), serves)]


def _images() -> list[Finding]:
    """Say which images are here; those that are not are built when they are wanted, which takes minutes."""
    from agentbench.core.errors import AgentBenchError
    from agentbench.sandbox import images, ingredients

    try:
        here = {image.name.removeprefix("agentbench/").removesuffix(":latest") for image in images.images()}
    except AgentBenchError:
        return [Finding("images", None, "sandboxes: they need a container engine")]
    lacking = [name for name in ingredients.names() if name not in here]
    serves = f"to make the others: agentbench images build {' '.join(lacking)}" if lacking else "sandboxes"
    return [Finding("images", ", ".join(sorted(here & set(ingredients.names()))) or None, serves)]


def _isolation() -> list[Finding]:
    from agentbench.sandbox.engine import missing_engine
    from agentbench.sandbox.process import missing_bubblewrap

    engine, namespaces = missing_engine(), missing_bubblewrap()
    return [
        Finding("container engine", None if engine else "answers", engine or "sandboxes: SWE, and --sandbox docker"),
        Finding("bubblewrap", None if namespaces else "makes namespaces", namespaces or "sandboxes without an engine"),
    ]
