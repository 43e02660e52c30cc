"""A home in a bucket: swept, resumed and read by machines that share nothing but the bucket, which may fail."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.errors import SweepError, UserError
from orchestrator.home import bucket_home, driver_lock, lifecycle
from orchestrator.home.bucket import ABSENT, Bucket, ChangedError
from orchestrator.home.bucket_home import LEASES, BucketHome, open_home
from orchestrator.home.driver_lock import Lease
from orchestrator.home.files import Home
from orchestrator.home.journal import Journal, Stopped
from orchestrator.home.machine_errors import REMOTE, trouble_in
from orchestrator.sweep.run import run_sweep
from orchestrator.sweep.run_options import RunOptions
from tests.chaos.program import LOOK_EVERY_S, ROOT, journalled
from tests.cli.program import command, line
from tests.objects import ObjectStore, object_store
from tests.scripted import FAMILY, trained
from tests.sweep.sweeps import ended, printed, quiet, spec, table_of
from trainables.base import Status

GRID = {"sizes": [16, 32, 64], "search": {"method": "grid"}}
PACED = {"family": FAMILY, "settings": {"pace_s": 0.2}}
THIEF = b'{"host": "elsewhere", "pid": 7, "home": "other"}'


@pytest.fixture(name="objects")
def running_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    monkeypatch.setenv(bucket_home.VARIABLE, str(tmp_path / "here"))
    monkeypatch.setattr(bucket_home, "_open", {})
    with object_store(monkeypatch) as store:
        yield store


@pytest.fixture(name="hasty")
def leases_that_lapse_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_lock, "LAPSE_S", 2.0)
    monkeypatch.setattr(driver_lock, "LOOK_S", 0.1)
    monkeypatch.setattr(driver_lock, "RENEW_S", 0.3)


def elsewhere(directory: Path, address: str, say: Callable[[str], object] = pytest.fail) -> BucketHome:
    """Another machine's part of a home, up to date."""
    other = BucketHome(directory, address, say)
    other.pull()
    return other


def runs_in(objects: ObjectStore, address: str) -> list[str]:
    return [key for key in objects.keys(address) if key.startswith("runs/")]


def test_an_object_is_replaced_only_as_it_was(objects: ObjectStore) -> None:
    place = Bucket(objects.bucket())
    first = place.write("folder/key", b"1", ABSENT)
    with pytest.raises(ChangedError):
        place.write("folder/key", b"2", ABSENT)
    assert place.write("folder/key", b"1", ABSENT) == first  # As if the first answer had been lost.
    second = place.write("folder/key", b"2", first)
    with pytest.raises(ChangedError):
        place.write("folder/key", b"3", first)
    assert place.read("folder/key") == (b"2", second)
    assert [each.key for each in place.list()] == ["folder/key"]
    place.delete("folder/key")
    place.delete("folder/key")
    with pytest.raises(ChangedError):
        place.write("folder/key", b"3", second)
    assert (place.read("folder/key"), list(place.list())) == (None, [])


def test_what_is_swept_here_is_read_there(objects: ObjectStore, tmp_path: Path) -> None:
    address, console = objects.bucket(), quiet()
    here = open_home(address, pytest.fail)
    run_sweep(spec(**GRID), RunOptions(home=here, local_debug=True), console)
    [sweep_id] = Home(here).sweep_ids()
    keys = objects.keys(address)
    assert len(runs_in(objects, address)) == 12
    assert {key for key in keys if not key.startswith("runs/")} == {f"sweeps/{sweep_id}.tar"}
    assert f"ui --home {address}" in printed(console)

    there = elsewhere(tmp_path / "there", address)
    files = Home(there.root).sweep(sweep_id)
    memory = lifecycle.recall(files)
    assert memory == lifecycle.recall(Home(here).sweep(sweep_id))
    assert (len(memory.ended), memory.answered, memory.damaged) == (12, True, ())
    shutil.rmtree(files.directory)
    shutil.rmtree(Home(there.root).runs / memory.ended[0].key)
    there.push()
    open_home(address, pytest.fail)
    assert not Home(here).sweep(sweep_id).directory.exists()
    assert len(list((here / "runs").iterdir())) == len(runs_in(objects, address)) == 11
    for secret in (b"of-a-test", objects.environment["AWS_ENDPOINT_URL"].encode()):
        assert not [path for path in here.rglob("*") if path.is_file() and secret in path.read_bytes()]


def test_a_quarter_of_requests_that_fail_slow_a_sweep_and_do_not_end_it(objects: ObjectStore, tmp_path: Path) -> None:
    address, said, plain, console = objects.bucket(), list[str](), quiet(), quiet()
    run_sweep(spec(**GRID), RunOptions(home=tmp_path / "plain", local_debug=True), plain)
    with objects.refusing(0.25):
        here = open_home(address, said.append)
        run_sweep(spec(**GRID), RunOptions(home=here, local_debug=True), console)
        there = elsewhere(tmp_path / "there", address, said.append)
    assert table_of(printed(console)) == table_of(printed(plain)) != []
    [sweep_id] = Home(here).sweep_ids()
    assert len(ended(there.root, sweep_id)) == 12


def test_no_journal_in_the_bucket_is_ahead_of_its_runs(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    address, written = objects.bucket(), list[str]()
    write = Bucket.write

    def watched(self: Bucket, key: str, content: bytes, over: str | None) -> str:
        if key.startswith("sweeps/"):
            there = {each.key for each in self.list()}
            named = [each.split(b'"')[0].decode() for each in content.split(b'"key":"')[1:]]
            assert {f"runs/{key}.tar" for key in named} <= there
            written.extend(named)
        return write(self, key, content, over)

    monkeypatch.setattr(Bucket, "write", watched)
    monkeypatch.setattr(driver_lock, "COPY_EVERY_S", 0.05)
    run_sweep(spec(**GRID, **PACED), RunOptions(home=open_home(address, pytest.fail), local_debug=True), quiet())
    assert len(written) > 24  # More than once, and at the end all 12.


def test_what_two_machines_wrote_is_decided_by_the_bucket(objects: ObjectStore, tmp_path: Path) -> None:
    address, said = objects.bucket(), list[str]()
    one, other = (elsewhere(tmp_path / name, address, said.append) for name in ("one", "other"))
    sweep = lifecycle.create(spec(), Home(one.root))
    one.push()
    other.pull()
    for home, mix in ((one, "add"), (other, "add+prod")):
        with Journal(Home(home.root).sweep(sweep.id).journal) as journal:
            journal.append(Stopped(mix))
    other.push()
    one.push()  # What the other one has written is not written over.
    assert lifecycle.recall(Home(one.root).sweep(sweep.id)).stopped == {"add+prod"}
    assert len(said) == 1
    assert "was changed by another machine, whose version holds" in said[0]
    one.pull()
    one.push()
    assert len(said) == 1


@pytest.mark.usefixtures("hasty")
def test_of_two_machines_one_drives(objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, said = objects.bucket(), list[str]()
    here = open_home(address, pytest.fail)
    sweep = lifecycle.create(spec(), Home(here))
    monkeypatch.setattr(driver_lock, "LAPSE_S", 60.0)  # A busy machine may be late with a renewal.
    with lifecycle.driving(Home(here).sweep(sweep.id)):
        other = elsewhere(tmp_path / "there", address, said.append)
        assert sweep.id in other.leases
        with pytest.raises(UserError, match=rf"{sweep.id} is being run by another machine, .* \(process \d+\)"):
            Lease(other, sweep.id).take()
        assert "it is taken over after 60 s of silence" in said[0]
    monkeypatch.setattr(driver_lock, "LAPSE_S", 1.0)
    other.pull()
    assert not other.leases
    sleeper, heir = Lease(other, sweep.id), Lease(elsewhere(tmp_path / "third", address, said.append), sweep.id)
    sleeper.take()
    heir.take()  # Nothing was heard from the sleeper for a while.
    assert "another machine" in sleeper.renew()
    assert heir.renew() == ""
    heir.release()


@pytest.mark.usefixtures("hasty")
def test_a_sweep_that_was_taken_over_stops(objects: ObjectStore) -> None:
    address = objects.bucket()
    here = open_home(address, lambda said: None)

    def take_over() -> None:
        while not journalled(here):
            time.sleep(LOOK_EVERY_S)
        [sweep_id] = Home(here).sweep_ids()
        Bucket(address).write(f"{LEASES}{sweep_id}", THIEF, over=None)

    thief = threading.Thread(target=take_over)
    thief.start()
    with pytest.raises(SweepError, match=r"is driven by another machine, elsewhere \(process 7\).*\n.*--resume"):
        run_sweep(spec(**PACED, **GRID), RunOptions(home=here, local_debug=True), quiet())
    thief.join()


def test_a_bucket_that_is_gone_for_a_while_costs_no_run(
    objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep goes on; what it trained is copied when the bucket is back, at the latest by the next command."""
    address, said = objects.bucket(), list[str]()
    here, console = open_home(address, said.append), quiet()
    monkeypatch.setattr("orchestrator.home.bucket.ATTEMPTS", 1)
    monkeypatch.setattr(bucket_home, "_open", {})
    here = open_home(address, said.append)

    def cut() -> None:
        while len(journalled(here)) < 2:
            time.sleep(0.02)
        objects.stop()

    cutting = threading.Thread(target=cut)
    cutting.start()
    run_sweep(spec(**PACED, **GRID), RunOptions(home=here, local_debug=True), console)
    cutting.join()
    [sweep_id] = Home(here).sweep_ids()
    assert [entry.outcome.status for entry in ended(here, sweep_id)] == [Status.FINISHED] * 12
    assert "cannot be reached" in said[0]
    assert f"{sweep_id} goes on, and is copied there later" in said[0]
    assert "the next command with this home, from this machine, copies them" in said[-1]
    assert len(said) == 2
    objects.start()
    assert len(runs_in(objects, address)) < 12
    open_home(address, said.append)  # The next command, though the lease of this machine is still there.
    bucket_home.follow(here)()
    assert len(runs_in(objects, address)) == 12
    assert lifecycle.recall(Home(elsewhere(tmp_path / "there", address).root).sweep(sweep_id)).answered


def test_what_cannot_be_used_is_said_first(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="s3://no-such-bucket/home has no such bucket"):
        open_home("s3://no-such-bucket/home", pytest.fail)
    address = objects.bucket()
    monkeypatch.setattr("orchestrator.home.bucket.ATTEMPTS", 1)
    objects.stop()
    with pytest.raises(OSError, match="cannot be reached") as caught:
        open_home(address, pytest.fail)
    assert trouble_in(caught.value) == REMOTE
    monkeypatch.setenv("AWS_ENDPOINT_URL", "no url")
    with pytest.raises((UserError, OSError), match="AWS_ENDPOINT_URL"):
        open_home(address, pytest.fail)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("hasty")
def test_a_killed_sweep_goes_on_on_another_machine(
    objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No finished run is trained again, and the answer is that of an undisturbed sweep in files."""
    address, log, space = objects.bucket(), tmp_path / "log", tmp_path / "space.yaml"
    settings, resources = {"log": str(log), "pace_s": 0.15}, {"max_stack": 1, "cpu_per_stack": 2}
    space.write_text(spec(family=FAMILY, seeds=2, settings=settings, resources=resources, **GRID).to_yaml())
    asked = ("run", str(space), "--local-debug", "--quiet", "--home")
    program = subprocess.Popen(line(*asked, address), cwd=ROOT)
    while len(runs_in(objects, address)) < 4:
        assert program.poll() is None
        time.sleep(LOOK_EVERY_S)
    program.kill()
    program.wait()
    assert [key for key in objects.keys(address) if key.startswith(LEASES)]
    lost = sum(trained(log).values()) - len(runs_in(objects, address))  # Killed before they were in the bucket.

    monkeypatch.setenv(bucket_home.VARIABLE, str(tmp_path / "other"))
    found = command(*asked, address, "--resume")
    assert (len(trained(log)), sum(trained(log).values())) == (12, 12 + lost)
    assert len(runs_in(objects, address)) == 12
    assert (found.code, found.out) == (0, command(*asked, tmp_path / "plain").out)
