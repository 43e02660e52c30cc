from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from orchestrator.search.audit import CONFIRMATIONS, STRETCH, audits, climb, next_step
from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.bayes import Bayes
from orchestrator.search.belief import Belief, Fantasy, view_of
from orchestrator.search.results import CostModel, cost_model, points
from orchestrator.simulation import simulate
from orchestrator.transition.curves import Evidence, curves_for
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Estimate, Point, Verdict
from tests.conformance.searchers import drive, flat, mixed, step
from trainables.contract.settings import SettingsError

FINE = tuple(int(size) for size in np.unique(np.geomspace(8, 256, 46).round().astype(int)))
ONE = Problem(("add",), FINE, tuple(range(6)))


def belief(runs: list[tuple[int, float]]) -> Belief:
    curves = curves_for(FINE, 0.2)
    seen = [Point(size, seed, accuracy, 0.2) for seed, (size, accuracy) in enumerate(runs)]
    return Belief(curves, Evidence.none(curves).plus(seen).total, FINE)


@pytest.mark.parametrize("at", [12, 40, 120])
def test_finds_a_step_cheaply_and_narrowly(at: int) -> None:
    searcher = Bayes(ONE, worth=0.02)
    results = drive(searcher, step(at))
    found = transition(points(results, "add"), FINE)
    assert found.verdict is Verdict.FOUND
    estimate = found.relative
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < at <= estimate.high
    assert abs(math.log(estimate.value / at)) < 0.2
    assert math.log(estimate.high / estimate.low) <= 0.5
    assert len(results) <= 20


def test_declares_what_never_learns_after_two_runs_at_the_largest_size() -> None:
    searcher = Bayes(ONE)
    results = drive(searcher, flat(0.2))
    assert sum(request.size == FINE[-1] for request in results) >= 2
    assert len(results) <= 8
    (progress,) = searcher.progress()
    assert "above 256" in progress.note
    assert transition(points(results, "add"), FINE).verdict is Verdict.ABOVE
    tried = sorted({request.size for request in results})
    assert all(high <= STRETCH * low for low, high in pairwise(tried))


def test_the_way_to_the_largest_size_is_taken_in_steps() -> None:
    assert next_step(FINE, [55], above=0.5) == 87
    assert next_step(FINE, [55, 87], above=0.5) is None
    assert next_step(FINE, [55], above=0.3) is None
    assert next_step(FINE, [], above=0.9) is None
    assert 256 not in {request.size for request in drive(Bayes(ONE), step(80))}


@pytest.mark.parametrize("at", [12, 40, 120])
def test_no_interval_is_left_open_to_save_a_run(at: int) -> None:
    results = drive(Bayes(ONE, worth=10.0), step(at))
    assert transition(points(results, "add"), FINE).verdict is Verdict.FOUND
    assert len(results) <= 13


def test_nothing_is_learned_about_how_far_above_the_sizes_a_transition_lies() -> None:
    """Two of five runs learn at the largest size: luck, or the foot of a curve beyond it. Small sizes could tell, but
    the answer is "above" either way."""
    failed = [(size, 0.2) for size in (FINE[0], 32, 64, 128, FINE[-1], FINE[-1], FINE[-1])]
    gains = belief([*failed, (FINE[-1], 0.97), (FINE[-1], 0.97)]).gains((), 1)
    assert gains[0] < 0.1 * gains[-1]


def test_an_interval_wider_than_what_is_believed_is_closed_in_between() -> None:
    """Runs as real sweeps make them: what is believed ends under 20, the smallest size that learned. The next one, 12,
    is not sure enough to learn."""
    problem = Problem(("add",), (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32), (0, 1, 2, 3, 4))
    seen = [(4, 2, 0.2), (4, 3, 0.26), (5, 4, 0.17), (7, 3, 0.48), (8, 0, 0.2), (8, 1, 0.86), (8, 2, 0.45)]
    searcher = Bayes(problem, worth=10.0)
    for size, seed, accuracy in [*seen, (10, 0, 0.57), (10, 1, 0.88), (20, 0, 1.0), (20, 1, 1.0)]:
        searcher.tell(Request("add", size, seed), Observation(accuracy, 0.2, 1.0))
    (asked,) = searcher.ask(1)
    assert asked.size == 14
    assert "closing it at size 14" in searcher.progress()[0].note


def test_finds_what_is_learned_between_sizes_that_fail() -> None:
    def world(request: Request) -> Observation:
        # As wide a range as is never left unlooked at.
        return Observation(0.97 if 80 <= request.size <= 80 * STRETCH else 0.2, 0.2, 1.0)

    searcher = Bayes(ONE)
    for size in (28, 60, FINE[-1], FINE[-1]):
        searcher.tell(Request("add", size, 5 + len(searcher.results)), world(Request("add", size, 5)))
    results = drive(searcher, world)
    assert any(seen is not None and seen.accuracy > 0.9 for seen in results.values())
    assert "above 256" not in searcher.progress()[0].note


def test_declares_what_every_size_learns() -> None:
    searcher = Bayes(ONE)
    results = drive(searcher, flat(0.97))
    assert sum(request.size == FINE[0] for request in results) >= 2
    assert transition(points(results, "add"), FINE).verdict is Verdict.BELOW


def test_flags_a_task_that_is_lost_again_at_larger_sizes() -> None:
    def world(request: Request) -> Observation:
        good = 30 <= request.size < 50
        return Observation(0.97 if good else 0.2, 0.2, 1.0)

    searcher = Bayes(ONE, audit=0.5)
    # What a search would see that came down from a size where the task is learned.
    for size in (40, 44, 20, 28):
        searcher.tell(Request("add", size, 5), world(Request("add", size, 5)))
    results = drive(searcher, world)
    assert any(request.size >= 50 for request in results)
    (progress,) = searcher.progress()
    assert "non-monotone" in progress.note or "above" in progress.note


def test_a_plateau_is_told_from_lucky_seeds() -> None:
    """One run at 24 was lucky: it is asked for a second opinion, and no size is learned."""

    def world(request: Request) -> Observation:
        lucky = (request.size, request.seed) == (24, 0)
        return Observation(1.0 if lucky else 0.2, 0.2, 1.0)

    searcher = Bayes(ONE)
    for size in (24, 256):
        searcher.tell(Request("add", size, 0), world(Request("add", size, 0)))
    results = drive(searcher, world)
    assert sum(request.size == 24 for request in results) >= 2
    found = transition(points(results, "add"), FINE)
    assert found.verdict in (Verdict.PLATEAU, Verdict.ABOVE)
    assert found.relative == Estimate(None, 256.0, None)


def ask_one(searcher: Bayes) -> list[Request]:
    """The next run, which learns."""
    asked = searcher.ask(1)
    for request in asked:
        searcher.tell(request, Observation(0.95, 0.2, 1.0))
    return asked


def test_a_transition_rests_on_runs_that_a_comparison_may_count() -> None:
    problem = Problem(("add",), (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96), (0, 1, 2, 3, 4))
    seen = {(10, 0): 0.2, (14, 1): 0.23, (16, 2): 0.3, (16, 3): 0.33, (20, 4): 0.45, (20, 0): 0.5, (24, 1): 0.95}
    searcher = Bayes(problem, audit=0.0, worth=10.0)
    for (size, seed), accuracy in seen.items():
        searcher.tell(Request("add", size, seed), Observation(accuracy, 0.2, 1.0))
    asked = [request for _ in range(3) for request in ask_one(searcher)]
    # Four runs above that a comparison may count; below there are six.
    assert {request.size for request in asked} <= {24, 32}
    assert searcher.done


@pytest.mark.parametrize("level", [0.6, 0.75, 0.84])
def test_what_levels_off_low_is_seen_to_before_it_passes_for_learned(level: float) -> None:
    searcher = Bayes(ONE)
    results = drive(searcher, lambda run: Observation(level if run.size >= 30 else 0.2, 0.2, 1.0))
    assert sum(run.size == FINE[-1] for run in results) == CONFIRMATIONS
    assert "levels off" in searcher.progress()[0].note
    assert transition(points(results, "add"), FINE).verdict is Verdict.PLATEAU


def test_the_climb_ends_where_a_larger_size_is_learned_well() -> None:
    sizes = (8, 16, 24, 32, 64, 128)
    low = [Point(8, 0, 0.2, 0.2), Point(16, 0, 0.85, 0.2)]
    assert climb(low, sizes) == ((32, 1),)
    assert climb([*low, Point(32, 0, 0.97, 0.2)], sizes) == ()
    assert climb([*low, Point(32, 0, 0.85, 0.2)], sizes) == ((64, 1),)
    assert climb([*low, Point(128, 0, 0.85, 0.2)], sizes) == ((64, CONFIRMATIONS), (128, CONFIRMATIONS))
    assert climb(low, (8, 16, 128)) == ((128, 1),)


@pytest.mark.parametrize("slope", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("midpoint", [14.0, 18.0, 22.0, 26.0])
def test_a_curve_that_still_rises_at_the_largest_size_is_no_plateau(slope: float, midpoint: float) -> None:
    problem = Problem(("mix",), (6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28), (0, 1, 2, 3, 4))

    def world(request: Request) -> Observation:
        noise = float(np.random.default_rng([request.size, request.seed]).normal(0, 0.03))
        learned = 1 / (1 + (midpoint / request.size) ** slope)
        return Observation(min(max(0.1 + 0.87 * learned + noise, 0.0), 1.0), 0.1, request.size**1.75)

    seen = points(simulate(Bayes(problem), world, workers=2).results, "mix")
    assert transition(seen, problem.sizes).verdict is not Verdict.PLATEAU


def test_neighbouring_sizes_are_tried_with_different_seeds() -> None:
    """Runs that share a seed share their data: a lucky draw of it would look like a learning curve."""
    results = drive(Bayes(ONE), step(40))
    spent = Counter(request.seed for request in results)
    assert max(spent.values()) - min(spent[seed] for seed in ONE.seeds) <= 2


def test_a_higher_precision_takes_more_runs() -> None:
    coarse, fine = Bayes(ONE, precision=0.8, audit=0), Bayes(ONE, precision=0.2, audit=0, worth=0)
    world = mixed(1)
    assert len(drive(coarse, world)) < len(drive(fine, world))


def test_budgets_end_a_mix() -> None:
    hard = mixed(4)
    by_runs = Bayes(ONE, max_runs=5, worth=0)
    assert len(drive(by_runs, hard)) == 5
    assert "not converged after 5 runs" in by_runs.progress()[0].note
    by_cost = Bayes(ONE, max_cost=300.0, worth=0)
    results = drive(by_cost, hard)
    spent = [seen.cost for seen in results.values() if seen is not None]
    assert sum(spent[:-1]) < 300


def test_runs_in_training_count_towards_the_cost_of_a_mix() -> None:
    searcher = Bayes(ONE, max_cost=300.0, worth=0, gate=0.0)
    for request in searcher.ask(2):
        searcher.tell(request, Observation(0.5, 0.2, 100.0))
    assert len(searcher.ask(8)) == 1  # 200 spent, and one more is expected to come to 300.
    assert searcher.ask(8) == []
    assert not searcher.done


@pytest.mark.parametrize("exponent", [0.0, 2.0])
def test_a_mix_that_learns_by_luck_goes_on_within_its_cost(exponent: float) -> None:
    # Real runs of one recipe: so much luck that most of the belief is in curves that rise nowhere.
    lucky = {28: (0.99, 0.99), 18: (1.0,), 14: (0.15,), 13: (0.12,), 11: (0.92,), 10: (0.25,), 8: (0.91,), 6: (0.36,)}
    problem = Problem(("add",), (6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28), tuple(range(5)))
    searcher = Bayes(problem, max_cost=1e6, precision=0.05)
    seen = {
        Request("add", size, seed): Observation(accuracy, 0.2, 30.0 * (size / 28) ** exponent)
        for size, accuracies in lucky.items()
        for seed, accuracy in enumerate(accuracies)
    }
    for request, observation in seen.items():
        searcher.tell(request, observation)
    assert view_of(problem, list(seen.items()), "add", None).belief.median == math.inf
    assert not searcher.done
    assert searcher.ask(1)


def test_a_budget_of_nothing_left_to_learn_ends_a_mix() -> None:
    greedy, frugal = Bayes(ONE, worth=0), Bayes(ONE, worth=0.3)
    world = mixed(4)
    assert len(drive(frugal, world)) < len(drive(greedy, world))


def test_stacks_ask_for_seeds_of_one_size() -> None:
    searcher = Bayes(ONE, stack=4)
    largest = 0
    while not searcher.done:
        wanted = searcher.ask(4)
        assert len({request.size for request in wanted}) <= 1
        largest = max(largest, len(wanted))
        for request in wanted:
            searcher.tell(request, mixed(4)(request))
    assert 1 < largest <= 4
    two = Bayes(ONE, stack=4).ask(8)
    assert len(two) <= 8
    assert len({request.size for request in two}) <= 2


def test_the_gate_lends_workers_to_other_mixes() -> None:
    gated = Bayes(Problem(("add",), FINE, (0, 1)), gate=0.9).ask(8)
    open_gate = Bayes(Problem(("add",), FINE, (0, 1)), gate=0.0).ask(8)
    assert len(gated) < len(open_gate) == 8
    both = Bayes(Problem(("add", "add+prod"), FINE, (0, 1)), gate=0.9).ask(2)
    assert {request.mix for request in both} == {"add", "add+prod"}


def test_a_mix_alone_starts_more_runs_at_a_time_where_they_are_cheap() -> None:
    def asked(exponent: float) -> list[Request]:
        searcher = Bayes(ONE)
        for size in (22, 55, 256):
            searcher.tell(Request("add", size, 0), Observation(0.97, 0.2, size**exponent))
        return searcher.ask(8)

    assert {request.size for request in asked(1.75)} < {size for size in FINE if size < 22}
    assert len(asked(0.0)) < len(asked(1.75)) <= 8


def test_mixes_look_where_the_others_learned_where_they_may() -> None:
    known = belief([(8, 0.2), (16, 0.2), (20, 0.2), (24, 0.97), (24, 0.96), (32, 0.97), (64, 0.97)])
    fresh = belief([(16, 0.2)])
    leaning = fresh.leaning([known])
    place = next(place for place, size in enumerate(FINE) if size >= 40)
    assert leaning.predicted[place] > 0.1 + fresh.predicted[place]
    assert (leaning.low, leaning.median, leaning.high) == (fresh.low, fresh.median, fresh.high)
    assert fresh.leaning([]) is fresh


def test_a_shared_prior_changes_what_is_run_and_not_what_is_said() -> None:
    """The first mix is found at 24, the second has failed at 16."""
    problem = Problem(("add", "add+prod"), FINE, (0, 1, 2))
    alone, sharing = Bayes(problem, gate=0.0), Bayes(problem, gate=0.0, share=True)
    for searcher in (alone, sharing):
        for size in (8, 16, 20, 24, 26, 32, 64):
            searcher.tell(Request("add", size, 0), Observation(0.97 if size >= 24 else 0.2, 0.2, 1.0))
        searcher.tell(Request("add+prod", 16, 0), Observation(0.2, 0.2, 1.0))
    assert alone.progress() == sharing.progress()
    asked = [{run for run in searcher.ask(6) if run.mix == "add+prod"} for searcher in (alone, sharing)]
    assert asked[0] != asked[1]
    assert min(run.size for run in asked[1]) > 16


def test_pending_runs_are_spread_over_sizes() -> None:
    wanted = Bayes(ONE, gate=0.0).ask(6)
    assert len({request.size for request in wanted}) >= 3


def test_cheaper_sizes_are_preferred_once_costs_are_known() -> None:
    """The same evidence at two costs: where cost rises steeply with size the next run is a smaller one."""

    def next_size(exponent: float) -> int:
        searcher = Bayes(ONE)
        for size, accuracy in ((256, 0.97), (8, 0.2)):
            searcher.tell(Request("add", size, 0), Observation(accuracy, 0.2, float(size) ** exponent))
        return searcher.ask(1)[0].size

    assert next_size(2.5) < next_size(0.0)


def test_information_is_positive_and_falls_where_runs_are_pending() -> None:
    known = belief([(8, 0.2), (128, 0.97)])
    alone, twice = known.gains((), 1), known.gains((), 2)
    assert (alone >= -1e-12).all()
    assert (twice >= alone - 1e-12).all()
    assert (twice <= 2 * alone + 1e-9).all()
    best = int(np.argmax(alone))
    assert known.gains((Fantasy(FINE[best], 2),), 1)[best] < alone[best]


def test_information_vanishes_where_the_outcome_is_known() -> None:
    known = belief([(FINE[20], 0.2)] * 6 + [(FINE[24], 0.97)] * 6)
    gains = known.gains((), 1)
    assert gains[0] < 0.1 * gains.max()
    assert FINE[15] <= FINE[int(np.argmax(gains))] <= FINE[30]


def test_costs_are_learned_as_a_power_law() -> None:
    results = {Request("add", size, 0): Observation(0.5, 0.2, 3.0 * size**1.3) for size in (8, 32, 64)}
    model = cost_model(results)
    assert model.exponent == pytest.approx(1.3)
    assert model.cost(100) == pytest.approx(3.0 * 100**1.3)
    unknown = cost_model({Request("add", 8, 0): Observation(0.5, 0.2), Request("add", 16, 0): None})
    assert unknown.cost(8) == unknown.cost(256)


def test_audits_stay_within_their_share() -> None:
    runs = [Point(size, 0, 0.2 if size < 20 else 0.97, 0.2) for size in (14, 16, 18, 19, 20, 21, 22, 24)]
    learned = {point.size: point.accuracy > 0.5 for point in runs}
    flat_cost, steep = CostModel(1.0, 0.0), CostModel(1.0, 1.75)
    full = audits(runs, learned, FINE, 20.0, flat_cost, 0.3)
    assert [size for size, _ in full] == [40 if 40 in FINE else 41, 256] or len(full) == 2
    assert full[-1] == (256, 1)
    near = audits(runs, learned, FINE, 20.0, steep, 0.6)
    assert sum(steep.cost(size) for size, _ in near) <= 0.6 * sum(steep.cost(point.size) for point in runs)
    assert audits(runs, learned, FINE, 20.0, flat_cost, 0.0) == ()


def test_a_size_almost_as_large_serves_as_an_audit() -> None:
    runs = [Point(size, 0, 0.2 if size < 20 else 0.97, 0.2) for size in (14, 16, 18, 20, 22)]
    for done, wanted in ((30, [40, 256]), (35, [256])):
        tested = [*runs, Point(done, 0, 0.97, 0.2)]
        learned = {point.size: point.accuracy > 0.5 for point in tested}
        assert [size for size, _ in audits(tested, learned, FINE, 20.0, CostModel(1.0, 0.0), 0.5)] == wanted


def test_a_failed_audit_is_run_once_more() -> None:
    runs = [Point(size, 0, 0.2 if size < 20 else 0.97, 0.2) for size in (14, 16, 18, 20, 22)]
    runs.append(Point(256, 0, 0.2, 0.2))
    learned = {point.size: point.accuracy > 0.5 for point in runs}
    assert (256, 2) in audits(runs, learned, FINE, 20.0, CostModel(1.0, 0.0), 0.5)


@pytest.mark.parametrize(
    "setting", [{"precision": 0.0}, {"max_runs": 0}, {"stack": 0}, {"gate": 2.0}, {"thrift": -1.0}, {"audit": -0.1}]
)
def test_impossible_settings_are_refused(setting: dict[str, float]) -> None:
    name = next(iter(setting))
    with pytest.raises(SettingsError, match=rf"search\.{name} is .*must lie between"):
        Bayes(ONE, **setting)


@pytest.mark.parametrize("at", [40, 1000])
def test_the_budget_is_audited_once_below_the_transition_or_at_the_largest_size(at: int) -> None:
    searcher = Bayes(ONE, budget_audit=True)
    results = drive(searcher, step(at))
    (longer,) = [run for run in results if run.steps_factor > 1]
    tested = [run.size for run in results if run.steps_factor == 1 and run.size < at]
    assert longer == Request("add", max(tested), longer.seed, 2)
    assert results[Request("add", longer.size, longer.seed)] is not None


def test_a_run_of_twice_the_steps_does_not_count_in_what_a_size_costs() -> None:
    results = {Request("add", 8, 0): Observation(0.5, 0.2, 3.0), Request("add", 8, 0, 2): Observation(0.5, 0.2, 6.0)}
    assert cost_model(results).cost(8) == pytest.approx(3.0)
