"""Episodes in real sandboxes: the oracle wins, and no way of pretending does."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agentbench_envs.swe.env import SweEnv
from agentbench_envs.swe.tasks import Instance, load, save, shipped
from agentbench_envs.swe.tools import write

from agentbench.core.errors import UsageError
from agentbench.core.registry import resolve
from agentbench.rollout.launch import check_needs
from agentbench.sandbox.engine import engine, sandboxes

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
def nothing_is_left(swe_image: None) -> Iterator[None]:
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


def test_a_search_shows_lines_as_they_are(env: SweEnv) -> None:
    env.reset(seed=0)
    lines = ["/workspace/repo/ ./run.sh", 'open("../data/x.csv")', "1./3"]
    env.step(write("create", path="deep/x.py", text="\n".join(lines)))
    shown = "".join(f"deep/x.py:{number}:{line}\n" for number, line in enumerate(lines, start=1))
    for where in ({}, {"path": "deep/x.py"}, {"path": "./deep/"}, {"path": "/workspace/repo/deep"}):
        assert env.step(write("search", pattern=r"run\.sh|data/|1\./3", **where)).observation == shown
    assert env.step(write("search", pattern="^def parse")).observation.startswith("formula/parse.py:")
    many = env.step(write("search", pattern="", path="/usr/lib/os-release"))
    assert many.info["valid"] and many.observation.startswith("/usr/lib/os-release:1:")
    nothing = env.step(write("search", pattern="no such words"))
    assert nothing.info["valid"] and nothing.observation == "nothing found"


PREPARED = """
head -c 9 /dev/zero > binary; touch empty; mkfifo pipe; ln -s nowhere dangling; ln -s /etc/passwd outside
printf '#!/bin/sh\n# caf\\351\necho old\n' > tool; chmod 755 tool; ln -s tool link; truncate -s 2M large
"""


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        *((write("create", path=path, text="x"), "already") for path in ("formula", "", ".", "tool", "link", "pipe")),
        *((write("create", path=path, text="x"), "already") for path in ("dangling", "outside", "README.md/")),
        (write("create", path="README.md/x", text="x"), "cannot be done"),
        *((write("edit", path=path, old="o", new="x"), "no regular file") for path in ("formula", "", "dangling")),
        (write("edit", path="outside", old="root:x:0", new="x"), "cannot be done"),
        (write("edit", path="large", old="o", new="x"), "larger than"),
        (write("edit", path="binary", old="o", new="x"), "0 times"),
        *((write("view", path=path), "no file") for path in ("nothing", "dangling", "pipe", "/dev/zero")),
        *((write("view", path=path), "no text") for path in ("binary", "large")),
        (write("view", path="README.md", start="3", end="2"), "lines '3' to '2'"),
        (write("view", path="README.md", start="one"), "lines 'one'"),
        (write("view", path="README.md", start="9999"), "ends before line 9999"),
        (write("search", pattern="["), "grep: "),
        (write("search", pattern="x", path="nowhere"), "there is no nowhere"),
    ],
)
def test_what_a_tool_cannot_do_is_said_and_changes_nothing(env: SweEnv, call: str, reason: str) -> None:
    env.reset(seed=0)
    state = bash("find . -path ./.git -prune -o -printf '%p %m %l %s %T@\\n' | sort")
    env.step(bash(PREPARED))
    before = env.step(state).observation
    step = env.step(call)
    assert reason in step.observation and not step.info["valid"]
    assert env.step(state).observation == before
    assert env.step(write("undo")).observation == "there is nothing to take back"


def test_an_edit_keeps_mode_links_and_bytes_and_so_does_taking_it_back(env: SweEnv) -> None:
    env.reset(seed=0)
    state = bash("stat -c '%a %F' tool link; od -c tool | head -3; ./tool")
    env.step(bash(PREPARED))
    before = env.step(state).observation
    for path in ("tool", "link"):
        assert env.step(write("edit", path=path, old="old", new="new")).info["valid"]
        assert env.step(state).observation == before.replace("o   l   d", "n   e   w").replace("old", "new")
        assert env.step(write("undo")).info["valid"]
        assert env.step(state).observation == before


def test_an_edit_without_room_leaves_the_file_as_it_was(env: SweEnv) -> None:
    env.reset(seed=0)
    env.step(bash("echo old > small; cat /dev/zero > filler"))
    assert "No space left" in env.step(write("edit", path="small", old="old", new="x" * 20_000)).observation
    assert env.step(bash("cat small")).observation == "Exit code: 0\nold"
    assert not env.step(write("undo")).info["valid"]


LISTED = """
FROM agentbench/swe
RUN mkdir /testbed && cd /testbed && echo 'def same(text): return text.split()[0]' > words.py
"""
TESTS = """\
diff --git a/test_words.py b/test_words.py
new file mode 100644
--- /dev/null
+++ b/test_words.py
@@ -0,0 +1,6 @@
+import pytest
+from words import same
+
+@pytest.mark.parametrize("text", ["one", "a b", "a c"])
+def test_same(text):
+    assert same(text) == text
"""
REPAIR = """\
--- a/words.py
+++ b/words.py
@@ -1 +1 @@
-def same(text): return text.split()[0]
+def same(text): return text
"""


@pytest.fixture
def listed() -> Iterator[str]:
    """An image that holds a repository, as those of SWE-bench do."""
    name = "agentbench-test/listed"
    for said in engine().build(
        fileobj=io.BytesIO(LISTED.encode()), tag=name, rm=True, network_mode="none", decode=True
    ):
        assert "error" not in said, said
    yield name
    engine().remove_image(name, force=True)


def test_a_task_of_swe_bench_whose_ids_were_cut_is_played(listed: str, tmp_path: Path) -> None:
    row = {"instance_id": "o__words-1", "repo": "o/words", "image": listed, "patch": REPAIR, "test_patch": TESTS}
    row |= {"FAIL_TO_PASS": '["test_words.py::test_same[a"]', "PASS_TO_PASS": '["test_words.py::test_same[one]"]'}
    (tmp_path / "tasks.json").write_text(json.dumps([row | {"problem_statement": "Words get lost."}]))
    env = SweEnv(tasks=str(tmp_path / "tasks.json"), split="all")
    env.reset(seed=0)
    assert env.step(write("submit")).info["fail_to_pass_rate"] == 0
    env.reset(seed=0)
    steps = [env.step(action) for action in env.oracle()]
    env.close()
    assert steps[-1].info["success"], steps[-1].info


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
