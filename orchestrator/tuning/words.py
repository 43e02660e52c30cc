"""Words for what is tuned and what was found."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.space.tuning import Tune, Tuned
from orchestrator.tuning.objective import SURE, learned_of
from orchestrator.tuning.study import WRITTEN, Tuning, TuningTrial

NOTHING_BETTER = "found nothing better than the settings as written"


def number_of(value: float) -> str:
    """Three significant digits: ``0.0031``, ``845``."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def values_text(values: Mapping[str, float]) -> str:
    """``training.learning_rate 0.0031, training.weight_decay 0.12``."""
    return ", ".join(f"{path} {number_of(value)}" for path, value in values.items())


def asked_text(asked: Tune | None) -> str:
    """The question, in one line."""
    if asked is None:
        return "none"
    spans = ", ".join(
        f"{path} {number_of(span.low)} to {number_of(span.high)}{' (log)' if span.scale == 'log' else ''}"
        for path, span in asked.settings.items()
    )
    sizes = "two sizes" if asked.sizes == "auto" else f"sizes {', '.join(map(str, asked.sizes))}"
    return f"{spans}: up to {asked.trials} trials for every mix, up to {asked.seeds} seeds at {sizes}"


def trial_text(trial: TuningTrial) -> str:
    """Result of a trial: ``3 of 4 runs learned, in 2390 steps (training.learning_rate 0.0031)``."""
    steps = [run.learned_at for run in trial.runs if run.learned_at is not None]
    mean = f", in {number_of(sum(steps) / len(steps))} steps" if steps else ""
    return f"{learned_of(trial.runs)} of {len(trial.runs)} runs learned{mean} ({values_text(trial.values)})"


def chosen_text(tuning: Tuning) -> str:
    """The choice for a mix and its reason, in one line."""
    written = tuning.trials[WRITTEN].runs
    as_written = f"{learned_of(written)} of {len(written)} runs learned as written"
    if not tuning.best.settings:
        return f"tuning {tuning.mix}: {NOTHING_BETTER} by more than luck ({as_written})"
    best = next(trial for trial in tuning.trials if trial.values == tuning.best.settings)
    return (
        f"tuned {tuning.mix}: {values_text(best.values)}, {learned_of(best.runs)} of {len(best.runs)} runs learned "
        f"({as_written}; better with a probability of {SURE:.0%} at least)"
    )


def found_text(mix: str, found: Tuned, asked: Tune | None) -> str:
    """Settings that a mix was trained with, in one line."""
    if not found.settings:
        return f"{mix}: {NOTHING_BETTER}"
    how = "set" if asked is None else "tuned"
    at = f" at size {number_of(found.base_size)}, power {number_of(found.size_power)}" if found.size_power else ""
    return f"{mix}: {how}: {values_text(found.settings)}{at}"
