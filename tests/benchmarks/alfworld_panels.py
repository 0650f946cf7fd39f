"""Measure what the card of ALFWorld says about its variants: lengths, oracle, floors; five minutes on one core.

    python -m tests.benchmarks.alfworld_panels              # rewrites panels.json, the card's table and its figure
    python -m tests.benchmarks.alfworld_panels tiny place   # these variants only

Optimal lengths are proven by the planner, on the first 200 tasks of `test-unseen`; the oracle plays the first 500.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentbench_envs.alfworld import ENTRY
from agentbench_envs.alfworld.env import AlfworldEnv

from agentbench.core.registry import resolve

HOME = Path(__file__).parents[2] / "environments" / "agentbench_envs" / "alfworld"
CARD, PANELS, FIGURE = HOME / "README.md", HOME / "panels.json", HOME / "ladder.svg"
DRAWN = tuple(name for name in ENTRY.variants if name != "original")
LADDER = ("place", "closed", "treat", "gather-2", "gather-3", "gather-4")
SPLIT = "test-unseen"

Player = Callable[[AlfworldEnv, str, dict[str, Any]], str]
"""Says what to do, from the environment, the last observation and the last info."""

FLOORS: dict[str, Player] = {
    "random": lambda env, seen, info: env.random_action(),
    "nop": lambda env, seen, info: "",
    "echo": lambda env, seen, info: seen,
    "first": lambda env, seen, info: str(info["admissible"][0]),
}


def made(variant: str) -> AlfworldEnv:
    env = resolve(f"alfworld/{variant}:{SPLIT}").make()
    assert isinstance(env, AlfworldEnv)
    return env


def lengths(variant: str, tasks: int) -> list[int]:
    """Return the turns of a shortest solution of each task."""
    env = made(variant)
    return [int(env.reset(seed=seed)[1]["optimal"]) for seed in range(tasks)]


def wins(variant: str, player: Player, tasks: int) -> int:
    """Return how many tasks a player solves."""
    env, won = made(variant), 0
    for seed in range(tasks):
        seen, info = env.reset(seed=seed)
        for _ in range(env.max_steps):
            step = env.step(player(env, seen, info))
            seen, info = step.observation, step.info
            if step.terminated or step.truncated:
                won += step.terminated
                break
    return won


def oracle_wins(variant: str, tasks: int) -> int:
    env, won = made(variant), 0
    for seed in range(tasks):
        env.reset(seed=seed)
        for action in env.oracle():
            step = env.step(action)
        won += step.terminated
    return won


def measure(variant: str) -> dict[str, Any]:
    floors = {name: {"won": wins(variant, player, 200), "tasks": 200} for name, player in FLOORS.items()}
    return {"optimal": lengths(variant, 200), "oracle": {"won": oracle_wins(variant, 500), "tasks": 500}, **floors}


def tables(panels: dict[str, Any]) -> str:
    """Write the card's table from the measured numbers."""
    rows = [
        "| variant | turns | shortest: least; quartiles; most | oracle | random | nop | echo | first command |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for variant, measured in panels.items():
        found = sorted(measured["optimal"])
        quartiles = ", ".join(str(found[len(found) * k // 4]) for k in (1, 2, 3))
        scores = " | ".join(f"{measured[name]['won']}/{measured[name]['tasks']}" for name in ("oracle", *FLOORS))
        turns = resolve(f"alfworld/{variant}").max_turns
        rows.append(f"| `{variant}` | {turns} | {found[0]}; {quartiles}; {found[-1]} | {scores} |")
    return "\n".join(rows)


def figure(panels: dict[str, Any]) -> str:
    """Draw the ladder: least, quartiles and most turns of a shortest solution, variant by variant."""
    width, height, left, bottom, scale = 640, 300, 50, 250, 10
    marks = []
    for turns in range(0, 25, 4):
        y = bottom - scale * turns
        marks.append(f'<path d="M{left} {y}H{width - 10}" stroke="#ddd"/><text x="30" y="{y + 4}">{turns}</text>')
    for index, variant in enumerate(LADDER):
        found = sorted(panels[variant]["optimal"])
        low, first, median, third, high = (
            bottom - scale * found[min(len(found) * k // 4, len(found) - 1)] for k in range(5)
        )
        x, high_box = left + 50 + 95 * index, max(first - third, 1)
        marks.append(f'<path d="M{x} {low}V{high}" stroke="#36c"/>')
        marks.append(f'<rect x="{x - 18}" y="{third}" width="36" height="{high_box}" fill="#9bd" stroke="#36c"/>')
        marks.append(f'<path d="M{x - 18} {median}h36" stroke="#124" stroke-width="3"/>')
        marks.append(f'<text x="{x}" y="{bottom + 20}" text-anchor="middle">{variant}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{width}" height="{height}" fill="white"/>\n'
        f'<text x="{left}" y="16">turns of a shortest solution, 200 tasks of {SPLIT} each</text>\n'
        + "\n".join(marks)
        + "\n</svg>\n"
    )


def card_with(table: str) -> str:
    """Return the card with its generated block replaced."""
    begin, end = "<!-- generated by tests/benchmarks/alfworld_panels.py -->\n", "\n<!-- end -->"
    text = CARD.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    return before + begin + table + end + rest.partition(end)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", default=list(DRAWN))
    panels = json.loads(PANELS.read_text(encoding="utf-8")) if PANELS.exists() else {}
    for variant in parser.parse_args().variants:
        panels[variant] = measure(variant)
        print(variant, {name: score for name, score in panels[variant].items() if name != "optimal"}, flush=True)
    ordered = {variant: panels[variant] for variant in DRAWN if variant in panels}
    PANELS.write_text(json.dumps(ordered) + "\n", encoding="utf-8")
    CARD.write_text(card_with(tables(ordered)), encoding="utf-8")
    FIGURE.write_text(figure(ordered), encoding="utf-8")


if __name__ == "__main__":
    main()
