"""Simple families that can continue: exactly, without their random numbers, from the start, or never."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import mse_loss

from trainables import SimpleFamily, SimpleSettings
from trainables.contract.simple import Point

FAMILY = "tests.trainables.resuming:Line"


@dataclass(frozen=True)
class LineSettings(SimpleSettings):
    steps: int = 6
    pace_s: float = 0.0
    """Seconds before every step."""
    log: str = ""
    """File that gets a line for every step."""


class Line(SimpleFamily):
    """A line fitted by Adam to noise from torch's global generator. It saves all of its state."""

    task_names = ("add", "max")
    size_axis = "terms"
    floor = 0.0
    Settings = LineSettings

    def train(
        self, tasks: Mapping[str, float], size: int, seed: int, settings: LineSettings, resume: Any = None
    ) -> Iterator[Point]:
        torch.manual_seed(seed)
        model = torch.nn.Linear(size, 1)
        optimizer = torch.optim.Adam(model.parameters(), 0.05)
        done = 0
        if resume is not None:
            done = self.restored(resume, model, optimizer)
        for step in range(done + 1, settings.steps + 1):
            time.sleep(settings.pace_s)
            inputs = torch.randn(32, size)
            loss = mse_loss(model(inputs), inputs.sum(1, keepdim=True))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            self.log(settings, size, seed, step)
            self.save(self.state(step, model, optimizer))
            yield step, loss, 1 / (1 + loss.item())
        self.keep(weights=model.state_dict(), arrays={"embedding": model.weight.reshape(-1, 1) * torch.ones(2)})

    def state(self, step: int, model: Any, optimizer: Any) -> Any:
        random = torch.get_rng_state()
        return {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": random}

    def restored(self, resume: Any, model: Any, optimizer: Any) -> int:
        """Continue a state. Return its step."""
        model.load_state_dict(resume["model"])
        optimizer.load_state_dict(resume["optimizer"])
        torch.set_rng_state(resume["random"])
        return int(resume["step"])

    def log(self, settings: LineSettings, size: int, seed: int, step: int) -> None:
        if settings.log:
            with Path(settings.log).open("a") as file:
                file.write(json.dumps([size, seed, step, os.getpid()]) + "\n")


class Reseeded(Line):
    """Continues with other random numbers than those of an undisturbed run."""

    def restored(self, resume: Any, model: Any, optimizer: Any) -> int:
        before = torch.get_rng_state()
        step = super().restored(resume, model, optimizer)
        torch.set_rng_state(before)
        return step


class Beginner(Line):
    """Gets its state back and begins again."""

    def restored(self, resume: Any, model: Any, optimizer: Any) -> int:
        return 0


class Silent(Line):
    """Can continue, but never saves."""

    def save(self, state: Any) -> None:
        pass


class Early(Line):
    """Saves the state of before a step, so that it repeats an evaluation."""

    def train(
        self, tasks: Mapping[str, float], size: int, seed: int, settings: LineSettings, resume: Any = None
    ) -> Iterator[Point]:
        done = resume or 0
        for step in range(done + 1, settings.steps + 1):
            self.save(step - 1)
            yield step, 1 / step, step / settings.steps


class Saves(SimpleFamily):
    """Saves what its subclass says."""

    task_names = ("add",)
    floor = 0.0
    state: Any = None

    def train(
        self, tasks: Mapping[str, float], size: int, seed: int, settings: Any, resume: Any = None
    ) -> Iterator[Point]:
        self.save(self.state)
        yield 1, 0.5, 0.5


class Keeps(SimpleFamily):
    """Keeps what its subclass says, and cannot continue."""

    task_names = ("add",)
    floor = 0.0
    kept: Mapping[str, Any] = {}

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        self.keep(**self.kept)
        yield 1, 0.5, 0.5


class SavesForNothing(SimpleFamily):
    """Saves a state, although its ``train`` cannot continue."""

    task_names = ("add",)
    floor = 0.0

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        self.save({"step": 1})
        yield 1, 0.5, 0.5


class Unable(Line):
    """Trains as :class:`Line` does, but cannot continue."""

    def train(  # type: ignore[override]
        self, tasks: Mapping[str, float], size: int, seed: int, settings: LineSettings
    ) -> Iterator[Point]:
        yield from super().train(tasks, size, seed, settings)

    def save(self, state: Any) -> None:
        pass
