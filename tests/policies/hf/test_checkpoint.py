"""Folders that are no checkpoints are named as what they are; those that are load in silence."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from agentbench.core.errors import AgentBenchError, PrerequisiteError, UsageError
from agentbench.policies import checkpoint
from agentbench.policies.checkpoint import Checkpoint, fingerprint, load_checkpoint
from agentbench.policies.init import init_model, init_named
from agentbench.testing import tiny_model
from tests.policies.hf.conftest import Make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


def complaint(path: Path, kind: type[AgentBenchError] = PrerequisiteError) -> str:
    with pytest.raises(kind) as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_folder_is_a_missing_prerequisite(tmp_path: Path) -> None:
    assert "no checkpoint folder at" in complaint(tmp_path / "nowhere")
    assert PrerequisiteError.exit_code == 4


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert {"config.json": "config.json", "model.safetensors": "*.safetensors", "tokenizer.json": "tokenizer"}[
        name
    ] in complaint(folder)


def test_an_empty_tokenizer_is_none(folder: Path) -> None:
    for path in folder.glob("*token*"):
        path.unlink()
    assert "has no tokenizer: copy the files" in complaint(folder)


def test_pickled_weights_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pickled" in complaint(folder)


def test_an_adapter_is_recognised(folder: Path) -> None:
    (folder / "config.json").rename(folder / "adapter_config.json")
    assert "adapter" in complaint(folder)


def test_broken_files_get_one_line(folder: Path) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert "cannot be loaded" in complaint(folder)
    (folder / "config.json").write_text('{"model_type": ')
    assert "JSON" in complaint(folder)


def test_weights_that_lack_a_tensor_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert "model.norm.weight" in complaint(folder)


def test_code_in_the_folder_does_not_run_unless_allowed(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "homemade",
        "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    assert "--trust-remote-code" in complaint(folder, UsageError)
    assert not (folder / "ran").exists()


def test_devices_that_are_not_there_are_named(folder: Path) -> None:
    with pytest.raises(UsageError, match="warp"):
        load_checkpoint(folder, device="warp")
    with pytest.raises(PrerequisiteError, match="cuda:99"):
        load_checkpoint(folder, device="cuda:99")


def test_loading_is_silent_and_leaves_the_logging_as_it_was(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    level, handlers = transformers_logging.get_verbosity(), list(logging.getLogger().handlers)
    bars = transformers_logging.is_progress_bar_enabled()
    load_checkpoint(folder)
    assert capfd.readouterr() == ("", "")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == (level, bars)
    assert logging.getLogger().handlers == handlers


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_dtype_is_what_was_asked_for(folder: Path, make: Make, dtype: str) -> None:
    policy = make(load_checkpoint(folder, dtype=dtype))  # type: ignore[arg-type]
    assert str(policy.checkpoint.model.dtype) == f"torch.{dtype}"
    assert policy.fingerprint()["dtype"] == dtype


def test_the_fingerprint_follows_the_weights(tmp_path: Path, make: Make) -> None:
    one, same, other = (tiny_model(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    prints = [make(load_checkpoint(path)).fingerprint() for path in (one, same, other)]
    assert prints[0] == prints[1]
    differing = {key for key in prints[0] if prints[0][key] != prints[2][key]}
    assert differing == {"weights"}
    assert prints[0]["weights_hash"] == "sha256 of every byte"


def test_large_weights_are_hashed_by_header_and_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_checkpoint(folder)
    whole = fingerprint(loaded)
    monkeypatch.setattr(checkpoint, "HASHED_BYTES", 10)
    partly = fingerprint(loaded)
    assert "header" in partly["weights_hash"]
    assert whole["weights"] != partly["weights"]
    assert fingerprint(Checkpoint(loaded.model, loaded.tokenizer))["weights"] is None


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama"])
def test_a_new_model_is_an_ordinary_folder_and_the_same_for_the_same_seed(tmp_path: Path, architecture: str) -> None:
    before = torch.get_rng_state()
    first = init_model(tmp_path / "1", architecture=architecture, hidden=32, layers=2, heads=2, intermediate=64)  # type: ignore[arg-type]
    second = init_model(tmp_path / "2", architecture=architecture, hidden=32, layers=2, heads=2, intermediate=64)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), before)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    assert AutoModelForCausalLM.from_pretrained(first).config.model_type == architecture
    assert len(AutoTokenizer.from_pretrained(first)) == 259
    shutil.rmtree(second)


def test_named_sizes_have_the_parameters_that_are_stated(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(init_named("xs", tmp_path, seed=1))
    assert round(sum(weight.numel() for weight in model.parameters()) / 1e6, 2) == 0.36
    with pytest.raises(UsageError, match="known: xs, s, m"):
        init_named("xxl", tmp_path)


def test_words_of_a_named_size_are_single_tokens_and_come_before_its_own(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(init_named("xs", tmp_path, words=("upper", "click[")))
    assert tokenizer.tokenize("upper click[up]") == ["upper", "Ġ", "click[", "up", "]"]


def test_the_template_marks_what_the_assistant_says(folder: Path) -> None:
    chat = [{"role": "user", "content": "√"}, {"role": "assistant", "content": "up"}]
    encoded: Any = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        chat, return_dict=True, return_assistant_tokens_mask=True
    )
    said = [index for index, mark in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if mark]
    assert AutoTokenizer.from_pretrained(folder).decode(said) == "up<|im_end|>"
