"""What `--model` means: the name of a policy, or the folder of a checkpoint."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.core.policy import Policy
from agentbench.policies import scripted

NAMES = (
    *scripted.SCRIPTED,
    "human",
    "human:browser",
    "replay:RUN",
    "openai:NAME",
    "bundled:NAME",
    "a checkpoint folder",
)
"""What may be written, for messages and help."""


BUNDLED = Path(__file__).parent.parent / "bundled"
"""The folder of the trained checkpoints that come with AgentBench."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is loaded or reached; each policy reads what concerns it."""

    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_size: int = 32
    trust_remote_code: bool = False
    base_url: str | None = None
    api_key_env: str | None = None
    connections: int = 32


def choose_policy(model: str, options: ModelOptions | None = None) -> Policy:
    """Return the policy that a `--model` value names.

    Raises:
        UsageError: It names nothing that exists.
        PrerequisiteError: It names something that cannot be loaded here.
    """
    options = options or ModelOptions()
    if model in scripted.SCRIPTED:
        return scripted.SCRIPTED[model]()
    if model == "human":
        from agentbench.policies.human import HumanPolicy

        return HumanPolicy()
    if model == "human:browser":
        from agentbench.policies.visitor import Visitor

        return Visitor()
    kind, colon, rest = model.partition(":")
    if colon and kind == "replay":
        return scripted.replay(Path(rest))
    if colon and kind == "openai":
        return _openai(rest, options)
    if colon and kind == "bundled":
        return _checkpoint(str(bundled(rest)), options)
    return _checkpoint(model, options)


def bundled(name: str) -> Path:
    """Return the folder of a trained checkpoint that comes with AgentBench.

    Raises:
        UsageError: There is none of this name.
    """
    known = sorted(path.parent.name for path in BUNDLED.glob("*/config.json"))
    if name not in known:
        raise UsageError(f"there is no bundled checkpoint {name!r}; known: {', '.join(known)}")
    return BUNDLED / name


def _openai(name: str, options: ModelOptions) -> Policy:
    from agentbench.policies.openai import OpenAIPolicy

    if options.base_url is None:
        raise UsageError(f"openai:{name} needs --base-url, the address of the server (http://localhost:8000/v1)")
    return OpenAIPolicy(
        name, base_url=options.base_url, api_key_env=options.api_key_env, max_connections=options.connections
    )


def _checkpoint(model: str, options: ModelOptions) -> Policy:
    if not Path(model).exists():
        near = difflib.get_close_matches(model, [*scripted.SCRIPTED, "human"], n=1)
        if near and model.isidentifier():
            raise UsageError(f"there is no model {model!r}; did you mean {near[0]!r}?")
        raise PrerequisiteError(f"there is no checkpoint folder {model!r}; --model takes {', '.join(NAMES)}")
    from agentbench.policies.hf import HFPolicy

    return HFPolicy(
        model,
        device=options.device,
        dtype=options.dtype,
        batch_size=options.batch_size,
        trust_remote_code=options.trust_remote_code,
    )
