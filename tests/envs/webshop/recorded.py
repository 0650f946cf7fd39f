"""What was recorded from the original, and its catalogue as files."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from agentbench_envs.webshop.catalogue import load
from agentbench_envs.webshop.goals import Kind
from agentbench_envs.webshop.stock import Catalogue

FILES = ("items_shuffle", "items_ins_v2", "items_human_ins")


def read(golden: Path, name: str) -> Any:
    with gzip.open(golden / "environments" / name, "rt", encoding="utf-8") as file:
        return json.load(file)


def sessions(golden: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(golden / "environments" / "webshop_sessions.jsonl.gz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def write_files(golden: Path, folder: Path) -> None:
    """Write the recorded catalogue in the original's file formats."""
    recorded = read(golden, "webshop_catalogue200.json.gz")
    for name in FILES:
        (folder / f"{name}.json").write_text(json.dumps(recorded[name]), encoding="utf-8")


@cache
def catalogue(folder: Path, kind: Kind = "synthetic") -> Catalogue:
    return load(folder, goals=kind)
