"""Writes the record to MLflow: an experiment per search space, with a run per sweep. The runs and transitions of a
sweep are nested in its run.

Only :class:`mlflow.MlflowClient` is used. The fluent interface has one active run per process, which background threads
and reused workers would share. There are few calls per record, because each costs a commit (5-40 ms on SQLite).
"""

from __future__ import annotations

import logging
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Experiment, Metric, Param, Run, RunTag, ViewType
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from orchestrator.home.safe_writing import open_plain, own_directory, own_file
from orchestrator.jobs.state import State
from orchestrator.record.mlflow_store import (
    Store,
    address_flaw,
    all_runs,
    check_store,
    hush,
    limit_client_waits,
    make_database,
    store_errors,
)
from orchestrator.record.mlflow_views import outdated, views
from orchestrator.record.names_and_values import mlflow_name
from orchestrator.record.tracker import Content, StoreError, Tracker
from orchestrator.report.drawing import try_to_draw
from orchestrator.system.environment import temporary_directory
from orchestrator.system.files import files_below, opened_parent, remove_tree
from orchestrator.system.reading_time import check_reading_time
from trainables.base import Status

log = logging.getLogger(__name__)

NOTE_TAG = "mlflow.note.content"
"""Tag that MLflow's page shows as a description."""
KIND_TAG = "mlflow.experimentKind"
"""Tag by which MLflow's page distinguishes training runs from traces of language models."""
DIGEST_TAG = "digest"
"""Tag with the digest of a nested record, by which equal records are recognized."""
ENDINGS = {State.FINISHED: "FINISHED", State.INTERRUPTED: "KILLED", State.FAILED: "FAILED"}
"""MLflow's status for each state in which a sweep ends."""
METRICS_A_CALL = 900
"""Maximum number of metrics per call. MLflow accepts 1000 items, at most 100 of them parameters and 100 tags."""
PARAMS_A_CALL = 100
"""Maximum number of parameters per call."""
LONGEST_PARAM = 6000
"""Maximum number of characters of a parameter in MLflow."""
LONGEST_TAG = 5000
"""Maximum number of characters of a tag in MLflow."""

NestedRuns = dict[str, tuple[str, str]]
"""Mix and digest of the records that share an identity, by MLflow's run id. An incomplete record has no digest ("")."""


class MlflowTracker(Tracker):
    """Records sweeps in an MLflow store. It opens the store at the first record."""

    def __init__(self, store: Store) -> None:
        self.store = store
        limit_client_waits()
        self._experiments: dict[str, Experiment] = {}
        self._sweeps: dict[str, str] = {}
        """Ids of MLflow runs by sweep id. An id is removed after a failure, so that the store is read again."""
        self._nested: dict[str, dict[tuple[str, str], NestedRuns]] = {}
        """Records in each sweep, by kind and key or mix."""

    def begin(self, sweep: Content) -> None:
        with self._storing(sweep):
            run = self._open(sweep)
            if run.info.status != "RUNNING":
                self._client.update_run(run.info.run_id, status="RUNNING")

    def keep(self, sweep: Content, record: Content) -> None:
        with self._storing(sweep):
            self._keep(sweep, record)

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        with self._storing(sweep):
            run_id = self._sweeps.get(sweep.sweep) or self._open(sweep).info.run_id
            end_ms = _ms(answer.ended)
            self._fill(answer, run_id, end_ms, end_ms)
            tags = {**answer.tags, NOTE_TAG: answer.note}
            self._client.log_batch(run_id, tags=[RunTag(key, value[:LONGEST_TAG]) for key, value in tags.items()])
            self._client.set_terminated(run_id, ENDINGS[state], end_ms)

    @contextmanager
    def _storing(self, sweep: Content) -> Iterator[None]:
        """Turn errors into ``StoreError``. After a failure, forget the id of the sweep's MLflow run."""
        try:
            with store_errors(self.store, sweep.group):
                yield
        except StoreError:
            self._sweeps.pop(sweep.sweep, None)
            raise

    def _open(self, sweep: Content) -> Run:
        """Find the sweep's MLflow run or create a running one. Add its missing content, and return it."""
        experiments = [self._experiment(sweep).experiment_id]
        condition = f"tags.sweep = '{sweep.sweep}'"
        runs = all_runs(self._client, experiments, condition)
        run = next((run for run in runs if run.data.tags.get("kind") == "sweep"), None)
        if run is None:
            # Nested records name the sweep's run as their parent, so restore it from the trash instead of a new one.
            trashed = all_runs(self._client, experiments, f"{condition} and tags.kind = 'sweep'", ViewType.DELETED_ONLY)
            if run := next(iter(trashed), None):
                self._client.restore_run(run.info.run_id)
        run = run or self._create(sweep, {}, _ms(sweep.ended))
        missing = {key: value for key, value in sweep.params.items() if key not in run.data.params}
        self._fill(replace(sweep, params=missing), run.info.run_id, run.info.start_time, run.info.start_time)
        nested: dict[tuple[str, str], NestedRuns] = defaultdict(dict)
        for other in runs:
            digest = other.data.tags.get(DIGEST_TAG, "") if other.info.status in ENDINGS.values() else ""
            nested[_identity(other.data.tags)][other.info.run_id] = other.data.params.get("mix", ""), digest
        self._sweeps[sweep.sweep] = run.info.run_id
        self._nested[sweep.sweep] = nested
        return run

    def _keep(self, sweep: Content, record: Content) -> None:
        """Write a complete nested record, with its picture, unless the store has it. Delete other records with its
        identity, except records of another mix that shares the run."""
        parent = self._sweeps.get(sweep.sweep) or self._open(sweep).info.run_id
        stored = self._nested[sweep.sweep][_identity(record.tags)]
        own_mix = record.params.get("mix", "")
        same = next((run_id for run_id, (_, digest) in stored.items() if digest == record.digest), "")
        for other in [run_id for run_id, (mix, _) in stored.items() if mix in ("", own_mix) and run_id != same]:
            self._client.delete_run(other)
            del stored[other]
        if not same:
            end_ms = _ms(record.ended)
            start_ms = end_ms - int(record.seconds * 1000)
            same = self._create(record, {MLFLOW_PARENT_RUN_ID: parent, DIGEST_TAG: record.digest}, start_ms).info.run_id
            with temporary_directory("record-") as directory:
                pictures = try_to_draw("a figure of the record", partial(record.draw, directory), _warn_once)
                files = {**(pictures or {}), **record.files}
                self._fill(replace(record, files=files), same, start_ms, end_ms)
            failed = record.tags.get("status") == Status.FAILED
            self._client.set_terminated(same, "FAILED" if failed else "FINISHED", end_ms)
        stored[same] = own_mix, record.digest

    def _create(self, record: Content, tags: dict[str, str], start_ms: int) -> Run:
        all_tags = {**record.tags, **tags, NOTE_TAG: record.note}
        shortened = {key: value[:LONGEST_TAG] for key, value in all_tags.items()}
        return self._client.create_run(self._experiment(record).experiment_id, start_ms, shortened, record.name)

    def _fill(self, record: Content, run_id: str, start_ms: int, end_ms: int) -> None:
        """Write parameters, metrics and artifacts. Repeating the call adds nothing."""
        metrics = [
            Metric(sample.name, sample.value, start_ms + int(sample.progress * (end_ms - start_ms)), sample.step)
            for sample in record.samples
        ]
        params = [Param(key, value[:LONGEST_PARAM]) for key, value in record.params.items()]
        while metrics or params:
            check_reading_time()  # A learning curve may have a million values, and 1,000 take 70 ms.
            self._client.log_batch(run_id, metrics[:METRICS_A_CALL], params[:PARAMS_A_CALL])
            metrics = metrics[METRICS_A_CALL:]
            params = params[PARAMS_A_CALL:]
        if record.texts or record.files:
            with temporary_directory("record-") as staged:
                for name, text in record.texts.items():
                    (staged / name).write_text(text, encoding="utf-8")
                for name, path in record.files.items():
                    (staged / name).parent.mkdir(exist_ok=True)
                    shutil.copyfile(path, staged / name)
                if (files := self.store.files_of(record.group, run_id)) is None:
                    self._send(staged, record.group, run_id)
                else:  # MLflow itself would use the path that the home had when its experiment was created.
                    _copy(staged, own_directory(files, "artifacts"))

    def _send(self, staged: Path, experiment: str, run_id: str) -> None:
        """Send files to a server. Raises :class:`StoreError` if MLflow would send them elsewhere."""
        address = self._client.get_run(run_id).info.artifact_uri
        if flaw := address_flaw(self.store, address):
            raise StoreError(
                f"the MLflow store {self.store.shown}: the experiment {experiment} keeps its files at {address[:200]}, "
                f"which {flaw}. Its creator chose that address: record in an experiment of yours (--set name=NAME), "
                "and tell the server's administrator"
            )
        repository = get_artifact_repository(address, self.store.uri)
        repository.log_artifacts(str(staged))  # type: ignore[no-untyped-call]

    def _experiment(self, record: Content) -> Experiment:
        """Return the experiment of a record's group. Create it, or restore it from MLflow's trash, if necessary."""
        name = record.group
        if name not in self._experiments:
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                # The first record of a group is always a sweep's, so it has the tags. If another sweep creates the
                # experiment first, this call fails, and the recorder tries again.
                tags = {NOTE_TAG: record.tags.get("question", ""), KIND_TAG: "custom_model_development"}
                experiment = self._client.get_experiment(
                    self._client.create_experiment(name, self.store.location_of(name), tags)
                )
            if experiment.lifecycle_stage == "deleted":
                self._client.restore_experiment(experiment.experiment_id)
            for key, view in outdated(_views(record), experiment.tags).items():
                self._client.set_experiment_tag(experiment.experiment_id, key, view)
            self._experiments[name] = experiment
        return self._experiments[name]

    @cached_property
    def _client(self) -> MlflowClient:
        hush()
        if self.store.database is not None:
            check_store(self.store)  # MLflow itself would retry a damaged file for hours.
            make_database(self.store.database)
        return MlflowClient(self.store.uri)


def delete_record(store: Store, experiment: str, sweep_id: str) -> int:
    """Delete a sweep's records and artifacts permanently, and return the number of records.

    A server only moves records to MLflow's trash, where they stay without artifacts until `mlflow gc`.
    """
    if store.database is not None and not store.database.is_file():
        return 0
    with store_errors(store, experiment):
        client = MlflowClient(store.uri)
        known = client.get_experiment_by_name(experiment)
        if known is None:
            return 0
        runs = all_runs(client, [known.experiment_id], f"tags.sweep = '{sweep_id}'", ViewType.ALL)
        # The method that `mlflow gc` calls for one run. The command itself would empty the whole trash of experiments.
        delete_permanently = getattr(client._tracking_client.store, "_hard_delete_run", None)
        for run in runs:
            if run.info.lifecycle_stage == "active":
                client.delete_run(run.info.run_id)
            if (directory := store.files_of(experiment, run.info.run_id)) is not None:
                remove_tree(directory)
            elif flaw := address_flaw(store, run.info.artifact_uri):
                _warn_once(f"the files at {run.info.artifact_uri[:200]} stay: that address {flaw}")
            else:
                files = get_artifact_repository(run.info.artifact_uri, store.uri)
                files.delete_artifacts()  # type: ignore[no-untyped-call]
            if delete_permanently is not None:
                delete_permanently(run.info.run_id)
        return len(runs)


def _copy(source: Path, target: Path) -> None:
    """Copy files into a directory of artifacts. Do not write through links there."""
    for path in files_below(source):
        inner = path.relative_to(source)
        own_directory(target, *inner.parts[:-1])
        with opened_parent(target / inner, make=True):  # Others may exchange a directory of a shared store for a link.
            pass
        with path.open("rb") as content, open(own_file(target / inner), "wb", opener=open_plain) as copy:
            shutil.copyfileobj(content, copy)


def _identity(tags: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind of a nested record, and the key of its run or, for a transition, its mix."""
    return tags.get("kind", ""), tags.get("run_key") or tags.get("mix", "")


def _views(record: Content) -> dict[str, str]:
    """Return the views of a sweep's experiment. A list of jobs has none."""
    axis = record.params.get("size_axis")
    target = record.params.get("target")
    return {} if axis is None or target is None else views(mlflow_name(axis), mlflow_name(target))


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


def _ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
