"""Earlier sweeps of a home that looked at the runs of a new comparison.

A test of runs whose outcomes are known is chosen after they were seen. Someone who asks twelve times, each time with
another bar or other sizes, and believes the best answer, is misled more often than ``search.error`` says. So the k-th
analysis of the same runs has its odds divided by k. The chance that any of n analyses decides wrongly is then at most
``search.error`` times 1 + 1/2 + ... + 1/n, which is 3.1 for twelve, in place of n times ``search.error``. As they share
runs, it is lower: in 100 simulated sweeps without a difference, one of twelve analyses decided in 6, and in 11 with all
odds (``tests/search/test_validity.py``).

A sweep that repeats an earlier one has the same test and the same odds. One that extends another continues its test.
Neither counts as another analysis. A sweep that came with an archive may be another user's, written to look like an
earlier one, so repeating it counts like any other analysis.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.history.journal import Asked, Ended, read_journal
from orchestrator.home.directories import Home
from orchestrator.home.foreign_files import MOST_SPACE_BYTES, read_text
from orchestrator.space import strict_yaml
from orchestrator.space.settings import flatten
from orchestrator.space.spec import SweepSpec
from orchestrator.space.written_spec import MOST_LOOKS
from orchestrator.transition.evidence import Block

log = logging.getLogger(__name__)

RULES = ("search.method", "search.error", "search.learned")
TEST = ("sizes", "seed", "seeds", *RULES)
"""Keys of a specification that define the test of a comparison. Its limits and its aim only say when it stops. Of
these, :data:`RULES` are the same in every continuation."""


@dataclass(frozen=True)
class EarlierLooks:
    """Earlier analyses of a comparison's runs: their ``count``, and the ids of the sweeps that made them, oldest first.
    Some of those may be gone."""

    count: int
    sweep_ids: tuple[str, ...]


@dataclass(frozen=True)
class _Earlier:
    """An earlier sweep with its pairs of a comparison and its test (the values of :data:`TEST`), None if it cannot be
    read. ``looks`` are the earlier analyses that it counted itself, and ``is_own`` is False if it was imported."""

    sweep_id: str
    blocks: tuple[Block, ...]
    test: tuple[Any, ...] | None
    looks: int
    is_own: bool = True

    def continues(self, other: _Earlier) -> bool:
        """Return True if this sweep continued the other's test, as with ``--extend``."""
        if self.test is None or other.test is None:
            return False
        same_rules = self.test[-len(RULES) :] == other.test[-len(RULES) :]
        return same_rules and self.blocks[: len(other.blocks)] == other.blocks


def count_earlier_looks(spec: SweepSpec, home: Home) -> dict[str, EarlierLooks]:
    """Return the analyses that sweeps of a home made of each comparison of ``spec`` with some of the same runs, by mix.
    Leave out comparisons whose runs no sweep has analyzed. Log sweeps that cannot be read: they are not counted."""
    baselines = {mix.name: spec.baseline_of(mix).name for mix in spec.mixes if mix != spec.baseline_of(mix)}
    earlier: dict[str, list[_Earlier]] = {}
    for sweep_id in reversed(home.sweep_ids()) if baselines else ():
        try:
            shared = _shared(spec, home, sweep_id, baselines)
        except (OSError, ValueError) as error:
            log.warning(f"{sweep_id} cannot be read ({error}), so its analyses of these runs are not counted")
            continue
        for mix, blocks in shared.items():
            if (sweep := _read(spec, home, sweep_id, mix, blocks)) is not None:
                earlier.setdefault(mix, []).append(sweep)
    test = _test_of(spec.to_dict())
    looks = {mix: _count(sweeps, test) for mix, sweeps in earlier.items()}
    return {mix: own for mix, own in looks.items() if own.count}


def _count(earlier: Sequence[_Earlier], test: tuple[Any, ...]) -> EarlierLooks:
    for place, one in enumerate(earlier):
        if one.test == test and one.is_own:  # It is made again, and what was analyzed since does not change it.
            return EarlierLooks(one.looks, tuple(other.sweep_id for other in earlier[:place]))
    tests = [
        one for place, one in enumerate(earlier) if not any(later.continues(one) for later in earlier[place + 1 :])
    ]
    return EarlierLooks(min(len(tests), MOST_LOOKS), tuple(one.sweep_id for one in tests))


def _shared(spec: SweepSpec, home: Home, sweep_id: str, baselines: Mapping[str, str]) -> dict[str, tuple[Block, ...]]:
    """Return an earlier sweep's pairs, by mix, for the comparisons that it made with runs of ``spec``."""
    blocks: dict[str, list[Block]] = {}
    is_same: dict[str, bool] = {}
    family = spec.make_family()
    sizes = set(spec.sizes)
    seeds = set(spec.seed_list)
    for entry in read_journal(home.sweep(sweep_id).journal):
        if isinstance(entry, Asked):
            for block in entry.blocks:
                if baselines.get(block.mix) == block.baseline:
                    blocks.setdefault(block.mix, []).append(block)
        elif isinstance(entry, Ended) and blocks and entry.request.is_full:
            run = entry.request
            # All runs of a mix have the same settings, so one of its keys is enough.
            if run.mix in spec.mix_named and run.mix not in is_same and run.size in sizes and run.seed in seeds:
                is_same[run.mix] = family.key(spec.config(run)) == entry.key
    return {mix: tuple(own) for mix, own in blocks.items() if is_same.get(mix) and is_same.get(baselines[mix])}


def _read(spec: SweepSpec, home: Home, sweep_id: str, mix: str, blocks: tuple[Block, ...]) -> _Earlier | None:
    """Return an earlier sweep with its pairs of a mix, or None if it asked about another task."""
    try:
        data: Any = strict_yaml.read(read_text(home.sweep(sweep_id).spec, MOST_SPACE_BYTES), sweep_id).data
    except (OSError, ValueError):
        return _Earlier(sweep_id, blocks, None, 0)
    values = flatten(data)
    if values.get("target") != spec.target:
        return None
    looks = values.get(f"looks.{mix}", 0)
    if not isinstance(looks, int) or not 0 <= looks <= MOST_LOOKS:
        return _Earlier(sweep_id, blocks, None, 0)
    return _Earlier(sweep_id, blocks, _test_of(data), looks, is_own=not home.sweep(sweep_id).is_imported)


def _test_of(data: Mapping[str, Any]) -> tuple[Any, ...]:
    values = flatten(data)
    return tuple(values.get(key) for key in TEST)
