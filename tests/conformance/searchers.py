"""What every searcher must do, whatever its strategy. Subclass :class:`SearcherConformance` and give it ``make``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from orchestrator.search.base import BY_HAND, Observation, Problem, Request, Results, Searcher
from tests.simulation.truths import Truth, TruthKind, draw

Make = Callable[[Problem], Searcher]
World = Callable[[Request], Observation | None]

SIZES = (8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
PROBLEM = Problem(("add", "add+prod"), SIZES, (0, 1, 2), (("add+prod", "add"),))


def flat(accuracy: float) -> World:
    """A world in which every run ends with the same accuracy."""
    return lambda request: Observation(accuracy, 0.2, float(request.size))


def step(at: int) -> World:
    """A world in which exactly the sizes from ``at`` on learn, whatever the seed."""
    return lambda request: Observation(0.97 if request.size >= at else 0.2, 0.2, float(request.size))


def mixed(seed: int = 0) -> World:
    """A noisy world with another transition for each mix."""
    rng = np.random.default_rng(seed)
    truths: dict[str, Truth] = {
        mix: draw(TruthKind.MATCHED, PROBLEM, rng, key) for key, mix in enumerate(PROBLEM.mixes)
    }
    return lambda request: truths[request.mix].run(request.size, request.seed, 1.0)


def coin(seed: int) -> World:
    """A world in which whether a run learns is luck, whatever its size."""

    def outcome(request: Request) -> Observation:
        place = (seed, len(request.mix), request.size, request.seed)
        learned = np.random.default_rng(place).random() < 0.5
        return Observation(0.97 if learned else 0.2, 0.2, float(request.size))

    return outcome


def failing(world: World, every: int) -> World:
    """The same world in which a share of the runs fails, always the same ones."""

    def outcome(request: Request) -> Observation | None:
        broken = (request.size * 7 + request.seed * 3 + len(request.mix)) % every == 0
        return None if broken else world(request)

    return outcome


def drive(searcher: Searcher, world: World, workers: int = 1, order: int | None = None, stop: int = 10**6) -> Results:
    """Run a searcher until it is done (or ``stop`` runs have ended), results coming in a random ``order``.

    Checks on the way what must always hold: requests within the problem, none twice, never more than asked for but for
    the second run of a pair, never stuck.
    """
    rng = np.random.default_rng(order)
    everything = {
        Request(mix, size, seed)
        for mix in searcher.problem.mixes
        for size in searcher.problem.sizes
        for seed in searcher.problem.seeds
    }
    asked: set[Request] = set(searcher.results)
    while len(searcher.results) < stop:
        free = workers - len(searcher.pending)
        wanted = searcher.ask(free)
        assert len(wanted) <= max(free, 0) + (free > 0 and bool(searcher.blocks))
        assert len(set(wanted)) == len(wanted)
        assert not asked & set(wanted), "asked for a run twice"
        assert set(wanted) <= everything, "asked for a run outside the problem"
        asked |= set(wanted)
        pending = searcher.pending
        assert set(wanted) <= set(pending)
        if not pending:
            assert searcher.done, "nothing wanted, nothing pending, yet not done"
            break
        ended = pending[0 if order is None else int(rng.integers(len(pending)))]
        searcher.tell(ended, world(ended))
    return searcher.results


class SearcherConformance:
    """The suite. A subclass overrides the fixture ``make``."""

    @pytest.fixture
    def make(self) -> Make:
        """Builds the searcher under test for a problem."""
        raise NotImplementedError

    @pytest.mark.parametrize("workers", [1, 8])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_ends_and_brackets_what_it_found(self, make: Make, workers: int, seed: int) -> None:
        searcher = make(PROBLEM)
        drive(searcher, mixed(seed), workers, order=seed)
        assert searcher.ask(8) == []
        for mix, progress in zip(PROBLEM.mixes, searcher.progress(), strict=True):
            assert progress.mix == mix
            assert progress.done
            assert progress.runs_left == 0
            assert progress.note

    @pytest.mark.parametrize("workers", [1, 8])
    @pytest.mark.parametrize(("accuracy", "low", "high"), [(0.2, SIZES[-1], None), (0.98, None, SIZES[0])])
    def test_nothing_or_everything_learned(
        self, make: Make, accuracy: float, low: int | None, high: int | None, workers: int
    ) -> None:
        """Diverged runs look like the first: their accuracy is the floor."""
        searcher = make(PROBLEM)
        results = drive(searcher, flat(accuracy), workers, order=1)
        assert any(request.size == (low or high) for request in results)
        for progress in searcher.progress():
            assert (progress.done, progress.low, progress.high) == (True, low, high)

    @pytest.mark.parametrize("every", [2, 5])
    def test_failed_runs_are_no_evidence(self, make: Make, every: int) -> None:
        searcher = make(PROBLEM)
        drive(searcher, failing(step(40), every), 4, order=3)
        for progress in searcher.progress():
            assert progress.done
            assert progress.low is None or progress.low < 40
            assert progress.high is None or progress.high >= 40

    def test_a_mix_that_is_stopped_is_asked_for_no_more_and_the_others_are(self, make: Make) -> None:
        searcher, (stopped, other) = make(PROBLEM), PROBLEM.mixes
        drive(searcher, mixed(2), 4, order=1, stop=4)
        known = sum(run.mix == stopped for run in searcher.results)
        searcher.stop(stopped)
        drive(searcher, mixed(2), 4, order=1)
        assert searcher.done
        assert sum(run.mix == stopped for run in searcher.results) == known
        progress = {each.mix: each for each in searcher.progress()}
        assert (progress[stopped].done, progress[stopped].runs_left, progress[stopped].note) == (True, 0, BY_HAND)
        assert progress[other].note != BY_HAND
        assert progress[other].low is not None or progress[other].high is not None

    def test_repeated_results_change_nothing(self, make: Make) -> None:
        searcher, twin = make(PROBLEM), make(PROBLEM)
        world = mixed(3)
        drive(searcher, world, 3, order=5, stop=9)
        twin.restore(searcher.blocks)
        for request, seen in list(searcher.results.items()):
            for _ in range(2):
                twin.tell(request, seen)
            twin.tell(request, Observation(0.0, 0.2))
            twin.tell(request, None)
        assert twin.results == searcher.results
        assert twin.choose(twin.results, (), 8) == searcher.choose(searcher.results, (), 8)

    def test_decides_by_what_is_known_not_by_its_order(self, make: Make) -> None:
        first = make(PROBLEM)
        known = list(drive(first, mixed(4), 5, order=6, stop=14).items())
        asked = make(PROBLEM)
        asked.restore(first.blocks)
        for request, seen in known:
            asked.tell(request, seen)
        expected = asked.choose(asked.results, first.pending, 6)
        rng = np.random.default_rng(7)
        for _ in range(3):
            other = make(PROBLEM)
            other.restore(first.blocks)
            for index in rng.permutation(len(known)):
                other.tell(*known[index])
            shuffled = [first.pending[index] for index in rng.permutation(len(first.pending))]
            assert other.choose(other.results, shuffled, 6) == expected
            assert other.progress() == asked.progress()

    def test_choosing_is_pure(self, make: Make) -> None:
        searcher = make(PROBLEM)
        drive(searcher, mixed(5), 2, order=8, stop=11)
        first = searcher.choose(searcher.results, (), 4)
        searcher.choose({}, (), 4)
        assert searcher.choose(searcher.results, (), 4) == first
        twin = make(PROBLEM)
        twin.restore(searcher.blocks)
        assert twin.choose(searcher.results, (), 4) == first

    def test_resumes_in_the_middle(self, make: Make) -> None:
        """With one run at a time an interrupted search ends with the same runs as an undisturbed one."""
        whole = drive(make(PROBLEM), mixed(7), 1)
        broken = make(PROBLEM)
        drive(broken, mixed(7), 1, stop=len(whole) // 2)
        replayed = make(PROBLEM)
        replayed.restore(broken.blocks)
        for request, seen in reversed(list(broken.results.items())):
            replayed.tell(request, seen)
        assert dict(drive(replayed, mixed(7), 1)) == dict(whole)

    @pytest.mark.parametrize("limit", [0, 1, 2, 5, 1000])
    def test_respects_the_limit(self, make: Make, limit: int) -> None:
        searcher = make(PROBLEM)
        wanted = searcher.ask(limit)
        assert len(wanted) <= limit + (limit > 0 and bool(searcher.blocks))
        assert bool(wanted) == (limit > 0)
        assert set(searcher.ask(1000)).isdisjoint(wanted)

    def test_offers_enough_for_many_workers_on_many_mixes(self, make: Make) -> None:
        wanted = make(PROBLEM).ask(2 * len(PROBLEM.mixes))
        assert len(wanted) == 2 * len(PROBLEM.mixes)

    def test_runs_left_is_an_upper_bound(self, make: Make) -> None:
        searcher = make(PROBLEM)
        world = mixed(9)
        bounds: list[tuple[int, int]] = []
        while not searcher.done:
            bounds.append((len(searcher.results), sum(progress.runs_left for progress in searcher.progress())))
            for request in searcher.ask(1):
                searcher.tell(request, world(request))
        total = len(searcher.results)
        for ended, left in bounds:
            assert total - ended <= left

    @pytest.mark.parametrize("workers", [1, 6])
    @pytest.mark.parametrize(
        "world", [coin(0), coin(1), failing(coin(2), 3), flat(0.2), flat(0.7), failing(mixed(3), 2)]
    )
    def test_however_runs_scatter_there_are_never_more_than_were_announced(
        self, make: Make, world: World, workers: int
    ) -> None:
        searcher = make(PROBLEM)
        announced = sum(progress.runs_left for progress in searcher.progress())
        assert len(drive(searcher, world, workers, order=workers)) <= announced

    @pytest.mark.parametrize(
        "problem",
        [
            Problem(("m",), (16,), (0,)),
            Problem(("m",), (16, 32), (0,)),
            Problem(("m",), (8, 9, 10), (5, 3)),
            Problem(("a", "b"), (16, 1000), (0, 1)),
        ],
    )
    @pytest.mark.parametrize("accuracy", [0.2, 0.6, 0.95])
    def test_tiny_problems(self, make: Make, problem: Problem, accuracy: float) -> None:
        searcher = make(problem)
        drive(searcher, flat(accuracy), 3, order=12)
        assert all(progress.done for progress in searcher.progress())

    def test_welcomes_runs_it_never_asked_for(self, make: Make) -> None:
        """An extended sweep tells what its journal holds: other sizes and seeds than the problem's do no harm."""
        searcher = make(PROBLEM)
        searcher.tell(Request("add", 31, 0), Observation(0.2, 0.2, 31.0))
        searcher.tell(Request("add", 40, 17), Observation(0.97, 0.2, 40.0))
        searcher.tell(Request("other", 40, 0), Observation(0.97, 0.2, 40.0))
        drive(searcher, step(40), 2, order=13)
        assert all(progress.done for progress in searcher.progress())
