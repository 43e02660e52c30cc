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
    """A learner whose accuracies are percentages."""

    def advance(self) -> list[Report]:
        reports = []
        for report in super().advance():
            assert report.evaluation is not None
            percent = {task: 100.0 * share for task, share in report.evaluation.accuracy.items()}
            reports.append(replace(report, evaluation=replace(report.evaluation, accuracy=percent)))
        return reports


class EndlessLearner(LogisticLearner):
    """A learner that never reports anything."""

    def advance(self) -> list[Report]:
        return []


class PercentFamily(LogisticFamily):
    """A family whose accuracies are 0 to 100."""

    name = "percent"
    learner_type = PercentLearner


class EndlessFamily(LogisticFamily):
    """A family whose runs never end."""

    name = "endless"
    learner_type = EndlessLearner


class ForgetfulLearner(LogisticLearner):
    """A learner that does not restore its progress."""

    def restore(self, directory: Path) -> None:
        self.step = 0


class ForgetfulFamily(LogisticFamily):
    """A family whose interrupted runs start over."""

    name = "forgetful"
    learner_type = ForgetfulLearner


class NamelessFamily(LogisticFamily):
    """A family without its own name: its runs would be mistaken for those of its base class."""


class RestlessFamily(LogisticFamily):
    """A family that leaves a daemon thread running, which spends most of its time inside torch."""

    name = "restless"

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        threading.Thread(target=_multiply_for_ever, daemon=True).start()
        return LogisticLearner(runs)


def _multiply_for_ever() -> None:
    product = torch.ones(300, 300)
    while True:
        product = (product @ product).tanh()
