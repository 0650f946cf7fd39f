"""The critic: a linear head on the policy's own last hidden state, and how far it can be trusted.

V(s) is read from the hidden state *before* a token, so that at the first token of a turn it has seen the observation
and nothing of the reply: a baseline that does not depend on the action (Turn-PPO, arXiv 2512.17008, section on the
turn-level MDP). Public implementations disagree: iOPEN reads it there too, VAGEN at the turn's last token, AgileRL
takes the mean of the turn's values or the last one; `TurnPPO.value_at` chooses.

Who has a vote in the critic's error differs as well. Here each turn has one (each token, in token-PPO), so that long
episodes count more; iOPEN gives each of an episode's N turns 1/N, one vote per episode, which is `value_loss` with
`aggregate="seq-mean-token-mean"` on a mask of first tokens.
"""

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """Maps hidden states [..., width] to values [...]. Starts at zero: a critic that knows nothing says nothing.

    Args:
        width: Size of a hidden state.
        device: Where the policy's weights are.
    """

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.linear = nn.Linear(width, 1, device=device, dtype=torch.float32)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return one value per hidden state, in float32 even where everything around it computes in bfloat16."""
        with torch.autocast(hidden.device.type, enabled=False):
            values: Tensor = self.linear(hidden.float())[..., 0]
        return values


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """Return 1 - Var(returns - values) / Var(returns): 1 is a perfect critic, 0 a constant one, less is worse.

    Args:
        values: What the critic said, any shape.
        returns: What came, the same shape.

    Returns:
        The share, or nan where the returns do not vary.
    """
    spread = returns.double().var(unbiased=False)
    if returns.numel() == 0 or spread < 1e-12:
        return float("nan")
    return float(1.0 - (returns.double() - values.double()).var(unbiased=False) / spread)
