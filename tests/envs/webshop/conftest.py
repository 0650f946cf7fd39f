import importlib
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shop_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded catalogue in the original's file formats."""
    recorded = importlib.import_module("tests.envs.webshop.recorded")
    folder = tmp_path_factory.mktemp("webshop")
    recorded.write_files(Path(__file__).parents[2] / "data" / "golden", folder)
    return folder
