"""How what was asked to be tuned, and what was found, is said in words."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.tuning.space import Tune, Tuned


def number_of(value: float) -> str:
    """Three significant digits: ``0.0031``, ``845``."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def values_text(values: Mapping[str, float]) -> str:
    """``training.learning_rate 0.0031, training.weight_decay 0.12``."""
    return ", ".join(f"{path} {number_of(value)}" for path, value in values.items())


def asked_text(asked: Tune | None) -> str:
    """What is going to be tuned, in one line."""
    if asked is None:
        return "none"
    spans = ", ".join(
        f"{path} {number_of(span.low)} to {number_of(span.high)}{' (log)' if span.scale == 'log' else ''}"
        for path, span in asked.settings.items()
    )
    sizes = "two sizes around its transition" if asked.sizes == "auto" else f"sizes {', '.join(map(str, asked.sizes))}"
    return f"{spans}: {asked.trials} trials for every mix, {asked.seeds} seeds at {sizes}"


def found_text(mix: str, found: Tuned, asked: Tune | None) -> str:
    """What a mix was trained with, in one line."""
    how = "set" if asked is None else f"tuned ({asked.trials} trials)"
    at = f" at size {number_of(found.base_size)}, power {number_of(found.size_power)}" if found.size_power else ""
    return f"{mix}: {how}: {values_text(found.settings)}{at}"
