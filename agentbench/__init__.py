"""AgentBench: evaluate and train language-model agents over many turns.

    import agentbench

    env = agentbench.make("sokoban/6x6-1", split="test")
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("up")

Importing this package prints nothing, seeds nothing, makes no folder and loads no heavy library. It does tell
gymnasium about every environment, so that `gymnasium.make("agentbench/Sokoban-v0")` works.
"""

from agentbench.core.env import Env, Step
from agentbench.core.registry import environments, make, mirror_into_gymnasium

__version__ = "0.1.0"
__all__ = ["Env", "Step", "__version__", "environments", "make"]

mirror_into_gymnasium()
