"""Floor 2: episodes. A policy meets an environment, one at a time or many at once."""
