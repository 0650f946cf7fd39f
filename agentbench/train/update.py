"""One update: credit, a few passes over the batch in minibatches, and what can be said about them.

Minibatches are made of whole episodes, micro-batches of rows, and losses are divided by the counts of the whole
minibatch; how rows are packed therefore changes nothing but speed and memory. Rows of similar length go together, so
that little is padding.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from agentbench.core.errors import RunInvalid
from agentbench.core.seeding import derive
from agentbench.train.batch import Algorithm, Batch, Credit, Forward
from agentbench.train.config import MOST_OFF, Optim, Regularise
from agentbench.train.critic import ValueHead, explained_variance
from agentbench.train.forward import Reader
from agentbench.train.losses import aggregate, kl_penalty, truncated_importance_weights

Metrics = dict[str, float]


class Learner:
    """Changes weights.

    Args:
        model: The policy; its weights are changed in place.
        head: The critic, or None.
        reference: A frozen copy of the policy for the KL, or None.
        regularise: Entropy and KL.
        temperature: The sampler's.
        autocast: Type to compute in, or None.
    """

    def __init__(
        self,
        model: Any,
        head: ValueHead | None,
        reference: Any | None,
        regularise: Regularise,
        *,
        temperature: float,
        autocast: torch.dtype | None = None,
    ) -> None:
        self.model = model
        self.head = head
        self.regularise = regularise
        self.kl_coef = regularise.kl_coef
        self.credit: Credit | None = None
        """What the last update made of its batch."""
        self.autocast = autocast
        self._read = Reader(model, head, temperature=temperature, autocast=autocast)
        self._refer = reference and Reader(reference, temperature=temperature, autocast=autocast)
        self.optimizer = self._make_optimizer()

    def _make_optimizer(self) -> torch.optim.Optimizer:
        groups: list[dict[str, Any]] = [{"params": [p for p in self.model.parameters() if p.requires_grad]}]
        if self.head is not None:
            groups.append({"params": list(self.head.parameters())})
        return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)

    def update(
        self, batch: Batch, algorithm: Algorithm, optim: Optim, *, rate: float, seed: int, frozen_actor: bool = False
    ) -> Metrics:
        """Learn from one batch.

        Args:
            batch: Fresh experience.
            algorithm: What to make of it.
            optim: Learning rates, epochs and minibatches.
            rate: Share of the learning rates at this update.
            seed: Decides how episodes are shuffled.
            frozen_actor: Change the critic alone.

        Returns:
            What to log.
        """
        began, began_wall = time.process_time(), time.monotonic()
        sampled_bt = batch.logprobs_bt
        demonstrated = algorithm.demonstrates
        batch, weights_bt = (batch, None) if demonstrated else self._reread(batch, algorithm)
        batch, ref_bt, metrics = self._refer_to(batch)
        credit = algorithm.credit(batch)._replace(weights_bt=weights_bt)
        self.credit = credit
        metrics |= _credit_metrics(batch, credit, algorithm)
        self._set_rates(optim, rate)
        log: dict[str, list[float]] = defaultdict(list)
        teaching_e = teaching(batch, credit, algorithm)
        for epoch in range(optim.epochs):
            order = torch.randperm(len(teaching_e), generator=_generator(seed, epoch))
            for chosen in order.tensor_split(min(optim.minibatches, max(1, len(teaching_e)))):
                if len(chosen):
                    self._step(batch, credit, ref_bt, teaching_e[chosen], algorithm, optim, log, frozen_actor)
        self._steer(batch, metrics)
        metrics |= {name: sum(values) / len(values) for name, values in log.items()}
        metrics.pop("policy/logprob_distance", None)
        if not demonstrated and log:
            # Before the first step the weights are the sampler's: what differs there is numerical.
            first = log["policy/logprob_distance"][0]
            metrics["policy/logprob_mismatch"] = first if weights_bt is None else _distance(sampled_bt, batch)
        metrics["batch/tokens"] = float(batch.length_b.sum()) * optim.epochs
        metrics["time/update_cpu_seconds"] = time.process_time() - began
        metrics["time/update_seconds"] = time.monotonic() - began_wall
        return metrics

    def _step(
        self,
        batch: Batch,
        credit: Credit,
        ref_bt: Tensor | None,
        chosen_e: Tensor,
        algorithm: Algorithm,
        optim: Optim,
        log: dict[str, list[float]],
        frozen_actor: bool,
    ) -> None:
        """Take one gradient step on some episodes."""
        rows = batch.of_episodes(chosen_e)
        whole = batch.rows(rows)
        whole_credit = credit.rows(rows, whole.token_ids_bt.shape[1])
        denominator = algorithm.denominator(whole, whole_credit)
        ref_bt = None if ref_bt is None else ref_bt[rows]
        tokens = float(whole.mask_bt.sum())
        self.optimizer.zero_grad(set_to_none=True)
        summed: dict[str, float] = defaultdict(float)
        regulariser: dict[str, float] = defaultdict(float)
        votes = 0.0
        # A ratio of a whole episode is read from all its rows; everything else is of a row or was counted before.
        for index in micro_batches(whole, optim.micro_tokens, keep_episodes=algorithm.unit == "sequence"):
            part = whole.rows(index)
            width = part.token_ids_bt.shape[1]
            part_credit = whole_credit.rows(index, width)
            now = self._read(part, entropy_grad=self.regularise.entropy_coef > 0)
            now = now._replace(ref_logprobs_bt=None if ref_bt is None else ref_bt[index][:, :width])
            loss = algorithm.loss(now, part, part_credit, denominator.rows(index))
            extra, stats = self._regulariser(now, part, tokens)
            (loss.total + extra).backward()  # type: ignore[no-untyped-call]
            votes += loss.votes
            for name, value in loss.metrics.items():
                # Losses were divided by global counts and add up; the others are means over the part's votes.
                summed[name] += value if name.endswith("/loss") else value * loss.votes
            for name, value in stats.items():
                regulariser[name] += value
        if frozen_actor:  # What has no gradient is not stepped, decayed or clipped.
            for parameter in self.optimizer.param_groups[0]["params"]:
                parameter.grad = None
        parameters = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = nn.utils.clip_grad_norm_(parameters, optim.grad_norm)
        if not torch.isfinite(norm):
            raise RunInvalid(f"the gradient's norm is {float(norm)}: training diverged; lower optim.lr or the rewards")
        self.optimizer.step()
        means = {name: value if name.endswith("/loss") else value / votes for name, value in summed.items()}
        for name, value in (means | regulariser | {"policy/grad_norm": float(norm)}).items():
            log[name].append(value)

    def _regulariser(self, now: Forward, part: Batch, tokens: float) -> tuple[Tensor, Metrics]:
        """Return what entropy and KL add to the loss of some rows, and their sums to log."""
        mask_bt = part.mask_bt
        entropy = aggregate(now.entropies_bt, mask_bt, "token-mean", denominator=tokens)
        distance = ((now.logprobs_bt.detach() - part.logprobs_bt).abs() * mask_bt).sum() / tokens
        stats = {"policy/entropy": entropy.item(), "policy/logprob_distance": distance.item()}
        total = -self.regularise.entropy_coef * entropy if self.regularise.entropy_coef else torch.zeros(())
        if now.ref_logprobs_bt is not None and self.regularise.kl_in == "loss":
            kl_bt = kl_penalty(now.logprobs_bt, now.ref_logprobs_bt, kind=self.regularise.kind)
            total = total + self.kl_coef * aggregate(kl_bt, mask_bt, "token-mean", denominator=tokens)
        return total, stats

    def _reread(self, batch: Batch, algorithm: Algorithm) -> tuple[Batch, Tensor | None]:
        """Read old log-probabilities in the learner's own precision, where the sampler's is another.

        Ratios are then taken against what the learner would have said, and the sampler's deviation is a truncated
        importance weight: the decoupled form of `losses`.
        """
        if self.autocast is None:
            return batch, None
        old_bt = self._all_rows(self._read, batch)
        weights_bt = truncated_importance_weights(
            old_bt,
            batch.logprobs_bt,
            batch.mask_bt,
            level=algorithm.unit,
            cap=2.0,
            turn_bt=batch.turn_bt,
            episode_b=batch.episode_b,
        )
        return replace(batch, logprobs_bt=old_bt), weights_bt

    @torch.no_grad()
    def _all_rows(self, read: Reader, batch: Batch) -> Tensor:
        """Return the log-probabilities of all sampled tokens."""
        logprobs_bt = torch.zeros_like(batch.logprobs_bt)
        for index in micro_batches(batch, 8192):
            part = batch.rows(index)
            logprobs_bt[index, : part.token_ids_bt.shape[1]] = read(part).logprobs_bt.to(logprobs_bt.dtype)
        return logprobs_bt

    def _refer_to(self, batch: Batch) -> tuple[Batch, Tensor | None, Metrics]:
        """Ask the reference; take the KL from the reward if it belongs there."""
        if self._refer is None:
            return batch, None, {}
        ref_bt = self._all_rows(self._refer, batch)
        mask_bt = batch.mask_bt
        kl = float(((batch.logprobs_bt - ref_bt) * mask_bt).sum() / mask_bt.sum())
        metrics = {"policy/kl_reference": kl, "policy/kl_coef": self.kl_coef}
        if self.regularise.kl_in == "reward":
            kl_bt = kl_penalty(batch.logprobs_bt, ref_bt, kind=self.regularise.kind)
            batch = replace(batch, penalties_bt=self.kl_coef * kl_bt * mask_bt)
        return batch, ref_bt, metrics

    def _steer(self, batch: Batch, metrics: Metrics) -> None:
        """Move an adaptive coefficient, for the next update (Ziegler et al., arXiv 1909.08593, section 2.2)."""
        target = self.regularise.kl_target
        if target is not None and "policy/kl_reference" in metrics:
            error = min(max(metrics["policy/kl_reference"] / target - 1, -MOST_OFF), MOST_OFF)
            self.kl_coef *= 1 + error * batch.episodes / self.regularise.kl_horizon

    def _set_rates(self, optim: Optim, rate: float) -> None:
        groups = self.optimizer.param_groups
        groups[0]["lr"] = optim.lr * rate
        groups[0]["weight_decay"] = optim.weight_decay
        if len(groups) > 1:
            groups[1]["lr"] = optim.critic_lr * rate


def micro_batches(batch: Batch, limit: int, *, keep_episodes: bool = False) -> Iterator[Tensor]:
    """Group rows of similar length, padding included under a limit of tokens.

    Args:
        batch: The rows.
        limit: Tokens, padding included; a row that is longer goes alone.
        keep_episodes: Keep the rows of an episode together, also where they exceed the limit.
    """
    units: dict[int, list[int]] = defaultdict(list)
    for row, episode in enumerate(batch.episode_b.tolist()):
        units[episode if keep_episodes else row].append(row)
    length = batch.length_b.tolist()
    part: list[int] = []
    for unit in sorted(units.values(), key=lambda unit: (max(length[row] for row in unit), unit)):
        grown = [*part, *unit]
        if part and max(length[row] for row in grown) * len(grown) > limit:
            yield torch.tensor(part)
            grown = unit
        part = grown
    if part:
        yield torch.tensor(part)


def teaching(batch: Batch, credit: Credit, algorithm: Algorithm) -> Tensor:
    """Return the episodes that teach something: without a critic, those of groups in which anybody has an advantage.

    One that scored exactly the mean of its group has none, and still counts in what losses are divided by.
    """
    if algorithm.critic != "none":
        return torch.arange(batch.episodes)
    signal_b = credit.advantages_bt.abs().sum(-1) > 0
    taught = {batch.group_e[episode] for episode in batch.episode_b[signal_b].tolist()}
    return torch.tensor([e for e, group in enumerate(batch.group_e) if group in taught], dtype=torch.long)


def _distance(logprobs_bt: Tensor, batch: Batch) -> float:
    """Return the mean distance of log-probabilities from the batch's."""
    mask_bt = batch.mask_bt
    return float(((logprobs_bt - batch.logprobs_bt).abs() * mask_bt).sum() / mask_bt.sum())


def _credit_metrics(batch: Batch, credit: Credit, algorithm: Algorithm) -> Metrics:
    on = batch.mask_bt > 0
    advantages = credit.advantages_bt[on]
    metrics = {"advantage/mean": float(advantages.mean()), "advantage/max": float(advantages.abs().max())}
    if credit.returns_bt is not None and batch.values_bt is not None and credit.value_mask_bt is not None:
        where = credit.value_mask_bt > 0
        explained = explained_variance(batch.values_bt[where], credit.returns_bt[where])
        if not math.isnan(explained):
            metrics["value/explained_variance"] = explained
        metrics["value/mean"] = float(batch.values_bt[where].mean())
        metrics["value/return"] = float(credit.returns_bt[where].mean())
    elif algorithm.group_size > 1:
        taught = len(teaching(batch, credit, algorithm))
        metrics["group/without_signal"] = 1.0 - taught / batch.episodes
    return metrics


def _generator(seed: int, epoch: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive("minibatches", seed, epoch))
