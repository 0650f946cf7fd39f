"""Speed of Sokoban side by side with gym-sokoban 0.0.6, both in one run, taking turns.

    python -m tests.benchmarks.sokoban_speed [--cache .bench] [--out speed.json] [--resets 6] [--rounds 5]

The original runs in a virtual environment of its own (made on the first run, with the old pins that it needs), on the
same rooms and the same random actions. Time outside `step` and `reset` is not counted on either side. A ratio compares
medians over the rounds (of steps) or means over the seeds (of resets).
"""

import argparse
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import mean, median
from typing import Any

from agentbench_envs.sokoban.env import SokobanEnv
from agentbench_envs.sokoban.game import Sokoban, generate_room
from agentbench_envs.sokoban.generate import Room
from agentbench_envs.sokoban.levels import Level

from agentbench.core.errors import GenerationError
from agentbench.core.registry import resolve
from agentbench.core.seeding import generator
from tests.benchmarks.rival import Rival

PINS = ("gym-sokoban==0.0.6", "gym==0.26.2", "numpy<2", "setuptools<82")
SIZES = ((6, 1), (10, 4))
ROOMS = 10
EPISODE = 100
"""Steps after which a room starts again; as in the other script."""
WORDS = ("", "up", "down", "left", "right")

NEEDED = {
    "step": 20.0,
    "logic": 1.0,
    "reset, order-exact": 20.0,
    "reset, default": 100.0,
    "reset, default, test split": 100.0,
}
"""What the project promises."""


def rooms_of(size: int, boxes: int) -> list[Room]:
    """Return the same rooms for both sides."""
    rooms: list[Room] = []
    seed = 0
    while len(rooms) < ROOMS:
        with suppress(GenerationError):
            rooms.append(generate_room((size, size), boxes, int(3.4 * size), seed))
        seed += 1
    return rooms


def seconds_per_step(rooms: list[Room], actions: list[int]) -> float:
    """Time the environment as users call it: text observation and the whole info."""
    env = SokobanEnv(max_steps=10**9)
    spent = 0.0
    per_room = len(actions) // len(rooms)
    for index, room in enumerate(rooms):
        chunk = [WORDS[action] for action in actions[index * per_room : (index + 1) * per_room]]
        while chunk:
            env.reset(seed=0, options={"level": Level.from_room(*room).xsb})
            begin = time.perf_counter()
            for count, word in enumerate(chunk[:EPISODE], start=1):  # noqa: B007 - read after the loop
                if env.step(word)[2]:
                    break
            spent += time.perf_counter() - begin
            chunk = chunk[count:]
    return spent / (per_room * len(rooms))


def seconds_per_act(rooms: list[Room], actions: list[int]) -> float:
    """Time the bare game."""
    spent = 0.0
    per_room = len(actions) // len(rooms)
    for index, room in enumerate(rooms):
        chunk = actions[index * per_room : (index + 1) * per_room]
        while chunk:
            game = Sokoban(*room, max_steps=10**9)
            begin = time.perf_counter()
            for count, action in enumerate(chunk[:EPISODE], start=1):  # noqa: B007 - read after the loop
                if game.act(action)[1]:
                    break
            spent += time.perf_counter() - begin
            chunk = chunk[count:]
    return spent / (per_room * len(rooms))


def compare_steps(original: Rival, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for size, boxes in SIZES:
        rooms = rooms_of(size, boxes)
        plain = [[fixed.tolist(), state.tolist()] for fixed, state in rooms]
        actions = generator("sokoban speed").integers(1, 5, size=20_000).tolist()
        seen: dict[str, list[float]] = {"ours": [], "bare": [], "step": [], "logic": []}
        for _ in range(rounds):
            seen["ours"].append(seconds_per_step(rooms, actions))
            seen["logic"].append(original.ask(what="logic", rooms=plain, actions=actions))
            seen["bare"].append(seconds_per_act(rooms, actions))
            seen["step"].append(original.ask(what="step", rooms=plain, actions=actions[:1000]))
        middle = {name: median(values) for name, values in seen.items()}
        case = f"{size}x{size}, {boxes} box{'es' * (boxes > 1)}"
        rows.append(row("step", case, "its step as users call it (rgb_array)", middle["step"], middle["ours"]))
        rows.append(row("logic", case, "its logic, rendering off", middle["logic"], middle["ours"]))
        rows.append(row("game", case, "its logic, rendering off; ours without text", middle["logic"], middle["bare"]))
    return rows


def compare_resets(original: Rival, count: int) -> list[dict[str, Any]]:
    """Time resets at 10x10 with four boxes: the original's, and ours as a user calls them, splits included."""
    envs = {
        "reset, order-exact": resolve("sokoban/gym:train").make(),
        "reset, default": resolve("sokoban/10x10-4:train").make(),
        "reset, default, test split": resolve("sokoban/10x10-4:test").make(),
    }
    theirs = []
    ours: dict[str, list[float]] = {name: [] for name in envs}
    for seed in range(count):
        theirs.append(original.ask(what="reset", rows=10, cols=10, boxes=4, seed=seed))
        for name, env in envs.items():
            for more in range(10):
                begin = time.perf_counter()
                env.reset(seed=10 * seed + more)
                ours[name].append(time.perf_counter() - begin)
    return [row(name, "10x10, 4 boxes", "its reset", mean(theirs), mean(seen)) for name, seen in ours.items()]


def row(what: str, case: str, against: str, theirs: float, ours: float) -> dict[str, Any]:
    return {"what": what, "case": case, "against": against, "original_s": theirs, "ours_s": ours,
            "ratio": theirs / ours, "needed": NEEDED.get(what)}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| ours | size | against | original | ours | ratio | needed |", "|---|---|---|---|---|---|---|"]
    for measured in rows:
        needed = "" if measured["needed"] is None else f"{measured['needed']:g}"
        theirs, ours = (f"{1e6 * measured[side]:,.1f} µs" for side in ("original_s", "ours_s"))
        lines.append(
            f"| {measured['what']} | {measured['case']} | {measured['against']} | {theirs} | {ours} "
            f"| {measured['ratio']:.1f} | {needed} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--resets", type=int, default=6, help="the original needs about ten seconds for each")
    arguments = parser.parse_args()
    original = Rival(
        arguments.cache.resolve() / "gym-sokoban",
        [PINS],
        [Path(__file__).with_name("sokoban_original.py")],
        stderr=subprocess.DEVNULL,
    )
    rows = compare_steps(original, arguments.rounds) + compare_resets(original, arguments.resets)
    original.close()
    print(table(rows))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    missed = [measured["what"] for measured in rows if measured["needed"] and measured["ratio"] < measured["needed"]]
    if missed:
        sys.exit(f"slower than promised: {', '.join(missed)}")


if __name__ == "__main__":
    main()
