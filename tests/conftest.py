"""What every test may use, and what holds for all of them."""

import json
import os
import platform
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

R = TypeVar("R", pytest.TestReport, pytest.CollectReport)

CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

# Nothing here asserts how long something takes, so a slow machine is no failure.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("in CI", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("in CI" if CI else "here")


@pytest.fixture
def scale() -> float:
    """Multiplies the sizes of the expensive tests; `make soak` sets it, CI keeps 1."""
    return float(os.environ.get("AGENTBENCH_SCALE", "1"))


@pytest.fixture
def golden() -> Path:
    """The folder of data recorded from the original environments and algorithms."""
    return Path(__file__).parent / "data" / "golden"


def pytest_configure(config: pytest.Config) -> None:
    results = os.environ.get("AGENTBENCH_RESULTS")
    if results and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(Path(results)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _no_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _no_skip(report)


def _no_skip(report: R) -> R:
    """In CI everything that a test needs is there: a skip means that something went untested."""
    if CI and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be: {report.longrepr}"
    return report


class Results:
    """Writes what ran, at which scale, as JSON: the evidence that `make soak` leaves behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            measured = dict(report.user_properties)
            row = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2), **measured}
            self.tests.append(row)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        import agentbench

        self.path.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "agentbench": agentbench.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "scale": float(os.environ.get("AGENTBENCH_SCALE", "1")),
            "exit": int(exitstatus),
            "tests": sorted(self.tests, key=lambda row: str(row["test"])),
        }
        self.path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
