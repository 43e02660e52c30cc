"""Worlds that searchers meet in tests, and a driver that checks every request."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from orchestrator.search.base import Problem, Request, Results, Searcher
from orchestrator.transition.types import Point
from tests.forecast.truths import Truth, TruthKind, draw

World = Callable[[Request], Point | None]

SIZES = (8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
PROBLEM = Problem(("add", "add+prod"), SIZES, (0, 1, 2), (("add+prod", "add"),))


def flat(accuracy: float) -> World:
    """Return a world in which every run ends with the same accuracy."""
    return lambda request: request.point(accuracy, 0.2, float(request.size))


def step(at: int) -> World:
    """Return a world in which exactly the sizes from ``at`` on learn, with every seed."""
    return lambda request: request.point(0.97 if request.size >= at else 0.2, 0.2, float(request.size))


def mixed(seed: int = 0) -> World:
    """Return a noisy world with a different transition for each mix."""
    rng = np.random.default_rng(seed)
    truths: dict[str, Truth] = {
        mix: draw(TruthKind.MATCHED, PROBLEM, rng, key) for key, mix in enumerate(PROBLEM.mixes)
    }
    return lambda request: truths[request.mix].run(request.size, request.seed, 1.0)


def coin(seed: int) -> World:
    """Return a world in which a run of any size learns by chance."""

    def outcome(request: Request) -> Point:
        place = (seed, len(request.mix), request.size, request.seed)
        learned = np.random.default_rng(place).random() < 0.5
        return request.point(0.97 if learned else 0.2, 0.2, float(request.size))

    return outcome


def failing(world: World, every: int) -> World:
    """Return the world with a fixed share of failed runs."""

    def outcome(request: Request) -> Point | None:
        broken = (request.size * 7 + request.seed * 3 + len(request.mix)) % every == 0
        return None if broken else world(request)

    return outcome


def drive(searcher: Searcher, world: World, workers: int = 1, order: int | None = None, stop: int = 10**6) -> Results:
    """Run a searcher until it is done or ``stop`` runs have ended, and return its results.

    Checks that each request is within the problem and is new, that there are no more than asked for (except to
    complete a pair), and that the searcher is never stuck.

    Args:
        order: Seed of a random order of the results. By default they arrive in order of request.
    """
    rng = np.random.default_rng(order)
    everything = {
        Request(mix, size, seed)
        for mix in searcher.problem.mixes
        for size in searcher.problem.sizes
        for seed in searcher.problem.seeds
    }
    requested: set[Request] = set(searcher.results)
    while len(searcher.results) < stop:
        free = workers - len(searcher.pending)
        wanted = searcher.ask(free)
        assert len(wanted) <= max(free, 0) + (free > 0 and bool(searcher.blocks))
        assert len(set(wanted)) == len(wanted)
        assert not requested & set(wanted), "requested a run twice"
        assert set(wanted) <= everything, "requested a run outside the problem"
        requested |= set(wanted)
        pending = searcher.pending
        assert set(wanted) <= set(pending)
        if not pending:
            assert searcher.done, "no run requested or pending, but not done"
            break
        ended = pending[0 if order is None else int(rng.integers(len(pending)))]
        searcher.tell(ended, world(ended))
    return searcher.results
