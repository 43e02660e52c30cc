"""``tune:`` of a search space: settings to tune before the sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, field_serializer, field_validator, model_validator

from orchestrator.space.overlays import merge, nested
from orchestrator.space.parsing import InvalidDataError, Mistake, parse
from orchestrator.system.strict import STRICT

FIRST_SEED = 1_000_000
"""The first seed of tuning runs, above the seeds of most sweeps."""
FORMER_KEYS = (("sizes", "auto"), ("seed", FIRST_SEED))
"""Settings that earlier versions wrote to every tuned sweep, with their usual values. These values now always apply."""
NOTHING_BETTER = "no trial was reliably better than the settings as written"


class Range(BaseModel):
    """``{from: 0.0005, to: 0.02, scale: log}``: the values of a setting to try, evenly on a log scale."""

    model_config = STRICT

    low: float = Field(alias="from")
    high: float = Field(alias="to")
    scale: Literal["log"]

    @model_validator(mode="after")
    def _not_empty(self) -> Range:
        if not 0 < self.low < self.high:
            raise ValueError(f"'from' ({self.low:g}) must be above 0 and below 'to' ({self.high:g})")
        return self

    def at(self, position: float) -> float:
        """Return the value at a position in [0, 1], evenly on a log scale."""
        value = self.low * math.exp(position * math.log(self.high / self.low))
        return min(max(value, self.low), self.high)  # exp(log(x)) may exceed x slightly.

    def __str__(self) -> str:
        return f"{_digits(self.low)} to {_digits(self.high)} (log)"


class Tune(BaseModel):
    """Settings to tune for each mix, and the tuning runs, which are at two of the sweep's sizes and on separate
    seeds."""

    model_config = STRICT

    settings: dict[str, Range]
    """Ranges of the numbers to tune, nested like the family's settings; in Python by their dotted names."""
    trials: int = Field(default=6, ge=2, le=1_000)
    """Maximum number of trials of a mix. The first trial uses the settings as written. Trials are ranked by how many of
    their runs learn, then by their steps to learn. With the defaults a mix costs at most 48 runs."""
    seeds: int = Field(default=4, ge=1, le=1_000)
    """Maximum number of runs of a trial at each of two sizes. With fewer than four, only much better settings can be
    recognized."""

    @model_validator(mode="before")
    @classmethod
    def _without_former_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if (key, value) not in FORMER_KEYS}

    @field_validator("settings", mode="before")
    @classmethod
    def _by_path(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not value:
            raise ValueError("must have a range for at least one setting, such as training: {learning_rate: {from: ...")
        return {".".join(key): span for key, span in _ranges(value, ())}

    @field_serializer("settings")
    def _nested(self, value: dict[str, Range]) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for path, span in value.items():
            written = merge(written, nested(path.split("."), span.model_dump(by_alias=True)))
        return written

    @property
    def seed_list(self) -> tuple[int, ...]:
        """Seeds of a trial's runs at one size."""
        return tuple(range(FIRST_SEED, FIRST_SEED + self.seeds))

    def __str__(self) -> str:
        """Return the ranges, trials and seeds in one line."""
        spans = ", ".join(f"{path} {span}" for path, span in self.settings.items())
        return f"{spans}: up to {self.trials} trials for every mix, up to {self.seeds} seeds at two sizes"


def tuning_sizes(sweep: Sequence[int]) -> tuple[int, int]:
    """Return the sizes to tune at, at a third and two thirds of a sweep's list of at least two sizes."""
    low = (len(sweep) - 1) // 3
    return sweep[low], sweep[max(low + 1, 2 * (len(sweep) - 1) // 3)]


def values_text(values: Mapping[str, float]) -> str:
    """Return text such as ``training.learning_rate 0.0031, training.weight_decay 0.12``."""
    return ", ".join(f"{path} {_digits(value)}" for path, value in values.items())


def tuned_text(mix: str, values: Mapping[str, float], tune: Tune | None) -> str:
    """Return, in one line, the settings with which a mix was trained."""
    how = "set" if tune is None else "tuned"
    return f"{mix}: {how}: {values_text(values)}" if values else f"{mix}: {NOTHING_BETTER}"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _ranges(value: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Range]]:
    """Yield every range inside nested mappings, with its path. Raises :class:`InvalidDataError`."""
    for name, inner in value.items():
        key = (*above, name)
        if not isinstance(inner, Mapping):
            raise InvalidDataError(
                Mistake(key, f"must be a range such as {{from: 0.1, to: 1, scale: log}}; got {inner!r}")
            )
        if inner.keys() & {"from", "to", "scale"}:
            yield key, parse(Range, inner, at=key)
        else:
            yield from _ranges(inner, key)
