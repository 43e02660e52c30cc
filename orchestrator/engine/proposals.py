"""Optuna's part in a study: the values of its next trials."""

from __future__ import annotations

from collections.abc import Sequence

import optuna

from orchestrator.tuning.halving import TuningCell
from orchestrator.tuning.objective import objective
from orchestrator.tuning.results import TuningTrial
from orchestrator.tuning.space import Range, Tune


def propose(
    asked: Tune, trials: Sequence[TuningTrial], first_rung: Sequence[TuningCell], wanted: int
) -> list[dict[str, float]]:
    """Values for ``wanted`` new trials, within the ranges: drawn at random for the first half, then by the
    tree-structured Parzen estimator, which is told what the others came to on the first rung, where all are trained.

    The settings as written are among those where they lie in the ranges. The same trials give the same values.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(
        # Another stream for every wave, or the first suggestions would come again.
        seed=asked.seed + len(trials),
        n_startup_trials=max(2, (asked.trials - 1) // 2),
        constant_liar=True,
    )
    spans = {path: _distribution(span) for path, span in asked.settings.items()}
    study = optuna.create_study(direction="minimize", sampler=sampler)
    cells = {(cell.size, cell.seed) for cell in first_rung}
    for trial in trials:
        runs = [run for run in trial.runs if (run.size, run.seed) in cells]
        if runs and all(span.low <= trial.values[path] <= span.high for path, span in asked.settings.items()):
            score = objective(runs, asked.penalty)
            study.add_trial(optuna.trial.create_trial(params=trial.values, distributions=spans, value=score))
    return [dict(study.ask(spans).params) for _ in range(wanted)]


def _distribution(span: Range) -> optuna.distributions.FloatDistribution:
    return optuna.distributions.FloatDistribution(span.low, span.high, log=span.scale == "log")
