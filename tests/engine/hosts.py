"""Simulated network hosts: network namespaces on a bridge that is itself in a namespace, so that the machine's own
network does not change. Each host has an address, a Ray with its own directory, and its own disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.chaos.program import PATIENCE_S, RAYLET, WORKER, children, wait_until_gone
from tests.waiting import wait_for

RAY = Path(sys.executable).with_name("ray")
OWN_DISK = "mount -t tmpfs -o size=64m tmpfs {home}"
"""Command that puts an empty disk in place of the driver's home."""
END_S = 30.0
"""Seconds in which a killed process must be gone."""


class Hosts:
    """Hosts, numbered from 1.

    Args:
        count: Number of hosts.
        directory: Directory for Ray's files. Its path must be short because it contains sockets.
    """

    def __init__(self, count: int, directory: Path) -> None:
        self.numbers = range(1, count + 1)
        self._directory = directory
        self._rays: dict[int, subprocess.Popen[bytes]] = {}
        self._made: list[int] = []

    def address(self, number: int) -> str:
        """Return the address of a host."""
        return f"10.77.0.{number}"

    def on(self, number: int) -> list[str]:
        """Return the words that precede a command to run it on a host."""
        return ["ip", "netns", "exec", self._name(number)]

    def connect(self) -> None:
        """Create the network. Raises ``CalledProcessError`` if the user or the machine cannot."""
        for number in (0, *self.numbers):
            _ip("netns", "add", self._name(number))
            self._made.append(number)
        switch = ("-n", self._name(0))
        _ip(*switch, "link", "add", "bridge", "type", "bridge")
        _ip(*switch, "link", "set", "bridge", "up")
        for number in self.numbers:
            host = ("-n", self._name(number))
            _ip(*switch, "link", "add", f"port{number}", "type", "veth", "peer", "eth0", "netns", self._name(number))
            _ip(*switch, "link", "set", f"port{number}", "master", "bridge", "up")
            _ip(*host, "link", "set", "lo", "up")
            _ip(*host, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
            _ip(*host, "link", "set", "eth0", "up")
            _ip(*host, "route", "add", "default", "dev", "eth0")  # Ray needs it to find the host's address.

    def cut(self, number: int) -> None:
        """Disconnect a host."""
        _ip("-n", self._name(0), "link", "set", f"port{number}", "down")

    def heal(self, number: int) -> None:
        """Reconnect a host."""
        _ip("-n", self._name(0), "link", "set", f"port{number}", "up")

    def start_ray(self, number: int, command: Sequence[str], before: str = "true", cpus: int = 1) -> None:
        """Run ``ray start`` on a host, after a shell command that creates private mounts."""
        place = self._directory / str(number)
        place.mkdir(exist_ok=True)
        options = ["--block", f"--num-cpus={cpus}", "--object-store-memory=100000000", "--include-log-monitor=false"]
        words = " ".join([str(RAY), *command, *options, f"--temp-dir={place}", "--disable-usage-stats"])
        with (place / "output").open("ab") as log:
            self._rays[number] = subprocess.Popen(
                [*self.on(number), "unshare", "-m", "sh", "-c", f"{before} && exec {words}"], stdout=log, stderr=log
            )

    def output(self, number: int) -> str:
        """Return the output of Ray on a host."""
        return (self._directory / str(number) / "output").read_text()

    def part(self, number: int, words: str) -> psutil.Process:
        """Return one of Ray's processes on a host once it exists. Raises ``AssertionError`` if Ray has ended."""
        ray = self._rays[number]

        def look() -> list[psutil.Process]:
            assert ray.poll() is None, self.output(number)
            return children([psutil.Process(ray.pid)], words)

        return wait_for(look, PATIENCE_S, lambda: self.output(number))[-1]

    def node_id(self, number: int) -> str:
        """Return Ray's id of a host."""
        words: list[str] = self.part(number, RAYLET).cmdline()
        return next(word.partition("=")[2] for word in words if word.startswith("--node_id="))

    def drain(self, head: int, number: int, within_s: int) -> None:
        """Tell the cluster of a head that a host will go away after so many seconds."""
        words = [str(RAY), "drain-node", f"--address={self.address(head)}:6379", f"--node-id={self.node_id(number)}"]
        words += ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=test"]
        command = [*self.on(head), *words, f"--deadline-remaining-seconds={within_s}"]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def workers(self, number: int) -> list[psutil.Process]:
        """Return the training processes on a host."""
        return children([self.part(number, RAYLET)], WORKER)

    def trains(self, number: int) -> bool:
        """Return True if a process trains on a host, whose Ray may be ending."""
        for item in _ip("netns", "pids", self._name(number)).split():
            with suppress(psutil.NoSuchProcess):
                if WORKER in " ".join(psutil.Process(int(item)).cmdline()):
                    return True
        return False

    def is_idle(self, number: int) -> bool:
        """Return True if no process trains on a host."""
        return not self.trains(number)

    def end(self, number: int) -> None:
        """Kill all processes on a host. Raises ``AssertionError`` if one of them does not end."""
        left: list[psutil.Process] = []
        for item in _ip("netns", "pids", self._name(number)).split():
            with suppress(psutil.NoSuchProcess):  # The process has already ended.
                left.append(psutil.Process(int(item)))
                left[-1].kill()
        assert not wait_until_gone(left, END_S)
        if (ray := self._rays.pop(number, None)) is not None:
            ray.wait()

    def remove(self) -> None:
        """Kill all processes on the hosts and remove the hosts."""
        for number in self._made:
            self.end(number)
            _ip("netns", "delete", self._name(number))

    @staticmethod
    def _name(number: int) -> str:
        """Return the name of a host's namespace; 0 is the bridge's."""
        return f"sweeps-{os.getpid()}-{number}"


@contextmanager
def connected_hosts(count: int, directory: Path) -> Iterator[Hosts]:
    """Create hosts for the duration of a block, or skip the test if they cannot be created."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "unshare"))):
        pytest.skip("hosts of a network need root, ip (iproute2) and unshare")
    hosts = Hosts(count, directory)
    try:
        try:
            hosts.connect()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network of namespaces can be made here: {error.stderr.strip()}")
        yield hosts
    finally:
        hosts.remove()


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
