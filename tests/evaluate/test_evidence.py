"""What is read from a run, and what stands against comparing two."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import AgentBenchError, RunInvalid, UsageError
from agentbench.core.records import RunDirectory
from agentbench.evaluate.evidence import Evidence, differences, said
from tests.evaluate.simulated import Outcome, planned, write_run

OUTCOMES: list[list[Outcome]] = [[True, False], [True, None], [None, None], [False, False]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path, OUTCOMES)


def rewrite(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_what_was_planned_and_not_scored_is_a_failure(run: Path) -> None:
    evidence = Evidence.load(run)
    assert list(evidence.means().values()) == [0.5, 0.5, 0.0, 0.0]
    assert list(evidence.outcomes().values()) == [(1.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    assert evidence.tasks == tuple(planned(task, 0).task for task in range(4))
    assert (evidence.trials, evidence.coverage, evidence.status) == (2, 5 / 8, "invalid")


def test_strict_means_agree_with_the_summary_of_the_run(run: Path) -> None:
    means = Evidence.load(run).means()
    assert sum(means.values()) / len(means) == RunDirectory.open(run).state["summary"]["success"]


def test_other_metrics_leave_out_what_was_not_scored(run: Path) -> None:
    evidence = Evidence.load(run)
    assert list(evidence.means("reward").values()) == [0.5, 1.0, 0.0]
    assert set(evidence.means("turns").values()) == {2.0}
    assert set(evidence.means("invalid").values()) == {0.0}
    assert evidence.outcomes("tokens")[planned(1, 0).task] == (6.0,)


def test_costs_are_those_of_what_was_scored(run: Path) -> None:
    costs = Evidence.load(run).costs
    assert (costs.episodes, costs.turns, costs.tokens) == (5, 10, 30)
    assert costs.policy_seconds == pytest.approx(0.1)


def test_an_attempt_after_a_scored_one_does_not_count(run: Path) -> None:
    rows = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    again = {**json.loads(rows[0]), "success": False}
    (run / "episodes.jsonl").write_text("".join(rows) + json.dumps(again) + "\n")
    evidence = Evidence.load(run)
    assert evidence.means()[planned(0, 0).task] == 0.5
    assert evidence.attempts == 9


def test_a_run_that_goes_on_is_read_as_far_as_it_went(run: Path) -> None:
    rewrite(run / "run.json", status="started")
    rows = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text(rows[0] + rows[1][:20])
    evidence = Evidence.load(run)
    assert (evidence.status, evidence.coverage) == ("started", 1 / 8)


def test_a_complete_run_without_the_row_of_a_planned_episode_is_damaged(run: Path) -> None:
    rows = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text("".join(rows[:-1]))
    rewrite(run / "run.json", status="complete")
    with pytest.raises(RunInvalid, match="1 planned episodes have no row"):
        Evidence.load(run)


def test_an_environment_without_success_is_said_so(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    text = "".join(json.dumps({**row, "success": None}) + "\n" for row in rows)
    (run / "episodes.jsonl").write_text(text)
    evidence = Evidence.load(run)
    assert not evidence.knows_success
    assert len(evidence.means("reward")) == 3
    with pytest.raises(UsageError, match="knows no success"):
        evidence.means()


def test_a_training_run_is_no_evaluation(run: Path) -> None:
    rewrite(run / "run.json", kind="train")
    with pytest.raises(UsageError, match="training run"):
        Evidence.load(run)


@pytest.mark.parametrize("file", ["run.json", "lock.json", "plan.jsonl", "episodes.jsonl"])
@pytest.mark.parametrize("content", [None, "", "{", "[]\n", '"text"\n', "{}\n", '{"key": 1}\n'])
def test_a_broken_run_ends_with_2_or_3(run: Path, file: str, content: str | None) -> None:
    (run / file).unlink() if content is None else (run / file).write_text(content)
    with pytest.raises(AgentBenchError) as caught:
        Evidence.load(run)
    assert caught.value.exit_code in (2, 3)
    assert "\n" not in str(caught.value)
    assert run.name in str(caught.value)


@given(cut=st.integers(0, 400), name=st.sampled_from(["run.json", "lock.json", "plan.jsonl"]))
def test_a_file_cut_anywhere_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, cut: int, name: str) -> None:
    run = write_run(tmp_path_factory.mktemp("cut"), [[True]])
    (run / name).write_bytes((run / name).read_bytes()[:-cut] if cut else b"")
    try:
        found = Evidence.load(run).means()
    except (UsageError, RunInvalid):
        return
    assert found == {planned(0, 0).task: 1.0}


@pytest.mark.parametrize("field", ["reward", "turns", "policy_seconds", "success", "hash"])
@pytest.mark.parametrize("value", [None, {}, float("nan"), [1]])
def test_a_row_that_does_not_say_how_it_went_is_damage(run: Path, field: str, value: object) -> None:
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    rows[0] = {**rows[0], field: value} if value is not None else {k: v for k, v in rows[0].items() if k != field}
    (run / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RunInvalid, match="damaged"):
        Evidence.load(run)


def test_nothing_stands_against_two_policies_on_one_panel(tmp_path: Path) -> None:
    ours = Evidence.load(write_run(tmp_path, [[True]], policy="before", weights={"model.safetensors": "a"}))
    theirs = Evidence.load(write_run(tmp_path, [[False]], policy="after", weights={"model.safetensors": "b"}))
    assert differences(ours, theirs) == []


def test_differences_are_named_and_those_that_refuse_come_first(tmp_path: Path) -> None:
    ours = Evidence.load(write_run(tmp_path, [[True], [True]]))
    other: dict[str, Any] = {
        "env": "echo/3@1",
        "batch_size": 1,
        "limits": {"max_turns": 9},
        "context": {"mode": "full", "format": "tagged"},
        "sampling": {"temperature": 1.0},
        "git_commit": "a",
    }
    theirs = Evidence.load(write_run(tmp_path, [[True, True]], **other))
    found = differences(ours, theirs)
    kinds = {difference.field: difference.kind for difference in found}
    assert {field for field, kind in kinds.items() if kind == "match"} == {
        "env", "panel", "tasks", "limits.max_turns", "context.format",
    }  # fmt: skip
    assert {"batch_size", "sampling.temperature", "trials"} <= {f for f, kind in kinds.items() if kind == "warn"}
    assert "git_commit" not in kinds
    assert [difference.kind for difference in found] == sorted(kinds.values())
    assert "limits.max_turns (8, 9)" in said(found)


def test_another_number_of_trials_and_an_unfinished_run_are_marked(tmp_path: Path) -> None:
    ours = Evidence.load(write_run(tmp_path, [[True, True]]))
    theirs = Evidence.load(write_run(tmp_path, [[True, True]], status="cancelled"))
    fewer = Evidence.load(write_run(tmp_path, [[True]]))
    assert [(d.field, d.kind) for d in differences(ours, theirs)] == [("status", "warn")]
    assert [(d.field, d.kind) for d in differences(ours, fewer)] == [("trials", "warn")]


def test_equal_panel_hashes_do_not_hide_other_tasks(tmp_path: Path) -> None:
    ours = Evidence.load(write_run(tmp_path, [[True]], panel="p"))
    theirs = Evidence.load(write_run(tmp_path, [[True], [True]], panel="p"))
    assert [(d.field, d.kind) for d in differences(ours, theirs)] == [("tasks", "match")]


def test_conversations_do_not_matter_to_a_script(tmp_path: Path) -> None:
    tagged: dict[str, Any] = {"context": {"mode": "full", "format": "tagged"}, "weights": {"model.safetensors": "a"}}
    model = Evidence.load(write_run(tmp_path, [[True]], policy="random", **tagged))
    script = Evidence.load(write_run(tmp_path, [[True]], policy="random"))
    assert script.scripted and not model.scripted
    assert differences(model, script) == []
