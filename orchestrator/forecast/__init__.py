"""What a sweep will cost and decide, from simulated searches."""
