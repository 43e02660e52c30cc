"""Tunes a sweep's settings, for all of its mixes, before the sweep itself begins.

The tuning is a campaign of its own on the sweep's journal. Its runs are kept in the home like all others: every sweep
that asks the same finds them, and they go with the last sweep that has used them.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from orchestrator.engine.base import Engine
from orchestrator.engine.campaign import Campaign, Observer
from orchestrator.errors import SweepError
from orchestrator.home import lifecycle
from orchestrator.home.journal import Ended, Journal, Memory, Tuned
from orchestrator.home.sweeps import Sweep, write_spec
from orchestrator.stacks import StackSizes
from orchestrator.sweep.interruption import StopRequests, stop_on_interrupt, stopped_words, stopper
from orchestrator.sweep.run_options import RunOptions
from orchestrator.tuning.objective import observe_learning
from orchestrator.tuning.study import Tuner
from orchestrator.tuning.words import chosen_text, trial_text
from trainables.base import Status

log = logging.getLogger(__name__)


def tuned(
    sweep: Sweep,
    memory: Memory,
    journal: Journal,
    engine: Engine,
    sizing: StackSizes,
    options: RunOptions,
) -> Sweep:
    """The sweep with tuned settings, also in its ``journal``; called with one that asks for tuning and is not tuned.
    At the end of its ``options.limit`` it stops. Called under its lock.

    Raises :class:`SweepError` if a run fails or the machine does, and ``KeyboardInterrupt`` after an
    interruption; finished runs are kept, and a resumed sweep goes on from there.
    """
    files = sweep.files
    untuned = replace(sweep, spec=sweep.spec.model_copy(update={"tune": None, "probes": ()}))
    tuner = Tuner(sweep.spec)
    known = [entry for entry in memory.trials if entry.outcome.status is not Status.FAILED]
    for entry in known:
        tuner.tell(entry.request, observe_learning(entry.outcome, sweep.spec.target))
    campaign = Campaign(
        untuned,
        tuner,
        journal,
        slots=engine.slots,
        sizing=sizing,
        interrupted=lifecycle.interrupted_stacks(files, log.warning),
        known=known,
        seen=observe_learning,
    )
    teller = _Teller(tuner, campaign, StopRequests(campaign, whole=True))
    campaign.observer = teller
    for study in map(tuner.study, tuner.problem.mixes):
        at = " and ".join(map(str, study.sizes))
        log.info(f"tuning {study.mix} at {sweep.spec.size_axis} {at}: up to {study.asked.trials} trials")
    with stop_on_interrupt(stopper(campaign, engine), options.limit):
        if not campaign.done:
            engine.execute(campaign)
    if teller.failure:
        raise SweepError(teller.failure)
    if campaign.stopping and options.limit.said:
        raise SweepError(stopped_words(sweep.id, f"{options.limit.said}. The trials that ended are kept", options))
    if campaign.stopping:
        log.info(f"Stopped while tuning; what finished is kept. Continue with\n{options.resumed(sweep.id)}")
        raise KeyboardInterrupt
    lifecycle.drop_checkpoints(files)
    found = tuple(tuner.study(mix.name).result() for mix in sweep.spec.mixes)
    for tuning in found:
        log.info(chosen_text(tuning))
    journal.append(Tuned())
    spec = sweep.spec.model_copy(update={"tuned": {tuning.mix: tuning.best for tuning in found}})
    return replace(sweep, spec=write_spec(files, spec))


class _Teller(Observer):
    """Says what trials come to; nothing of trials that were there. A run that fails stops the campaign, and is
    :attr:`failure`."""

    def __init__(self, tuner: Tuner, campaign: Campaign, stop_requests: StopRequests) -> None:
        self._stop_requests = stop_requests
        self._tuner = tuner
        self._campaign = campaign
        self._told = {mix: tuner.study(mix).ended for mix in tuner.problem.mixes}
        self.failure = ""

    def look(self) -> None:
        self._stop_requests.look()

    def ended(self, entry: Ended) -> None:
        """Say what the trials came to that this run was the last of."""
        mix, study = entry.request.mix, self._tuner.study(entry.request.mix)
        if entry.outcome.status is Status.FAILED:
            self.failure = f"a run of tuning {mix} failed:\n{entry.outcome.error}"
            self._campaign.stopping = True
        new = sorted(study.ended - self._told[mix])
        self._told[mix] |= study.ended
        for number in new if not entry.reused_from else ():
            text = trial_text(study.trials[number])
            log.info(f"tuning {mix}, trial {number + 1} of {study.asked.trials}: {text}")
