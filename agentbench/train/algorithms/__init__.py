"""The algorithms: one frozen dataclass each, read from top to bottom."""

from agentbench.train.algorithms.grpo import GRPO
from agentbench.train.algorithms.ppo import TokenPPO
from agentbench.train.algorithms.rloo import RLOO
from agentbench.train.algorithms.sft import SFT
from agentbench.train.algorithms.turn_ppo import TurnPPO
from agentbench.train.batch import Algorithm

ALGORITHMS: dict[str, type[TurnPPO | TokenPPO | GRPO | RLOO | SFT]] = {
    cls.name: cls for cls in (TurnPPO, TokenPPO, GRPO, RLOO, SFT)
}
"""By the name that `--algorithm` takes."""

__all__ = ["ALGORITHMS", "GRPO", "RLOO", "SFT", "Algorithm", "TokenPPO", "TurnPPO"]
