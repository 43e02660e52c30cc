"""Hosts of a network on this machine: network namespaces on a bridge that is in one as well, so that nothing of the
machine's own network changes. Each host has an address, a Ray with a directory of its own, and a disk of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.chaos.program import PATIENCE_S, RAYLET, WORKER, children, wait_until_gone
from tests.engine.nodes import RAY
from tests.waiting import wait_for

END_S = 30.0
"""A process that is killed is gone sooner."""


class Hosts:
    """Numbered from 1. ``directory`` is for Ray's files, its path short: sockets lie in it."""

    def __init__(self, count: int, directory: Path) -> None:
        self.numbers = range(1, count + 1)
        self._directory = directory
        self._rays: dict[int, subprocess.Popen[bytes]] = {}
        self._made: list[int] = []

    def address(self, number: int) -> str:
        """Of a host."""
        return f"10.77.0.{number}"

    def on(self, number: int) -> list[str]:
        """The words before a command that is to run on a host."""
        return ["ip", "netns", "exec", self._name(number)]

    def connect(self) -> None:
        """Make the network. Raises ``CalledProcessError`` where this user, or this machine, cannot."""
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
            _ip(*host, "route", "add", "default", "dev", "eth0")  # By it Ray finds a host's address.

    def cut(self, number: int) -> None:
        """Pull a host's cable out."""
        _ip("-n", self._name(0), "link", "set", f"port{number}", "down")

    def heal(self, number: int) -> None:
        """Put it in again."""
        _ip("-n", self._name(0), "link", "set", f"port{number}", "up")

    def start_ray(self, number: int, command: Sequence[str], before: str = "true") -> None:
        """Have a host run ``ray start``, after a shell command that makes private mounts."""
        place = self._directory / str(number)
        place.mkdir(exist_ok=True)
        options = ["--block", "--num-cpus=1", "--object-store-memory=100000000", "--include-log-monitor=false"]
        words = " ".join([str(RAY), *command, *options, f"--temp-dir={place}", "--disable-usage-stats"])
        with (place / "output").open("ab") as log:
            self._rays[number] = subprocess.Popen(
                [*self.on(number), "unshare", "-m", "sh", "-c", f"{before} && exec {words}"], stdout=log, stderr=log
            )

    def output(self, number: int) -> str:
        """What Ray has written on a host."""
        return (self._directory / str(number) / "output").read_text()

    def part(self, number: int, words: str) -> psutil.Process:
        """A part of Ray on a host, once it is there. Raises ``AssertionError`` where Ray has ended before."""
        ray = self._rays[number]

        def look() -> list[psutil.Process]:
            assert ray.poll() is None, self.output(number)
            return children([psutil.Process(ray.pid)], words)

        return wait_for(look, PATIENCE_S, lambda: self.output(number))[-1]

    def workers(self, number: int) -> list[psutil.Process]:
        """The processes that train on a host now."""
        return children([self.part(number, RAYLET)], WORKER)

    def end(self, number: int) -> None:
        """End all that runs on a host at once. Raises ``AssertionError`` where that does not end."""
        left: list[psutil.Process] = []
        for item in _ip("netns", "pids", self._name(number)).split():
            with suppress(psutil.NoSuchProcess):  # It has ended meanwhile.
                left.append(psutil.Process(int(item)))
                left[-1].kill()
        assert not wait_until_gone(left, END_S)
        if (ray := self._rays.pop(number, None)) is not None:
            ray.wait()

    def remove(self) -> None:
        """End all that runs on the hosts, and take them away."""
        for number in self._made:
            self.end(number)
            _ip("netns", "delete", self._name(number))

    @staticmethod
    def _name(number: int) -> str:
        """Of a namespace; 0 is where the bridge is."""
        return f"sweeps-{os.getpid()}-{number}"


@contextmanager
def connected_hosts(count: int, directory: Path) -> Iterator[Hosts]:
    """A block in which there are hosts; the test is skipped where they cannot be made."""
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
