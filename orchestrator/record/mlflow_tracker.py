"""The record in MLflow: one experiment a search space, one run a sweep, and nested in it its runs and transitions.

Only :class:`mlflow.MlflowClient`: the fluent interface keeps one active run per process, which background threads and
reused workers would share. Few calls a record, because each costs a commit (5-40 ms on SQLite).
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils import get_results_from_paginated_fn
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from orchestrator.home.run_files import read_origin
from orchestrator.home.sweeps import FIGURE, RunRecord, Sweep
from orchestrator.record import content, transition_content, views
from orchestrator.record.content import Content
from orchestrator.record.recorder import Ending, Tracker
from orchestrator.record.store import Store, check, make_database, settle_client, store_errors
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.figures.probes import save_pictures
from orchestrator.report.figures.style import save, save_both
from orchestrator.report.figures.transitions import curve_figure
from trainables.base import Status

NOTE = "mlflow.note.content"
"""The tag that MLflow's page shows as a description."""
KIND = "mlflow.experimentKind"
"""The tag by which MLflow's page tells training runs from traces of language models."""
DIGEST = "digest"
CURVE = "curve.png"
ENDINGS = {Ending.FINISHED: "FINISHED", Ending.INTERRUPTED: "KILLED", Ending.FAILED: "FAILED"}
METRICS_A_CALL, PARAMS_A_CALL, ROWS_A_PAGE = 900, 100, 1000
"""MLflow takes 1000 metrics, parameters and tags in one call, at most 100 of them parameters and 100 tags."""
LONGEST_PARAM, LONGEST_TAG = 6000, 5000
QUIET = {
    "alembic": logging.WARNING,
    "mlflow.store.db.utils": logging.CRITICAL,
    "mlflow.system_metrics.system_metrics_monitor": logging.CRITICAL,
}
"""Loggers that narrate migrations, or repeat what the recorder reports."""


class MlflowTracker(Tracker):
    """Keeps sweeps in an MLflow store; the first record touches it first.

    ``measuring`` lets MLflow's own monitor record how busy this machine is (``system/...``) from :meth:`begin` to
    :meth:`end`.
    """

    def __init__(self, store: Store, *, measuring: bool = False) -> None:
        self.store = store
        settle_client()
        self._measuring = measuring
        self._monitor: SystemMetricsMonitor | None = None
        self._experiments: dict[str, str] = {}
        """Ids of experiments by name."""
        self._sweeps: dict[str, str] = {}
        self._held: dict[tuple[str, str], str] = {}
        """Every run the store may hold (sweep, key), with its record's digest, or ``""`` if it may be torn."""
        self._ended_ms: dict[str, int] = {}
        """End of each sweep's last run: the same at every replay."""

    def begin(self, sweep: Sweep) -> None:
        with store_errors(self.store):
            self._begin(sweep)
            if self._measuring and self._monitor is None:
                run_id = self._sweeps[sweep.id]
                self._monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=self.store.uri)  # type: ignore[no-untyped-call]
                self._monitor.start()  # type: ignore[no-untyped-call]

    def run_ended(self, sweep: Sweep, run: RunRecord) -> None:
        with store_errors(self.store):
            recorded, who = content.run_content(sweep, run), (sweep.id, run.key)
            origin = read_origin(run.directory)
            end_ms = _ms(origin.ended if origin else run.at or sweep.created)
            self._sweep_run(sweep)
            self._ended_ms[sweep.id] = max(self._ended_ms.get(sweep.id, 0), _ms(run.at or sweep.created))
            if self._held.get(who) == recorded.digest:
                return
            if who not in self._held or not self._holds(sweep, recorded, {"run_key": run.key}):
                self._held[who] = ""
                status = "FAILED" if run.outcome.status is Status.FAILED else "FINISHED"
                with tempfile.TemporaryDirectory() as drawn:
                    files = {**self._pictures(sweep, run, Path(drawn)), **recorded.files}
                    self._write(sweep, replace(recorded, files=files), status, end_ms)
            self._held[who] = recorded.digest

    def so_far(self, sweep: Sweep, answer: Answer) -> None:
        with store_errors(self.store):
            for mix in answer.mixes:
                if mix.runs:
                    self._provisional(sweep, transition_content.provisional_content(sweep, answer, mix))
            said = f"so far: {transition_content.answer_words(answer)}"
            self._client.set_tag(self._sweep_run(sweep), "answer", said[:LONGEST_TAG])

    def end(self, sweep: Sweep, answer: Answer, ending: Ending, files: Sequence[Path] = ()) -> None:
        with store_errors(self.store), tempfile.TemporaryDirectory() as drawn:
            if self._monitor is not None:
                self._monitor.finish()  # type: ignore[no-untyped-call]
                self._monitor = None
            run_id = self._sweep_run(sweep)
            end_ms = self._ended_ms.get(sweep.id, _ms(sweep.created))
            for place, mix in enumerate(answer.mixes):
                if mix.runs:
                    self._transition(sweep, answer, mix, Path(drawn) / str(place), end_ms)
            self._end(sweep, answer, ending, files, Path(drawn), end_ms, self._client.get_run(run_id))

    def _pictures(self, sweep: Sweep, run: RunRecord, drawn: Path) -> dict[str, Path]:
        """Pictures of a run's arrays, for the first seed of each size: one takes 120 ms, as long as the rest of a
        record. Not the best seed, so that a replay draws the same at any time."""
        config = run.config
        if config.seed != sweep.spec.seed or config.steps_factor > 1:
            return {}
        title = f"{config.label}, {sweep.spec.size_axis} {config.size}, seed {config.seed}"
        return save_pictures(run.directory, drawn, title, sweep.spec.family_class.words)

    def _begin(self, sweep: Sweep) -> str:
        """The sweep's MLflow run, found or created, completed and set running."""
        recorded = content.sweep_content(sweep)
        found = self._find(sweep, {"kind": "sweep"})
        run = found[0] if found else self._create(sweep, recorded, {}, _ms(sweep.created))
        missing = {key: value for key, value in recorded.params.items() if key not in run.data.params}
        self._fill(run.info.run_id, replace(recorded, params=missing), run.info.start_time, run.info.start_time)
        if run.info.status != "RUNNING":
            self._client.update_run(run.info.run_id, status="RUNNING")
        for other in self._find(sweep, {"kind": "run"}):
            digest = other.data.tags.get(DIGEST, "") if _ended(other) else ""
            self._held[sweep.id, other.data.tags["run_key"]] = digest
        self._save_views(sweep)
        self._sweeps[sweep.id] = run.info.run_id
        for tuning in sweep.tunings:
            tuned = content.tuning_content(sweep, tuning)
            if not self._holds(sweep, tuned, {"mix": tuning.mix}):
                self._write(sweep, tuned, "FINISHED", _ms(sweep.created))
        return self._sweeps[sweep.id]

    def _end(
        self, sweep: Sweep, answer: Answer, ending: Ending, files: Sequence[Path], drawn: Path, end_ms: int, run: Run
    ) -> None:
        recorded = transition_content.answer_content(sweep, answer, ending)
        run_id = run.info.run_id
        kept = {path.name: path for path in files}
        known = run.data.tags.get(DIGEST) == recorded.digest
        if FIGURE not in kept and not known:
            figure = main_figure(sweep.spec, answer)
            kept |= {path.name: path for path in save_both(figure, drawn, Path(FIGURE).stem)}
        # Metrics cannot be taken back, so only a finished answer becomes one, and each answer once.
        samples = recorded.samples if ending is Ending.FINISHED and not known else ()
        self._fill(run_id, replace(recorded, samples=samples, files=kept), end_ms, end_ms)
        tags = {**recorded.tags, NOTE: recorded.note, DIGEST: recorded.digest}
        self._client.log_batch(run_id, tags=[RunTag(key, value[:LONGEST_TAG]) for key, value in tags.items()])
        self._client.set_terminated(run_id, ENDINGS[ending], end_ms)

    def _transition(self, sweep: Sweep, answer: Answer, mix: MixAnswer, drawn: Path, end_ms: int) -> None:
        recorded = transition_content.transition_content(sweep, answer, mix)
        if not self._holds(sweep, recorded, {"mix": mix.mix}):
            figure = curve_figure(sweep.spec, answer, mix.mix)
            files = {CURVE: save(figure, drawn / CURVE)}
            self._write(sweep, replace(recorded, files=files), "FINISHED", end_ms)

    def _provisional(self, sweep: Sweep, recorded: Content) -> None:
        """Bring the provisional record of a transition up to date, or begin it. It stays running, so that the final
        record replaces it."""
        now_ms = _ms(datetime.now(UTC).isoformat())
        found = self._find(sweep, {"kind": "transition", "mix": recorded.tags["mix"], "provisional": "yes"})
        parent = {MLFLOW_PARENT_RUN_ID: self._sweep_run(sweep)}
        run = found[0] if found else self._create(sweep, recorded, parent, now_ms)
        tags = {**recorded.tags, NOTE: recorded.note}
        metrics = [Metric(each.name, each.value, now_ms, each.step) for each in recorded.samples]
        self._client.log_batch(run.info.run_id, metrics, tags=[RunTag(*pair) for pair in tags.items()])

    def _holds(self, sweep: Sweep, recorded: Content, identity: dict[str, str]) -> bool:
        """True if the store holds a nested record as it is. Other records of this identity are deleted."""
        held = False
        for other in self._find(sweep, {"kind": recorded.tags["kind"], **identity}):
            if not held and _ended(other) and other.data.tags.get(DIGEST) == recorded.digest:
                held = True
            else:
                self._client.delete_run(other.info.run_id)
        return held

    def _write(self, sweep: Sweep, recorded: Content, status: str, end_ms: int) -> None:
        """Write a nested record, whole."""
        start_ms = end_ms - int(recorded.seconds * 1000)
        parent = {MLFLOW_PARENT_RUN_ID: self._sweep_run(sweep), DIGEST: recorded.digest}
        run_id = self._create(sweep, recorded, parent, start_ms).info.run_id
        self._fill(run_id, recorded, start_ms, end_ms)
        self._client.set_terminated(run_id, status, end_ms)

    def _create(self, sweep: Sweep, recorded: Content, tags: dict[str, str], start_ms: int) -> Run:
        said = {**recorded.tags, **tags, NOTE: recorded.note}
        shortened = {key: value[:LONGEST_TAG] for key, value in said.items()}
        return self._client.create_run(self._experiment(sweep), start_ms, shortened, recorded.name)

    def _fill(self, run_id: str, recorded: Content, start_ms: int, end_ms: int) -> None:
        """Parameters, metrics and artifacts; the same arguments a second time add nothing."""
        metrics = [
            Metric(each.name, each.value, start_ms + int(each.progress * (end_ms - start_ms)), each.step)
            for each in recorded.samples
        ]
        params = [Param(key, value[:LONGEST_PARAM]) for key, value in recorded.params.items()]
        self._log(run_id, metrics, params)
        if recorded.texts or recorded.files:
            with tempfile.TemporaryDirectory() as staged:
                for name, text in recorded.texts.items():
                    (Path(staged) / name).write_text(text, encoding="utf-8")
                for name, path in recorded.files.items():
                    (Path(staged) / name).parent.mkdir(exist_ok=True)
                    shutil.copyfile(path, Path(staged) / name)
                self._client.log_artifacts(run_id, staged)

    def _log(self, run_id: str, metrics: Sequence[Metric], params: Sequence[Param]) -> None:
        while metrics or params:
            self._client.log_batch(run_id, metrics[:METRICS_A_CALL], params[:PARAMS_A_CALL])
            metrics, params = metrics[METRICS_A_CALL:], params[PARAMS_A_CALL:]

    def _find(self, sweep: Sweep, tags: dict[str, str]) -> list[Run]:
        """The sweep's records with these tags."""
        conditions = " and ".join(f"tags.`{key}` = '{value}'" for key, value in {"sweep": sweep.id, **tags}.items())
        return _all_runs(self._client, [self._experiment(sweep)], conditions)

    def _sweep_run(self, sweep: Sweep) -> str:
        return self._sweeps.get(sweep.id) or self._begin(sweep)

    def _experiment(self, sweep: Sweep) -> str:
        """Id of the sweep's experiment: found, taken out of MLflow's trash, or made."""
        name = sweep.spec.name
        if name not in self._experiments:
            found = self._client.get_experiment_by_name(name)
            if found is None:
                found = self._client.get_experiment(self._create_experiment(sweep))
            if found.lifecycle_stage == "deleted":
                self._client.restore_experiment(found.experiment_id)
            self._experiments[name] = str(found.experiment_id)
        return self._experiments[name]

    def _create_experiment(self, sweep: Sweep) -> str:
        name, tags = sweep.spec.name, {NOTE: content.experiment_note(sweep.spec), KIND: "custom_model_development"}
        try:
            return str(self._client.create_experiment(name, self.store.location_of(name), tags))
        except MlflowException as error:
            found = self._client.get_experiment_by_name(name)  # Another sweep of the space may have been quicker.
            if error.error_code != "RESOURCE_ALREADY_EXISTS" or found is None:
                raise
            return str(found.experiment_id)

    def _save_views(self, sweep: Sweep) -> None:
        """Save the views that the experiment lacks, or has from an older sweep."""
        experiment = self._experiment(sweep)
        for key, value in views.tags(sweep, self._client.get_experiment(experiment).tags).items():
            self._client.set_experiment_tag(experiment, key, value)

    @cached_property
    def _client(self) -> MlflowClient:
        for name, level in QUIET.items():
            logging.getLogger(name).setLevel(level)
        if self.store.scheme == "sqlite":
            check(self.store)  # MLflow itself tries a damaged file again for hours.
        make_database(self.store)
        return MlflowClient(self.store.uri)


def remove_sweep(store: Store, experiment: str, sweep_id: str) -> int:
    """Delete a sweep's records and their artifacts for good; returns the number of records.

    A server cannot be asked for more than MLflow's trash: there the records stay, without artifacts, until `mlflow gc`.
    """
    with store_errors(store):
        client = MlflowClient(store.uri)
        found = client.get_experiment_by_name(experiment)
        if found is None:
            return 0
        runs = _all_runs(client, [found.experiment_id], f"tags.sweep = '{sweep_id}'", ViewType.ALL)
        # The step of `mlflow gc` for one run. The command itself would empty the whole trash of experiments.
        for_good = getattr(client._tracking_client.store, "_hard_delete_run", None)
        for run in runs:
            if run.info.lifecycle_stage == "active":
                client.delete_run(run.info.run_id)
            files = get_artifact_repository(run.info.artifact_uri, store.uri)
            files.delete_artifacts()  # type: ignore[no-untyped-call]
            if for_good is not None:
                for_good(run.info.run_id)
        return len(runs)


def _all_runs(
    client: MlflowClient, experiments: Sequence[str], conditions: str, view: int = ViewType.ACTIVE_ONLY
) -> list[Run]:
    """The runs of these experiments that meet the conditions, of all of MLflow's pages."""

    def page(most: int, token: str | None) -> Sequence[Run]:
        return client.search_runs(list(experiments), conditions, view, most, page_token=token)

    return list(get_results_from_paginated_fn(page, ROWS_A_PAGE))  # type: ignore[no-untyped-call]


def _ended(run: Run) -> bool:
    return run.info.status in ENDINGS.values()


def _ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
