"""A home in an object store: swept, resumed and read by machines that share nothing but the store."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.engine import campaign
from orchestrator.errors import SweepError, UserError
from orchestrator.search.base import Request
from orchestrator.store import driving, lease, lifecycle, mirrored, runs
from orchestrator.store.bucket import Bucket
from orchestrator.store.files import Home, SweepFiles
from orchestrator.store.journal import Ended, Journal
from orchestrator.store.lease import Lease
from orchestrator.store.mirror import Mirror
from orchestrator.store.mirrored import open_home
from orchestrator.store.notes import Notes, read_notes, write_notes
from orchestrator.store.object_storage import S3Storage
from tests.chaos.program import LOOK_EVERY_S, ROOT, journalled
from tests.conformance.storages import content, put
from tests.drive.sweeps import ended, printed, quiet, spec
from tests.engine.nodes import need_namespaces, node_with, wait_for_nodes
from tests.objects import ObjectStore, object_store
from tests.store.counting import trained
from tests.store.machines import SPACE, Machine, write_space
from tests.tracking.servers import free_port
from trainables.base import Outcome, Status

GRID = {"sizes": [16, 32, 64], "search": {"method": "grid"}, "resources": {"checkpoint_every_s": 1e-9}}


@pytest.fixture(name="objects")
def running_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    monkeypatch.setenv(mirrored.VARIABLE, str(tmp_path / "here"))
    monkeypatch.setattr(mirrored, "_open", {})
    with object_store(monkeypatch) as store:
        yield store


def elsewhere(directory: Path, address: str, said: list[str]) -> Mirror:
    """The part that another machine has of a home, up to date."""
    other = Mirror(directory, address, said.append)
    other.pull()
    return other


def test_what_is_swept_here_is_read_there(objects: ObjectStore, tmp_path: Path) -> None:
    address = objects.bucket()
    here, console = open_home(address, pytest.fail), quiet()
    run_sweep(spec(**GRID), RunOptions(home=here, local_debug=True), console)
    [sweep_id] = Home(here).sweep_ids()
    keys = objects.keys(address)
    assert len([key for key in keys if key.startswith("runs/")]) == 12
    assert {f"sweeps/{sweep_id}/{name}" for name in ("journal.jsonl", "space.yaml", "sweep.json", "report.html")} <= {
        *keys
    }
    assert not [key for key in keys if "checkpoints" in key or "lease" in key or "reach" in key]
    assert f"ui --home {address}" in printed(console)

    there = elsewhere(tmp_path / "there", address, [])
    files = Home(there.root).sweep(sweep_id)
    assert files.journal.read_bytes() == Home(here).sweep(sweep_id).journal.read_bytes()
    assert lifecycle.recall(files).answered
    write_notes(files, Notes("seen from elsewhere"))
    there.push()
    open_home(address, pytest.fail)
    assert read_notes(Home(here).sweep(sweep_id)).text == "seen from elsewhere"

    Home(there.root).sweep(sweep_id).notes.unlink()
    there.push()
    open_home(address, pytest.fail)
    assert not Home(here).sweep(sweep_id).notes.exists()
    shutil.rmtree(files.directory)
    there.push()
    open_home(address, pytest.fail)
    assert not Home(here).sweep(sweep_id).directory.exists()
    for secret in (b"of-a-test", objects.environment["AWS_ENDPOINT_URL"].encode()):
        assert not [path for path in here.rglob("*") if path.is_file() and secret in path.read_bytes()]


def test_a_fresh_sweep_keeps_its_runs_by_itself_there_too(objects: ObjectStore, tmp_path: Path) -> None:
    address = objects.bucket()
    here = open_home(address, pytest.fail)
    sweep_id = lifecycle.create(spec(), Home(here), fresh=True).id
    elsewhere(here, address, []).push()
    there = elsewhere(tmp_path / "there", address, [])
    assert Home(there.root).sweep(sweep_id).runs_at == f"{address}/sweeps/{sweep_id}/runs"


def test_what_two_machines_wrote_is_kept_and_said(objects: ObjectStore, tmp_path: Path) -> None:
    address, said = objects.bucket(), list[str]()
    one, other = (elsewhere(tmp_path / name, address, said) for name in ("one", "other"))
    sweep = lifecycle.create(spec(), Home(one.root))
    one.push()
    other.pull()
    for mirror, key in ((one, "here"), (other, "there")):
        journal = Journal(Home(mirror.root).sweep(sweep.id).journal)
        journal.append(Ended(key, Request("add", 8, 0), Outcome(Status.FAILED, 0, {}, {}, error=key)))
        journal.close()
    other.push()
    one.push()  # What the other one has written is not written over.
    one.pull()
    files = Home(one.root).sweep(sweep.id)
    assert [entry.key for entry in lifecycle.recall(files).ended] == ["there"]
    [aside] = files.directory.glob(".journal.jsonl.here-*")
    assert b'"here"' in aside.read_bytes()
    assert ["changed by another machine" in each or aside.name in each for each in said] == [True, True]
    one.pull()
    one.push()
    assert len(said) == 2


@pytest.fixture(name="hasty")
def leases_that_lapse_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LAPSE_S", 3.0)
    monkeypatch.setattr(lease, "LOOK_S", 0.1)
    monkeypatch.setattr(driving, "RENEW_S", 0.3)


@pytest.mark.usefixtures("hasty")
def test_of_two_machines_one_drives(objects: ObjectStore, tmp_path: Path) -> None:
    address, said = objects.bucket(), list[str]()
    here = open_home(address, pytest.fail)
    sweep = lifecycle.create(spec(), Home(here))
    files = Home(here).sweep(sweep.id)
    with lifecycle.driving(files):
        other = elsewhere(tmp_path / "there", address, said)
        assert other.is_driven_elsewhere(sweep.id)
        with pytest.raises(UserError, match=rf"{sweep.id} is being run by another machine, .* \(process \d+\)"):
            Lease(other.bucket, sweep.id, other.id).take(said.append)
        assert "it is taken over where nothing is heard from there" in said[0]
    other.pull()
    assert not other.is_driven_elsewhere(sweep.id)
    Lease(other.bucket, sweep.id, other.id).take(pytest.fail)


@pytest.mark.usefixtures("hasty")
def test_who_is_taken_for_dead_stops_when_it_comes_back(objects: ObjectStore, tmp_path: Path) -> None:
    """A machine sleeps, another one takes its sweep over after a while, the first one wakes."""
    address = objects.bucket()
    bucket = Bucket(address)
    sleeper, other = Lease(bucket, "sweep", "a"), Lease(bucket, "sweep", "b")
    sleeper.take(pytest.fail)
    said: list[str] = []
    other.take(said.append)
    assert len(said) == 1
    assert "another machine" in sleeper.renew()
    assert other.renew() == ""
    Lease(bucket, "sweep", "b").take(pytest.fail)  # A driver died here: its next one need not wait.
    other.release()
    assert other.renew() == "nobody"


@pytest.mark.usefixtures("hasty")
def test_a_store_without_conditional_writes_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, too, who drives the same sweep beside another machine finds out, only later."""
    monkeypatch.setenv(mirrored.VARIABLE, str(tmp_path / "here"))
    monkeypatch.setattr(mirrored, "_open", {})
    said: list[str] = []
    with object_store(monkeypatch, heeds=False) as objects:
        address = objects.bucket()
        here = open_home(address, said.append)
        files = Home(here).sweep(lifecycle.create(spec(), Home(here)).id)
        with lifecycle.driving(files):
            assert "does not know conditional writes" in said[0]
            driving.check_held(files)
            key = lease.key_of(files.directory.name)
            Bucket(address).write(key, b'{"host": "elsewhere", "pid": 7, "home": "other"}', over=None)
            wait_for(lambda: raises_trouble(files))
        storage = S3Storage(f"{address}/runs")
        put(storage, "key", outcome=b"first")
        put(storage, "key", outcome=b"second")
        assert content(storage, "key") == {"outcome": b"first"}


def raises_trouble(files: SweepFiles) -> bool:
    try:
        driving.check_held(files)
    except OSError as error:
        return "elsewhere (process 7)" in str(error)
    return False


def wait_for(reached: Callable[[], bool], within_s: float = 30.0) -> None:
    until = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < until
        time.sleep(LOOK_EVERY_S)


@pytest.mark.usefixtures("hasty")
def test_a_sweep_that_was_taken_over_stops(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    address = objects.bucket()
    here = open_home(address, lambda said: None)
    bucket = Bucket(address)

    def take_over() -> None:
        while not journalled(here):
            time.sleep(LOOK_EVERY_S)
        [sweep_id] = Home(here).sweep_ids()
        bucket.write(lease.key_of(sweep_id), b'{"host": "elsewhere", "pid": 7, "home": "other"}', over=None)

    thief = threading.Thread(target=take_over)
    thief.start()
    asked = spec(family="tests.chaos.paced:PacedFamily", settings={"pace_s": 0.2}, **GRID)
    with pytest.raises(SweepError, match=r"is driven by another machine, elsewhere \(process 7\).*\n.*--resume"):
        run_sweep(asked, RunOptions(home=here, local_debug=True), quiet())
    thief.join()


def test_a_store_that_is_gone_for_a_moment_costs_no_run(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep waits; where the store stays away, it stops with a message, and goes on when it is back."""
    said: list[str] = []
    here, console = open_home(objects.bucket(), said.append), quiet()
    monkeypatch.setattr(driving, "LAST_TRIES_S", 0.5)
    asked = spec(family="tests.chaos.paced:PacedFamily", settings={"pace_s": 0.15}, **GRID)

    def cut(count: int, seconds: float) -> threading.Thread:
        def off() -> None:
            while len(journalled(here)) < count:
                time.sleep(0.02)
            objects.stop()
            if seconds:
                time.sleep(seconds)
                objects.start()

        thread = threading.Thread(target=off)
        thread.start()
        return thread

    monkeypatch.setattr(campaign, "WAITS_S", (0.1, 0.1))
    monkeypatch.setattr(runs, "ASK_AGAIN_S", (0.1, 0.1))
    cutting = cut(2, 0.0)
    with pytest.raises(SweepError, match=r"has stopped: s3://\S+ cannot be reached .*\n.*--resume"):
        run_sweep(asked, RunOptions(home=here, local_debug=True), console)
    cutting.join()
    assert "Machine error (not a result)" in printed(console)
    assert "and the next command with this home, from this machine, copies them" in said[-1]

    objects.start()
    monkeypatch.setattr(campaign, "WAITS_S", (1.0, 1.0, 5.0, 15.0))
    monkeypatch.setattr(runs, "ASK_AGAIN_S", (1.0, 1.0, 5.0, 15.0))
    open_home(here, said.append)
    cutting = cut(len(journalled(here)) + 1, 1.5)
    run_sweep(asked, RunOptions(home=here, local_debug=True, resume=""), console)
    cutting.join()
    [sweep_id] = Home(here).sweep_ids()
    assert [entry.outcome.status for entry in ended(here, sweep_id)] == [Status.FINISHED] * 12


@pytest.mark.parametrize(
    ("variable", "value", "match"),
    [
        ("AWS_ENDPOINT_URL", "no url", "cannot be reached"),
        ("AWS_ACCESS_KEY_ID", "", "wants credentials"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_else(
    variable: str, value: str, match: str, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = objects.bucket()
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises((UserError, OSError), match=match):
        open_home(address, pytest.fail)


def test_a_bucket_that_is_not_there_is_the_users_mistake(objects: ObjectStore) -> None:
    with pytest.raises(UserError, match="s3://no-such-bucket/home has no such bucket"):
        open_home("s3://no-such-bucket/home", pytest.fail)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_sweep_goes_on_on_another_machine(objects: ObjectStore, tmp_path: Path) -> None:
    """No finished run is trained again, and the answer is that of a sweep that nothing happened to, in files."""
    address, log = objects.bucket(), tmp_path / "log"
    one, other = Machine(tmp_path / "one"), Machine(tmp_path / "other")
    asked = ("run", write_space(tmp_path, log, 0.15), "--local-debug", "--home", address)
    program = one.begin(*asked)
    while len(trained(log)) < 5:
        assert program.poll() is None, one.said
        time.sleep(LOOK_EVERY_S)
    program.kill()
    program.communicate()
    there = [key for key in objects.keys(address) if key.startswith("runs/")]
    assert len(there) in (4, 5)
    assert [key for key in objects.keys(address) if key.endswith("/lease.json")]

    found = other.run(*asked, "--resume", "--quiet")
    counts = trained(log)
    assert len(counts) == 12
    assert sum(counts.values()) <= 12 + 5 - len(there)  # What was killed before it was kept, at most.
    assert len([key for key in objects.keys(address) if key.startswith("runs/")]) == 12

    plain = write_space(tmp_path, tmp_path / "plain", 0.0)
    assert found == one.run("run", plain, "--local-debug", "--quiet", "--home", str(tmp_path / "home"))
    assert "finished" in one.run("sweeps", "--home", address)
    assert other.home.joinpath("sweeps").is_dir()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nodes_come_to_the_store_or_send(objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One node reaches the store by its address, one cannot: it is named, and what it trains comes through Ray."""
    need_namespaces()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    here, console = open_home(objects.bucket(), pytest.fail), quiet()
    cluster = Cluster()
    cluster.add_node(num_cpus=0)
    cluster.add_node(num_cpus=1)
    cut_off = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    asked = spec(**SPACE | {"family": "tests.chaos.paced:PacedFamily", "settings": {"pace_s": 0.2}} | ONE_CORE)
    try:
        with node_with("true", tmp_path, cluster.address, **cut_off):
            wait_for_nodes(3, cluster.address, within_s=180)
            run_sweep(asked, RunOptions(home=here, address=cluster.address), console)
    finally:
        ray.shutdown()
        cluster.shutdown()
    [sweep_id] = Home(here).sweep_ids()
    assert [entry.outcome.status for entry in ended(here, sweep_id)] == [Status.FINISHED] * 12
    said = printed(console)
    assert said.count("does not see the driver's s3://") == 1
    assert said.count("cannot be reached") == 1
    assert said.count("travels through Ray") == 1


ONE_CORE = {"resources": {"max_stack": 1, "cpu_per_stack": 1}}
