"""The home's disk, locks and clock, and loopback: what a sweep writes to and speaks over."""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from filelock import FileLock

from orchestrator.doctor.findings import Finding, ok, slow, wrong

GB = 1e9
LEAST_GB, GOOD_GB = 0.5, 5.0
"""Free space: for a small sweep with its record; for some hundred runs of the largest widths with theirs."""
FLUSHES, SLOW_FLUSH_S = 20, 0.05
"""Journals are flushed to disk at every outcome; a disk of a laptop takes some milliseconds over it."""
SKEW_S = 2.0
"""By how much the clock of the home's disk may differ from this machine's: file systems round to that."""
DRIFT_S = 0.5
"""By how much the wall clock may be set while a check runs."""
PORTS = {5000: ("ui", "--port"), 8265: ("run --dashboard", "")}
"""Ports on loopback, with the command that opens each and the option that names another one."""

HOLD = """
import sys, time
from filelock import FileLock, Timeout
try:
    FileLock(sys.argv[1]).acquire(timeout=0)
except Timeout:
    print("held")
else:
    print("taken twice")
"""
"""Tries to take a lock in another process."""


def disk(home: Path) -> Finding:
    """Free space at the home, and how long a flush to its disk takes."""
    free = shutil.disk_usage(home).free / GB
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        taken = [_flush(Path(aside) / "journal") for _ in range(FLUSHES)]
    flush = statistics.median(taken)
    said = f"{free:.1f} GB free at {home}, a flush to disk takes {1e3 * flush:.1f} ms"
    figures = {"free_gb": free, "flush_s": flush}
    if free < LEAST_GB:
        return wrong(said, "free some space, or name another --home", **figures)
    if free < GOOD_GB:
        return slow(said, f"a large sweep with its record takes up to {GOOD_GB:g} GB: name another --home", **figures)
    if flush > SLOW_FLUSH_S:
        return slow(said, "every outcome waits for that: name a --home on a nearer disk", **figures)
    return ok(said, **figures)


def locks(home: Path) -> Finding:
    """Whether a lock in the home keeps another process out: two drivers of one sweep would spoil its journal."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        path = Path(aside) / "lock"
        with FileLock(path):
            words = [sys.executable, "-c", HOLD, str(path)]
            other = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    if other != "held":
        todo = "its file system has no locks (NFS without its lock service?): name another --home"
        return wrong("a lock in the home does not keep another process out", todo)
    return ok("a lock in the home keeps another process out")


def clock(home: Path) -> Finding:
    """Whether this machine's clock agrees with that of the home's disk, and goes on evenly."""
    wall, even = time.time(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        path = Path(aside) / "now"
        path.write_text("now", encoding="ascii")
        skew = path.stat().st_mtime - time.time()
    newest = (Path(__file__)).stat().st_mtime
    time.sleep(0.5)
    drift = (time.time() - wall) - (time.monotonic() - even)
    figures = {"disk_skew_s": skew, "drift_s": drift}
    said = f"it is {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC"
    if newest > time.time() + SKEW_S:
        return wrong(f"{said}, which is before this program was written", "set the clock", **figures)
    if abs(skew) > SKEW_S:
        todo = "what is newest and what is stale is read off files: set both clocks (NTP)"
        return wrong(f"{said} here, and the home's disk is {skew:+.1f} s off", todo, **figures)
    if abs(drift) > DRIFT_S:
        todo = "times in the record will be off while the clock is being set"
        return slow(f"{said}, but the clock jumped by {drift:+.1f} s meanwhile", todo, **figures)
    return ok(f"{said}, as for the home's disk", **figures)


def ports() -> Finding:
    """Whether processes of this machine can speak to one another, and which of the pages' ports are taken."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5.0)
        with socket.create_connection(server.getsockname(), timeout=5.0) as there:
            here, _ = server.accept()
            with here:
                there.sendall(b"?")
                here.settimeout(5.0)
                heard = here.recv(1)
    if heard != b"?":
        return wrong("loopback does not carry what is sent", "Ray needs it: look at the firewall")
    busy = [port for port in PORTS if not _is_free(port)]
    said = "loopback answers"
    for port in busy:
        command, option = PORTS[port]
        said += f"; port {port} is taken, so `{command}` takes {option + ' N' if option else 'the next free one'}"
    return ok(said, taken=busy)


def _flush(path: Path) -> float:
    """Seconds to append a line to a file and have it on disk."""
    begun = time.perf_counter()
    with path.open("ab") as file:
        file.write(b"x" * 512 + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begun


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
