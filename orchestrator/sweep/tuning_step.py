"""Tunes the settings of a sweep's mixes before the sweep itself, as a separate campaign on the sweep's journal.

Tuning runs stay in the home, so all sweeps that tune the same settings reuse them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from operator import attrgetter

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.journal import Journal, Memory, Tuned
from orchestrator.home.sweeps import Sweep, write_spec
from orchestrator.space.runs import Run
from orchestrator.space.tuning_settings import values_text
from orchestrator.stacks import StackSizes
from orchestrator.sweep.interruption import StopRequests, stop_on_interrupt, stopped_words
from orchestrator.sweep.invocation import Invocation, TimeLimit
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.system.errors import SweepError
from orchestrator.tuning_study import Tuner, learning_point
from trainables.base import Status

log = logging.getLogger(__name__)


def tuned(
    sweep: Sweep,
    memory: Memory,
    journal: Journal,
    engine: Engine,
    sizing: StackSizes,
    options: RunOptions,
    invocation: Invocation,
) -> Sweep:
    """Tune a sweep and return it with the tuned settings, which are also written to its specification.

    A resumed sweep continues with the runs that ended. The caller holds the sweep's lock.

    Raises:
        SweepError: if a run or the machine fails, or the time limit is reached.
        KeyboardInterrupt: after an interruption.
    """
    spec, tuner = sweep.spec, Tuner(sweep.spec)
    plain = replace(sweep, spec=spec.model_copy(update={"tune": None, "probes": ()}))
    known = [entry for entry in memory.trials if entry.outcome.status is not Status.FAILED]
    plan = StudyPlan(plain, tuner, journal, known=known, point_of=learning_point)
    campaign = Campaign(plain.files, plain.setup, plan, slots=engine.slots, sizing=sizing, known=plan.known)
    assert spec.tune is not None, "only a sweep with settings to tune is tuned"
    observer = _Observer(campaign, plan, invocation.limit, spec.tune.settings)
    campaign.observer = observer
    plan.on_ended = observer.ended
    for study in tuner.studies():
        at = " and ".join(map(str, study.sizes))
        log.info(f"tuning {study.mix} at {spec.size_axis} {at}: up to {study.tune.trials} trials")
    with stop_on_interrupt(campaign, engine, options, invocation):
        if not campaign.done:
            engine.execute(campaign)
    for record in plan.runs:
        if record.outcome.status is Status.FAILED:
            raise SweepError(f"a tuning run of {record.config.label} failed:\n{record.outcome.error}")
    if campaign.stopping and (why := campaign.machine_error or invocation.limit.message):
        raise SweepError(stopped_words(sweep.id, f"{why}. Finished trials are kept", options))
    if campaign.stopping:
        log.info(f"Stopped while tuning; finished runs are kept. Continue with\n{options.resumed(sweep.id)}")
        raise KeyboardInterrupt
    Checkpoints(sweep.files.checkpoints).clear()
    studies = tuner.studies()
    for study in studies:
        log.info(study)
    journal.append(Tuned())
    spec = spec.model_copy(update={"tuned": {study.mix: study.result for study in studies}})
    return replace(sweep, spec=write_spec(sweep.files, spec))


class _Observer(StopRequests):
    """Logs each run that ends, with its values of the settings to tune. A failed run stops the campaign."""

    def __init__(self, campaign: Campaign, plan: StudyPlan, limit: TimeLimit, paths: Collection[str]) -> None:
        super().__init__(campaign, plan, limit, only_whole=True)
        self._paths = paths

    def ended(self, record: Run) -> None:
        config, spec = record.config, self._plan.sweep.spec
        learning = learning_point(record, spec.target)
        if learning is None:
            self._campaign.stopping = True
        elif not record.found_in:
            learned = f"learned in {learning.cost:.0f} steps" if learning.cost else "not learned"
            tried = {path: attrgetter(path)(config.settings) for path in self._paths}
            where = f"{spec.size_axis} {config.size}, seed {config.seed}"
            log.info(f"tuning {config.label}: {learned} at {where} with {values_text(tried)}")
