"""Optuna's part in a study: the values of its next trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import optuna

from orchestrator.space.tuning import Range, Tune
from orchestrator.tuning.halving import TuningCell
from orchestrator.tuning.objective import objective
from orchestrator.tuning.results import TuningTrial

ENOUGH = 2
"""Trials from which on the estimator's suggestions are more than chance."""


def propose(
    asked: Tune, trials: Sequence[TuningTrial], first_rung: Sequence[TuningCell], wanted: int
) -> list[dict[str, float]]:
    """Values for ``wanted`` new trials, within the ranges.

    Those that begin after the settings as written (``trials`` holds but that one) are drawn at random with one of them
    in each of ``wanted`` equal parts of every range: a handful drawn freely would leave gaps. Later ones come from
    Optuna's tree-structured Parzen estimator, which is told what the others came to on the first rung, where all are
    trained. The same trials give the same values.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Another stream for every wave, or the first suggestions would come again.
    seed = asked.seed + len(trials)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=ENOUGH, constant_liar=True)
    spans: dict[str, optuna.distributions.BaseDistribution] = {
        path: _distribution(span) for path, span in asked.settings.items()
    }
    study = optuna.create_study(direction="minimize", sampler=sampler)
    cells = {(cell.size, cell.seed) for cell in first_rung}
    for trial in trials:
        runs = [run for run in trial.runs if (run.size, run.seed) in cells]
        if runs and all(span.low <= trial.values[path] <= span.high for path, span in asked.settings.items()):
            score = objective(runs, asked.penalty)
            study.add_trial(optuna.trial.create_trial(params=trial.values, distributions=spans, value=score))
    if len(trials) == 1:
        rng, shape = np.random.default_rng(seed), (wanted, len(spans))
        for places in (np.argsort(rng.random(shape), axis=0) + rng.random(shape)) / wanted:  # a Latin hypercube
            named = zip(asked.settings.items(), places, strict=True)
            study.enqueue_trial({path: _at(span, float(place)) for (path, span), place in named})
    return [dict(study.ask(spans).params) for _ in range(wanted)]


def _distribution(span: Range) -> optuna.distributions.FloatDistribution:
    return optuna.distributions.FloatDistribution(span.low, span.high, log=span.scale == "log")


def _at(span: Range, place: float) -> float:
    """The value at a place in [0, 1) of a range, evenly on its scale."""
    if span.scale == "linear":
        return span.low + place * (span.high - span.low)
    # Rounded into the range: exp(log(x)) may be a little less than x.
    return min(max(math.exp(math.log(span.low) + place * math.log(span.high / span.low)), span.low), span.high)
