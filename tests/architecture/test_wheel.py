"""What is built is complete: a wheel in a clean environment finds its environments and plays them."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "AGENTBENCH_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


def test_the_wheel_holds_code_cards_and_types(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"agentbench/py.typed", "agentbench_envs/py.typed", "agentbench_envs/sokoban/README.md"} <= names
    assert [name for name in names if name.startswith(("tests", "docs", "environments"))] == []
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "agentbench").rglob("*.py")}
    assert sources - names == set()


def test_the_sdist_holds_what_a_build_needs(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "environments/agentbench_envs/sokoban/README.md"} <= names


def test_the_wheel_plays_in_a_clean_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "clean", with_pip=True)
    bin_ = tmp_path / "clean" / "bin"
    constraints = ROOT / "constraints.txt"
    run(bin_ / "python", "-m", "pip", "install", "--quiet", "-c", constraints, wheel, cwd=tmp_path)
    listed = run(bin_ / "agentbench", "envs", "list", "--json", cwd=tmp_path).stdout
    assert "sokoban" in [json.loads(line)["name"] for line in listed.splitlines()]
    evaluation = ("eval", "--model", "oracle", "--env", "sokoban", "--episodes", "3", "--json")
    done = json.loads(run(bin_ / "agentbench", *evaluation, cwd=tmp_path).stdout.splitlines()[-1])
    assert done["status"] == "complete"
    assert done["summary"]["success"] == 1.0
    assert Path(tmp_path, done["run_dir"], "episodes.jsonl").exists()
