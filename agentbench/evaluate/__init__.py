"""Floor 3: evaluation, and what can be said afterwards about what was recorded."""
