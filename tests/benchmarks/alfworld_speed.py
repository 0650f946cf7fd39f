"""Speed of ALFWorld side by side with the original engine, both in one run, on the same games and commands.

    python -m tests.benchmarks.alfworld_speed [--cache .bench] [--out speed.json] [--games 6]

The original runs in a virtual environment of its own (made on the first run; textworld compiles a C library there).
Both sides play the same random commands, admissible commands included, and the two transcripts must be equal. A second
part counts the memory of 1,000 live environments in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from agentbench_envs.alfworld.env import AlfworldEnv
from agentbench_envs.alfworld.game import AlfworldGame
from agentbench_envs.alfworld.pddl import write
from agentbench_envs.alfworld.scenes import Settings, draw_scene

from agentbench.core.seeding import generator
from tests.benchmarks.rival import Rival

PINS = (("textworld==1.7.0", "fast-downward-textworld==20.6.4"), ("--no-deps", "alfworld==0.4.2"))
STEPS = 50
NEEDED = {"engine": 100.0, "environment": 100.0}
"""What the project promises: times faster than the original."""

LIVE = 1000
LIVE_MB = 1000.0

COUNT_MEMORY = """
import resource
from agentbench.core.registry import resolve
def used(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
envs = [resolve("alfworld/synth:train").make() for _ in range({live})]
before = used()
for seed, env in enumerate(envs):
    env.reset(seed=seed)
    for _ in range(5):
        env.step(env.random_action())
print(before, used())
"""


def walk(game: AlfworldGame, seed: int) -> list[str]:
    """Return random commands; one in twenty is no admissible one."""
    rng = generator("alfworld speed", seed)
    commands = []
    _, admissible = game.reset()
    for _ in range(STEPS):
        chosen = admissible[int(rng.integers(len(admissible)))] + " now" * (rng.random() < 0.05)
        commands.append(chosen)
        admissible = game.act(chosen)[2]
    return commands


def time_engine(problem: str, task: str, commands: list[str]) -> dict[str, Any]:
    """Time the engine as outside checks call it."""
    begin = time.perf_counter()
    game = AlfworldGame.from_pddl(problem, task)
    game.reset()
    started = time.perf_counter()
    transcript = [list(game.act(command)) for command in commands]
    return {"reset": started - begin, "steps": time.perf_counter() - started, "transcript": transcript}


def time_environment(settings: Settings, seed: int, commands: list[str]) -> dict[str, Any]:
    """Time the environment: whole info, with potential and conditions."""
    env = AlfworldEnv(split=settings.split, max_steps=10**6)
    begin = time.perf_counter()
    env.reset(seed=seed)
    started = time.perf_counter()
    for command in commands:
        if env.step(command).terminated:
            raise SystemExit("a random walk won the game; choose other seeds")
    return {"reset": started - begin, "steps": time.perf_counter() - started}


def compare(original: Rival, games: int) -> list[dict[str, Any]]:
    settings = Settings(split="test-unseen")
    seen: dict[str, list[dict[str, Any]]] = {"original": [], "engine": [], "environment": []}
    for seed in range(games):
        world = draw_scene(settings, seed).world
        problem, task = write(world.problem), world.task
        commands = walk(AlfworldGame(world), seed)
        theirs = original.ask(problem=problem, task=task, commands=commands)
        ours = time_engine(problem, task, commands)
        if ours["transcript"] != theirs["transcript"]:
            raise SystemExit(f"the two engines disagree on game {seed}")
        seen["original"].append(theirs)
        seen["engine"].append(ours)
        seen["environment"].append(time_environment(settings, seed, commands))
    rows = []
    for side in ("engine", "environment"):
        for what in ("steps", "reset"):
            theirs_s, ours_s = (median(one[what] for one in seen[name]) for name in ("original", side))
            per = STEPS if what == "steps" else 1
            needed = NEEDED[side] if what == "steps" else None
            rows.append({"what": side, "of": what, "original_s": theirs_s / per, "ours_s": ours_s / per,
                         "ratio": theirs_s / ours_s, "needed": needed})  # fmt: skip
    return rows


def live_memory() -> dict[str, float]:
    """Return what 1,000 live environments of different games need, beyond the imports, in MB."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT_MEMORY.format(live=LIVE)], check=True, capture_output=True, text=True
    )
    before, after = map(float, done.stdout.split())
    return {"imports_mb": before, "all_mb": after, "needed_mb": LIVE_MB}


def table(rows: list[dict[str, Any]], memory: dict[str, float]) -> str:
    lines = ["| ours | of | original | ours | ratio | needed |", "|---|---|---|---|---|---|"]
    for row in rows:
        needed = "" if row["needed"] is None else f"{row['needed']:g}"
        theirs, ours = (f"{1e6 * row[side]:,.0f} µs" for side in ("original_s", "ours_s"))
        of = "a step" if row["of"] == "steps" else "load and reset"
        lines.append(f"| {row['what']} | {of} | {theirs} | {ours} | {row['ratio']:.0f} | {needed} |")
    return "\n".join([*lines, "", f"{LIVE:,} live environments: {memory['all_mb']:.0f} MB, imports included."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--games", type=int, default=6, help="the original needs about three seconds for each")
    arguments = parser.parse_args()
    original = Rival(
        arguments.cache.resolve() / "alfworld",
        PINS,
        [Path(__file__).with_name("alfworld_original.py")],
        stderr=subprocess.DEVNULL,
    )
    rows, memory = compare(original, arguments.games), live_memory()
    original.close()
    print(table(rows, memory))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps({"rows": rows, "memory": memory}, indent=1) + "\n", encoding="utf-8")
    missed = [row["what"] for row in rows if row["needed"] and row["ratio"] < row["needed"]]
    if missed or memory["all_mb"] > LIVE_MB:
        sys.exit(f"short of what is promised: {', '.join(missed) or 'memory'}")


if __name__ == "__main__":
    main()
