"""The other side of `sokoban_speed`: gym-sokoban, driven in its own virtual environment by JSON lines on the pipes.

{"what": "step" | "logic", "rooms": [[fixed, state], ...], "actions": [...]}  ->  seconds per step
{"what": "reset", "rows": 10, "cols": 10, "boxes": 4, "seed": 0}             ->  seconds
"""

import json
import random
import sys
import time
from functools import partial
from typing import Any

import numpy as np
from gym_sokoban.envs.sokoban_env import SokobanEnv  # type: ignore[import-not-found]

EPISODE = 100
"""Steps after which a room starts again; as in the other script."""


def seconds_per_step(rooms: list[Any], actions: list[int], render: bool) -> float:
    env = SokobanEnv(dim_room=np.shape(rooms[0][0]), num_boxes=int((np.array(rooms[0][0]) == 2).sum()), reset=False)
    env.max_steps = 10**9
    if not render:
        env.render = lambda mode: None
    spent = 0.0
    per_room = len(actions) // len(rooms)
    for index, (fixed, state) in enumerate(rooms):
        chunk = actions[index * per_room : (index + 1) * per_room]
        while chunk:
            env.room_fixed, env.room_state = np.array(fixed), np.array(state)
            env.player_position = np.argwhere(env.room_state == 5)[0]
            env.num_env_steps = env.reward_last = env.boxes_on_target = 0
            start = time.perf_counter()
            for count, action in enumerate(chunk[:EPISODE], start=1):  # noqa: B007 - read after the loop
                if env.step(action)[2]:
                    break
            spent += time.perf_counter() - start
            chunk = chunk[count:]
    return spent / (per_room * len(rooms))


def seconds_of_reset(rows: int, cols: int, boxes: int, seed: int) -> float:
    random.seed(seed)  # noqa: TID251 - the original draws from the global generators
    np.random.seed(seed)  # noqa: NPY002, TID251
    env = SokobanEnv(dim_room=(rows, cols), num_boxes=boxes, reset=False)
    start = time.perf_counter()
    env.reset()
    return time.perf_counter() - start


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("what")
        measure = seconds_of_reset if what == "reset" else partial(seconds_per_step, render=what == "step")
        answers.write(json.dumps(measure(**request)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
