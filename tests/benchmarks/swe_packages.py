"""Whether tasks can be made of packages that others wrote: from a source distribution to a panel that is played.

python -m tests.benchmarks.swe_packages [--package NAME==VERSION ...] [--count 10] [--json FILE]

For every package `agentbench envs build swe` makes tasks, then two policies play them with `agentbench eval`: the
oracle, which must repair each, and one that hands in at once, which must repair none. A package that cannot be used
must say so in one line. The index is the one that pip uses here; what was fetched before is not fetched again.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PACKAGES: dict[str, tuple[str, ...]] = {
    "parse==1.20.2": (),
    "tabulate==0.9.0": (),
    "jmespath==1.0.1": (),
    "markupsafe==3.0.3": (),
    "inflection==0.5.1": (),
    "python-dateutil==2.9.0.post0": ("--requires=six==1.17.0", "--tests=tests/test_relativedelta.py"),
    "more-itertools==10.8.0": ("--tests=tests/test_recipes.py",),
    "cachetools==8.0.0": (),
    "toolz==1.2.0": (),
}
"""What is tried, with what `build` has to be told beside the name."""

UNUSABLE = ("sortedcontainers==2.4.0", "no-such-package-here==1.0")
"""A source distribution without tests, and one that does not exist."""


def main() -> int:
    """Try the packages; fail if one of them gave no tasks, or if a policy got what it must not get."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", action="append", help="name==version; may be repeated")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = {name: PACKAGES.get(name, ()) for name in options.package} if options.package else PACKAGES
    known = json.loads(options.json.read_text(encoding="utf-8")) if options.json and options.json.is_file() else {}
    rows = {row["package"]: row for row in known.get("packages", [])}
    refused = known.get("refused", []) if options.package else [refuse(package) for package in UNUSABLE]
    for package, arguments in chosen.items():
        rows[package] = try_package(package, arguments, options.count)
        print(line(rows[package]), flush=True)
        keep(options.json, rows, refused)
    whole = all(rows[package].get("oracle") == 1 and rows[package]["submit"] == 0 for package in chosen)
    return 0 if whole and all(each["exit"] in (2, 4) for each in refused) else 1


def keep(file: Path | None, rows: dict[str, Any], refused: list[dict[str, Any]]) -> None:
    """Write what is known so far; a package takes minutes."""
    result = {
        "packages": [rows[package] for package in sorted(rows)],
        "refused": refused,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "measured": time.strftime("%Y-%m-%d"),
    }
    if file:
        file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def try_package(package: str, arguments: tuple[str, ...], count: int) -> dict[str, Any]:
    """Make tasks of a package and play them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tasks.jsonl")
        began = time.perf_counter()
        done = agentbench("envs", "build", "swe", "--package", package, *arguments, f"--count={count}", f"--out={file}")
        row: dict[str, Any] = {"package": package, "exit": done.returncode, "asked": count}
        row["seconds"] = round(time.perf_counter() - began, 1)
        if done.returncode:
            return row | {"said": done.stderr.strip().splitlines()[-1]}
        tests, verdicts = re.findall(r": (\d+) tests pass; (.*); wrote", done.stderr)[0]
        row |= {"tests": int(tests), "mutants": verdicts, "made": len(file.read_text(encoding="utf-8").splitlines())}
        row["oracle"] = success(file, folder, "--model", "oracle")
        with speaking("<function=submit>\n</function>") as url:
            row["submit"] = success(file, folder, "--model", "openai:submit-at-once", "--base-url", url)
        return row


def success(tasks: Path, folder: str, *model: str) -> float:
    """Return the share of the tasks that a policy solves; every planned episode counts."""
    arguments = ("--env", "swe/list:all", "-E", f"tasks={tasks}", "--jobs", "2", "--out", folder, "--json")
    done = agentbench("eval", *arguments, *model)
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    if not rows or rows[-1].get("status") != "complete":
        raise SystemExit(f"the evaluation of {model} did not end well: {done.stderr[-500:]}")
    return float(rows[-1]["summary"]["success"])


@contextmanager
def speaking(text: str) -> Iterator[str]:
    """Serve a model that always says the same, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"data": [{"id": "submit-at-once"}]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            self._answer({"choices": [choice], "usage": {"prompt_tokens": 0, "completion_tokens": 0}})

        def _answer(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def refuse(package: str) -> dict[str, Any]:
    """Try a package that gives no tasks, and return what is said about it."""
    done = agentbench("envs", "build", "swe", "--package", package, "--count=1")
    return {"package": package, "exit": done.returncode, "said": done.stderr.strip().splitlines()}


def agentbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the package, as a user does."""
    command = [str(Path(sys.executable).with_name("agentbench")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def line(row: dict[str, Any]) -> str:
    """Write a result as a row of the card's table."""
    package, _, version = row["package"].partition("==")
    if row["exit"]:
        return f"| {package} | {version} | {row['said']} |"
    cells = (row["tests"], f"{row['made']} of {row['asked']}", f"{row['seconds']:.0f}", row["oracle"], row["submit"])
    return (
        f"| {package} | {version} | "
        + " | ".join(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in cells)
        + " |"
    )


if __name__ == "__main__":
    sys.exit(main())
