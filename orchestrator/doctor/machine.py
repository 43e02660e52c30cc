"""Checks of any machine: software, hardware, the home directory, a small training, MLflow, Ray."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import IO, ParamSpec, TypeVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from orchestrator.catalog.reading import read_sweeps
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import DATABASE, Home
from orchestrator.home.inspection import foreign_things
from orchestrator.home.new_home import exchange_warning, make_home
from orchestrator.home.ownership import why_foreign
from orchestrator.jobs.resources import Resources
from orchestrator.record.inspection import foreign_records
from orchestrator.search.base import Request
from orchestrator.space.spaces import load_space
from orchestrator.system.commands import DISTRIBUTION, command_line
from orchestrator.system.environment import private_directory, temporary_directory
from orchestrator.system.hardware import cores, detect, has_gpu_driver, whole_machine
from orchestrator.system.permissions import (
    closing_command,
    is_of_another,
    sharing_text,
    who_can_write_text,
    writable_by_others,
)
from orchestrator.system.text import first_of
from trainables.transformer.native import missing

P = ParamSpec("P")
R = TypeVar("R")
GB = 1e9
MLFLOW_PACKAGE = "mlflow"
"""MLflow's package. If it is missing, sweeps run without its record."""
LEAST_GB = 0.5
"""Free disk space for a small sweep with its record."""
GOOD_GB = 5.0
"""Free disk space for some hundred runs of the largest widths."""
RAY_GB = 1.5
"""Memory that a small sweep of two stacks needs. Ray, driver and workers together took 1.2 GB."""
FLUSHES = 20
"""Number of flushes that are timed."""
SLOW_FLUSH_S = 0.05
"""Seconds per flush above which the disk counts as slow. A sweep flushes its journal to disk at every outcome. On a
laptop, that takes a few milliseconds."""
WITHIN_S = 300.0
"""Time limit of a small training, which takes ten seconds on two busy cores."""
FALLS_TO = 0.8
"""Share of its first value below which the training loss must fall."""
STARTING_PROCESS = threading.Lock()
"""Lock for the start of a process, because all threads share the environment variables."""


class Grade(StrEnum):
    """The grade of a check. ``SLOW`` works with a drawback; ``WRONG`` fails or gives wrong results."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        grade: Its grade.
        text: The result in one line.
        todo: The user's next step. Empty if there is nothing to do.
        name: Name of the check.
        seconds: Duration of the check.
    """

    grade: Grade
    text: str
    todo: str = ""
    name: str = ""
    seconds: float = 0.0


Check = tuple[str, Callable[[], CheckResult]]
ok, slow, wrong = (partial(CheckResult, grade) for grade in Grade)


def examined(checks: Sequence[Check]) -> Iterator[CheckResult]:
    """Run the checks and yield their results. An exception in a check becomes a ``WRONG`` result."""
    for name, check in checks:
        begun = time.monotonic()
        try:
            result = check()
        except Exception as error:  # noqa: BLE001 - a broken machine may raise anything
            first_line = next(iter(str(error).strip().splitlines()), "")
            result = wrong(f"{type(error).__name__}: {first_line}", "the check failed: fix this error")
        yield replace(result, name=name, seconds=round(time.monotonic() - begun, 2))


def at_once(checks: Sequence[Check]) -> list[Check]:
    """Return the same checks. Calling any of them starts all of them at the same time."""

    @functools.cache
    def started() -> dict[str, Future[CheckResult]]:
        pool = ThreadPoolExecutor(len(checks))
        return {name: pool.submit(check) for name, check in checks}

    def result(name: str) -> CheckResult:
        return started()[name].result()

    return [(name, partial(result, name)) for name, _ in checks]


def machine_checks(home: Path) -> list[Check]:
    """Return the checks for any machine. The home directory must exist."""
    return [
        ("software", software),
        ("machine", machine_part),
        ("home", partial(home_directory, home)),
        ("files", partial(files_of_home, home)),
        ("training", partial(training, place_of_tests(home))),
        ("MLflow", partial(record, home)),
        ("Ray", ray_start),
    ]


def place_of_tests(home: Path) -> Path:
    """Return the directory in which the checks train models: the home or, if other users may have written it or can put
    links there, a private directory."""
    return private_directory() if sharing_text(home) or why_foreign(home) else home


def software() -> CheckResult:
    """Compare Python, torch and required packages, except MLflow (see :func:`record`), with the allowed ranges."""
    import torch

    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU only"
    versions = f"Python {platform.python_version()}, torch {torch.__version__} {built}"
    installed = {str(canonicalize_name(one.metadata["Name"])): one.version for one in metadata.distributions()}
    if DISTRIBUTION not in installed:
        return wrong(f"{versions}; {DISTRIBUTION} itself is not installed", "run make install, or pip install -e .")
    needed = metadata.requires(DISTRIBUTION) or []
    if MLFLOW_PACKAGE not in installed:
        needed = [requirement for requirement in needed if Requirement(requirement).name != MLFLOW_PACKAGE]
    if broken := unmet(needed, installed):
        todo = "run make install, or pip install -e . in the environment you use"
        return wrong(f"{versions}; missing, too old or too new: {', '.join(broken)}", todo)
    return ok(f"{versions}; every package is in range")


def unmet(requirements: Sequence[str], installed: Mapping[str, str]) -> list[str]:
    """Return the unmet requirements (PEP 508, without extras), each in a few words."""
    needed = [need for need in map(Requirement, requirements) if not need.marker or need.marker.evaluate({"extra": ""})]
    versions = [(need, installed.get(canonicalize_name(need.name))) for need in needed]
    return [
        f"{need.name} is missing" if version is None else f"{need.name} {version} is not {need.specifier}"
        for need, version in versions
        if version is None or not need.specifier.contains(version, prereleases=True)
    ]


def machine_part() -> CheckResult:
    """Check the cores and memory that this process may use. In a container, it may use less than the machine has."""
    usable = detect()
    whole = whole_machine()
    text = f"{cores(usable.cpus)} and {usable.memory_gb:.1f} GB of memory"
    if usable.cpus < whole.cpus or usable.memory_gb < whole.memory_gb:
        text += f", of {whole.cpus} and {whole.memory_gb:.1f} GB: a container, a batch job or the shell sets a limit"
    if usable.memory_gb < RAY_GB:
        todo = f"a sweep under Ray needs at least {RAY_GB:g} GB: raise the limit, or train with --engine local"
        return slow(text, todo)
    if has_gpu_driver() and not usable.gpus:
        todo = "to train on it, install torch for this GPU (pytorch.org), and check nvidia-smi and CUDA_VISIBLE_DEVICES"
        return slow(f"{text}; a GPU driver is installed, but torch finds no GPU", todo)
    return ok(text)


def home_directory(home: Path) -> CheckResult:
    """Check the home's owner, its free space, who could replace it, and the time to flush a file."""
    if why := why_foreign(home):
        text = f"{home} is not in your list of homes ({why}), so its sweeps are read-only"
        return wrong(text, f"if it is yours: {command_line('home', 'trust', home)}")
    make_home(home, warn=lambda warning: None)  # The result below contains the warning.
    free = shutil.disk_usage(home).free / GB
    with tempfile.TemporaryFile(dir=home) as file:  # It has no name, so no other user can put a link at its path.
        flush = statistics.median(_flush(file) for _ in range(FLUSHES))
    text = f"{free:.1f} GB free at {home}, a flush to disk takes {1e3 * flush:.1f} ms"
    if free < LEAST_GB:
        return wrong(text, "free some space, or choose another --home")
    if warning := exchange_warning(home):
        return slow(text, warning)
    if free < GOOD_GB:
        return slow(text, f"a large sweep with its record takes up to {GOOD_GB:g} GB: choose another --home")
    if flush > SLOW_FLUSH_S:
        return slow(text, "every outcome waits for a flush: choose a --home on a faster disk")
    return ok(text)


def _flush(file: IO[bytes]) -> float:
    """Return the seconds to append a line to a file and flush it to disk."""
    begun = time.perf_counter()
    file.write(b"x" * 512 + b"\n")
    file.flush()
    os.fsync(file.fileno())
    return time.perf_counter() - begun


@dataclass(frozen=True)
class SmallTraining:
    """Result of a small training: the mean loss in nats at each evaluation, and a digest of all final weights."""

    losses: tuple[float, ...]
    digest: str


def training(home: Path, device: str = "cpu", overrides: Sequence[str] = ()) -> CheckResult:
    """Check that a small stack learns, and that a process that resumes it ends with the same weights, bit by bit."""
    with temporary_directory(".doctor-", home) as aside:
        whole = apart(trained, str(aside), device, overrides=overrides)
        resumed = apart(trained, str(aside), device, overrides=overrides, resumed=True)
    text = f"a small stack's loss falls from {whole.losses[0]:.2f} to {whole.losses[-1]:.2f} nats"
    if not whole.losses[-1] < FALLS_TO * whole.losses[0]:
        return wrong(text, "this build of torch does not train here: install another build")
    if resumed.digest != whole.digest:
        todo = "resumed runs would give different results: check for faulty memory or overclocking"
        return wrong(f"{text}; after resuming, its final weights differ", todo)
    text += "; after resuming in another process, its final weights are identical"
    return slow(f"{text}; {lacks[0]}", lacks[1]) if device == "cpu" and (lacks := missing()) else ok(text)


def unreadable_things(home: Home) -> list[str]:
    """Return a line for each sweep of a home that cannot be read, and for each damaged part of the others."""
    lines: list[str] = []
    for sweep in read_sweeps(home):
        lines += [str(sweep)] if isinstance(sweep, UnreadableError) else sweep.damage
    return lines


def files_of_home(home: Path) -> CheckResult:
    """Check that a home contains only what this program writes, and that all its sweeps can be read."""
    things = [*foreign_things(Home(home)), *foreign_records(home / DATABASE)]
    if things:
        text = f"{first_of(things)}. These are not used"
        return wrong(text, "if you did not make them, find out who did; then delete them")
    if place := writable_by_others(home):
        remedy = "move it to a directory of yours" if is_of_another(place.stat()) else closing_command(place)
        return slow(f"{who_can_write_text(place)}, so results can be changed", remedy)
    if problems := unreadable_things(Home(home)):
        return slow(first_of(problems), "`sweeps` names each problem and its remedy")
    return ok(f"{home} has no links, no foreign names and no unreadable sweeps")


def trained(
    place: str,
    device: str,
    size: int = 16,
    overrides: Sequence[str] = (),
    *,
    resumed: bool = False,
    gpu_share: float = 1.0,
) -> SmallTraining:
    """Train the smoke profile's stack of one size to its end, in this process.

    If ``resumed``, continue from the checkpoint that an earlier call left in ``place`` after its first evaluation.
    """
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
    losses = []
    digest = hashlib.sha256()
    while reports := learner.advance():
        losses.append(statistics.fmean(one.evaluation.loss for one in reports if one.evaluation is not None))
        for report in reports:
            for name in sorted(report.weights):
                digest.update(name.encode() + report.weights[name].tobytes())
        if not resumed and not checkpoint.exists():
            checkpoint.mkdir()
            learner.save(checkpoint)
    return SmallTraining(tuple(losses), digest.hexdigest()[:16])


def apart(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function of a module in a new process, and return its result. Raises the function's exception,
    ``BrokenProcessPool`` or ``TimeoutError``."""
    with ExitStack() as ends:
        # The new process gets this process's search path too late: until then, it would search the working directory
        # first.
        with STARTING_PROCESS, _variable("PYTHONSAFEPATH", "1"):
            pool = ends.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            result = pool.submit(work, *args, **kwargs)
        return result.result(WITHIN_S)


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable during the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def record(home: Path) -> CheckResult:
    """Check that the MLflow store responds, and that a record in a new store of its kind can be read back."""
    if find_spec(MLFLOW_PACKAGE) is None:
        text = "MLflow is not installed: sweeps run, and the home contains everything, but MLflow has no record"
        return slow(text, "install MLflow; `sync` then writes the record from the home")
    from orchestrator.record.sync import try_store  # MLflow takes two seconds to import.

    if why_foreign(home):
        return slow("the record is not opened, because the home is not in your list", "see the check of the home")
    store, seconds = try_store(home)
    return ok(f"MLflow writes and reads in {seconds:.1f} s ({store})")


def ray_start() -> CheckResult:
    """Check that Ray starts as it does for a sweep, and that its processes have the same version of torch."""
    import torch

    from orchestrator.engine.ray.engine import try_ray  # Ray takes a second to import.

    start_s, answer_s, version = try_ray(Resources())
    if version != torch.__version__:
        todo = "Ray's processes run in another environment: check PYTHONPATH, and where Ray was started"
        return wrong(f"Ray's processes have torch {version}, this one has {torch.__version__}", todo)
    return ok(f"Ray starts in {start_s:.1f} s, its first process in {answer_s:.1f} s more")
