"""Every metric once: name, unit, which way is better, what it means, where it comes from, what others call it.

Plots, tables and documents read this. Names are `area/name`; the areas say where a metric is found. A metric that is
logged and not listed here fails a test.

    eval/...                      the summary in run.json of an evaluation, recomputable from plan and rows
    episode/... to total/...      metrics.jsonl of a training run, one row per update
    valid/...                     the same rows, where the valid panel was played
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Better = Literal["higher", "lower", "neither"]


class Metric(NamedTuple):
    """One thing that is measured."""

    name: str
    unit: str
    better: Better
    meaning: str

    @property
    def area(self) -> str:
        """The part of its name that says where it comes from."""
        return self.name.partition("/")[0]

    @property
    def also(self) -> tuple[str, ...]:
        """What the same thing is called in other libraries' logs."""
        return ALSO.get(self.name, ())

    @property
    def source(self) -> str:
        """The file of a run that holds it."""
        return "run.json" if self.area == "eval" else "metrics.jsonl"


AREAS = {
    "eval": "Evaluation",
    "episode": "Episodes of an update",
    "valid": "The valid panel",
    "policy": "The policy",
    "entropy": "Entropy within episodes",
    "value": "The critic",
    "advantage": "Advantages",
    "group": "Groups of one task",
    "batch": "The batch",
    "time": "Time",
    "total": "Since the run began",
}
"""What each area is about."""

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("eval/success", "rate", "higher", "Solved among all planned episodes, errors as failures (strict)."),
        Metric("eval/success_scored", "rate", "higher", "Solved among the scored episodes alone."),
        Metric("eval/coverage", "rate", "higher", "Scored among all planned episodes."),
        Metric("eval/reward", "reward", "higher", "Mean over tasks of the native reward of scored episodes."),
        Metric("eval/turns", "turns", "neither", "Mean length of a scored episode."),
        Metric("eval/invalid_rate", "rate", "lower", "Turns whose action was malformed or illegal."),
        Metric("eval/tokens", "tokens", "neither", "Mean number of sampled tokens of a scored episode."),
        Metric("eval/prompt_tokens", "tokens", "neither", "Mean of a scored episode's prompt tokens, over its turns."),
        Metric("eval/completion_rate", "rate", "higher", "Planned episodes in which something was handed in (G-RA)."),
        Metric("eval/modification_rate", "rate", "higher", "Planned episodes in which a change was handed in (G-RA)."),
        Metric("eval/resolution_rate", "rate", "higher", "Planned episodes whose hidden tests all succeed (G-RA)."),
        Metric("eval/env_seconds", "s", "lower", "Time in the environments' own calls, added up over episodes."),
        Metric("eval/policy_seconds", "s", "lower", "Time of waiting for replies, added up over episodes."),
        Metric("episode/reward", "reward", "higher", "Mean over episodes of the sum of what the trainer pays."),
        Metric("episode/reward_error", "reward", "neither", "Standard error of episode/reward, clustered by task."),
        Metric("episode/native_reward", "reward", "higher", "The same with the environment's own weighing."),
        Metric("episode/success", "rate", "higher", "Episodes that solved their task, among the scored ones."),
        Metric("episode/success_error", "rate", "neither", "Standard error of episode/success, clustered by task."),
        Metric("episode/turns", "turns", "neither", "Mean length of an episode."),
        Metric("episode/tokens", "tokens", "neither", "Mean number of sampled tokens of an episode."),
        Metric("episode/invalid", "rate", "lower", "Turns whose action was malformed or illegal."),
        Metric("episode/completion_rate", "rate", "higher", "Episodes in which something was handed in (G-RA)."),
        Metric("episode/modification_rate", "rate", "higher", "Episodes in which a change was handed in (G-RA)."),
        Metric("episode/resolution_rate", "rate", "higher", "Episodes whose hidden tests all succeed (G-RA)."),
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
        Metric("policy/staleness", "updates", "lower", "Weight updates between sampling a turn and learning from it."),
        Metric("value/loss", "reward^2", "lower", "Squared error of the critic."),
        Metric("value/explained_variance", "share", "higher", "1 - Var(return - value) / Var(return); 1 is perfect."),
        Metric("value/mean", "reward", "neither", "Mean of what the critic says."),
        Metric("value/return", "reward", "neither", "Mean of what the critic is told."),
        Metric("advantage/mean", "reward", "neither", "Mean advantage of sampled tokens."),
        Metric("advantage/max", "reward", "neither", "Largest absolute advantage."),
        Metric("group/without_signal", "rate", "lower", "Episodes left out: all of their group scored the same."),
        Metric("valid/success", "rate", "higher", "Success on the valid panel, strict."),
        Metric("valid/reward", "reward", "higher", "Mean native reward on the valid panel."),
        Metric("valid/episodes", "episodes", "neither", "Size of the valid panel, one episode per task."),
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


FAMILIES: dict[str, Metric] = {
    metric.name.rpartition("_")[0]: metric
    for metric in (
        Metric("entropy/turn_K", "nats", "neither", "Mean entropy of the tokens of an episode's turn K, from 0."),
        Metric(
            "entropy/token_P",
            "nats",
            "neither",
            "Mean entropy of an episode's tokens P to 2P - 1; P is 0, 1, 2, 4, ...",
        ),
    )
}
"""Metrics with an index, by the name before it."""


ALSO: dict[str, tuple[str, ...]] = {
    "eval/success": (
        "GEM eval/{env}/accuracy",
        "verl-agent val/success_rate",
    ),
    "eval/reward": ("prime-rl reward/{env}/mean",),
    "eval/turns": (
        "prime-rl num_turns/{env}/mean",
        "GEM eval/{env}/mean_episode_len",
    ),
    "eval/invalid_rate": ("RAGEN 1 - action_is_valid",),
    "eval/env_seconds": ("SkyRL generate/trajectory_time_env",),
    "eval/policy_seconds": ("SkyRL generate/trajectory_time_llm",),
    "episode/reward": (
        "verl critic/rewards/mean",
        "verl-agent episode/reward/mean",
    ),
    "episode/native_reward": (
        "verl critic/score/mean",
        "SkyRL reward/avg_raw_reward",
    ),
    "episode/success": (
        "verl-agent episode/success_rate",
        "RAGEN {tag}/success",
    ),
    "episode/turns": (
        "verl-agent episode/length/mean",
        "RAGEN {tag}/num_actions",
    ),
    "episode/invalid": ("verl-agent 1 - episode/valid_action_ratio",),
    "episode/failures": (
        "prime-rl errored_rollouts",
        "ART {split}/exception_rate",
    ),
    "policy/entropy": (
        "verl actor/entropy",
        "SkyRL policy/entropy",
        "TRL entropy",
    ),
    "policy/clip_fraction": (
        "verl pg_clipfrac",
        "TRL clip_ratio/region_mean",
    ),
    "policy/clip_fraction_low": ("TRL clip_ratio/low_mean",),
    "policy/clip_fraction_high": ("TRL clip_ratio/high_mean",),
    "policy/dual_clip_fraction": ("verl pg_clipfrac_lower",),
    "policy/approx_kl": ("verl ppo_kl (another estimator)",),
    "policy/kl_reference": ("verl actor/reward_kl_penalty",),
    "policy/logprob_mismatch": (
        "SkyRL policy/rollout_train_logprobs_abs_diff_mean",
        "TRL sampling/sampling_logp_difference/mean",
    ),
    "policy/staleness": (
        "SkyRL async/staleness_mean",
        "prime-rl off_policy/mean",
    ),
    "value/explained_variance": ("verl critic/vf_explained_var",),
    "value/mean": ("verl critic/values/mean",),
    "value/return": ("verl critic/returns/mean",),
    "advantage/mean": ("verl critic/advantages/mean",),
    "group/without_signal": (
        "TRL frac_reward_zero_std (of groups)",
        "SkyRL reward/num_zero_variance_filtered (a count)",
    ),
    "valid/success": ("verl-agent val/success_rate",),
    "time/env_seconds": ("SkyRL generate/trajectory_time_env",),
}
"""Names under which users of other libraries know a metric, as found in their code."""


def describe(name: str) -> Metric:
    """Return a metric by name; an indexed one (`entropy/turn_3`) by its family."""
    return METRICS.get(name) or FAMILIES[name.rpartition("_")[0]]


def family(row: Mapping[str, Any], name: str) -> dict[int, float]:
    """Return the values of an indexed metric in a row of metrics.jsonl, by index, in order."""
    prefix = f"{name}_"
    found = {int(key.removeprefix(prefix)): value for key, value in row.items() if key.startswith(prefix)}
    return dict(sorted(found.items()))
