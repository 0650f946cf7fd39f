"""Floor 1: what is measured, and how sure we are of it."""
