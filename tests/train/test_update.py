"""One update: the trainer reads what the sampler said, and what is configured is what happens."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from agentbench.core.errors import RunInvalid
from agentbench.core.records import Planned
from agentbench.core.types import Sampling, Trajectory
from agentbench.policies.checkpoint import Checkpoint, load_checkpoint
from agentbench.policies.hf import HFPolicy
from agentbench.rollout.context import ContextSpec
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.testing import ECHO, resolve_fake, tiny_model
from agentbench.train import forward
from agentbench.train.advantages import leave_one_out
from agentbench.train.algorithms import ALGORITHMS, RLOO, TurnPPO
from agentbench.train.batch import Algorithm, Batch, Forward, make_batch
from agentbench.train.collect import play_all
from agentbench.train.config import Optim, Regularise
from agentbench.train.critic import ValueHead
from agentbench.train.forward import Reader, recompute_layers
from agentbench.train.update import Learner, teaching

TEMPERATURE = 0.7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def checkpoint(folder: Path) -> Checkpoint:
    return load_checkpoint(folder, device="cpu", dtype="float32")


@pytest.fixture
def head() -> ValueHead:
    head = ValueHead(32)
    torch.nn.init.normal_(head.linear.weight, generator=torch.Generator().manual_seed(1))
    return head


@pytest.fixture
def policy(checkpoint: Checkpoint, head: ValueHead) -> Iterator[HFPolicy]:
    policy = HFPolicy(checkpoint, batch_size=4)
    policy.set_value_head(head)
    yield policy
    policy.close()


def play(policy: HFPolicy, context: str = "full", *, turns: int = 8, bootstrap: bool = False) -> list[Trajectory]:
    """Six episodes of three turns, in groups of two; replies of unequal length, and ended rows are replaced."""
    setting = Setting(
        resolve_fake(ECHO),
        Limits(turns),
        Sampling(TEMPERATURE, max_tokens=12),
        ContextSpec(context, "plain"),
        5,
        bootstrap=bootstrap,
    )
    return play_all([Planned(f"k{e}", f"task {e // 2}", e // 2, e % 2) for e in range(6)], setting, policy, retries=0)


def batch_of(played: list[Trajectory]) -> Batch:
    """With rewards that differ, which an untrained model would not get."""
    rewards = [[0.1 * e + 0.5 * k for k in range(len(one.turns))] for e, one in enumerate(played)]
    return make_batch(played, rewards, [one.task for one in played])


@pytest.mark.parametrize("context", ["full", "window:1"])
def test_a_fresh_forward_says_what_the_sampler_said(
    context: str, policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    batch = batch_of(play(policy, context))
    assert (len(batch.episode_b) > batch.episodes) == (context != "full")
    with torch.no_grad():
        now = Reader(checkpoint.model, head, temperature=TEMPERATURE)(batch)
    assert batch.values_bt is not None and now.values_bt is not None
    assert float(batch.values_bt.abs().max()) > 0.01
    torch.testing.assert_close(now.logprobs_bt, batch.logprobs_bt, rtol=0, atol=1e-5)
    torch.testing.assert_close(now.values_bt, batch.values_bt, rtol=0, atol=1e-5)


@pytest.mark.parametrize("context", ["full", "window:1"])
def test_a_cut_off_is_worth_what_the_critic_says_where_the_next_reply_would_begin(
    context: str, policy: HFPolicy
) -> None:
    cut, longer = play(policy, context, turns=2, bootstrap=True), play(policy, context, turns=3)
    for short, long in zip(cut, longer, strict=True):
        values = long.turns[2].reply.values
        assert short.end == "max_turns" and values is not None
        assert short.last_value == pytest.approx(values[0], abs=1e-5)
    assert make_batch(cut, [[0.0] * 2] * 6, "abcdef").last_value_e.tolist() == [one.last_value for one in cut]


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "sft"])
def test_an_update_starts_from_the_policy_that_sampled(
    name: str, policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    learner = Learner(checkpoint.model, head, None, Regularise(), temperature=TEMPERATURE)
    optim = Optim(lr=1e-2, minibatches=2, micro_tokens=600)
    for seed in range(2):
        metrics = learner.update(batch_of(play(policy)), ALGORITHMS[name](), optim, rate=1.0, seed=seed)
        assert metrics["policy/logprob_mismatch"] < 1e-5
        assert metrics["policy/grad_norm"] > 0
        assert policy.update() == seed + 1


def gradient(learner: Learner, batch: Batch) -> list[torch.Tensor]:
    """The gradient of one turn-PPO step, which moves nothing."""
    optim = Optim(lr=1e-30, critic_lr=1e-30, minibatches=1, grad_norm=1e9)
    learner.update(batch, ALGORITHMS["turn-ppo"](), optim, rate=1.0, seed=0)
    return [weight.grad.clone() for weight in learner.model.parameters() if weight.grad is not None]


def test_gradient_checkpointing_computes_layers_twice_and_changes_no_gradient(
    policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    batch, model = batch_of(play(policy)), checkpoint.model
    calls: list[int] = []
    layers: Any = model.base_model.layers
    layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    plain = gradient(Learner(model, head, None, Regularise(), temperature=TEMPERATURE), batch)
    once = len(calls)
    recompute_layers(model)
    again = gradient(Learner(model, head, None, Regularise(), temperature=TEMPERATURE), batch)
    assert len(calls) == 3 * once
    assert all(x.equal(y) for x, y in zip(again, plain, strict=True))
    assert not any(module.training for module in model.modules())
    play(policy)  # the sampler keeps its cache: transformers would warn, and warnings are errors


@pytest.mark.parametrize("entropy_coef", [0.0, 0.1])
def test_chunks_of_logits_are_made_twice_and_change_no_gradient(
    entropy_coef: float, policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, model = batch_of(play(policy)), checkpoint.model
    vocabulary, rows = int(model.config.vocab_size), int(batch.mask_bt.sum())
    gradients, kept = [], []
    for limit in (rows, 16):
        saved: list[Tensor] = []
        monkeypatch.setattr(forward, "LOGITS", limit * vocabulary)
        learner = Learner(model, head, None, Regularise(entropy_coef=entropy_coef), temperature=TEMPERATURE)
        with torch.autograd.graph.saved_tensors_hooks(lambda x, saved=saved: saved.append(x) or x, lambda x: x):  # type: ignore[misc]
            Reader(model, temperature=TEMPERATURE)(batch, entropy_grad=entropy_coef > 0)
        kept.append(sum(len(x) for x in saved if x.shape[-1:] == (vocabulary,)))
        gradients.append(gradient(learner, batch))
    assert kept[0] >= rows and kept[1] == 0
    for chunked, plain in zip(*reversed(gradients), strict=True):
        torch.testing.assert_close(chunked, plain, rtol=1e-4, atol=1e-6)


def test_the_critic_keeps_its_precision_where_the_policy_computes_in_bfloat16(head: ValueHead) -> None:
    hidden = torch.randn(7, 32, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        values = head(hidden)
    assert values.dtype == torch.float32
    assert values.equal(head(hidden))


def test_an_episode_that_scores_the_mean_of_its_group_still_counts(
    policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    played = play(policy)
    rewards = [[score] + [0.0] * (len(one.turns) - 1) for score, one in zip((0, 1, 2, 3, 3, 3), played, strict=True)]
    batch = make_batch(played, rewards, ["mixed"] * 3 + ["equal"] * 3)
    learner = Learner(checkpoint.model, None, None, Regularise(), temperature=TEMPERATURE)
    algorithm = ALGORITHMS["rloo"]()
    credit = algorithm.credit(batch)
    assert credit.advantages_bt[1].abs().max() == 0
    assert teaching(batch, credit, algorithm).tolist() == [0, 1, 2]
    metrics = learner.update(batch, algorithm, Optim(minibatches=1), rate=1.0, seed=0)
    assert metrics["group/without_signal"] == 0.5


@pytest.mark.parametrize(
    ("algorithm", "context"),
    [(TurnPPO(), "full"), (TurnPPO(), "window:1"), (RLOO(ratio="sequence"), "window:1")],
)
def test_logged_numbers_do_not_depend_on_micro_batches(
    algorithm: Algorithm, context: str, policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    batch, logged = batch_of(play(policy, context)), []
    noise = torch.randn(batch.logprobs_bt.shape, generator=torch.Generator().manual_seed(0))
    batch = replace(batch, logprobs_bt=batch.logprobs_bt + 0.1 * noise * batch.mask_bt)
    for micro_tokens in (1, 100_000):
        learner = Learner(checkpoint.model, head, None, Regularise(), temperature=TEMPERATURE)
        optim = Optim(lr=1e-30, critic_lr=1e-30, minibatches=1, micro_tokens=micro_tokens)
        metrics = learner.update(batch, algorithm, optim, rate=1.0, seed=0)
        logged.append({name: value for name, value in metrics.items() if not name.startswith("time/")})
    assert logged[0]["policy/approx_kl"] > 0
    assert logged[0] == pytest.approx(logged[1], rel=1e-4)


@pytest.mark.parametrize(
    ("regularise", "adds"),
    [
        (Regularise(entropy_coef=0.5), lambda entropy, d: -0.5 * entropy),
        (Regularise(kl_coef=0.3), lambda entropy, d: 0.3 * (torch.exp(-d) - 1 + d)),
        (Regularise(kl_coef=0.3, kl_kind="k2"), lambda entropy, d: 0.3 * d.square() / 2),
    ],
    ids=["entropy", "k3", "k2"],
)
def test_entropy_is_added_to_the_gain_and_divergence_to_the_loss(
    regularise: Regularise, adds: Any, policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    batch, model = batch_of(play(policy)), checkpoint.model
    reference = tilted(checkpoint) if regularise.kl_coef else None
    plain, regularised = (
        gradient(Learner(model, head, ref, how, temperature=TEMPERATURE), batch)
        for ref, how in ((None, Regularise()), (reference, regularise))
    )
    now = Reader(model, temperature=TEMPERATURE)(batch, entropy_grad=True)
    ref_bt = 0.0 if reference is None else Reader(reference, temperature=TEMPERATURE)(batch).logprobs_bt
    added_bt = adds(now.entropies_bt, now.logprobs_bt - ref_bt) * batch.mask_bt
    weights = [*model.parameters()]
    for weight, want in zip(weights, torch.autograd.grad(added_bt.sum() / batch.mask_bt.sum(), weights), strict=True):
        before, after = plain.pop(0), regularised.pop(0)
        assert before.shape == weight.shape
        torch.testing.assert_close(after - before, want, rtol=1e-3, atol=2e-5)


def test_a_divergence_in_the_reward_is_a_penalty_at_each_token(policy: HFPolicy, checkpoint: Checkpoint) -> None:
    batch, reference = batch_of(play(policy)), tilted(checkpoint)
    charged = Regularise(kl_coef=0.5, kl_in="reward")
    learner = Learner(checkpoint.model, None, reference, charged, temperature=TEMPERATURE)
    learner.update(batch, RLOO(group_size=2), Optim(), rate=1.0, seed=0)
    with torch.no_grad():
        ref_bt = Reader(reference, temperature=TEMPERATURE)(batch).logprobs_bt
    paid = batch.rewards_ek.sum(1)
    charged_e = torch.zeros(6).index_add(0, batch.episode_b, ((batch.logprobs_bt - ref_bt) * batch.mask_bt).sum(1))
    want = leave_one_out(paid - 0.5 * charged_e, batch.group_e)
    assert learner.credit is not None and charged_e.abs().min() > 0.01
    torch.testing.assert_close(learner.credit.advantages_bt.sum(1) / batch.mask_bt.sum(1), want, rtol=1e-3, atol=1e-4)


def test_a_frozen_actor_stands_still_and_rates_are_shares(
    policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    learner = Learner(checkpoint.model, head, None, Regularise(entropy_coef=0.1), temperature=TEMPERATURE)
    before, said = copy.deepcopy(checkpoint.model.state_dict()), head.linear.weight.clone()
    optim = Optim(lr=1e-2, critic_lr=1e-3, weight_decay=0.1)
    learner.update(batch_of(play(policy)), TurnPPO(), optim, rate=0.5, seed=0, frozen_actor=True)
    assert all(weight.equal(before[name]) for name, weight in checkpoint.model.state_dict().items())
    assert all(weight.grad is None for weight in checkpoint.model.parameters()), "the clipped norm is the critic's"
    assert not said.equal(head.linear.weight)
    learner.update(batch_of(play(policy)), TurnPPO(), optim, rate=0.5, seed=0)
    assert [group["lr"] for group in learner.optimizer.param_groups] == [5e-3, 5e-4]
    assert not all(weight.equal(before[name]) for name, weight in checkpoint.model.state_dict().items())


def test_in_another_precision_ratios_start_at_one_and_the_sampler_is_weighed(
    policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    batch = batch_of(play(policy))
    noise = torch.randn(batch.logprobs_bt.shape, generator=torch.Generator().manual_seed(0))
    batch = replace(batch, logprobs_bt=batch.logprobs_bt + 0.3 * noise * batch.mask_bt)  # the sampler's deviation
    kind = torch.bfloat16
    learner = Learner(checkpoint.model, head, None, Regularise(), temperature=TEMPERATURE, autocast=kind)
    optim = Optim(lr=1e-30, critic_lr=1e-30, minibatches=1)
    metrics = learner.update(batch, TurnPPO(), optim, rate=1.0, seed=0)
    assert metrics["policy/ratio_mean"] == pytest.approx(1.0, abs=0.05)
    assert metrics["policy/logprob_mismatch"] == pytest.approx(0.3 * (2 / torch.pi) ** 0.5, rel=0.2)
    with torch.no_grad():
        old_bt = Reader(checkpoint.model, temperature=TEMPERATURE, autocast=kind)(batch).logprobs_bt
    turns_ek = batch.turn_sums((old_bt - batch.logprobs_bt) * batch.mask_bt)
    want_bt = batch.spread(turns_ek.exp().clamp(max=2.0))
    assert learner.credit is not None and learner.credit.weights_bt is not None
    torch.testing.assert_close(learner.credit.weights_bt, want_bt, rtol=0.05, atol=0.05)


def test_the_coefficient_that_is_logged_is_the_one_that_was_used(
    policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    reference = tilted(checkpoint)
    steered = Regularise(kl_coef=0.1, kl_target=1e-9, kl_horizon=6)
    used: list[float] = []

    class Watched(Learner):
        def _regulariser(self, now: Forward, part: Batch, tokens: float) -> Any:
            used.append(self.kl_coef)
            return super()._regulariser(now, part, tokens)

    learner = Watched(checkpoint.model, None, reference, steered, temperature=TEMPERATURE)
    metrics = learner.update(batch_of(play(policy)), ALGORITHMS["rloo"](), Optim(), rate=1.0, seed=0)
    assert metrics["policy/kl_reference"] > 0
    assert set(used) == {0.1} == {metrics["policy/kl_coef"]}
    assert learner.kl_coef == pytest.approx(0.1 * 1.2)


def tilted(checkpoint: Checkpoint) -> Any:
    """Another policy, as a reference."""
    reference: Any = copy.deepcopy(checkpoint.model)
    with torch.no_grad():
        for weight in reference.parameters():
            weight.mul_(0.5)
    return reference.requires_grad_(False)


def test_a_gradient_that_is_no_number_ends_the_run_before_it_spoils_the_weights(
    policy: HFPolicy, checkpoint: Checkpoint, head: ValueHead
) -> None:
    batch = batch_of(play(policy))
    before = [weight.clone() for weight in checkpoint.model.parameters()]
    learner = Learner(checkpoint.model, head, None, Regularise(), temperature=TEMPERATURE)
    broken = replace(batch, rewards_ek=batch.rewards_ek * float("inf"))
    with pytest.raises(RunInvalid, match="training diverged"):
        learner.update(broken, ALGORITHMS["turn-ppo"](), Optim(), rate=1.0, seed=0)
    assert all(x.equal(y) for x, y in zip(checkpoint.model.parameters(), before, strict=True))


def test_demonstrations_have_no_sampler_to_be_compared_with(policy: HFPolicy, checkpoint: Checkpoint) -> None:
    learner = Learner(checkpoint.model, None, None, Regularise(), temperature=TEMPERATURE)
    metrics = learner.update(batch_of(play(policy)), ALGORITHMS["sft"](), Optim(), rate=1.0, seed=0)
    assert metrics["policy/loss"] > 0
    assert "policy/logprob_mismatch" not in metrics
