"""Floor 4: training. Credit, losses, algorithms, and the loop around them."""
