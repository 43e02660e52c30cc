"""A family that trains nothing but keeps its slot for a known time, and says where and when it did."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import ray

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig

FAMILY = "tests.engine.sleepers:SleepingFamily"


@dataclass(frozen=True)
class SleepingSettings(LogisticSettings):
    """``log`` is a directory for what the learners have to say."""

    sleep_s: float = 0.2
    """Between two evaluations."""
    log: str = ""


@dataclass(frozen=True)
class Turn:
    """One learner's time from one evaluation to the next. ``gpus`` is its CUDA_VISIBLE_DEVICES."""

    process: int
    node: str
    gpus: str | None
    learner: int
    begun: float
    ended: float


class SleepingLearner(LogisticLearner):
    """Sleeps between evaluations."""

    def __init__(self, runs: Sequence[RunConfig]) -> None:
        super().__init__(runs)
        self._settings: SleepingSettings = runs[0].settings

    def advance(self) -> list[Report]:
        begun = time.time()
        time.sleep(self._settings.sleep_s)
        node = ray.get_runtime_context().get_node_id()
        turn = [os.getpid(), node, os.environ.get("CUDA_VISIBLE_DEVICES"), id(self), begun, time.time()]
        with (Path(self._settings.log) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(turn) + "\n")
        return super().advance()


class SleepingFamily(LogisticFamily):
    """The logistic family, taking its time."""

    Settings: ClassVar[type] = SleepingSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return SleepingLearner(runs)


def turns(log: Path) -> list[Turn]:
    """What was said in a directory, in order of time."""

    def read() -> Iterator[Turn]:
        for path in log.glob("*.jsonl"):
            for line in path.read_text().splitlines():
                fields: list[Any] = json.loads(line)
                yield Turn(*fields)

    return sorted(read(), key=lambda turn: turn.begun)


def occupancy(said: Sequence[Turn], slots: int) -> float:
    """The share of its slots' time a sweep trained in, from the first beginning to the last end."""
    busy = sum(turn.ended - turn.begun for turn in said)
    return busy / (slots * (max(turn.ended for turn in said) - min(turn.begun for turn in said)))
