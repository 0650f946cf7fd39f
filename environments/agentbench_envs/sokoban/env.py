"""Sokoban in words: the grid as text, moves as `up`, `down`, `left`, `right`.

One turn may play several moves, separated by `||`, up to the variant's cap; the game itself is `game.Sokoban`. What the
info adds beyond the original (potential, deadlock) is a property of where the boxes are, computed only when a push
leads to a new arrangement of them.
"""

import codecs
import json
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, cast

from agentbench.core.env import Env, Step
from agentbench.core.errors import Unsolvable, UsageError
from agentbench_envs.sokoban.board import FAR, board_of, cells_of
from agentbench_envs.sokoban.codes import RAGEN_GLYPHS, WAYS
from agentbench_envs.sokoban.game import STEP_PENALTY, Sokoban
from agentbench_envs.sokoban.levels import Level, content_hash, parse
from agentbench_envs.sokoban.render import Image, image
from agentbench_envs.sokoban.solver import STATE_LIMIT, Goal, SearchLimitError, Solution, solve
from agentbench_envs.sokoban.tasks import MOST_STATES, QUICK_WEIGHT, Generator, Settings, draw_level, read_tasks

GOAL: Final = "Push every box onto a target."

LEGEND: Final = "Legend: # wall, _ floor, O target, X box, √ box on target, P you, S you on a target."

OPTIONS: Final = ("level", "certify")

SHOWN: Final = 60
"""Characters of a malformed action that the answer repeats."""

ORACLE_SEARCHES: Final = ((1, 50_000), (QUICK_WEIGHT, MOST_STATES), (1, 500_000))
"""Weights and limits of the oracle's searches: a shortest solution, else any that fits, else a shortest after all."""

MOVE_SEPARATOR: Final = "||"

SHIPPED: Final = "shipped"
"""The value of `levels` that stands for the levels that come with the package."""

_MOVES = {word: code for code, word in enumerate(WAYS, start=1)}


class _Outlook(NamedTuple):
    """What an arrangement of boxes is worth."""

    potential: float
    dead: bool


class SokobanEnv(Env):
    """Push every box onto a target.

    Args:
        rows, cols, boxes: Size of the generated rooms, border included, and number of boxes.
        generator: `ragen` or `gym`, see `generate`.
        search_depth: Limit of RAGEN's reverse play; larger is harder.
        num_gen_steps: Length of the digging walk; None is the originals' 1.7 * (rows + cols).
        min_moves, max_moves: Bounds on the optimal solution of generated levels.
        max_steps: Moves after which the game is cut off.
        actions_per_turn: How many moves of one reply are played.
        compact: Show the grid alone, without its outer wall, legend and status: for models of a million parameters.
        levels: A folder of level files instead of a generator.
        split: `train`, `valid` or `test`; with `levels` also `all`.
        render_mode: `ansi` or `rgb_array`.

    Raises:
        UsageError: An argument is out of its range.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # type: ignore[misc]

    def __init__(
        self,
        *,
        rows: int = 6,
        cols: int = 6,
        boxes: int = 1,
        generator: Generator = "ragen",
        search_depth: int = 30,
        num_gen_steps: int | None = None,
        min_moves: int = 1,
        max_moves: int | None = None,
        max_steps: int = 40,
        actions_per_turn: int = 1,
        compact: bool = False,
        levels: str | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        if max_steps < 1 or actions_per_turn < 1:
            raise UsageError("max_steps and actions_per_turn must be at least 1")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UsageError(f"found render_mode {render_mode!r}, expected one of {self.metadata['render_modes']}")
        self.render_mode = render_mode
        self.max_steps = max_steps
        self.actions_per_turn = actions_per_turn
        self.compact = compact
        walk = int(1.7 * (rows + cols)) if num_gen_steps is None else num_gen_steps
        self.settings = Settings(
            rows, cols, boxes, generator, search_depth, walk, min_moves, max_moves, max_steps, split
        )
        self._tasks = None if levels is None else read_tasks(_folder(levels), split)
        if self._tasks is None:
            self.settings.check()
        else:
            self.task_count = len(self._tasks)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Decides the level.
            options: `level`: a level in XSB text to play instead; `certify`: True puts the lengths of shortest
                solutions into the info, as `optimal_moves` and `optimal_pushes`.

        Raises:
            UsageError: An unknown option, or a level that cannot be played.
            Unsolvable: `certify` was asked for a level that has no solution.
            SearchLimitError: `certify` was asked for a level that is too hard for the solver.
        """
        super().reset(seed=seed)
        options = options or {}
        unknown = options.keys() - set(OPTIONS)
        if unknown:
            raise UsageError(f"unknown option {', '.join(map(repr, unknown))}; expected {' or '.join(OPTIONS)}")
        self._play(self._level(options.get("level"), seed), steps=0)
        text = text_of(self.game.cells)
        info = self._info(text, valid=True, terms={})
        info["goal"] = GOAL
        if options.get("certify"):
            info["optimal_moves"] = len(self._solve("moves").directions)
            info["optimal_pushes"] = self._solve("pushes").pushes
        return self._show(text) if self.compact else f"{LEGEND}\n{self._show(text)}", info

    def _level(self, text: object, seed: int | None) -> Level:
        if text is None:
            if seed is None:
                seed = int(self.np_random.integers(2**63))
            return draw_level(self.settings, seed) if self._tasks is None else self._tasks[seed % len(self._tasks)]
        if not isinstance(text, str):
            raise UsageError(f"found a level of type {type(text).__name__}, expected XSB text")
        level = parse(text)
        if level.boxes == board_of(level.fixed, level.stride).target_bits:
            raise UsageError("the level is solved already")
        return level

    def _play(self, level: Level, *, steps: int) -> None:
        self.game = Sokoban.of(level, max_steps=self.max_steps, steps=steps)
        self.board = board_of(level.fixed, level.stride)
        self._outlooks: dict[int, _Outlook] = {}
        self._outlook = self._judge()
        self._goal_count = f" of {self.game.num_boxes}. Moves left: "

    def _judge(self) -> _Outlook:
        """Judge the present arrangement of boxes."""
        boxes, board = self.game.boxes, self.board
        bound = board.bound(boxes)
        dead = bound >= FAR or any(board.freezes(boxes, cell) for cell in cells_of(boxes))
        outlook = _Outlook(-1.0 if dead else -bound / board.scale or 0.0, dead)
        self._outlooks[boxes] = outlook
        return outlook

    def step(self, action: str) -> Step:
        """Play the moves of one reply; see the card for what a malformed one costs."""
        moves = moves_of(action)
        if moves is None:
            return self._refuse(action)
        return self._walk(moves[: self.actions_per_turn], ignored=len(moves) - self.actions_per_turn)

    def _walk(self, moves: tuple[int, ...], ignored: int) -> Step:
        game = self.game
        reward, done, moved = 0.0, False, False
        played, onto, off = 0, 0, 0
        for move in moves:
            before = game.boxes_on_target
            gained, done = game.act(move)
            reward += gained
            played += 1
            if game.moved_player:
                moved = True
                if game.moved_box:
                    change = game.boxes_on_target - before
                    onto += change > 0
                    off += change < 0
                    self._outlook = self._outlooks.get(game.boxes) or self._judge()
            if done:
                break
        won = game.boxes_on_target == game.num_boxes
        terms = {"steps": float(played), "onto": float(onto), "off": float(off), "finished": float(won)}
        text = text_of(game.cells)
        note = "" if moved or self.compact else "Nothing moved.\n"
        if ignored > 0:
            kept = (
                "move of a reply is" if self.actions_per_turn == 1 else f"{self.actions_per_turn} moves of a reply are"
            )
            note += f"Only the first {kept} played.\n"
        info = self._info(text, valid=True, terms=terms)
        return Step(note + self._show(text), reward, won, done and not won, info)

    def _refuse(self, action: str) -> Step:
        shown = repr(action if len(action) <= SHOWN else action[:SHOWN] + "...")
        most = (
            "one of them" if self.actions_per_turn == 1 else f"up to {self.actions_per_turn} of them, separated by ||"
        )
        answer = f"Found {shown}, expected up, down, left or right: {most}. The board is unchanged.\n"
        text = text_of(self.game.cells)
        info = self._info(text, valid=False, terms={"malformed": 1.0})
        return Step(answer + self._show(text), STEP_PENALTY, False, False, info)

    def _show(self, text: str) -> str:
        """Frame the grid as an observation."""
        if self.compact:
            return "\n".join(row[1:-1] for row in text.split("\n")[1:-1])
        game = self.game
        return f"{text}\nBoxes on targets: {game.boxes_on_target}{self._goal_count}{game.max_steps - game.steps}."

    def _info(self, text: str, *, valid: bool, terms: dict[str, float]) -> dict[str, Any]:
        game, outlook = self.game, self._outlook
        return {
            "success": game.boxes_on_target == game.num_boxes,
            "valid": valid,
            "terms": terms,
            "potential": outlook.potential,
            "anchor": text,
            "deadlock": outlook.dead,
            "boxes_on_target": game.boxes_on_target,
            "moves": game.steps,
        }

    def oracle(self) -> list[str]:
        """Return replies that solve the level from here, with as few moves as the search can afford.

        Raises:
            Unsolvable: No plan exists, fits into the moves that are left, or was found within the oracle's budget.
        """
        words = [WAYS[way] for way in self._plan(self.max_steps - self.game.steps).directions]
        size = self.actions_per_turn
        return [f" {MOVE_SEPARATOR} ".join(words[start : start + size]) for start in range(0, len(words), size)]

    def _plan(self, left: int) -> Solution:
        for weight, limit in ORACLE_SEARCHES:
            try:
                plan = self._solve("moves", weight=weight, limit=limit)
            except SearchLimitError:
                continue
            if len(plan.directions) <= left:
                return plan
            if plan.optimal:
                raise Unsolvable(f"the shortest plan needs {len(plan.directions)} moves, {left} are left")
        raise Unsolvable("no plan was found within the oracle's budget; there may be one")

    def _solve(self, goal: Goal, *, weight: int = 1, limit: int = STATE_LIMIT) -> Solution:
        return solve(self.board, self.game.boxes, self.game.player, goal=goal, weight=weight, limit=limit)

    def content(self, seed: int) -> str:
        """Name the level of a seed, rotations and mirror images included."""
        return content_hash(self._level(None, seed))

    def random_action(self) -> str:
        """Return random moves, as many as drawn between one and the variant's cap."""
        count = self.action_random.integers(1, self.actions_per_turn, endpoint=True)
        return f" {MOVE_SEPARATOR} ".join(WAYS[way] for way in self.action_random.integers(4, size=count))

    def snapshot(self) -> bytes:
        """Return position and moves played."""
        return json.dumps([self.game.cells.hex(), self.game.stride, self.game.steps]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go back to such a position."""
        cells, stride, steps = json.loads(snapshot)
        self._play(Level(bytes.fromhex(cells), stride), steps=steps)

    def render(self) -> str | Image | None:
        """Return the grid (`ansi`) or an image of it (`rgb_array`); None without a `render_mode`."""
        if self.render_mode == "rgb_array":
            return image(self.game.level)
        return text_of(self.game.cells) if self.render_mode == "ansi" else None


def moves_of(reply: str) -> tuple[int, ...] | None:
    """Read the moves of a reply as the game's actions; None if any part of it is no move.

    Example:
        >>> moves_of(" Up||left "), moves_of("up up")
        ((1, 3), None)
    """
    move = _MOVES.get(reply.strip().lower())
    if move is not None:
        return (move,)
    moves = [_MOVES.get(part.strip().lower()) for part in reply.split(MOVE_SEPARATOR)]
    return None if None in moves else cast(tuple[int, ...], tuple(moves))


def text_of(cells: bytearray) -> str:
    """Write cells in the agent's glyphs."""
    return codecs.charmap_decode(cells, "strict", RAGEN_GLYPHS)[0]


def _folder(levels: str) -> Path:
    """Find a folder of levels: one that comes with the package (`shipped`), or a path."""
    return Path(__file__).parent / "collection" if levels == SHIPPED else Path(levels).expanduser()
