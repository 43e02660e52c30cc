"""Sweeps by names or ids as typed, and runs in training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass

from orchestrator.errors import UserError, did_you_mean, first_of
from orchestrator.home.checkpoints import read_members, read_progress
from orchestrator.home.files import Home
from orchestrator.home.sweeps import Sweep
from trainables.base import Evaluation, RunConfig


def find_sweep(home: Home, given: str) -> str:
    """Return a sweep's id from its id, space (the newest) or unique prefix. Raises :class:`UserError`."""
    ids = home.sweep_ids()
    if given in ids:
        return given
    if not ids:
        raise UserError(f"no sweep {given!r} was found: {home.root} has no sweeps")
    of_space = [sweep_id for sweep_id in ids if space_of(sweep_id) == given]
    if of_space:
        return of_space[0]  # Ids are sorted, newest first.
    matches = [sweep_id for sweep_id in ids if given and sweep_id.startswith(given)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"{given!r} matches {len(matches)} sweeps: {first_of(matches)}. Give more of the id.")
    hint = did_you_mean(given, [*ids, *map(space_of, ids)])
    raise UserError(f"there is no sweep {given!r} in {home.root}.{hint} Its sweeps, newest first: {first_of(ids)}.")


def space_of(sweep_id: str) -> str:
    """Return the space in a sweep's id, which is ``NAME[-VARIANT]-DATE-TIME-DIGITS``. Names do not contain dashes."""
    return sweep_id.partition("-")[0]


def variant_of(sweep_id: str) -> str:
    """Return the variant in a sweep's id, ``""`` without variants."""
    return "-".join(sweep_id.split("-")[1:-3])


def find_variants(home: Home, given: str) -> list[str]:
    """Return the newest sweep of each variant, oldest first, or the result of :func:`find_sweep` for other names.

    Raises :class:`UserError`.
    """
    newest: dict[str, str] = {}
    for sweep_id in home.sweep_ids():
        if space_of(sweep_id) == given:
            newest.setdefault(variant_of(sweep_id), sweep_id)
    variants = [sweep_id for variant, sweep_id in newest.items() if variant]
    return variants[::-1] or [find_sweep(home, given)]


@dataclass(frozen=True)
class Unfinished:
    """A run that has begun but not ended, with its learning curve so far."""

    key: str
    config: RunConfig
    curve: tuple[Evaluation, ...]

    @property
    def step(self) -> int:
        """Step of the last evaluation."""
        return self.curve[-1].step if self.curve else 0


def in_training(
    sweep: Sweep, ended: Collection[str], warn: Callable[[str], object] = warnings.warn
) -> tuple[Unfinished, ...]:
    """Return the runs on disk except ``ended`` (keys) and tuning. ``warn`` receives a message per unreadable stack."""
    files, family = sweep.files, sweep.spec.make_family()
    if not files.stacks.is_dir():
        return ()
    unfinished: dict[str, Unfinished] = {}
    for directory in sorted(files.stacks.iterdir()):
        try:
            (members, _), curves = read_members(directory), read_progress(directory)
            configs = [sweep.spec.config(request) for request in members if request.until is None]
        except (FileNotFoundError, NotADirectoryError):
            continue  # The stack has just ended, or is being written.
        except (ValueError, KeyError, TypeError) as error:
            message = f"{type(error).__name__}: {error}"
            warn(f"{directory} cannot be read ({message}); `run --resume` moves it aside")
            continue
        for config in configs:
            key = family.key(config)
            if key not in ended:
                unfinished[key] = Unfinished(key, config, curves.get(key, ()))
    return tuple(unfinished.values())
