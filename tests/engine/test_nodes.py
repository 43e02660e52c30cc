"""Nodes that do not see the driver's home: what they train comes through Ray, or is refused; it is never lost."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from safetensors.numpy import load_file

from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.engine.ray import keeper
from orchestrator.engine.ray.keeper import KIND, Keeper, KeptByDriver
from orchestrator.engine.transport import Transport
from orchestrator.errors import SweepError
from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import Home
from orchestrator.store.journal import Ended
from orchestrator.store.remains import WEIGHTS, read_origin, read_outcome
from orchestrator.store.storage import Storage
from orchestrator.store.trouble import LastingTroubleError
from tests.chaos.ground import HEAD, QUICK
from tests.chaos.paced import RUNS, write_space
from tests.chaos.program import ENVIRONMENT, Program, evaluations, journalled
from tests.conformance.storages import StorageConformance, put
from tests.drive.sweeps import ended, printed, quiet, spec
from tests.engine.held import FAMILY
from tests.engine.nodes import OWN_DISK, READ_ONLY, need_namespaces, node_with, wait_for_nodes
from trainables.base import Status

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cluster whose head has no core, so that everything is trained on nodes that join it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Cluster()
    made.add_node(num_cpus=0)
    yield str(made.address)
    ray.shutdown()
    made.shutdown()


def asked(**changes: object) -> SweepSpec:
    """Four runs, and two that go on from the weights of one of them."""
    fields: dict[str, object] = {
        "mixes": ["add", {"name": "max first", "phases": [{"mix": "max", "share": 0.34}, {"mix": "add"}]}],
        "sizes": [16, 64],
        "seeds": 1,
        "search": {"method": "grid"},
        "resources": {"max_stack": 2},
    }
    return spec(**fields | changes)


def on_one_machine(home: Path) -> dict[str, Ended]:
    """The same sweep trained where there is but one disk: its runs by key."""
    run_sweep(asked(), RunOptions(home=home, local_debug=True), quiet())
    [sweep_id] = Home(home).sweep_ids()
    return {entry.key: entry for entry in ended(home, sweep_id)}


@pytest.mark.parametrize("mounted", [OWN_DISK, READ_ONLY], ids=["own disk", "read only"])
def test_what_a_node_with_a_disk_of_its_own_trains_is_the_same_to_the_last_weight(
    mounted: str, address: str, tmp_path: Path
) -> None:
    need_namespaces()
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    expected = on_one_machine(other)
    console = quiet()
    with node_with(mounted, home, address):
        wait_for_nodes(2, address)
        run_sweep(asked(), RunOptions(home=home, address=address), console)
    [sweep_id] = Home(home).sweep_ids()
    assert {entry.key: entry for entry in ended(home, sweep_id)} == expected
    why = "does not see the driver's" if mounted is OWN_DISK else "cannot write to the driver's"
    assert printed(console).count(f"{why} {home}") == 1
    assert "travels through Ray, 512 MiB at most a run" in printed(console)
    for key, entry in expected.items():
        there, here = home / "runs" / key, other / "runs" / key
        assert read_outcome(there) == entry.outcome
        origin = read_origin(there)
        assert origin is not None
        assert origin.sweep == sweep_id
        assert {path.name for path in there.iterdir()} == {path.name for path in here.iterdir()}
        np.testing.assert_equal(load_file(there / WEIGHTS), load_file(here / WEIGHTS))
    assert not Home(home).sweep(sweep_id).reach.exists()


def test_with_a_shared_home_asked_for_such_a_node_is_refused_and_named(address: str, tmp_path: Path) -> None:
    need_namespaces()
    home = tmp_path / "home"
    home.mkdir()
    with node_with(OWN_DISK, home, address):
        wait_for_nodes(2, address)
        with pytest.raises(SweepError, match=rf"the node [\d.]+ does not see the driver's {home}, and with") as refused:
            run_sweep(asked(), RunOptions(home=home, address=address, transport=Transport.SHARED), quiet())
    assert refused.value.exit_code == 1
    [sweep_id] = Home(home).sweep_ids()
    assert f"--resume {sweep_id}" in str(refused.value)
    assert ended(home, sweep_id) == []


def test_nodes_that_share_the_home_write_to_it(address: str, tmp_path: Path) -> None:
    need_namespaces()
    console = quiet()
    with node_with("true", tmp_path, address):
        wait_for_nodes(2, address)
        run_sweep(asked(), RunOptions(home=tmp_path, address=address, transport=Transport.SHARED), console)
    [sweep_id] = Home(tmp_path).sweep_ids()
    assert {entry.outcome.status for entry in ended(tmp_path, sweep_id)} == {Status.FINISHED}
    assert "travels through Ray" not in printed(console)


@pytest.mark.night
def test_a_node_that_is_lost_fails_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No failure of a stack is tolerated here (``retries: 0``): a lost node is none."""
    for name, value in (ENVIRONMENT | QUICK).items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    lost = cluster.add_node(num_cpus=1)
    resources = {"max_stack": 1, "retries": 0, "checkpoint_every_s": 0.1}
    program = Program(
        write_space(tmp_path, pace_s=0.3, resources=resources),
        tmp_path / "home",
        tmp_path / "said",
        "--address",
        cluster.address,
    )
    try:
        program.wait_for_runs(2)
        cluster.remove_node(lost, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        assert program.end() == 0, program.log.read_text()
    finally:
        program.kill()
        cluster.shutdown()
    said = program.log.read_text()
    lost = r"the node [\d.]+ was lost|a node was lost, or cannot be reached"
    assert re.search(rf"trouble, which is no outcome: ({lost}) .*; tried again in 1 s", said), said
    assert [entry.outcome.status for entry in journalled(tmp_path / "home")] == [Status.FINISHED] * RUNS


def test_a_node_that_joins_in_the_middle_trains_and_one_that_leaves_is_not_counted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the only core there is a run stands still. Another one ends on a node that joins, which then is gone."""
    for name, value in (ENVIRONMENT | QUICK).items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    cluster.add_node(num_cpus=1)
    home, log, hold = tmp_path / "home", tmp_path / "said", tmp_path / "16-2"
    hold.touch()
    asked: dict[str, Any] = {"mixes": ["add"], "sizes": [16, 64], "seeds": 1, "family": FAMILY}
    settings = {"steps": 3, "holds": str(tmp_path)}
    resources = {"max_stack": 1, "cpu_per_stack": 1}
    space = write_space(tmp_path, pace_s=0, settings=settings, resources=resources, **asked)
    program = Program(space, home, log, "--address", cluster.address)
    try:
        wait_until(lambda: evaluations(home) == 1)
        joined = cluster.add_node(num_cpus=1)
        program.wait_for_runs(1)
        [ended_there] = journalled(home)
        assert ended_there.request.size == 64
        cluster.remove_node(joined, allow_graceful=False)
        wait_until(lambda: "2 nodes, 1 stacks at a time (2 before)" in log.read_text())
        hold.unlink()
        assert program.end() == 0, log.read_text()
    finally:
        program.kill()
        cluster.shutdown()
    assert "the cluster has changed: 3 nodes, 2 stacks at a time (1 before)" in log.read_text()
    assert [entry.request.size for entry in journalled(home)] == [64, 16]


def wait_until(reached: Callable[[], bool]) -> None:
    """Raises ``TimeoutError``."""
    until = time.monotonic() + 120
    while not reached():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.1)


@pytest.fixture(scope="module")
def beside() -> Iterator[str]:
    """The name of a keeper."""
    os.environ["PYTHONPATH"] = str(ROOT)
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    actor: Any = ray.remote(Keeper).options(name="keeper-test", num_cpus=0).remote()
    ray.get(actor.has.remote("/nowhere", "nothing"))
    yield "keeper-test"
    ray.shutdown()


class TestKeptByDriver(StorageConformance):
    @pytest.fixture
    def storage(self, beside: str, tmp_path: Path) -> Storage:
        return KeptByDriver(f"{KIND}://{beside}{tmp_path}/kept")

    def test_what_changes_there_is_read_anew(self, storage: Storage, tmp_path: Path) -> None:
        put(storage, "key", outcome=b"good")
        assert (storage.get("key") / "outcome").read_bytes() == b"good"
        (tmp_path / "kept" / "key" / "outcome").write_bytes(b"better")
        assert (storage.get("key") / "outcome").read_bytes() == b"better"

    def test_empty_directories_are_kept(self, storage: Storage) -> None:
        put(storage, "key", outcome=b"good")
        assert (storage.get("key") / "inner").is_dir()

    def test_what_the_disk_there_says_is_said_here(self, storage: Storage, tmp_path: Path) -> None:
        (tmp_path / "kept").write_text("a file in the way")
        with pytest.raises(FileExistsError) as met:
            put(storage, "key", outcome=b"good")
        assert met.value.filename == str(tmp_path / "kept")

    def test_too_much_is_refused_with_its_size(
        self, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "LARGEST_BYTES", 1 << 20)
        with pytest.raises(LastingTroubleError, match="key has 2 MiB, and at most 1 MiB travel through Ray"):
            put(storage, "key", outcome=b"1" * (2 << 20))
        assert not storage.has("key")
        assert list(tmp_path.rglob("outcome")) == []
