"""Nodes of a Ray cluster on this machine that see their own directory in place of the driver's home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ray

from tests.waiting import wait_for

RAY = Path(sys.executable).with_name("ray")
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
"""The environment of this process before Ray was started in it."""
OWN_DISK = "mount -t tmpfs -o size=64m tmpfs {home}"
READ_ONLY = "mount --bind {home} {home} && mount -o remount,bind,ro {home}"


def need_namespaces() -> None:
    """Skip the test if the user may not mount file systems."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted in a namespace of their own here")


@contextmanager
def node_with(mounted: str, home: Path, address: str, **environment: str) -> Iterator[None]:
    """Run a node of one core in the cluster at this address. The command ``mounted`` runs before the node starts, in
    a separate namespace, so that no other process sees its mounts."""
    start = f"exec {RAY} start --address={address} --num-cpus=1 --block --disable-usage-stats"
    command = ["unshare", "-m", "sh", "-c", f"{mounted.format(home=home)} && {start}"]
    node = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        node.terminate()  # Ray ends its own child processes.
        try:
            node.wait(timeout=30)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()


def wait_for_nodes(count: int, address: str) -> None:
    """Wait until this many nodes are alive."""
    ray.init(address=address, log_to_driver=False)
    try:
        wait_for(lambda: sum(node["Alive"] for node in ray.nodes()) >= count, 60)
    finally:
        ray.shutdown()
