"""The runs of a sweep that were begun and have not ended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import SweepFiles
from orchestrator.store.remains import read_members, read_progress
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


def in_training(spec: SweepSpec, files: SweepFiles, ended: Collection[str]) -> tuple[Unfinished, ...]:
    """The runs of all stacks on disk, without those whose keys are in ``ended``."""
    stacks = files.directory / "stacks"
    if not stacks.is_dir():
        return ()
    family = spec.make_family()
    found: dict[str, Unfinished] = {}
    for directory in sorted(stacks.iterdir()):
        try:
            members, curves = read_members(directory), read_progress(directory)
        except (FileNotFoundError, NotADirectoryError):
            continue  # It ended while we looked, or is just being made.
        for request in members:
            config = spec.config(request)
            key = family.key(config)
            if key not in ended:
                found[key] = Unfinished(key, config, curves.get(key, ()))
    return tuple(found.values())
