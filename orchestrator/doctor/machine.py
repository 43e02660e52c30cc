"""A check-up: checks of any machine (software, home directory, a small training, MLflow, Ray), run one after another,
each to its end, and their findings in ``HOME/doctor.json``."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import ParamSpec, TypeVar

from filelock import FileLock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from orchestrator.doctor import surroundings
from orchestrator.doctor.finding import Check, Finding, Verdict, ok, slow, wrong
from orchestrator.search.base import Request
from orchestrator.space.hardware import detect, whole_machine
from orchestrator.space.resources import Resources
from orchestrator.space.spaces import load_space
from trainables.files import write_whole
from trainables.transformer.native import missing

P = ParamSpec("P")
R = TypeVar("R")
GB = 1e9
DISTRIBUTION, RECORD = "transition-sweeps", "mlflow"
LEAST_GB, GOOD_GB = 0.5, 5.0
"""Free disk space for a small sweep with its record, and for some hundred runs of the largest widths with theirs."""
RAY_GB = 1.5
"""Memory of a small sweep of two stacks under Ray: 1.2 GB were measured, Ray, driver and workers together."""
FLUSHES, SLOW_FLUSH_S = 20, 0.05
"""Journals are flushed to disk at every outcome; a laptop's disk takes some milliseconds for it."""
WITHIN_S = 300.0
"""A small training that takes longer has failed; on two busy cores it takes ten seconds."""
FALLS_TO = 0.8
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


NAME = "doctor.json"
"""In a home directory: the last check-up."""


def check_up(home: Path, gpu: str, checks: Sequence[Check], tell: Callable[[Finding], object]) -> list[Finding]:
    """Run all checks and keep their findings in ``home``, with the name of the GPU; ``tell`` hears each finding."""
    findings = []
    for found in examined(checks):
        findings.append(found)
        tell(found)
    kept = {
        "passed": all(each.verdict is not Verdict.WRONG for each in findings),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "gpu": gpu,
        "torch": metadata.version("torch"),
        "findings": [asdict(each) for each in findings],
    }
    write_whole(home / NAME, json.dumps(kept, indent=1) + "\n")
    return findings


def examined(checks: Sequence[Check]) -> Iterator[Finding]:
    """The findings of all checks, as they come. A check that raises has found something wrong."""
    for name, look in checks:
        begun = time.monotonic()
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 - a broken machine may raise anything
            said = next(iter(str(error).strip().splitlines()), "")
            found = wrong(f"{type(error).__name__}: {said}", "this check could not end: see the error")
        yield replace(found, name=name, seconds=round(time.monotonic() - begun, 2))


def at_once(checks: Sequence[Check]) -> list[Check]:
    """Return the same checks, made to run at the same time from the first call of any of them."""
    lock, futures = threading.Lock(), dict[str, Future[Finding]]()

    def result(name: str) -> Finding:
        with lock:
            if not futures:
                pool = ThreadPoolExecutor(len(checks))
                futures.update({each: pool.submit(look) for each, look in checks})
                pool.shutdown(wait=False)
        return futures[name].result()

    return [(name, partial(result, name)) for name, _ in checks]


def passed_here(home: Path, gpu: str) -> bool:
    """True if the last check-up of a home passed on this kind of GPU with this version of torch."""
    path = home / NAME
    if not path.is_file():
        return False
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return bool(kept["passed"]) and (kept["gpu"], kept["torch"]) == (gpu, metadata.version("torch"))
    except (ValueError, KeyError, TypeError):  # Not a file of this program.
        return False


def machine_checks(home: Path) -> list[Check]:
    """The checks of any machine, for this home directory, which exists."""
    return [
        ("software", software),
        ("machine", machine_part),
        ("home", partial(home_directory, home)),
        ("directories", surroundings.directories),
        ("names", surroundings.names),
        ("training", partial(training, home)),
        ("drawing", surroundings.drawing),
        ("MLflow", partial(record, home)),
        ("Ray", ray_start),
    ]


def software() -> Finding:
    """Compare Python, torch and every package the project needs with the ranges it names. A missing MLflow has a check
    of its own: see :func:`record`."""
    import torch

    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU alone"
    said = f"Python {platform.python_version()}, torch {torch.__version__} {built}"
    here = {str(canonicalize_name(each.metadata["Name"])): each.version for each in metadata.distributions()}
    if DISTRIBUTION not in here:
        return wrong(f"{said}; {DISTRIBUTION} itself is not installed", "run make install, or pip install -e .")
    needed = metadata.requires(DISTRIBUTION) or []
    if RECORD not in here:
        needed = [each for each in needed if Requirement(each).name != RECORD]
    broken = unmet(needed, here)
    if broken:
        todo = "run make install, or pip install -e . in the environment you use"
        return wrong(f"{said}; missing, too old or too new: {', '.join(broken)}", todo)
    return ok(f"{said}; every package is in range")


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


def machine_part() -> Finding:
    """The cores and the memory that this process may use, and the machine's own where a container gives less."""
    here, whole = detect(), whole_machine()
    said = f"{here.cpus} CPU cores and {here.memory_gb:.1f} GB of memory"
    if here.cpus < whole.cpus or here.memory_gb < whole.memory_gb:
        said += f", of {whole.cpus} and {whole.memory_gb:.1f} GB: a container, a batch job or the shell sets a limit"
    if here.memory_gb < RAY_GB:
        return slow(
            said, f"a sweep under Ray takes {RAY_GB:g} GB or more: raise the limit, or train with --engine local"
        )
    return ok(said)


def home_directory(home: Path) -> Finding:
    """The home's free space, the time of a flush to its disk, and its locks: two drivers would spoil a journal."""
    free = shutil.disk_usage(home).free / GB
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        flush = statistics.median(_flush(Path(aside) / "journal") for _ in range(FLUSHES))
        with FileLock(path := Path(aside) / "lock"):
            words = [sys.executable, "-P", "-c", HOLD, str(path)]
            held = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    said = f"{free:.1f} GB free at {home}, a flush to disk takes {1e3 * flush:.1f} ms"
    if held != "held":
        todo = "its file system has no locks (NFS without its lock service?): name another --home"
        return wrong(f"{said}; a lock does not keep another process out", todo)
    if free < LEAST_GB:
        return wrong(said, "free some space, or name another --home")
    if free < GOOD_GB:
        return slow(said, f"a large sweep with its record takes up to {GOOD_GB:g} GB: name another --home")
    if flush > SLOW_FLUSH_S:
        return slow(said, "every outcome waits for that: name a --home on a nearer disk")
    return ok(said)


@dataclass(frozen=True)
class Trained:
    """A small training: the mean loss in nats at each evaluation, and a digest of all final weights."""

    losses: tuple[float, ...]
    digest: str


def training(home: Path, device: str = "cpu", overrides: Sequence[str] = ()) -> Finding:
    """A small stack learns; resumed from its checkpoint in another process, it ends in the same bits."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        whole = apart(trained, aside, device, overrides=overrides)
        resumed = apart(trained, aside, device, overrides=overrides, resumed=True)
    said = f"a small stack's loss falls from {whole.losses[0]:.2f} to {whole.losses[-1]:.2f} nats"
    if not whole.losses[-1] < FALLS_TO * whole.losses[0]:
        todo = "this build of torch computes something else here: install another one"
        return wrong(said, todo)
    if resumed.digest != whole.digest:
        todo = "a resumed run would not be the same run: look for unstable memory or overclocking"
        return wrong(f"{said}; resumed, it ends in other bits", todo)
    said += "; resumed in another process, it ends in the same bits"
    return slow(f"{said}; {lacks[0]}", lacks[1]) if device == "cpu" and (lacks := missing()) else ok(said)


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
    """Check that the MLflow store answers, and that a record in a new store like it can be read back."""
    if find_spec(RECORD) is None:
        todo = "where MLflow is installed, `sync` writes the record from the home"
        return slow("MLflow is not installed: sweeps run and keep everything in the home, without a record there", todo)
    from orchestrator.record.sync import try_store  # MLflow takes two seconds.

    shown, seconds = try_store(home)
    return ok(f"MLflow writes and reads in {seconds:.1f} s ({shown})")


def ray_start() -> Finding:
    """Ray starts as for a sweep, and one of its processes answers with the same torch."""
    import torch

    from orchestrator.engine.ray.engine import try_ray  # Ray takes a second.

    start_s, answer_s, version = try_ray(Resources())
    if version != torch.__version__:
        todo = "its processes run in another environment: look at PYTHONPATH and at who started Ray"
        return wrong(f"Ray's processes have torch {version}, this one has {torch.__version__}", todo)
    said = f"Ray is there after {start_s:.1f} s, its first process after {answer_s:.1f} s more"
    return ok(said)


def _flush(path: Path) -> float:
    """Seconds to append a line to a file and have it on disk."""
    begun = time.perf_counter()
    with path.open("ab") as file:
        file.write(b"x" * 512 + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begun
