"""What an episode may use before the harness ends it. Reaching a limit is an outcome of the agent, and scored."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one episode; None is no limit."""

    max_turns: int
    max_tokens: int | None = None
    """Tokens that the policy may sample over the whole episode; the last reply is cut to what is left."""
    max_invalid: int | None = None
    """Invalid actions in a row (malformed or illegal) after which the episode ends."""
    max_seconds: float | None = None
    """Wall time. Running out while the policy thinks ends the episode; while the environment works, it is a failure."""
