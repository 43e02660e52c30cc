"""The beginning of a sweep: its engine, its identity, and the runs that are there already."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from orchestrator.engine.engine import Engine
from orchestrator.errors import UserError
from orchestrator.home.driver_lock import check_free
from orchestrator.home.files import Home, make_home, scratch
from orchestrator.home.journal import Ended, Journal, Memory, recall
from orchestrator.home.known_runs import adopt_outcomes, continued_blocks, reusable, reuse_runs
from orchestrator.home.resuming import check_same, find_unfinished
from orchestrator.home.sweeps import Sweep, load_sweep
from orchestrator.space.hardware import Hardware
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import RunOptions
from trainables.base import Status

log = logging.getLogger(__name__)


def engine_for(spec: SweepSpec, options: RunOptions) -> Engine:
    """The engine that a sweep's options ask for: this process with ``--engine local``, else Ray."""
    if options.local:
        from orchestrator.engine.local_engine import LocalEngine

        return LocalEngine()
    from orchestrator.engine.ray.engine import RayEngine  # Takes a second, and debugging without Ray needs no Ray.
    from orchestrator.engine.ray.session import RaySession

    return RayEngine(spec.resources, options.session or RaySession(options.address, dashboard=options.dashboard))


@contextmanager
def one_ray(options: RunOptions) -> Iterator[RunOptions]:
    """A block for several sweeps: their options with one Ray that they share, which the first of them starts."""
    if options.local:
        yield options
        return
    from orchestrator.engine.ray.session import RaySession

    with RaySession(options.address, dashboard=options.dashboard, kept=True) as session:
        yield replace(options, session=session)


def resumed_sweep(spec: SweepSpec, home: Home, sweep_id: str) -> Sweep:
    """The sweep to continue: by its id or the beginning of it, or for ``""`` the newest unfinished one."""
    if sweep_id == "":
        return find_unfinished(spec, home)
    from orchestrator.catalogue.lookup import find_sweep  # A new sweep needs none.

    sweep = load_sweep(home, find_sweep(home, sweep_id))
    check_same(spec, sweep)
    return sweep


def extended_sweep(spec: SweepSpec, home: Home, sweep_id: str) -> Sweep:
    """The sweep with whose runs a new one begins. Raises :class:`UserError` if none of them can be reused."""
    from orchestrator.catalogue.lookup import find_sweep

    older = load_sweep(home, find_sweep(home, sweep_id))
    continued = spec.model_copy(update={"salt": older.spec.salt})
    reusable(continued, older)
    continued_blocks(continued, older)
    return older


def check_room(spec: SweepSpec, hardware: Hardware, address: str | None) -> None:
    """Raise :class:`UserError` for a scratch that this machine, if it trains, cannot make, and if a stack asks for more
    cores or devices than all machines have together, and none are added."""
    asked = spec.resources
    if address is None:
        scratch(asked.scratch)
    if hardware.grows:
        return
    if asked.cpu_per_stack > hardware.cpus:
        raise UserError(
            f"resources.cpu_per_stack is {asked.cpu_per_stack:g} and there are {hardware.cpus} CPU cores: give each "
            f"stack {hardware.cpus} at most"
        )
    if isinstance(asked.gpu_per_stack, float) and asked.gpu_per_stack > hardware.gpus:
        raise UserError(
            f"resources.gpu_per_stack is {asked.gpu_per_stack:g} and there are {hardware.gpus} GPUs: give each stack "
            f"{hardware.gpus} at most, with 0 it trains on the CPU"
        )


def check_begin(spec: SweepSpec, home: Home, hardware: Hardware, options: RunOptions, *, resume: str | None) -> None:
    """Report invalid requests before anything starts.

    Raises :class:`UserError` for a sweep to resume or to extend that is missing, differs or is being run, and for cores
    and devices that do not exist."""
    check_room(spec, hardware, options.address)
    make_home(home.root)
    if resume is not None:
        sweep = resumed_sweep(spec, home, resume)
        check_free(sweep.files)
    if options.extend is not None:
        extended_sweep(spec, home, options.extend)


def on_these_devices(sweep: Sweep, spec: SweepSpec) -> Sweep:
    """A resumed sweep with the resources and probes asked for now: they change no result."""
    asked_now = {"resources": spec.resources, "probes": spec.probes}
    return replace(sweep, spec=sweep.spec.model_copy(update=asked_now))


def known_runs(
    sweep: Sweep, memory: Memory, extended: Sweep | None, journal: Journal, *, retry_failed: bool
) -> list[Ended]:
    """The runs that need no training: those in ``memory``, left on disk by a crash, or reused from another sweep."""
    known = [entry for entry in memory.ended if not (retry_failed and entry.outcome.status is Status.FAILED)]
    known += adopt_outcomes(sweep, journal, [entry.key for entry in known])
    if extended is not None:
        for damaged in recall(extended.files).damaged:
            log.warning(damaged)
        known += reuse_runs(extended, sweep, journal)
    return known
