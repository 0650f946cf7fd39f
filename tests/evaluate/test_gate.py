"""The gate: what it calls regressed, ok and inconclusive, and what it refuses."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.core.errors import IntegrityError, RunInvalid, UsageError
from agentbench.evaluate.baseline import Measured, read_baseline, write_baseline
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.gate import Judged, Rule, exit_code, judge, overall
from agentbench.metrics.stats import components, tasks_to_trust
from tests.evaluate.simulated import Outcome, draw, write_run

ENV = "echo/3@0:test"
Outcomes = Sequence[Sequence[Outcome]]


def run_of(folder: Path, outcomes: Outcomes, **lock: Any) -> Evidence:
    return Evidence.load(write_run(folder, outcomes, **lock))


def judged(folder: Path, before: Outcomes, after: Outcomes, rule: Rule | None = None, **lock: Any) -> Judged:
    baseline = Measured.of(run_of(folder, before))
    return judge({ENV: run_of(folder, after, **lock)}, {ENV: baseline}, rule or Rule())[0]


def wins(count: int, tasks: int, trials: int = 1) -> list[list[Outcome]]:
    return [[task < count] * trials for task in range(tasks)]


def test_the_same_run_is_ok_however_small(tmp_path: Path) -> None:
    found = judged(tmp_path, wins(2, 3), wins(2, 3))
    assert found.verdict == "ok" and "every turn" in found.reasons[0]


def test_a_clear_loss_is_regressed(tmp_path: Path) -> None:
    found = judged(tmp_path, wins(80, 100), wins(60, 100))
    assert found.verdict == "regressed"
    assert found.compared is not None
    assert found.compared.paired.delta == pytest.approx(-0.2)
    assert len(found.compared.lost) == 20 and not found.compared.won
    assert found.compared.p_worse == pytest.approx(2.0**-20)


def test_a_gain_is_ok(tmp_path: Path) -> None:
    assert judged(tmp_path, wins(60, 100), wins(80, 100)).verdict == "ok"


def test_a_few_flips_either_way_are_inconclusive_in_a_small_panel_and_ok_in_a_large_one(tmp_path: Path) -> None:
    for tasks, verdict in ((30, "inconclusive"), (400, "ok")):
        after = wins(20, tasks)
        after[0], after[1], after[-1], after[-2] = [False], [False], [True], [True]
        assert judged(tmp_path, wins(20, tasks), after).verdict == verdict


def test_a_panel_that_cannot_show_the_margin_is_never_ok(tmp_path: Path) -> None:
    for tasks, verdict in ((58, "inconclusive"), (59, "ok")):
        same = wins(tasks, tasks)
        again = run_of(tmp_path, same)
        rows = {key: {**row, "hash": "another"} for key, row in again.rows.items()}
        baseline = {ENV: Measured.of(run_of(tmp_path, same))}
        assert judge({ENV: replace(again, rows=rows)}, baseline, Rule())[0].verdict == verdict


def test_a_wider_margin_and_a_larger_alpha_decide_more(tmp_path: Path) -> None:
    before, after = wins(40, 60), wins(37, 60)
    assert judged(tmp_path, before, after).verdict == "inconclusive"
    assert judged(tmp_path, before, after, Rule(margin=0.2)).verdict == "ok"
    assert judged(tmp_path, before, after, Rule(alpha=0.2)).verdict == "regressed"


def test_needed_sizes_are_those_that_the_margin_takes(tmp_path: Path) -> None:
    first, second = draw(1, 100, 4)
    found = judged(tmp_path, first, second)
    assert found.compared is not None
    sizes = found.compared.needed
    assert [size.trials for size in sizes] == [4, 8, 16]
    assert sizes[0].tasks > sizes[1].tasks > sizes[2].tasks >= 59
    assert 100 < sizes[0].tasks < 400  # 200 x 4 detect 4.4 points one-sided, says the same simulation
    for size in sizes:
        luck = [components(side).within for side in (first, second)]
        assert size.tasks >= tasks_to_trust(math.sqrt(sum(filter(None, luck)) / size.trials), 0.05)


@pytest.mark.parametrize("margin", [1.0, 2.0])
def test_a_margin_beyond_what_a_rate_can_lose_is_met_at_once(tmp_path: Path, margin: float) -> None:
    found = judged(tmp_path, wins(20, 30), wins(19, 30), Rule(margin=margin))
    assert found.verdict == "ok" and found.compared is not None
    assert found.compared.needed[0].tasks < 30


def test_a_task_that_always_succeeded_and_now_always_fails_is_a_regression(tmp_path: Path) -> None:
    for trials in (3, 5):
        after = wins(30, 60, trials)
        after[0] = [False] * trials
        found = judged(tmp_path, wins(30, 60, trials), after)
        assert found.verdict == "regressed"
        assert found.compared is not None
        assert len(found.compared.severe) == 1
        assert found.compared.p_severe == pytest.approx(1 / math.comb(2 * trials, trials))
        assert found.compared.p_worse == 0.5


def test_one_severe_task_among_many_that_are_as_often_lost_as_won_is_no_alarm(tmp_path: Path) -> None:
    before, after = wins(40, 40, 3), wins(40, 40, 3)
    for task in range(20):
        fewer: list[Outcome] = [True, False, False]
        more: list[Outcome] = [True, True, False]
        before[task], after[task] = (fewer, more) if task % 2 else (more, fewer)
    after[39] = [False] * 3
    found = judged(tmp_path, before, after)
    assert found.compared is not None
    assert len(found.compared.severe) == 1 and found.compared.p_severe > 0.05
    assert found.verdict != "regressed"


def test_two_trials_are_too_few_for_the_guard(tmp_path: Path) -> None:
    after = wins(60, 60, 2)
    after[0] = [False, False]
    found = judged(tmp_path, wins(60, 60, 2), after)
    assert found.compared is not None
    assert found.compared.severe == () and found.verdict != "regressed"


def test_several_environments_are_held_to_one_level(tmp_path: Path) -> None:
    before, after = wins(60, 100), wins(55, 100)  # five losses: p = 1/32
    names = [f"echo/{number}@0" for number in range(3)]
    baseline = {f"{n}:test": Measured.of(run_of(tmp_path, before, env=n)) for n in names}
    alone = judge({f"{names[0]}:test": run_of(tmp_path, after, env=names[0])}, baseline, Rule())
    assert overall(alone) == "regressed"
    runs = {f"{n}:test": run_of(tmp_path, after if n == names[0] else before, env=n) for n in names}
    together = judge(runs, baseline, Rule())
    assert [one.compared.p_worse for one in together if one.compared] == pytest.approx([3 / 32, 1, 1])
    assert overall(together) == "inconclusive"
    assert [one.verdict for one in together[1:]] == ["ok", "ok"]


def test_exit_codes(tmp_path: Path) -> None:
    regressed = judged(tmp_path, wins(80, 100), wins(60, 100))
    undecided = judged(tmp_path, wins(20, 30), wins(19, 30))
    fine = judged(tmp_path, wins(20, 30), wins(20, 30))
    under = judged(tmp_path, wins(20, 30), wins(20, 30), Rule(fail_under={"success": 0.9}))
    codes = {name: (exit_code(found), exit_code(found, inconclusive="fail")) for name, found in
             {"regressed": [regressed], "undecided": [undecided], "ok": [fine], "under": [under],
              "both": [undecided, regressed]}.items()}  # fmt: skip
    assert codes == {"regressed": (1, 1), "undecided": (0, 6), "ok": (0, 0), "under": (1, 1), "both": (1, 1)}
    assert (under.verdict, overall([under]), overall([undecided, under, fine])) == ("ok", "failed", "failed")
    assert "success = 0.6667 is under 0.9" in under.reasons


def test_thresholds_need_no_baseline_and_name_what_there_is(tmp_path: Path) -> None:
    run = {ENV: run_of(tmp_path, wins(60, 100))}
    assert exit_code(judge(run, {}, Rule(fail_under={"success": 0.6, "success_low": 0.5}))) == 0
    assert exit_code(judge(run, {}, Rule(fail_under={"success_low": 0.6}))) == 1
    with pytest.raises(UsageError, match="has no 'glory'; known: coverage"):
        judge(run, {}, Rule(fail_under={"glory": 1}))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        (
            "limits.max_turns",
            {"limits": {"max_turns": 5, "max_tokens": None, "max_invalid": None, "max_seconds": None}},
        ),
        ("panel", {"panel": "another"}),
        ("instructions", {"instructions": "sing it"}),
        ("context.format", {"context": {"mode": "full", "format": "tagged"}}),
        ("sampling.temperature", {"sampling": {"temperature": 1.0}}),
        ("env_args.length", {"env_args": {"length": 4}}),
        ("seed", {"seed": 1}),
    ],
)
def test_a_baseline_of_something_else_is_refused_by_field(tmp_path: Path, field: str, change: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match=field.replace(".", r"\.")):
        judged(tmp_path, wins(2, 3), wins(2, 3), **change)


def test_other_circumstances_are_marked(tmp_path: Path) -> None:
    found = judged(tmp_path, wins(2, 3), wins(2, 3), batch_size=1, weights={"model.safetensors": "new"})
    assert found.compared is not None
    assert [difference.field for difference in found.compared.marks] == ["batch_size"]


def test_an_environment_without_baseline_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path, wins(2, 3))
    with pytest.raises(UsageError, match="has no echo/3@0:test, only other"):
        judge({ENV: run}, {"other": Measured.of(run)}, Rule())


@pytest.mark.parametrize("status", ["started", "cancelled", "invalid"])
def test_a_run_that_is_not_complete_is_not_judged(tmp_path: Path, status: str) -> None:
    with pytest.raises(RunInvalid, match=f"is {status}"):
        judged(tmp_path, wins(2, 3), wins(2, 3), status=status)


def test_what_was_not_scored_counts_against_the_run(tmp_path: Path) -> None:
    after: Outcomes = [*wins(80, 80), *[[None]] * 20]
    found = judged(tmp_path, wins(100, 100), after, status="complete")
    assert found.verdict == "regressed" and found.run.coverage == 0.8


def test_a_reward_is_gated_where_there_is_no_success(tmp_path: Path) -> None:
    path = write_run(tmp_path, wins(50, 100))
    rows = [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()]
    baseline: dict[str, Measured] = {}
    for loss in (0.0, 0.5):
        text = "".join(json.dumps({**row, "success": None, "reward": row["reward"] * 3 - loss}) + "\n" for row in rows)
        (path / "episodes.jsonl").write_text(text)
        run = Evidence.load(path)
        baseline = baseline or {ENV: Measured.of(run)}
        found = judge({ENV: run}, baseline, Rule())[0]
        assert found.compared is not None and found.compared.metric == "reward"
        assert found.compared.paired.delta == pytest.approx(-loss)
    changed = {ENV: replace(baseline[ENV], behaviour="another")}
    assert judge({ENV: run}, changed, Rule())[0].verdict == "regressed"


def test_a_baseline_file_says_what_was_measured(tmp_path: Path) -> None:
    first, second = draw(3, 20, 4)
    run, other = run_of(tmp_path, first), run_of(tmp_path, second)
    file = tmp_path / "baseline.json"
    write_baseline(file, {ENV: Measured.of(run)})
    assert read_baseline(file) == {ENV: Measured.of(run)}
    found, direct = (
        judge({ENV: other}, baseline, Rule()) for baseline in (read_baseline(file), {ENV: Measured.of(run)})
    )
    assert found[0].compared == direct[0].compared
    means = {task: sum(values) / len(values) for task, values in read_baseline(file)[ENV].outcomes().items()}
    assert means == run.means()
    assert file.stat().st_size < 3000


def test_a_baseline_file_changed_by_hand_is_found(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    write_baseline(file, {ENV: Measured.of(run_of(tmp_path, wins(2, 3)))})
    text = file.read_text()
    file.write_text(text.replace('"1/1"', '"0/1"', 1))
    with pytest.raises(IntegrityError, match="was changed"):
        read_baseline(file)
    file.write_text(text.replace("  ", " "))  # laid out differently is not changed
    assert read_baseline(file)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "agentbench-baseline/0"}', "null"])
def test_what_is_no_baseline_is_one_clear_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises((UsageError, IntegrityError), match=r"baseline") as caught:
        read_baseline(file)
    assert "\n" not in str(caught.value)


def test_a_missing_baseline_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--update-baseline"):
        read_baseline(tmp_path / "none.json")


@settings(max_examples=20)
@given(
    outcomes=st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=2, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_tasks_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[list[bool]], order: Any
) -> None:
    folder = tmp_path_factory.mktemp("order")
    run = run_of(folder, outcomes)
    baseline = Measured.of(run_of(folder, [[not value for value in task] for task in outcomes]))
    tasks = list(baseline.tasks.items())
    order.shuffle(tasks)
    found = [judge({ENV: run}, {ENV: replace(baseline, tasks=dict(listed))}, Rule())[0].compared
             for listed in (baseline.tasks.items(), tasks)]  # fmt: skip
    assert found[0] == found[1]
