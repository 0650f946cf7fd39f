"""What is on disk survives: torn, damaged, fought over, or with nowhere left to write."""

import gzip
import json
import math
import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbench.core.errors import IntegrityError, RecordError, UsageError
from agentbench.core.records import Planned, RunDirectory, read_lines, turn_hash, write_json
from agentbench.core.types import End, Reply, Trajectory, Turn
from tests.disks import as_nobody, little_room

PLANNED = Planned("key0", "task0", 7, 0)

words = st.text(st.characters(exclude_categories=()), max_size=40).filter(
    # JSON has one form for a pair of surrogates and for the character that it stands for.
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
numbers = st.floats(-1e300, 1e300)  # Sums of four of them are finite.
ids = st.lists(st.integers(0, 2**31), max_size=4).map(tuple)
many = st.lists(numbers, max_size=4).map(tuple)
replies = st.builds(
    Reply,
    text=words,
    prompt_ids=ids,
    token_ids=ids,
    logprobs=many,
    entropies=many,
    values=st.none() | many,
    fresh_context=st.booleans(),
    finish=st.sampled_from(["stop", "length"]),
    policy_version=st.integers(0, 10**6),
    usage=st.dictionaries(words, numbers, max_size=2),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
turns = st.builds(
    Turn,
    observation=words,
    reply=replies,
    action=words,
    reward=numbers,
    terms=st.dictionaries(words, numbers, max_size=3),
    potential=numbers,
    valid=st.booleans(),
    info=st.dictionaries(words, json_values, max_size=3),
    env_seconds=st.floats(0, 100),
    policy_seconds=st.floats(0, 100),
    hash=st.just(""),
)
ends: st.SearchStrategy[End] = st.sampled_from(
    ["terminated", "truncated", "max_turns", "max_tokens", "max_invalid", "timeout", "failure"]
)


def chained(trajectory: Trajectory) -> Trajectory:
    """Give every turn its hash."""
    previous, last = "", len(trajectory.turns) - 1
    for k, turn in enumerate(trajectory.turns):
        end = trajectory.end if k == last and trajectory.end in ("terminated", "truncated") else None
        previous = turn.hash = turn_hash(previous, turn.observation, turn.action, turn.reward, turn.terms, end)
    return trajectory


trajectories = st.builds(
    Trajectory,
    env=words,
    split=words,
    task=words,
    seed=st.integers(0, 2**63 - 1),
    trial=st.integers(0, 9),
    retry=st.integers(0, 9),
    turns=st.lists(turns, max_size=4),
    final_observation=words,
    final_potential=numbers,
    last_value=st.none() | numbers,
    success=st.none() | st.booleans(),
    failure=st.none() | st.fixed_dictionaries({"cause": words, "message": words}),
    end=ends,
).map(chained)


def example(*rewards: float, observation: str = "seen", end: End = "terminated") -> Trajectory:
    played = [
        Turn(observation, Reply("said"), "did", reward, {"r": reward}, 0.0, True, {}, 0.1, 0.2, "")
        for reward in rewards or (1.0, 2.0)
    ]
    return chained(Trajectory("env/v@0", "test", "task0", 7, turns=played, success=True, end=end))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path, "env/v@0", "policy")


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(trajectories, min_size=1, max_size=3))
def test_every_trajectory_comes_back_as_it_went_in(tmp_path: Path, written: list[Trajectory]) -> None:
    run = RunDirectory.create(tmp_path, "env", "policy")
    with run.writing() as writer:
        rows = [writer.append(replace(PLANNED, key=str(k)), trajectory) for k, trajectory in enumerate(written)]
    assert run.rows() == json.loads(json.dumps(rows))
    assert [run.trajectory(row) for row in run.rows()] == written


def test_a_row_adds_up_each_term_and_names_the_sandbox(run: RunDirectory) -> None:
    trajectory = example(0.5, 1.0, -2.0)
    trajectory.turns[0].terms["once"] = 1.0
    trajectory.sandbox = {"kind": "docker", "digest": "sha256:1", "network": "none"}
    with run.writing() as writer:
        row = writer.append(PLANNED, chained(trajectory))
    assert run.rows()[0]["terms"] == {"once": 1.0, "r": -0.5}
    assert run.rows()[0]["sandbox"] == run.trajectory(row).sandbox == trajectory.sandbox


@pytest.mark.parametrize("terms", [None, [1.0], {"r": "much"}, {"r": math.nan}, {"r": None}])
def test_a_row_whose_terms_are_no_numbers_is_damage(run: RunDirectory, terms: Any) -> None:
    with run.writing() as writer:
        row = writer.append(PLANNED, example())
    path = run.path / "episodes.jsonl"
    path.write_text(json.dumps({**row, "terms": terms}) + "\n")
    with pytest.raises(IntegrityError, match="has no terms that could be true"):
        run.rows()
    path.write_text(json.dumps({name: value for name, value in row.items() if name != "terms"}) + "\n")
    assert run.rows()[0]["reward"] == 3.0, "earlier versions wrote no terms"


@pytest.mark.parametrize("turns", [-1, 10**15])
def test_a_row_of_more_turns_than_anybody_plays_is_damage(run: RunDirectory, turns: int) -> None:
    with run.writing() as writer:
        row = writer.append(PLANNED, example())
    (run.path / "episodes.jsonl").write_text(json.dumps({**row, "turns": turns}) + "\n")
    with pytest.raises(IntegrityError, match="has no turns that could be true"):
        run.rows()


def test_strange_numbers_come_back_too(run: RunDirectory) -> None:
    strange = example(math.inf, -math.inf, 0.1 + 0.2, 5e-324, -0.0)
    with run.writing() as writer:
        row = writer.append(PLANNED, strange)
    back = [turn.reward for turn in run.trajectory(row).turns]
    assert back == [turn.reward for turn in strange.turns]
    assert math.copysign(1, back[-1]) == -1


def test_images_stay_out_of_the_record(run: RunDirectory) -> None:
    trajectory = example()
    trajectory.turns[0].info = {"image": b"\x89PNG", "goal": "win"}
    with run.writing() as writer:
        row = writer.append(PLANNED, trajectory)
    assert run.trajectory(row).turns[0].info == {"goal": "win"}


def test_a_row_sums_its_trajectory_up(run: RunDirectory) -> None:
    trajectory = example(1.0, 2.5)
    trajectory.turns[0].valid = False
    trajectory.turns[0].reply = Reply("a", prompt_ids=(1, 2, 3), token_ids=(4, 5))
    trajectory.turns[1].reply = Reply("b", usage={"prompt_tokens": 10, "completion_tokens": 7})
    with run.writing() as writer:
        row = writer.append(PLANNED, trajectory)
    expected = {
        "key": "key0", "task": "task0", "seed": 7, "trial": 0, "retry": 0, "end": "terminated", "scored": True,
        "success": True, "reward": 3.5, "turns": 2, "invalid": 1, "tokens": 9, "prompt_tokens": 13, "failure": None,
        "hash": trajectory.turns[1].hash, "shard": "0000.jsonl.gz", "offset": 0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_plan_and_state_come_back(run: RunDirectory) -> None:
    plan = [Planned(f"k{n}", f"t{n % 2}", n, n // 2) for n in range(4)]
    with run.writing() as writer:
        writer.write_plan(plan)
        writer.write_state(status="started", where=run.path)
    assert run.plan() == plan
    assert run.state == {"status": "started", "where": str(run.path)}


def test_each_writer_has_a_shard_of_its_own(run: RunDirectory) -> None:
    for number in range(3):
        with run.writing() as writer:
            row = writer.append(replace(PLANNED, key=str(number)), example(float(number)))
        assert row["shard"] == f"000{number}.jsonl.gz"
    assert [run.trajectory(row).turns[0].reward for row in run.rows()] == [0.0, 1.0, 2.0]


def test_a_shard_is_read_by_every_tool_that_knows_gzip(run: RunDirectory) -> None:
    with run.writing() as writer:
        writer.append(PLANNED, example())
        writer.append(replace(PLANNED, key="key1"), example())
    with gzip.open(run.path / "trajectories" / "0000.jsonl.gz", "rt") as shard:
        lines = [json.loads(line) for line in shard]
    assert len(lines) == 2 * (1 + 2)


def test_no_two_runs_share_a_directory(tmp_path: Path) -> None:
    paths = {RunDirectory.create(tmp_path, "a/b@0", "../../p\x00q").path for _ in range(50)}
    assert len(paths) == 50
    assert {path.parent for path in paths} == {tmp_path}


@pytest.mark.parametrize("cut", [1, 2, 10, -2])
def test_a_torn_last_line_is_no_row_and_is_written_over(run: RunDirectory, cut: int) -> None:
    with run.writing() as writer:
        for key in "ab":
            writer.append(replace(PLANNED, key=key), example())
    episodes = run.path / "episodes.jsonl"
    whole = episodes.read_bytes()
    first, second, _ = whole.split(b"\n")
    episodes.write_bytes(first + b"\n" + second[: len(second) + 1 - cut if cut > 0 else -cut])
    assert [row["key"] for row in run.rows()] == ["a"], "a line without its end is no row: it would be lost on resume"
    with run.writing() as writer:
        writer.append(replace(PLANNED, key="c"), example())
    assert [row["key"] for row in run.rows()] == ["a", "c"]
    assert all(run.trajectory(row).turns for row in run.rows())


@pytest.mark.parametrize("damage", [b"{", b"\x00\x00\x00", b"[]", b"7", b"\xff\xfe"])
def test_damage_in_the_middle_is_found(run: RunDirectory, damage: bytes) -> None:
    with run.writing() as writer:
        for key in "abc":
            writer.append(replace(PLANNED, key=key), example())
    episodes = run.path / "episodes.jsonl"
    lines = episodes.read_bytes().split(b"\n")
    lines[1] = damage
    episodes.write_bytes(b"\n".join(lines))
    with pytest.raises(IntegrityError, match="line 2"):
        run.rows()


READERS: dict[str, Callable[[RunDirectory], Any]] = {
    "run.json": lambda run: run.state["key"],
    "lock.json": lambda run: run.lock["key"],
    "plan.jsonl": RunDirectory.plan,
    "episodes.jsonl": lambda run: [row["key"] for row in run.rows()],
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("content", "message"), [("{}\n", "lacks 'key'"), ("[]\n", "is no JSON object")])
def test_what_a_file_should_say_and_does_not_is_damage(
    run: RunDirectory, name: str, content: str, message: str
) -> None:
    (run.path / name).write_text(content)
    with pytest.raises(IntegrityError, match=f"{name}.* {message}"):
        READERS[name](run)


def test_a_file_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    assert list(read_lines(tmp_path / "nothing.jsonl")) == []


def _rewrite(run: RunDirectory, row: dict[str, Any], change: dict[str, Any], turn: int) -> None:
    """Forge one turn on disk and point the row at the forgery."""
    path = run.path / "trajectories" / str(row["shard"])
    head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    lines[turn] = json.dumps({**json.loads(lines[turn]), **change})
    member = gzip.compress("".join(line + "\n" for line in [head, *lines]).encode())
    path.write_bytes(member)
    row["length"] = len(member)


@pytest.mark.parametrize(
    "change",
    [{"reward": 9.0}, {"observation": "forged"}, {"action": "other"}, {"terms": {"r": 2.0}}, {"hash": "0" * 64}],
)
@pytest.mark.parametrize("turn", [0, 1])
def test_a_forged_turn_breaks_the_chain(run: RunDirectory, change: dict[str, Any], turn: int) -> None:
    with run.writing() as writer:
        row = writer.append(PLANNED, example(1.0, 3.0))
    _rewrite(run, row, change, turn)
    with pytest.raises(IntegrityError, match=f"breaks at turn {turn}"):
        run.trajectory(row)


def test_a_missing_turn_is_found(run: RunDirectory) -> None:
    with run.writing() as writer:
        row = writer.append(PLANNED, example(1.0, 3.0, end="max_turns"))
        shorter = writer.append(PLANNED, example(1.0, end="max_turns"))
    with pytest.raises(IntegrityError, match="another trajectory"):
        run.trajectory({**row, **{name: shorter[name] for name in ("shard", "offset", "length")}})


def test_the_hash_knows_how_the_environment_ended_the_episode() -> None:
    heads = {example(1.0, end=end).head_hash for end in ("terminated", "truncated", "max_turns")}
    assert len(heads) == 3
    assert example(1.0, end="max_turns").head_hash == example(1.0, end="timeout").head_hash


def test_times_replies_and_other_info_are_no_part_of_the_hash() -> None:
    one, other = example(1.0), example(1.0)
    other.turns[0].env_seconds, other.turns[0].info, other.turns[0].reply = 9.0, {"x": 1}, Reply("said otherwise")
    assert chained(other).head_hash == one.head_hash


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "offset"])
def test_a_damaged_shard_is_found(run: RunDirectory, damage: str) -> None:
    with run.writing() as writer:
        row = writer.append(PLANNED, example())
    path = run.path / "trajectories" / row["shard"]
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[:-5])
    elif damage == "flip":
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    elif damage == "gone":
        path.unlink()
    else:
        row["offset"] += 1
    with pytest.raises(IntegrityError, match="key0"):
        run.trajectory(row)


def test_two_writers_are_refused(run: RunDirectory) -> None:
    with run.writing(), pytest.raises(UsageError, match="written by another process"), run.writing():
        pass
    with run.writing() as writer:
        writer.append(PLANNED, example())


def test_what_is_no_run_is_said_to_be_none(tmp_path: Path, run: RunDirectory) -> None:
    for path in (tmp_path / "nowhere", tmp_path, run.path):
        with pytest.raises(UsageError, match=r"no run\.json"):
            RunDirectory.open(path)
    (run.path / "run.json").write_text("{torn")
    with pytest.raises(IntegrityError, match=r"run\.json cannot be read"):
        _ = RunDirectory.open(run.path).state


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"n": 1})
    with path.open() as reader:
        write_json(path, {"n": 2})
        assert json.load(reader) == {"n": 1}, "who read the old file was disturbed"
    assert json.loads(path.read_text()) == {"n": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_a_read_only_folder_is_a_record_error(tmp_path: Path) -> None:
    with as_nobody(tmp_path), pytest.raises(RecordError, match=r"cannot write .*: Permission denied"):
        RunDirectory.create(tmp_path, "env", "policy")


def test_a_run_that_became_read_only_is_a_record_error(run: RunDirectory) -> None:
    with as_nobody(run.path):
        with pytest.raises(RecordError, match="Permission denied"), run.writing():
            pass
        with pytest.raises(RecordError, match="Permission denied"):
            write_json(run.path / "run.json", {})


def write_until_full(run: RunDirectory, noise: list[str]) -> None:
    with run.writing() as writer:
        for number, text in enumerate(noise):
            writer.append(replace(PLANNED, key=str(number)), example(observation=text))


def test_a_full_disk_is_a_record_error_and_what_was_written_stays(tmp_path: Path) -> None:
    noise = [os.urandom(1500).hex() for _ in range(100)]
    with little_room(tmp_path) as disk:
        run = RunDirectory.create(disk, "env", "policy")
        with pytest.raises(RecordError, match="cannot write"):
            write_until_full(run, noise)
        rows = run.rows()
        assert 0 < len(rows) < 100
        assert [row["key"] for row in rows] == [str(number) for number in range(len(rows))]
        assert all(run.trajectory(row).turns[0].observation == noise[n] for n, row in enumerate(rows))


def test_a_full_disk_leaves_the_old_state(tmp_path: Path) -> None:
    with little_room(tmp_path) as disk:
        write_json(disk / "run.json", {"status": "started"})
        with pytest.raises(RecordError, match=r"cannot write .*run\.json"):
            write_json(disk / "run.json", {"status": "x" * 100_000})
        assert json.loads((disk / "run.json").read_text()) == {"status": "started"}
        assert [file.name for file in disk.iterdir()] == ["run.json"], "half a file was left behind"


def test_every_field_of_a_turn_is_stored(run: RunDirectory) -> None:
    with run.writing() as writer:
        row = writer.append(PLANNED, example())
    member = gzip.decompress((run.path / "trajectories" / row["shard"]).read_bytes())
    head, first, _ = (json.loads(line) for line in member.splitlines())
    assert set(first) == {field.name for field in fields(Turn)}
    assert set(first["reply"]) == {field.name for field in fields(Reply)}
    assert set(head) == {field.name for field in fields(Trajectory)} - {"turns"}
