"""Speed of the native TextWorld engine side by side with textworld from PyPI, both in one run, taking turns.

    python -m tests.benchmarks.textworld_speed [--cache .bench] [--out speed.json] [--rounds 3]

The original runs in a virtual environment of its own (made on the first run; it needs a C compiler). Both sides play
the same games, made by `tw-make`, with the same choices among the admissible commands, so they walk the same ways. Ours
includes text, admissible commands and the whole info; the original's `.json` backend has no text. Time outside `step`
is not counted on either side, and a ratio compares medians over the rounds.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, cast

from agentbench_envs.textworld.env import TextWorldEnv

from agentbench.core.registry import resolve
from agentbench.core.seeding import generator
from tests.benchmarks.rival import Rival

PIN = "textworld==1.7.0"
GAMES = {
    "w2-o3-q4": ["custom", "--world-size", "2", "--nb-objects", "3", "--quest-length", "4", "--seed", "1"],
    "w8-o12-q12": ["custom", "--world-size", "8", "--nb-objects", "12", "--quest-length", "12", "--seed", "1"],
    "tw-simple": ["tw-simple", "--rewards", "dense", "--goal", "detailed", "--seed", "1"],
}
STEPS = 600
EPISODE = 50
"""Steps after which a game starts again; as in the other script. The `.json` backend slows down as a walk goes on."""
NEEDED = {"z8": 10.0, "json": 3.0}
"""What the project promises, against each backend of the original."""

LIVE = 1_000
MOST_MEGABYTES = 1_000.0


def seconds_per_step(folder: Path, choices: list[int]) -> float:
    """Time our environment as users call it, on the game of a folder."""
    env = TextWorldEnv(games=str(folder))
    _, info = env.reset(seed=0)
    spent = 0.0
    for turn, choice in enumerate(choices, start=1):
        command = info["admissible"][choice % len(info["admissible"])]
        begin = time.perf_counter()
        step = env.step(command)
        spent += time.perf_counter() - begin
        info = env.reset(seed=0)[1] if step.terminated or turn % EPISODE == 0 else step.info
    return spent / len(choices)


def compare(original: Rival, cache: Path, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for name, arguments in GAMES.items():
        folder = cache / "textworld-games" / name
        folder.mkdir(parents=True, exist_ok=True)
        path = original.ask(what="make", path=str(folder / "game.z8"), arguments=arguments)
        choices = generator("textworld speed").integers(1_000_000, size=STEPS).tolist()
        seen: dict[str, list[float]] = {"ours": [], "z8": [], "json": []}
        for _ in range(rounds):
            seen["ours"].append(seconds_per_step(folder, choices))
            seen["z8"].append(original.ask(what="play", path=path, choices=choices))
            seen["json"].append(original.ask(what="play", path=path.replace(".z8", ".json"), choices=choices))
        middle = {side: median(values) for side, values in seen.items()}
        for backend, needed in NEEDED.items():
            rows.append(
                {"game": name, "against": f".{backend}", "original_s": middle[backend], "ours_s": middle["ours"],
                 "ratio": middle[backend] / middle["ours"], "needed": needed}
            )  # fmt: skip
    return rows


def live_megabytes(variant: str) -> float:
    """Measure, in a process of its own, what many environments with a game each occupy, the interpreter included."""
    script = f"import tests.benchmarks.textworld_speed as speed; speed.hold({variant!r})"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return cast(float, json.loads(done.stdout))


def hold(variant: str) -> None:
    """Start the environments, play a turn in each, and print the largest memory of this process in megabytes."""
    resolved = resolve(f"textworld/{variant}:train")
    envs = [resolved.make() for _ in range(LIVE)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
        env.step("look")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| game | against | original, steps/s | ours, steps/s | ratio | needed |", "|---|---|---|---|---|---|"]
    for row in rows:
        theirs, ours = (f"{1 / row[side]:,.0f}" for side in ("original_s", "ours_s"))
        lines.append(
            f"| {row['game']} | {row['against']} | {theirs} | {ours} | {row['ratio']:.1f} | {row['needed']:g} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    cache = arguments.cache.resolve()
    original = Rival(cache / "textworld", [[PIN]], [Path(__file__).with_name("textworld_original.py")])
    rows = compare(original, cache, arguments.rounds)
    original.close()
    print(table(rows))
    memory = {variant: live_megabytes(variant) for variant in ("w2-o3-q4", "simple-dense", "coin-16")}
    for variant, megabytes in memory.items():
        print(f"{LIVE} live environments of {variant}: {megabytes:.0f} MB")
    if arguments.out is not None:
        arguments.out.write_text(
            json.dumps({"steps": rows, "live_megabytes": memory}, indent=1) + "\n", encoding="utf-8"
        )
    missed = [f"{row['game']} {row['against']}" for row in rows if row["ratio"] < row["needed"]]
    missed += [variant for variant, megabytes in memory.items() if megabytes > MOST_MEGABYTES]
    if missed:
        sys.exit(f"less than promised: {', '.join(missed)}")


if __name__ == "__main__":
    main()
