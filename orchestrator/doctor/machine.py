"""Checks of any machine: its software, memory, home directory and ports, a small training, MLflow and Ray."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import ParamSpec, TypeVar

import psutil
from filelock import FileLock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from orchestrator.doctor.checkup import Check, Finding, ok, slow, wrong
from orchestrator.search.base import Request
from orchestrator.space.hardware import detect
from orchestrator.space.resources import Resources
from orchestrator.space.spaces import load_space

P = ParamSpec("P")
R = TypeVar("R")
GB = 1e9
DISTRIBUTION = "transition-sweeps"
LOCK = Path(__file__).parents[2] / "requirements.lock"
"""Every version the project is tested with; part of a checkout, absent from an installed package."""
SHOWN = 4
"""Packages named in a line; the JSON has them all."""
DRIVER_GB, WORKER_GB = 1.5, 0.7
"""Memory of a sweep's driver with Ray and MLflow, and of each worker in addition to its stack: generous estimates, not
measured."""
CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
"""The memory limit of a container."""
LEAST_GB, GOOD_GB = 0.5, 5.0
"""Free disk space for a small sweep with its record, and for some hundred runs of the largest widths with theirs."""
FLUSHES, SLOW_FLUSH_S = 20, 0.05
"""Journals are flushed to disk at every outcome; a laptop's disk takes some milliseconds for it."""
PORTS = {5000: "ui --port N", 8265: "run --dashboard, which takes the next free one"}
"""Ports on loopback, with the command that opens each."""
WITHIN_S = 300.0
"""A small training that takes longer has failed; on two busy cores it takes ten seconds."""
LEARNED = 0.8
"""The training loss falls below this share of its first value."""
HOLD = """
import sys
from filelock import FileLock, Timeout
try:
    FileLock(sys.argv[1]).acquire(timeout=0)
except Timeout:
    print("held")
"""
"""A program that tries to take a lock."""


def machine_checks(home: Path) -> list[Check]:
    """The checks of any machine, for this home directory, which exists."""
    return [
        ("software", software),
        ("memory", memory),
        ("home", partial(home_directory, home)),
        ("ports", ports),
        ("training", partial(training, home)),
        ("MLflow", partial(record, home)),
        ("Ray", ray_start),
    ]


def software() -> Finding:
    """Python, torch and every package the project needs, against the ranges it names and the versions it is tested
    with."""
    import torch

    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU alone"
    said = f"Python {platform.python_version()}, torch {torch.__version__} {built}"
    here = {str(canonicalize_name(each.metadata["Name"])): each.version for each in metadata.distributions()}
    if DISTRIBUTION not in here:
        return wrong(f"{said}; {DISTRIBUTION} itself is not installed", "run make install, or pip install -e .")
    broken = unmet(metadata.requires(DISTRIBUTION) or [], here)
    if broken:
        todo = "run make install, or pip install -e . in the environment you use"
        return wrong(f"{said}; missing, too old or too new: {_some(broken)}", todo, unmet=broken)
    other = differing(LOCK.read_text(encoding="utf-8"), here) if LOCK.is_file() else []
    if other:
        said += f"; all in range, but {len(other)} are not the versions of requirements.lock: {_some(other)}"
        return slow(said, "it should do; make install takes exactly the tested ones", unmet=[], differing=other)
    return ok(f"{said}; every package is in range", unmet=[])


def unmet(requirements: Sequence[str], here: Mapping[str, str]) -> list[str]:
    """The requirements (PEP 508, without those of extras) that are not met, in words."""
    found = []
    for each in map(Requirement, requirements):
        if each.marker is not None and not each.marker.evaluate({"extra": ""}):
            continue
        version = here.get(canonicalize_name(each.name))
        if version is None:
            found.append(f"{each.name} is missing")
        elif not each.specifier.contains(version, prereleases=True):
            found.append(f"{each.name} {version} is not {each.specifier}")
    return found


def differing(lock: str, here: Mapping[str, str]) -> list[str]:
    """The installed packages whose version is not the one in a lock file; local parts (+cpu) do not count."""
    found = []
    for name, wanted in re.findall(r"^([\w.-]+)==([^\s;]+)$", lock, re.MULTILINE):
        version = here.get(canonicalize_name(name))
        if version is not None and Version(version).public != Version(wanted).public:
            found.append(f"{name} {version} (tested: {wanted})")
    return found


def memory() -> Finding:
    """Room for a worker on each core."""
    there, limit, cores = psutil.virtual_memory(), _container_limit(), detect().cpus
    free = min(there.available, limit) / GB
    wanted = DRIVER_GB + WORKER_GB * cores
    said = f"{free:.1f} GB of memory free, {cores} cores"
    if free < DRIVER_GB + WORKER_GB:
        return wrong(said, f"one worker with its driver takes {DRIVER_GB + WORKER_GB:.1f} GB: free some", free_gb=free)
    if free < wanted:
        todo = f"workers on all cores take {wanted:.1f} GB: --set resources.cpu_per_stack=2"
        return slow(said, todo, free_gb=free)
    return ok(said, free_gb=free)


def home_directory(home: Path) -> Finding:
    """The home's free space, the time of a flush to its disk, and its locks: two drivers would spoil a journal."""
    free = shutil.disk_usage(home).free / GB
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        flush = statistics.median(_flush(Path(aside) / "journal") for _ in range(FLUSHES))
        with FileLock(path := Path(aside) / "lock"):
            words = [sys.executable, "-c", HOLD, str(path)]
            held = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    said = f"{free:.1f} GB free at {home}, a flush to disk takes {1e3 * flush:.1f} ms"
    figures = {"free_gb": free, "flush_s": flush}
    if held != "held":
        todo = "its file system has no locks (NFS without its lock service?): name another --home"
        return wrong(f"{said}; a lock does not keep another process out", todo, **figures)
    if free < LEAST_GB:
        return wrong(said, "free some space, or name another --home", **figures)
    if free < GOOD_GB:
        return slow(said, f"a large sweep with its record takes up to {GOOD_GB:g} GB: name another --home", **figures)
    if flush > SLOW_FLUSH_S:
        return slow(said, "every outcome waits for that: name a --home on a nearer disk", **figures)
    return ok(said, **figures)


def ports() -> Finding:
    """Loopback, over which processes of this machine talk, and the ports of the pages."""
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
    said = "".join(f"; port {port} is taken: {PORTS[port]}" for port in busy)
    return ok(f"loopback answers{said}", taken=busy)


@dataclass(frozen=True)
class Trained:
    """A small training: the mean loss in nats at each evaluation, and a digest of all final weights."""

    losses: tuple[float, ...]
    digest: str


def training(home: Path, overrides: Sequence[str] = ()) -> Finding:
    """A small stack learns; resumed from its checkpoint in another process, it ends in the same bits."""
    return resumed_stack(home, "cpu", overrides)


def resumed_stack(home: Path, device: str, overrides: Sequence[str] = ()) -> Finding:
    """The check of :func:`training` on a device."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        whole = apart(trained, aside, device, overrides=overrides)
        resumed = apart(trained, aside, device, overrides=overrides, resumed=True)
    said = f"a small stack's loss falls from {whole.losses[0]:.2f} to {whole.losses[-1]:.2f} nats"
    if not whole.losses[-1] < LEARNED * whole.losses[0]:
        todo = "this build of torch computes something else here: install another one"
        return wrong(said, todo, losses_nats=whole.losses)
    if resumed.digest != whole.digest:
        todo = "a resumed run would not be the same run: look for unstable memory or overclocking"
        return wrong(f"{said}; resumed, it ends in other bits", todo, digests=[whole.digest, resumed.digest])
    return ok(f"{said}; resumed in another process, it ends in the same bits", losses_nats=whole.losses)


def trained(
    place: str,
    device: str,
    size: int = 16,
    overrides: Sequence[str] = (),
    *,
    resumed: bool = False,
    gpu_share: float = 1.0,
) -> Trained:
    """Train the smoke profile's stack of one size to its end, in this process; ``resumed``: from the checkpoint that an
    earlier call left in ``place`` after the first evaluation."""
    import torch

    torch.set_num_threads(1)
    if gpu_share < 1:
        torch.cuda.set_per_process_memory_fraction(gpu_share)
    spec = load_space("add_vs_add_prod", "smoke", ("settings.training.stop_when_solved=false", *overrides))
    runs = [spec.config(Request(mix.name, size, spec.seed)) for mix in spec.mixes]
    learner = spec.make_family().learner(runs, device=device, cache=Path(place) / "data")
    checkpoint = Path(place) / "checkpoint"
    if resumed:
        learner.restore(checkpoint)
    losses, digest = [], hashlib.sha256()
    while reports := learner.advance():
        losses.append(statistics.fmean(each.evaluation.loss for each in reports if each.evaluation is not None))
        for name, weights in ((name, each.weights[name]) for each in reports for name in sorted(each.weights)):
            digest.update(name.encode() + weights.tobytes())
        if not resumed and not checkpoint.exists():
            checkpoint.mkdir()
            learner.save(checkpoint)
    return Trained(tuple(losses), digest.hexdigest()[:16])


def apart(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a function of a module, called in a new process. Raises what it raises, ``BrokenProcessPool`` if
    its process dies, and ``TimeoutError`` after :data:`WITHIN_S`."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result(WITHIN_S)


def record(home: Path) -> Finding:
    """The MLflow store answers; a record in a new store like it can be read back."""
    from orchestrator.record.sync import try_store  # MLflow takes two seconds.

    shown, seconds = try_store(home)
    return ok(f"MLflow writes and reads in {seconds:.1f} s ({shown})", seconds=seconds)


def ray_start() -> Finding:
    """Ray starts as for a sweep, and one of its processes answers with the same torch."""
    import torch

    from orchestrator.engine.ray.engine import try_ray  # Ray takes a second.

    tried = try_ray(Resources())
    figures = {"start_s": tried.start_s, "answer_s": tried.answer_s, "offers": tried.offers}
    if tried.torch != torch.__version__:
        todo = "its processes run in another environment: look at PYTHONPATH and at who started Ray"
        return wrong(f"Ray's processes have torch {tried.torch}, this one has {torch.__version__}", todo, **figures)
    said = f"Ray is there after {tried.start_s:.1f} s, its first process after {tried.answer_s:.1f} s more"
    return ok(said, **figures)


def _container_limit() -> float:
    """Bytes of memory this container may use; infinity without a limit."""
    said = CGROUP_MEMORY.read_text(encoding="ascii").strip() if CGROUP_MEMORY.is_file() else "max"
    return float("inf") if said == "max" else float(said)


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


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
