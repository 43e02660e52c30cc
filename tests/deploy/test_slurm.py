"""The batch script on a Slurm of this machine: a sweep is preempted, requeued and resumed, also on several nodes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
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
LONG = ("add_vs_add_prod", "--profile", "smoke", "--set", "sizes=[4, 8]", "--set", "settings.training.steps=20000")
"""A sweep whose runs take some seconds each."""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start Slurm's daemons"),
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="needs slurm-wlm and munge"),
]


class Slurm:
    """A Slurm on this machine with nodes of its own names, each with two cores."""

    def __init__(self, place: Path, nodes: int) -> None:
        self._place, self._munge = place, place / "munge"
        self.names = [f"node{number}" for number in range(1, nodes + 1)]
        self.environment = os.environ | {
            "SLURM_CONF": str(place / "slurm.conf"),
            "SWEEPS_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }

    def start(self) -> None:
        place, munge, host = self._place, self._munge, socket.gethostname().partition(".")[0]
        for parent in (place, *place.parents):
            if parent.owner() == "root" and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)  # munge runs as a separate user.
        for name in ("state", "munge"):
            (place / name).mkdir()
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o400)
        shutil.chown(munge, "munge")
        shutil.chown(munge / "key", "munge")
        munge.chmod(0o755)
        nodes = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 State=UNKNOWN"
            for name in self.names
        ]
        lines = [
            "ClusterName=one", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root",
            "AuthType=auth/munge", "CredType=cred/munge", f"AuthInfo=socket={munge}/socket",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core", "MpiDefault=none", "ReturnToService=2", "KillWait=60",
            "SlurmdParameters=config_overrides",  # The nodes have more cores than the machine.
            f"StateSaveLocation={place}/state", f"SlurmdSpoolDir={place}/spool-%n",
            f"SlurmctldPidFile={place}/ctld.pid", f"SlurmdPidFile={place}/%n.pid",
            f"SlurmctldLogFile={place}/ctld.log", f"SlurmdLogFile={place}/%n.log",
            f"SlurmctldPort={free_port()}", *nodes,
            f"PartitionName=all Nodes={','.join(self.names)} Default=YES MaxTime=INFINITE State=UP",
        ]  # fmt: skip
        (place / "slurm.conf").write_text("\n".join(lines) + "\n")
        options = [f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/munged.pid"]
        options += [f"--log-file={munge}/log", f"--seed-file={munge}/seed"]
        subprocess.run(["runuser", "-u", "munge", "--", "munged", *options], check=True)
        self.call("slurmctld")
        for name in self.names:
            self.call("slurmd", "-N", name)

    def call(self, *words: str) -> str:
        """Run one of Slurm's commands, and return its output."""
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=True).stdout.strip()

    def submit(self, home: Home, log: Path, *words: str, options: tuple[str, ...] = ()) -> str:
        """Submit a sweep, and return the job's id."""
        own = ("--parsable", "--cpus-per-task=1", "--time=20:00", f"--output={log}", f"--chdir={log.parent}")
        nodes = f"--nodes={len(self.names)}"
        self.environment["SWEEPS_HOME"] = str(home.root)
        return self.call("sbatch", *own, nodes, *options, str(SCRIPT), *words)

    def ray_processes(self) -> set[tuple[int, str]]:
        """Return number and name of the processes of Ray that jobs of this Slurm started, not those of other tests."""
        own = self.environment["SLURM_CONF"]
        processes = psutil.process_iter(["pid", "name", "environ"])
        ray = (one.info for one in processes if one.info["name"] in ("raylet", "gcs_server"))
        return {(one["pid"], one["name"]) for one in ray if (one["environ"] or {}).get("SLURM_CONF") == own}

    def stop(self) -> None:
        """Cancel every job, and end the daemons once nothing runs any more. Jobs must leave no process of Ray."""
        try:
            self.call("scancel", "--user=root")
            wait_for(lambda: not self.call("squeue", "--noheader"), WAIT_S)
            wait_for(lambda: not self.ray_processes(), 60, lambda: f"left: {self.ray_processes()}")
        finally:
            for path in (*self._place.glob("*.pid"), self._munge / "munged.pid"):
                if path.is_file():
                    os.kill(int(path.read_text()), 15)


@pytest.fixture(name="slurm")
def slurm_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Slurm]]:
    """Return a function that starts a Slurm of so many nodes."""
    made: list[Slurm] = []

    def start(nodes: int) -> Slurm:
        made.append(Slurm(tmp_path_factory.mktemp("slurm"), nodes))
        made[0].start()
        return made[0]

    yield start
    for one in made:
        one.stop()


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_preempted_job_leaves_checkpoints_and_resumes(
    nodes: int, slurm: Callable[[int], Slurm], tmp_path: Path
) -> None:
    cluster, log, home = slurm(nodes), tmp_path / "job.out", Home(tmp_path / "home")
    before = set(Path("/tmp").glob("ray-*"))  # Another Slurm had the same numbers of jobs.
    job = cluster.submit(home, log, *LONG)

    def text() -> str:
        return log.read_text() if log.is_file() else ""

    wait_for(lambda: home.sweep_ids() and ended(home.root, home.sweep_ids()[0]), WAIT_S, text)
    wait_for(lambda: f"{nodes} node" in text(), WAIT_S, text)  # Those that join later are announced.
    [place] = {*Path("/tmp").glob(f"ray-{job}-*")} - before
    assert (place.stat().st_mode & 0o777, (place / "r").is_dir()) == (0o700, True)
    cluster.call("scancel", "--batch", "--signal=TERM", job)
    wait_for(lambda: "Stopped; " in text(), WAIT_S, text)
    (sweep,) = home.sweep_ids()
    stored = {entry.key for entry in ended(home.root, sweep)}
    wait_for(lambda: "size at 80% of the asymptote" in text(), WAIT_S, text)
    assert home.sweep_ids() == [sweep]
    keys = [entry.key for entry in ended(home.root, sweep)]
    assert stored < set(keys)
    assert len(keys) == len(set(keys))
