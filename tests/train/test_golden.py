"""Our functions give the numbers of published implementations: every recorded case is checked, or listed as left out.

Where a source differs by a quirk, the check says it with our functions and other inputs (a row per turn, observations
as actions); the number is then reproduced without reproducing the quirk.
"""

from collections import Counter
from fnmatch import fnmatchcase

import pytest

from tests.train import golden_credit, golden_losses, golden_terms
from tests.train.golden import CHECKS, Case, load_cases

assert golden_credit and golden_losses and golden_terms  # importing them registers their checks

TOTAL = 976

LEFT_OUT = {
    # Estimators that are not delivered.
    "verl_optimal_token_baseline/*": "the optimal token baseline is not delivered",
    "verl_group_advantages/*-opo": "OPO's length-weighted baseline is not delivered",
    "verl_group_advantages/*-grpo_passk-*": "pass@k advantages are not delivered",
    "skyrl/*-maxrl-*": "MaxRL's division by the mean is not delivered",
    # Policy losses that are not a clipped ratio.
    "verl_policy_losses/*-cispo": "CISPO is not delivered",
    "verl_policy_losses/*-gpg": "GPG's loss without a ratio is not delivered",
    "verl_policy_losses/*-geo_mean": "GMPO is not delivered",
    "verl_policy_losses/*-sapo": "SAPO is not delivered",
    "verl_policy_losses/*-kl_cov": "KL-Cov is not delivered",
    "verl_policy_losses/*-clip_cov-*": "Clip-Cov is not delivered",
    "verl_policy_losses/*-reinforce-is": "REINFORCE's loss without a ratio is not delivered",
    "skyrl/*-rollout_is-*": "the hard-zero importance loss (DIS) is not delivered",
    "skyrl/*-dppo-*": "DPPO is not delivered",
    "skyrl/*-cispo": "CISPO is not delivered",
    "skyrl/*-sapo": "SAPO is not delivered",
    "trl/*-grpo-cispo-*": "CISPO is not delivered",
    "trl/*-grpo-sapo-*": "SAPO is not delivered",
    "trl/*-grpo-vespo-*": "VESPO is not delivered",
    "trl/*-grpo-luspo-token-*": "averages over observations and padding; the sequence form without KL is checked",
    "trl/*-grpo-luspo-sequence-beta0.04-*": "its KL term averages over observations and padding",
    "areal/*-critic-huber": "a Huber loss for the critic is not delivered",
    # Rejection of samples, and controllers: policies of a trainer, not terms of a loss.
    "verl_rollout_correction/b0-rs-*": "rejection masks are not delivered; a mask or a weight of 0 drops a sample",
    "verl_rollout_correction/b0-offpolicy-metrics": "a set of metrics that is not delivered",
    "skyrl/*-offpolicy-geo-mask": "rejection masks are not delivered",
    "skyrl/*-offpolicy-prod-mask": "rejection masks are not delivered",
    "skyrl/*-offpolicy-outlier": "rejection masks are not delivered",
    "skyrl/*-offpolicy-token-mask": "rejection masks are not delivered",
    "miles/*-opsm-*": "the off-policy sequence mask is not delivered",
    "trl/*-opsm-*": "the off-policy sequence mask is not delivered",
    "verl_kl/adaptive-controller": "the KL coefficient is adapted by the loop",
    "areal/staleness-*": "the capacity for stale samples is the loop's",
    # Rewards, schedules, grouping.
    "areal/overlong": "shaping of rewards is not part of training",
    "agentic_extras/meowtea-*": "placing of rewards is not part of training",
    "agentic_extras/scalinginter-*": "curricula are not delivered",
    "agentic_extras/epo-*": "EPO's entropy penalty is a constant to autograd, which trains nothing",
    "gigpo/*-groups": "labels of states are given to gigpo; its own grouping is checked with its advantages",
    "gigpo/*-groups-similar": "grouping of states by similarity of text is not delivered",
    # Primitives that torch has, or that are nobody's result.
    "verl_masked_ops/*-masked_var": "no function returns a variance; whitening is checked",
    "verl_masked_ops/*-clip_by_value": "torch has it",
    "verl_masked_ops/*-logprobs_from_logits_*": "torch has it",
}
"""Pattern of file and case, and why it is not checked."""


def left_out(case: Case) -> bool:
    return any(fnmatchcase(case.key, pattern) for pattern in LEFT_OUT)


CHECKED = [case for case in load_cases() if not left_out(case)]


@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case.key)
def test_our_functions_give_the_recorded_numbers(case: Case) -> None:
    CHECKS[case.file, case.function](case)
    assert case.compared
    grads = {name.removeprefix("grads.") for name in case.compared if name.startswith("grads.")}
    assert grads == set(case.grads), "every recorded gradient is compared"


def test_every_recorded_case_is_checked_or_listed_as_left_out() -> None:
    assert len(load_cases()) == TOTAL
    unknown = [case.key for case in CHECKED if (case.file, case.function) not in CHECKS]
    assert not unknown


def test_no_case_is_listed_twice_and_no_line_of_the_list_is_idle() -> None:
    hits = Counter(pattern for case in load_cases() for pattern in LEFT_OUT if fnmatchcase(case.key, pattern))
    assert set(hits) == set(LEFT_OUT)
    assert sum(hits.values()) == TOTAL - len(CHECKED)
