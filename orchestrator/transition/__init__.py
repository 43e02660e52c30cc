"""Statistics: evidence from pairs (e-values), and estimates of transitions from curves and their prior."""
