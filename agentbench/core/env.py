"""The contract of an environment: gymnasium's, with texts going in and out.

An author overrides `reset` and `step` as for any gymnasium environment, calls `super().reset(seed=seed)` first, and
draws every random number from `self.np_random`. Around the author's two methods this class adds what the contract
promises and nobody should have to remember: a step before the start or after the end raises, an episode never ends in
two ways at once, every episode has a known seed, and a snapshot works because the actions are kept.

    observation, info = env.reset(seed=7)
    while True:
        step = env.step(policy(observation))
        if step.terminated or step.truncated:
            break
        observation = step.observation

Keys of `info`, all optional but `valid`:

    success     bool | None        solved; None where that cannot be said (yet)
    valid       bool               the last action was well-formed and legal
    terms       dict[str, float]   raw components of the reward; their native weighing is `Step.reward`
    potential   float              Phi(s), raw; 0 once the episode ended
    admissible  list[str]          actions that would be legal now
    anchor      str                the state without history, equal for equal states
    goal        str                what the agent is asked to do
    image       bytes              a PNG, only on request
    sandbox     dict[str, Any]     at reset: what isolation the episode's sandbox gives, for its record

Timings and whatever else is not part of the observation go there too.
"""

import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import gymnasium
import numpy as np

from agentbench.core.errors import EpisodeOver
from agentbench.core.seeding import generator
from agentbench.core.spaces import Text

F = TypeVar("F", bound=Callable[..., Any])


class Step(NamedTuple):
    """What one action led to: gymnasium's five values, named."""

    observation: str
    reward: float
    terminated: bool
    """The task itself ended: solved, or lost for good."""
    truncated: bool
    """The episode was cut off, by a cap on moves for example. Never true together with `terminated`."""
    info: dict[str, Any]


class Env(gymnasium.Env[str, str]):
    """A task that is played in words, one turn after another; synchronous, and not shared between threads."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium's own declaration
    observation_space = Text()
    action_space = Text()
    task_count: int | None = None
    """Tasks in this environment's split, for finite lists (a seed is then an index, modulo this); None: unlimited."""

    action_random: np.random.Generator
    """For `random_action` alone, so that looking for an action never changes the episode."""

    _seed: int = 0
    _options: dict[str, Any] | None = None
    _actions: list[str]
    _over: bool = True
    _supervised: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Put the contract's promises around whichever methods the subclass defines."""
        super().__init_subclass__(**kwargs)
        for name, supervise in _SUPERVISORS.items():
            if name in vars(cls):
                setattr(cls, name, supervise(vars(cls)[name]))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Decides the task and all that is random in it; the same seed gives the same episode in any thread,
                process or container. None draws one from the environment's generator.
            options: What the environment offers beyond its seed (see its card).

        Returns:
            The first observation, and `info`.
        """
        super().reset(seed=seed, options=options)
        return "", {}

    def step(self, action: str) -> Step:
        """Play one turn.

        An illegal or malformed action never raises: it is answered in words, marked `valid: False` in the info, and
        costs what the environment's card says. `terminated` means that nothing can follow: the task is solved or lost.
        `truncated` means that a cap cut it off, though more could have followed; whether a trainer bootstraps a value
        there is its `truncation` option. Never both. The last observation and info belong to the episode like every
        other.

        Raises:
            EpisodeOver: The episode has not begun, or has ended.
        """
        raise NotImplementedError

    def oracle(self) -> list[str]:
        """Return actions that solve the task from the present state.

        Raises:
            Unsolvable: There is no such plan, or none was found within the search's budget.
            NotImplementedError: The environment has no oracle.
        """
        raise NotImplementedError(f"{type(self).__name__} has no oracle")

    def content(self, seed: int) -> str | None:
        """Name the task that a seed gives: equal names are equal tasks, symmetric copies included.

        A panel holds each name once, so that its tasks are as independent as their number says. None, the default:
        tasks are too many to meet one twice.
        """
        return None

    def random_action(self) -> str:
        """Return a well-formed, uninformed action, drawn from `self.action_random`."""
        raise NotImplementedError(f"{type(self).__name__} has no random_action")

    def snapshot(self) -> bytes:
        """Return the present state, to be restored here or in another instance with the same arguments.

        This default keeps seed, options and actions (they must be JSON) and plays them again; override both
        methods where the state is cheaper to copy.

        Raises:
            EpisodeOver: No episode was begun.
        """
        if not hasattr(self, "_actions"):
            raise EpisodeOver(f"{type(self).__name__}.snapshot was called before the first reset")
        return json.dumps([self._seed, self._options, self._actions]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go back to a state that `snapshot` returned."""
        seed, options, actions = json.loads(snapshot)
        self.reset(seed=seed, options=options)
        for action in actions:
            self.step(action)

    def close(self) -> None:
        """Free what the environment holds. Idempotent."""


def _supervise_reset(reset: F) -> F:
    @functools.wraps(reset)
    def supervised(
        self: Env, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        if self._supervised:
            return cast(tuple[str, dict[str, Any]], reset(self, seed=seed, options=options))
        if seed is None:
            seed = int(self.np_random.integers(2**63))
        start = _alone(self, reset, seed=seed, options=options)
        self._seed, self._options, self._actions, self._over = seed, options, [], False
        self.action_random = generator("random action", seed)
        return cast(tuple[str, dict[str, Any]], start)

    return cast(F, supervised)


def _supervise_step(step: F) -> F:
    @functools.wraps(step)
    def supervised(self: Env, action: str) -> Step:
        if self._supervised:
            return cast(Step, step(self, action))
        if self._over:
            raise EpisodeOver(f"{type(self).__name__}.step was called outside an episode: call reset first")
        result = Step._make(_alone(self, step, action))
        if result.terminated and result.truncated:
            raise AssertionError(f"{type(self).__name__} ended an episode as terminated and as truncated: choose one")
        self._actions.append(action)
        self._over = result.terminated or result.truncated
        return result

    return cast(F, supervised)


def _supervise_snapshot(snapshot: F) -> F:
    @functools.wraps(snapshot)
    def supervised(self: Env) -> bytes:
        state: bytes = snapshot(self)
        return b"01"[self._over : self._over + 1] + json.dumps([self._seed, self._options]).encode() + b"\n" + state

    return cast(F, supervised)


def _supervise_restore(restore: F) -> F:
    @functools.wraps(restore)
    def supervised(self: Env, snapshot: bytes) -> None:
        head, _, state = snapshot.partition(b"\n")
        self._seed, self._options = json.loads(head[1:])
        self._actions, self._over = [], head[:1] == b"1"
        self.action_random = generator("random action", self._seed)
        restore(self, state)

    return cast(F, supervised)


def _alone(env: Env, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call an author's method; the contract's own methods that it calls in turn are not supervised again."""
    env._supervised = True
    try:
        return method(env, *args, **kwargs)
    finally:
        env._supervised = False


_SUPERVISORS: dict[str, Callable[[Any], Any]] = {
    "reset": _supervise_reset,
    "step": _supervise_step,
    "snapshot": _supervise_snapshot,
    "restore": _supervise_restore,
}
