"""Both generators give the rooms that the originals gave for the same seeds."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agentbench_envs.sokoban.board import board_of
from agentbench_envs.sokoban.game import GenerationError, generate_ragen_room, generate_room
from agentbench_envs.sokoban.generate import RejectedError, Room, Source
from agentbench_envs.sokoban.levels import Level
from agentbench_envs.sokoban.solver import solve

from tests.envs.sokoban.reference import ReversePlay


def again(room: dict[str, Any]) -> Room:
    arguments = (room["dim"], room["num_boxes"], room["num_steps"], room["seed"])
    if room["generator"] == "RAGEN.generate_room":
        return generate_ragen_room(*arguments, search_depth=room["search_depth"])
    return generate_room(*arguments)


def test_recorded_rooms_and_failures_come_out_again(golden: Path) -> None:
    with gzip.open(golden / "environments" / "sokoban_rooms.json.gz", "rt", encoding="utf-8") as file:
        rooms = json.load(file)
    assert {room["generator"] for room in rooms} == {"RAGEN.generate_room", "gym_sokoban.generate_room"}
    for room in rooms:
        if "error" in room:
            with pytest.raises(GenerationError) as caught:
                again(room)
            assert room["error"].endswith(str(caught.value))
        else:
            made = again(room)
            assert (made.room_fixed.tolist(), made.room_state.tolist()) == (room["room_fixed"], room["room_state"])


def test_a_room_is_solvable_within_its_search_depth(scale: float) -> None:
    for seed in range(int(40 * scale)):
        try:
            level = Level.from_room(*generate_ragen_room((8, 8), 3, 27, seed, search_depth=30))
        except GenerationError:
            continue
        assert len(solve(board_of(level.fixed, level.stride), level.boxes, level.player).directions) <= 31


@pytest.mark.parametrize("leave_boxes", [True, False])
@pytest.mark.parametrize("cap", [40, 700])
def test_reverse_play_is_the_plain_recursion_cut_off_at_the_same_state(
    leave_boxes: bool, cap: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbench_envs.sokoban.reverse.STATE_CAP", cap)
    for seed in range(int(15 * scale)):
        draft = Source(seed).draft((8, 8), 2 + seed % 3, 40, 0.35, None)
        columns = draft.fixed.shape[1]
        cell_of = {index: divmod(index, columns) for index in np.flatnonzero(draft.fixed).tolist()}
        slow = ReversePlay(frozenset(cell_of.values()), leave_boxes=leave_boxes, cap=cap)
        start = {cell_of[target]: cell_of[target] for target in draft.targets}
        slow.explore(cell_of[draft.player], start, frozenset(), 0, None, depth=60)
        fast = draft.reverse_play(60, leave_boxes=leave_boxes)
        boxes = {cell_of[target]: cell_of[box] for target, box in zip(draft.targets, fast.boxes, strict=True)}
        assert (fast.score, cell_of[fast.player], boxes) == slow.best


def test_the_global_generators_are_neither_used_nor_disturbed() -> None:
    script = (
        "import random, numpy as np\n"
        "from agentbench_envs.sokoban.game import generate_ragen_room, generate_room\n"
        "before = (random.getstate(), np.random.get_state()[1].tolist())\n"
        "rooms = [make((6, 6), 1, 20, 7)[1].tolist() for make in (generate_room, generate_ragen_room)]\n"
        "assert before == (random.getstate(), np.random.get_state()[1].tolist())\n"
        "print(rooms)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hashing},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashing in ("1", "2")
    }
    assert len(outputs) == 1


def test_an_unwanted_room_is_rejected_before_it_is_played() -> None:
    seen = []

    def refuse(room_fixed: np.ndarray[Any, np.dtype[np.int64]]) -> bool:
        seen.append(room_fixed)
        return False

    with pytest.raises(RejectedError):
        generate_room((8, 8), 2, 27, 0, accept=refuse)
    assert np.array_equal(seen, [generate_room((8, 8), 2, 27, 0).room_fixed])


def test_a_room_too_small_for_its_boxes_is_refused_in_the_originals_words() -> None:
    with pytest.raises(GenerationError, match=r"Not enough free spots \(#\d+\) to place 1 player and 9 boxes."):
        generate_room((6, 6), 9, 3, 0)
