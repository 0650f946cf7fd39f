"""Checkpoint folders: loading them in silence, naming what is missing, and hashing what may change a result.

Only local files are read, only safetensors, and code that a checkpoint brings along runs only where the caller says so.
"""

import hashlib
import json
import os
import struct
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from agentbench.core.errors import PrerequisiteError, UsageError

Dtype = Literal["auto", "float32", "bfloat16", "float16"]

HASHED_BYTES = 4 << 30
"""Weights up to this size are hashed byte by byte."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model, its tokenizer, and where they came from."""

    model: PreTrainedModel
    tokenizer: Any
    path: Path | None = None


def load_checkpoint(
    path: str | Path, *, device: str = "auto", dtype: Dtype = "auto", trust_remote_code: bool = False
) -> Checkpoint:
    """Load a transformers folder for inference.

    Args:
        path: The folder.
        device: As torch names it; `auto` takes cuda, mps or cpu, the first that is there.
        dtype: Type of the weights in memory; `auto` is float32 on a CPU and the checkpoint's own elsewhere.
        trust_remote_code: Run model code that lies in the folder.

    Raises:
        PrerequisiteError: The folder, one of its files or the device is missing, or a file is broken.
        UsageError: The folder holds something else than a causal language model.
    """
    path = Path(path)
    config = _require(path)
    where = choose_device(device)
    with quietly():
        tokenizer = _load_tokenizer(path, trust_remote_code)
        model = _load_model(path, config, _torch_dtype(dtype, where), trust_remote_code)
    model.to(where)  # type: ignore[arg-type]
    model.eval()  # type: ignore[no-untyped-call]
    return Checkpoint(model, tokenizer, path)


def choose_device(device: str) -> torch.device:
    """Return a device that exists on this machine.

    Raises:
        PrerequisiteError: It does not.
        UsageError: torch knows no such device.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise UsageError(f"unknown device {device!r}; try auto, cpu, cuda, cuda:1 or mps") from error
    present = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.mps.is_available())}.get(chosen.type, 1)
    if (chosen.index or 0) >= present:
        raise PrerequisiteError(
            f"this machine has no device {device}; PyTorch {torch.__version__} finds {present} of its kind"
        )
    return chosen


def free_memory(device: torch.device) -> int:
    """Return the bytes that caches may take: 70 % of what is free on a GPU, half of what is available on a CPU."""
    if device.type == "cuda":
        return int(0.7 * torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(0.5 * torch.mps.recommended_max_memory())
    return min(_available_memory(), _container_memory()) // 2


def _available_memory() -> int:
    """Bytes that Linux calls available; elsewhere, half of what is built in."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":") for line in meminfo.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _container_memory() -> int:
    """Bytes that the control group has left; very many where it has no limit."""
    try:
        limit, used = (int(Path("/sys/fs/cgroup", name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no such group, or "max"
        return sys.maxsize
    return max(limit - used, 1 << 20)


def fingerprint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return hashes of the folder's weights and configuration.

    Weights are hashed byte by byte up to 4 GiB in all; beyond that, by each file's size and safetensors header.
    `weights_hash` says which.
    """
    if checkpoint.path is None:
        return {"weights": None, "weights_hash": "none: the model was not loaded from a folder", "config": None}
    files = sorted(checkpoint.path.glob("*.safetensors"))
    whole = sum(file.stat().st_size for file in files) <= HASHED_BYTES
    return {
        "weights": {file.name: _file_hash(file) if whole else _header_hash(file) for file in files},
        "weights_hash": "sha256 of every byte" if whole else "sha256 of size and safetensors header",
        "config": hashlib.sha256((checkpoint.path / "config.json").read_bytes()).hexdigest(),
    }


@contextmanager
def quietly() -> Iterator[None]:
    """Hold back transformers' progress bars, log lines and warnings, and restore them."""
    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _require(path: Path) -> dict[str, Any]:
    """Read config.json after making sure that the folder looks like a checkpoint."""
    if not path.is_dir():
        raise PrerequisiteError(
            f"no checkpoint folder at {path}; give the folder that holds config.json and *.safetensors"
        )
    if not (path / "config.json").is_file():
        adapter = (path / "adapter_config.json").is_file()
        hint = (
            "it is an adapter: merge it into its base model first" if adapter else "it is not a transformers checkpoint"
        )
        raise PrerequisiteError(f"{path} has no config.json; {hint}")
    if not any(path.glob("*.safetensors")):
        pickled = any(path.glob("*.bin"))
        hint = "its *.bin files are pickled and not read: save it with safe_serialization" if pickled else "no weights"
        raise PrerequisiteError(f"{path} has no *.safetensors; {hint}")
    try:
        config: dict[str, Any] = json.loads((path / "config.json").read_text("utf-8"))
    except ValueError as error:
        raise PrerequisiteError(f"{path / 'config.json'} is not readable JSON: {error}") from error
    return config


def _load_tokenizer(path: Path, trust_remote_code: bool) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=trust_remote_code)
    except Exception as error:  # from_pretrained raises whatever its parts raise
        raise PrerequisiteError(f"{path} has no tokenizer that can be loaded: {_one_line(error)}") from error
    # Without any tokenizer file, transformers makes an empty one for the architecture.
    if not tokenizer.encode("a", add_special_tokens=False):
        raise PrerequisiteError(f"{path} has no tokenizer: copy the files of the model's tokenizer into it")
    return tokenizer


def _load_model(path: Path, config: dict[str, Any], dtype: Any, trust_remote_code: bool) -> PreTrainedModel:
    if "auto_map" in config and not trust_remote_code and config.get("model_type") not in _known_types():
        raise UsageError(f"{path} brings its own model code; read it, then allow it with --trust-remote-code")
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
    except Exception as error:  # the same
        raise PrerequisiteError(f"{path} cannot be loaded as a causal language model: {_one_line(error)}") from error
    model: PreTrainedModel = loaded[0]
    report: dict[str, Any] = loaded[1]
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise PrerequisiteError(f"{path} lacks {len(missing)} weights of its architecture, {missing[0]} among them")
    return model


def _known_types() -> set[str]:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def _torch_dtype(dtype: Dtype, device: torch.device) -> Any:
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    return getattr(torch, dtype)


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _file_hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _header_hash(file: Path) -> str:
    with file.open("rb") as stream:
        size = stream.read(8)
        header = stream.read(struct.unpack("<Q", size)[0])
    return hashlib.sha256(str(file.stat().st_size).encode() + header).hexdigest()
