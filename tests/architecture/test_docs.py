"""The documentation says what is so: generated parts are fresh, links lead somewhere, the exit codes are the code's."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from agentbench.core import errors

ROOT = Path(__file__).parents[2]
DOCS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "environments/**/*.md", "leaderboards/**/*.md", "dockerfiles/**/*.md")
    for path in ROOT.glob(pattern)
)
BANNED = {
    "pip install agentbench": "the distribution is agentbench-gym, installed from a clone or from git",
    "pypi.org": "say `the package index`",
    "pythonhosted": "say `the package index`",
}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_fresh() -> None:
    generate = load(ROOT / "docs" / "generate.py")
    stale = [path.name for path, text in generate.documents().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"


@pytest.mark.parametrize("path", [*DOCS, ROOT / "Makefile", ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_no_banned_phrase(path: Path) -> None:
    text = path.read_text(encoding="utf-8").lower()
    assert [f"{phrase}: {why}" for phrase, why in BANNED.items() if phrase in text] == []


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (path.parent / target).exists()] == []


def test_the_exit_codes_of_the_readme_are_those_of_the_errors() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)}
    raised = {cls.exit_code for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "exit_code")}
    assert raised <= listed


def test_every_environment_has_a_card() -> None:
    from agentbench.core.registry import environments

    cards = ROOT / "environments" / "agentbench_envs"
    assert [name for name in environments() if not (cards / name / "README.md").is_file()] == []
