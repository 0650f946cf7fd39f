import io
import itertools
import json
import tarfile
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest
from agentbench_envs.swe.issues import HINTS, put_into_words, telling, write_issue
from agentbench_envs.swe.tasks import LIBRARIES, Instance, load, read_archive, read_tree, save, shipped
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.core.registry import resolve

DIFF = "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
ROW = {"instance_id": "o__r-1", "repo": "o/r", "FAIL_TO_PASS": '["t.py::a"]', "PASS_TO_PASS": '["t.py::b"]'}


def write(folder: Path, *rows: object) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_recorded_instances_are_read(golden: Path) -> None:
    instances = load(golden / "environments" / "swe_instances.json.gz")
    assert len(instances) >= 30
    for instance in instances:
        assert instance.fail_to_pass and instance.pass_to_pass and instance.bug_patch and instance.patch
        assert instance.repo in instance.sdist
        assert not instance.image
        assert instance.repaired and not set(instance.repaired) & set(instance.withheld)


def test_swe_bench_writes_lists_as_text_and_names_its_image_by_rule(tmp_path: Path) -> None:
    row = ROW | {
        "patch": DIFF,
        "test_patch": DIFF.replace("m.py", "test_m.py"),
        "base_commit": "c",
        "problem_statement": "P",
    }
    (instance,) = load(write(tmp_path, row))
    assert instance.fail_to_pass == ("t.py::a",)
    assert instance.image == "swebench/sweb.eval.x86_64.o_1776_r-1:latest"
    assert instance.withheld == ["pkg/test_m.py", "t.py"]
    assert write_issue(instance, {}, "none") == "P"


def test_a_row_of_swe_gym_names_the_image_of_swe_gym(tmp_path: Path) -> None:
    row = ROW | {"instance_id": "Project-MONAI__MONAI-1", "repo": "Project-MONAI/MONAI", "patch": DIFF}
    (instance,) = load(write(tmp_path, row))
    assert instance.image == "xingyaoww/sweb.eval.x86_64.project-monai_s_monai-1:latest"
    assert load(write(tmp_path, row | {"image": "mine"}))[0].image == "mine"


def test_the_patch_of_swe_smith_is_the_bug(tmp_path: Path) -> None:
    row = ROW | {"patch": DIFF, "image_name": "jyangballin/swesmith.x86_64.o_1776_r.c", "PASS_TO_PASS": ["t.py::b"]}
    (instance,) = load(write(tmp_path, row))
    assert (instance.bug_patch, instance.patch) == (DIFF, "")
    assert instance.image == row["image_name"]
    assert instance.repaired == ["pkg/m.py"]


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.jsonl.gz"])
def test_what_is_saved_is_read(tmp_path: Path, name: str) -> None:
    chosen = shipped()[:5]
    save(tmp_path / name, chosen)
    assert load(tmp_path / name) == chosen


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no tasks"),
        ("{", "line 1 is no JSON"),
        ("[7]", "task 0 is no JSON object; expected a task of"),
        ('[{"instance_id": 7}]', "task 0 has no instance_id"),
        ('{"instance_id": "a", "failures": [1]}', "task 0 has no failures that could be true"),
        ('{"instance_id": "a", "requires": 3}', "task 0 has no requires that could be true"),
        ('{"instances": 5}', "holds no tasks"),
        ("[" * 100_000, "line 1 is no JSON"),
        ('{"instance_id": "a"}', "expected FAIL_TO_PASS and a patch"),
        ('{"instance_id": "a", "FAIL_TO_PASS": "x"}', "no list of tests"),
    ],
)
def test_a_file_without_tasks_is_refused_in_a_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=reason):
        load(path)


def test_any_value_in_any_place_is_read_or_refused_in_a_line(tmp_path: Path) -> None:
    row = ROW | shipped()[0].to_json() | {"patch": DIFF, "test_patch": DIFF, "problem_statement": "P", "image": "i"}
    row |= {"failures": {"t.py::a": "m"}, "requires": ["six==1.17.0"], "docker_image": "i", "image_name": "i"}
    nested = json.loads("[" * 900 + "]" * 900)
    for key, value in itertools.product(
        row, (None, 5, 1.5, True, "x", "[" * 10**5, [], {}, [5], [[]], {"a": 5}, nested)
    ):
        for place in (row | {key: value}, [value], {"instances": value}):
            path = tmp_path / "tasks.json"
            path.write_text(json.dumps(place), encoding="utf-8")
            with suppress(UsageError):
                assert all(Instance(**asdict(each)).content for each in load(path))


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "tasks.jsonl.gz", shipped()[:9])
    whole = (tmp_path / "tasks.jsonl.gz").read_bytes()
    for damaged in (whole[:-9], whole[:10], whole[:99] + b"\0" * 99 + whole[198:]):
        (tmp_path / "tasks.jsonl.gz").write_bytes(damaged)
        with pytest.raises(UsageError, match="cannot be read"):
            load(tmp_path / "tasks.jsonl.gz")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none")


def test_shipped_tasks_are_different_and_whole() -> None:
    instances = shipped()
    assert len({instance.content for instance in instances}) == len(instances)
    assert {instance.sdist for instance in instances} == {path.name for path in LIBRARIES.iterdir()}
    for instance in instances:
        tree = read_tree(instance.sdist)
        assert set(instance.test_files) <= tree.keys()
        assert set(instance.repaired) <= tree.keys()
        assert not set(instance.fail_to_pass) & set(instance.pass_to_pass)


def test_no_function_is_broken_in_two_splits() -> None:
    splits: dict[tuple[str, str], set[str]] = {}
    for instance in shipped():
        for place in instance.function.split():
            splits.setdefault((instance.sdist, place), set()).add(instance.split)
    assert all(len(found) == 1 for found in splits.values())
    assert {split for found in splits.values() for split in found} == {"train", "valid", "test"}


def test_hints_tell_more_and_more() -> None:
    for instance in shipped()[:20]:
        texts = [write_issue(instance, read_tree(instance.sdist), hints) for hints in HINTS]
        assert all(more.startswith(less) and len(more) > len(less) for less, more in pairwise(texts))
        assert instance.repaired[0] not in texts[0] and instance.repaired[0] in texts[1]
        assert instance.fail_to_pass[0] in texts[3]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("assert 3 == 4\n +  where 3 = add(1, 2)", "`add(1, 2)` gives `3`, expected `4`"),
        ("AssertionError: assert 4 == 3\n +  where 3 = add(1, 2)", "`add(1, 2)` gives `3`, expected `4`"),
        ("assert [1] == [2]", "`[1]` should equal `[2]`"),
        ("assert 3 not in {3}", "`3` should not be in `{3}`"),
        ("assert not 3 < 4", "`3 < 4` should not hold"),
        ("assert False\n +  where False = f(1)", "`f(1)` gives `False`"),
        ("assert not True\n +  where True = f(1)", "`f(1)` gives `True`"),
        ("assert None", ""),
        (
            "assert None == 'x'\n +  where None = show(N(2))\n +    where N(2) = parse('2')",
            "`show(parse('2'))` gives `None`, expected `'x'`",
        ),
        (
            "assert 1 == 2\n +  where 1 = size()\n +    where size = <pkg.box.Box object at 0x7f1c>.size",
            "`Box.size()` gives `1`, expected `2`",
        ),
        ("Failed: DID NOT RAISE <class 'pkg.errors.BoxError'>", "no `BoxError` is raised"),
        ("AssertionError: ValueError not raised", "no `ValueError` is raised"),
        ("AssertionError: 1 != 2", "`1` should equal `2`"),
        ("AssertionError: 1 != 2 : the sum : of one", "`1` should equal `2`"),
        ("AssertionError: 'a : b' != 'a : c' : no", "`'a : b'` should equal `'a : c'`"),
        ("AssertionError: None is not true", ""),
        ("AssertionError: False is not true : no", ""),
        ("AssertionError: Regex pattern did not match.\n Regex: 'a'\n Input: 'b'", "the error says `'b'`"),
        ("KeyError: 'x'", "`KeyError: 'x'`"),
    ],
)
def test_what_a_test_saw_is_put_into_a_users_words(message: str, words: str) -> None:
    assert put_into_words(message) == words


@given(st.text(), st.lists(st.text(max_size=20).map(" +  where ".__add__), max_size=5))
def test_no_message_is_too_strange_for_words(message: str, lines: list[str]) -> None:
    assert len(put_into_words("\n".join([message, *lines]))) < 1000


def test_an_issue_shows_different_behaviours_first() -> None:
    tests = ["t.py::test_a[1]", "t.py::test_a[2]", "t.py::test_b", "t.py::TestStack::test_a"]
    assert telling(tests) == ["t.py::TestStack::test_a", "t.py::test_a[1]", "t.py::test_b"]
    assert telling(tests[:3]) == ["t.py::test_a[1]", "t.py::test_b", "t.py::test_a[2]"]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("t.py::test_a_power_of_two[3]", "a power of two (3)"),
        ("t.py::TestLRUCache::test_get_2", "lru cache: get 2"),
        ("t.py::LFUCacheTest::test_insert", "lfu cache: insert"),
        ("pkg/tests/test_writer.py::test_json", "writer: json"),
        ("t.py::test_days_are_added[start0-2-expected0]", "days are added (2)"),
        ("t.py::test_days_are_added[start0]", "days are added"),
    ],
)
def test_a_tests_name_becomes_a_sentence(test: str, words: str) -> None:
    instance = Instance("i", "pkg", (test,), (), bug_patch=DIFF)
    assert write_issue(instance, {}, "none").split("\n")[-1] == f"- {words}"


def test_an_unknown_tree_says_how_to_fetch_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBENCH_CACHE", str(tmp_path))
    with pytest.raises(PrerequisiteError, match=r"envs build swe --package toolz==1\.2\.0"):
        read_tree("toolz-1.2.0")
    with pytest.raises(UsageError, match="no name"):
        read_tree("../../etc")


def archive(path: Path, **files: bytes) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("p-1/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return path


def test_only_regular_files_come_out_of_an_archive(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", **{"p-1/m.py": b"x", "p-1/__pycache__/m.txt": b"", "p-1/m.pyc": b""})
    assert read_archive(path) == {"m.py": b"x"}


def test_an_archive_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave it"):
        read_archive(archive(tmp_path / "p.tar.gz", **{"p-1/../../m.py": b"x"}))
    (tmp_path / "q.tar.gz").write_bytes(b"no archive")
    with pytest.raises(UsageError, match="cannot be unpacked"):
        read_archive(tmp_path / "q.tar.gz")


def test_an_instance_without_tests_has_no_files() -> None:
    assert Instance("i", "r", (), ()).test_files == []


def test_the_panel_is_that_of_the_tasks_wherever_their_list_lies(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    few = shipped()[:3]
    for path in (tmp_path / "one.jsonl", tmp_path / "deep" / "other.jsonl.gz"):
        save(path, few)
    save(tmp_path / "less.jsonl", few[:2])
    here, there, less = (
        resolve("swe/list:all", tasks=str(path)).digest
        for path in (tmp_path / "one.jsonl", tmp_path / "deep" / "other.jsonl.gz", tmp_path / "less.jsonl")
    )
    assert here == there != less
    assert resolve("swe", spare=3).digest == resolve("swe").digest
    assert resolve("swe", hints="file").digest != resolve("swe").digest
