"""Small races for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.base import Arm, Learner, Mix, Outcome, RunConfig
from trainables.families.reparametrization import HeatDiffusion, PersistentHomology, RaceFamily, Synchronization
from trainables.reparametrization.settings import METHODS, GraphSettings, RateSettings

EVERY = "+".join(METHODS)


def heat(**parts: dict[str, Any]) -> HeatDiffusion:
    """Return the family with some settings changed, for example ``heat(race={"steps": 300})``."""
    settings = HeatDiffusion.Settings()
    return HeatDiffusion(
        replace(settings, **{part: replace(getattr(settings, part), **values) for part, values in parts.items()})
    )


def families() -> dict[str, RaceFamily]:
    """Return all three problems, with rates that arrive on small graphs."""
    rates = RateSettings(adam=0.3, momentum=0.02, hessian=0.3, laplacian=0.3, random=0.3)
    world = GraphSettings("small_world")
    return {
        "heat": heat(),
        "phases": Synchronization(Synchronization.Settings(rates=rates, graph=world)),
        "clouds": PersistentHomology(PersistentHomology.Settings(rates=replace(rates, momentum=0.2))),
    }


def runs(family: RaceFamily, mix: str, nodes: int, seeds: Sequence[int]) -> list[RunConfig]:
    return [family.config(Arm.of(Mix.parse(mix)), nodes, seed) for seed in seeds]


def learner(family: RaceFamily, configs: Sequence[RunConfig]) -> Learner:
    return family.learner(configs, device="cpu", cache=Path())


def finish(learner: Learner) -> dict[int, Outcome]:
    """Train to the end. Return the outcomes by place."""
    ended: dict[int, Outcome] = {}
    while reports := learner.advance():
        ended |= {report.index: report.outcome for report in reports if report.outcome is not None}
    return ended
