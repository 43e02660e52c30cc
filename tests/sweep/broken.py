"""Families that break their contract, each in a different way."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tests.families import LogisticFamily, LogisticLearner
from trainables.base import Learner, Report, RunConfig


class PercentLearner(LogisticLearner):
    """Scores in percent."""

    def advance(self) -> list[Report]:
        return [_scored(report, 100.0) for report in super().advance()]


class EndlessLearner(LogisticLearner):
    """Says nothing, for ever."""

    def advance(self) -> list[Report]:
        return []


class PercentFamily(LogisticFamily):
    """Its accuracies are 0 to 100."""

    name = "percent"
    learner_type = PercentLearner


class EndlessFamily(LogisticFamily):
    """Its runs never end."""

    name = "endless"
    learner_type = EndlessLearner


class ForgetfulLearner(LogisticLearner):
    """Restores nothing of where it was."""

    def restore(self, directory: Path) -> None:
        self.step = 0


class ForgetfulFamily(LogisticFamily):
    """A run of it that is interrupted begins again from nothing."""

    name = "forgetful"
    learner_type = ForgetfulLearner


class NamelessFamily(LogisticFamily):
    """Its runs would be taken for those of the family that it inherits its name from."""


class RestlessFamily(LogisticFamily):
    """It leaves a thread at work that nothing ends, most of the time deep inside torch."""

    name = "restless"

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        threading.Thread(target=_multiply_for_ever, daemon=True).start()
        return LogisticLearner(runs)


def _multiply_for_ever() -> None:
    product = torch.ones(300, 300)
    while True:
        product = (product @ product).tanh()


def _scored(report: Report, factor: float) -> Report:
    assert report.evaluation is not None
    accuracy = {task: factor * share for task, share in report.evaluation.accuracy.items()}
    return replace(report, evaluation=replace(report.evaluation, accuracy=accuracy))
