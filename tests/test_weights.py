"""Weights of trained models, in Python and in the record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mlflow import MlflowClient
from safetensors.numpy import load_file, save_file

import orchestrator as o
from orchestrator.api import SweepResults
from orchestrator.home.directories import Home
from orchestrator.home.run_files import WEIGHTS
from orchestrator.space.differences import differences
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from tests.catalog.fabricated import failed, write_sweep
from tests.copies import own_copy
from tests.sweep.sweeps import spec


@pytest.fixture(scope="module", name="home")
def home_without_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    write_sweep(Home(path), outcomes={0: failed()})
    return path


@pytest.fixture(scope="module", name="trained")
def trained_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a sweep of transformers whose record has the weights."""
    home = tmp_path_factory.mktemp("trained")
    changes = {"sizes": [8], "seeds": 1, "record": {"weights": True}}
    train(home, changes)
    return home


def train(home: Path, changes: dict[str, Any], record: str = "mlflow") -> SweepResults:
    options: dict[str, Any] = {"home": home, "engine": "local", "quiet": True, "record": record}
    return o.run("add_vs_add_prod", profile="smoke", overrides=changes, **options)


def test_a_trained_model_is_loaded_with_its_weights(trained: Path) -> None:
    s = o.load(home=trained)
    run = s.runs.iloc[0]
    weights, model = s.weights(run["key"]), s.model(run["key"][:8])
    assert {"token", "0.qkv", "head"} <= weights.keys()
    assert sum(weight.size for weight in weights.values()) == run["parameters"]
    for name, weight in weights.items():
        np.testing.assert_array_equal(model.parameters[name].numpy(), weight)
    tokens = torch.arange(6).reshape(2, 3)
    logits = model.logits(tokens)
    assert logits.shape[:2] == (2, 3)
    assert torch.equal(logits, s.model(run["key"]).logits(tokens))
    other = s.model(s.runs["key"].iloc[1]).logits(tokens)
    assert not torch.equal(logits, other)


@pytest.mark.parametrize("record", ["mlflow", "jsonl"])
def test_weights_are_in_the_record_on_request(trained: Path, tmp_path: Path, record: str) -> None:
    """The second sweep reuses the runs of the first, and has a record of them because it asks for weights."""
    home = own_copy(trained, tmp_path / "home")
    changes = {"sizes": [8], "seeds": 1}
    plain = train(home, changes, record)
    again = o.run(
        *("add_vs_add_prod",),
        profile="smoke",
        overrides={**changes, "record.weights": True},
        home=home,
        engine="local",
        quiet=True,
        record=record,
    )
    assert set(again.runs["key"]) == set(plain.runs["key"])
    recorded = {s.id: recorded_weights(home, record, s.id) for s in (plain, again)}
    assert recorded[plain.id] == {}
    assert recorded[again.id].keys() == set(again.runs["key"])
    for key, path in recorded[again.id].items():
        stored, own = load_file(path), again.weights(key)
        assert stored.keys() == own.keys()
        assert all((stored[name] == own[name]).all() for name in own)


def recorded_weights(home: Path, record: str, sweep_id: str) -> dict[str, Path]:
    """Return the recorded file of weights of every run of a sweep that has one, by the run's key."""
    if record == "jsonl":
        lines = [json.loads(line) for line in (home / "runs.jsonl").read_text().splitlines()]
        files = [(line["key"], line["files"]) for line in lines if (line["sweep"], line["kind"]) == (sweep_id, "run")]
        return {key: Path(paths[WEIGHTS]) for key, paths in files if WEIGHTS in paths}
    client = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    found = client.search_runs(experiments, f"tags.kind = 'run' and tags.sweep = '{sweep_id}'")
    places = {
        run.data.tags["run_key"]: home.glob(f"artifacts/*/{run.info.run_id}/artifacts/{WEIGHTS}") for run in found
    }
    return {key: path for key, paths in places.items() for path in paths}


def test_weights_do_not_change_the_keys_of_runs_and_are_left_out_by_default() -> None:
    plain, asking = (spec(**changes) for changes in ({}, {"record": {"weights": True}}))
    requests = plain.requests()[:3]
    assert [plain.make_family().key(plain.config(request)) for request in requests] == [
        asking.make_family().key(asking.config(request)) for request in requests
    ]
    assert differences(plain, asking) == {}
    assert "record" not in plain.to_dict()
    assert asking.to_dict()["record"] == {"weights": True}
    assert SweepSpec.model_validate(asking.to_dict()).record.weights


def test_runs_without_usable_weights_are_refused(home: Path, trained: Path, tmp_path: Path) -> None:
    s = o.load("logistic", home)
    with pytest.raises(UserError, match="has no weights: its family stores none"):
        s.weights(s.runs[s.runs["status"] == "finished"]["key"].iloc[0])
    with pytest.raises(UserError, match="has no weights: it failed"):
        s.model(s.runs[s.runs["status"] == "failed"]["key"].iloc[0])
    with pytest.raises(UserError, match="has no run 'zz'"):
        s.weights("zz")
    number: Any = 5
    for call in (s.weights, s.model):
        with pytest.raises(UserError, match="run=5 cannot be used: pass a key of `runs`"):
            call(number)
    damaged = own_copy(trained, tmp_path / "home")
    copy = o.load(home=damaged)
    key, other = copy.runs["key"]
    (damaged / "runs" / key / WEIGHTS).write_bytes(b"\xff" * 64)
    save_file({"token": np.zeros((2, 2), np.float32)}, damaged / "runs" / other / WEIGHTS)
    with pytest.raises(UserError, match="its weights are damaged"):
        copy.weights(key)
    with pytest.raises(UserError, match="the weights belong to a model of another shape"):
        copy.model(other)


@pytest.mark.parametrize("name", ["arrays.npz", "probes/components.npz"])
def test_damaged_arrays_are_refused_with_the_remedy(name: str, trained: Path, tmp_path: Path) -> None:
    damaged = own_copy(trained, tmp_path / "home")
    copy = o.load(home=damaged)
    key = copy.runs["key"].iloc[0]
    assert copy.arrays(key)
    (damaged / "runs" / key / name).write_bytes(b"junk")
    with pytest.raises(UserError, match=rf"run {key}: its arrays are damaged .*`run` trains it again .*repeat `probe`"):
        copy.arrays(key)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weight": True}, "Did you mean 'weights'"),
        ({"weights": "yes"}, "record.weights"),
        ([True], "record"),
    ],
)
def test_a_wrong_request_for_the_record_is_refused(given: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        spec().model_copy(update={"record": given})
