"""The runs of a sweep that were begun and have not ended."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass

from orchestrator.space.spec import SweepSpec
from orchestrator.store.checkpoints import read_members, read_progress
from orchestrator.store.files import SweepFiles
from trainables.base import Evaluation, RunConfig


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
    spec: SweepSpec, files: SweepFiles, ended: Collection[str], say: Callable[[str], object] = warnings.warn
) -> tuple[Unfinished, ...]:
    """The runs of all stacks on disk, without those whose keys are in ``ended`` and those of the sweep's tuning.
    ``say`` is told of stacks whose files cannot be read."""
    if not files.stacks.is_dir():
        return ()
    family = spec.make_family()
    found: dict[str, Unfinished] = {}
    for directory in sorted(files.stacks.iterdir()):
        try:
            members, curves = read_members(directory), read_progress(directory)
            configs = [spec.config(request) for request in members if request.until is None]
        except (FileNotFoundError, NotADirectoryError):
            continue  # It ended while we looked, or is just being made.
        except (ValueError, KeyError, TypeError) as error:
            said = f"{type(error).__name__}: {error}"
            say(f"{directory} does not say what is trained there ({said}); `run --resume` puts it aside")
            continue
        for config in configs:
            key = family.key(config)
            if key not in ended:
                found[key] = Unfinished(key, config, curves.get(key, ()))
    return tuple(found.values())
