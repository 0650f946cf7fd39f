"""Every code block of README.md and CONTRIBUTING.md runs.

Blocks of one document run in their order in one temporary folder, with a small checkpoint in `./checkpoint` and
somebody who types `up` at every prompt. `make` lines that run these very tests are only asked what they would do. What
installs runs on a fresh copy of the sources, in an environment that `make demo` makes there.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agentbench.testing import tiny_model

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
BIN = Path(sys.executable).parent
TYPED = "up\n" * 1000


class Block(NamedTuple):
    """A fenced code block."""

    document: str
    line: int
    language: str
    code: str

    @property
    def kind(self) -> str:
        """`fresh` (installs), `make` (runs these tests), or `run`."""
        if "pip install" in self.code or "make demo" in self.code:
            return "fresh"
        return "make" if re.search(r"^make ", self.code, re.MULTILINE) else "run"


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(document, text[: m.start()].count("\n") + 2, m[1], m[2]) for m in found]


def environment(*first: Path) -> dict[str, str]:
    """The variables of a shell in which nothing of this test run is visible."""
    hidden = ("MAKE", "MFLAGS", "AGENTBENCH_", "PYTEST", "VIRTUAL_ENV", "PYTHONPATH", "VENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    others = [part for part in kept["PATH"].split(os.pathsep) if Path(part) != BIN]
    return {**kept, "PATH": os.pathsep.join([*map(str, first), *others]), "NO_COLOR": "1", "COLUMNS": "120"}


def shell(code: str, folder: Path, *first: Path) -> str:
    command = ["bash", "-euo", "pipefail", "-c", code]
    done = subprocess.run(
        command, cwd=folder, env=environment(*first), input=TYPED, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_block_says_what_it_is(document: str) -> None:
    assert blocks(document)
    assert [block for block in blocks(document) if block.language not in ("bash", "python")] == []


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_blocks_run(document: str, tmp_path: Path) -> None:
    tiny_model(tmp_path / "checkpoint")
    for block in blocks(document):
        if block.kind == "run":
            code = block.code if block.language == "bash" else f"python - <<'END'\n{block.code}END"
            shell(code, tmp_path, BIN)


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "soak", "docs", "help", "clean"])
def test_make_knows_what_the_documents_name(target: str) -> None:
    assert shell(f"make --dry-run {target}", ROOT)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_lines_name_targets(document: str) -> None:
    lines = [line for block in blocks(document) for line in block.code.splitlines() if line.startswith("make ")]
    for line in lines:
        shell(line.replace("make ", "make --dry-run ", 1), ROOT)


@pytest.mark.slow
def test_the_first_commands_work_on_a_fresh_machine(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    said = shell("make demo", tmp_path)
    assert "downloads about" in said
    assert "agentbench eval --model PATH" in said
    assert list((tmp_path / "runs").iterdir())
    assert "downloads about" not in shell("make --dry-run demo", tmp_path)
    for document in DOCUMENTS:
        for block in blocks(document):
            if block.kind == "fresh":
                code = "\n".join(line for line in block.code.splitlines() if not line.startswith("make "))
                shell(code, tmp_path, tmp_path / ".venv" / "bin")


def copy_sources(folder: Path) -> None:
    """Copy what a clone would hold, with the changes that are not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("tests/data"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
