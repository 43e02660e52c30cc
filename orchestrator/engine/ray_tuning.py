"""A study under Ray Tune: Optuna's tree-structured Parzen estimator suggests values, each trial trains a few runs.

No trial is pruned but by divergence: a model that learns late is what is studied, not a bad sign.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import optuna
from ray import tune
from ray.tune import Callback, Stopper
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

from orchestrator.engine.study import Study, TrialJob
from orchestrator.engine.trial import hide_unasked_gpus
from orchestrator.engine.tuning_worker import TuningWorker
from orchestrator.errors import SweepError
from orchestrator.spec import Resources
from orchestrator.tuning.objective import TuningRun, mean_score
from orchestrator.tuning.space import Range

SCORE = "score"
RUNS = "runs"
WORST = 1e12
"""The score of a trial that has not ended: Tune wants one with every result."""
RANDOM_SHARE = 3
"""One in so many trials is drawn at random before the estimator begins."""


def run_study(study: Study, slots: int, resources: Resources, storage: Path) -> None:
    """Train the trials that a study lacks, ``slots`` at a time. Ray Tune's own files go to ``storage``.

    Raises :class:`SweepError` when a trial fails for good.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("ray.tune.search.optuna").setLevel(logging.ERROR)
    failures = _Failures()
    tuner = tune.Tuner(
        tune.with_resources(TuningTrial, {"cpu": resources.cpu_per_stack, "gpu": resources.gpus}),
        tune_config=tune.TuneConfig(
            search_alg=StudySearch(study),
            scheduler=FIFOScheduler(),
            num_samples=-1,
            max_concurrent_trials=slots,
            reuse_actors=True,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(storage.resolve()),
            verbose=0,
            stop=_StudyStopper(study),
            callbacks=[_StudyCallback(study, failures)],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=resources.retries),
        ),
    )
    tuner.fit()
    if failures.texts:
        raise SweepError(f"a trial of tuning {study.mix} failed:\n{failures.texts[0]}")


class TuningTrial(tune.Trainable):
    """Reused from trial to trial. Its score is the worst possible one until all of its runs have ended."""

    def setup(self, config: dict[str, Any]) -> None:
        hide_unasked_gpus()
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        if not self._worker.done:
            self._worker.advance()
        runs = [vars(run) for run in self._worker.runs]
        score = mean_score(self._worker.runs, self._penalty) if self._worker.done else WORST
        return {SCORE: score, RUNS: runs, "done": self._worker.done}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Ray keeps none: runs that finished are on disk."""

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Ray keeps none: runs that finished are on disk."""

    def _begin(self, config: dict[str, Any]) -> None:
        self._penalty = float(config["penalty"])
        self._worker = TuningWorker(TrialJob.from_config(config["job"]))


class StudySearch(OptunaSearch):
    """Suggests a study's trials: those it began and did not end, its default values, then what Optuna makes of the
    ones that ended."""

    def __init__(self, study: Study) -> None:
        known = [trial for trial in study.trials if trial.score is not None]
        open_trials = [dict(trial.values) for trial in study.trials if trial.score is None]
        first = [] if study.trials else [study.default] if study.default else []
        sampler = optuna.samplers.TPESampler(
            # Another stream after an interruption, or the first suggestions would come again.
            seed=study.asked.seed + len(study.trials),
            n_startup_trials=max(2, study.asked.trials // RANDOM_SHARE),
            constant_liar=True,
        )
        super().__init__(
            {path: _distribution(span) for path, span in study.asked.settings.items()},
            metric=SCORE,
            mode="min",
            sampler=sampler,
            points_to_evaluate=[*open_trials, *first],
        )
        for trial in known:
            self.add_evaluated_point(trial.values, trial.score or 0.0)
        self._study = study
        self._left = study.asked.trials - len(known)

    def suggest(self, trial_id: str) -> Any:
        if self._study.stopping or self._left < 1:
            return Searcher.FINISHED
        self._left -= 1
        values: dict[str, float] = dict(super().suggest(trial_id) or {})
        number = self._study.begin(values)
        job = self._study.job(number)
        return {"job": job.to_config(), "penalty": self._study.asked.penalty}

    def save(self, checkpoint_path: str) -> None:
        """The study is the memory."""

    def restore(self, checkpoint_path: str) -> None:
        """The study is the memory."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Failures:
    """Tracebacks of trials that failed for good."""

    def __init__(self) -> None:
        self.texts: list[str] = []


class _StudyCallback(Callback):
    """Carries results and failures from Tune to the study."""

    def __init__(self, study: Study, failures: _Failures) -> None:
        self._study = study
        self._failures = failures

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        if result.get("done") and RUNS in result:
            runs = tuple(TuningRun(**run) for run in result[RUNS])
            self._study.ended(int(trial.config["job"]["number"]), runs)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        path = trial.error_file
        text = Path(path).read_text(encoding="utf-8") if path and Path(path).exists() else "Ray left no traceback"
        self._failures.texts.append(text)
        self._study.stopping = True

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _StudyStopper(Stopper):
    """Ends the experiment when the study is being stopped."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._study.stopping

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _distribution(span: Range) -> optuna.distributions.FloatDistribution:
    return optuna.distributions.FloatDistribution(span.low, span.high, log=span.scale == "log")


def _trial_name(trial: Trial) -> str:
    return f"trial-{trial.config['job']['number']:04d}-{trial.trial_id}"
