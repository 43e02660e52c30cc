"""The record in a real MLflow store, read back with MLflow's client."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from pydantic import TypeAdapter

from orchestrator.home.directories import DATABASE
from orchestrator.home.run_files import ProbeResult, write_result
from orchestrator.jobs.state import State
from orchestrator.record.mlflow_server import CHARTS, TRAINING, places
from orchestrator.record.mlflow_store import Store, all_runs, choose_store
from orchestrator.record.mlflow_tracker import MlflowTracker, delete_record
from orchestrator.record.mlflow_views import AUTHOR, RUNS, TRANSITIONS, VIEW_TAG_PREFIX, address_of, outdated, views
from orchestrator.record.tracker import StoreError
from orchestrator.report.answer import Answer, answer
from tests.cli.program import imported
from tests.record.samples import Finished, finish, record, records_of
from tests.report.samples import SIZES, bracketed, in_order, make_spec
from trainables.base import Status


@dataclass(frozen=True)
class Record:
    """A store and the sweep recorded in it."""

    store: Store
    finished: Finished
    client: MlflowClient

    def runs(self, sweep_id: str = "", **tags: str) -> list[Run]:
        wanted = {"sweep": sweep_id or self.finished.sweep.id, **tags}
        conditions = " and ".join(f"tags.{key} = '{value}'" for key, value in wanted.items())
        return list(self.client.search_runs([experiment_id(self.client)], conditions, max_results=500))

    def one(self, sweep_id: str = "", **tags: str) -> Run:
        (run,) = self.runs(sweep_id, **tags)
        return run

    def artifacts(self, run: Run) -> set[str]:
        return {file.path for file in self.client.list_artifacts(run.info.run_id)}

    def text(self, run: Run, name: str) -> str:
        return Path(self.client.download_artifacts(run.info.run_id, name)).read_text(encoding="utf-8")


def unrecorded(empty: Path, home: Path) -> Record:
    """Return an empty store and a finished sweep in a home."""
    shutil.copyfile(empty, home / DATABASE)
    store = choose_store(home, {})
    return Record(store, finish(home), MlflowClient(store.uri))


@pytest.fixture(scope="module", name="records")
def recorded_sweep(tmp_path_factory: pytest.TempPathFactory, empty: Path) -> Record:
    result = unrecorded(empty, tmp_path_factory.mktemp("home"))
    record(MlflowTracker(result.store), result.finished)
    return result


@pytest.fixture(name="new")
def unrecorded_sweep(empty: Path, tmp_path: Path) -> Record:
    return unrecorded(empty, tmp_path)


def experiment_id(client: MlflowClient) -> str:
    experiment = client.get_experiment_by_name("add_vs_add_prod")
    assert experiment is not None
    return str(experiment.experiment_id)


def parent_id(run: Run) -> str:
    return str(run.data.tags["mlflow.parentRunId"])


def test_a_sweep_is_one_run_with_its_question_and_answer_and_everything_nested_in_it(records: Record) -> None:
    sweep = records.one(kind="sweep")
    kinds = Counter(run.data.tags["kind"] for run in records.runs())
    assert kinds == {"sweep": 1, "run": 7, "transition": 2}
    assert {parent_id(run) for run in records.runs() if run.data.tags["kind"] != "sweep"} == {sweep.info.run_id}
    assert "mlflow.parentRunId" not in sweep.data.tags
    assert sweep.info.run_name == records.finished.sweep.id
    assert sweep.info.status == "FINISHED"
    assert sweep.data.params["target"] == "add"
    assert sweep.data.params["mixes"] == "add, add+prod"
    assert sweep.data.params["search.method"] == "pairs"
    assert sweep.data.params["curve.midpoint"] == "40.0"
    assert sweep.data.tags["env.git.commit"] == "a1b2c3"
    assert sweep.data.tags["env.versions.torch"] == "2.13.0"
    assert sweep.data.tags["state"] == "finished"
    assert records.artifacts(sweep) == {"answer.json", "search_space.yaml"}
    recorded = json.loads(records.text(sweep, "answer.json"))
    assert TypeAdapter(Answer).validate_python(recorded) == records.finished.answer
    note = sweep.data.tags["mlflow.note.content"]
    assert make_spec().question in note
    assert "add: size at" in note


def test_a_run_is_found_by_mix_size_and_seed(records: Record) -> None:
    query = "params.mix = 'add+prod' and params.units = '64' and params.seed = '0' and tags.kind = 'run'"
    (run,) = records.client.search_runs([experiment_id(records.client)], query)
    expected = next(run for run in records.finished.runs if (run.config.mix.name, run.config.size) == ("add+prod", 64))
    assert run.data.tags["run_key"] == expected.key
    assert run.data.tags["status"] == "finished"
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "add+prod units 64 seed 0"
    assert run.data.params["curve.slope"] == "8.0"
    metrics = run.data.metrics
    assert metrics["test_accuracy/add"] == pytest.approx(expected.outcome.accuracy["add"])
    assert metrics["test_accuracy/prod"] == pytest.approx(expected.outcome.accuracy["prod"])
    assert metrics["floor/add"] == pytest.approx(0.1)
    assert metrics["parameters"] == 64 * 65
    assert metrics["core_parameters"] == 64 * 64
    assert metrics["seconds"] == 40.5
    assert metrics["steps"] == 3000
    assert run.info.end_time - run.info.start_time == 40_500


def test_a_run_of_two_arms_is_recorded_for_both(new: Record) -> None:
    shared = new.finished.runs[0]
    twin = replace(shared, config=replace(shared.config, arm="the same"))
    record(MlflowTracker(new.store), replace(new.finished, runs=(shared, twin)))
    runs = new.runs(kind="run", run_key=shared.key)
    assert {run.data.params["mix"] for run in runs} == {"add", "the same"}
    new.client.set_tag(runs[0].info.run_id, "mlflow.runName", "a name of my own")
    record(MlflowTracker(new.store), replace(new.finished, runs=(twin, shared)))
    assert len(new.runs(kind="run", run_key=shared.key)) == 2


def test_learning_curves_are_per_task_over_steps(records: Record) -> None:
    run = next(
        run for run in records.runs(kind="run") if run.data.params["mix"] == "add+prod" and "loss" in run.data.metrics
    )
    for name, last in (("accuracy/add", 1.0), ("accuracy/prod", 1.0), ("loss", 2.0 / 60)):
        history = sorted(records.client.get_metric_history(run.info.run_id, name), key=lambda metric: metric.step)
        assert [metric.step for metric in history] == list(range(50, 3001, 50))
        assert history[-1].value == pytest.approx(last)
        assert [metric.timestamp for metric in history] == sorted(metric.timestamp for metric in history)
        assert run.info.start_time <= history[0].timestamp
        assert history[-1].timestamp <= run.info.end_time


def test_later_probe_results_replace_the_record_of_the_run(new: Record) -> None:
    sweep = new.finished.sweep
    run = next(run for run in new.finished.runs if run.outcome.status is Status.FINISHED)
    records_of(MlflowTracker(new.store), sweep).run_ended(run)
    before = new.one(run_key=run.key)
    assert not any(name.startswith("probe/") for name in before.data.metrics)
    write_result(run.directory, ProbeResult("firing", 1, {"mean": 0.25}), {"by_room": np.arange(3.0)})
    records_of(MlflowTracker(new.store), sweep).run_ended(run)
    after = new.one(run_key=run.key)
    assert after.data.metrics["probe/firing/mean"] == 0.25
    assert new.artifacts(after) == {"arrays.npz", "similarity.png", "probes"}
    assert after.info.end_time == before.info.end_time
    records_of(MlflowTracker(new.store), sweep).run_ended(run)
    assert new.one(run_key=run.key).info.run_id == after.info.run_id
    write_result(run.directory, ProbeResult("plan", 1, {}), {"walls": np.arange(2.0)})
    records_of(MlflowTracker(new.store), sweep).run_ended(run)
    probed = new.client.list_artifacts(new.one(run_key=run.key).info.run_id, "probes")
    assert [file.path for file in probed] == ["probes/firing.npz", "probes/plan.npz"]


def test_diverged_runs_have_results_and_failed_runs_do_not(records: Record) -> None:
    diverged, failed = records.one(kind="run", status="diverged"), records.one(kind="run", status="failed")
    assert diverged.info.status == "FINISHED"
    assert diverged.data.metrics["test_accuracy/add"] == pytest.approx(0.1)
    assert failed.info.status == "FAILED"
    assert "ZeroDivisionError" in records.text(failed, "traceback.txt")
    assert not any(name.startswith("test_accuracy") for name in failed.data.metrics)


def test_a_resumed_sweep_replaces_the_answer_in_its_record(records: Record, tmp_path: Path) -> None:
    finished = finish(tmp_path, "add_vs_add_prod-20260102-030405-stop")
    sweep = finished.sweep
    early = answer(sweep.spec, finished.runs[:1])
    tracker = records_of(MlflowTracker(records.store), sweep)
    tracker.begin()
    tracker.run_ended(finished.runs[0])
    tracker.end(early, State.INTERRUPTED)
    stopped = records.one(sweep.id, kind="sweep")
    assert stopped.info.status == "KILLED"
    assert not any(name.startswith("transition") for name in stopped.data.metrics)
    assert records.one(sweep.id, kind="transition", mix="add").data.params["verdict"] == "undecided"
    assert records.runs(sweep.id, kind="transition", mix="add+prod") == []

    resumed = MlflowTracker(records.store)
    records_of(resumed, sweep).begin()
    assert records.one(sweep.id, kind="sweep").info.status == "RUNNING"
    record(resumed, finished)
    assert records.one(sweep.id, kind="sweep").info.status == "FINISHED"
    assert records.one(sweep.id, kind="sweep").info.run_id == stopped.info.run_id
    assert records.one(sweep.id, kind="transition", mix="add").data.metrics["runs"] == 3
    assert len(records.runs(sweep.id, kind="run")) == 7


def test_a_deleted_experiment_is_restored(new: Record) -> None:
    records_of(MlflowTracker(new.store), new.finished.sweep).begin()
    new.client.delete_experiment(experiment_id(new.client))
    records_of(MlflowTracker(new.store), new.finished.sweep).run_ended(new.finished.runs[0])
    assert Counter(run.data.tags["kind"] for run in new.runs()) == {"sweep": 1, "run": 1}


def test_long_curves_are_complete_except_for_values_that_are_not_finite(records: Record, tmp_path: Path) -> None:
    finished = finish(tmp_path, "add_vs_add_prod-20260102-030405-long")
    run = finished.runs[0]
    curve = tuple(replace(run.outcome.curve[0], step=step) for step in range(1, 1001))
    broken = replace(curve[-1], step=1001, loss=float("nan"))
    outcome = replace(run.outcome, curve=(*curve, broken))
    records_of(MlflowTracker(records.store), finished.sweep).run_ended(replace(run, outcome=outcome))
    recorded = records.one(finished.sweep.id, run_key=run.key)
    assert len(records.client.get_metric_history(recorded.info.run_id, "loss")) == 1000
    assert len(records.client.get_metric_history(recorded.info.run_id, "accuracy/add")) == 1001


def test_a_deleted_sweep_leaves_no_records_or_artifacts(new: Record, tmp_path: Path) -> None:
    store, finished = new.store, new.finished
    record(MlflowTracker(store), finished)
    count = len(new.runs())
    assert delete_record(store, finished.sweep.spec.name, finished.sweep.id) == count
    assert new.runs() == []
    assert not any(path.is_file() for path in (tmp_path / "artifacts").rglob("*"))
    assert delete_record(store, finished.sweep.spec.name, finished.sweep.id) == 0  # Deleting again is harmless.
    assert delete_record(store, "no_such_space", finished.sweep.id) == 0


def test_artifacts_of_a_moved_home_stay_in_it(empty: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    before = unrecorded(empty, old)
    records_of(MlflowTracker(before.store), before.finished.sweep).run_ended(before.finished.runs[0])
    old.rename(new)
    store, finished = choose_store(new, {}), finish(tmp_path / "sweeps")
    record(MlflowTracker(store), finished)
    assert len(list(new.glob("artifacts/*/*/artifacts/arrays.npz"))) == 6
    assert delete_record(store, finished.sweep.spec.name, finished.sweep.id) == 10
    assert not any(path.is_file() for path in (new / "artifacts").rglob("*"))
    assert not old.exists()


def test_a_transition_has_its_estimates_and_its_curve_over_sizes(new: Record) -> None:
    sweep = new.finished.sweep
    answered = answer(sweep.spec, bracketed(), blocks=in_order(sweep.spec))
    records_of(MlflowTracker(new.store), sweep).end(answered, State.FINISHED)
    mix = answered.mix("add+prod")
    transition = mix.target.transition
    run = new.one(kind="transition", mix="add+prod")
    assert run.data.params["verdict"] == transition.verdict.value
    assert run.data.params["curve.midpoint"] == "40.0"
    metrics = run.data.metrics
    expected = (transition.relative.value, transition.relative.low, transition.relative.high, transition.p_above)
    assert [metrics[name] for name in ("transition", "low", "high", "p_above")] == pytest.approx(expected)
    curve = answered.curve(transition, [float(size) for size in SIZES])
    assert curve is not None
    for name, values in (("median", curve.middle), ("low", curve.low), ("high", curve.high)):
        points = new.client.get_metric_history(run.info.run_id, f"curve/{name}")
        history = {point.step: point.value for point in points}
        assert history == pytest.approx(dict(zip(map(int, curve.sizes), values, strict=True)))
    assert histories(new, run, "interval") == pytest.approx(
        dict(zip((5, 50, 95), (expected[1], expected[0], expected[2]), strict=True))
    )
    parameters = answered.curve_parameters(transition)
    assert parameters is not None
    for name, estimate in vars(parameters).items():
        assert metrics[f"{name}_low"] == pytest.approx(estimate.low)
        assert metrics[f"{name}_high"] == pytest.approx(estimate.high)
        middle = transition.asymptote if name == "asymptote" else estimate.value
        assert metrics[name] == pytest.approx(middle)
    assert mix.comparison is not None
    assert histories(new, run, "evidence") == pytest.approx(dict(enumerate(mix.comparison.path)))
    assert metrics["evidence"] == pytest.approx(mix.comparison.evidence)
    tasks = {task["task"]: task for task in json.loads(new.text(run, "transition.json"))["tasks"]}
    assert tasks["add"]["total"]["low"] == pytest.approx(mix.target.total.low)
    posterior = tasks["prod"]["transition"]["density"]
    assert sum(posterior["weights"]) + posterior["above"] == pytest.approx(1)


def histories(record: Record, run: Run, name: str) -> dict[int, float]:
    """Return the values of a metric by step."""
    return {point.step: point.value for point in record.client.get_metric_history(run.info.run_id, name)}


def test_a_transition_that_was_not_located_has_only_what_is_known(new: Record) -> None:
    sweep = new.finished.sweep
    answered = answer(sweep.spec, new.finished.runs[:1])
    records_of(MlflowTracker(new.store), sweep).end(answered, State.INTERRUPTED)
    run = new.one(kind="transition", mix="add")
    assert run.data.metrics.keys().isdisjoint(
        {"transition", "high", "midpoint", "slope_low", "floor", "asymptote_high", "evidence"}
    )
    assert "asymptote" in run.data.metrics
    assert histories(new, run, "interval") == {5: run.data.metrics["low"]}


def views_of(record: Record) -> dict[str, dict[str, Any]]:
    """Return the state of every saved view of the experiment, by name."""
    tags = record.client.get_experiment(experiment_id(record.client)).tags
    stored = [json.loads(value) for name, value in tags.items() if name.startswith(VIEW_TAG_PREFIX)]
    return {view["name"]: json.loads(view["state"]) for view in stored}


def test_an_experiment_has_views_of_its_transitions_and_runs(records: Record) -> None:
    views = views_of(records)
    assert set(views) == {"Transitions", "Runs"}
    metrics = {name for run in records.runs() for name in run.data.metrics}
    params = {name for run in records.runs() for name in run.data.params}
    tags = {name for run in records.runs() for name in run.data.tags}
    known = {
        f"{kind}.`{name}`"
        for kind, names in (("metrics", metrics), ("params", params), ("tags", tags))
        for name in names
    }
    assert set(views["Runs"]["selectedColumns"]) <= known
    assert views["Runs"]["selectedColumns"][1] == "params.`units`"
    assert views["Transitions"]["selectedColumns"][:5] == [
        *("metrics.`transition`", "metrics.`low`", "metrics.`high`"),
        *("params.`mix`", "tags.`sweep`"),
    ]
    shown = [chart["selectedMetricKeys"] for chart in views["Transitions"]["compareRunCharts"] if not chart["deleted"]]
    assert shown == [["curve/median", "curve/low", "curve/high"], ["interval"], ["evidence"]]


def test_an_older_view_is_replaced_and_one_that_the_user_saved_stays(new: Record) -> None:
    record(MlflowTracker(new.store), new.finished)
    experiment = experiment_id(new.client)
    before = new.client.get_experiment(experiment).tags
    older = {
        "name": "Transitions",
        "createdAt": 2,
        "state": json.dumps({AUTHOR: "orchestrator", "selectedColumns": []}),
    }
    users = {"name": "Runs", "createdAt": 1, "state": "deflate;eJyrVipOzUlNLnHOzynNzSsGADIWBeE="}
    new.client.set_experiment_tag(experiment, f"{VIEW_TAG_PREFIX}{TRANSITIONS}", json.dumps(older))
    new.client.set_experiment_tag(experiment, f"{VIEW_TAG_PREFIX}{RUNS}", json.dumps(users))
    record(MlflowTracker(new.store), new.finished)
    after = new.client.get_experiment(experiment).tags
    assert after == {**before, f"{VIEW_TAG_PREFIX}{RUNS}": json.dumps(users)}


@pytest.mark.parametrize("damaged", ["{", "7", '{"state": 7}', '{"state": "{"}', "[" * 5000])
def test_a_damaged_view_is_left_alone(damaged: str) -> None:
    offered = views("units", "add")
    tags = dict.fromkeys(offered, damaged)
    assert outdated(offered, tags) == {}
    assert outdated(offered, {}) == offered


def test_pages_of_an_experiment_without_views_show_the_same_rows(new: Record) -> None:
    record(MlflowTracker(new.store), new.finished)
    address = places(new.store, "page")[new.finished.sweep.id]["Transitions as charts"]
    experiment = experiment_id(new.client)
    assert address.endswith(f"viewStateShareKey={TRANSITIONS}&compareRunsMode=CHART")
    for name in (TRANSITIONS, RUNS):
        new.client.delete_experiment_tag(experiment, f"{VIEW_TAG_PREFIX}{name}")
    addresses = places(new.store, "page")[new.finished.sweep.id]
    query = "searchFilter=tags.kind%20%3D%20%22transition%22&orderByKey=metrics.%60transition%60&orderByAsc=true"
    assert addresses["Transitions in MLflow"].endswith(f"/{experiment}/runs?workflowType=machine_learning&{query}")
    assert "tags.kind%20%3D%20%22run%22&orderByKey=metrics.%60parameters%60" in addresses["Runs in MLflow"]


def links_by_client(store: Store, page: str) -> dict[str, dict[str, str]]:
    """Return what :func:`places` should return, read with MLflow's client."""
    client = MlflowClient(store.uri)
    tags_of = {experiment.experiment_id: experiment.tags for experiment in client.search_experiments()}
    links = {}
    for run in all_runs(client, list(tags_of), "tags.kind = 'sweep'"):
        tags = tags_of[run.info.experiment_id]
        base = f"{page}#/experiments/{run.info.experiment_id}/runs"
        transitions = f"{base}?{TRAINING}&{address_of(TRANSITIONS, tags)}"
        links[run.data.tags.get("sweep", "")] = {
            "Transitions in MLflow": transitions,
            "Transitions as charts": f"{transitions}&{CHARTS}",
            "Runs in MLflow": f"{base}?{TRAINING}&{address_of(RUNS, tags)}",
            "This sweep in MLflow": f"{base}/{run.info.run_id}?{TRAINING}",
        }
    return links


def test_links_of_one_sweep_are_those_that_the_client_finds(records: Record) -> None:
    addresses = places(records.store, "page")
    assert addresses == links_by_client(records.store, "page")
    assert records.finished.sweep.id in addresses


def test_links_are_read_without_mlflow(records: Record) -> None:
    home = str(records.store.database.parent) if records.store.database else ""
    code = (
        "from pathlib import Path\nfrom orchestrator.record.mlflow_server import places\n"
        "from orchestrator.record.mlflow_store import choose_store, outside_files\nimport orchestrator.site.server\n"
        f"store = choose_store(Path({home!r}), {{}})\nassert outside_files(store) == '' and places(store, 'page')"
    )
    assert imported(code, "mlflow", "pandas", "torch", "ray") == []


def test_links_follow_the_trash_missing_views_and_several_records_as_the_client_does(new: Record) -> None:
    client = new.client
    kept, gone = client.create_experiment("kept"), client.create_experiment("gone")
    client.set_experiment_tag(kept, f"{VIEW_TAG_PREFIX}{TRANSITIONS}", "{}")
    client.set_experiment_tag(kept, "note", "of no view")
    kinds: dict[str, dict[str, str]] = {
        "odd": {"kind": "sweep", "sweep": "ünïcode'; DROP TABLE runs"},
        "unnamed": {"kind": "sweep"},
        "run": {"kind": "run", "sweep": "of a run"},
        "upper": {"kind": "Sweep", "sweep": "of another kind"},
    }
    for tags in kinds.values():
        client.create_run(kept, tags=tags)
    for experiment, sweep_id in ((kept, "deleted"), (gone, "of a deleted experiment")):
        run = client.create_run(experiment, tags={"kind": "sweep", "sweep": sweep_id})
        if experiment == kept:
            client.delete_run(run.info.run_id)
    client.delete_experiment(gone)
    twice = [client.create_run(kept, time, tags={"kind": "sweep", "sweep": "twice"}) for time in (20, 10, 10, 30)]
    addresses = places(new.store, "page")
    assert addresses == links_by_client(new.store, "page")
    assert addresses.keys() == {"ünïcode'; DROP TABLE runs", "", "twice"}
    oldest = max(run.info.run_id for run in twice[1:3])
    assert addresses["twice"]["This sweep in MLflow"].endswith(f"/{kept}/runs/{oldest}?{TRAINING}")
    assert addresses["twice"]["Transitions in MLflow"].endswith(f"viewStateShareKey={TRANSITIONS}")
    assert "orderByKey=metrics.%60parameters%60" in addresses["twice"]["Runs in MLflow"]


def test_a_database_without_the_tables_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / DATABASE).touch()
    with pytest.raises(StoreError, match="no such table"):
        places(choose_store(tmp_path, {}), "page")


def test_arrays_are_recorded_with_a_picture_for_the_first_seed_of_a_size(new: Record) -> None:
    """Drawing a picture takes as long as the rest of a record."""
    done = new.finished
    first = next(run for run in done.runs if run.outcome.status is Status.FINISHED)
    config = replace(first.config, seed=done.sweep.spec.seed + 1)
    second = replace(first, key="second", config=config, directory=first.directory.with_name("second"))
    shutil.copytree(first.directory, second.directory)
    tracker = records_of(MlflowTracker(new.store), done.sweep)
    for run in (first, second):
        tracker.run_ended(run)
    artifacts = {run.data.tags["run_key"]: new.artifacts(run) for run in new.runs(kind="run")}
    assert artifacts == {first.key: {"arrays.npz", "similarity.png"}, "second": {"arrays.npz"}}
    recorded = new.one(run_key=first.key).info.run_id
    assert Path(new.client.download_artifacts(recorded, "similarity.png")).stat().st_size > 5000
    with np.load(new.client.download_artifacts(recorded, "arrays.npz"), allow_pickle=False) as arrays:
        assert arrays["embedding"].shape == (6, first.config.size)
        assert arrays["similarity"].shape == (6, 6)
