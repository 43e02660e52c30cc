"""The conformance suite over every storage, and a sweep whose directories are kept in one that keeps no directories."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.catalogue.reading import read_arrays, read_sweep
from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.errors import SweepError
from orchestrator.store import runs, storage
from orchestrator.store.files import Home
from orchestrator.store.object_storage import S3Storage
from orchestrator.store.probed import read_results
from orchestrator.store.storage import PosixStorage, Storage, kept_runs, storage_at
from tests.conformance.packed import KIND, PackedStorage
from tests.conformance.storages import StorageConformance
from tests.drive.sweeps import printed, quiet, spec
from tests.objects import ObjectStore, object_store
from trainables.base import Status

MAKERS: dict[str, Callable[[Path], Storage]] = {
    "posix": lambda path: PosixStorage(str(path / "runs")),
    "packed": lambda path: PackedStorage(f"{KIND}://{path}/runs"),
}


@pytest.mark.parametrize("name", MAKERS)
class TestStorages(StorageConformance):
    @pytest.fixture
    def storage(self, name: str, tmp_path: Path) -> Storage:
        return MAKERS[name](tmp_path)


class TestObjectStorage(StorageConformance):
    @pytest.fixture
    def storage(self, objects: ObjectStore, copies: Path) -> Storage:
        return S3Storage(f"{objects.bucket()}/runs")


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(SweepError, match=r"no storage of the kind 'gs', which gs://place/runs names; .*s3://"):
        storage_at("gs://place/runs")


@pytest.fixture(name="objects")
def running_object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store(monkeypatch) as store:
        yield store


@pytest.fixture(name="copies")
def own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies of what an object store keeps lie on this machine: nowhere else than here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose directories are kept elsewhere, as single files."""
    monkeypatch.setitem(storage.KINDS, KIND, PackedStorage)
    found = Home(tmp_path / "home")
    found.root.mkdir()
    (found.root / "storage").write_text(f"{KIND}://{tmp_path}/elsewhere\n")
    return found


MAZES = {
    "family": "tests.families:MazeFamily",
    "target": "find exit",
    "mixes": ["find exit"],
    "sizes": [8, 16],
    "search": {"method": "grid"},
    "probes": ["tests.families:Firing"],
}


@pytest.mark.parametrize("fresh", [False, True], ids=["shared", "fresh"])
def test_a_sweep_needs_no_path_into_its_storage(fresh: bool, home: Home) -> None:
    console = quiet()
    run_sweep(spec(**MAZES), RunOptions(home=home.root, local_debug=True, fresh=fresh), console)
    [sweep_id] = home.sweep_ids()
    assert str(home.root / "sweeps" / sweep_id / "report.html") in printed(console)
    stored = read_sweep(home, sweep_id)
    assert len(stored.runs) == 4
    for run in stored.runs:
        assert run.outcome.status is Status.FINISHED
        assert read_arrays(run)["firing"].shape == (run.config.size, 3)
        assert read_results(run.directory)["firing"].numbers["solved"] == run.outcome.accuracy["find exit"]
        assert home.root not in run.directory.parents
    assert not list(home.root.rglob("outcome.json"))
    assert len(kept_runs(home.sweep(sweep_id)).list()) == 4
    again = quiet()
    run_sweep(spec(**MAZES), RunOptions(home=home.root, local_debug=True), again)
    assert ("4 runs were there already" in printed(again)) is not fresh
    runs.remove_own(home.sweep(sweep_id))
    assert len(storage_at(home.runs_at).list()) == 4
    assert len(kept_runs(home.sweep(sweep_id)).list()) == (0 if fresh else 4)
