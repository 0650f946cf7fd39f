"""The main job: plan, play, record, resume."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import IntegrityError, NothingSelected, PrerequisiteError, RunInvalid, UsageError
from agentbench.core.records import RunDirectory
from agentbench.core.registry import resolve
from agentbench.evaluate.config import EvalConfig, read_toml
from agentbench.evaluate.evaluate import Evaluated, Progress, evaluate, plan_tasks, require_valid
from agentbench.evaluate.replay import replay

Values = Callable[..., dict[str, Any]]


def run(values: dict[str, Any], **more: Any) -> Evaluated:
    return evaluate(EvalConfig.parse(values), **more)


def results(path: Path) -> dict[str, tuple[Any, ...]]:
    """What a run found, by key; times do not take part."""
    compared = ("task", "seed", "trial", "end", "success", "reward", "turns", "invalid", "hash")
    return {key: tuple(row[name] for name in compared) for key, row in RunDirectory.open(path).scored().items()}


def test_no_two_planned_episodes_are_equal() -> None:
    plan = plan_tasks(resolve("sokoban"), 100, 4, 0)
    assert len(plan) == 400
    assert len({planned.key for planned in plan}) == 400
    assert len({planned.task for planned in plan}) == len({planned.seed for planned in plan}) == 100
    assert Counter(planned.trial for planned in plan) == dict.fromkeys(range(4), 100)


def test_no_level_is_in_a_panel_twice_not_even_turned_or_mirrored() -> None:
    resolved = resolve("sokoban/easy")
    env = resolved.make()
    contents = [env.content(planned.seed) for planned in plan_tasks(resolved, 100, 1, 0)]
    assert len(set(contents)) == 100


def test_a_split_with_fewer_tasks_than_asked_for_gives_what_it_has() -> None:
    assert len(plan_tasks(resolve("sokoban", rows=5, cols=5, max_moves=4), 100, 1, 0)) < 100


def test_a_plan_depends_on_its_arguments_and_on_nothing_else() -> None:
    resolved = resolve("sokoban")
    plan = plan_tasks(resolved, 10, 2, 0)
    assert plan == plan_tasks(resolved, 10, 2, 0)
    assert {p.key for p in plan_tasks(resolved, 5, 1, 0)} < {p.key for p in plan}, "a larger panel holds the smaller"
    others = [(resolved, 1), (resolve("sokoban:train"), 0), (resolve("sokoban", max_steps=21), 0)]
    for other, seed in others:
        assert not {p.key for p in plan} & {p.key for p in plan_tasks(other, 10, 2, seed)}


def test_a_finite_list_is_played_once_however_many_are_asked_for(config_of: Values) -> None:
    evaluated = run(config_of("five", episodes=100, trials=2))
    plan = RunDirectory.open(evaluated.run_dir).plan()
    assert sorted((planned.seed, planned.trial) for planned in plan) == [(s, t) for s in range(5) for t in (0, 1)]
    assert (evaluated.status, evaluated.summary["n"], evaluated.summary["scored"]) == ("complete", 5, 10)
    fewer = run(config_of("five", episodes=3))
    assert [planned.seed for planned in RunDirectory.open(fewer.run_dir).plan()] == [0, 1, 2]


@pytest.mark.parametrize(("variant", "episodes"), [("none", 10), ("endless", 0)])
def test_nothing_to_play_is_said_before_anything_is_made(
    config_of: Values, out: Path, variant: str, episodes: int
) -> None:
    with pytest.raises(NothingSelected, match="selects no episode"):
        run(config_of(variant, episodes=episodes))
    assert not out.exists()


def test_what_is_missing_is_said_before_anything_is_made(config_of: Values, out: Path) -> None:
    with pytest.raises(PrerequisiteError, match="a thing nobody has"):
        run(config_of("docker"))
    with pytest.raises(PrerequisiteError, match="no checkpoint folder"):
        run(config_of(model="nowhere/at/all"))
    with pytest.raises(UsageError, match="did you mean 'oracle'"):
        run(config_of(model="orcale"))
    assert not out.exists()


def test_the_run_directory_tells_everything(config_of: Values) -> None:
    evaluated = run(config_of(episodes=4, trials=2))
    directory = RunDirectory.open(evaluated.run_dir)
    files = {path.name for path in evaluated.run_dir.iterdir() if not path.name.startswith(".")}
    assert files == {"run.json", "config.toml", "lock.json", "plan.jsonl", "episodes.jsonl", "trajectories"}
    assert directory.state["status"] == "complete"
    assert directory.state["summary"] == json.loads(json.dumps(evaluated.summary))
    assert directory.state["counts"] == {"planned": 8, "scored": 8, "attempts": 8}
    assert {row["key"] for row in directory.rows()} == {planned.key for planned in directory.plan()}
    assert all(directory.trajectory(row).success for row in directory.rows())
    summary = evaluated.summary
    assert (summary["success"], summary["coverage"], summary["n"], summary["method"]) == (1.0, 1.0, 4, "wilson")


def test_the_listener_hears_of_the_start_and_of_every_attempt(config_of: Values) -> None:
    heard: list[Progress] = []
    evaluated = run(config_of(episodes=6), listen=heard.append)
    assert heard[0].row is None and heard[0].scored == 0
    assert [progress.scored for progress in heard] == list(range(7))
    assert {progress.run_dir for progress in heard} == {evaluated.run_dir}


@pytest.mark.parametrize("model", ["oracle", "random", "echo"])
@pytest.mark.parametrize("env", ["words", "sokoban"])
def test_results_do_not_depend_on_how_many_play_at_once(config_of: Values, model: str, env: str) -> None:
    values = config_of(model=model, episodes=10, trials=2)
    if env == "sokoban":
        values["env"] = "sokoban"
    one, many, again = (run({**values, "jobs": jobs}) for jobs in (1, 32, 1))
    assert len(results(one.run_dir)) == 20
    assert results(one.run_dir) == results(many.run_dir) == results(again.run_dir)
    timeless = [key for key in one.summary if not key.endswith("_seconds")]
    assert {key: one.summary[key] for key in timeless} == {key: many.summary[key] for key in timeless}


def test_trials_of_one_task_are_different_attempts(config_of: Values) -> None:
    evaluated = run(config_of(model="random", episodes=8, trials=3))
    rows = RunDirectory.open(evaluated.run_dir).rows()
    assert len({row["hash"] for row in rows}) > 8


def test_another_root_seed_means_other_tasks(config_of: Values) -> None:
    one, other = run(config_of()), run(config_of(seed=1))
    assert not results(one.run_dir).keys() & results(other.run_dir).keys()


def test_failures_are_counted_against_the_policy_and_make_the_run_invalid(config_of: Values) -> None:
    evaluated = run(config_of("breaks", retries=1))
    summary = evaluated.summary
    assert evaluated.status == "invalid"
    assert (summary["success"], summary["success_scored"], summary["coverage"]) == (0.6, 1.0, 0.6)
    assert summary["failures"] == {"environment": 4}, "two episodes, two attempts each"
    with pytest.raises(RunInvalid, match=r"only 3 of 5 .*environment 4.*--resume"):
        require_valid(evaluated)
    tolerant = run(config_of("breaks", retries=0, max_error_rate=0.4))
    assert tolerant.status == "complete"
    require_valid(tolerant)


def test_what_failed_is_owed_again_when_resumed_and_nothing_else(config_of: Values) -> None:
    values = config_of("breaks", retries=0)
    before = run(values)
    played: list[Progress] = []
    after = run(values, resume=before.run_dir, listen=played.append)
    assert {p.row["seed"] for p in played if p.row} == {1, 3}
    assert after.run_dir == before.run_dir
    assert after.summary["failures"] == {"environment": 4}


class Enough(Exception):
    """Raised by a listener to break a run off."""


def broken_off(values: dict[str, Any], after: int) -> Path:
    """Start a run and break it off after some episodes; return where it is."""
    seen: list[Path] = []

    def listen(progress: Progress) -> None:
        seen.append(progress.run_dir)
        if progress.scored >= after:
            raise Enough

    with pytest.raises(Enough):
        run(values, listen=listen)
    return seen[0]


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_run_that_was_broken_off_goes_on_and_equals_an_undisturbed_one(config_of: Values, after: int) -> None:
    values = config_of(model="random", episodes=20)
    path = broken_off(values, after)
    directory = RunDirectory.open(path)
    assert directory.state["status"] == "cancelled"
    assert len(directory.scored()) == after
    resumed = run({**values, "jobs": 9}, resume=path)
    assert resumed.status == directory.state["status"] == "complete"
    assert Counter(row["key"] for row in directory.rows()) == Counter(p.key for p in directory.plan())
    assert results(path) == results(run(values).run_dir)


def test_a_row_whose_line_was_cut_just_before_its_end_is_played_again(config_of: Values) -> None:
    values = config_of(episodes=6)
    path = broken_off(values, 4)
    episodes = path / "episodes.jsonl"
    episodes.write_bytes(episodes.read_bytes()[:-1])
    run(values, resume=path)
    directory = RunDirectory.open(path)
    assert Counter(row["key"] for row in directory.rows()) == Counter(p.key for p in directory.plan())


def test_resuming_a_complete_run_changes_nothing(config_of: Values) -> None:
    values = config_of()
    path = run(values).run_dir
    rows = (path / "episodes.jsonl").read_bytes()
    again = run(values, resume=path)
    assert again.status == "complete"
    assert (path / "episodes.jsonl").read_bytes() == rows


@pytest.mark.parametrize(
    ("change", "named"),
    [({"episodes": 13}, "episodes was 12, is 13"), ({"model": "random"}, "model was 'oracle', is 'random'"),
     ({"seed": 3}, "seed was 0, is 3"), ({"max_turns": 2}, "max_turns was None, is 2"),
     ({"env_args": {"length": 2}}, "env_args"), ({"temperature": 0.5}, "temperature")],
)  # fmt: skip
def test_a_run_goes_on_only_with_an_equal_configuration(config_of: Values, change: dict[str, Any], named: str) -> None:
    values = config_of()
    path = broken_off(values, 2)
    with pytest.raises(UsageError, match=named):
        run({**values, **change}, resume=path)
    assert len(RunDirectory.open(path).rows()) == 2
    assert run({**values, "jobs": 1, "retries": 5}, resume=path).status == "complete", "these change no result"


def test_a_run_does_not_go_on_when_the_environments_file_changed(config_of: Values, words: Path) -> None:
    values = config_of()
    path = broken_off(values, 2)
    words.write_text(words.read_text() + "\n# another environment now\n")
    with pytest.raises(IntegrityError, match="env_source"):
        run(values, resume=path)
    assert len(RunDirectory.open(path).rows()) == 2


def test_a_forged_lock_is_not_gone_on_with(config_of: Values) -> None:
    values = config_of()
    path = broken_off(values, 2)
    lock = json.loads((path / "lock.json").read_text())
    (path / "lock.json").write_text(json.dumps({**lock, "panel": "0" * 64}))
    with pytest.raises(IntegrityError, match="panel"):
        run(values, resume=path)


def test_the_configuration_beside_the_run_repeats_it(config_of: Values) -> None:
    first = run(config_of(model="random", env_args={"length": 4}, stop=["\n", '"quoted" \\'], max_turns=3))
    again = run(read_toml(first.run_dir / "config.toml"))
    assert results(again.run_dir) == results(first.run_dir)
    assert again.run_dir != first.run_dir


def test_a_recorded_run_is_a_policy_and_repeats_itself(config_of: Values) -> None:
    first = run(config_of(model="random"))
    again = run(config_of(model=f"replay:{first.run_dir}"))
    assert results(again.run_dir) == results(first.run_dir)
    with pytest.raises(UsageError, match="a run of other tasks"):
        run(config_of(model=f"replay:{first.run_dir}", seed=5))


def test_replay_finds_every_episode_as_recorded(config_of: Values) -> None:
    path = run(config_of(model="random")).run_dir
    found = list(replay(RunDirectory.open(path)))
    assert len(found) == 12
    assert all(each.difference is None for each in found)
    assert len(list(replay(RunDirectory.open(path), limit=3))) == 3


@pytest.mark.parametrize(
    "forge",
    [{"reward": 100.0}, {"success": True, "reward": 1.0}, {"end": "max_turns"}, {"seed": 1}, {"task": "another"},
     {"trial": 3}],
)  # fmt: skip
def test_replay_finds_a_forged_row(config_of: Values, forge: dict[str, Any]) -> None:
    path = run(config_of(model="nop")).run_dir
    episodes = path / "episodes.jsonl"
    first, *rest = episodes.read_text().splitlines()
    episodes.write_text("\n".join([json.dumps({**json.loads(first), **forge}), *rest]) + "\n")
    assert [each.difference is None for each in replay(RunDirectory.open(path))] == [False] + [True] * 11


def test_replay_finds_a_row_that_borrows_the_trajectory_of_another(config_of: Values) -> None:
    path = run(config_of(model="nop")).run_dir
    episodes = path / "episodes.jsonl"
    first, second, *rest = (json.loads(line) for line in episodes.read_text().splitlines())
    borrowed = {**first, "key": second["key"]}
    episodes.write_text("".join(json.dumps(row) + "\n" for row in [first, borrowed, *rest]))
    differences = {each.key: each.difference for each in replay(RunDirectory.open(path))}
    assert differences[first["key"]] is None
    assert differences[second["key"]] is not None


def test_everything_is_closed_in_order_when_a_run_breaks_off(
    config_of: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentbench.policies.scripted import SCRIPTED, Scripted

    events: list[str] = []

    class Session:
        async def reply(self, *_: Any, **__: Any) -> Any:
            from agentbench.core.types import Reply

            events.append("reply")
            return Reply("")

        async def close(self) -> None:
            events.append("session closed")

    class Noted(Scripted):
        def start(self, episode: Any) -> Any:
            return Session()

        async def aclose(self) -> None:
            events.append("policy closed")

    monkeypatch.setitem(SCRIPTED, "noted", lambda: Noted("noted", lambda episode: None))  # type: ignore[arg-type, return-value]
    broken_off(config_of(model="noted", episodes=50), 3)
    assert events[-1] == "policy closed"
    assert events.count("policy closed") == 1
