"""`agentbench report`: what runs showed, on one page that opens anywhere."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories of eval and train, in any mixture.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file; the first run's report/index.html if absent.")
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=0, help="Episodes to step through.")] = 40,
    show: Annotated[
        list[str] | None, typer.Option("--show", metavar="KEY", help="Key or task of an episode that must be there.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Write one self-contained HTML page about runs, with Markdown and figures beside it."""
    from agentbench.cli.console import emit, say
    from agentbench.report.report import write_report

    page = out or runs[0] / "report" / "index.html"
    written = write_report(runs, page, episodes=episodes, show=show or [])
    if json:
        emit(event="done", page=str(written.page), markdown=str(written.markdown), figures=len(written.figures))
    say(f"page: {written.page}")
    say(f"Markdown: {written.markdown}; {len(written.figures)} figures in {written.figures[0].parent}")
