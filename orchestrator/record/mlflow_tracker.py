"""Record in MLflow: one experiment per search space, and one run per sweep, which nests its runs and transitions.

It uses only :class:`mlflow.MlflowClient`, because the fluent interface has one active run per process, shared by
background threads and reused workers. Calls per record are few, since each costs a commit (5-40 ms on SQLite).
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.entities import Experiment, Metric, Param, Run, RunTag, ViewType
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from orchestrator.home.foreign_files import own_directory, own_path
from orchestrator.home.journal import State
from orchestrator.home.run_files import read_origin
from orchestrator.home.sweeps import RunRecord, Sweep
from orchestrator.record import content
from orchestrator.record.content import Content
from orchestrator.record.store import (
    Store,
    StoreError,
    all_runs,
    check,
    hush,
    make_database,
    settle_client,
    store_errors,
)
from orchestrator.report.answer import Answer
from orchestrator.report.drawn import drawn
from trainables.base import Status

log = logging.getLogger(__name__)

NOTE = "mlflow.note.content"
"""Tag that MLflow's page shows as a description."""
KIND = "mlflow.experimentKind"
"""Tag by which MLflow's page distinguishes training runs from traces of language models."""
DIGEST = "digest"
ENDINGS = {State.FINISHED: "FINISHED", State.INTERRUPTED: "KILLED", State.FAILED: "FAILED"}
METRICS_A_CALL, PARAMS_A_CALL = 900, 100
"""Metrics and parameters per call. MLflow accepts 1000 items, at most 100 of them parameters and 100 tags."""
LONGEST_PARAM, LONGEST_TAG = 6000, 5000

Held = dict[str, tuple[str, str]]
"""Records that share an identity: MLflow run id to mix and digest. The digest of an incomplete record is ""."""


class MlflowTracker:
    """Records sweeps in an MLflow store, which it opens with the first record. A single thread calls it.

    Every method raises ``StoreError`` if the store fails. Every method is idempotent: it looks a record up by its
    identity (the sweep's id, the run's key) before creating it. Replaying a log, any number of times, completes
    unfinished records or rebuilds a lost store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        settle_client()
        self._experiments: dict[str, Experiment] = {}
        self._sweeps: dict[str, str] = {}
        """MLflow runs by sweep id. Dropped after a failure, so that the store is read again."""
        self._nested: dict[str, dict[tuple[str, str], Held]] = {}
        """Records in each sweep, by kind and key or mix."""
        self._ended_ms: dict[str, int] = {}
        """End of each sweep's last run, which replays do not change."""

    def begin(self, sweep: Sweep) -> None:
        """Record that a sweep is running, also after an interruption."""
        with self._storing(sweep):
            self._begin(sweep)

    def run_ended(self, sweep: Sweep, run: RunRecord) -> None:
        """Record a run that ended, with its files. Skip it if another sweep of this home trained it: that sweep
        has the record."""
        with self._storing(sweep):
            origin, at_ms = read_origin(run.directory), _ms(run.at or sweep.created)
            self._ended_ms[sweep.id] = max(self._ended_ms.get(sweep.id, 0), at_ms)
            if run.found_in not in ("", sweep.id) and sweep.files.home.sweep(run.found_in).directory.is_dir():
                return
            self._keep(sweep, content.run_content(sweep, run), _ms(origin.ended) if origin else at_ms, run)

    def end(self, sweep: Sweep, answer: Answer, ending: State, files: Sequence[Path] = ()) -> None:
        """Record the answer of a sweep. A later call for the same sweep replaces it."""
        with self._storing(sweep):
            run_id = self._sweeps.get(sweep.id) or self._begin(sweep)
            end_ms = self._ended_ms.get(sweep.id, _ms(sweep.created))
            for mix in answer.mixes:
                if mix.runs:
                    self._keep(sweep, content.transition_content(sweep, answer, mix), end_ms)
            recorded = content.answer_content(sweep, answer, ending)
            self._fill(sweep, run_id, replace(recorded, files={path.name: path for path in files}), end_ms, end_ms)
            tags = {**recorded.tags, NOTE: recorded.note}
            self._client.log_batch(run_id, tags=[RunTag(key, value[:LONGEST_TAG]) for key, value in tags.items()])
            self._client.set_terminated(run_id, ENDINGS[ending], end_ms)

    @contextmanager
    def _storing(self, sweep: Sweep) -> Iterator[None]:
        """Turn errors into ``StoreError`` and forget the sweep's MLflow run after a failure."""
        try:
            with store_errors(self.store):
                yield
        except StoreError:
            self._sweeps.pop(sweep.id, None)
            raise

    def _begin(self, sweep: Sweep) -> str:
        """Find or create the sweep's MLflow run, complete it, set it to running and return its id."""
        recorded = content.sweep_content(sweep)
        experiments, condition = [self._experiment(sweep).experiment_id], f"tags.sweep = '{sweep.id}'"
        runs = all_runs(self._client, experiments, condition)
        run = next((run for run in runs if run.data.tags.get("kind") == "sweep"), None)
        if run is None:  # Its nested records name it as their parent, so a record in the trash comes back.
            trashed = all_runs(self._client, experiments, f"{condition} and tags.kind = 'sweep'", ViewType.DELETED_ONLY)
            if run := next(iter(trashed), None):
                self._client.restore_run(run.info.run_id)
        run = run or self._create(sweep, recorded, {}, _ms(sweep.created))
        missing = {key: value for key, value in recorded.params.items() if key not in run.data.params}
        self._fill(sweep, run.info.run_id, replace(recorded, params=missing), run.info.start_time, run.info.start_time)
        if run.info.status != "RUNNING":
            self._client.update_run(run.info.run_id, status="RUNNING")
        nested: dict[tuple[str, str], Held] = defaultdict(dict)
        for other in runs:
            digest = other.data.tags.get(DIGEST, "") if other.info.status in ENDINGS.values() else ""
            nested[_identity(other.data.tags)][other.info.run_id] = other.data.params.get("mix", ""), digest
        self._sweeps[sweep.id], self._nested[sweep.id] = run.info.run_id, nested
        return self._sweeps[sweep.id]

    def _keep(self, sweep: Sweep, recorded: Content, end_ms: int, run: RunRecord | None = None) -> None:
        """Write a complete nested record, with a picture of the ``run``, unless the store has it. Delete other records
        with its identity, except those of another arm that shares the run."""
        parent = self._sweeps.get(sweep.id) or self._begin(sweep)
        held = self._nested[sweep.id][_identity(recorded.tags)]
        mine = recorded.params.get("mix", "")
        same = next((run_id for run_id, (_, digest) in held.items() if digest == recorded.digest), "")
        for other in [run_id for run_id, (mix, _) in held.items() if mix in ("", mine) and run_id != same]:
            self._client.delete_run(other)
            del held[other]
        if not same:
            start_ms = end_ms - int(recorded.seconds * 1000)
            tags = {MLFLOW_PARENT_RUN_ID: parent, DIGEST: recorded.digest}
            same = self._create(sweep, recorded, tags, start_ms).info.run_id
            with tempfile.TemporaryDirectory() as place:
                figures = drawn("a figure of the record", partial(_picture, sweep, run, Path(place)), _warn_once)
                files = {**(figures or {}), **recorded.files}
                self._fill(sweep, same, replace(recorded, files=files), start_ms, end_ms)
            failed = recorded.tags.get("status") == Status.FAILED
            self._client.set_terminated(same, "FAILED" if failed else "FINISHED", end_ms)
        held[same] = mine, recorded.digest

    def _create(self, sweep: Sweep, recorded: Content, tags: dict[str, str], start_ms: int) -> Run:
        all_tags = {**recorded.tags, **tags, NOTE: recorded.note}
        shortened = {key: value[:LONGEST_TAG] for key, value in all_tags.items()}
        return self._client.create_run(self._experiment(sweep).experiment_id, start_ms, shortened, recorded.name)

    def _fill(self, sweep: Sweep, run_id: str, recorded: Content, start_ms: int, end_ms: int) -> None:
        """Write parameters, metrics and artifacts. Repeating the call adds nothing."""
        metrics = [
            Metric(sample.name, sample.value, start_ms + int(sample.progress * (end_ms - start_ms)), sample.step)
            for sample in recorded.samples
        ]
        params = [Param(key, value[:LONGEST_PARAM]) for key, value in recorded.params.items()]
        while metrics or params:
            self._client.log_batch(run_id, metrics[:METRICS_A_CALL], params[:PARAMS_A_CALL])
            metrics, params = metrics[METRICS_A_CALL:], params[PARAMS_A_CALL:]
        if recorded.texts or recorded.files:
            with tempfile.TemporaryDirectory() as staged:
                for name, text in recorded.texts.items():
                    (Path(staged) / name).write_text(text, encoding="utf-8")
                for name, path in recorded.files.items():
                    (Path(staged) / name).parent.mkdir(exist_ok=True)
                    shutil.copyfile(path, Path(staged) / name)
                if (files := self.store.files_of(sweep.spec.name, run_id)) is None:
                    self._client.log_artifacts(run_id, staged)
                else:  # MLflow would use the path that the home had when its experiment was created.
                    _copy(Path(staged), own_directory(files, "artifacts"))

    def _experiment(self, sweep: Sweep) -> Experiment:
        """Return the sweep's experiment. Create it, or restore it from MLflow's trash, if necessary."""
        name = sweep.spec.name
        if name not in self._experiments:
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                tags = {NOTE: sweep.spec.question, KIND: "custom_model_development"}
                # If another sweep creates it first, the recorder tries again.
                experiment = self._client.get_experiment(
                    self._client.create_experiment(name, self.store.location_of(name), tags)
                )
            if experiment.lifecycle_stage == "deleted":
                self._client.restore_experiment(experiment.experiment_id)
            self._experiments[name] = experiment
        return self._experiments[name]

    @cached_property
    def _client(self) -> MlflowClient:
        hush()
        if self.store.database is not None:
            check(self.store)  # MLflow itself retries a damaged file for hours.
            make_database(self.store.database)
        return MlflowClient(self.store.uri)


def remove_sweep(store: Store, experiment: str, sweep_id: str) -> int:
    """Delete a sweep's records and artifacts permanently, and return the number of records. A server only moves records
    to MLflow's trash, where they stay without artifacts until `mlflow gc`."""
    if store.database is not None and not store.database.is_file():
        return 0
    with store_errors(store):
        client = MlflowClient(store.uri)
        known = client.get_experiment_by_name(experiment)
        if known is None:
            return 0
        runs = all_runs(client, [known.experiment_id], f"tags.sweep = '{sweep_id}'", ViewType.ALL)
        # What `mlflow gc` does for one run. The command would empty the whole trash of experiments.
        for_good = getattr(client._tracking_client.store, "_hard_delete_run", None)
        for run in runs:
            if run.info.lifecycle_stage == "active":
                client.delete_run(run.info.run_id)
            if (place := store.files_of(experiment, run.info.run_id)) is not None:
                shutil.rmtree(place, ignore_errors=True)
            elif urlsplit(run.info.artifact_uri).scheme not in ("", "file"):  # A server cannot name files here.
                files = get_artifact_repository(run.info.artifact_uri, store.uri)
                files.delete_artifacts()  # type: ignore[no-untyped-call]
            if for_good is not None:
                for_good(run.info.run_id)
        return len(runs)


def _copy(source: Path, target: Path) -> None:
    """Copy files into a directory of artifacts, and do not write through links there."""
    for path in sorted(source.rglob("*")):
        inner = path.relative_to(source)
        own_directory(target, *inner.parts[:-1])
        if path.is_dir():
            (target / inner).mkdir(parents=True, exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, own_path(target / inner))


def _identity(tags: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind of a nested record, and the key of its run or its mix."""
    return tags.get("kind", ""), tags.get("run_key") or tags.get("mix", "")


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


def _picture(sweep: Sweep, run: RunRecord | None, place: Path) -> dict[str, Path]:
    """Draw a run's similarities, but only for the first seed of each size: a picture takes 120 ms, as long as the rest
    of the record. Unlike the best seed, the first is the same in every replay."""
    from orchestrator.report.figures.probes import SIMILARITY, save_similarity

    if run is None or run.config.seed != sweep.spec.seed:
        return {}
    config, path = run.config, place / f"{SIMILARITY}.png"
    title = f"{config.label}, {sweep.spec.size_axis} {config.size}, seed {config.seed}"
    return {path.name: path} if save_similarity(run.directory, path, title, sweep.spec.family_class.words) else {}


def _ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
