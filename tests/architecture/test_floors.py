"""Imports point down the floors of pyproject.toml's import-linter contracts, and the contracts bite."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts on a tree of sources."""
    path = os.pathsep.join([str(folder), str(folder / "environments")])
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    arguments = ["--no-cache", "--no-logo", "--config", str(ROOT / "pyproject.toml")]
    env = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    return subprocess.run([*command, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "agentbench", folder / "agentbench", ignore=ignore)
    shutil.copytree(
        ROOT / "environments" / "agentbench_envs", folder / "environments" / "agentbench_envs", ignore=ignore
    )
    return folder


def test_imports_point_down() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


BAD = {
    "core knows nobody": ("agentbench/core/types.py", "import agentbench.evaluate.evaluate"),
    "policies do not measure": ("agentbench/policies/scripted.py", "import agentbench.metrics.stats"),
    "rollout does not load torch": ("agentbench/rollout/limits.py", "import torch"),
    "scripted policies need no model": ("agentbench/policies/scripted.py", "import transformers"),
    "only statistics load scipy": ("agentbench/metrics/collect.py", "import scipy"),
    "environments do not evaluate": (
        "environments/agentbench_envs/sokoban/env.py",
        "import agentbench.rollout.launch",
    ),
    "environments are found, not imported": ("agentbench/core/registry.py", "import agentbench_envs.sokoban"),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", BAD)
def test_a_forbidden_import_is_found(rule: str, copy: Path) -> None:
    name, line = BAD[rule]
    path = copy / name
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{before}\n{line}\n", encoding="utf-8")
    try:
        done = lint_imports(copy)
    finally:
        path.write_text(before, encoding="utf-8")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


@pytest.mark.slow
def test_a_new_package_needs_a_floor(copy: Path) -> None:
    package = copy / "agentbench" / "surprise"
    package.mkdir()
    (package / "__init__.py").touch()
    try:
        done = lint_imports(copy)
    finally:
        shutil.rmtree(package)
    assert done.returncode == 1
    assert "surprise" in done.stdout + done.stderr
