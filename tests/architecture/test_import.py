"""Importing the package does nothing that anybody could notice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = {
    *("torch", "transformers", "tokenizers", "safetensors", "accelerate", "peft", "docker", "playwright", "starlette"),
    *("uvicorn", "websockets", "ray", "pandas", "matplotlib", "jinja2", "scipy", "textworld", "PIL"),
}

IMPORT = """
import json, logging, os, random, sys, threading, warnings
import gymnasium, numpy  # gymnasium sets a variable and a warning filter of its own
def look():
    return {
        "random": random.getstate(), "numpy": repr(numpy.random.get_state()), "folder": os.getcwd(),
        "environ": dict(os.environ), "warnings": list(warnings.filters), "levels": logging.root.manager.disable,
    }
before = look()
import agentbench
after = look()
print(json.dumps({
    "changed": [name for name in before if before[name] != after[name]],
    "handlers": len(logging.getLogger().handlers),
    "threads": threading.active_count(),
    "modules": sorted({name.split(".")[0] for name in sys.modules}),
}))
"""

HELP = """
import sys
sys.argv = ["agentbench", *sys.argv[1:]]
from agentbench.cli.main import run
try:
    run()
finally:
    print("modules", *sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process in an empty folder, with an empty home."""
    home = folder / "home"
    home.mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True)


def test_import_does_nothing(tmp_path: Path) -> None:
    done = python(IMPORT, tmp_path)
    state: dict[str, Any] = json.loads(done.stdout)
    assert done.stderr == ""
    assert state["changed"] == []
    assert state["handlers"] == 0
    assert state["threads"] == 1
    assert set(state["modules"]) & HEAVY == set()
    assert [path.name for path in tmp_path.rglob("*")] == ["home"]


def test_import_loads_no_verb(tmp_path: Path) -> None:
    modules = python("import sys, agentbench; print(*sys.modules)", tmp_path).stdout.split()
    assert {name for name in modules if name.startswith("agentbench.")} <= {
        name for name in modules if name == "agentbench.core" or name.startswith("agentbench.core.")
    }


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["envs", "list"], ["eval", "--help"]], ids=" ".join)
def test_looking_loads_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    done = python(HELP, tmp_path, *arguments)
    modules = done.stderr.splitlines()[-1].split()
    assert modules[0] == "modules"
    assert set(modules) & HEAVY == set()
    assert [path.name for path in tmp_path.rglob("*")] == ["home"]


def test_packages_say_that_they_are_typed() -> None:
    root = Path(__file__).parents[2]
    assert (root / "agentbench" / "py.typed").is_file()
    assert (root / "environments" / "agentbench_envs" / "py.typed").is_file()
