"""Search for the earlier sweep to resume."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from orchestrator.errors import UserError, first_of
from orchestrator.home.files import Home
from orchestrator.home.journal import recall
from orchestrator.home.sweeps import Sweep, Unreadable, sweep_in
from orchestrator.space.differences import differences
from orchestrator.space.spec import SweepSpec

log = logging.getLogger(__name__)


def find_unfinished(spec: SweepSpec, home: Home) -> Sweep:
    """Return the newest unfinished sweep with the same runs.

    If all such sweeps have answers, return the newest, which may have died before it printed its answer.

    Raises:
        UserError: if no sweep matches, with the differences from the newest sweep with the same name.
    """
    closest, answered = "", None
    for sweep in _of_space(spec, home):
        different = differences(spec, sweep.spec)
        if recall(sweep.files, runs=False).answered:
            answered = answered or (None if different else sweep)
            continue
        if not different:
            return sweep
        closest = closest or f" The newest, {sweep.id}, differs in {differences_text(different)}."
    if answered is not None:
        log.info(f"{answered.id} already has an answer; here it is again")
        return answered
    raise UserError(f"no unfinished sweep of {spec.name} in {home.root} has these settings.{closest}")


def newest_sweep(spec: SweepSpec, home: Home) -> Sweep | None:
    """Return the newest sweep, finished or not, with the same runs."""
    return next((sweep for sweep in _of_space(spec, home) if not differences(spec, sweep.spec)), None)


def check_same(spec: SweepSpec, sweep: Sweep) -> None:
    """Raise :class:`UserError` unless a sweep has the runs of this spec."""
    different = differences(spec, sweep.spec)
    if different:
        raise UserError(
            f"{sweep.id} cannot be resumed with these settings: they differ in {differences_text(different)}. "
            "Repeat the settings it was started with, or leave --resume out: a new sweep reuses shared runs."
        )


def differences_text(different: Mapping[str, tuple[object, object]]) -> str:
    """Return the first settings that differ, such as ``seeds (now 3, was 5)``."""
    return first_of([f"{key} (now {mine!r}, was {theirs!r})" for key, (mine, theirs) in sorted(different.items())])


def _of_space(spec: SweepSpec, home: Home) -> Iterator[Sweep]:
    for sweep_id in home.sweep_ids():
        if not sweep_id.startswith(f"{spec.name}-"):
            continue
        sweep = sweep_in(home, sweep_id)
        if isinstance(sweep, Unreadable):
            log.info(f"skipped: {sweep}")
        elif (sweep.spec.name, sweep.spec.variant) == (spec.name, spec.variant):
            yield sweep
