"""A learner of a single run whose progress is a sequence of points, and whose checkpoint is the last reported step."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Generator
from itertools import islice
from pathlib import Path

from trainables.contract.family import Family
from trainables.contract.files import write_whole
from trainables.contract.learner import Learner
from trainables.contract.runs import Report, RunConfig

CHECKPOINT = "reported.json"
"""File of a checkpoint: the run's key and the last step that was reported."""


class PointLearner(Learner):
    """Reports the points of one run. After :meth:`restore` it reports nothing up to the saved step.

    :meth:`_train` decides whether training itself begins again or continues.
    """

    def __init__(self, family: Family, run: RunConfig) -> None:
        self._key = family.key(run)
        self._run = run
        self._reported_step = 0
        """Last step that was reported. :meth:`_train` skips points up to it, and keeps it up to date."""
        self._reports = self._train()

    @abstractmethod
    def _train(self) -> Generator[Report]:
        """Yield a report for each new point, then a report with the outcome.

        It is a generator, so nothing runs before the first report is requested. Attributes may be set until then.
        """

    def advance(self) -> list[Report]:
        return list(islice(self._reports, 1))

    def save(self, directory: Path) -> None:
        write_whole(directory / CHECKPOINT, json.dumps({"key": self._key, "step": self._reported_step}))

    def restore(self, directory: Path) -> None:
        saved = json.loads((directory / CHECKPOINT).read_text(encoding="utf-8"))
        if saved["key"] != self._key:
            raise ValueError(f"the checkpoint in {directory} belongs to another run")
        self._reported_step = int(saved["step"])

    def close(self) -> None:
        self._reports.close()
