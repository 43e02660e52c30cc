from __future__ import annotations

import numpy as np
import pytest

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.bisection import Bisection, Grid
from orchestrator.search.registry import METHODS, make_searcher
from orchestrator.simulation.simulator import Cluster, simulate, stacks
from tests.conformance.searchers import PROBLEM, SIZES, drive, flat, mixed, step
from tests.simulation.study import table_world

RUNS = len(PROBLEM.mixes) * len(SIZES) * len(PROBLEM.seeds)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_one_worker_takes_one_run_after_another() -> None:
    trace = simulate(Grid(PROBLEM), flat(0.97), Cluster(), rng())
    assert trace.runs == RUNS
    assert trace.makespan == pytest.approx(RUNS)
    assert trace.busy == pytest.approx(1)
    assert trace.cost == pytest.approx(len(PROBLEM.seeds) * len(PROBLEM.mixes) * sum(SIZES))
    assert sum(trace.mix_cost(mix) for mix in PROBLEM.mixes) == pytest.approx(trace.cost)


def test_workers_divide_the_time_not_the_cost() -> None:
    one = simulate(Grid(PROBLEM), flat(0.97), Cluster(), rng())
    many = simulate(Grid(PROBLEM), flat(0.97), Cluster(workers=6), rng())
    assert many.makespan == pytest.approx(one.makespan / 6)
    assert many.cost == pytest.approx(one.cost)
    ends = sorted((stack.start, stack.end) for stack in many.stacks)
    assert all(sum(start <= moment < end for start, end in ends) <= 6 for moment in range(int(many.makespan)))


def test_a_stack_of_four_costs_1_6_runs() -> None:
    problem = Problem(("add",), (8, 16), (0, 1, 2, 3))
    trace = simulate(Grid(problem, stack=4), flat(0.97), Cluster(stack=4), rng())
    assert len(trace.stacks) == 2
    assert trace.cost == pytest.approx(1.6 * (8 + 16))


def test_stacks_group_by_size_in_order() -> None:
    wanted = [Request("a", 8, 0), Request("a", 16, 0), Request("b", 8, 0), Request("a", 8, 1)]
    assert stacks(wanted, 2) == [(wanted[0], wanted[2]), (wanted[3],), (wanted[1],)]
    assert stacks(wanted, 1) == [(wanted[0],), (wanted[2],), (wanted[3],), (wanted[1],)]


def test_runs_of_more_steps_are_stacks_of_their_own_and_take_as_much_longer() -> None:
    wanted = [Request("a", 8, 0), Request("a", 8, 0, 2), Request("b", 8, 0)]
    assert stacks(wanted, 2) == [(wanted[0], wanted[2]), (wanted[1],)]
    plain = simulate(Bisection(PROBLEM), step(40), Cluster(), rng())
    audited = simulate(Bisection(PROBLEM, budget_audit=True), step(40), Cluster(), rng())
    assert audited.makespan == pytest.approx(plain.makespan + 2 * len(PROBLEM.mixes))
    assert audited.cost == pytest.approx(plain.cost + 2 * 32 * len(PROBLEM.mixes))


def test_latency_stragglers_and_cost_as_duration() -> None:
    slow = simulate(Grid(PROBLEM), flat(0.97), Cluster(latency=0.5, stragglers=1.0, straggler_factor=3.0), rng())
    assert slow.makespan == pytest.approx(3.5 * RUNS)
    costly = simulate(Grid(PROBLEM), flat(0.97), Cluster(even=False), rng())
    assert costly.makespan == pytest.approx(costly.cost)


def test_failures_are_told_as_none() -> None:
    trace = simulate(Grid(PROBLEM), flat(0.97), Cluster(failures=0.3), rng())
    failed = sum(seen is None for seen in trace.results.values())
    assert 0 < failed < RUNS / 2


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_survives_a_rough_cluster(method: str) -> None:
    rough = Cluster(workers=5, stack=2, jitter=0.5, stragglers=0.2, failures=0.15, latency=0.1)
    first = simulate(make_searcher(method, PROBLEM, stack=2), mixed(3), rough, rng())
    again = simulate(make_searcher(method, PROBLEM, stack=2), mixed(3), rough, rng())
    assert first.results == again.results
    assert first.makespan == again.makespan


def test_the_same_runs_as_without_a_clock() -> None:
    trace = simulate(Bisection(PROBLEM), step(40), Cluster(workers=4, jitter=0.4), rng())
    assert dict(trace.results) == dict(drive(Bisection(PROBLEM), step(40)))


def test_a_table_replays_what_was_recorded_and_nothing_else() -> None:
    table = dict(drive(Grid(PROBLEM), mixed(5)))
    trace = simulate(Bisection(PROBLEM), table_world(table), Cluster(), rng())
    assert trace.results.items() <= table.items()
    missing: dict[Request, Observation | None] = {run: seen for run, seen in table.items() if run.size != SIZES[-1]}
    with pytest.raises(KeyError, match="no outcome is recorded"):
        simulate(Bisection(PROBLEM), table_world(missing), Cluster(), rng())
