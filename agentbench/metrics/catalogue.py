"""Every metric once: its name, its unit, which way is better, and what it means. Plots, tables and documents read this.

Names are `area/name`. A metric that is logged and not listed here fails a test.
"""

from typing import Literal, NamedTuple

Better = Literal["higher", "lower", "neither"]


class Metric(NamedTuple):
    """One thing that is measured."""

    name: str
    unit: str
    better: Better
    meaning: str


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("episode/reward", "reward", "higher", "Mean over episodes of the sum of what the trainer pays."),
        Metric("episode/native_reward", "reward", "higher", "The same with the environment's own weighing."),
        Metric("episode/success", "rate", "higher", "Episodes that solved their task, among the scored ones."),
        Metric("episode/turns", "turns", "neither", "Mean length of an episode."),
        Metric("episode/tokens", "tokens", "neither", "Mean number of sampled tokens of an episode."),
        Metric("episode/invalid", "rate", "lower", "Turns whose action was malformed or illegal."),
        Metric("episode/failures", "rate", "lower", "Attempts that infrastructure broke; they give no gradient."),
        Metric("policy/loss", "nats", "neither", "What is minimised for the actor, before entropy and KL."),
        Metric("policy/entropy", "nats", "neither", "Mean entropy of the sampled tokens' distributions."),
        Metric("policy/clip_fraction", "rate", "neither", "Ratios outside the trust region where clipping acts."),
        Metric("policy/clip_fraction_low", "rate", "neither", "Ratios clipped at the lower end."),
        Metric("policy/clip_fraction_high", "rate", "neither", "Ratios clipped at the upper end."),
        Metric("policy/dual_clip_fraction", "rate", "neither", "Bad actions whose loss the dual clip bounds."),
        Metric("policy/approx_kl", "nats", "neither", "Mean of rho - 1 - log rho: how far an update went."),
        Metric("policy/ratio_mean", "ratio", "neither", "Mean ratio of new to old probabilities; 1 on-policy."),
        Metric("policy/kl_reference", "nats", "neither", "Divergence of the sampler from the frozen reference (k1)."),
        Metric("policy/kl_coef", "1", "neither", "Coefficient of the KL at this update."),
        Metric("policy/grad_norm", "1", "neither", "Norm of the gradient before it is scaled down."),
        Metric("policy/logprob_mismatch", "nats", "lower", "Mean distance of sampler's and trainer's log-probs."),
        Metric("value/loss", "reward^2", "lower", "Squared error of the critic."),
        Metric("value/explained_variance", "share", "higher", "1 - Var(return - value) / Var(return); 1 is perfect."),
        Metric("value/mean", "reward", "neither", "Mean of what the critic says."),
        Metric("value/return", "reward", "neither", "Mean of what the critic is told."),
        Metric("advantage/mean", "reward", "neither", "Mean advantage of sampled tokens."),
        Metric("advantage/max", "reward", "neither", "Largest absolute advantage."),
        Metric("group/without_signal", "rate", "lower", "Episodes left out: all of their group scored the same."),
        Metric("valid/success", "rate", "higher", "Success on the valid panel, strict."),
        Metric("valid/reward", "reward", "higher", "Mean native reward on the valid panel."),
        Metric("batch/tokens", "tokens", "neither", "Tokens that went through the learner, observations included."),
        Metric("time/rollout_seconds", "s", "lower", "Wall time of collecting."),
        Metric("time/update_seconds", "s", "lower", "Wall time of learning."),
        Metric("time/rollout_cpu_seconds", "s", "lower", "CPU time of collecting."),
        Metric("time/update_cpu_seconds", "s", "lower", "CPU time of learning."),
        Metric("time/env_seconds", "s", "lower", "Time in the environments' own calls, added up over episodes."),
        Metric("time/seconds", "s", "lower", "Wall time of the whole update."),
        Metric("total/episodes", "episodes", "neither", "Episodes collected so far."),
        Metric("total/tokens", "tokens", "neither", "Tokens sampled so far."),
        Metric("total/cpu_seconds", "s", "neither", "CPU time so far."),
    )
}


def describe(name: str) -> Metric:
    """Return a metric by name; an indexed one (`entropy/turn_3`) by its family."""
    return METRICS.get(name) or FAMILIES[name.rpartition("_")[0]]


FAMILIES: dict[str, Metric] = {
    "entropy/turn": Metric("entropy/turn_K", "nats", "neither", "Mean entropy of the tokens of an episode's turn K."),
}
"""Metrics with an index, by the name before it."""
