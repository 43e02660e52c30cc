"""Stacks on the slots of a Ray cluster: their placement, the GPUs they see, and that slots stay busy.

The GPUs are logical: Ray counts and assigns them like real ones, on machines without a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from orchestrator.engine.ray.cluster import cluster_hardware
from orchestrator.engine.ray.engine import RayEngine
from orchestrator.jobs.resources import Resources
from orchestrator.space.spaces import load_space
from orchestrator.space.stack_sizes import choose_stacks, stacks_at_once
from orchestrator.system.errors import SweepError
from tests.scripted import FAMILY, Event, events
from tests.sweep.sweeps import ended, printed, quiet, run_here, spec
from tests.training_scripts import script_spec, with_lines
from trainables.base import Status

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

ROOT = Path(__file__).resolve().parents[2]
MakeCluster = Callable[..., str]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeCluster]:
    """Return a function that starts a cluster of nodes with given cores and GPUs, and returns its address."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's default.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    made = Cluster()

    def make(*nodes: dict[str, Any]) -> str:
        for node in nodes:
            made.add_node(**node)
        return str(made.address)

    yield make
    ray.shutdown()
    made.shutdown()


def sweep(address: str, home: Path, **changes: object) -> list[Event]:
    """Run a grid of sleeping runs on a cluster. Return the evaluations of all runs."""
    home.mkdir(exist_ok=True)
    log = home / "log"
    settings = {"log": str(log), "steps": 2} | dict(changes.pop("settings", {}))  # type: ignore[call-overload]
    wanted_spec = spec(**({"family": FAMILY, "settings": settings, "search": {"method": "grid"}} | changes))
    console = quiet()
    run_here(wanted_spec, home, address=address, engine="ray", console=console)
    wanted = len(wanted_spec.mixes) * len(wanted_spec.sizes) * wanted_spec.seeds
    assert len(ended(home)) == wanted, printed(console)
    return events(log)


def most_at_once(output: list[Event]) -> int:
    """Return the largest number of learners that trained at the same time."""
    return max(sum(other.begun <= turn.begun < other.time for other in output) for turn in output)


def test_the_profile_is_selected_by_the_hardware_of_the_cluster_which_is_ignored_without_its_address(
    cluster: MakeCluster, tmp_path: Path
) -> None:
    address = cluster({"num_cpus": 2}, {"num_cpus": 6, "num_gpus": 2, "resources": {"accelerator_type:H200": 1}})
    existing = cluster_hardware(address)
    assert (existing.cpus, existing.gpus, existing.gpu_name) == (8, 2, "H200")
    assert "8 CPU cores" in str(existing)
    assert "2 x H200" in str(existing)
    assert existing.memory_gb > 0
    space = tmp_path / "on_gpus.yaml"
    space.write_text("like: add_vs_add_prod\nname: on_gpus\nprofiles: {paper: {needs: {asked: false}}}\n")
    assert load_space(str(space), hardware=existing).profile == "paper"
    assert not ray.is_initialized()
    with RayEngine() as engine:
        described = engine.describe(Resources())
    assert described.startswith("Ray on this machine: 1 node, ")
    assert "GPU" not in described


def test_four_stacks_share_two_gpus_and_each_sees_only_its_own(cluster: MakeCluster, tmp_path: Path) -> None:
    address = cluster({"num_cpus": 4, "num_gpus": 2})
    resources = {"gpu_per_stack": 0.5, "max_stack": 1}
    settings = {"pace_s": 0.2, "meet": 4}
    output = sweep(address, tmp_path, sizes=[8, 16], seeds=2, resources=resources, settings=settings)
    seen = {turn.process: turn.gpus for turn in output}
    assert Counter(seen.values()) == {"0": 2, "1": 2}
    assert most_at_once(output) == 4


@pytest.mark.night
@pytest.mark.parametrize(("share", "slots"), [("auto", 2), (0, 4)])
def test_stacks_are_placed_on_nodes_with_the_resources_they_ask_for(
    share: float | str, slots: int, cluster: MakeCluster, tmp_path: Path
) -> None:
    """Stacks with a share of a GPU train on the node that has one, as many as its cores allow; others use every
    core."""
    address = cluster({"num_cpus": 2}, {"num_cpus": 2, "num_gpus": 1})
    existing = cluster_hardware(address)
    resources = {"gpu_per_stack": share, "max_stack": 1}
    sleep = {"pace_s": 0.5, "meet": slots}
    wanted_spec = spec(family=FAMILY, sizes=[8, 16], seeds=2, resources=resources)
    assert stacks_at_once(choose_stacks(wanted_spec, existing), existing) == slots
    output = sweep(address, tmp_path, sizes=[8, 16], seeds=2, resources=resources, settings=sleep)
    assert most_at_once(output) == slots
    assert {turn.gpus for turn in output} == ({"0"} if share else {""})
    assert len({turn.node for turn in output}) == (1 if share else 2)


@pytest.mark.night
def test_one_process_per_slot_trains_all_runs(cluster: MakeCluster, tmp_path: Path) -> None:
    address = cluster({"num_cpus": 4, "num_gpus": 4})
    resources = {"gpu_per_stack": 1, "max_stack": 1}
    output = sweep(address, tmp_path, seeds=5, resources=resources, settings={"pace_s": 0.5, "steps": 3, "meet": 4})
    turns = Counter(turn.process for turn in output)
    assert len(turns) == 4
    assert min(turns.values()) >= len(output) // 8, "a process had less than half of its share"


CROWDED = """
    peers = Path(given.checkpoint).resolve().parents[2] / "peers"
    peers.mkdir(exist_ok=True)
    own = peers / str(os.getpid())
    own.touch()
    living = [path for path in peers.iterdir() if Path("/proc", path.name).exists()]
    if step == 2 and len(living) > 2:
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", flush=True)
        sys.exit(1)
    if step == given.steps:
        time.sleep(1)
        own.unlink()
"""


def test_scripts_that_fill_a_gpu_together_get_larger_shares_of_it(cluster: MakeCluster, tmp_path: Path) -> None:
    """Four scripts share a GPU that has memory for two of them."""
    address = cluster({"num_cpus": 4, "num_gpus": 1})
    code = with_lines(CROWDED, at="STEP")
    resources = {"gpu_per_stack": 0.25}
    wanted = script_spec(tmp_path / "code", code, seeds=2, settings={"steps": 6, "pace": 1.0}, resources=resources)
    console = quiet()
    run_here(wanted, tmp_path / "home", address=address, engine="ray", console=console)
    outcomes = [entry.outcome for entry in ended(tmp_path / "home")]
    assert [outcome.status for outcome in outcomes] == [Status.FINISHED] * 8
    assert [[point.step for point in outcome.curve] for outcome in outcomes] == [[2, 4, 6]] * 8
    assert "does not fit into 0.25 of a GPU. From now on, stacks get 0.5 of a GPU." in printed(console)


def test_a_run_that_does_not_fit_alone_gets_a_whole_gpu_before_the_sweep_stops(
    cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.engine.retries.WAITS_S", (0.0,))
    address = cluster({"num_cpus": 1, "num_gpus": 1})
    resources = {"gpu_per_stack": 0.3, "max_stack": 1}
    wanted = spec(family=FAMILY, sizes=[16], seeds=1, mixes=["add"], resources=resources, settings={"room": 0})
    console = quiet()
    with pytest.raises(SweepError, match="even one run at units 16 does not fit in memory"):
        run_here(wanted, tmp_path, address=address, engine="ray", console=console)
    assert ended(tmp_path) == []
    warnings = [line for line in printed(console).splitlines() if "does not fit into" in line]
    assert [line.partition("fit into ")[2] for line in warnings] == [
        "0.3 of a GPU. From now on, stacks get 0.6 of a GPU.",
        "0.6 of a GPU. From now on, stacks get 1 of a GPU.",
    ]
