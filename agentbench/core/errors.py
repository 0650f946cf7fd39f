"""Every way in which AgentBench stops, as one tree.

An error belongs to one of three worlds, and the class says which:

- the user asked for something that cannot be (`UsageError`, `PrerequisiteError`, ...): one clear line and an exit
  code, no traceback;
- the world broke under an episode (`Failure`): a third outcome beside success and failure, recorded with its cause,
  retried if asked, given no gradient;
- a bug: everything else. It is left to crash.

`boundary()` is the only place where a foreign exception becomes a `Failure`; only the episode loop uses it.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal

Cause = Literal["environment", "policy", "provider", "sandbox", "memory", "timeout"]
"""What broke: the environment, the policy's own code, the server behind it, a sandbox, the memory, or the time."""


class AgentBenchError(Exception):
    """Base of every error that AgentBench raises on purpose."""

    exit_code: ClassVar[int] = 70
    """The exit code of the command line, from the table in the README."""


class UsageError(AgentBenchError):
    """The request makes no sense: a wrong name, value or combination. Say what was found, expected, and to do."""

    exit_code = 2


class RunInvalid(AgentBenchError):
    """The run ended, but too many episodes are missing or failed for a number to be trusted."""

    exit_code = 3


class PrerequisiteError(AgentBenchError):
    """Something that the request needs is not on this machine; found before any episode ran."""

    exit_code = 4


class NothingSelected(AgentBenchError):
    """The request is valid and selects no episode at all."""

    exit_code = 5


class IntegrityError(AgentBenchError):
    """A record does not agree with itself: a hash, a lock or a replay differs."""

    exit_code = 7


class RecordError(AgentBenchError):
    """A result could not be written (disk full, folder read-only). Never a warning: nothing may be lost in silence."""

    exit_code = 3


class EpisodeOver(AgentBenchError):
    """`step` was called before `reset`, or after the episode had ended."""

    exit_code = 70


class ContextFull(AgentBenchError):
    """A conversation leaves the policy's context no room for a single token; the episode ends as `max_tokens`."""


class Unsolvable(AgentBenchError):
    """The oracle has no plan from this state: it is proven lost, or the search ran out of its budget."""


class GenerationError(AgentBenchError):
    """A generator gave up on a task after its tries; the caller draws again with another seed."""


class Interrupted(AgentBenchError):
    """The user stopped the run; what was scored is on disk and the run can be resumed."""

    exit_code = 130


class OutOfTime(AgentBenchError):
    """The policy used up the episode's wall time; the episode ends as `timeout`."""


class Failure(AgentBenchError):
    """Infrastructure broke under an episode. Neither the agent's success nor its failure."""

    exit_code = 3

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause: Cause = cause
        """What broke."""


@contextmanager
def boundary(cause: Cause) -> Iterator[None]:
    """Turn whatever breaks inside into a `Failure` of this cause.

    The project's own errors pass through unchanged: a user's mistake stays a user's mistake, and a `Failure` keeps
    the cause that was found closer to the fault. Cancellation is no `Exception` and passes as well.

    Example:
        >>> with boundary("environment"):
        ...     raise ValueError("the door is gone")
        Traceback (most recent call last):
        ...
        agentbench.core.errors.Failure: ValueError: the door is gone
    """
    try:
        yield
    except AgentBenchError:
        raise
    except MemoryError as error:
        raise Failure("memory", f"{type(error).__name__}: {error}") from error
    except Exception as error:
        raise Failure(cause, f"{type(error).__name__}: {error}") from error


@contextmanager
def before_any_episode(what: str) -> Iterator[None]:
    """Make one clear line of whatever an environment raises while there is no episode yet to record it in.

    Args:
        what: What was being tried, for the line: "guess/small@0 cannot be started".

    Raises:
        UsageError: Its code or its arguments are wrong; the message says where it broke.
    """
    try:
        yield
    except AgentBenchError:
        raise
    except Exception as error:
        raise UsageError(f"{what}: {describe(error)}") from error


def describe(error: Exception) -> str:
    """Write an exception in one line: its type, its message, and the line of code that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"{message} ({Path(frame.filename).name}, line {frame.lineno})"
