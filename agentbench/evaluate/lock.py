"""What may change a result besides the configuration, and which differences matter.

Each field of lock.json belongs to one of three kinds. *match*: results with different values are not of the same thing,
and a run is not resumed across it. *warn*: results may differ a little (another batch size, another library version).
*ignore*: recorded for the reader.
"""

import hashlib
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import agentbench
from agentbench.core.policy import Policy
from agentbench.core.records import Planned, canonical, digest
from agentbench.core.registry import Resolved
from agentbench.rollout.episode import Setting

Kind = Literal["match", "warn", "ignore"]

RULES: dict[str, Kind] = {
    "env": "match",
    "split": "match",
    "env_args": "match",
    "env_source": "match",
    "panel": "match",
    "instructions": "match",
    "context": "match",
    "limits": "match",
    "sampling": "match",
    "seed": "match",
    "policy": "match",
    "weights": "match",
    "tokenizer": "match",
    "chat_template": "match",
    "dtype": "match",
    "agentbench": "warn",
    "batch_size": "warn",
    "device": "warn",
    "packages": "warn",
    "sandbox": "warn",
    "git_commit": "ignore",
    "git_dirty": "ignore",
    "python": "ignore",
    "hardware": "ignore",
}
"""What a difference in each field means; a field that is not listed warns."""

_PACKAGES = ("gymnasium", "numpy", "scipy", "torch", "transformers", "tokenizers", "textworld")


class Difference(NamedTuple):
    """A field in which two locks differ."""

    field: str
    kind: Kind
    ours: Any
    theirs: Any


def make_lock(setting: Setting, policy: Policy, plan: Sequence[Planned], *, batch_size: int) -> dict[str, Any]:
    """Record the circumstances of a run."""
    fingerprint = getattr(policy, "fingerprint", dict)
    return {
        **protocol(setting, plan),
        "policy": policy.name,
        "agentbench": agentbench.__version__,
        "batch_size": batch_size,
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "python": platform.python_version(),
        "hardware": {"machine": platform.machine(), "system": platform.system(), "processor": platform.processor()},
        **({"sandbox": setting.place.record} if setting.place and setting.place.record else {}),
        **_git(),
        **fingerprint(),
    }


def protocol(setting: Setting, plan: Sequence[Planned]) -> dict[str, Any]:
    """Return the part of a lock that says what was played, and not who played or where."""
    resolved = setting.resolved
    return {
        "env": resolved.id,
        "split": resolved.split,
        "env_args": resolved.identity,
        "env_source": _file_hash(resolved.origin),
        "panel": panel_hash(resolved, plan),
        "instructions": digest(resolved.instructions),
        "context": {"mode": setting.context.mode, "format": setting.context.format},
        "limits": _fields(setting.limits),
        "sampling": _fields(setting.sampling),
        "seed": setting.seed,
    }


def panel_hash(resolved: Resolved, plan: Sequence[Planned]) -> str:
    """Return the content hash of a panel: environment, version, split, arguments, and its tasks in no order."""
    return digest(resolved.digest, sorted({(planned.task, planned.seed) for planned in plan}))


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Difference]:
    """List the fields in which two locks differ, the ones that must match first."""
    order: Sequence[Kind] = ("match", "warn", "ignore")
    found = [
        Difference(field, RULES.get(field, "warn"), ours.get(field), theirs.get(field))
        for field in sorted(ours.keys() | theirs.keys())
        if canonical(ours.get(field)) != canonical(theirs.get(field))  # One of them may have been a file.
    ]
    return sorted(found, key=lambda difference: order.index(difference.kind))


def _fields(value: Any) -> dict[str, Any]:
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: list(field) if isinstance(field, tuple) else field for name, field in fields.items()}


def _file_hash(origin: str) -> str | None:
    """The hash of an environment that is a file of the user's; installed ones have a version."""
    return hashlib.sha256(Path(origin).read_bytes()).hexdigest() if origin.endswith(".py") else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git() -> dict[str, Any]:
    """The commit of the checkout that AgentBench runs from, if it does."""
    folder = Path(agentbench.__file__).parent
    try:
        commit = _run_git(folder, "rev-parse", "HEAD")
        return {"git_commit": commit, "git_dirty": bool(_run_git(folder, "status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return {"git_commit": None, "git_dirty": None}


def _run_git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
