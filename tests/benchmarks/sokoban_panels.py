"""Certify the shipped evaluation panels of Sokoban and measure its floors; ten minutes on one core.

    python -m tests.benchmarks.sokoban_panels                # rewrites panels.json and the tables of the card
    python -m tests.benchmarks.sokoban_panels 6x6-1 gym      # these variants only
    python -m tests.benchmarks.sokoban_panels --collection   # draws the shipped level file anew

A panel is the first 100 test tasks of root seed 0, as `agentbench eval` plans them: each level once, up to symmetry.
Their optimal lengths are proven by the solver. The oracle and random play are measured on the first tasks
of root seed 1, so that no number depends on the panel.
"""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

from agentbench_envs.sokoban import ENTRY
from agentbench_envs.sokoban.board import board_of
from agentbench_envs.sokoban.env import SokobanEnv
from agentbench_envs.sokoban.game import generate_room
from agentbench_envs.sokoban.levels import Level, content_hash
from agentbench_envs.sokoban.solver import solve

from agentbench.core.errors import GenerationError
from agentbench.core.registry import resolve
from agentbench.core.seeding import derive
from agentbench.evaluate.evaluate import plan_tasks

HOME = Path(__file__).parents[2] / "environments" / "agentbench_envs" / "sokoban"
PANELS = HOME / "panels.json"
CARD = HOME / "README.md"
COLLECTION = HOME / "collection" / "10x10-4.txt"

PANEL_TASKS = 100
ORACLE_TASKS = 500
RANDOM_TASKS = 2000
COLLECTION_LEVELS = 300
CONFIDENCE = 0.99


def test_env(variant: str) -> SokobanEnv:
    """Start a variant on its test split."""
    env = resolve(f"sokoban/{variant}:test").make()
    assert isinstance(env, SokobanEnv)
    return env


def task_seeds(env: SokobanEnv, root: int, count: int) -> Iterator[int]:
    """Yield the seeds of the tasks that oracle and random play try."""
    if env.task_count is not None:
        yield from range(min(count, env.task_count))
    else:
        yield from (derive("task", root, index) for index in range(count))


def certify(variant: str, count: int = PANEL_TASKS) -> dict[str, list[Any]]:
    """Return content hash and proven optimal lengths of the first tasks of a panel."""
    env = test_env(variant)
    hashes, moves, pushes = [], [], []
    for planned in plan_tasks(resolve(f"sokoban/{variant}:test"), count, 1, 0):
        _, info = env.reset(seed=planned.seed, options={"certify": True})
        hashes.append(content_hash(env.game.level)[:16])
        moves.append(info["optimal_moves"])
        pushes.append(info["optimal_pushes"])
    return {"levels": hashes, "moves": moves, "pushes": pushes}


def play_oracle(variant: str) -> dict[str, int]:
    """Let the oracle play; count its wins, and the turns of its longest plan."""
    env = test_env(variant)
    seeds = list(task_seeds(env, 1, ORACLE_TASKS))
    won = longest = 0
    for seed in seeds:
        env.reset(seed=seed)
        plan = env.oracle()
        longest = max(longest, len(plan))
        won += [env.step(action) for action in plan][-1].terminated
    return {"tasks": len(seeds), "won": won, "longest_turns": longest}


def play_random(variant: str) -> dict[str, float]:
    """Let random play try every task once within the turns of the variant; bound its rate of success."""
    env, turns = test_env(variant), resolve(f"sokoban/{variant}").max_turns
    seeds = list(task_seeds(env, 1, RANDOM_TASKS))
    won = 0
    for seed in seeds:
        env.reset(seed=seed)
        for _ in range(turns):
            step = env.step(env.random_action())
            if step.terminated or step.truncated:
                won += step.terminated
                break
    return {"tasks": len(seeds), "won": won, "bound": wilson_upper(won, len(seeds))}


def wilson_upper(won: int, tasks: int) -> float:
    """Return the one-sided upper Wilson bound of a rate, rounded up to a whole percent."""
    z = NormalDist().inv_cdf(CONFIDENCE)
    rate = won / tasks
    centre = rate + z * z / (2 * tasks)
    spread = z * math.sqrt(rate * (1 - rate) / tasks + z * z / (4 * tasks * tasks))
    return math.ceil(100 * (centre + spread) / (1 + z * z / tasks)) / 100


def draw_collection() -> str:
    """Return levels of gym-sokoban's generator in Boxoban's format."""
    texts: list[str] = []
    draw = 0
    while len(texts) < COLLECTION_LEVELS:
        draw += 1
        try:
            room = generate_room((10, 10), 4, 34, derive("sokoban collection", draw) % 2**32)
        except GenerationError:
            continue
        level = Level.from_room(*room)
        solution = solve(board_of(level.fixed, level.stride), level.boxes, level.player, weight=5)
        if len(solution.directions) <= 120:
            texts.append(f"; {len(texts)}\n{level.xsb}\n")
    return "\n".join(texts)


def tables(panels: dict[str, Any]) -> str:
    """Write the card's tables from the measured numbers."""
    rows = [
        "| variant | room, boxes | moves a turn | turns | optimal moves: least; quartiles; most "
        "| optimal pushes: median, most | distinct | oracle | its longest plan, turns | random play | its bound |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for variant, measured in panels.items():
        kwargs = ENTRY.variants[variant].kwargs
        moves, pushes = sorted(measured["moves"]), measured["pushes"]
        quartiles = ", ".join(str(moves[len(moves) * k // 4]) for k in (1, 2, 3))
        size = f"{kwargs.get('rows', 6)} x {kwargs.get('cols', 6)}, {kwargs.get('boxes', 1)}"
        oracle, floor = measured["oracle"], measured["random"]
        rows.append(
            f"| `{variant}` | {'files' if 'levels' in kwargs else size} | {kwargs.get('actions_per_turn', 1)} "
            f"| {resolve(f'sokoban/{variant}').max_turns} | {moves[0]}; {quartiles}; {moves[-1]} "
            f"| {median(pushes):g}, {max(pushes)} | {len(set(measured['levels']))} of {len(moves)} "
            f"| {oracle['won']}/{oracle['tasks']} | {oracle['longest_turns']} "
            f"| {floor['won']}/{floor['tasks']} = {floor['won'] / floor['tasks']:.3f} | {floor['bound']:.2f} |"
        )
    return "\n".join(rows)


def card_with(table: str) -> str:
    """Return the card with its generated block replaced."""
    begin, end = "<!-- generated by tests/benchmarks/sokoban_panels.py -->\n", "\n<!-- end -->"
    text = CARD.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    return before + begin + table + end + rest.partition(end)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variants", nargs="*", default=list(ENTRY.variants))
    parser.add_argument("--collection", action="store_true")
    arguments = parser.parse_args()
    if arguments.collection:
        COLLECTION.write_text(draw_collection(), encoding="utf-8")
        return
    panels = json.loads(PANELS.read_text()) if PANELS.exists() else {}
    for variant in arguments.variants:
        panels[variant] = certify(variant) | {"oracle": play_oracle(variant), "random": play_random(variant)}
        print(variant, panels[variant]["oracle"], panels[variant]["random"], flush=True)
    ordered = {variant: panels[variant] for variant in ENTRY.variants if variant in panels}
    PANELS.write_text(json.dumps(ordered) + "\n", encoding="utf-8")
    CARD.write_text(card_with(tables(ordered)), encoding="utf-8")


if __name__ == "__main__":
    main()
