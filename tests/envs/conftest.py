"""What variants need and a clean clone lacks: ALFWorld's data, the genuine TextWorld, an image for SWE tasks."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.remote.interpreter import missing, variable
from agentbench.sandbox import images
from agentbench.sandbox.engine import missing_engine
from tests.envs.alfworld.games import write_games

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-textworld"
PACKAGE = "textworld==1.7.0"


@pytest.fixture(scope="session", autouse=True)
def alfworld_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in the layout of ALFWorld's data, with recorded problems of the original's engine in it."""
    folder = tmp_path_factory.mktemp("alfworld-data")
    write_games(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALFWORLD_DATA", str(folder))
        yield folder


@pytest.fixture(scope="session")
def genuine_textworld() -> Iterator[None]:
    """Name an interpreter that has TextWorld, making one where there is none; its games are kept in the checkout."""
    set_here = {"AGENTBENCH_CACHE": os.environ.get("AGENTBENCH_CACHE", str(ROOT / ".bench" / "cache"))}
    if missing("textworld"):
        set_here[variable("textworld")] = str(_textworld())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in set_here.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def textworld_where_it_is_needed(request: pytest.FixtureRequest) -> None:
    """Variants of the genuine engine find it, whichever test plays them."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and "textworld/z8" in str(callspec.params.get("name", "")):
        request.getfixturevalue("genuine_textworld")


@pytest.fixture(scope="session")
def swe_image() -> None:
    """The image in which the commands of SWE tasks run."""
    problem = missing_engine()
    if problem:
        pytest.skip(problem)
    images.build("swe")


@pytest.fixture(autouse=True)
def swe_image_where_it_is_needed(request: pytest.FixtureRequest) -> None:
    """Variants of the SWE environment find their image, whichever test plays them."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and str(callspec.params.get("name", "")).startswith("swe/"):
        request.getfixturevalue("swe_image")


def _textworld() -> Path:
    """Install TextWorld into an environment of its own, once, whichever process comes first."""
    python = HOME / "bin" / "python"
    (ROOT / ".bench").mkdir(exist_ok=True)
    with (ROOT / ".bench" / "textworld.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not (HOME / ".installed").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
            done = subprocess.run(pip, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{PACKAGE} cannot be installed (it needs gcc and make): {done.stderr[-300:]}")
            (HOME / ".installed").touch()
    return python
