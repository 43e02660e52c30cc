"""Tunes the settings of a sweep's mixes before the sweep itself.

Tuning is a separate campaign on the sweep's journal. Its runs stay in the home, so all sweeps that tune the same
settings reuse them.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.errors import SweepError
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.journal import Journal, Memory, Tuned
from orchestrator.home.sweeps import RunRecord, Sweep, write_spec
from orchestrator.stacks import StackSizes
from orchestrator.sweep.interruption import StopRequests, stop_on_interrupt, stopped_words
from orchestrator.sweep.run_options import RunOptions, TimeLimit
from orchestrator.tuning import Tuner, observe_learning
from trainables.base import Status

log = logging.getLogger(__name__)


def tuned(
    sweep: Sweep, memory: Memory, journal: Journal, engine: Engine, sizing: StackSizes, options: RunOptions
) -> Sweep:
    """Tune a sweep and return it with the tuned settings, which are also written to its specification.

    A resumed sweep continues with the runs that ended. The caller holds the sweep's lock.

    Raises:
        SweepError: if a run or the machine fails, or ``options.limit`` is reached.
        KeyboardInterrupt: after an interruption.
    """
    spec, files = sweep.spec, sweep.files
    tuner = Tuner(spec)
    campaign = Campaign(
        replace(sweep, spec=spec.model_copy(update={"tune": None, "probes": ()})),
        tuner,
        journal,
        slots=engine.slots,
        sizing=sizing,
        known=[entry for entry in memory.trials if entry.outcome.status is not Status.FAILED],
        observation=observe_learning,
    )
    observer = _Observer(tuner, campaign, options.limit)
    for study in map(tuner.study, tuner.problem.mixes):
        at = " and ".join(map(str, study.sizes))
        log.info(f"tuning {study.mix} at {spec.size_axis} {at}: up to {study.tune.trials} trials")
    with stop_on_interrupt(campaign, engine):
        if not campaign.done:
            engine.execute(campaign)
    if observer.failure:
        raise SweepError(observer.failure)
    if campaign.stopping and (why := campaign.machine_error or options.limit.message):
        raise SweepError(stopped_words(sweep.id, f"{why}. Finished trials are kept", options))
    if campaign.stopping:
        log.info(f"Stopped while tuning; finished runs are kept. Continue with\n{options.resumed(sweep.id)}")
        raise KeyboardInterrupt
    Checkpoints(files.checkpoints).clear()
    studies = list(map(tuner.study, tuner.problem.mixes))
    for study in studies:
        log.info(study)
    journal.append(Tuned())
    spec = spec.model_copy(update={"tuned": {study.mix: study.result for study in studies}})
    return replace(sweep, spec=write_spec(files, spec))


class _Observer(StopRequests):
    """Logs each trial that ends. A failed run stops the campaign; :attr:`failure` is the reason."""

    def __init__(self, tuner: Tuner, campaign: Campaign, limit: TimeLimit) -> None:
        super().__init__(campaign, limit, only_whole=True)
        self._tuner = tuner
        self._logged = {mix: tuner.study(mix).ended for mix in tuner.problem.mixes}
        self.failure = ""

    def ended(self, record: RunRecord) -> None:
        mix, study = record.config.label, self._tuner.study(record.config.label)
        if record.outcome.status is Status.FAILED:
            self.failure = f"a tuning run of {mix} failed:\n{record.outcome.error}"
            self._campaign.stopping = True
        new, self._logged[mix] = sorted(study.ended - self._logged[mix]), study.ended
        for number in new if not record.found_in else ():
            log.info(f"tuning {mix}, trial {number + 1} of {study.tune.trials}: {study.trials[number]}")
