"""Families of one generator each, correct ones and others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic.dataclasses import dataclass as pydantic_dataclass

from trainables import SimpleFamily, SimpleSettings
from trainables.contract.simple import Point


class Curve(SimpleFamily):
    """A family whose accuracy is a known logistic curve in the size, with noise from the seed and two points a run."""

    task_names = ("add", "prod")
    size_axis = "hidden units"
    floor = 0.1

    @dataclass(frozen=True)
    class Settings(SimpleSettings):
        steps: int = 4
        midpoint: float = 12.0

    def parameter_count(self, size: float) -> float:
        return 10 * size + 1

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Settings) -> Iterator[Point]:
        noise = np.random.default_rng([size, seed]).normal(0, 0.02)
        learned = 1 / (1 + (settings.midpoint / (size * len(tasks))) ** 6)
        for step in range(settings.steps // 2, settings.steps + 1, settings.steps // 2):
            yield step, 1 / step, min(1.0, max(0.0, 0.1 + 0.88 * learned * step / settings.steps + noise))


@pydantic_dataclass(frozen=True)
class PydanticSettings:
    steps: int = 6
    learning_rate: float = 0.1


class TorchFit(SimpleFamily):
    """A line fitted with torch's global generator, which is why runs must not alternate steps in a process."""

    task_names = ("line",)
    Settings = PydanticSettings

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        torch.manual_seed(seed)
        weight = torch.zeros((), requires_grad=True)
        for step in range(1, settings.steps + 1):
            loss = ((weight - 1) * torch.randn(size)).square().mean()
            (gradient,) = torch.autograd.grad(loss, weight)
            weight = (weight - settings.learning_rate * gradient).detach().requires_grad_()
            yield step, loss, {"line": 1 - (weight - 1).abs().clamp(max=1)}


class Yields(SimpleFamily):
    """A family that yields the points of its subclass."""

    task_names = ("add", "prod")
    Settings = Curve.Settings
    points: tuple[Any, ...] = ()

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        yield from self.points


class Diverges(Yields):
    floor = 0.25
    points = ((1, 0.5, 0.9), (2, math.nan, math.nan), (3, 0.1, 1.0))


class Unseeded(SimpleFamily):
    """A family whose accuracy does not depend on its seed alone."""

    task_names = ("add",)

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        yield 1, 0.5, np.random.default_rng().random()


class Raises(SimpleFamily):
    """A family whose runs all fail."""

    task_names = ("add",)

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        raise ValueError("no data")
        yield


class SometimesRaises(SimpleFamily):
    """A family whose runs fail with odd seeds."""

    task_names = ("add",)
    floor = 0.1

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        if seed % 2:
            raise ValueError("odd seed")
        yield 1, 0.5, 0.9


class Suspended(SimpleFamily):
    """A family that evaluates, and yields, inside ``torch.no_grad()``, and needs gradients in every step."""

    task_names = ("add",)
    floor = 0.1

    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        for step in range(1, settings.steps + 1):
            weight = torch.ones(size, requires_grad=True)
            torch.autograd.backward(weight.square().sum())
            with torch.no_grad():
                yield step, 0.5, 0.9
