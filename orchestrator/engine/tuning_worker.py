"""Trains one stack of a study's runs, each no further than to where it has learned."""

from __future__ import annotations

import time
from pathlib import Path

from orchestrator.engine.device import prepare_device
from orchestrator.engine.tuning_job import TuningJob, read_run, run_file, write_run
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning import Tuned
from orchestrator.store.files import Home
from orchestrator.store.scratch import scratch
from orchestrator.tuning.objective import TuningRun, learned_at
from trainables.base import Evaluation, Learner, Report, RunConfig, Status


class TuningWorker:
    """A stack of runs of one size. Runs that finished before, in a worker that was lost, are read back."""

    def __init__(self, job: TuningJob) -> None:
        self._spec = SweepSpec.model_validate(job.space)
        self._family = self._spec.make_family()
        self._job = job
        self._home = Home(Path(job.home))
        self._configs = [self._config(Tuned.model_validate(tuned), seed) for _, tuned, seed in job.runs]
        self._paths = [run_file(self._home, job.study, self._family.key(config)) for config in self._configs]
        self._known = {place: read_run(path) for place, path in enumerate(self._paths) if path.is_file()}
        self._places = [place for place in range(len(self._configs)) if place not in self._known]
        self._curves: dict[int, list[Evaluation]] = {place: [] for place in self._places}
        self._learner: Learner | None = None
        self._begun = time.perf_counter()
        prepare_device(self._spec.resources)

    @property
    def done(self) -> bool:
        """True when every run has ended."""
        return len(self._known) == len(self._configs)

    @property
    def ended(self) -> list[tuple[int, TuningRun]]:
        """The runs that have ended, with the numbers of their trials."""
        return [(self._job.runs[place][0], run) for place, run in sorted(self._known.items())]

    def advance(self) -> None:
        """Train to the next evaluation. What ended is on disk before this returns."""
        if self.done:
            return
        if self._learner is None:
            configs = [self._configs[place] for place in self._places]
            self._learner = self._family.learner(
                configs, device=self._spec.resources.device, cache=scratch(self._spec.resources.scratch)
            )
        for report in self._learner.advance():
            place = self._places[report.index]
            if place not in self._known:
                self._note(place, report)

    def _config(self, tuned: Tuned, seed: int) -> RunConfig:
        spec = self._spec.model_copy(update={"tuned": {self._job.mix: tuned}})
        return spec.config(Request(self._job.mix, self._job.size, seed))

    def _note(self, place: int, report: Report) -> None:
        curve, config, target = self._curves[place], self._configs[place], self._spec.target
        if report.evaluation is not None:
            curve.append(report.evaluation)
        reached = learned_at(curve, target)
        if reached is None and report.outcome is None:
            return
        self._known[place] = TuningRun(
            config.size,
            config.seed,
            reached,
            curve[-1].accuracy[target] if curve else 0.0,
            self._family.steps(config),
            diverged=report.outcome is not None and report.outcome.status is Status.DIVERGED,
            seconds=(time.perf_counter() - self._begun) / len(self._places),
        )
        write_run(self._paths[place], self._known[place])
