"""Small races for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.base import Arm, Learner, Mix, Outcome, RunConfig
from trainables.reparametrization.diffusion import DiffusionSettings, HeatDiffusion
from trainables.reparametrization.family import RaceFamily

EVERY = "adam+hessian+laplacian+lbfgs+momentum+newton+random+rmsprop"


def heat(**parts: dict[str, Any]) -> HeatDiffusion:
    """The family with some settings changed: ``heat(race={"steps": 300})``."""
    settings = DiffusionSettings()
    return HeatDiffusion(
        replace(settings, **{part: replace(getattr(settings, part), **values) for part, values in parts.items()})
    )


def runs(family: RaceFamily, mix: str, nodes: int, seeds: Sequence[int]) -> list[RunConfig]:
    return [family.config(Arm.of(Mix.parse(mix)), nodes, seed) for seed in seeds]


def learner(family: RaceFamily, configs: Sequence[RunConfig]) -> Learner:
    return family.learner(configs, device="cpu", cache=Path())


def finish(learner: Learner) -> dict[int, Outcome]:
    """Go on to the end; the outcomes by place."""
    ended: dict[int, Outcome] = {}
    while reports := learner.advance():
        ended |= {report.index: report.outcome for report in reports if report.outcome is not None}
    return ended
