"""Jobs, plans, stacks and the resources of runs."""
