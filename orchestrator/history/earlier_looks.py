"""Earlier sweeps of a home that analyzed the runs of a new comparison.

If outcomes are already known, the user may choose a test because of them. Someone who asks twelve times, each time with
another threshold or other sizes, and believes the best answer, is misled more often than ``search.error`` says. So the
k-th analysis of the same runs has its odds divided by k. The chance that any of n analyses decides wrongly is then at
most ``search.error`` times 1 + 1/2 + ... + 1/n, which is 3.1 for twelve analyses. Without the division, it is n times
``search.error``. Because the analyses share runs, the chance is lower. We simulated 100 sweeps without a difference and
twelve analyses of each. In 6 of the sweeps, at least one analysis decided; without the division, in 11
(``tests/search/test_validity.py``).

A sweep that repeats an earlier sweep has the same test and the same odds. A sweep that extends another continues its
test. Neither counts as another analysis. Another user may have written a sweep that came with an archive to look like
an earlier sweep, so repeating it counts like any other analysis.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from orchestrator.history.foreign_time import NOT_READ, ForeignTime
from orchestrator.history.journal import Asked, Ended, read_journal
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import Home
from orchestrator.home.foreign_files import MOST_SPACE_BYTES, read_text
from orchestrator.space import strict_yaml
from orchestrator.space.settings import flatten
from orchestrator.space.spec import SweepSpec
from orchestrator.space.written_spec import MOST_LOOKS
from orchestrator.system.text import first_of
from orchestrator.transition.evidence import Block

log = logging.getLogger(__name__)

RULES = ("search.method", "search.error", "search.learned")
"""Keys of a specification that define the test of a comparison and that every continuation keeps."""
TEST = ("sizes", "seed", "seeds", *RULES)
"""Keys of a specification that define the test of a comparison. Its limits and its aim only decide when it stops."""
MOST_BLOCKS_COMPARED = 100_000_000
"""Maximum number of comparisons of pairs of earlier sweeps. A quarter of them took 1.7 s."""


@dataclass(frozen=True)
class EarlierLooks:
    """Earlier analyses of a comparison's runs.

    Attributes:
        count: Their number.
        sweep_ids: Ids of the sweeps that made them, oldest first. Deleted sweeps are missing.
    """

    count: int
    sweep_ids: tuple[str, ...]


@dataclass(frozen=True)
class _EarlierSweep:
    """An earlier sweep.

    Attributes:
        sweep_id: Its id.
        blocks: Its pairs of the comparison.
        test: Its values of :data:`TEST`, or None if they cannot be read.
        looks: Number of earlier analyses that it counted itself.
        is_own: False if it was imported.
    """

    sweep_id: str
    blocks: tuple[Block, ...]
    test: tuple[Any, ...] | None
    looks: int
    is_own: bool = True

    def continues(self, other: _EarlierSweep) -> bool:
        """Return True if this sweep continued the other's test, as with ``--extend``."""
        if self.test is None or other.test is None:
            return False
        same_rules = self.test[-len(RULES) :] == other.test[-len(RULES) :]
        return same_rules and self.blocks[: len(other.blocks)] == other.blocks


def count_earlier_looks(spec: SweepSpec, home: Home) -> dict[str, EarlierLooks]:
    """Return, by mix, the analyses of each comparison of ``spec`` that a home's sweeps made with some of the same runs.

    Omit comparisons whose runs no sweep has analyzed. Sweeps that cannot be read are logged and not counted.
    """
    baselines = {mix.name: spec.baseline_of(mix).name for mix in spec.mixes if mix != spec.baseline_of(mix)}
    earlier: dict[str, list[_EarlierSweep]] = {}
    limit = ForeignTime(home)
    unread: list[str] = []
    for sweep_id in reversed(home.sweep_ids()) if baselines else ():
        try:
            analyses = limit.read(sweep_id, partial(_analyses, spec, home, sweep_id, baselines))
        except (OSError, ValueError) as error:
            log.warning(f"{sweep_id} cannot be read ({error}), so its analyses of these runs are not counted")
            continue
        if isinstance(analyses, UnreadableError):
            unread.append(sweep_id)
            continue
        for mix, sweep in analyses.items():
            earlier.setdefault(mix, []).append(sweep)
    if unread:
        log.warning(f"Analyses of these runs by {first_of(unread)} are not counted. {NOT_READ}")
    test = _test_of(spec.to_dict())
    looks = {mix: _count(sweeps, test) for mix, sweeps in earlier.items()}
    return {mix: own for mix, own in looks.items() if own.count}


def _count(earlier: Sequence[_EarlierSweep], test: tuple[Any, ...]) -> EarlierLooks:
    for index, sweep in enumerate(earlier):
        # The new sweep repeats this test, so later analyses do not change its odds.
        if sweep.test == test and sweep.is_own:
            return EarlierLooks(sweep.looks, tuple(other.sweep_id for other in earlier[:index]))
    tests = list(earlier)
    # Archives may have thousands of sweeps. Then each counts, which favors no answer.
    if len(earlier) * sum(len(sweep.blocks) for sweep in earlier) <= MOST_BLOCKS_COMPARED:
        # A test that a later sweep continued is still one test.
        tests = [
            sweep
            for index, sweep in enumerate(earlier)
            if not any(later.continues(sweep) for later in earlier[index + 1 :])
        ]
    return EarlierLooks(min(len(tests), MOST_LOOKS), tuple(sweep.sweep_id for sweep in tests))


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
            # All runs of a mix have the same settings, so the key of one run is enough.
            if run.mix in spec.mix_named and run.mix not in is_same and run.size in sizes and run.seed in seeds:
                is_same[run.mix] = family.key(spec.config(run)) == entry.key
    return {mix: tuple(own) for mix, own in blocks.items() if is_same.get(mix) and is_same.get(baselines[mix])}


def _analyses(spec: SweepSpec, home: Home, sweep_id: str, baselines: Mapping[str, str]) -> dict[str, _EarlierSweep]:
    """Return an earlier sweep, by mix, for the comparisons that it made with runs of ``spec``. Return nothing if it
    asked about another task."""
    shared = _shared(spec, home, sweep_id, baselines)
    if not shared:
        return {}
    unknown = {mix: _EarlierSweep(sweep_id, blocks, None, 0) for mix, blocks in shared.items()}
    try:
        data: Any = strict_yaml.read(read_text(home.sweep(sweep_id).spec, MOST_SPACE_BYTES), sweep_id).data
    except (OSError, ValueError):
        return unknown
    if not isinstance(data, Mapping):
        return unknown
    values = flatten(data)
    if values.get("target") != spec.target:
        return {}
    test = _test_of(data)
    is_own = not home.sweep(sweep_id).is_imported
    looks = {mix: values.get(f"looks.{mix}", 0) for mix in shared}
    return {
        mix: _EarlierSweep(sweep_id, blocks, test, looks[mix], is_own)
        if isinstance(looks[mix], int) and 0 <= looks[mix] <= MOST_LOOKS
        else unknown[mix]
        for mix, blocks in shared.items()
    }


def _test_of(data: Mapping[str, Any]) -> tuple[Any, ...]:
    values = flatten(data)
    return tuple(values.get(key) for key in TEST)
