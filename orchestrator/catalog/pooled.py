"""One answer from several sweeps with the same question, settings and sizes, on different seeds.

Transitions come from all runs together. If several sweeps have a run, for example because ``--extend`` took it over,
the run counts once.

Evidence comes from the pairs of the first sweep, then from the pairs of the second sweep, and so on, in the order in
which the sweeps began. Each sweep's pairs count up to its first incomplete pair. A sweep chooses its pairs by the
outcomes of its own earlier pairs, and an e-value is valid wherever a sweep stops. So this is one sequence of pairs that
follows the rules of :mod:`orchestrator.transition.evidence`. (The product of the sweeps' e-values would be valid too.
It averages over the alternatives once per sweep, and this sequence only once.) Both need pairs that share no run.
Therefore a pair counts only if neither of its runs belongs to an earlier sweep. That omits repeated pairs, and pairs
whose outcome was partly known when the earlier sweep ended.

The evidence is valid if the sweeps were chosen before their outcomes were known. It is too large if someone pools only
the sweeps with a pleasant answer, and nothing in the files shows that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from orchestrator.catalog.reading import StoredSweep
from orchestrator.home.ownership import is_of_others
from orchestrator.home.run_files import Origin, read_origin
from orchestrator.report.answer import Answer, answer
from orchestrator.space.differences import differences
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from orchestrator.system.reading_time import reading_limited
from orchestrator.system.text import counted, first_of, listed
from orchestrator.transition.evidence import Block, RunId
from trainables.base import Status

MAY_DIFFER = frozenset({"seed", "seeds", "search.max_runs", "search.max_cost"})
"""Keys in which pooled sweeps may differ: the seeds, and limits, because evidence is valid whenever a sweep stops."""


@dataclass(frozen=True)
class PooledSweeps:
    """Several sweeps as one, from :func:`pool`. ``sweeps`` are in the order in which they began, imported ones
    last."""

    sweeps: tuple[StoredSweep, ...]

    @property
    def id(self) -> str:
        """Ids of all sweeps."""
        return " + ".join(sweep.id for sweep in self.sweeps)

    @property
    def record_id(self) -> str:
        """Ids of all sweeps in exported tables."""
        return " + ".join(sweep.record_id for sweep in self.sweeps)

    @property
    def spec(self) -> SweepSpec:
        """Specification of the first sweep. The others differ only in seeds and limits."""
        return self.sweeps[0].spec

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Each run once, by mix, size and seed. If a run failed in one sweep but not in another, it did not fail."""
        once: dict[RunId, Run] = {}
        for record in (record for sweep in self.sweeps for record in sweep.runs):
            if once.setdefault(_run(record), record).outcome.status is Status.FAILED:
                once[_run(record)] = record
        return tuple(once.values())

    @cached_property
    def has_other_source(self) -> bool:
        """True if the hashes of the code that trained the runs differ. The code of a run without a hash is unknown."""
        return len({origin.source for origin in self._origins if origin.source}) > 1

    @cached_property
    def has_other_code(self) -> bool:
        """True for :attr:`has_other_source`, or if programs next to the script changed between the runs."""
        return self.has_other_source or len({origin.nearby for origin in self._origins if origin.nearby}) > 1

    @cached_property
    def _origins(self) -> list[Origin]:
        origins = (read_origin(run.directory) for sweep in self.sweeps for run in sweep.runs)
        return [origin for origin in origins if origin is not None]

    def distinct(self) -> Iterator[StoredSweep]:
        """Yield the sweeps, each without the runs that :attr:`runs` takes from another sweep."""
        pooled = {id(record) for record in self.runs}
        for sweep in self.sweeps:
            yield replace(sweep, runs=tuple(record for record in sweep.runs if id(record) in pooled))

    @cached_property
    def answer(self) -> Answer:
        """The answer from all runs."""
        stopped = frozenset().union(*(sweep.stopped for sweep in self.sweeps))
        is_foreign = any(is_of_others(sweep.sweep.files) for sweep in self.sweeps)
        with reading_limited(is_foreign):
            return answer(self.spec, self.runs, stopped, tuple(self._blocks()), is_foreign=is_foreign)

    def _blocks(self) -> Iterator[Block]:
        """Yield the counted pairs of each sweep that share no run with an earlier sweep."""
        earlier: set[RunId] = set()
        for sweep in self.sweeps:
            yield from (block for block in complete_blocks(sweep) if earlier.isdisjoint(block.runs))
            earlier |= {_run(record) for record in sweep.runs}

    def __str__(self) -> str:
        repeated = sum(len(sweep.runs) for sweep in self.sweeps) - len(self.runs)
        text = f"Pooled from {counted(len(self.sweeps), 'sweep')}: {counted(len(self.runs), 'run')}"
        text += f", {counted(repeated, 'repetition')} not counted" if repeated else ""
        return f"{text}; their code for training differs" if self.has_other_code else text


def complete_blocks(sweep: StoredSweep) -> Iterator[Block]:
    """Yield the blocks of a sweep in order of request. Of each comparison, only those up to its first incomplete block
    count."""
    ended = {_run(record) for record in sweep.runs}
    waiting: set[tuple[str, str]] = set()
    for block in sweep.blocks:
        if not ended.issuperset(block.runs):
            # Later blocks of this comparison do not count: which of them ended may depend on their outcomes.
            waiting.add((block.mix, block.baseline))
        if (block.mix, block.baseline) not in waiting:
            yield block


def _run(record: Run) -> RunId:
    return record.config.label, record.config.size, record.config.seed


def pool(sweeps: Sequence[StoredSweep]) -> PooledSweeps:
    """Return several sweeps as one.

    Raises:
        UserError: For fewer than two sweeps, for a sweep that is passed twice, for sweeps with different settings, and
            for runs of different versions or code of a family, unless the spaces of all sweeps say ``code: warn``. Code
            of built-in families changes with each release, so only their versions count.
    """
    ids = [sweep.id for sweep in sweeps]
    if twice := next((sweep_id for sweep_id in ids if ids.count(sweep_id) > 1), None):
        raise UserError(f"{twice} was named twice: a sweep cannot be pooled with itself")
    if len(sweeps) < 2:
        raise UserError(f"pooling needs at least two sweeps, but only {ids[0] if ids else 'none'} was named")
    # Imported ones last: their authors choose when they began, and runs count as the first sweep has them.
    first, *others = sorted(sweeps, key=lambda sweep: (sweep.is_imported, sweep.begun, sweep.id))
    for other in others:
        both = differences(other.spec, first.spec)
        different = {key: values for key, values in both.items() if key not in MAY_DIFFER}
        if first.spec.question != other.spec.question:
            different["question"] = (other.spec.question, first.spec.question)
        if different:
            named = first_of(
                [f"{key} ({mine!r} against {theirs!r})" for key, (mine, theirs) in sorted(different.items())]
            )
            raise UserError(
                f"{other.id} cannot be pooled with {first.id}: they differ in {named}. "
                "Pooled sweeps may differ only in seeds and in the limits of the search"
            )
    pooled = PooledSweeps((first, *others))
    family = first.spec.family
    versions = sorted({sweep.sweep.version for sweep in pooled.sweeps} - {0})
    if len(versions) > 1:
        named = listed([f"version {version}" for version in versions])
        raise UserError(f"these sweeps cannot be pooled: their runs are of {named} of {family}")
    if pooled.has_other_source and first.spec.source and any(sweep.spec.code != "warn" for sweep in pooled.sweeps):
        raise UserError(
            f"these sweeps cannot be pooled: the code of {family} changed between their runs. If all of it trains "
            "identically, run the sweeps with --set code=warn"
        )
    return pooled
