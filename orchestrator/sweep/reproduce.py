"""Compares the statements that search spaces expect with the findings of sweeps, and runs missing sweeps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console

from orchestrator.catalog.export import compared
from orchestrator.catalog.reading import StoredSweep, read_sweep
from orchestrator.history.journal import recall
from orchestrator.history.other_code import check_shown
from orchestrator.history.resume import newest_sweep
from orchestrator.history.sweeps import Sweep
from orchestrator.home.directories import Home
from orchestrator.report.cost_so_far import cost_of
from orchestrator.report.side_by_side import can_scale
from orchestrator.report.verdicts.statements import judge, judge_law, not_run
from orchestrator.report.verdicts.table import VerdictRow
from orchestrator.space.expectations import LAW_FINDINGS, ORDER_FINDINGS, Expectation, about
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.probe_stored_runs import probe_runs
from orchestrator.sweep.run_options import RunOptions, SpaceOptions
from orchestrator.sweep.several_sweeps import Attempt, run_sweeps
from orchestrator.system.errors import SweepError
from orchestrator.system.text import counted
from orchestrator.terminal.console_log import logged_to
from trainables.contract.tables import entropy
from trainables.probes.base import load_probe

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Experiment:
    """A search space with a profile.

    Attributes:
        space: The requested name or file.
        choice: The profile and overrides.
        specs: The specification of each variant.
        expected: The expected statements.
    """

    space: str
    choice: SpaceOptions
    specs: tuple[SweepSpec, ...]
    expected: tuple[Expectation, ...]

    @property
    def name(self) -> str:
        return self.specs[0].name

    def options(self, spec: SweepSpec, shared: RunOptions) -> RunOptions:
        """Return the options of `run` for one of the sweeps, given the options that all sweeps share."""
        return replace(
            shared,
            space=self.space,
            profile=self.choice.profile,
            variant=spec.variant or None,
            overrides=self.choice.overrides,
        )

    def asks(self, spec: SweepSpec) -> bool:
        """Return True if an expected statement is about this variant. A law is about all variants."""
        return any(statement.finds in LAW_FINDINGS or statement.is_about(spec.variant) for statement in self.expected)


class Reproduction:
    """The answered and the missing sweeps of some experiments in a home.

    Raises:
        UserError: If other code trained runs of the newest sweep of an experiment, and its space does not allow that.
    """

    def __init__(self, experiments: Sequence[Experiment], home: Home, console: Console) -> None:
        self._experiments = experiments
        self._pairs = [(experiment, spec) for experiment in experiments for spec in experiment.specs]
        self._home = home
        self._console = console
        self._say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
        self._failed: dict[str, str] = {}
        self._answered: dict[str, StoredSweep] = {}
        for _, spec in self._pairs:
            newest = self._newest(spec)
            if newest is None:
                continue
            self._check_code(spec, newest)
            if recall(newest.files).answered:
                self._answered[spec.title] = read_sweep(home, newest.id)

    @property
    def sweeps(self) -> list[StoredSweep]:
        """The answered sweeps."""
        return list(self._answered.values())

    @property
    def missing(self) -> list[tuple[Experiment, SweepSpec]]:
        """Sweeps without an answer that are needed to judge a statement."""
        unanswered = [(experiment, spec) for experiment, spec in self._pairs if spec.title not in self._answered]
        return [(experiment, spec) for experiment, spec in unanswered if experiment.asks(spec)]

    @property
    def imported(self) -> list[str]:
        """A line for each sweep with runs from an archive, because another user may have written them."""
        imported = [(sweep, sweep.imported_runs) for sweep in self.sweeps if sweep.imported_runs]
        return [f"{sweep.id} has {counted(runs, 'run')} that came with an archive" for sweep, runs in imported]

    @property
    def seconds(self) -> float:
        """Seconds of training in the sweeps. Each run counts once."""
        return sum(cost_of(sweep.spec, sweep.runs).spent_s for sweep in self.sweeps)

    def run(self, options: RunOptions, invocation: Invocation, answered: Callable[[], object]) -> None:
        """Run the missing sweeps, and call ``answered`` after each answer. Report a sweep that fails and continue.

        Raises:
            KeyboardInterrupt: after an interruption.
        """
        for experiment, spec in self._pairs:
            self._probe(experiment, spec)
        missing = self.missing
        attempts: list[Attempt] = []
        for experiment, spec in missing:
            newest = self._newest(spec)
            resume = None if newest is None else newest.id
            sweep_options = replace(experiment.options(spec, options), resume=resume, retry_failed=resume is not None)
            line = f"{len(attempts) + 1} of {len(missing)}: {spec.title}, {spec.profile}"
            attempt = Attempt(spec=spec, options=sweep_options, announce=partial(self._say, f"\n{line}"))
            attempt.ended = partial(self._handle_end, answered)
            attempts.append(attempt)
        if not attempts:
            return
        run_sweeps(attempts, self._console, invocation)
        for attempt in attempts:
            if not isinstance(attempt.error, SweepError | None):
                raise attempt.error
        for experiment, spec in missing:  # After all sweeps, so that none of them has to wait for probes.
            self._probe(experiment, spec)

    def rows(self) -> list[VerdictRow]:
        """Return all statements with their findings, in the order of the experiments."""
        return [row for experiment in self._experiments for row in self._rows(experiment)]

    def _rows(self, experiment: Experiment) -> Iterator[VerdictRow]:
        """Yield the statements of one experiment with their findings."""
        for spec in experiment.specs:
            sweep = self._answered.get(spec.title)
            statements = about(experiment.expected, spec.variant)
            if sweep is not None:
                entropy = entropies(spec) if any(statement.finds in ORDER_FINDINGS for statement in statements) else {}
                yield from judge(spec.name, spec.variant, statements, sweep.answer, sweep.runs, entropy)
            else:
                reason = self._failed.get(spec.title, "")
                for statement in statements:
                    yield from not_run(spec.name, spec.variant, statement, spec.plain_mixes, reason)
        sweeps = [self._answered[spec.title] for spec in experiment.specs if spec.title in self._answered]
        missing = len(experiment.specs) - len(sweeps)
        variants = compared(sweeps)
        for law in (statement for statement in experiment.expected if statement.finds in LAW_FINDINGS):
            if not missing and can_scale(variants):
                yield from judge_law(experiment.name, law, variants)
            else:
                mixes = experiment.specs[0].plain_mixes
                reason = f"{missing} of {len(experiment.specs)} variants have not run"
                yield from not_run(experiment.name, "", law, mixes if law.mix != "*" else ("", *mixes), reason)

    def _newest(self, spec: SweepSpec) -> Sweep | None:
        """Return the newest sweep with this specification, or None."""
        with logged_to(self._console):
            return newest_sweep(spec, self._home)

    def _check_code(self, spec: SweepSpec, newest: Sweep) -> None:
        """Refuse a sweep that other code trained, or warn if the space allows it."""
        if warning := check_shown(spec, newest):
            with logged_to(self._console):
                log.warning(warning)

    def _handle_end(self, answered: Callable[[], object], attempt: Attempt) -> None:
        """Read the answer of a sweep that ended and call ``answered``, or report why the sweep failed."""
        title = attempt.spec.title
        if attempt.answer is not None and attempt.sweep is not None:
            self._answered[title] = read_sweep(self._home, attempt.sweep.id)
            answered()
        elif isinstance(attempt.error, SweepError):
            self._failed[title] = str(attempt.error).splitlines()[-1]
            self._say(f"{title} failed: {self._failed[title]}")

    def _probe(self, experiment: Experiment, spec: SweepSpec) -> None:
        """Run the probes that statements need on the runs of an answered sweep that lack their results."""
        sweep = self._answered.get(spec.title)
        if sweep is None:
            return
        # The space may list a probe of the user with the same name as a built-in probe. The space decides.
        space_probes = {probe.name: probe for probe in map(load_probe, spec.probes)}
        names = [name for statement in about(experiment.expected, spec.variant) for name in statement.probes]
        for name in dict.fromkeys(names):
            results = probe_runs(space_probes.get(name) or load_probe(name), sweep.spec, sweep.runs)
            if set(results.counts) & {"probed", "failed"}:
                self._say(f"{spec.title}, probe {name}: {results.text}")
            for error in results.errors[:1]:
                self._say(f"probe {name} failed: {error}")


def entropies(spec: SweepSpec) -> dict[str, float]:
    """Return the entropy in nats of each task's values over uniform tuples of arguments. Return an empty mapping if the
    family has no tables."""
    tasks = sorted({spec.target, *(task for arm in spec.mixes for phase in arm.phases for task in phase.mix.tasks)})
    tables = spec.make_family().tables(tasks, spec.seed)
    return {} if tables is None else {task: entropy(tables[task]) for task in tasks}
