"""Floor 0: the contract of environments and policies, and the records of what they did."""
