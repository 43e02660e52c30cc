"""Trains one trial of a study: runs with its values at each size, each no further than to where it has learned."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from orchestrator.engine.device import prepare_device
from orchestrator.engine.files import Home, write_whole
from orchestrator.engine.study import TrialJob
from orchestrator.search.base import Request
from orchestrator.spec import SweepSpec
from orchestrator.tuning.objective import TuningRun, learned_at
from trainables.base import Evaluation, Learner, Report, RunConfig, Status


class TuningWorker:
    """The seeds of a size are one stack, the sizes come one after another. Runs that finished before are read back."""

    def __init__(self, job: TrialJob) -> None:
        self._spec = SweepSpec.model_validate(job.space)
        self._family = self._spec.make_family()
        self._mix = job.mix
        self._cache = Home(Path(job.home)).data
        self._directory = Home(Path(job.home)).study(job.study) / "runs"
        prepare_device(self._spec.resources)
        self._left = list(job.sizes)
        self.runs: list[TuningRun] = []
        self._stack: _Stack | None = None
        self._skip_known()

    @property
    def done(self) -> bool:
        """True when every run has ended; then :attr:`runs` holds them all."""
        return not self._left

    def advance(self) -> None:
        """Train to the next evaluation. What ended is on disk before this returns."""
        if self._stack is None:
            configs = self._configs(self._left[0])
            learner = self._family.learner(configs, device=self._spec.resources.device, cache=self._cache)
            steps = self._family.steps(configs[0])
            self._stack = _Stack(learner, configs, self._spec.target, steps)
        runs = self._stack.advance()
        if runs is not None:
            for config, run in zip(self._configs(self._left[0]), runs, strict=True):
                write_whole(self._path(config), json.dumps(asdict(run)))
            self._stack = None
            self._skip_known()

    def _skip_known(self) -> None:
        """Read back the sizes all of whose runs have ended."""
        while self._left:
            paths = [self._path(config) for config in self._configs(self._left[0])]
            if not all(path.is_file() for path in paths):
                return
            self.runs += [TuningRun(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]
            self._left.pop(0)

    def _configs(self, size: int) -> list[RunConfig]:
        return [self._spec.config(Request(self._mix, size, seed)) for seed in self._spec.seed_list]

    def _path(self, config: RunConfig) -> Path:
        return self._directory / f"{self._family.key(config)}.json"


class _Stack:
    """The runs of one size under way."""

    def __init__(self, learner: Learner, configs: list[RunConfig], target: str, steps: int) -> None:
        self._learner = learner
        self._configs = configs
        self._target = target
        self._steps = steps
        self._curves: list[list[Evaluation]] = [[] for _ in configs]
        self._ended: dict[int, TuningRun] = {}
        self._begun = time.perf_counter()

    def advance(self) -> list[TuningRun] | None:
        """Train to the next evaluation; every run once all have ended, None before."""
        for report in self._learner.advance():
            if report.index not in self._ended:
                self._note(report)
        if len(self._ended) < len(self._configs):
            return None
        return [self._ended[index] for index in range(len(self._configs))]

    def _note(self, report: Report) -> None:
        curve, config = self._curves[report.index], self._configs[report.index]
        if report.evaluation is not None:
            curve.append(report.evaluation)
        reached = learned_at(curve, self._target)
        if reached is None and report.outcome is None:
            return
        self._ended[report.index] = TuningRun(
            config.size,
            config.seed,
            reached,
            curve[-1].accuracy[self._target] if curve else 0.0,
            self._steps,
            diverged=report.outcome is not None and report.outcome.status is Status.DIVERGED,
            seconds=(time.perf_counter() - self._begun) / len(self._configs),
        )
