"""A driver in a container of its own, simulated by a PID namespace: Ray finds the node of a driver among the processes
that the driver sees, so the recipes start a node next to it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.program import Ended, process
from tests.engine.hosts import RAY
from tests.record.servers import free_port
from tests.sweep.sweeps import ended
from tests.waiting import wait_for

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ROOT = DEPLOY.parent
SWEEP = ("run", "add_vs_add_prod", "--profile", "smoke", "--set", "sizes=[4]", "--set", "settings.training.steps=50")


def can_unshare() -> bool:
    words = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0 or not can_unshare(), reason="needs root and PID namespaces"),
]


@pytest.fixture(name="head")
def started_head(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a head with one core and a token, and return its address."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with tempfile.TemporaryDirectory(prefix="r") as place:
        port = free_port()
        options = ["--num-cpus=1", f"--temp-dir={place}", "--include-dashboard=false", "--disable-usage-stats"]
        with (Path(place) / "output").open("wb") as log:
            head = subprocess.Popen(
                [RAY, "start", "--head", f"--port={port}", "--block", *options], stdout=log, stderr=log
            )
        try:
            address = f"127.0.0.1:{port}"
            check = [str(RAY), "health-check", "--address", address]
            wait_for(lambda: subprocess.run(check, check=False, capture_output=True).returncode == 0, 120)
            yield address
        finally:
            head.terminate()
            head.wait(60)


def in_container(words: list[str], place: Path) -> Ended:
    """Run a command that sees none of this machine's processes, with a directory of its own for Ray's files."""
    with tempfile.TemporaryDirectory(prefix="c") as temporary:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "RAY_TMPDIR": temporary}
        return process(["unshare", "--pid", "--fork", "--mount-proc", *words], cwd=place, environment=own, within_s=400)


def test_a_driver_without_a_node_is_refused_with_the_command(head: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "orchestrator", *SWEEP, "--address", head, "--home", "home"]
    refused = in_container(words, tmp_path).refused()
    assert f"no node of the cluster at {head} runs here" in refused
    assert f"ray start --address={head} --num-cpus=0" in refused


def test_the_driver_of_compose_has_a_node_of_its_own(head: str, tmp_path: Path) -> None:
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    entry = [word.replace("head:6379", head).replace("$$", "$") for word in compose["services"]["driver"]["entrypoint"]]
    in_container([*entry, *SWEEP, "--address", head, "--home", "home"], tmp_path).succeeded()
    assert len(ended(tmp_path / "home")) == 4


def test_the_driver_of_kuberay_has_a_node_of_its_own(head: str, tmp_path: Path) -> None:
    """Its container waits for the head and keeps a node; `kubectl exec` starts sweeps next to it."""
    documents = yaml.safe_load_all((DEPLOY / "kuberay" / "cluster.yaml").read_text())
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    (driver,) = deployment["spec"]["template"]["spec"]["containers"]
    (script,) = (text.replace("sweeps-head-svc:6379", head) for text in driver["args"])
    assert driver["command"] == ["sh", "-c"]
    run = f"{sys.executable} -m orchestrator {' '.join(map(repr, SWEEP))} --address {head} --home home"
    begun = 'until grep -q "Ray runtime started" node.log; do sleep 1; done'
    both = f"({script}) > node.log 2>&1 & {begun}; {run}"
    in_container(["sh", "-c", both], tmp_path).succeeded()
    assert len(ended(tmp_path / "home")) == 4
