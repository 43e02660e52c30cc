"""A cluster whose autoscaler adds nodes of two cores, on this machine: Ray's own autoscaler, with the provider that Ray
has for tests. (``ray.cluster_utils.AutoscalingCluster`` ends every Ray of the machine as it starts.)"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private.services import get_node_ip_address
from ray.util.placement_group import placement_group_table

from orchestrator.engine.ray.cluster import cluster_hardware
from orchestrator.errors import SweepError
from tests.engine.nodes import RAY

IDLE_S = 8.0
"""A node that is added is idle until it is counted and its first worker has started."""
CORES = 2
"""Of each node that is added. The head has none."""
PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
FIRST = "f" * 51 + "0" * 5
"""The head's id, as the provider wants it."""


def _config(address: str, most: int, *, v2: bool) -> dict[str, Any]:
    provider = {"use_node_id_as_ip": True, "disable_node_updaters": True, "disable_launch_config_check": True}
    in_v2 = {"launch_multiple": True, "head_node_id": FIRST} if v2 else {}
    commands = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    lists = [*(f"{each}_commands" for each in commands), "cluster_synced_files", "rsync_exclude", "rsync_filter"]
    nothing: dict[str, Any] = {name: [] for name in lists}
    worker = {"resources": {"CPU": CORES, "object_store_memory": 100_000_000}, "node_config": {}, "min_workers": 0}
    return nothing | {
        "cluster_name": "growing",
        "max_workers": most,
        "idle_timeout_minutes": IDLE_S / 60,
        "upscaling_speed": 10,
        "provider": provider | {"type": "external", "module": PROVIDER, "gcs_address": address} | in_v2,
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": worker | {"max_workers": most},
        },
        "auth": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
    }


@contextmanager
def growing_cluster(directory: Path, most: int, *, v2: bool) -> Iterator[str]:
    """The address of a cluster that grows to ``most`` nodes beside its head, and shrinks once they have been idle for
    :data:`IDLE_S`. ``directory`` is for its files, its path short: sockets lie in it."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = int(taken.getsockname()[1])
    address = f"{get_node_ip_address()}:{port}"
    config = directory / "autoscaler.json"
    config.write_text(json.dumps(_config(address, most, v2=v2)), encoding="utf-8")
    environment = os.environ | {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    if v2:
        environment |= {"RAY_enable_autoscaler_v2": "1", "RAY_NODE_TYPE_NAME": "ray.head.default"}
        environment |= {"RAY_CLOUD_INSTANCE_ID": FIRST, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FIRST}
    words = ["start", "--head", f"--port={port}", "--num-cpus=0", "--block", "--disable-usage-stats"]
    words += ["--include-dashboard=false", "--include-log-monitor=false", "--object-store-memory=100000000"]
    words += [f"--temp-dir={directory}", f"--autoscaling-config={config}"]
    with (directory / "said").open("wb") as said:
        head = subprocess.Popen([RAY, *words], env=environment, stdout=said, stderr=said)
    try:
        _wait_until_it_grows(address, head, directory / "said")
        yield address
    finally:
        parts = [] if head.poll() is not None else [*psutil.Process(head.pid).children(recursive=True)]
        head.terminate()
        _, left = psutil.wait_procs(parts, timeout=5)
        for each in left:
            each.kill()
        head.wait()


def _wait_until_it_grows(address: str, head: subprocess.Popen[bytes], said: Path, within_s: float = 200.0) -> None:
    until = time.monotonic() + within_s
    while True:
        assert head.poll() is None, said.read_text()
        with suppress(SweepError):  # The head is not there yet.
            if cluster_hardware(address).grows:
                return
        if time.monotonic() > until:
            raise TimeoutError(said.read_text())
        time.sleep(0.5)


def seen(address: str) -> tuple[int, int]:
    """How many nodes a cluster has beside its head, and how many slots its autoscaler is asked for."""
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        asked = [group for group in placement_group_table().values() if group["state"] == "PENDING"]
        return len(nodes) - 1, len(asked)
    finally:
        ray.shutdown()
