"""Names, settings and learning curves in the form that every record uses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.record.tracker import Sample
from orchestrator.report.rows import MEASURE
from orchestrator.space.settings import flatten, plain_value
from trainables.base import Outcome

LONGEST_METRIC_NAME = 250
"""Longest name of a metric or parameter in MLflow."""


def curve_samples(outcome: Outcome) -> list[Sample]:
    """Return the learning curve of a run."""
    return [
        Sample(name, value, point.step, min(point.step / max(outcome.steps, 1), 1.0))
        for point in outcome.curve
        for name, value in {
            "loss": point.loss,
            **{f"accuracy/{mlflow_name(task)}": share for task, share in point.accuracy.items()},
            **{f"{MEASURE}{mlflow_name(name)}": value for name, value in point.measures.items()},
        }.items()
    ]


def mlflow_name(text: str) -> str:
    """Return a name that MLflow accepts for a metric or parameter: ``add.prod`` for ``add+prod``."""
    return re.sub(r"[^\w.\- /]", "_", text.replace("+", "."))[:LONGEST_METRIC_NAME]


def with_settings(identity: Mapping[str, str], resolved: Any) -> dict[str, str]:
    """Return ``identity`` and the settings of a sweep, a run or a recipe by their dotted names. If ``identity`` already
    uses a setting's name, the setting becomes ``settings.NAME``."""
    settings = {key: str(value) for key, value in flatten(plain_value(resolved)).items()}
    named = {f"settings.{key}" if key in identity else key: value for key, value in settings.items()}
    return {mlflow_name(key): value for key, value in {**identity, **named}.items()}


def finite(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Return the samples with finite values. Charts cannot show others, such as the last losses of a diverged run."""
    return tuple(sample for sample in samples if math.isfinite(sample.value))
