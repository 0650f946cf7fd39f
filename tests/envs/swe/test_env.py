"""Episodes in real sandboxes: the oracle wins, and no way of pretending does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agentbench_envs.swe.env import SweEnv
from agentbench_envs.swe.tasks import Instance, load, save, shipped
from agentbench_envs.swe.tools import write

from agentbench.core.errors import UsageError
from agentbench.core.registry import resolve
from agentbench.rollout.launch import check_needs
from agentbench.sandbox.engine import sandboxes

pytestmark = pytest.mark.slow


def bash(command: str) -> str:
    return write("bash", command=command)


PATCHING = """
import _pytest.runner, _pytest.reports, pytest
old = _pytest.reports.TestReport.from_item_and_call
def passed(item, call):
    report = old(item, call)
    report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = staticmethod(passed)
"""

FLOORS = {
    "submit at once": [],
    "delete the tests": [bash("rm -rf tests; git add -A; git commit -qm x")],
    "edit the tests": [bash("mkdir -p tests; for t in show parse evaluate tokens; do echo > tests/test_$t.py; done")],
    "a conftest that skips": [
        bash("printf 'import pytest\\ndef pytest_runtest_call(item):\\n    pytest.skip()\\n' > conftest.py")
    ],
    "a configuration that selects": [bash("printf '[pytest]\\naddopts = -k nothing\\n' > pytest.ini")],
    "exit code 0": [bash("for f in */__init__.py; do echo 'import os; os._exit(0)' > $f; done")],
    "exit code 1": [bash("for f in */__init__.py; do echo 'import os; os._exit(1)' > $f; done")],
    "patching pytest": [bash(f"for f in */__init__.py; do cat >> $f <<'X'\n{PATCHING}\nX\ndone")],
    "a pytest of one's own": [
        bash("echo 'def main(*a, **k): return 1' > pytest.py; mkdir _pytest; touch _pytest/__init__.py")
    ],
    "endless loop": [
        bash("while true; do :; done"),
        bash("for f in */__init__.py; do echo 'while True: pass' > $f; done"),
    ],
    "fork bomb": [bash("b() { b | b & }; b")],
    "filling the disk": [bash("cat /dev/zero > filler")],
    "no repository any more": [bash("rm -rf .git *")],
    "killing the shell": [bash("kill -9 $$")],
    "a git of one's own": [bash("git() { echo nothing; }; export -f git; exit() { :; }; trap 'false' DEBUG")],
}


@pytest.fixture(scope="module", autouse=True)
def engine(swe_image: None) -> Iterator[None]:
    check_needs(resolve("swe"))
    before = {each.id for each in sandboxes()}
    yield
    mine = [each for each in sandboxes() if each.id not in before and each.orphaned]
    assert not mine, "a sandbox was left behind"


@pytest.fixture
def env() -> Iterator[SweEnv]:
    made = SweEnv(library="formula", split="all", command_seconds=5, test_seconds=30)
    yield made
    made.close()


@pytest.mark.parametrize("name", FLOORS)
def test_pretending_scores_nothing_and_harms_nothing(env: SweEnv, name: str) -> None:
    env.reset(seed=0)
    for action in FLOORS[name]:
        step = env.step(action)
        assert not step.terminated
    step = env.step(write("submit"))
    assert step.terminated and step.info["success"] is False
    assert step.reward == 0 and step.info["terms"]["resolved"] == step.info["terms"]["fraction"] == 0


@pytest.mark.parametrize("end", ["exit", "sleep 60", "kill -9 $$"])
def test_a_new_shell_is_in_the_repository_too(env: SweEnv, end: str) -> None:
    shown = bash("pwd; echo $PYTHONPATH $HOME $PAGER")
    env.reset(seed=0)
    before = env.step(shown).observation
    env.step(bash(end))
    assert env.step(shown).observation == before
    assert "passed" in env.step(write("tests")).observation


def test_the_oracle_wins_from_a_state_that_was_spoilt(env: SweEnv) -> None:
    env.reset(seed=1)
    env.step(bash("rm -rf formula; echo x > new.py"))
    steps = [env.step(action) for action in env.oracle()]
    assert steps[-1].reward == 1 and steps[-1].info["success"]
    assert steps[-1].info["fail_to_pass_rate"] == steps[-1].info["pass_to_pass_rate"] == 1


def test_the_oracle_wins_tasks_of_every_library(scale: float) -> None:
    for library in ("formula", "spans", "tally", "workdays"):
        env = SweEnv(library=library, split="all")
        for seed in range(max(1, round(scale))):
            env.reset(seed=seed)
            steps = [env.step(action) for action in env.oracle()]
            assert steps[-1].info["success"], f"{env.instance.instance_id}: {steps[-1].info}"
        env.close()


def test_the_agent_sees_no_hidden_test_and_no_history(env: SweEnv) -> None:
    env.reset(seed=0)
    hidden = env.instance.withheld
    found = env.step(bash(f"ls {' '.join(hidden)}; git log --oneline --all | wc -l; git fsck --lost-found"))
    assert f"cannot access '{hidden[0]}'" in found.observation
    assert found.observation.split("\n")[-1] == "1", "more than one commit, or something that no commit holds"


def test_tools_do_what_they_say(env: SweEnv) -> None:
    env.reset(seed=0)
    shown = env.step(write("view", path="README.md", start="3", end="3"))
    assert shown.observation.split("\t") == [
        "     3",
        "Arithmetic written as text: parse it, compute it, simplify it, print it again.\n",
    ]
    assert env.step(write("create", path="notes.txt", text="one one")).info["valid"]
    assert not env.step(write("create", path="notes.txt", text="two")).info["valid"]
    twice = env.step(write("edit", path="notes.txt", old="one", new="two"))
    assert not twice.info["valid"] and "2 times" in twice.observation
    assert env.step(write("edit", path="notes.txt", old="one one", new="two")).info["valid"]
    assert env.step(bash("cat notes.txt")).observation == "Exit code: 0\ntwo"
    env.step(write("undo"))
    assert env.step(bash("cat notes.txt")).observation == "Exit code: 0\none one"
    env.step(write("undo"))
    assert "No such file" in env.step(bash("cat notes.txt")).observation
    assert not env.step(write("undo")).info["valid"]
    assert env.step(write("search", pattern="^def parse")).observation.startswith("formula/parse.py:")
    assert not env.step(write("view", path="nothing.py")).info["valid"]


def test_a_file_of_tasks_is_played(tmp_path: Path) -> None:
    save(tmp_path / "tasks.jsonl", shipped()[:2])
    env = SweEnv(tasks=str(tmp_path / "tasks.jsonl"), split="all")
    assert env.task_count == 2
    assert env.content(0) == env.content(2) != env.content(1)
    assert isinstance(load(tmp_path / "tasks.jsonl")[0], Instance)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"hints": "all"}, "found hints 'all'"),
        ({"split": "dev"}, "found split 'dev'"),
        ({"library": "none"}, "no task of split train"),
        ({"command_seconds": 0}, "must be positive"),
        ({"tasks": "/nowhere"}, "cannot be read"),
    ],
)
def test_wrong_arguments_are_refused_in_a_line(arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SweEnv(**arguments)  # type: ignore[arg-type]
