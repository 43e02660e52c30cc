"""Another user of the machine (uid 65534) attacks a running sweep under Ray, a running `ui`, and the home.

They try every file, socket and port that belongs to them. Skipped unless root runs the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.cli.program import started
from tests.record.servers import free_port
from tests.scripted import FAMILY
from tests.site.browsing import get, opened
from tests.sweep.sweeps import spec
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")]

OTHER = 65534
SECRET = "CANARY-8c1f0b"
ATTACK = """
import json, os, socket, sys, urllib.request

roots, ports, urls = json.loads(sys.argv[1])
read, written, refused = [], [], 0
for root in roots:
    for directory, names, files in os.walk(root):
        for path in [directory, *(os.path.join(directory, name) for name in names + files)]:
            is_directory = os.path.isdir(path) and not os.path.islink(path)
            try:
                os.listdir(path) if is_directory else open(path, "rb").close()
                read.append(path)
            except OSError:
                refused += 1
            try:
                target = os.path.join(path, "planted") if is_directory else path
                os.close(os.open(target, os.O_WRONLY | (os.O_CREAT if is_directory else 0)))
                written.append(path)
            except OSError:
                pass
            try:
                with socket.socket(socket.AF_UNIX) as other:
                    other.connect(path)
                written.append(path)
            except (OSError, ValueError):
                pass
    try:
        os.listdir(root)
    except OSError:
        refused += 1
for url in urls:
    for port in ports:
        for body in (None, b'{"name": "theirs", "artifact_location": "/tmp/theirs"}'):
            request = urllib.request.Request(url.format(port=port), body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    read.append(request.full_url + " " + answer.read(200).decode(errors="replace"))
            except Exception:  # Also answers that are not HTTP.
                refused += 1
print(json.dumps([read, written, refused]))
"""
URLS = [
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port}/mlflow/",
    "http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/create",
    "http://127.0.0.1:{port}/mlflow/ajax-api/2.0/mlflow/experiments/create",
    "http://127.0.0.1:{port}/api/cluster_status",
]


def attack(roots: list[Path], ports: list[int]) -> tuple[list[str], list[str], int]:
    """Return what another user can read and write below directories and at ports, and the number of refusals."""
    given = json.dumps([[str(root) for root in roots], ports, URLS])
    done = subprocess.run(
        [shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable, "-c", ATTACK, given],
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    read, written, refused = json.loads(done.stdout)
    return read, written, refused


@pytest.fixture(name="place")
def public_place() -> Iterator[Path]:
    """A directory with a short path that every user can open and write, such as scratch space on a shared disk."""
    with tempfile.TemporaryDirectory(prefix="o-", dir="/tmp") as directory:
        os.chmod(directory, 0o1777)
        yield Path(directory)


def has_records(database: Path) -> bool:
    """Return True if a sweep is recorded. Before, MLflow may still be making the tables, and `ui` would say so."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.Error:
        return False


def test_another_user_reads_and_writes_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, temporary = place / "home", place / "t"
    temporary.mkdir(0o777)
    temporary.chmod(0o1777)
    for name in ("RAY_TMPDIR", "TMPDIR"):
        monkeypatch.setenv(name, str(temporary))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    sweep = spec(
        family=FAMILY,
        sizes=[8, 16, 32, 64],
        search={"method": "grid"},
        settings={"log": str(place / "log"), "steps": 1000, "pace_s": 0.5},
    )
    (place / "space.yaml").write_text(sweep.to_yaml())
    own = free_port()
    with started("run", place / "space.yaml", "--home", home) as driver:
        try:
            wait_for(lambda: list(home.glob("sweeps/*/stacks/*")) or driver.poll(), 300)
            assert driver.poll() is None, driver.stdout and driver.stdout.read()
            wait_for(lambda: has_records(home / "mlflow.db"), 60)
            with started("ui", "--home", home, "--port", own) as server:
                try:
                    assert server.stdout is not None
                    address = opened(server.stdout.readline().rpartition(" ")[2].strip())
                    wait_for(lambda: list(temporary.glob("orchestrator-*/mlflow")) or server.poll() is not None, 180)
                    assert server.poll() is None, server.stdout.read()
                    parts = psutil.Process(driver.pid).children(recursive=True)
                    sockets = [one for part in parts for one in part.net_connections() if one.status == "LISTEN"]
                    assert {one.laddr.ip for one in sockets} <= {"127.0.0.1", "::ffff:127.0.0.1"}
                    ours = [path for path in temporary.iterdir() if path.is_dir()]
                    assert {path.name.partition("-")[0] for path in ours} == {"orchestrator", "ray"}
                    roots = [home, *ours, Path(f"/proc/{driver.pid}/environ"), Path(f"/proc/{server.pid}/environ")]
                    read, written, refused = attack(roots, [own, *{one.laddr.port for one in sockets}])
                    # Ray answers everyone with counters of its own work, for Prometheus.
                    assert ([text for text in read if " # HELP " not in text], written) == ([], [])
                    assert refused > 10
                    assert "running" in get(address)
                finally:
                    server.send_signal(signal.SIGTERM)
                assert server.wait(60) == 0
            logs = [path for path in temporary.rglob("*") if path.is_file()]
            assert len(logs) > 10
            assert [path for path in logs if SECRET.encode() in path.read_bytes()] == []
        finally:
            driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=200)
    assert [path.name for path in temporary.iterdir() if path.name.startswith("ray-")] == []
    kept = [path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert kept == []
