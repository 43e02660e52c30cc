"""The batch script on a single-machine Slurm: a sweep is preempted, requeued and resumed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from tests.record.servers import free_port
from tests.sweep.sweeps import ended
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "slurm" / "sweep.sbatch"
NEEDED = ("sbatch", "slurmctld", "slurmd", "munged")
WAIT_S = 420.0
"""Longest wait, in seconds. Slurm waits two minutes before it restarts a job."""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start Slurm's daemons"),
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="needs slurm-wlm and munge"),
]


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Slurm of one node, and the environment variables to reach it."""
    place = tmp_path_factory.mktemp("slurm")
    for parent in (place, *place.parents):
        if parent.owner() == "root" and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)  # munge runs as a separate user.
    munge, host = place / "munge", socket.gethostname().partition(".")[0]
    for name in ("state", "spool", "munge"):
        (place / name).mkdir()
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o400)
    shutil.chown(munge, "munge")
    shutil.chown(munge / "key", "munge")
    munge.chmod(0o755)
    lines = [
        "ClusterName=one", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root",
        "AuthType=auth/munge", "CredType=cred/munge", f"AuthInfo=socket={munge}/socket",
        "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core", "MpiDefault=none", "ReturnToService=2", "KillWait=60",
        f"StateSaveLocation={place}/state", f"SlurmdSpoolDir={place}/spool",
        f"SlurmctldPidFile={place}/ctld.pid", f"SlurmdPidFile={place}/slurmd.pid",
        f"SlurmctldLogFile={place}/ctld.log", f"SlurmdLogFile={place}/slurmd.log",
        f"SlurmctldPort={free_port()}", f"SlurmdPort={free_port()}",
        f"NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN",
        f"PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP",
    ]  # fmt: skip
    (place / "slurm.conf").write_text("\n".join(lines) + "\n")
    environment = os.environ | {"SLURM_CONF": str(place / "slurm.conf")}
    options = [f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/munged.pid"]
    options += [f"--log-file={munge}/log", f"--seed-file={munge}/seed"]
    subprocess.run(["runuser", "-u", "munge", "--", "munged", *options], check=True)
    try:
        for daemon in ("slurmctld", "slurmd"):
            subprocess.run([daemon], env=environment, check=True)
        yield environment
    finally:
        for path in (place / "slurmd.pid", place / "ctld.pid", munge / "munged.pid"):
            if path.is_file():
                os.kill(int(path.read_text()), 15)


def test_a_preempted_job_leaves_checkpoints_and_resumes(slurm: dict[str, str], tmp_path: Path) -> None:
    log, home = tmp_path / "job.out", Home(tmp_path / "home")
    environment = slurm | {"SWEEPS_PYTHON": sys.executable, "SWEEPS_HOME": str(home.root), "PYTHONPATH": str(ROOT)}
    words = ["--parsable", "--nodes=1", "--cpus-per-task=2", "--time=20:00", f"--output={log}", f"--chdir={tmp_path}"]
    wanted_spec = ["add_vs_add_prod", "--profile", "smoke", "--set", "settings.training.steps=1500"]
    submitted = subprocess.run(
        ["sbatch", *words, str(SCRIPT), *wanted_spec], env=environment, capture_output=True, text=True, check=True
    )
    job = submitted.stdout.strip()

    def logged(words: str) -> bool:
        return log.is_file() and words in log.read_text()

    wait_for(lambda: home.sweep_ids() and ended(home.root, home.sweep_ids()[0]), WAIT_S)
    subprocess.run(["scancel", "--batch", "--signal=TERM", job], env=environment, check=True)
    wait_for(lambda: logged("Stopped; "), WAIT_S)
    (sweep,) = home.sweep_ids()
    stored = {entry.key for entry in ended(home.root, sweep)}
    wait_for(lambda: logged("add, modulus"), WAIT_S)
    assert home.sweep_ids() == [sweep]
    keys = [entry.key for entry in ended(home.root, sweep)]
    assert stored < set(keys)
    assert len(keys) == len(set(keys))
