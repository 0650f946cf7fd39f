"""The configuration of an evaluation: every flag of `agentbench eval`, every key of its TOML file."""

import difflib
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentbench.core.errors import UsageError
from agentbench.core.records import digest
from agentbench.core.registry import Resolved, resolve
from agentbench.core.types import Sampling
from agentbench.policies.choose import ModelOptions
from agentbench.rollout.context import ContextSpec
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.place import Kind, Place

Count = Annotated[int, Field(ge=1)]

MOST = 1_000_000
"""Tasks, or trials, that can be asked for: they are planned one by one, in memory, before the first is played."""


class EvalConfig(BaseModel):
    """What to evaluate, on what, and how. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str
    """A checkpoint folder or the name of a policy."""
    env: str
    """`name[/variant][@version][:split]`, or a Python file that defines ENTRY; with `*` or commas, a grid of them."""
    env_args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, on top of its variant's."""
    episodes: Annotated[int, Field(ge=0, le=MOST)] = 100
    """Tasks to play."""
    trials: Annotated[int, Field(ge=1, le=MOST)] = 1
    """Attempts at each task."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Root of every seed of the run: equal seeds, equal tasks."""

    temperature: Annotated[float, Field(ge=0)] = 0.0
    """Of sampling; 0 is greedy."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    max_tokens: Count = 256
    """Tokens that one reply may have."""
    stop: tuple[str, ...] = ()
    """Texts that end a reply."""

    max_turns: Count | None = None
    """Turns per episode; the environment's own number if absent."""
    token_limit: Count | None = None
    """Tokens that the policy may sample per episode."""
    max_invalid: Count | None = None
    """Invalid actions in a row that end an episode."""
    time_limit: Annotated[float, Field(gt=0)] | None = None
    """Seconds of wall time per episode."""
    context: str | None = None
    """`full`, `window:K` or `summary`; the environment's own if absent."""
    format: Literal["plain", "tagged"] = "plain"
    """How an action is found in a reply."""

    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_size: Count = 32
    """Rows that a local model decodes together."""
    trust_remote_code: bool = False
    base_url: str | None = None
    api_key_env: str | None = None
    """Name of the variable that holds the server's key."""

    sandbox: Kind = "none"
    """Where the environment's code runs: in this process, in a jail beside it, or in its container."""
    allow_unsandboxed: bool = False
    """With `--sandbox process`: make do with a plain process where bubblewrap is missing."""
    jobs: Count = 8
    """Episodes in flight."""
    retries: Annotated[int, Field(ge=0)] = 1
    """Further attempts at an episode after infrastructure failed."""
    max_error_rate: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Share of planned episodes that may stay unscored before the run is invalid."""
    out: Path = Path("runs")
    """Folder for run directories."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Validate values; the first mistake becomes one clear line.

        Raises:
            UsageError: A key is unknown or missing, or a value has the wrong type or range.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            # A key that is missing may be the unknown one, misspelt.
            first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
            key = ".".join(str(part) for part in first["loc"])
            raise UsageError(_explain(key, first, tuple(cls.model_fields))) from error

    def write(self, path: Path) -> str:
        """Return the TOML text that repeats this evaluation; absent keys are None."""
        values = self.model_dump(mode="json", exclude_none=True)
        return f"# Repeat with: agentbench eval --config {path}\n" + tomli_w.dumps(values)

    @property
    def command(self) -> str:
        """The command line that repeats this evaluation, without the flags that change no result."""
        words = ["agentbench", "eval"]
        for key, value in self.result_keys().items():
            flag = f"--{key.replace('_', '-')}"
            if isinstance(value, dict):
                words += [word for name, inner in value.items() for word in ("-E", f"{name}={_toml(inner)}")]
            elif isinstance(value, list | tuple):
                words += [word for text in value for word in (flag, text)]
            elif value is True:
                words.append(flag)
            elif value is not None and value != type(self).model_fields[key].default:
                words += [flag, str(value)]
        return shlex.join(words)

    def resolve_env(self) -> Resolved:
        """Find the environment.

        Raises:
            UsageError: There is none of this name.
        """
        return resolve(self.env, **self.env_args)

    def setting(self, resolved: Resolved, *, scripted: bool, place: Place | None = None) -> Setting:
        """Return what all episodes have in common.

        Args:
            resolved: The environment.
            place: Where its code runs.
            scripted: The policy plays actions, not replies: its context is plain whatever the format says.
        """
        return Setting(
            resolved,
            Limits(self.max_turns or resolved.max_turns, self.token_limit, self.max_invalid, self.time_limit),
            Sampling(self.temperature, self.top_p, self.top_k, self.max_tokens, self.stop),
            ContextSpec(self.context or resolved.context, "plain" if scripted else self.format),
            self.seed,
            place=place,
        )

    def model_options(self) -> ModelOptions:
        """Return how the model is loaded or reached."""
        return ModelOptions(
            device=self.device,
            dtype=self.dtype,
            batch_size=self.batch_size,
            trust_remote_code=self.trust_remote_code,
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            connections=self.jobs,
        )

    def result_keys(self) -> dict[str, Any]:
        """The values that may change a result: what a resumed run must share with its beginning."""
        values: dict[str, Any] = self.model_dump(mode="json", exclude=set(_HARMLESS))
        return values

    @property
    def digest(self) -> str:
        """A hash over `result_keys`."""
        return digest(self.result_keys())


def _toml(value: Any) -> str:
    """Write a value on one line of TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").strip()


_HARMLESS = (
    *("out", "jobs", "retries", "max_error_rate", "batch_size", "api_key_env", "device"),
    *("sandbox", "allow_unsandboxed"),  # The same seeds give the same episodes in every place.
)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a configuration file.

    Raises:
        UsageError: It is missing or no TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from error


def _explain(key: str, error: Mapping[str, Any], known: tuple[str, ...]) -> str:
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, known, n=1)
        return f"unknown key {key!r}; {f'did you mean {near[0]!r}? ' if near else ''}known: {', '.join(known)}"
    if error["type"] == "missing":
        return f"--{key.replace('_', '-')} is missing"
    return f"{key} = {error['input']!r}: {error['msg'][:1].lower()}{error['msg'][1:]}"
