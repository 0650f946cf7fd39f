"""What makes a bug a task, in real sandboxes; and tasks that are made when they are asked for."""

import io
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from agentbench_envs.swe import fresh, places
from agentbench_envs.swe.build import Library, fetch, main, make_tasks
from agentbench_envs.swe.fresh import FreshEnv, fresh_task
from agentbench_envs.swe.mutate import Mutant, Mutation, diff
from agentbench_envs.swe.places import open_sandbox, this_python
from agentbench_envs.swe.tasks import cache_folder, shipped, split_of

from agentbench.core.errors import AgentBenchError, PrerequisiteError, UsageError
from agentbench.sandbox.process import missing_bubblewrap

MODULE = """\
from pathlib import Path


def double(x):
    return 2 * x


def count_down(n):
    while n:
        n -= 1
    return n


def unused():
    return 1
"""
TESTS = """\
import pytest

from small import count_down, double


def test_twice_as_much():
    assert double(3) == 6


@pytest.mark.parametrize("n", range(4))
def test_counting_ends_at_zero(n):
    assert count_down(n) == 0
"""
ALTERNATING = """\
    mark = Path("/tmp/mark")
    known = mark.exists()
    mark.unlink() if known else mark.touch()
    return 2 * x + (not known)
"""

container = pytest.mark.usefixtures("swe_image")


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Put a source distribution where fetched ones are kept, and return its name."""
    monkeypatch.setenv("AGENTBENCH_CACHE", str(tmp_path))

    def bring(**files: str) -> str:
        cache_folder().mkdir(exist_ok=True)
        with tarfile.open(cache_folder() / "small-1.0.tar.gz", "w:gz") as archive:
            for name, text in files.items():
                member = tarfile.TarInfo(f"small-1.0/{name.replace('__', '/')}.py")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        return "small-1.0"

    return bring


def mutant(old: str, new: str, function: str = "double") -> Mutant:
    before, after = {"small.py": MODULE}, {"small.py": MODULE.replace(old, new)}
    return Mutant((Mutation("by hand", "small.py", function, 0, 0, ""),), diff(before, after), diff(after, before))


@pytest.mark.slow
@container
def test_a_bug_is_a_task_if_some_tests_notice_it_and_always_say_the_same(brought: Callable[..., str]) -> None:
    library = Library(brought(small=MODULE, tests__test_small=TESTS), (), (), open_sandbox)
    assert len(library.passing) == 5
    assert library.limit in range(6, 12), "by processor time, which is little here however busy the machine is"
    library.limit = 3
    reasons = {
        "no effect": mutant("return 1", "return 2", "unused"),
        "cut off": mutant("n -= 1", "n -= 0", "count_down"),
        "breaks everything": mutant("return n", "return 1", "count_down"),
        "tests are missing": mutant("def double", "def treble"),
        "differs from run to run": mutant("    return 2 * x\n", ALTERNATING),
    }
    assert {reason: library.judge("slip", each).reason for reason, each in reasons.items()} == {r: r for r in reasons}
    verdict = library.judge("slip", mutant("2 * x", "x"))
    assert verdict.reason == "valid" and verdict.instance is not None
    assert verdict.instance.repo == "small" and verdict.instance.function == "small.py::double"
    assert verdict.instance.fail_to_pass == ("tests/test_small.py::test_twice_as_much",)
    assert len(verdict.instance.pass_to_pass) == 4
    assert verdict.instance.failures[verdict.instance.fail_to_pass[0]].endswith("where 3 = double(3)")


@pytest.mark.slow
@container
def test_a_package_whose_tests_cannot_run_says_what_is_missing(brought: Callable[..., str]) -> None:
    name = brought(small=MODULE, test_small="import nowhere_to_be_found\n")
    with pytest.raises(UsageError, match=r"no test of small-1\.0 passes: .*No module named 'nowhere_to_be_found'"):
        Library(name, (), (), open_sandbox)


@pytest.mark.slow
@container
def test_equal_seeds_make_equal_tasks_of_the_wanted_split() -> None:
    library = Library("spans", (), (), open_sandbox)
    wish = {"seed": 3, "recipes": ("slip",), "split": "test", "say": lambda line: None}
    first, again = (list(make_tasks(library, 2, jobs=jobs, **wish)) for jobs in (1, 2))  # type: ignore[arg-type]
    assert first == again and [instance.split for instance in first] == ["test", "test"]


def test_a_package_without_tests_is_refused(brought: Callable[..., str]) -> None:
    with pytest.raises(UsageError, match="has no tests"):
        Library(brought(small=MODULE), (), (), open_sandbox)


@pytest.mark.parametrize("requirement", ["toolz", "toolz>=1", "../x==1", "-r==1"])
def test_only_a_name_with_its_version_is_fetched(requirement: str) -> None:
    with pytest.raises(UsageError, match="expected name==version"):
        fetch(requirement)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "one of the arguments --package --library is required"),
        (["--library", "nothing"], "invalid choice: 'nothing'"),
        (["--library", "formula", "--count", "-1"], "found --count -1"),
        (["--library", "formula", "--jobs", "0"], "--jobs 0"),
        (["--library", "formula", "--out", "/nowhere/tasks.jsonl"], "there is no folder"),
        (["--library", "formula", "--tests", "none.py"], "has no file none.py"),
    ],
)
def test_wrong_arguments_are_refused_in_a_line(arguments: list[str], reason: str) -> None:
    with pytest.raises(AgentBenchError, match=reason) as error:
        main(arguments)
    assert error.value.exit_code == 2 and "\n" not in str(error.value)


@pytest.mark.slow
@container
def test_a_seed_makes_the_same_task_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for machine in ("one", "other"):
        monkeypatch.setenv("AGENTBENCH_CACHE", str(tmp_path / machine))
        made.append(fresh_task("spans", 5))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    assert made[0] == made[1] == fresh_task("spans", 5), "the second time it is read, and no sandbox is needed"
    assert {split_of("spans", place) for place in made[0].function.split()} == {"train"}


@pytest.mark.slow
def test_a_library_is_opened_while_another_one_is_being_opened() -> None:
    if problem := missing_bubblewrap():
        pytest.skip(problem)
    with ThreadPoolExecutor(1) as other, fresh._opening["formula", "process"]:
        assert other.submit(fresh._open, "spans", "process").result(timeout=300).passing


@pytest.mark.slow
@container
def test_the_oracle_wins_tasks_that_were_just_made(scale: float) -> None:
    env = FreshEnv(recipe="slip")
    assert env.task_count is None
    contents = set()
    for seed in range(max(2, round(2 * scale))):
        env.reset(seed=seed)
        contents.add(env.content(seed))
        steps = [env.step(action) for action in env.oracle()]
        assert steps[-1].info["success"], f"{env.instance.instance_id}: {steps[-1].info}"
    env.close()
    assert len(contents) > 1


@pytest.mark.parametrize("split", ["valid", "test"])
def test_only_train_is_made_and_the_other_splits_are_those_that_came_with_it(split: str) -> None:
    env = FreshEnv(split=split)
    expected = [instance.content for instance in shipped() if instance.split == split]
    assert [env.content(seed) for seed in range(env.task_count or 0)] == expected


def test_a_python_that_does_not_work_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setattr(places, "SYSTEM", f"{tmp_path}:{places.SYSTEM}")
    with pytest.raises(PrerequisiteError, match="does not work") as error:
        this_python.__wrapped__()
    assert "\n" not in str(error.value)


def test_fresh_tasks_cannot_come_from_a_file_or_from_what_was_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="swe/list"):
        FreshEnv(tasks=str(tmp_path))
    with pytest.raises(UsageError, match="found recipe 'none'"):
        FreshEnv(recipe="none")  # type: ignore[arg-type]
    with pytest.raises(PrerequisiteError, match="envs build swe --package nothing==1"):
        FreshEnv(library="nothing-1")
