"""Which environments there are, and what a name means.

    name[/variant][@version][:split]        sokoban    sokoban/10x10-4    sokoban/6x6-1@0:test
    path/to/file.py[/variant][:split]       a file that defines ENTRY

There is no central list. An environment is found because its folder under `agentbench_envs` defines `ENTRY`, because a
distribution names it as an entry point of group `agentbench.environments`, or because the user points at a file.
Looking an environment up imports its `__init__.py` and nothing behind it.
"""

import difflib
import functools
import hashlib
import importlib
import importlib.util
import json
import pkgutil
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from agentbench.core.env import Env
from agentbench.core.errors import UsageError
from agentbench.core.rewards import RewardSpec

GROUP = "agentbench.environments"
"""The entry-point group of environments that other distributions bring."""

_NAME = re.compile(r"(?P<name>[^/@:]+)(/(?P<variant>[^@:]+))?(@(?P<version>[^:]+))?(:(?P<split>.+))?")
_FILE = re.compile(r"(?P<name>.+\.py)(/(?P<variant>[^@:/]+))?(@(?P<version>[^:/]+))?(:(?P<split>[^:/]+))?")


@dataclass(frozen=True, slots=True)
class Variant:
    """A named setting of an environment. None keeps what the entry says."""

    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment's constructor."""
    instructions: str | None = None
    max_turns: int | None = None
    reward: RewardSpec | None = None
    splits: tuple[str, ...] | None = None
    needs: frozenset[str] | None = None
    context: str | None = None
    """Context mode that belongs to the variant's protocol: `full`, `window:k` or `summary`."""
    entry_point: str | None = None
    """For a variant that another class plays."""
    thread_bound: bool | None = None


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """Everything about an environment that can be known without starting it."""

    name: str
    title: str = field(default="", kw_only=True)
    """As the field writes it: `Sokoban`, `ALFWorld`; also the name in gymnasium's registry. Empty: from the name."""
    version: int
    """Grows when results may change."""
    entry_point: str
    """`module:Class`, in a file of its own also `:Class`; the constructor takes the variant's kwargs and `split`."""
    summary: str = field(default="", kw_only=True)
    """What it tests, in one line."""
    instructions: str
    """What the agent is told before the first observation."""
    max_turns: int
    reward: RewardSpec
    variants: Mapping[str, Variant]
    """The first is the default."""
    splits: tuple[str, ...] = ("train", "valid", "test")
    """What exists; `test` is where numbers are reported, the last one listed if there is no `test`."""
    deterministic: bool = True
    """The same seed and actions give the same episode; what `agentbench replay` relies on."""
    thread_bound: bool = False
    """Every call must come from the thread that made the environment."""
    needs: frozenset[str] = frozenset()
    """Prerequisites outside Python: `docker`, `browser`."""
    needs_with: Mapping[tuple[str, Any], frozenset[str]] = field(default_factory=dict)
    """Prerequisites in place of these where an argument has a value: `{("sandbox", "process"): {"bubblewrap"}}`."""
    image: str | None = None
    """The folder under `dockerfiles/` that holds its image."""
    licence: str = "Apache-2.0"
    source: str = ""
    """Where the task comes from: paper and original code."""
    context: str = "full"
    site: str | None = None
    """`module:function` that shows the environment to people: takes a `Resolved` and a port, serves until stopped."""
    identity: str | None = None
    """`module:function` that returns the arguments as they decide the tasks: for a path, a hash of what lies there."""
    paths: frozenset[str] = frozenset()
    """Arguments that name files or folders of the user's: no row of a leaderboard has them, nobody could check it."""
    builder: str | None = None
    """`module:function` that makes further tasks from command-line arguments: `agentbench envs build NAME ...`."""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.capitalize())


@dataclass(frozen=True, slots=True)
class Resolved:
    """An environment's name with nothing left open: variant, split and arguments."""

    entry: EnvEntry
    variant: str
    split: str
    kwargs: Mapping[str, Any]
    """The variant's arguments with the user's on top."""
    origin: str
    """`agentbench_envs.sokoban`, or the path of a file."""

    @property
    def id(self) -> str:
        """`name/variant@version`."""
        return f"{self.entry.name}/{self.variant}@{self.entry.version}"

    @property
    def digest(self) -> str:
        """A hash of environment, version, split and arguments: equal digests, equal tasks for equal seeds."""
        parts = [self.id, self.split, self.identity]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def identity(self) -> dict[str, Any]:
        """The arguments as they decide the tasks, see `EnvEntry.identity`.

        Raises:
            UsageError: What an argument names cannot be read.
        """
        given = dict(self.kwargs)
        if self.entry.identity is None:
            return given
        found: dict[str, Any] = _load(self.entry.name, self.entry.identity, self.origin)(given)
        return found

    @property
    def instructions(self) -> str:
        """What the agent is told."""
        own = self._variant.instructions
        return self.entry.instructions if own is None else own

    @property
    def max_turns(self) -> int:
        """Turns that an episode may have unless the run says otherwise."""
        return self._variant.max_turns or self.entry.max_turns

    @property
    def reward(self) -> RewardSpec:
        """The native reward."""
        return self._variant.reward or self.entry.reward

    @property
    def needs(self) -> frozenset[str]:
        """Prerequisites outside Python."""
        for (argument, value), needs in self.entry.needs_with.items():
            if self.kwargs.get(argument) == value:
                return needs
        own = self._variant.needs
        return self.entry.needs if own is None else own

    @property
    def entry_point(self) -> str:
        """The class that plays it."""
        return self._variant.entry_point or self.entry.entry_point

    @property
    def thread_bound(self) -> bool:
        """Every call must come from the thread that made the environment."""
        own = self._variant.thread_bound
        return self.entry.thread_bound if own is None else own

    @property
    def context(self) -> str:
        """The context mode that belongs to the protocol."""
        return self._variant.context or self.entry.context

    @property
    def _variant(self) -> Variant:
        return self.entry.variants[self.variant]

    def make(self, **extra: Any) -> Env:
        """Start the environment in this process.

        Args:
            **extra: Further constructor arguments that do not change tasks (`render_mode`).

        Raises:
            UsageError: The environment does not take one of the arguments, or its entry point names no `Env`.
        """
        cls = _load(self.entry.name, self.entry_point, self.origin)
        try:
            env = cls(**self.kwargs, split=self.split, **extra)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise UsageError(f"{self.id}: {error}") from error
        if not isinstance(env, Env):
            raise UsageError(f"{self.id}: {self.entry_point} makes a {type(env).__name__}, expected agentbench.Env")
        return env


def site_of(resolved: Resolved) -> Any:
    """Return the function that shows an environment to people, see `EnvEntry.site`.

    Raises:
        UsageError: It has none.
    """
    if resolved.entry.site is None:
        raise UsageError(f"{resolved.entry.name} has no site; an environment without one is served with --stdio")
    return _load(resolved.entry.name, resolved.entry.site, resolved.origin)


def make(name: str, *, split: str | None = None, render_mode: str | None = None, **kwargs: Any) -> Env:
    """Start an environment in this process.

    Args:
        name: `name[/variant][@version][:split]`, or a file.
        split: Overrides the name's split.
        render_mode: As in gymnasium.
        **kwargs: Arguments of the environment, on top of the variant's.

    Raises:
        UsageError: No such environment, variant, version, split or argument.
    """
    extra = {} if render_mode is None else {"render_mode": render_mode}
    return resolve(name, split=split, **kwargs).make(**extra)


def resolve(name: str, /, *, split: str | None = None, **kwargs: Any) -> Resolved:
    """Find out what a name means, without starting anything.

    Raises:
        UsageError: No such environment, variant, version or split; the message names the nearest ones.
    """
    is_file = ".py" in name
    match = (_FILE if is_file else _NAME).fullmatch(name)
    if match is None:
        raise UsageError(f"{name!r} is no environment name; expected name[/variant][@version][:split] or a .py file")
    base, variant, version, named_split = match.group("name", "variant", "version", "split")
    entry, origin = _from_file(base) if is_file else _lookup(base)
    variant = variant or next(iter(entry.variants))
    _choose("variant", variant, tuple(entry.variants), entry.name)
    if version is not None and version.removeprefix("v") != str(entry.version):
        raise UsageError(
            f"{entry.name} is here in version {entry.version}, not {version}; results differ between versions"
        )
    splits = entry.variants[variant].splits or entry.splits
    split = split or named_split or ("test" if "test" in splits else splits[-1])
    _choose("split", split, splits, f"{entry.name}/{variant}")
    return Resolved(entry, variant, split, {**entry.variants[variant].kwargs, **kwargs}, origin)


def environments() -> dict[str, EnvEntry]:
    """Return every environment that is installed, by name."""
    return {name: entry for name, (entry, _) in _installed().items()}


def mirror_into_gymnasium() -> None:
    """Tell gymnasium about every installed environment and variant: `agentbench/Sokoban-10x10-4-v0`."""
    import gymnasium

    for name, entry in environments().items():
        for number, variant in enumerate(entry.variants):
            titles = [f"{entry.title}-{variant}"] + [entry.title] * (number == 0)
            for title in titles:
                env_id = f"agentbench/{title}-v{entry.version}"
                if env_id not in gymnasium.registry:
                    maker = functools.partial(make, f"{name}/{variant}")
                    gymnasium.register(env_id, entry_point=maker, disable_env_checker=True, order_enforce=False)


@functools.cache
def _installed() -> dict[str, tuple[EnvEntry, str]]:
    found: dict[str, tuple[EnvEntry, str]] = {}
    try:
        package = importlib.import_module("agentbench_envs")
    except ModuleNotFoundError:
        package = ModuleType("agentbench_envs")
    for info in pkgutil.iter_modules(getattr(package, "__path__", []), "agentbench_envs."):
        entry = getattr(importlib.import_module(info.name), "ENTRY", None)
        if isinstance(entry, EnvEntry):
            found[entry.name] = (entry, info.name)
    for point in entry_points(group=GROUP):
        entry = _load_point(point)
        if entry is not None:
            found[entry.name] = (entry, point.module)
    return dict(sorted(found.items()))


def _load_point(point: EntryPoint) -> EnvEntry | None:
    """Load what another distribution brings; a broken one must not keep AgentBench from being imported."""
    try:
        entry = point.load()
    except Exception as error:
        _broken[point.name] = f"{type(error).__name__}: {error}"
        return None
    if not isinstance(entry, EnvEntry):
        _broken[point.name] = f"{point.value} is no EnvEntry"
        return None
    return entry


_broken: dict[str, str] = {}
"""Why an entry point gives no environment, by its name."""


def _lookup(name: str) -> tuple[EnvEntry, str]:
    installed = _installed()
    if name in _broken and name not in installed:
        raise UsageError(f"the environment {name} is installed and cannot be loaded: {_broken[name]}")
    _choose("environment", name, tuple(installed), "this installation")
    return installed[name]


def _choose(what: str, name: str, known: tuple[str, ...], of: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise UsageError(f"{of} has no {what} {name!r}; {hint}")


def _from_file(path: str) -> tuple[EnvEntry, str]:
    entry = getattr(_load_file(path), "ENTRY", None)
    if not isinstance(entry, EnvEntry):
        raise UsageError(f"{path} defines no ENTRY of type agentbench.core.registry.EnvEntry")
    return entry, path


@functools.cache
def _load_file(path: str) -> ModuleType:
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"there is no file {path}")
    name = f"agentbench_file_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:8]}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _load(name: str, entry_point: str, origin: str) -> Any:
    """Load the class of an entry; in a file, `Class`, `:Class` and `file:Class` name one of its own.

    Raises:
        UsageError: The entry point names no module, or nothing in it.
    """
    module_name, _, attribute = entry_point.rpartition(":")
    if origin.endswith(".py") and module_name in ("", Path(origin).stem):
        module = _load_file(origin)
    else:
        try:
            module = importlib.import_module(module_name or origin)
        except ModuleNotFoundError as error:
            raise UsageError(f"{name}: its entry point {entry_point!r} cannot be imported: {error}") from error
    if not hasattr(module, attribute):
        raise UsageError(f"{name}: its entry point {entry_point!r} names no class that is there")
    return getattr(module, attribute)
