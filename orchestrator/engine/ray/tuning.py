"""A study under Ray Tune: each of Tune's trials is a stack of the study's runs.

Which runs are wanted is the study's business, and Optuna's which values they have; Tune only places them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import Callback, Stopper
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from orchestrator.engine.ray.engine import NotPickled, SlotScheduler, traceback_of
from orchestrator.engine.ray.trial import hide_unasked_gpus
from orchestrator.engine.study import Study
from orchestrator.engine.tuning_job import TuningJob
from orchestrator.engine.tuning_worker import TuningWorker
from orchestrator.errors import SweepError
from orchestrator.space.resources import Resources
from orchestrator.tuning.objective import TuningRun

RUNS = "runs"


def run_study(study: Study, slots: int, resources: Resources, storage: Path) -> None:
    """Train the runs that a study lacks, ``slots`` stacks at a time. Ray Tune's own files go to ``storage``.

    Raises :class:`SweepError` when a stack fails for good.
    """
    failures: list[str] = []
    tuner = tune.Tuner(
        tune.with_resources(TuningStack, {"cpu": resources.cpu_per_stack, "gpu": resources.gpus}),
        tune_config=tune.TuneConfig(
            search_alg=_StudySearcher(study, slots),
            scheduler=SlotScheduler(),  # type: ignore[no-untyped-call] # its base has no types
            num_samples=-1,
            max_concurrent_trials=slots,
            reuse_actors=True,
            trial_dirname_creator=lambda trial: str(trial.config["job"]["name"]),
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
    if failures:
        raise SweepError(f"a run of tuning {study.mix} failed:\n{failures[0]}")


class TuningStack(tune.Trainable):
    """Reused from stack to stack. Every result holds all runs that have ended."""

    def setup(self, config: dict[str, Any]) -> None:
        hide_unasked_gpus()
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        self._worker.advance()
        return {RUNS: [(number, vars(run)) for number, run in self._worker.ended], "done": self._worker.done}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Ray keeps none: runs that finished are on disk."""

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Ray keeps none: runs that finished are on disk."""

    def _begin(self, config: dict[str, Any]) -> None:
        self._worker = TuningWorker(TuningJob.from_config(config["job"]))


class _StudySearcher(NotPickled, Searcher):
    """Suggests the stacks a study wants."""

    def __init__(self, study: Study, slots: int) -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._study = study
        self._slots = slots

    def suggest(self, trial_id: str) -> Any:
        if self._study.done:
            return Searcher.FINISHED
        job = self._study.next_job(self._slots)
        return None if job is None else {"job": job.to_config()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """What its runs came to was reported with the results."""

    def save(self, checkpoint_path: str) -> None:
        """The study is the memory."""

    def restore(self, checkpoint_path: str) -> None:
        """The study is the memory."""


class _StudyCallback(NotPickled, Callback):
    """Carries results and failures from Tune to the study."""

    def __init__(self, study: Study, failures: list[str]) -> None:
        self._study = study
        self._failures = failures

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        for number, run in result.pop(RUNS, []):
            self._study.ended(number, TuningRun(**run))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._failures.append(traceback_of(trial))
        self._study.stopping = True


class _StudyStopper(NotPickled, Stopper):
    """Ends the experiment when the study is being stopped."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._study.stopping
