"""Runs the pytest of a repository, and writes [id, outcome, message] of every test, one JSON array per line.

    REPORT=file SOURCES=folder:folder python reporter.py [pytest's arguments]

It runs in the container, under whatever Python is there, and knows nothing of AgentBench. pytest is imported before the
repository can be found, so that no module of the repository stands in its place. The outcomes are SWE-bench's.
The last line is ["", pytest's exit status, seconds of processor time].
"""

import json
import os
import re
import sys
from typing import Any

import pytest

_EXPLAINS = re.compile(r" \+ +(where|and) | +(Regex|Input|Expected regex|Actual message): ")
"""Of what pytest says about a failed assertion, not the difference between its sides."""

_report = os.environ.pop("REPORT")
_status: "dict[str, tuple[str, str]]" = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Keep the worst that set-up, call and tear-down of a test said."""
    if report.when == "call" or report.outcome != "passed":
        _status[report.nodeid] = _outcome(report), _message(report)


def pytest_collectreport(report: Any) -> None:
    """Keep which files could not be loaded."""
    if report.outcome == "failed":
        said = str(report.longrepr).strip().split("\n")[-1]
        _status[report.nodeid] = "ERROR", said.removeprefix("E").strip()[:200]


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write everything; last the session's own exit status, and the processor time of this process and its children."""
    used = sum(os.times()[:4])
    with open(_report, "w", encoding="utf-8") as file:  # noqa: PTH123
        for test, (outcome, message) in _status.items():
            file.write(json.dumps([test, outcome, message]) + "\n")
        file.write(json.dumps(["", int(exitstatus), round(used, 3)]) + "\n")


def _outcome(report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return "XFAIL" if report.outcome == "skipped" else "XPASS"
    if report.outcome == "failed" and report.when != "call":
        return "ERROR"
    return str(report.outcome).upper()


def _message(report: Any) -> str:
    """Return what went wrong, and where its values come from; empty if nothing did."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if not crash or report.outcome != "failed":
        return ""
    first, *others = str(crash.message).split("\n")
    return "\n".join([first, *filter(_EXPLAINS.match, others)])[:2000]


if __name__ == "__main__":
    sources = os.environ.pop("SOURCES")
    sys.path[1:1] = sources.split(":")
    os.environ["PYTHONPATH"] = sources  # For the processes that tests start.
    sys.exit(pytest.main(sys.argv[1:], plugins=[sys.modules[__name__]]))
