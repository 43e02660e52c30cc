"""The sweep that a person means by what they type; and runs in training."""

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
    """The id of a sweep by its id, by the name of its search space (the newest one's) or by a unique prefix.

    Raises :class:`UserError` that names what there is.
    """
    ids = home.sweep_ids()
    if given in ids:
        return given
    if not ids:
        raise UserError(f"there is no sweep {given!r}: {home.root} holds none yet")
    of_space = [each for each in ids if space_of(each) == given]
    if of_space:
        return of_space[0]  # The newest: ids come newest first.
    begun = [each for each in ids if given and each.startswith(given)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise UserError(f"{given!r} fits {len(begun)} sweeps: {first_of(begun)}. Give more of the id.")
    hint = did_you_mean(given, [*ids, *map(space_of, ids)])
    raise UserError(f"there is no sweep {given!r} in {home.root}.{hint} There are, newest first: {first_of(ids)}.")


def space_of(sweep_id: str) -> str:
    """The search space an id was made from: ids are its name, the variant if there is one, date, time and four random
    digits; no name has a dash."""
    return sweep_id.partition("-")[0]


def variant_of(sweep_id: str) -> str:
    """The variant an id was made from, ``""`` without one."""
    return "-".join(sweep_id.split("-")[1:-3])


def find_variants(home: Home, given: str) -> list[str]:
    """The ids that a person means to compare: of a search space asked in several variants the newest of each, in the
    order they were begun; of anything else what :func:`find_sweep` finds. Raises :class:`UserError`."""
    newest: dict[str, str] = {}
    for each in home.sweep_ids():
        if space_of(each) == given:
            newest.setdefault(variant_of(each), each)
    named = [each for variant, each in newest.items() if variant]
    return named[::-1] or [find_sweep(home, given)]


@dataclass(frozen=True)
class Unfinished:
    """A run that was begun and has not ended, with what it reported so far."""

    key: str
    config: RunConfig
    curve: tuple[Evaluation, ...]

    @property
    def step(self) -> int:
        """The step of its last evaluation."""
        return self.curve[-1].step if self.curve else 0


def in_training(
    sweep: Sweep, ended: Collection[str], say: Callable[[str], object] = warnings.warn
) -> tuple[Unfinished, ...]:
    """The runs of all stacks on disk, without those whose keys are in ``ended`` and those of the sweep's tuning.
    ``say`` gets a sentence for each stack whose files cannot be read."""
    files, family = sweep.files, sweep.spec.make_family()
    if not files.stacks.is_dir():
        return ()
    found: dict[str, Unfinished] = {}
    for directory in sorted(files.stacks.iterdir()):
        try:
            members, curves = read_members(directory).requests, read_progress(directory)
            configs = [sweep.spec.config(request) for request in members if request.until is None]
        except (FileNotFoundError, NotADirectoryError):
            continue  # It ended while we looked, or is just being made.
        except (ValueError, KeyError, TypeError) as error:
            message = f"{type(error).__name__}: {error}"
            say(f"{directory} does not say what is trained there ({message}); `run --resume` puts it aside")
            continue
        for config in configs:
            key = family.key(config)
            if key not in ended:
                found[key] = Unfinished(key, config, curves.get(key, ()))
    return tuple(found.values())
