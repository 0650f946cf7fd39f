"""What the outcomes of named tests say about a patch: SWE-bench's rules, and when a report is believed at all.

A task names the tests that its bug breaks (FAIL_TO_PASS) and those that must stay as they are (PASS_TO_PASS). The rules
follow SWE-bench 7a21e05 (`swebench/harness/grading.py`):

    a FAIL_TO_PASS test succeeds with PASSED or XFAIL; a PASS_TO_PASS test also with SKIPPED; an absent one has failed
    full     every named test succeeds
    partial  some of FAIL_TO_PASS succeed, and all of PASS_TO_PASS
    no       everything else

The program under test runs in the process that reports on it, so a report alone proves little. `read_report` checks it
against what the program does not know in advance: tests of ours beside the hidden ones (*canaries*), one of which
always fails, so that an honest run never ends with exit code 0.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Resolved = Literal["full", "partial", "no"]

FIXED: Final = frozenset({"PASSED", "XFAIL"})
KEPT: Final = FIXED | {"SKIPPED"}

TESTS_FAILED: Final = 1
"""pytest's exit code when all ran and some failed."""

_LINE = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL)[ \t]+(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Grade:
    """How far a patch solves its task."""

    resolved: Resolved
    fail_to_pass_rate: float
    """Share of the tests that the bug broke and that succeed now; 1 if there are none."""
    pass_to_pass_rate: float
    """Share of the tests that had to keep succeeding and do; 1 if there are none."""

    @property
    def fraction(self) -> float:
        """Return the share of repaired tests, or 0 if any other test broke: an untouched repository gets 0."""
        return self.fail_to_pass_rate if self.pass_to_pass_rate == 1 else 0.0


NOTHING: Final = Grade("no", 0.0, 0.0)
"""The grade where there is no report to believe."""


def grade(status: Mapping[str, str], fail_to_pass: Iterable[str], pass_to_pass: Iterable[str]) -> Grade:
    """Grade a run of the tests.

    Args:
        status: PASSED, FAILED, ERROR, SKIPPED or XFAIL by the test's id; what did not run is absent.
        fail_to_pass: Ids of the tests that the bug broke.
        pass_to_pass: Ids of the tests that must keep succeeding.

    Example:
        >>> grade({"t.py::a": "PASSED"}, ["t.py::a", "t.py::b"], [])
        Grade(resolved='partial', fail_to_pass_rate=0.5, pass_to_pass_rate=1.0)
    """
    fixed = _rate(status, fail_to_pass, FIXED)
    kept = _rate(status, pass_to_pass, KEPT)
    if kept == 1 and fixed > 0:
        return Grade("full" if fixed == 1 else "partial", fixed, kept)
    return Grade("no", fixed, kept)


def _rate(status: Mapping[str, str], tests: Iterable[str], good: frozenset[str]) -> float:
    outcomes = [status.get(test) in good for test in tests]
    return sum(outcomes) / len(outcomes) if outcomes else 1.0


def parse_log(log: str) -> dict[str, str]:
    """Read the outcomes out of pytest's short summary (`-rA`), as SWE-bench does.

    A test's id ends at its first blank, so ids with blanks are cut, and `SKIPPED [3]` names no test. `reporter` says
    the same without loss; this is for logs that others recorded.
    """
    return {test: outcome for outcome, test in _LINE.findall(log) if not test.startswith("[")}


def with_cut_ids(status: Mapping[str, str]) -> dict[str, str]:
    """Return outcomes also by the ids that lists of SWE-bench hold, which were read from logs and end at a blank.

    Where several tests share one, it stands for the worst of them; SWE-bench takes whichever the log named last.

    Example:
        >>> with_cut_ids({"t.py::e[a b]": "PASSED", "t.py::e[a c]": "FAILED"})["t.py::e[a"]
        'FAILED'
    """
    found = dict(status)
    for test, outcome in status.items():
        cut = test.split(maxsplit=1)[0] if test.strip() else test
        found[cut] = min(found.get(cut, outcome), outcome, key=_goodness)
    return found


def _goodness(outcome: str) -> int:
    """Rank an outcome: the sets in which a test may end are nested."""
    return (outcome in KEPT) + (outcome in FIXED)


class Canaries(NamedTuple):
    """Tests of ours in a hidden run, by id."""

    passing: str
    failing: str


class Report(NamedTuple):
    """What a run of the tests said about itself."""

    status: dict[str, str]
    """The outcome by test; empty if it is not believed."""
    messages: dict[str, str]
    """What went wrong, by failed test."""
    doubt: str
    """Why it is not believed; empty if it is."""
    seconds: float = 0.0
    """Processor time that the run says it took."""


def read_report(lines: str, exit_code: int, canaries: Canaries) -> Report:
    """Read what `reporter` wrote, and decide whether to believe it.

    Args:
        lines: One JSON array `[id, outcome, message]` per line; the last one is `["", exit status, seconds]`.
        exit_code: How the process ended.
        canaries: The tests that were added to the hidden ones.
    """
    try:
        rows = [(str(test), outcome, str(message)) for test, outcome, message in map(json.loads, lines.splitlines())]
        seconds = float(rows[-1][2]) if rows and not rows[-1][0] else 0.0
    except (ValueError, TypeError):
        return Report({}, {}, "the report is damaged")
    if not rows or rows[-1][0]:
        return Report({}, {}, f"the tests ended early, with exit code {exit_code}")
    status = {test: str(outcome) for test, outcome, _ in rows[:-1]}
    doubt = _doubt(status, len(rows) - 1, rows[-1][1], exit_code, canaries)
    if doubt:
        return Report({}, {}, doubt)
    for canary in canaries:
        del status[canary]
    return Report(status, {test: message for test, _, message in rows if message and test in status}, "", seconds)


def _doubt(status: dict[str, str], count: int, said: object, exit_code: int, canaries: Canaries) -> str:
    """Name the first thing about a report that an honest run cannot show."""
    if exit_code != TESTS_FAILED or said != exit_code:
        return f"the tests ended with exit code {exit_code}, and a run with a test that must fail ends with 1"
    if count != len(status):
        return "a test was reported twice"
    if status.get(canaries.failing) != "FAILED":
        return f"a test that must fail is reported as {status.get(canaries.failing, 'absent')}"
    if status.get(canaries.passing) != "PASSED":
        return f"a test that must pass is reported as {status.get(canaries.passing, 'absent')}"
    return ""
