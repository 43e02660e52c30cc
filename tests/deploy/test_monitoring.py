"""What deploy/monitoring asks for is what a sweep exports; Debian's Prometheus reads its configuration and scrapes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from orchestrator.engine.ray.metrics import METRICS, PREFIX, values
from orchestrator.search.base import MixProgress
from orchestrator.terminal.snapshot import Counts, RunProgress, Snapshot
from tests.record.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
EXPORTED = {PREFIX + name for name in METRICS}
SNAPSHOT = Snapshot(
    size_axis="n_embed",
    sizes=(8, 16, 32),
    mixes=(
        MixProgress("add", 8, None, 4, done=False, note=""),
        MixProgress("add+prod", None, 16, 2, done=False, note=""),
    ),
    counts={"add": Counts(3, 1, 0), "add+prod": Counts(2)},
    in_flight=(RunProgress("add", 32, 0, 10, 90, 0.5), RunProgress("add", 32, 1, 10, 90, 0.7)),
    trained_s=33,
    steps_per_s=1200,
)


def test_grafana_asks_for_every_exported_metric_and_for_no_other() -> None:
    text = (MONITORING / "grafana.json").read_text(encoding="utf-8")
    dashboard = json.loads(text)
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for query in asked for name in re.findall(rf"\b{PREFIX}\w+", query)}
    assert names == EXPORTED
    assert set(re.findall(rf"\b{PREFIX}\w+", text)) == EXPORTED
    labels = {label for query in asked for label in re.findall(r"(\w+)=~", query)}
    labels |= {
        label for query in asked for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")
    }
    assert labels <= {label for _, known in METRICS.values() for label in known}


def test_the_table_of_metrics_is_complete() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", (MONITORING / "README.md").read_text(encoding="utf-8"), re.M)
    assert {name: tuple(labels.split(", ")) for name, labels in rows} == {
        PREFIX + name: labels for name, (_, labels) in METRICS.items()
    }


def test_values_say_what_the_snapshot_says() -> None:
    found = {(each.name, *each.labels.values()): each.value for each in values("s", SNAPSHOT)}
    assert found == {
        ("sweep_runs", "s", "add", "training"): 2,
        ("sweep_runs", "s", "add", "finished"): 3,
        ("sweep_runs", "s", "add", "diverged"): 1,
        ("sweep_runs", "s", "add", "failed"): 0,
        ("sweep_runs", "s", "add+prod", "training"): 0,
        ("sweep_runs", "s", "add+prod", "finished"): 2,
        ("sweep_runs", "s", "add+prod", "diverged"): 0,
        ("sweep_runs", "s", "add+prod", "failed"): 0,
        ("sweep_runs_left_at_most", "s", "add"): 4,
        ("sweep_runs_left_at_most", "s", "add+prod"): 2,
        ("sweep_accuracy_in_training", "s", "add"): pytest.approx(0.6),
        ("sweep_transition_above_size", "s", "add"): 8,
        ("sweep_transition_up_to_size", "s", "add+prod"): 16,
        ("sweep_trained_seconds", "s"): 33,
        ("sweep_run_steps_per_second", "s"): 1200,
    }
    for each in values("s", SNAPSHOT):
        assert tuple(each.labels) == METRICS[each.name][1]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian's prometheus has it)")
def test_prometheus_reads_its_configuration() -> None:
    command = ["promtool", "check", "config", str(MONITORING / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.night
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed (Debian has it)")
def test_prometheus_scrapes_a_running_sweep(tmp_path: Path) -> None:
    """A real sweep with the dashboard on, and a real Prometheus that finds Ray's agents by the file they write."""
    configuration = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    configuration["global"]["scrape_interval"] = "1s"
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    page = f"127.0.0.1:{free_port()}"
    prometheus = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={page}",
    ]
    sweep = [sys.executable, "-m", "orchestrator", "run", "add_vs_add_prod", "--profile", "smoke", "--dashboard"]
    # Longer than a smoke sweep is, so that it can be looked at.
    sweep += ["--set", "settings.training.steps=200000", "--home", str(tmp_path / "home")]
    with (tmp_path / "prometheus.log").open("w") as log, (tmp_path / "sweep.log").open("w") as said:
        server = subprocess.Popen(prometheus, stdout=log, stderr=log)
        driver = subprocess.Popen(sweep, stdout=said, stderr=said, cwd=ROOT, env=os.environ | {"COLUMNS": "200"})
        try:
            series = _wait_for_series(page, driver, tmp_path / "sweep.log")
        finally:
            driver.send_signal(signal.SIGINT)
            server.terminate()
            driver.wait(120)
            server.wait(60)
    assert "dashboard: http://127.0.0.1:" in (tmp_path / "sweep.log").read_text()
    states = {each["metric"]["state"] for each in series if each["metric"]["mix"] == "add"}
    assert states == {"training", "finished", "diverged", "failed"}


def _wait_for_series(page: str, driver: subprocess.Popen[bytes], log: Path) -> list[dict[str, dict[str, str]]]:
    query = urllib.parse.urlencode({"query": "ray_sweep_runs"})
    until = time.monotonic() + 200
    while time.monotonic() < until:
        assert driver.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://{page}/api/v1/query?{query}", timeout=5) as answer:
                found: list[dict[str, dict[str, str]]] = json.load(answer)["data"]["result"]
        except OSError:
            found = []
        if found:
            return found
        time.sleep(1)
    raise AssertionError(f"Prometheus saw no metric of the sweep in 200 s:\n{log.read_text()}")
