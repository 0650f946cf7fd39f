"""Episodes to step through: what the page's player is given, with every text and the whole kept within bounds."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentbench.core.plain import plain
from agentbench.core.types import Reply, Turn
from agentbench.policies.choose import bundled
from agentbench.policies.pieces import Pieces, find_pieces
from agentbench.report.page import asset, embeddable, embedded
from agentbench.report.runs import Episode, Evaluation, Run
from agentbench.rollout.context import split_thoughts

if TYPE_CHECKING:
    from markupsafe import Markup

LIMIT = 4_000_000
"""Bytes of all episodes in a page."""
EPISODE = LIMIT // 2
"""Bytes of one of them; the last turns of a longer one are left out."""
TEXT = 20_000
"""Characters of one observation or reply."""
TOKENS = 3_000
"""Tokens of one reply that are shown one by one."""


class Shown(NamedTuple):
    """The player, and what is in it."""

    parts: "list[Markup]"
    episodes: int
    shortened: int = 0
    """How many of them lack their last turns."""
    left_out: int = 0
    """Episodes for which there was no room."""


def show_player(chosen: Sequence[Episode]) -> Shown:
    """Return the player's part of a page.

    Args:
        chosen: The episodes, the most important first; one that does not fit any more is left out.
    """
    tokenizers = {id(run): find_pieces(_tokenizer_folders(run)) for run in {id(e.run): e.run for e in chosen}.values()}
    fitting: list[dict[str, Any]] = []
    room, shortened = LIMIT, 0
    for episode in chosen:
        whole = episode_data(episode, tokenizers[id(episode.run)])
        data = _within(whole, EPISODE)
        size = len(embeddable(data)) + 1
        if size <= room:
            fitting.append(data)
            room -= size
            shortened += data is not whole
    parts = [asset("player.html"), embedded("player-data", fitting)] if fitting else []
    return Shown(parts, len(fitting), shortened, len(chosen) - len(fitting))


def _within(data: dict[str, Any], room: int) -> dict[str, Any]:
    """Leave the last turns of an episode out, as many as it takes to fit, and say so before its last observation."""
    if len(embeddable(data)) <= room:
        return data
    turns = data["turns"]
    said = "… {} more turns are in the run's trajectories\n\n"
    room -= len(embeddable({**data, "turns": []})) + len(said) + len(str(len(turns)))
    kept = bisect_right(list(accumulate(len(embeddable(turn)) + 1 for turn in turns)), room)
    return {**data, "turns": turns[:kept], "final": said.format(len(turns) - kept) + data["final"]}


def episode_data(episode: Episode, pieces: Pieces | None = None) -> dict[str, Any]:
    """Return what the player shows of an episode: plain texts and rounded numbers, ready for JSON.

    Args:
        episode: The episode.
        pieces: Tells the text of each token; without it a reply is shown as a whole.
    """
    trajectory = episode.trajectory
    return {
        "run": plain(episode.run.label),
        "key": plain(episode.row["key"]),
        "task": plain(trajectory.task),
        "seed": str(trajectory.seed),
        "trial": trajectory.trial,
        "success": trajectory.success,
        "end": plain(trajectory.end),
        "failure": plain(trajectory.failure["message"])[:TEXT] if trajectory.failure else None,
        "reward": _rounded(trajectory.total_reward),
        "final": _cut(trajectory.final_observation),
        "turns": [_turn_data(turn, pieces) for turn in trajectory.turns],
    }


def _turn_data(turn: Turn, pieces: Pieces | None) -> dict[str, Any]:
    reply = turn.reply
    return {
        "observation": _cut(turn.observation),
        "reply": list(_parts(turn, pieces)),
        "action": _cut(turn.action),
        "valid": turn.valid,
        "reward": _rounded(turn.reward),
        "terms": {plain(str(name)): _rounded(value) for name, value in turn.terms.items()},
        "value": _rounded(reply.values[0]) if reply.values else None,
        "advantage": _mean(turn.advantages),
        "entropy": _mean(reply.entropies),
        "logprob": _mean(reply.logprobs),
        "tokens": reply.n_tokens,
        "version": reply.policy_version,
        "cut": reply.finish == "length",
        "seconds": [_rounded(turn.policy_seconds), _rounded(turn.env_seconds)],
    }


def _parts(turn: Turn, pieces: Pieces | None) -> Iterator[dict[str, Any]]:
    """Yield what was thought and what was said, in order: as tokens with their numbers, or as text."""
    reply = turn.reply
    texts = pieces.of(reply.token_ids, reply.text) if pieces and _is_traced(reply) else None
    if texts is None:
        for is_thought, text in split_thoughts(reply.text):
            yield {"thought": is_thought, "text": _cut(text)}
        return
    columns = [reply.entropies, reply.logprobs, reply.values or (), turn.advantages or ()]
    parts = split_thoughts("".join(texts)) or [(False, "")]
    ends = list(accumulate(len(text) for _, text in parts))
    tokens: list[list[Any]] = [[] for _ in parts]
    for i, (text, begin) in enumerate(zip(texts, accumulate(map(len, texts), initial=0), strict=False)):
        numbers = [_rounded(column[i]) if i < len(column) else None for column in columns]
        tokens[min(bisect_right(ends, begin), len(parts) - 1)].append([plain(text), *numbers])
    for (is_thought, _), inside in zip(parts, tokens, strict=True):
        yield {"thought": is_thought, "tokens": inside}


def _is_traced(reply: Reply) -> bool:
    return 0 < len(reply.token_ids) == len(reply.entropies) <= TOKENS and len(reply.text) <= TEXT


def _tokenizer_folders(run: Run) -> list[Path]:
    """Return where the tokenizer of a run may be found: its own checkpoints, or the checkpoint that it evaluated."""
    if not isinstance(run, Evaluation):
        return sorted((run.run.path / "checkpoints").glob("*"))
    model = str(run.evidence.config.get("model", ""))
    kind, _, name = model.partition(":")
    folder = bundled(name) if kind == "bundled" else Path(model)
    # A run directory often stands beside or above the folder from which it was started.
    return [folder, run.run.path.parents[1] / folder] if len(run.run.path.parents) > 1 else [folder]


def _cut(text: str) -> str:
    text = plain(text)
    if len(text) <= TEXT:
        return text
    return f"{text[:TEXT]}\n… {len(text) - TEXT:,} more characters are in the run's trajectories"


def _mean(values: Sequence[float] | None) -> float | None:
    return _rounded(math.fsum(values) / len(values)) if values else None


def _rounded(value: float) -> float | None:
    """Return what JSON and a reader can take: four digits; None for what is no number."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
