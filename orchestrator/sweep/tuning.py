"""Tunes the settings of a sweep's mixes before the search, with the sweep's journal.

The tuning runs stay in the home, so all sweeps that tune the same settings reuse them.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import replace
from operator import attrgetter

from orchestrator.engine.campaign import Campaign
from orchestrator.history.journal import Journal, Memory, Tuned
from orchestrator.history.other_code import has_other_script
from orchestrator.history.sweeps import Sweep, write_spec
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.space.runs import Run
from orchestrator.space.tuning_settings import Tune, values_text
from orchestrator.sweep.driving import Drive
from orchestrator.sweep.interruption import SweepObserver, stopped_text
from orchestrator.sweep.invocation import TimeLimit
from orchestrator.sweep.tuning_plan import TuningPlan
from orchestrator.system.errors import SweepError

log = logging.getLogger(__name__)


def tune(sweep: Sweep, memory: Memory, journal: Journal, drive: Drive) -> Generator[Campaign, None, Sweep]:
    """Tune a sweep, and yield the campaign that trains the trials. The caller must have the sweep's lock.

    A resumed sweep continues with the runs that have ended.

    Returns:
        The sweep with the tuned settings, which are also written to its specification.

    Raises:
        SweepError: if a run or the machine fails, or the time limit is reached.
        KeyboardInterrupt: after an interruption.
    """
    assert sweep.spec.tune is not None, "only a sweep with settings to tune is tuned"
    plan = TuningPlan(sweep, journal, memory.trials)
    campaign = drive.campaign(plan)
    for study in plan.studies():
        at = " and ".join(map(str, study.sizes))
        log.info(f"tuning {study.mix} at {sweep.spec.size_axis} {at}: up to {study.tune.trials} trials")
    yield from drive.run(campaign, plan, _Observer(campaign, plan, drive.limit, sweep.spec.tune))
    _check_finished(campaign, plan, drive)
    # All checkpoints are from the tuning now, and the search could not read them, because it does not know their runs.
    Checkpoints(sweep.files.checkpoints).clear()
    studies = plan.studies()
    for study in studies:
        log.info(study)
    journal.append(Tuned())
    spec = sweep.spec.model_copy(update={"tuned": {study.mix: study.result for study in studies}})
    return replace(sweep, spec=write_spec(sweep.files, spec))


def _check_finished(campaign: Campaign, plan: TuningPlan, drive: Drive) -> None:
    """Raise an exception unless every trial has ended.

    Raises:
        SweepError: if a run or the machine failed, or the time limit was reached.
        KeyboardInterrupt: after an interruption.
    """
    options = drive.options
    limit = drive.limit
    if (run := plan.failed) is not None:
        raise SweepError(f"a tuning run of {run.config.label} failed:\n{run.outcome.error}")
    if not campaign.stopping:
        return
    if reason := campaign.machine_error or limit.message:
        refused = has_other_script(plan.sweep.spec)
        raise SweepError(
            stopped_text(plan.sweep.id, f"{reason}. Finished trials are kept", options, is_refused=refused)
        )
    log.info(f"Stopped while tuning; finished runs are kept. Continue with\n{options.resumed(plan.sweep.id)}")
    raise KeyboardInterrupt


class _Observer(SweepObserver):
    """Logs each run that ends, with its values of the tuned settings. A failed run stops the campaign."""

    def __init__(self, campaign: Campaign, plan: TuningPlan, limit: TimeLimit, tune: Tune) -> None:
        super().__init__(campaign, plan, limit, only_whole=True)
        self._paths = tuple(tune.settings)

    def ended(self, run: Run) -> None:
        config = run.config
        spec = self._plan.sweep.spec
        point = self._plan.point(run)
        if point is None:
            self._campaign.stopping = True
        elif not run.trained_for:
            learned = f"learned in {point.cost:.0f} steps" if point.cost else "not learned"
            values = {path: attrgetter(path)(config.settings) for path in self._paths}
            where = f"{spec.size_axis} {config.size}, seed {config.seed}"
            log.info(f"tuning {config.label}: {learned} at {where} with {values_text(values)}")
