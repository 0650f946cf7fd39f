"""The border between the world's failures and our bugs."""

import asyncio

import pytest

from agentbench.core import errors
from agentbench.core.errors import AgentBenchError, Failure, PrerequisiteError, UsageError, boundary


def test_a_foreign_exception_becomes_a_failure_with_cause_and_origin() -> None:
    with pytest.raises(Failure, match=r"^KeyError: 'door'$") as caught, boundary("environment"):
        raise KeyError("door")
    assert caught.value.cause == "environment"
    assert isinstance(caught.value.__cause__, KeyError)


def test_running_out_of_memory_is_named_whatever_broke() -> None:
    with pytest.raises(Failure) as caught, boundary("policy"):
        raise MemoryError
    assert caught.value.cause == "memory"


def test_a_failure_keeps_the_cause_found_closer_to_the_fault() -> None:
    with pytest.raises(Failure) as caught, boundary("environment"), boundary("policy"):
        raise Failure("provider", "rate limit")
    assert caught.value.cause == "provider"


@pytest.mark.parametrize("error", [UsageError("a wrong name"), PrerequisiteError("no docker")])
def test_a_users_mistake_stays_a_users_mistake(error: AgentBenchError) -> None:
    with pytest.raises(type(error)) as caught, boundary("environment"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_being_told_to_stop_is_no_failure(stop: type[BaseException]) -> None:
    with pytest.raises(stop), boundary("environment"):
        raise stop


def test_nothing_happens_when_nothing_breaks() -> None:
    with boundary("environment"):
        done = True
    assert done


def test_exit_codes_follow_the_table() -> None:
    table = {
        "UsageError": 2, "RunInvalid": 3, "RecordError": 3, "Failure": 3, "PrerequisiteError": 4,
        "NothingSelected": 5, "IntegrityError": 7, "EpisodeOver": 70, "AgentBenchError": 70,
    }  # fmt: skip
    assert {name: getattr(errors, name).exit_code for name in table} == table


def test_every_error_is_part_of_the_tree() -> None:
    kinds = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    assert len(kinds) > 10
    assert all(issubclass(kind, AgentBenchError) for kind in kinds)
