"""The expected benefit of more runs."""

from __future__ import annotations

from orchestrator.outlook import continued, outlook
from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.pairs import Pairs
from orchestrator.transition.evidence import Block

PAIR = ("joint", "alone")
PROBLEM = Problem(("alone", "joint"), (8, 11, 16, 22, 32), tuple(range(16)), (PAIR,))


def searched(learned: list[tuple[bool, bool]], size: int, max_runs: int) -> Pairs:
    """Return a search after this many pairs at one size, with a limit on the runs of a mix."""
    searcher = Pairs(PROBLEM, aim="decide", max_runs=max_runs)
    searcher.restore(Block(*PAIR, size, size, seed) for seed in range(len(learned)))
    for seed, outcomes in enumerate(learned):
        for mix, good in zip(PAIR, outcomes, strict=True):
            searcher.tell(Request(mix, size, seed), Observation(float(good), 0.0, float(size)))
    return searcher


def test_a_clear_lead_is_expected_to_be_decided() -> None:
    assert outlook(searched([(True, False)] * 3, 16, 12))[PAIR] >= 0.75


def test_without_remaining_runs_nothing_is_decided() -> None:
    assert outlook(searched([(True, False)] * 3, 16, 3))[PAIR] == 0


def test_equal_mixes_are_unlikely_to_be_decided() -> None:
    alike = [(False, False), (True, True), (True, True), (False, False), (True, True), (False, False)] * 2
    assert outlook(searched(alike, 16, 24))[PAIR] <= 0.4


def test_an_outlook_is_deterministic_and_does_not_change_the_search() -> None:
    searcher = searched([(True, False), (False, False)], 16, 10)
    before = dict(searcher.results)
    assert outlook(searcher) == outlook(searcher)
    assert dict(searcher.results) == before


def test_a_continued_search_has_twice_the_seeds_and_limits_and_the_same_evidence() -> None:
    searcher = searched([(True, False), (False, False)], 16, 10)
    more = continued(searcher)
    assert (more.settings.max_runs, more.problem.seeds) == (20, tuple(range(32)))
    assert (more.blocks, dict(more.results)) == (searcher.blocks, dict(searcher.results))
