"""Tokens are drawn by inverting the cumulative distribution with a number that the seed and the position decide."""

import numpy as np
import pytest
import torch
from transformers import TopKLogitsWarper, TopPLogitsWarper

from agentbench.core.types import Sampling
from agentbench.policies.sampling import BLOCK, Uniforms, _likely, draw, invert


def logits(rows: int, size: int = 40) -> torch.Tensor:
    return 2 * torch.randn(rows, size, generator=torch.Generator().manual_seed(0))


def test_the_numbers_depend_on_seed_and_position_only() -> None:
    ahead, behind = Uniforms(7), Uniforms(7)
    late = ahead[3 * BLOCK]
    assert [behind[i] for i in range(3 * BLOCK + 1)][-1] == late
    assert Uniforms(8)[0] != Uniforms(7)[0] == ahead[0]
    assert Uniforms(2**63 + 1)[0] != Uniforms(1)[0]


def test_inversion_returns_the_first_token_that_exceeds_the_number() -> None:
    probs = torch.tensor([[0.25, 0.0, 0.5, 0.25]]).expand(5, 4)
    assert invert(probs, [0.0, 0.24, 0.25, 0.74, 0.9999]).tolist() == [0, 0, 2, 2, 3]


def test_rows_need_not_sum_to_one() -> None:
    assert invert(torch.tensor([[0.1, 0.1, 0.0]]), [0.6]).tolist() == [1]


def test_frequencies_are_the_probabilities() -> None:
    row = logits(1)
    count = 20_000
    uniforms = Uniforms(3)
    drawn = draw(row.expand(count, -1), [Sampling(temperature=0.7)] * count, [uniforms[i] for i in range(count)])
    frequencies = np.bincount(drawn.tokens, minlength=row.shape[-1]) / count
    want = torch.softmax(row[0] / 0.7, -1).numpy()
    assert np.abs(frequencies - want).max() < 4 * np.sqrt(0.25 / count)


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.5), (5, 1.0), (7, 0.6), (1, 0.1), (0, 0.0), (100, 0.999)])
def test_the_filtered_distribution_is_that_of_transformers(top_k: int, top_p: float) -> None:
    scores = logits(6)
    probs = torch.softmax(scores, -1)
    if top_k:
        scores = TopKLogitsWarper(min(top_k, 40))(None, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    kept = _likely(probs, [Sampling(top_k=top_k, top_p=top_p)] * 6)
    torch.testing.assert_close(kept / kept.sum(-1, keepdim=True), torch.softmax(scores, -1))


def test_rows_with_different_settings_do_not_disturb_each_other() -> None:
    settings = [
        Sampling(),
        Sampling(temperature=1.0),
        Sampling(temperature=0.5, top_p=0.4),
        Sampling(temperature=2.0, top_k=3),
    ]
    uniforms = [0.9, 0.3, 0.99, 0.7]
    together = draw(logits(4), settings, uniforms)
    for row in range(4):
        alone = draw(logits(4)[row : row + 1], settings[row : row + 1], uniforms[row : row + 1])
        assert alone.tokens[0] == together.tokens[row]
        assert alone.logprobs[0] == pytest.approx(together.logprobs[row], abs=1e-6)
        assert alone.entropies[0] == pytest.approx(together.entropies[row], abs=1e-6)


def test_records_are_taken_before_the_filters_and_at_one_for_greedy_replies() -> None:
    rows = logits(2)
    drawn = draw(rows, [Sampling(top_k=1), Sampling(temperature=0.5, top_k=1)], [0.5, 0.5])
    for row, temperature in enumerate((1.0, 0.5)):
        log_probs = torch.log_softmax(rows[row].double() / temperature, -1)
        assert drawn.tokens[row] == int(rows[row].argmax())
        assert drawn.logprobs[row] == pytest.approx(float(log_probs.max()), abs=1e-6)
        assert drawn.entropies[row] == pytest.approx(float(-(log_probs.exp() * log_probs).sum()), abs=1e-5)


def test_an_impossible_token_adds_nothing_to_the_entropy() -> None:
    drawn = draw(torch.tensor([[0.0, 0.0, -torch.inf]]), [Sampling(temperature=1.0)], [0.999999])
    assert drawn.tokens == [1]
    assert drawn.entropies == pytest.approx([float(np.log(2))])


def test_half_precision_logits_are_recorded_in_single_precision() -> None:
    rows = logits(3).bfloat16()
    drawn = draw(rows, [Sampling(temperature=1.0)] * 3, [0.1, 0.5, 0.9])
    want = torch.log_softmax(rows.double(), -1)
    assert drawn.logprobs == pytest.approx([float(want[i, token]) for i, token in enumerate(drawn.tokens)], abs=1e-5)
