"""A batch holds the sampled tokens as they were sampled, and an episode stays one episode in however many rows."""

import numpy as np
import pytest
import torch

from agentbench.core.types import Reply, Trajectory, Turn
from agentbench.train.algorithms import ALGORITHMS, GRPO, RLOO
from agentbench.train.batch import Algorithm, Batch, Credit, make_batch
from agentbench.train.update import micro_batches
from tests.train.rollouts import rewards_of, trajectory

POLICY_GRADIENT = [name for name in ALGORITHMS if name != "sft"]


def episodes(*, split: bool) -> list[Trajectory]:
    """Six episodes of two groups; `split` cuts some of them into several sequences, and changes nothing else."""
    rng = np.random.default_rng(7)
    cuts = [(), (1,), (2,), (), (1, 2), (3,)]
    return [trajectory(rng, 4 + e % 3, task=f"task {e % 2}", fresh=cut if split else ()) for e, cut in enumerate(cuts)]


def batch_of(played: list[Trajectory]) -> Batch:
    return make_batch(played, rewards_of(played), [episode.task for episode in played])


def credit_by_token(played: list[Trajectory], name: str) -> list[float]:
    """The advantages of all sampled tokens, episode by episode."""
    batch = batch_of(played)
    credit = ALGORITHMS[name]().credit(batch)
    per_token: list[float] = batch.gather(credit.advantages_bt)[batch.tokens.mask_ej > 0].tolist()
    return per_token


def test_sampled_tokens_are_the_trained_tokens() -> None:
    played = episodes(split=True)
    batch = batch_of(played)
    ids = batch.token_ids_bt[batch.tokens.row_ej, batch.tokens.position_ej]
    for e, episode in enumerate(played):
        sampled = [token for turn in episode.turns for token in turn.reply.token_ids]
        assert ids[e][batch.tokens.mask_ej[e] > 0].tolist() == sampled
        logprobs = [value for turn in episode.turns for value in turn.reply.logprobs]
        stored = batch.gather(batch.logprobs_bt)[e][batch.tokens.mask_ej[e] > 0]
        assert stored.tolist() == pytest.approx(logprobs)


def test_a_fresh_context_begins_a_row_and_keeps_the_episode() -> None:
    batch = batch_of(episodes(split=True))
    assert batch.episode_b.tolist() == [0, 1, 1, 2, 2, 3, 4, 4, 4, 5, 5]
    assert batch.episodes == 6


def test_rewards_are_conserved() -> None:
    played = episodes(split=True)
    batch = batch_of(played)
    paid_bt = batch.spread(batch.rewards_ek) * batch.turn_edge("last")
    assert float(paid_bt.sum()) == pytest.approx(sum(sum(row) for row in rewards_of(played)), rel=1e-5)


@pytest.mark.parametrize("name", POLICY_GRADIENT)
def test_splitting_an_episode_into_sequences_changes_no_advantage(name: str) -> None:
    whole, split = credit_by_token(episodes(split=False), name), credit_by_token(episodes(split=True), name)
    assert split == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("name", POLICY_GRADIENT)
def test_the_order_of_episodes_changes_no_advantage(name: str) -> None:
    played = episodes(split=True)
    order = [3, 0, 5, 1, 4, 2]
    plain = {e: [] for e in range(6)}  # type: ignore[var-annotated]
    for want, arrangement in ((True, list(range(6))), (False, order)):
        batch = batch_of([played[e] for e in arrangement])
        advantages = batch.gather(ALGORITHMS[name]().credit(batch).advantages_bt)
        for row, e in enumerate(arrangement):
            values = advantages[row][batch.tokens.mask_ej[row] > 0].tolist()
            if want:
                plain[e] = values
            else:
                assert values == pytest.approx(plain[e], abs=1e-5)


@pytest.mark.parametrize(
    "algorithm",
    [*(ALGORITHMS[name]() for name in ALGORITHMS), GRPO(ratio="sequence"), RLOO(ratio="sequence")],
    ids=repr,
)
def test_micro_batches_add_up_to_the_batch(algorithm: Algorithm) -> None:
    batch = batch_of(episodes(split=True))
    credit = algorithm.credit(batch)
    denominator = algorithm.denominator(batch, credit)
    whole = _gradient(algorithm, batch, credit, denominator, [torch.arange(len(batch.episode_b))])
    by_row, by_episode = ([*micro_batches(batch, 12, keep_episodes=keep)] for keep in (False, True))
    assert len(by_row) > len(by_episode) > 1
    for parts in (by_row, by_episode) if algorithm.unit != "sequence" else (by_episode,):
        assert _gradient(algorithm, batch, credit, denominator, parts) == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("keep", [False, True])
def test_micro_batches_are_all_rows_once_under_the_limit(keep: bool) -> None:
    batch = batch_of(episodes(split=True))
    for limit in (1, 12, 30, 10_000):
        parts = [*micro_batches(batch, limit, keep_episodes=keep)]
        assert sorted(row for part in parts for row in part.tolist()) == list(range(len(batch.episode_b)))
        for part in parts:
            units = {*(batch.episode_b[part] if keep else part).tolist()}
            assert len(units) == 1 or int(batch.length_b[part].max()) * len(part) <= limit
        episodes_of = [set(batch.episode_b[part].tolist()) for part in parts]
        assert not keep or sum(map(len, episodes_of)) == batch.episodes


def _gradient(algorithm, batch, credit, denominator, parts) -> list[float]:  # type: ignore[no-untyped-def]
    """The gradient of the loss with respect to log-probabilities and values, added up over micro-batches."""
    from agentbench.train.batch import Forward

    noise = torch.Generator().manual_seed(3)
    logprobs = (batch.logprobs_bt + 0.1 * torch.randn(batch.logprobs_bt.shape, generator=noise)).requires_grad_()
    values = (batch.values_bt + 0.1 * torch.randn(batch.values_bt.shape, generator=noise)).requires_grad_()
    for index in parts:
        part = batch.rows(index)
        width = part.token_ids_bt.shape[1]
        now = Forward(logprobs[index][:, :width], torch.zeros(()), values[index][:, :width], None)
        algorithm.loss(now, part, credit.rows(index, width), denominator.rows(index)).total.backward()
    gradients = [tensor.grad for tensor in (logprobs, values) if tensor.grad is not None]
    return [number for gradient in gradients for number in gradient.flatten().tolist()]


def test_groups_of_equal_scores_give_no_advantage() -> None:
    played = episodes(split=False)
    batch = make_batch(played, [[1.0 / len(e.turns)] * len(e.turns) for e in played], [e.task for e in played])
    for name in ("grpo", "rloo"):
        credit: Credit = ALGORITHMS[name]().credit(batch)
        assert float(credit.advantages_bt.abs().max()) < 1e-4


def test_an_episode_without_turns_is_refused() -> None:
    empty = Trajectory("fake/one@0", "train", "t", 0)
    with pytest.raises(ValueError, match="without turns"):
        make_batch([empty], [[]], ["t"])


def test_a_reply_without_its_tokens_is_refused() -> None:
    episode = Trajectory("fake/one@0", "train", "t", 0)
    episode.turns.append(Turn("o", Reply("left"), "left", 1.0, {}, 0.0, True, {}, 0.0, 0.0, ""))
    with pytest.raises(ValueError, match="0 token ids"):
        make_batch([episode], [[1.0]], ["t"])
