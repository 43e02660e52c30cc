"""Pairs decide sooner in small stacks than in stacks of all seeds."""

from __future__ import annotations

import numpy as np

from tests.bench.stacks import play, read, sizings


def test_the_rule_decides_sooner_and_more_often_than_all_seeds_at_once() -> None:
    problem, costs, most_runs = read("paper")
    rules = sizings(costs)
    decided_s = {
        name: [play(problem, costs, most_runs, rules[name], 3.6, key).decided_s for key in range(12)]
        for name in ("rule", "48 runs")
    }
    rule, all_seeds = ([second for second in seconds if second is not None] for seconds in decided_s.values())
    assert len(rule) > len(all_seeds)
    assert np.median(rule) < 0.75 * np.median(all_seeds)
