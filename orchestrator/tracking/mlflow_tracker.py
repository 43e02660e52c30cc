"""The record in MLflow: one experiment a search space, one run a sweep, and nested in it its runs and transitions.

Only :class:`mlflow.MlflowClient`: the fluent interface keeps an active run per process, which background threads and
reused workers would share. Few calls a record, because each costs a commit (5-40 ms on SQLite).
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT, MLFLOW_PARENT_RUN_ID

from orchestrator.report import figures, main_figure
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.pictures import Gallery
from orchestrator.store.files import SweepFiles
from orchestrator.store.journal import EndedLine, read_journal
from orchestrator.store.records import FIGURE, RunRecord, Sweep
from orchestrator.store.run_files import read_origin
from orchestrator.tracking import content, transition_content
from orchestrator.tracking.base import Ending, Tracker
from orchestrator.tracking.content import Content, Data
from orchestrator.tracking.experiments import NOTE, Experiments
from orchestrator.tracking.interrupted import mark_interrupted
from orchestrator.tracking.login import settle_client
from orchestrator.tracking.new_store import make_whole
from orchestrator.tracking.outage import outages
from orchestrator.tracking.store import Store, check_database
from orchestrator.tracking.system import SystemSample
from trainables.base import Status

DIGEST = "digest"
CURVE = "curve.png"
SYSTEM = "system"
"""What MLflow's page shows in its tab of system metrics begins with it."""
ENDINGS = {Ending.FINISHED: "FINISHED", Ending.INTERRUPTED: "KILLED", Ending.FAILED: "FAILED"}
METRICS_A_CALL, PARAMS_A_CALL, ROWS_A_PAGE = 900, 100, 1000
"""MLflow takes 1000 metrics, parameters and tags in one call, of which at most 100 parameters and 100 tags."""
LONGEST_PARAM, LONGEST_TAG = 6000, 5000
QUIET = {"alembic": logging.WARNING, "mlflow.store.db.utils": logging.CRITICAL}
"""Loggers that narrate migrations, and repeat with a traceback what is raised anyway."""


class MlflowTracker(Tracker):
    """Keeps sweeps in an MLflow store. The store is first touched by the first record."""

    def __init__(self, store: Store) -> None:
        self.store = store
        settle_client()
        self._sweeps: dict[str, str] = {}
        self._held: dict[tuple[str, str], str] = {}
        """Every run the store may hold (sweep, key), with its record's digest, or ``""`` where it may be torn."""
        self._gallery = Gallery()
        self._data: set[tuple[str, str]] = set()
        """Datasets the sweeps' records name already (sweep, digest)."""

    def describe(self) -> str:
        return self.store.shown

    def begin(self, sweep: Sweep) -> None:
        with outages():
            self._begin(sweep)

    def run_ended(self, sweep: Sweep, run: RunRecord) -> None:
        with outages():
            recorded, who = content.run_content(sweep, run), (sweep.id, run.key)
            self._sweep_run(sweep)
            if self._held.get(who) == recorded.digest:
                return
            if who not in self._held or not self._holds(sweep, recorded, {"run_key": run.key}):
                self._held[who] = ""
                status = "FAILED" if run.outcome.status is Status.FAILED else "FINISHED"
                with tempfile.TemporaryDirectory() as drawn:
                    pictures = self._pictures(sweep, run, Path(drawn))
                    files = {**pictures, **recorded.files}
                    self._write(sweep, replace(recorded, files=files), status, _ended_ms(run))
            if (data := content.run_data(sweep, run)) is not None:
                self._name_data(sweep, data)
            self._held[who] = recorded.digest

    def measured(self, sweep: Sweep, samples: Sequence[SystemSample]) -> None:
        with outages():
            run_id, begun_ms = self._sweep_run(sweep), _ms(sweep.created)
            metrics = [
                Metric(f"{SYSTEM}/{name}", value, each.at_ms, (each.at_ms - begun_ms) // 1000)
                for each in samples
                for name, value in each.values.items()
            ]
            self._log(run_id, metrics, [])

    def so_far(self, sweep: Sweep, answer: Answer) -> None:
        with outages():
            for mix in answer.mixes:
                if mix.runs:
                    self._provisional(sweep, transition_content.provisional_content(sweep, answer, mix))
            said = f"so far: {transition_content.answer_words(answer)}"
            self._client.set_tag(self._sweep_run(sweep), "answer", said[:LONGEST_TAG])

    def end(self, sweep: Sweep, answer: Answer, ending: Ending, files: Sequence[Path] = ()) -> None:
        with outages(), tempfile.TemporaryDirectory() as drawn:
            end_ms = _sweep_ended_ms(sweep, files)
            for place, mix in enumerate(answer.mixes):
                if mix.runs:
                    self._transition(sweep, answer, mix, Path(drawn) / str(place), end_ms)
            self._end(sweep, answer, Ending(ending), files, Path(drawn), end_ms)

    def _pictures(self, sweep: Sweep, run: RunRecord, drawn: Path) -> dict[str, Path]:
        """Pictures of a run's arrays, for one seed of each size: one takes 120 ms, as long as all the rest of a record,
        and seeds of a size look alike. The first seed, not the best, so that a replay draws the same at any time."""
        config = run.config
        if config.seed != sweep.spec.seed or config.steps_factor > 1:
            return {}
        title = f"{config.label}, {sweep.spec.size_axis} {config.size}, seed {config.seed}"
        return self._gallery.save(run.directory, drawn, title, sweep.spec.family_class.words)

    def _begin(self, sweep: Sweep) -> str:
        """The sweep's MLflow run, found or created, completed and set running."""
        recorded = content.sweep_content(sweep)
        found = self._find(sweep, {"kind": "sweep"})
        run = found[0] if found else self._create(sweep, recorded, {}, _ms(sweep.created))
        missing = {key: value for key, value in recorded.params.items() if key not in run.data.params}
        samples = tuple(each for each in recorded.samples if each.name not in run.data.metrics)
        begun = replace(recorded, params=missing, samples=samples)
        self._fill(run.info.run_id, begun, run.info.start_time, run.info.start_time)
        if run.info.status != "RUNNING":
            self._client.update_run(run.info.run_id, status="RUNNING")
        for other in self._find(sweep, {"kind": "run"}):
            digest = other.data.tags.get(DIGEST, "") if _ended(other) else ""
            self._held[sweep.id, other.data.tags["run_key"]] = digest
        self._experiments.save_views(sweep)
        mark_interrupted(self._client, self._experiments.of(sweep), sweep)
        named = run.inputs.dataset_inputs if run.inputs else ()
        self._data |= {(sweep.id, each.dataset.digest) for each in named}
        self._sweeps[sweep.id] = run.info.run_id
        for tuning in sweep.tunings:
            tuned = content.tuning_content(sweep, tuning)
            if not self._holds(sweep, tuned, {"mix": tuning.mix}):
                self._write(sweep, tuned, "FINISHED", _ms(sweep.created))
        return self._sweeps[sweep.id]

    def _end(
        self, sweep: Sweep, answer: Answer, ending: Ending, files: Sequence[Path], drawn: Path, end_ms: int
    ) -> None:
        recorded = transition_content.answer_content(sweep, answer, ending)
        run = self._client.get_run(self._sweep_run(sweep))
        run_id = run.info.run_id
        kept = {path.name: path for path in files}
        known = run.data.tags.get(DIGEST) == recorded.digest
        if FIGURE not in kept and not known:
            figure = main_figure.main_figure(sweep.spec, answer)
            kept |= {path.name: path for path in figures.save_both(figure, drawn, Path(FIGURE).stem)}
        # Metrics cannot be taken back, so only a finished answer becomes one, and each answer once.
        samples = recorded.samples if ending is Ending.FINISHED and not known else ()
        self._fill(run_id, replace(recorded, samples=samples, files=kept), end_ms, end_ms)
        tags = {**recorded.tags, NOTE: recorded.note, DIGEST: recorded.digest}
        self._client.log_batch(run_id, tags=[RunTag(key, value[:LONGEST_TAG]) for key, value in tags.items()])
        self._client.set_terminated(run_id, ENDINGS[ending], end_ms)

    def _transition(self, sweep: Sweep, answer: Answer, mix: MixAnswer, drawn: Path, end_ms: int) -> None:
        recorded = transition_content.transition_content(sweep, answer, mix)
        if not self._holds(sweep, recorded, {"mix": mix.mix}):
            figure = figures.curve_figure(sweep.spec, answer, mix.mix)
            files = {CURVE: figures.save(figure, drawn / CURVE)}
            self._write(sweep, replace(recorded, files=files), "FINISHED", end_ms)

    def _provisional(self, sweep: Sweep, recorded: Content) -> None:
        """Bring the provisional record of a transition up to date, or begin it. It stays running, which none of a
        sweep that has ended is, so that the final one takes its place."""
        now_ms = _ms(datetime.now(UTC).isoformat())
        found = self._find(sweep, {"kind": "transition", "mix": recorded.tags["mix"], "provisional": "yes"})
        parent = {MLFLOW_PARENT_RUN_ID: self._sweep_run(sweep)}
        run = found[0] if found else self._create(sweep, recorded, parent, now_ms)
        tags = {**recorded.tags, NOTE: recorded.note}
        metrics = [Metric(each.name, each.value, now_ms, each.step) for each in recorded.samples]
        self._client.log_batch(run.info.run_id, metrics, tags=[RunTag(*pair) for pair in tags.items()])

    def _holds(self, sweep: Sweep, recorded: Content, identity: dict[str, str]) -> bool:
        """Whether the store holds a nested record as it is. Records of this identity that say otherwise are deleted."""
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
        return self._client.create_run(self._experiments.of(sweep), start_ms, shortened, recorded.name)

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

    def _name_data(self, sweep: Sweep, data: Data) -> None:
        """Say once in the sweep's record what some of its runs were trained and scored on."""
        if (sweep.id, data.digest) in self._data:
            return
        dataset = Dataset(data.name, data.digest, "code", json.dumps({"tags": data.made_from}))
        used = DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, "training")])
        self._client.log_inputs(self._sweep_run(sweep), [used])
        self._data.add((sweep.id, data.digest))

    def _find(self, sweep: Sweep, tags: dict[str, str]) -> list[Run]:
        """The sweep's records with these tags."""
        conditions = " and ".join(f"tags.`{key}` = '{value}'" for key, value in {"sweep": sweep.id, **tags}.items())
        return list(self._pages(self._experiments.of(sweep), conditions))

    def _pages(self, experiment: str, conditions: str) -> Iterator[Run]:
        token = None
        while True:
            page = self._client.search_runs([experiment], conditions, max_results=ROWS_A_PAGE, page_token=token)
            yield from page
            if not (token := page.token):
                return

    def _sweep_run(self, sweep: Sweep) -> str:
        return self._sweeps.get(sweep.id) or self._begin(sweep)

    @cached_property
    def _experiments(self) -> Experiments:
        return Experiments(self._client, self.store)

    @cached_property
    def _client(self) -> MlflowClient:
        for name, level in QUIET.items():
            logging.getLogger(name).setLevel(level)
        # MLflow itself tries a damaged database again for hours.
        check_database(self.store)
        make_whole(self.store)
        return MlflowClient(self.store.uri)


def _ended(run: Run) -> bool:
    return run.info.status in ENDINGS.values()


def _ended_ms(run: RunRecord) -> int:
    """When a run ended: the same at every replay. Of runs of before they told, when their files were written; now, for
    one of those that left none."""
    origin = read_origin(run.directory)
    ended = run.at if origin is None else origin.ended
    return _ms(ended) if ended else _newest_ms(run.directory.glob("*"))


def _sweep_ended_ms(sweep: Sweep, files: Sequence[Path]) -> int:
    """When the last run of a sweep ended: the same at every replay. Of sweeps of before journals told, when its figures
    were written, or else its journal. Now, where there is nothing."""
    journal = SweepFiles(sweep.directory).journal
    ended = max((entry.at for entry in read_journal(journal) if isinstance(entry, EndedLine)), default="")
    return _ms(ended) if ended else _newest_ms(files or [journal])


def _ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _newest_ms(files: Iterable[Path]) -> int:
    return int(1000 * max((path.stat().st_mtime for path in files if path.is_file()), default=time.time()))
