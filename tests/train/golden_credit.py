"""Checks of recorded advantages and returns."""

import torch
from torch import Tensor

from agentbench.train import advantages as credit
from agentbench.train.advantages import Scale, gae, group_normalise, leave_one_out, returns_to_go, turn_gae, whiten
from agentbench.train.losses import denominators
from agentbench.train.ratios import turn_ends, turn_starts
from tests.train.golden import Case, checks, played, to_tensor, to_tokens, to_turns


@checks("verl_gae", "compute_gae_advantage_return")
def token_gae(case: Case) -> None:
    got = gae(case["rewards"], case["values"], case.mask, gamma=case.params["gamma"], lam=case.params["lam"])
    case.expect("raw_advantages", got.advantages, case.mask)
    case.expect("returns", got.returns, case.mask)
    case.expect("advantages_whitened", whiten(got.advantages, case.mask), case.mask)


@checks("openrlhf", "get_advantages_and_returns")
def gae_with_observations_of_no_value(case: Case) -> None:
    """There observations are actions of value and reward 0, so that credit fades across them."""
    everywhere = torch.ones_like(case.mask)
    rewards, values = case["rewards_sparse"] * case.mask, case["values"] * case.mask
    got = gae(rewards, values, everywhere, gamma=case.params["gamma"], lam=case.params["lambd"])
    case.expect("advantages", got.advantages, case.mask)
    case.expect("returns", got.returns, case.mask)


@checks("openrlhf", "get_cumulative_returns")
def returns_discounted_on_observations(case: Case) -> None:
    rewards = case["rewards_sparse"] * case.mask
    case.expect("returns", returns_to_go(rewards, torch.ones_like(rewards), gamma=case.params["gamma"]), case.mask)


@checks("skyrl", "compute_gae_advantage_return")
def gae_over_all_positions(case: Case) -> None:
    rewards, values = case["token_level_rewards"], case["values"]
    everywhere = torch.ones_like(values)
    got = gae(rewards, values, everywhere, gamma=case.params["gamma"], lam=case.params["lambda"])
    case.expect("returns", got.returns)
    case.expect("advantages_whitened", whiten(got.advantages, case.mask), case.mask)


@checks("trl", "PPOTrainer.train (advantage block)")
def gae_over_padding(case: Case) -> None:
    rewards, values, mask = case["rewards"], case["values"], 1.0 - case["padding_mask"]
    got = gae(rewards, values, torch.ones_like(mask), gamma=case.params["gamma"], lam=case.params["lam"])
    case.expect("returns", got.returns)
    case.expect("advantages_whitened", whiten(got.advantages, mask))


@checks("miles", "chunked_gae")
def gae_without_a_mask(case: Case) -> None:
    rewards = case["token_rewards"]
    everywhere = torch.ones_like(rewards)
    got = gae(rewards, case["values"], everywhere, gamma=case.params["gamma"], lam=case.params["lambda"])
    case.expect("advantages", got.advantages)
    case.expect("returns", got.returns)


@checks("agentic_extras", "compute_gae_advantage_return")
def gae_that_reads_values_of_observations(case: Case) -> None:
    """There the next value is that of the next position; a reward that pays the difference says the same."""
    values, mask, gamma = case["values"], case.mask, case.params["gamma"]
    next_position = torch.nn.functional.pad(values, (0, 1))[:, 1:]
    zeros = torch.zeros_like(values)
    next_action = gae(zeros, values, mask, gamma=1.0, lam=0.0).returns  # 0 + V of the next action
    rewards = case["rewards"] + gamma * (next_position - next_action)
    got = gae(rewards, values, mask, gamma=gamma, lam=case.params["lam"])
    case.expect("returns", got.returns, mask)
    case.expect("advantages_whitened", whiten(got.advantages, mask), mask)


@checks("turn_level", "PPO._compute_gae_returns_token")
def gae_that_ends_with_each_turn(case: Case) -> None:
    rewards, values, mask, turns = case["rewards"], case["values"], case.mask, case.turns
    gamma, lam = case.params["gamma"], case.params["gae_lambda"]
    parts = [gae(rewards, values, turns == k, gamma=gamma, lam=lam) for k in range(int(turns.max()) + 1)]
    advantages, returns = (torch.stack(x).sum(0) for x in zip(*parts, strict=True))
    case.expect("returns", returns)
    case.expect("advantages", whiten(advantages, mask) if case.params["whiten_advantages"] else advantages)


@checks("cleanrl", "GAE block")
def gae_over_a_stream_of_episodes(case: Case) -> None:
    """Each episode of the stream becomes a row; only the last of an environment may be bootstrapped."""
    rewards, values, starts = case["rewards"].T, case["values"].T, case["dones"].T
    episode = starts.cumsum(1)
    advantages, returns = torch.zeros_like(values), torch.zeros_like(values)
    alive = (1.0 - case["next_done"]) * case["next_value"][0]
    for number in range(int(episode.max()) + 1):
        mask = episode == number
        last = torch.where(mask[:, -1], alive, 0.0)
        gamma, lam = case.params["gamma"], case.params["gae_lambda"]
        got = gae(rewards, values, mask, gamma=gamma, lam=lam, last_values_b=last)
        advantages, returns = advantages + got.advantages, returns + got.returns
    case.expect("advantages", advantages.T)
    case.expect("returns", returns.T)


@checks("miles", "get_gae_adaptive_advantages")
def gae_with_a_lambda_per_row(case: Case) -> None:
    values, mask, params = case["values"], case.mask, case.params
    last_token = turn_ends(torch.where(mask.bool(), 0, -1))
    rewards = last_token * case["rewards"][:, None] - params["kl_coef"] * case["kl"]
    compacted = "trajectory_active_tokens" in case.fields
    tokens = case["trajectory_active_tokens"] if compacted else mask.sum(1)
    lam = torch.full_like(tokens, params.get("lambda", 1.0))
    if params["mode"] == "adaptive":
        lam = torch.where(tokens > 0, credit.length_adaptive_lambda(tokens, params["alpha"]), 1.0)
    got = gae(rewards, values, mask, gamma=params["gamma"], lam=lam)
    if not compacted:
        case.expect("lambda_per_row", lam)
        case.expect("advantages", got.advantages)
        case.expect("returns", got.returns)
        return
    later = (params["gamma"] * lam) ** case["subsequent_active_tokens"]
    case.expect("advantages", got.advantages * later[:, None])
    case.expect("returns", got.advantages * later[:, None] + values * mask)


@checks("miles", "get_reinforce_plus_plus_returns")
def returns_with_kl_discounted_on_observations(case: Case) -> None:
    last_token = turn_ends(torch.where(case.mask.bool(), 0, -1))
    rewards = last_token * case["rewards"][:, None] - case.params["kl_coef"] * case["kl"] * case.mask
    inside = torch.arange(rewards.shape[1]) < case["row_len"][:, None]
    case.expect("returns", returns_to_go(rewards, inside, gamma=case.params["gamma"]))


@checks("agentic_extras", "compute_reinforce_plus_plus_outcome_advantage")
def reinforce_plus_plus(case: Case) -> None:
    gamma = case.params["gamma"]
    case.expect("advantages", credit.reinforce_plus_plus(case["rewards"], case.mask, gamma=gamma))
    case.expect("returns", returns_to_go(case["rewards"], case.mask, gamma=gamma), case.mask)


@checks("verl_group_advantages", "compute_reinforce_plus_plus_outcome_advantage")
def reinforce_plus_plus_that_forgets_at_each_gap(case: Case) -> None:
    """There a return ends with its run of sampled tokens; so each run becomes a row."""
    gaps = (case.mask == 0).cumsum(1)
    runs = torch.cat([case.mask * (gaps == gap) for gap in range(int(gaps.max()) + 1)])
    rewards = case["rewards"].repeat(len(runs) // len(gaps), 1) * runs

    def rejoined(x: Tensor) -> Tensor:
        return x.reshape(-1, *gaps.shape).sum(0)

    gamma = case.params["gamma"]
    case.expect("advantages", rejoined(credit.reinforce_plus_plus(rewards, runs, gamma=gamma)))
    case.expect("returns", rejoined(returns_to_go(rewards, runs, gamma=gamma)), case.mask)


@checks("verl_group_advantages", "compute_reinforce_plus_plus_baseline_outcome_advantage")
def reinforce_plus_plus_with_group_baseline(case: Case) -> None:
    centred = group_normalise(case["rewards"].sum(1), case.fields["uid"], scale="none")
    case.expect("advantages", whiten(centred[:, None] * case.mask, case.mask))


@checks("verl_group_advantages", "compute_remax_outcome_advantage")
def remax(case: Case) -> None:
    returns = returns_to_go(case["rewards"], case.mask, gamma=1.0)
    case.expect("returns", returns, case.mask)
    case.expect("advantages", returns - case["reward_baselines"][:, None], case.mask)


@checks("verl_group_advantages", "compute_grpo_outcome_advantage", "compute_grpo_vectorized_outcome_advantage")
@checks("skyrl", "compute_grpo_outcome_advantage")
def grpo(case: Case) -> None:
    name = "rewards" if case.file.startswith("verl") else "token_level_rewards"
    scale: Scale = "std" if case.params.get("norm_adv_by_std_in_grpo", True) else "none"
    got = group_normalise(case[name].sum(1), case.fields["uid"], scale=scale, eps=case.params["epsilon"])
    case.expect("advantages", got[:, None] * case.mask)


@checks("verl_group_advantages", "compute_rloo_vectorized_outcome_advantage")
@checks("skyrl", "compute_rloo_outcome_advantage")
def rloo(case: Case) -> None:
    scores = case["rewards" if case.file.startswith("verl") else "token_level_rewards"].sum(1)
    case.expect("advantages", leave_one_out(scores, case.fields["uid"])[:, None] * case.mask)


@checks("verl_group_advantages", "compute_rloo_outcome_advantage")
def rloo_with_lonely_scores(case: Case) -> None:
    """There a group of one keeps its score, as if somebody else had scored 0; so we let somebody."""
    labels = case.fields["uid"]
    lonely = [label for label in labels if labels.count(label) == 1]
    scores = torch.cat([case["rewards"].sum(1), torch.zeros(len(lonely)).double()])
    got = leave_one_out(scores, labels + lonely)[: len(labels)]
    case.expect("advantages", got[:, None] * case.mask)


@checks("verl_group_advantages", "compute_gpg_outcome_advantage")
def gpg(case: Case) -> None:
    scores = case["rewards"].sum(1)
    factor = len(scores) / scores.count_nonzero() / case.params["f_norm"]
    got = factor * group_normalise(scores, case.fields["uid"], scale="none")
    case.expect("advantages", got[:, None] * case.mask)


@checks("agentic_extras", "compute_grpo_outcome_advantage")
def grpo_without_void_episodes(case: Case) -> None:
    kept = case["eos_mask"].sum(1) > 0
    labels = [label for label, keep in zip(case.fields["uid"], kept, strict=True) if keep]
    advantages = torch.zeros(len(kept), dtype=torch.float64)
    scores = case["token_level_rewards"].sum(1)[kept]
    advantages[kept] = group_normalise(scores, labels, scale="std", eps=case.params["epsilon"])
    case.expect("advantages", advantages[:, None] * case["eos_mask"])


@checks("trl", "GRPOTrainer._generate_and_score_completions (advantage block)")
def grpo_over_several_rewards(case: Case) -> None:
    rewards, weights = case["rewards_per_func"], case["reward_weights"]
    labels = [n // case.params["num_generations"] for n in range(len(rewards))]
    scale = case.params["scale_rewards"]
    if case.params["multi_objective_aggregation"] == "normalize_then_sum":
        each = [group_normalise(rewards[:, i], labels, scale="std", eps=1e-4) for i in range(rewards.shape[1])]
        total = (torch.stack(each, 1) * weights).sum(1)
        case.expect("advantages", (total - total.mean()) / (total.std() + 1e-4))
        return
    total = (rewards * weights).sum(1)
    if scale == "group":
        case.expect("advantages", group_normalise(total, labels, scale="std", eps=1e-4))
        return
    centred = group_normalise(total, labels, scale="none")
    case.expect("advantages", centred / (total.std() + 1e-4) if scale == "batch" else centred)


@checks("trl", "RLOOTrainer._generate_and_score_completions (advantage block)")
def rloo_of_contiguous_groups(case: Case) -> None:
    scores = case["rewards"]
    got = leave_one_out(scores, [n // case.params["num_generations"] for n in range(len(scores))])
    normalised = (got - got.mean()) / (got.std() + 1e-4)
    case.expect("advantages", normalised if case.params["normalize_advantages"] else got)


@checks("verl_masked_ops", "masked_whiten")
def whitening(case: Case) -> None:
    got, mask = whiten(case["values"], case["mask"]), case["mask"]
    mean = case["values"][mask.bool()].mean()
    case.expect("shift_mean_true", got, mask)
    case.expect("shift_mean_false", got + mean, mask)


@checks("areal", "masked_normalization")
def whitening_with_biased_variance(case: Case) -> None:
    n = case.mask.sum()
    case.expect("out", whiten(case["advantages"], case.mask) * (n / (n - 1)).sqrt(), case.mask)


@checks("turn_level", "compute_bi_level_gae_advantage_return")
def bilevel_gae(case: Case) -> None:
    params, mask = case.params, case.mask
    got = credit.bilevel_gae(
        case["rewards"],
        case["values"],
        mask,
        case.turns,
        gamma=params["gamma"],
        lam=params["lam"],
        high_gamma=params["high_level_gamma"],
    )
    case.expect("returns", got.returns, mask)
    case.expect("advantages_whitened", whiten(got.advantages, mask), mask)
    if "raw_advantages" in case.outputs:
        case.expect("raw_advantages", got.advantages, mask)


@checks("turn_level", "compute_turn_wise_gae_advantage_return")
def turn_gae_with_the_last_value(case: Case) -> None:
    turns, ends = case.turns, case["turn_last_mask"]
    rewards, values = to_turns(case["rewards"] * ends, turns), to_turns(case["values"] * ends, turns)
    gamma, lam = case.params["high_level_gamma"], case.params["lam"]
    got = turn_gae(rewards, values, played(turns), gamma=gamma, lam=lam)
    case.expect("advantages_whitened", to_tokens(whiten(got.advantages, played(turns)), turns), case.mask)
    case.expect("returns", to_tokens(got.returns, turns), ends)


@checks("turn_level", "compute_turn_gae_advantage_return")
def turn_gae_with_the_first_value(case: Case) -> None:
    """There an episode is paid once, with its last turn."""
    turns, starts = case.turns, case["turn_first_mask"]
    there = played(turns)
    rewards = turn_ends(torch.where(there.bool(), 0, -1)) * case["rewards"].sum(1, keepdim=True)
    values = to_turns(case["values"] * starts, turns)
    got = turn_gae(rewards, values, there, gamma=case.params["gamma"], lam=case.params["lam"])
    case.expect("advantages_whitened", to_tokens(whiten(got.advantages, there), turns))
    case.expect("returns", to_tokens(got.returns, turns) * starts)
    per_episode = denominators(starts, "seq-mean-token-mean") / len(starts)
    case.expect("turn_value_mask", starts / per_episode[:, None])


@checks("turn_level", "compute_gae_no_concat_advantage_return", "compute_gae_no_concat_advantage_return_firsttok")
def turn_gae_with_a_row_per_turn(case: Case) -> None:
    mask, episode, turn = case.mask, case["traj_idx"].long(), case["turn_idx"].long()
    edge = turn_starts if case.function.endswith("firsttok") else turn_ends
    read = edge(torch.where(mask.bool(), 0, -1))
    shape = (int(episode.max()) + 1, int(turn.max()) + 1)
    zeros = torch.zeros(shape, dtype=torch.float64)
    rewards = zeros.index_put((episode, turn), (case["token_level_scores"] * mask).sum(1))
    values = zeros.index_put((episode, turn), (case["values"] * read).sum(1))
    there = zeros.index_put((episode, turn), torch.ones(len(turn)).double())
    got = turn_gae(rewards, values, there, gamma=case.params["gamma"], lam=case.params["lam"])
    case.expect("advantages_whitened", whiten(got.advantages[episode, turn][:, None] * mask, mask), mask)
    case.expect("returns", got.returns[episode, turn][:, None] * mask, read)


@checks("turn_level", "PPO._compute_gae_returns")
def turn_gae_with_the_mean_value(case: Case) -> None:
    turns, there = case.turns, played(case.turns)
    values = to_turns(case["values"] * case["turn_last_mask"], turns)
    if case.params["turn_value_reduction"] == "mean":
        values = to_turns(case["values"] * case.mask, turns) / to_turns(case.mask, turns).clamp(min=1)
    rewards = case["turn_rewards"][:, : there.shape[1]] * there
    got = turn_gae(rewards, values, there, gamma=case.params["gamma"], lam=case.params["gae_lambda"])
    advantages = whiten(got.advantages, there) if case.params["whiten_advantages"] else got.advantages
    case.expect("advantages", to_tokens(advantages, turns))
    case.expect("returns", to_tokens(got.returns, turns))


def step_returns(case: Case, gamma: float) -> Tensor:
    """Return the discounted return of each step of GiGPO's batches, whose rows are steps in order."""
    labels = case.fields["traj_uid"]
    own = torch.tensor([[label == row for label in labels] for row in dict.fromkeys(labels)])
    rewards = torch.where(own, case["rewards"], 0.0)
    return returns_to_go(rewards, own, gamma=gamma).sum(0)


@checks("gigpo", "compute_step_discounted_returns")
def gigpo_step_returns(case: Case) -> None:
    case.expect("step_rewards", step_returns(case, case.params["gamma"]))


@checks("gigpo", "compute_gigpo_outcome_advantage")
def gigpo(case: Case) -> None:
    got = credit.gigpo(
        step_returns(case, case.params["gamma"]),
        case["token_level_rewards"].sum(1),
        case.fields["traj_uid"],
        case.fields["uid"],
        case.fields["anchor_obs"],
        weight=case.params["step_advantage_w"],
        scale="none" if case.params["mode"] == "mean_norm" else "std",
        eps=case.params["epsilon"],
    )
    case.expect("advantages", got[:, None] * case.mask)


@checks("gigpo", "episode_norm_reward", "compute_grpo_outcome_advantage")
def gigpo_episode_advantages(case: Case) -> None:
    """With a weight of 0 nothing is left of the steps."""
    params = case.params
    plain = params.get("remove_std", not params.get("norm_adv_by_std_in_grpo", True))
    got = credit.gigpo(
        torch.zeros(len(case.mask), dtype=torch.float64),
        case["token_level_rewards"].sum(1),
        case.fields["traj_uid"],
        case.fields["uid"],
        case.fields["anchor_obs"],
        weight=0.0,
        scale="none" if plain else "std",
        eps=params["epsilon"],
        vote="step" if params.get("compute_mean_std_cross_steps", False) else "episode",
    )
    case.expect("advantages", got[:, None] * case.mask)


@checks("closed_form", "compute_gae_advantage_return")
def closed_token_gae(case: Case) -> None:
    mask = case.mask
    got = gae(case["rewards"], case["values"], mask, gamma=case.params["gamma"], lam=case.params["lam"])
    case.expect("out", got.returns[mask.bool()])


@checks("closed_form", "compute_turn_gae_advantage_return")
def closed_turn_gae(case: Case) -> None:
    turns = case.turns
    rewards = torch.tensor([[0.0, float(case["rewards"].sum())]], dtype=torch.float64)
    values = to_turns(case["values"] * case.mask, turns)
    got = turn_gae(rewards, values, played(turns), gamma=case.params["gamma"], lam=case.params["lam"])
    case.expect("out", to_tokens(got.returns, turns))


@checks("closed_form", "compute_grpo_outcome_advantage", "compute_rloo_outcome_advantage")
def closed_group(case: Case) -> None:
    scores, labels = case["rewards"], ["a"] * 3
    if "rloo" in case.function:
        case.expect("out", leave_one_out(scores, labels)[:, None])
        return
    eps = case.params.get("epsilon", 1e-6)
    case.expect("out", group_normalise(scores, labels, scale="std" if case.id == "grpo" else "none", eps=eps)[:, None])


@checks("closed_form", "lambda_policy = 1 - 1/(alpha*l)")
def closed_lambda(case: Case) -> None:
    case.expect("out", credit.length_adaptive_lambda(to_tensor(case.params["l"]), case.params["alpha"]))
