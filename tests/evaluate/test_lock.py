"""What may change a result, and which differences matter."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.records import Planned
from agentbench.core.registry import resolve
from agentbench.core.types import Sampling
from agentbench.evaluate.lock import RULES, differences, make_lock, panel_hash
from agentbench.policies import scripted
from agentbench.rollout.context import ContextSpec
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.testing import ECHO, resolve_fake

PLAN = [Planned("k0", "t0", 0, 0), Planned("k1", "t1", 1, 0)]


def setting(**kwargs: Any) -> Setting:
    return Setting(resolve_fake(ECHO, **kwargs), Limits(8), Sampling(stop=("x",)), ContextSpec(), 3)


def test_every_field_of_a_lock_has_a_rule() -> None:
    lock = make_lock(setting(), scripted.nop(), PLAN, batch_size=4)
    assert set(lock) <= set(RULES)
    assert json.loads(json.dumps(lock))["limits"] == {
        "max_turns": 8, "max_tokens": None, "max_invalid": None, "max_seconds": None,
    }  # fmt: skip


def test_a_lock_equals_itself_after_it_was_a_file() -> None:
    lock = make_lock(setting(fail_on=(1, 2)), scripted.nop(), PLAN, batch_size=4)
    assert differences(json.loads(json.dumps(lock)), lock) == []


def test_differences_that_must_not_be_come_first() -> None:
    ours = make_lock(setting(), scripted.nop(), PLAN, batch_size=4)
    theirs = {**ours, "python": "2.7", "batch_size": 5, "env": "other/1@0", "unheard": 1}
    assert [(d.field, d.kind) for d in differences(ours, theirs)] == [
        ("env", "match"), ("batch_size", "warn"), ("unheard", "warn"), ("python", "ignore"),
    ]  # fmt: skip
    first = differences(ours, theirs)[0]
    assert (first.ours, first.theirs) == ("echo/3@0", "other/1@0")


def test_a_field_that_only_one_lock_has_is_a_difference() -> None:
    assert [d.field for d in differences({"weights": "a"}, {})] == ["weights"]
    assert [d.field for d in differences({}, {"weights": "a"})] == ["weights"]


def test_what_a_policy_knows_of_its_weights_is_locked() -> None:
    class Model(scripted.Scripted):
        def fingerprint(self) -> dict[str, str]:
            return {"weights": "abc", "tokenizer": "def"}

    model = Model("m", lambda episode: None)  # type: ignore[arg-type, return-value]
    lock = make_lock(setting(), model, PLAN, batch_size=4)
    assert (lock["weights"], lock["tokenizer"], lock["policy"]) == ("abc", "def", "m")


def test_a_panel_is_its_tasks_in_no_order_whatever_the_trials() -> None:
    resolved = resolve_fake(ECHO)
    again = [*reversed(PLAN), Planned("k2", "t1", 1, 1)]
    assert panel_hash(resolved, PLAN) == panel_hash(resolved, again)
    others = {
        panel_hash(resolved, PLAN),
        panel_hash(resolved, PLAN[:1]),
        panel_hash(resolve_fake(ECHO, split="train"), PLAN),
        panel_hash(resolve_fake(ECHO, length=2), PLAN),
        panel_hash(resolved, [PLAN[0], Planned("k1", "t1", 2, 0)]),
    }
    assert len(others) == 5


@pytest.mark.parametrize("text", ["ENTRY = ECHO", "ENTRY = ECHO  # changed"])
def test_an_environment_in_a_file_is_locked_by_its_content(tmp_path: Path, text: str) -> None:
    import hashlib

    path = tmp_path / "mine.py"
    path.write_text(f"from agentbench.testing import ECHO\n{text}\n")
    lock = make_lock(Setting(resolve(str(path)), Limits(8)), scripted.nop(), PLAN, batch_size=1)
    assert lock["env_source"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert make_lock(setting(), scripted.nop(), PLAN, batch_size=1)["env_source"] is None
