"""Runs the variants of a search space, one sweep after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console

from orchestrator.home import lifecycle
from orchestrator.home.files import Home
from orchestrator.home.journal import recall
from orchestrator.home.sweeps import Sweep
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.beginning import one_ray
from orchestrator.sweep.options import RunOptions
from orchestrator.sweep.run import run_sweep


def run_variants(
    specs: Sequence[SweepSpec], options: RunOptions, brief: Callable[[SweepSpec], object], console: Console
) -> list[str]:
    """Run each variant as :func:`run_sweep` does; the ids of their sweeps.

    ``brief`` says what is about to be done. With ``options.resume`` variants that were answered are not run again, and
    unfinished ones go on. Raises what :func:`run_sweep` does.
    """
    home = Home(options.home.resolve())
    with one_ray(local_debug=options.local_debug, address=options.address, dashboard=options.dashboard) as session:
        shared = replace(options, session=session)
        return [_run(spec, home, shared, brief, console) for spec in specs]


def _run(
    spec: SweepSpec, home: Home, options: RunOptions, brief: Callable[[SweepSpec], object], console: Console
) -> str:
    """One variant from where it is; the id of its sweep."""
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    resume = None
    if options.resume is not None:
        newest = lifecycle.newest(spec, home, say)
        if newest is not None and recall(home.sweep(newest.id), runs=False).answered:
            say(f"{spec.variant}: answered by {newest.id}")
            return newest.id
        resume = None if newest is None else newest.id
    brief(spec)
    begun: list[Sweep] = []
    run_sweep(spec, replace(options, resume=resume, begun=begun.append), console)
    return begun[0].id
