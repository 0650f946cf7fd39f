"""Whatever a file of a run says, nothing that reads it crashes: it is believed, or refused in one clear line."""

import gzip
import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import AgentBenchError
from agentbench.core.records import RunDirectory
from agentbench.evaluate.baseline import Measured, read_baseline, write_baseline
from agentbench.evaluate.bundle import Declaration, name_of
from agentbench.evaluate.compare import Side, compare
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate, seal
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.gate import Rule, judge
from agentbench.evaluate.parting import part
from agentbench.evaluate.power import Question, plan
from agentbench.evaluate.replay import replay, run_difference
from agentbench.report.leaderboard import Board, add, verify
from agentbench.report.report import write_report
from agentbench.report.rows import row_of
from agentbench.report.standing import standings

NESTED: Any = []
for _ in range(90):
    NESTED = [NESTED]
VALUES: tuple[Any, ...] = (None, True, 5, -1, 0.5, "x", [], {}, [{}], {"a": 1}, NESTED, 10**15, 10**400, float("nan"))
FILES = ("run.json", "lock.json", "plan.jsonl", "episodes.jsonl", "trajectory")
EACH = 40
"""Damages of each file that are tried; all of them by `AGENTBENCH_SCALE`."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run, and another one of the same panel to hold it against."""
    out = tmp_path_factory.mktemp("runs")
    values = {"env": "sokoban/tiny:test", "episodes": 3, "trials": 2, "out": str(out)}
    return tuple(evaluate(EvalConfig.parse({"model": model, **values})).run_dir for model in ("random", "nop"))  # type: ignore[return-value]


def places(value: Any, before: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every path of keys into a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*before, key)
        yield from places(inner, (*before, key))


def put(value: Any, place: tuple[str | int, ...], new: Any) -> Any:
    """A copy of a JSON value with another one in this place."""
    if not place:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(copy[place[0]], place[1:], new)
    return copy


def content(run: Path, name: str) -> Any:
    """What a file says: an object, or the objects of its lines; of the shard, those of the first episode."""
    if name.endswith(".json"):
        return json.loads((run / name).read_text())
    if name == "trajectory":
        row = json.loads((run / "episodes.jsonl").read_text().splitlines()[0])
        text = gzip.decompress((run / "trajectories" / row["shard"]).read_bytes()[: row["length"]]).decode()
    else:
        text = (run / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def write(run: Path, name: str, value: Any) -> None:
    """Let a file say something else; of a trajectory, its row tells the new length."""
    if name.endswith(".json"):
        (run / name).write_text(json.dumps(value))
        return
    text = "".join(json.dumps(line) + "\n" for line in value)
    if name != "trajectory":
        (run / name).write_text(text)
        return
    first, *rest = content(run, "episodes.jsonl")
    shard = run / "trajectories" / first["shard"]
    members, packed = shard.read_bytes()[first["length"] :], gzip.compress(text.encode(), mtime=0)
    shard.write_bytes(packed + members)
    more = len(packed) - first["length"]
    rows = [{**first, "length": len(packed)}, *({**row, "offset": row["offset"] + more} for row in rest)]
    write(run, "episodes.jsonl", rows)


def reseal(run: Path) -> None:
    """Let the file hashes and the seal follow from what was changed."""
    state = json.loads((run / "run.json").read_text())
    if isinstance(state, dict):
        state = {**state, "files": RunDirectory.open(run).fingerprints()}
        (run / "run.json").write_text(json.dumps({**state, "seal": seal(state)}))


def compared(run: Path, other: Path) -> None:
    ours, theirs = Evidence.load(run), Evidence.load(other)
    compare([Side("a", (ours,)), Side("b", (theirs,))])
    part(ours, theirs)


def gated(run: Path, other: Path) -> None:
    baseline = run / "baseline.json"
    for one, two in ((run, other), (other, run)):
        before, after = Evidence.load(one), Evidence.load(two)
        write_baseline(baseline, {after.env: Measured.of(before)})
        judge({after.env: after}, read_baseline(baseline), Rule())


def reported(run: Path, other: Path) -> None:
    write_report([run, other], run / "page.html", episodes=6)


READERS: dict[str, Callable[[Path, Path], Any]] = {
    "replay": lambda run, other: [list(replay(RunDirectory.open(run))), run_difference(RunDirectory.open(run))],
    "compare": compared,
    "gate": gated,
    "power": lambda run, other: plan(Evidence.load(run), Question()),
    "leaderboard": lambda run, other: add(run / "boards", RunDirectory.open(run), Declaration(name="x")),
}


def tried(run: Path, other: Path, readers: dict[str, Callable[[Path, Path], Any]]) -> dict[str, str]:
    """What became of each reader of a damaged run, where it was no clear line."""
    crashed = {}
    for name, read in readers.items():
        try:
            read(run, other)
        except AgentBenchError as error:
            if error.exit_code == 70 or "\n" in str(error):
                crashed[name] = repr(error)
        except Exception as error:
            crashed[name] = repr(error)[:200]
    return crashed


@pytest.mark.parametrize("name", FILES)
def test_no_value_in_any_place_of_a_run_makes_a_crash(
    runs: tuple[Path, Path], tmp_path: Path, name: str, scale: float
) -> None:
    true = content(runs[0], name)
    first = true if name.endswith(".json") else true[:2]
    damages = [(place, value) for place in places(first) for value in VALUES]
    random.Random(name).shuffle(damages)
    for number, (place, value) in enumerate(damages[: round(EACH * scale)]):
        run = Path(shutil.copytree(runs[0], tmp_path / "run"))
        write(run, name, put(true, place, value))
        if number % 2:
            reseal(run)
        slow = {"report": reported} if number % 20 == 0 else {}
        assert tried(run, runs[1], {**READERS, **slow}) == {}, (name, place, str(value)[:40])
        shutil.rmtree(run)


@pytest.mark.parametrize("name", ["rows.jsonl", "head", "episode"])
def test_no_value_in_any_place_of_a_board_makes_a_crash(
    runs: tuple[Path, Path], tmp_path: Path, name: str, scale: float
) -> None:
    row = add(tmp_path / "boards", RunDirectory.open(runs[0]), Declaration(name="x"))
    board = tmp_path / "boards" / "sokoban"
    head, *episodes = map(
        json.loads, gzip.decompress((board / "bundles" / name_of(row.bundle)).read_bytes()).splitlines()
    )
    true = {"rows.jsonl": row.model_dump(), "head": head, "episode": episodes[0]}[name]
    damages = [(place, value) for place in places(true) for value in VALUES]
    random.Random(name).shuffle(damages)
    for place, value in damages[: round(EACH * scale)]:
        false = put(true, place, value)
        lines = [false if name == "head" else head, false if name == "episode" else episodes[0], *episodes[1:]]
        packed = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0)
        sha256 = hashlib.sha256(packed).hexdigest()
        (board / "bundles" / name_of(sha256)).write_bytes(packed)
        claimed = false if name == "rows.jsonl" else {**row.model_dump(), "bundle": sha256}
        (board / "rows.jsonl").write_text(json.dumps(claimed) + "\n")
        assert tried(board, board, {"verify": verified}) == {}, (name, place, str(value)[:40])


def verified(board: Path, _: Path) -> None:
    read = Board.read(board)
    assert all("\n" not in (verdict.difference or "") for verdict in verify(read, read.measured))
    standings(read)
    read.rows = [row_of(read.bundle(row.bundle), row.bundle) for row in read.measured]
    assert len(list(verify(read, read.measured))) == len(read.measured)
