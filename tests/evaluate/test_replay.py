"""Whatever is changed in a run directory is found, also where the forger changed everything that follows from it."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import IntegrityError, UsageError
from agentbench.core.records import Row, RunDirectory, digest, turn_hash, write_json
from agentbench.core.rows import row_of
from agentbench.core.types import Reply, Trajectory, Turn
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate, seal
from agentbench.evaluate.replay import replay, run_difference
from agentbench.metrics.collect import summarise

Parts = list[dict[str, Any]]


def play(out: Path, model: str = "random", **more: Any) -> Path:
    values = {"model": model, "env": "sokoban/tiny:test", "episodes": 6, "trials": 2, "out": str(out), **more}
    return evaluate(EvalConfig.parse(values)).run_dir


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of random play, made once."""
    return play(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made: Path, tmp_path: Path) -> RunDirectory:
    """A copy of it, to tamper with."""
    return RunDirectory.open(Path(shutil.copytree(made, tmp_path / "run")))


def told(run: RunDirectory) -> list[str]:
    """Everything that is found against a run, as the command finds it."""
    said = []
    try:
        said = [each.difference for each in replay(run) if each.difference]
        of_run = run_difference(run)
    except IntegrityError as error:
        of_run = str(error)
    return [*said, *([of_run] if of_run else [])]


def rewrite(run: RunDirectory, change: Callable[[Parts], Any]) -> None:
    """Change the trajectory of the longest episode, and its hashes, its row, run.json and the seal to fit."""
    rows = run.rows()
    longest = max(rows, key=lambda row: row["turns"])
    shard = run.path / "trajectories" / longest["shard"]
    stored, packed = shard.read_bytes(), b""
    for row in rows:
        member = stored[row["offset"] : row["offset"] + row["length"]]
        if row is longest:
            lines = [json.loads(line) for line in gzip.decompress(member).splitlines()]
            change(lines)
            link(lines)
            member = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0)
            row |= summed_up(lines)
        row["offset"], row["length"] = len(packed), len(member)
        packed += member
    shard.write_bytes(packed)
    write_rows(run, rows)


def link(lines: Parts) -> None:
    head, *turns = lines
    previous = ""
    for k, turn in enumerate(turns):
        end = head["end"] if k == len(turns) - 1 and head["end"] in ("terminated", "truncated") else None
        parts = (turn["observation"], turn["action"], turn["reward"], turn["terms"], end)
        turn["hash"] = previous = turn_hash(previous, *parts)


def summed_up(lines: Parts) -> Row:
    head, *turns = lines
    return row_of(Trajectory(**head, turns=[Turn(**{**turn, "reply": Reply(**turn["reply"])}) for turn in turns]))


def write_rows(run: RunDirectory, rows: list[Row]) -> None:
    (run.path / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reseal(run, rows)


def reseal(run: RunDirectory, rows: list[Row] | None = None) -> None:
    """Let the forger write summary, file hashes and seal again, too."""
    rows = run.rows() if rows is None else rows
    state = {**run.state, "summary": summarise(run.plan(), rows), "files": run.fingerprints()}
    write_json(run.path / "run.json", {**state, "seal": seal(state)})


def test_what_was_not_touched_is_of_one_piece(run: RunDirectory) -> None:
    assert told(run) == []
    rewrite(run, lambda lines: None)
    assert told(run) == [], "the forger's own tools change nothing"


def cut(lines: Parts) -> None:
    lines.pop()
    lines[0]["end"] = "max_turns"


CAREFUL: dict[str, Callable[[Parts], Any]] = {
    "a reward": lambda lines: lines[1].__setitem__("reward", 10.0),
    "a reward and its terms": lambda lines: lines[1].update(reward=10.0, terms={"finished": 1.0}),
    "an action": lambda lines: lines[1].__setitem__("action", "up || up || up"),
    "an action and its reply": lambda lines: lines[1].update(
        action="nonsense", reply={**lines[1]["reply"], "text": "nonsense"}
    ),
    "an observation": lambda lines: lines[2].__setitem__("observation", "a board without boxes"),
    "the validity of an action": lambda lines: lines[1].__setitem__("valid", False),
    "a potential": lambda lines: lines[1].__setitem__("potential", 0.5),
    "success": lambda lines: lines[0].update(success=not lines[0]["success"]),
    "success unknown": lambda lines: lines[0].update(success=None),
    "the end": lambda lines: lines[0].update(end="max_turns"),
    "running out of a time that was not limited": lambda lines: lines[0].update(end="timeout"),
    "the last observation": lambda lines: lines[0].update(final_observation="all boxes on targets"),
    "the last turn cut off": cut,
    "two turns exchanged": lambda lines: lines.insert(1, lines.pop()),
    "a turn twice": lambda lines: lines.insert(1, dict(lines[1])),
    "the environment": lambda lines: lines[0].update(env="sokoban/easy@0"),
    "the split": lambda lines: lines[0].update(split="train"),
    "the task": lambda lines: lines[0].update(task="another"),
    "the seed": lambda lines: lines[0].update(seed=1),
    "the trial": lambda lines: lines[0].update(trial=5),
}  # fmt: skip


@pytest.mark.parametrize("forgery", CAREFUL)
def test_a_trajectory_that_was_forged_with_all_that_follows_from_it_is_found(run: RunDirectory, forgery: str) -> None:
    rewrite(run, CAREFUL[forgery])
    assert len(told(run)) == 1


def test_a_changed_hash_is_found(run: RunDirectory) -> None:
    rows = run.rows()
    rows[0]["hash"] = "0" * 64
    write_rows(run, rows)
    assert len(told(run)) == 1


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_dropped_episode_is_found(run: RunDirectory, which: str) -> None:
    rows = run.rows()
    rows.pop({"first": 0, "middle": 5, "last": -1}[which])
    write_rows(run, rows)
    assert told(run)
    keys = {row["key"] for row in rows}
    plan = (run.path / "plan.jsonl").read_text().splitlines(keepends=True)
    (run.path / "plan.jsonl").write_text("".join(line for line in plan if json.loads(line)["key"] in keys))
    reseal(run)
    assert told(run), "nor does it help to plan one fewer"


def test_rows_in_another_order_or_twice_are_found(run: RunDirectory) -> None:
    rows = run.rows()
    write_rows(run, [rows[1], rows[0], *rows[2:]])
    assert any("out of order" in text for text in told(run))
    write_rows(run, [*rows, rows[-1]])
    assert any("out of order" in text for text in told(run))


def test_a_plan_in_another_order_or_of_other_tasks_is_found(run: RunDirectory) -> None:
    plan = (run.path / "plan.jsonl").read_text().splitlines(keepends=True)
    (run.path / "plan.jsonl").write_text("".join(reversed(plan)))
    reseal(run)
    assert any("not those that the configuration draws" in text for text in told(run))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("lock.json", '"policy": "random"', '"policy": "oracle"'),
        ("lock.json", '"max_turns": 15', '"max_turns": 16'),
        ("lock.json", '"mode": "full"', '"mode": "window:1"'),
        ("lock.json", '"split": "test"', '"split": "train"'),
        ("run.json", '"max_invalid": null', '"max_invalid": 3'),
    ],
)
def test_circumstances_that_were_changed_and_sealed_again_are_found(
    run: RunDirectory, file: str, old: str, new: str
) -> None:
    path = run.path / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    reseal(run)
    assert told(run)


@pytest.mark.parametrize(
    "name", ["lock.json", "config.toml", "plan.jsonl", "episodes.jsonl", "trajectories/0000.jsonl.gz"]
)
@pytest.mark.parametrize("how", ["a byte more", "cut in half", "gone"])
def test_any_file_that_was_touched_is_found(run: RunDirectory, name: str, how: str) -> None:
    path = run.path / name
    content = path.read_bytes()
    path.unlink()
    if how != "gone":
        path.write_bytes(content + b"\n" if how == "a byte more" else content[: len(content) // 2])
    assert told(run)


def test_files_of_another_run_of_the_same_panel_are_found(run: RunDirectory, tmp_path: Path) -> None:
    other = play(tmp_path / "runs", "oracle")
    for name in ("lock.json", "run.json", "episodes.jsonl", "trajectories/0000.jsonl.gz"):
        mine = (run.path / name).read_bytes()
        shutil.copy(other / name, run.path / name)
        assert told(run), name
        (run.path / name).write_bytes(mine)
    assert told(run) == []


@pytest.mark.parametrize(
    "number", ["tokens", "prompt_tokens", "policy_seconds"], ids=lambda name: f"{name} in row and trajectory"
)
def test_costs_that_no_replay_shows_are_found_by_the_seal(run: RunDirectory, number: str) -> None:
    rows = run.rows()
    rows[0][number] = 0.5
    (run.path / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert told(run)


def test_a_run_json_that_was_edited_is_found_whatever_was_edited(run: RunDirectory) -> None:
    for change in ({"began": 0.0}, {"config_digest": digest("x")}, {"counts": {"planned": 1}}, {"status": "invalid"}):
        write_json(run.path / "run.json", {**run.state, **change, "seal": run.state["seal"]})
        assert any("run.json changed" in text for text in told(run)), change


@pytest.mark.parametrize(
    "field", sorted({"key", "scored", "shard", "offset", "length", *row_of(Trajectory("", "", "", 0, 0))})
)
def test_a_row_that_lacks_something_or_says_nonsense_is_found_and_never_a_crash(run: RunDirectory, field: str) -> None:
    path = run.path / "episodes.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    true = json.loads(first)
    without = {name: value for name, value in true.items() if name != field}
    for row in (without, *({**true, field: value} for value in ([1], {"a": 1}, float("nan")))):
        path.write_text(json.dumps(row) + "\n" + "".join(rest))
        assert told(run), row


def test_a_run_whose_rows_say_less_because_they_are_older_replays(run: RunDirectory) -> None:
    write_rows(run, [{name: row[name] for name in row if name not in ("terms", "sandbox")} for row in run.rows()])
    assert told(run) == []


def test_a_run_that_ended_and_says_it_did_not_is_found(run: RunDirectory) -> None:
    true = run.state
    write_json(run.path / "run.json", {**run.state, "status": "started"})
    assert told(run) == ["run.json says started, and was sealed as that of a run which ended"]
    for name, value in (("status", "glorious"), ("files", None), ("summary", "fine"), ("config", [])):
        write_json(run.path / "run.json", {**true, name: value})
        assert f"has no {name} that could be true" in told(run)[0]


def test_a_run_that_says_it_was_stopped_has_the_summary_of_its_rows(run: RunDirectory) -> None:
    state = {name: value for name, value in run.state.items() if name not in ("seal", "files")}
    write_json(run.path / "run.json", {**state, "status": "cancelled"})
    assert told(run) == []
    rows = run.path / "episodes.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    assert any("run.json says another" in text for text in told(run))


def test_a_run_that_ended_for_lack_of_time_or_context_replays(tmp_path: Path) -> None:
    path = play(tmp_path, "nop", max_invalid=3, time_limit=1000.0)
    rows = RunDirectory.open(path).rows()
    assert {row["end"] for row in rows} == {"max_invalid"}
    assert told(RunDirectory.open(path)) == []


def test_an_environment_in_another_version_is_a_wrong_request_and_a_changed_lock_is_not(run: RunDirectory) -> None:
    lock = run.path / "lock.json"
    lock.write_text(lock.read_text().replace("sokoban/tiny@0", "sokoban/tiny@7"))
    assert any("lock.json changed" in text for text in told(run))
    reseal(run)
    with pytest.raises(UsageError, match="what was played is sokoban/tiny@7"):
        list(replay(run))
