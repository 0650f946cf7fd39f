"""An environment that lives elsewhere, behind the same contract as one that lives here."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import agentbench
from agentbench.core.env import Env, Step
from agentbench.core.errors import IntegrityError
from agentbench.core.registry import Resolved, resolve
from agentbench.remote.protocol import Methods, serve
from agentbench.remote.stdio import Process, Processes


@dataclass(frozen=True, slots=True)
class Patience:
    """How long each kind of call may take, in seconds, before its process counts as hung."""

    open: float = 120.0
    reset: float = 120.0
    step: float = 60.0
    """Every call but opening and resetting."""


class RemoteEnv(Env):
    """An environment in another process: one session of it.

    Args:
        resolved: The environment, with its arguments.
        processes: Where it runs.
        patience: How long it may take.

    Raises:
        Failure: The process broke; in every method.
        IntegrityError: The process plays other tasks than asked for, or by other code.
    """

    def __init__(self, resolved: Resolved, processes: Processes, *, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        chosen = {"variant": resolved.variant, "split": resolved.split, "kwargs": dict(resolved.kwargs)}
        self._session = processes.session(self._patience.open, **chosen)
        said = self._call("describe")
        ours = {"agentbench": agentbench.__version__, "env": resolved.id, "digest": resolved.digest}
        other = {key: said[key] for key in ours if said[key] != ours[key]}
        if other:
            self.close()
            raise IntegrityError(f"the process serves {other}, expected { ({key: ours[key] for key in other}) }")
        self.task_count = said["task_count"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode there."""
        super().reset(seed=seed)
        observation, info = self._session.call("reset", self._patience.reset, seed=seed, options=options)
        return observation, info

    def step(self, action: str) -> Step:
        """Play one turn there."""
        return Step(*self._call("step", action=action))

    def oracle(self) -> list[str]:
        """Return what its oracle says."""
        return list(self._call("oracle"))

    def content(self, seed: int) -> str | None:
        """Name the task of a seed."""
        name: str | None = self._session.call("content", self._patience.reset, seed=seed)
        return name

    def random_action(self) -> str:
        """Return a random action of its own, drawn there from our `action_random`, which moves on."""
        action, state = self._call("random_action", state=self.action_random.bit_generator.state)
        self.action_random.bit_generator.state = state
        return str(action)

    def snapshot(self) -> bytes:
        """Return its snapshot."""
        return bytes(self._call("snapshot"))

    def restore(self, snapshot: bytes) -> None:
        """Go back to its snapshot."""
        self._call("restore", snapshot=snapshot)

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _call(self, method: str, **args: Any) -> Any:
        return self._session.call(method, self._patience.step, **args)


def serve_env(name: str) -> None:
    """Serve an environment on this process's standard streams until its owner is gone.

    Args:
        name: The environment's name or file; each session chooses variant, split and arguments.
    """

    def open_session(variant: str, split: str, kwargs: dict[str, Any]) -> Methods:
        resolved = resolve(f"{name}/{variant}", split=split, **kwargs)
        return _methods(resolved, resolved.make())

    serve(open_session, {"agentbench": agentbench.__version__, "env": name})


def _methods(resolved: Resolved, env: Env) -> Methods:
    """Return what a session can do with an environment: the contract, and nothing else of it."""
    said = {"agentbench": agentbench.__version__, "env": resolved.id, "digest": resolved.digest}
    return {
        "describe": lambda: {**said, "task_count": env.task_count},
        "reset": env.reset,
        "step": env.step,
        "oracle": env.oracle,
        "content": env.content,
        "random_action": lambda state: _draw_action(env, state),
        "snapshot": env.snapshot,
        "restore": env.restore,
        "close": env.close,
    }


def _draw_action(env: Env, state: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw an action from a generator in this state; return it with the generator's next state."""
    env.action_random.bit_generator.state = state
    action = env.random_action()
    return action, dict(env.action_random.bit_generator.state)


def processes_of(name: str, command: Sequence[str] = (), *, sessions: int = 16) -> Processes:
    """Return processes that serve an environment, for any number of `RemoteEnv`.

    Args:
        name: The environment's name or file.
        command: What runs `serve_env` for it, in a container for example; empty: this interpreter.
        sessions: Environments that share a process.
    """
    here = (sys.executable, "-P", "-m", "agentbench.cli", "serve", name, "--stdio")
    return Processes(lambda: Process(command or here, title=name), sessions=sessions)
