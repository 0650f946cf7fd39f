"""The statistics of evaluation, by name. The task is the unit: trials of one task are not independent.

    what you have                             what to call                    where it is
    success or reward per task                mean_interval, success_interval intervals.py
    n attempts at each task                   pass_at_k, pass_hat_k           intervals.py
    two policies on the same tasks            paired, non_inferior            pairs.py
    several such comparisons                  holm                            pairs.py
    a median, an IQM, tokens per success      bootstrap(median | iqm | ratio) bootstrap.py
    several training runs of an algorithm     over_seeds, ...                 seeds.py
    a question before the compute is spent    detectable, tasks_needed, ...   sizes.py

What these intervals cover and how often these tests cry wolf was measured: docs/notes/what-the-intervals-cover.md.
"""

from agentbench.metrics.bootstrap import Covered, bootstrap, iqm, median, ratio, simulated_coverage, with_coverage
from agentbench.metrics.intervals import (
    Estimate,
    clustered_error,
    mean_interval,
    over_tasks,
    pass_at_k,
    pass_hat_k,
    success_interval,
    wilson,
)
from agentbench.metrics.pairs import NonInferior, Paired, holm, mcnemar, non_inferior, paired, sign_flip
from agentbench.metrics.seeds import ENOUGH_SEEDS, optimality_gap, over_seeds, probability_of_improvement
from agentbench.metrics.sizes import (
    Components,
    components,
    detectable,
    fewest_tasks,
    power_of,
    tasks_needed,
    tasks_to_trust,
    unseen,
)

__all__ = [
    "ENOUGH_SEEDS",
    "Components",
    "Covered",
    "Estimate",
    "NonInferior",
    "Paired",
    "bootstrap",
    "clustered_error",
    "components",
    "detectable",
    "fewest_tasks",
    "holm",
    "iqm",
    "mcnemar",
    "mean_interval",
    "median",
    "non_inferior",
    "optimality_gap",
    "over_seeds",
    "over_tasks",
    "paired",
    "pass_at_k",
    "pass_hat_k",
    "power_of",
    "probability_of_improvement",
    "ratio",
    "sign_flip",
    "simulated_coverage",
    "success_interval",
    "tasks_needed",
    "tasks_to_trust",
    "unseen",
    "wilson",
    "with_coverage",
]
