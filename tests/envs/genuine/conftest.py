"""The recorded games, unpacked."""

import tarfile
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "data" / "golden" / "environments" / "textworld_games.tar.gz"


@pytest.fixture(scope="session")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of games that `tw-make` made: each a `.z8` and a `.json`."""
    folder = tmp_path_factory.mktemp("games")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder, filter="data")
    return folder
