"""Start of a sweep: its engine, identity and record, and the runs that need no training."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.environment import command_line
from orchestrator.errors import UserError
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.files import Home, make_home, scratch
from orchestrator.home.journal import Ended, Journal, Memory, recall
from orchestrator.home.known_runs import (
    adopt_outcomes,
    check_same,
    continued_blocks,
    find_unfinished,
    reusable,
    reuse_runs,
)
from orchestrator.home.sweeps import Sweep, load_sweep
from orchestrator.record.store import Store, StoreError, check, choose
from orchestrator.search.base import BY_HAND
from orchestrator.space.evidence import searcher_of
from orchestrator.space.hardware import Hardware
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks import StackSizes
from orchestrator.sweep.run_options import RunOptions
from trainables.base import Status

log = logging.getLogger(__name__)


def engine_for(spec: SweepSpec, options: RunOptions) -> Engine:
    """Return the engine for a sweep's options."""
    if options.local:
        from orchestrator.engine.local_engine import LocalEngine

        return LocalEngine()
    from orchestrator.engine.ray.engine import RayEngine  # Ray takes a second to import; local sweeps do not need it.
    from orchestrator.engine.ray.session import RaySession

    return RayEngine(spec.resources, options.session or RaySession(options.address, dashboard=options.dashboard))


@contextmanager
def one_ray(options: RunOptions) -> Iterator[RunOptions]:
    """Yield options for several sweeps that share one Ray. The first sweep starts it."""
    if options.local:
        yield options
        return
    from orchestrator.engine.ray.session import RaySession

    with RaySession(options.address, dashboard=options.dashboard, kept=True) as session:
        yield replace(options, session=session)


def resumed_sweep(spec: SweepSpec, home: Home, sweep_id: str) -> Sweep:
    """Return the sweep to resume, by a prefix of its id, or the newest unfinished one if the id is ""."""
    if sweep_id == "":
        return find_unfinished(spec, home)
    from orchestrator.catalogue.reading import find_sweep  # A new sweep does not need it.

    sweep = load_sweep(home, find_sweep(home, sweep_id))
    check_same(spec, sweep)
    return sweep


def extended_sweep(spec: SweepSpec, home: Home, sweep_id: str) -> Sweep:
    """Return the sweep whose runs a new sweep reuses. Raises :class:`UserError` if none can be reused."""
    from orchestrator.catalogue.reading import find_sweep

    older = load_sweep(home, find_sweep(home, sweep_id))
    continued = spec.model_copy(update={"salt": older.spec.salt})
    reusable(continued, older)
    continued_blocks(continued, older)
    return older


def choose_store(home: Home, *, must_answer: bool) -> Store:
    """Return the store of a home's record. If it does not respond, raise ``StoreError`` with ``must_answer``, otherwise
    log how to record the sweep later."""
    store = choose(home.root)
    try:
        check(store)
    except StoreError as error:
        if must_answer:
            raise
        later = command_line("sync", "--home", home.root)
        log.warning(f"{error}; the sweep continues without a record. To add it later: `{later}`")
    return store


def check_room(spec: SweepSpec, hardware: Hardware, address: str | None) -> None:
    """Raise :class:`UserError` if the machines lack a stack's cores or GPUs, or this machine a scratch directory."""
    resources = spec.resources
    if address is None:
        scratch(resources.scratch)
    if hardware.grows:
        return
    if resources.cpu_per_stack > hardware.cpus:
        raise UserError(
            f"resources.cpu_per_stack is {resources.cpu_per_stack:g}, but only {hardware.cpus} CPU cores were found: "
            f"set it to at most {hardware.cpus}"
        )
    if isinstance(resources.gpu_per_stack, float) and resources.gpu_per_stack > hardware.gpus:
        raise UserError(
            f"resources.gpu_per_stack is {resources.gpu_per_stack:g}, but only {hardware.gpus} GPUs were found: "
            f"set it to at most {hardware.gpus}; 0 trains on the CPU"
        )


def check_begin(spec: SweepSpec, home: Home, hardware: Hardware, options: RunOptions, *, resume: str | None) -> None:
    """Check a request before anything starts. Raises :class:`UserError` for missing cores or GPUs, or if the sweep to
    resume or extend is missing, different or running."""
    check_room(spec, hardware, options.address)
    make_home(home.root)
    if resume is not None:
        resumed_sweep(spec, home, resume).files.check_free()
    if options.extend is not None:
        extended_sweep(spec, home, options.extend)


def on_these_devices(sweep: Sweep, spec: SweepSpec) -> Sweep:
    """Return a resumed sweep with the current resources and probes, which do not change results."""
    asked_now = {"resources": spec.resources, "probes": spec.probes}
    return replace(sweep, spec=sweep.spec.model_copy(update=asked_now))


def known_runs(
    sweep: Sweep, memory: Memory, extended: Sweep | None, journal: Journal, *, retry_failed: bool
) -> list[Ended]:
    """Return the runs that need no training: from ``memory``, from before a crash, or from another sweep."""
    known = [entry for entry in memory.ended if not (retry_failed and entry.outcome.status is Status.FAILED)]
    known += adopt_outcomes(sweep, journal, [entry.key for entry in known])
    if extended is not None:
        for damage in recall(extended.files).damaged:
            log.warning(damage)
        known += reuse_runs(extended, sweep, journal)
    return known


def campaign_of(sweep: Sweep, journal: Journal, known: Sequence[Ended], *, slots: int, sizing: StackSizes) -> Campaign:
    """Return the campaign of a sweep, continued from its known runs, blocks, stopped mixes and checkpoints."""
    memory = recall(sweep.files, runs=False)
    searcher = searcher_of(sweep.spec, [(entry.request, entry.outcome) for entry in known], memory.blocks)
    for mix in memory.stopped:
        log.info(
            f"{mix} was {BY_HAND} and stays stopped; to train it again, start a new sweep with --extend {sweep.id}"
        )
        searcher.stop(mix)
    interrupted = Checkpoints(sweep.files.checkpoints).interrupted()
    return Campaign(
        sweep,
        searcher,
        journal,
        slots=slots,
        sizing=sizing,
        interrupted=interrupted,
        known=known,
        blocks=len(memory.blocks),
    )
