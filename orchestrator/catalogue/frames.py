"""Sweeps as tables. Column names are kept from version to version: notebooks and exports rest on them.

``runs``, one row a run:
    ``sweep``, ``space``, ``variant``, ``profile``; ``key``, ``mix``, ``size``, ``seed``, ``steps_factor`` (above 1: an
    audit of the budget, no evidence); ``status`` (finished, diverged, failed), ``steps``, ``seconds``; ``accuracy`` and
    ``floor`` (of the target; the floor is the best constant answer's), ``parameters``, ``core_parameters``;
    ``reused_from``; then for every task ``test_accuracy/TASK`` and ``floor/TASK``, ``probe/PROBE/NUMBER`` for what
    probes found in its model, and the run's further measures by their own names (``measure/NAME`` where a column above
    has that name).

``curves``, one row an evaluation and task:
    ``sweep``, ``key``, ``mix``, ``size``, ``seed``, ``steps_factor``; ``step``, ``loss`` (in the family's unit),
    ``task``, ``accuracy`` (validation); then ``measure/NAME`` for what else was measured at that evaluation.

``transitions``, one row a mix and task:
    ``sweep``, ``space``, ``variant``, ``profile``, ``size_axis``; ``mix``, ``recipe``, ``task``, ``is_target``,
    ``verdict``; ``transition``, ``low``, ``high`` on the size axis, the same with ``_parameters``, ``_core_parameters``
    and (at accuracy 0.8) ``_absolute`` behind them; ``p_above``, ``p_below``; ``tested_from``, ``tested_to``; ``runs``,
    ``diverged``, ``failed``; for the target of mixes beside the baseline ``synergy``, ``synergy_low``,
    ``synergy_high``, ``synergy_decided``, the same for ``synergy_core``; ``budget_limited``; ``words``.

What is not known (a censored side, a failed run's accuracy) is missing.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.store.probed import numbers_of
from orchestrator.transition.types import Estimate, Synergy

MEASURE = "measure/"
"""What columns of measures begin with, so that they clash with nothing."""
RUN_COLUMNS = (
    *(
        "sweep",
        "space",
        "variant",
        "profile",
        "key",
        "mix",
        "size",
        "seed",
        "steps_factor",
        "status",
        "steps",
        "seconds",
    ),
    *("accuracy", "floor", "parameters", "core_parameters", "reused_from"),
)
CURVE_COLUMNS = ("sweep", "key", "mix", "size", "seed", "steps_factor", "step", "loss", "task", "accuracy")
TRANSITION_COLUMNS = (
    *("sweep", "space", "variant", "profile", "size_axis", "mix", "recipe", "task", "is_target", "verdict"),
    *("transition", "low", "high"),
    *("transition_parameters", "low_parameters", "high_parameters"),
    *("transition_core_parameters", "low_core_parameters", "high_core_parameters"),
    *("transition_absolute", "low_absolute", "high_absolute"),
    *("p_above", "p_below", "tested_from", "tested_to", "runs", "diverged", "failed"),
    *("synergy", "synergy_low", "synergy_high", "synergy_decided"),
    *("synergy_core", "synergy_core_low", "synergy_core_high", "synergy_core_decided"),
    *("budget_limited", "words"),
)


def runs_frame(stored: StoredSweep) -> pd.DataFrame:
    """The runs that ended, in the order they did."""
    spec = stored.spec
    family = spec.make_family()
    counts = {size: family.parameters(size) for size in {run.config.size for run in stored.runs}}
    rows: list[dict[str, Any]] = []
    for run in stored.runs:
        config, outcome = run.config, run.outcome
        rows.append(
            {
                **_sweep_columns(stored),
                "key": run.key,
                "mix": config.label,
                "size": config.size,
                "seed": config.seed,
                "steps_factor": config.steps_factor,
                "status": outcome.status.value,
                "steps": outcome.steps,
                "seconds": outcome.measures.get("seconds"),
                "accuracy": outcome.accuracy.get(spec.target),
                "floor": outcome.floor.get(spec.target),
                "parameters": counts[config.size].total,
                "core_parameters": counts[config.size].core,
                "reused_from": run.found_in,
                **{f"test_accuracy/{task}": accuracy for task, accuracy in outcome.accuracy.items()},
                **{f"floor/{task}": floor for task, floor in outcome.floor.items()},
                **numbers_of(run.directory),
                **{_measure(name): value for name, value in outcome.measures.items() if name != "seconds"},
            }
        )
    further = sorted({name for row in rows for name in row} - set(RUN_COLUMNS))
    numbers = ["seconds", "accuracy", "floor", "parameters", "core_parameters", *further]
    return pd.DataFrame(rows, columns=[*RUN_COLUMNS, *further]).astype(dict.fromkeys(numbers, float))


def curves_frame(stored: StoredSweep) -> pd.DataFrame:
    """Every evaluation of the runs that ended."""
    rows = []
    measured: list[dict[str, float]] = []
    for run in stored.runs:
        config = run.config
        which = (stored.id, run.key, config.label, config.size, config.seed, config.steps_factor)
        for point in run.outcome.curve:
            rows += [(*which, point.step, point.loss, task, accuracy) for task, accuracy in point.accuracy.items()]
            measured += [{f"{MEASURE}{name}": value for name, value in point.measures.items()}] * len(point.accuracy)
    frame = pd.DataFrame(rows, columns=list(CURVE_COLUMNS))
    names = sorted({name for each in measured for name in each})
    return frame.join(pd.DataFrame(measured, columns=names).astype(float)) if names else frame


def transitions_frame(stored: StoredSweep) -> pd.DataFrame:
    """What was found, the target of each mix first."""
    found = stored.answer
    rows = [
        {**_sweep_columns(stored), "size_axis": found.size_axis, **_transition(found, mix, task)}
        for mix in found.mixes
        for task in mix.tasks
    ]
    frame = pd.DataFrame(rows, columns=list(TRANSITION_COLUMNS))
    flags = ["synergy_decided", "synergy_core_decided", "budget_limited"]
    numbers = [
        name
        for name in TRANSITION_COLUMNS
        if name.startswith(("transition", "low", "high", "p_", "synergy")) and name not in flags
    ]
    return frame.astype({**dict.fromkeys(numbers, float), **dict.fromkeys(flags, "boolean")})


def _measure(name: str) -> str:
    """The column of a run's own measure."""
    return f"{MEASURE}{name}" if name in RUN_COLUMNS or "/" in name else name


def _sweep_columns(stored: StoredSweep) -> dict[str, str]:
    spec = stored.spec
    return {"sweep": stored.id, "space": spec.name, "variant": spec.variant, "profile": spec.profile}


def _transition(found: Answer, mix: MixAnswer, task: TaskAnswer) -> dict[str, Any]:
    transition = task.transition
    smallest, largest = found.tested(transition)
    asymptote = transition.fit.asymptote if transition.fit else None
    is_target = task is mix.target
    return {
        "mix": mix.mix,
        "recipe": mix.recipe,
        "task": task.task,
        "is_target": is_target,
        "verdict": transition.verdict.value,
        **_estimate("", transition.relative),
        **_estimate("_parameters", task.total),
        **_estimate("_core_parameters", task.core),
        **_estimate("_absolute", transition.absolute),
        "p_above": transition.p_above,
        "p_below": transition.p_below,
        "tested_from": smallest.size,
        "tested_to": largest.size,
        "runs": mix.runs,
        "diverged": mix.diverged,
        "failed": mix.failed,
        **(_synergy("synergy", mix.synergy_total) if is_target else {}),
        **(_synergy("synergy_core", mix.synergy_core) if is_target else {}),
        "budget_limited": mix.budget_limited if is_target else None,
        "words": wording.estimate(transition.relative, smallest.size, largest.size, transition.verdict, asymptote),
    }


def _estimate(unit: str, found: Estimate) -> dict[str, float | None]:
    return {f"transition{unit}": found.value, f"low{unit}": found.low, f"high{unit}": found.high}


def _synergy(name: str, found: Synergy | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_decided": found.decided}
