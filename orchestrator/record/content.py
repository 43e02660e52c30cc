"""Contents of the records of sweeps and runs: pure values, which a tracker copies into its store.

Names are stable, for sorting, filtering and charts:

* runs (``kind`` = ``run``): parameters ``mix``, the size axis by its name, ``seed``, ``target``, ``family`` and
  every setting of the run by its dotted name;
  metrics ``accuracy/TASK``, ``measure/NAME`` and ``loss`` over steps, ``test_accuracy/TASK``, ``floor/TASK``,
  ``parameters``, ``core_parameters``, ``steps``, the run's own measures (as ``measure/NAME`` if one has a name of
  these) and ``probe/PROBE/NUMBER``; tags ``status`` and ``data``, a hash of what the run was trained and scored on.
* transitions (``kind`` = ``transition``), one a mix: parameters ``mix``, ``recipe``, ``target``, ``baseline``,
  ``verdict``, ``decided`` and the settings; metrics ``transition``, ``low``, ``high`` (on the size axis, at 80 % of the
  asymptote), the same with ``_parameters`` or ``_core_parameters`` behind them, with ``_absolute`` (at accuracy 0.8),
  with ``/TASK`` for the other tasks; ``p_above``, ``p_below``; ``fit.midpoint``, ``fit.slope``, ``fit.floor``,
  ``fit.asymptote``; ``evidence`` and ``at_least`` of the comparison with the baseline
  (``pairs`` of runs); the estimated ratio ``synergy``, ``synergy_low``, ``synergy_high`` (in all parameters),
  ``synergy_core`` ....
A censored or unknown value is left out. ``+`` in a mix is written ``.`` in metric names, which may not hold a plus.

Artifacts: of a run ``arrays.npz`` (what its family keeps of the model), ``probes/PROBE.npz``, and for the first seed of
each size a picture of its ``similarity``, or ``traceback.txt``; of a transition ``curve.png`` and ``transition.json``
(points, curves, probabilities and estimates); of a sweep ``report.html``, ``transitions.png`` and ``.svg``,
``answer.json`` and ``search_space.yaml``, which ``run`` takes as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.home.files import PROBES
from orchestrator.home.run_files import array_files
from orchestrator.home.sweeps import RunRecord, Sweep
from orchestrator.report.run_table import MEASURE, run_values
from orchestrator.report.words import numbers
from orchestrator.space.settings import flatten, plain_settings
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import LEVEL
from trainables.base import Status

NO_METRICS = frozenset({"size", "seed", "accuracy", "floor"})
"""Numbers of a run that are its identity, or stand in its record by the names of their tasks."""


@dataclass(frozen=True)
class Sample:
    """One value of a metric. ``progress`` in [0, 1] is its time within the record's life."""

    name: str
    value: float
    step: int = 0
    progress: float = 1.0


@dataclass(frozen=True)
class Content:
    """One record. ``texts`` and ``files`` are artifacts by name; ``seconds`` is the duration of what it records."""

    name: str
    tags: dict[str, str]
    params: dict[str, str]
    samples: tuple[Sample, ...] = ()
    note: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def digest(self) -> str:
        """Hash of the record, without its note: a record with an equal digest need not be written again."""
        samples = [(each.name, each.value, each.step, each.progress) for each in self.samples]
        parts = [self.name, self.tags, self.params, samples, self.texts]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def sweep_content(sweep: Sweep) -> Content:
    """The record of a sweep as it begins."""
    spec = sweep.spec
    asked = {
        "target": spec.target,
        "baseline": spec.baseline.name,
        "mixes": ", ".join(mix.name for mix in spec.mixes),
        "budget": spec.budget,
        "sizes": ", ".join(str(size) for size in spec.sizes),
        "seeds": ", ".join(str(seed) for seed in spec.seed_list),
        "profile": spec.profile,
        **({"variant": spec.variant} if spec.variant else {}),
        "family": spec.family,
        **{f"search.{key}": str(value) for key, value in flatten(spec.search.model_dump(mode="json")).items()},
    }
    environment = {f"env.{key}": str(value) for key, value in flatten(sweep.environment).items()}
    return Content(
        name=sweep.id,
        tags={"kind": "sweep", "sweep": sweep.id, "question": spec.question, **environment},
        params=with_settings(spec, asked),
        note=sweep_note(sweep),
        texts={
            "search_space.yaml": spec.to_yaml(),
        },
    )


def run_content(sweep: Sweep, run: RunRecord) -> Content:
    """The record of one run."""
    spec, config, outcome = sweep.spec, run.config, run.outcome
    identity = {
        "mix": config.label,
        spec.size_axis: str(config.size),
        "seed": str(config.seed),
        "target": spec.target,
        "family": spec.family,
    }
    curve = tuple(
        Sample(name, value, point.step, min(point.step / max(outcome.steps, 1), 1.0))
        for point in outcome.curve
        for name, value in {
            "loss": point.loss,
            **{f"accuracy/{metric_name(task)}": share for task, share in point.accuracy.items()},
            **{f"{MEASURE}{metric_name(name)}": value for name, value in point.measures.items()},
        }.items()
    )
    values = run_values(sweep, [run])[0]
    final = {
        metric_name(name if name != "loss" else f"{MEASURE}{name}"): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and name not in NO_METRICS
    }
    return Content(
        name=f"{config.label} {spec.size_axis} {config.size} seed {config.seed}",
        tags={
            "kind": "run",
            "sweep": sweep.id,
            "run_key": run.key,
            "status": outcome.status.value,
            **({"data": outcome.data} if outcome.data else {}),
            **({"trained_for": run.found_in} if run.found_in else {}),
        },
        params=with_settings(spec, identity, config.settings),
        samples=finite((*curve, *(Sample(name, value, outcome.steps) for name, value in final.items()))),
        note=_run_note(sweep, run, values["parameters"]),
        texts={"traceback.txt": outcome.error} if outcome.status is Status.FAILED else {},
        files=_run_files(run.directory),
        seconds=outcome.measures.get("seconds", 0.0),
    )


def metric_name(text: str) -> str:
    """``add+prod`` as a metric's name: ``add.prod``."""
    return re.sub(r"[^\w.\- /]", "_", text.replace("+", "."))


def _run_files(directory: Path) -> dict[str, Path]:
    """A run's arrays and what its probes kept, by the artifact's name."""
    return {
        f"{PROBES}/{path.name}" if path.parent.name == PROBES else path.name: path for path in array_files(directory)
    }


def with_settings(spec: SweepSpec, identity: Mapping[str, str], resolved: Any = None) -> dict[str, str]:
    """``identity`` with the sweep's settings, or those ``resolved`` for one run, by their dotted names."""
    values = plain_settings(spec.settings if resolved is None else resolved)
    settings = {key: str(value) for key, value in flatten(values).items()}
    if clash := sorted(settings.keys() & identity.keys()):
        raise ValueError(f"the family {spec.family!r} has settings whose names are taken: {', '.join(clash)}")
    return {**identity, **settings}


def finite(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The samples without values that no chart can show: the last losses of a diverged run."""
    return tuple(sample for sample in samples if math.isfinite(sample.value))


def experiment_note(spec: SweepSpec) -> str:
    """Description of an experiment: its records, and how to compare them."""
    return f"""**{spec.question}**

One run a sweep (tag `kind` = `sweep`). Nested in it: one for every {spec.family_class.words.run} (`run`) and one for
every mix's transition (`transition`). The views *Transitions* and *Runs* list each kind with the columns that matter;
or search for `tags.kind = "transition"` and sort by `transition`, `low`, `high` and `evidence`.
"""


def sweep_note(about: Sweep) -> str:
    """Description of a sweep: its question, and the arrangement of its record."""
    spec = about.spec
    mixes, words = ", ".join(f"`{mix.name}`" for mix in spec.mixes), spec.family_class.words
    return f"""**{spec.question}**

Sought for each of the mixes {mixes}: the smallest `{spec.size_axis}` at which {words.final_score} of `{spec.target}`
reaches {LEVEL:.0%} of its asymptote. Profile `{spec.profile or "none"}`, searcher {spec.search.method}, sizes
{spec.sizes[0]} to {spec.sizes[-1]}, up to {spec.seeds} seeds a size.

Nested below: one record for every {words.run} and one for every mix's transition. The artifact `search_space.yaml`
reproduces the sweep: `python -m orchestrator run search_space.yaml`.
"""


def _run_note(about: Sweep, record: RunRecord, parameters: float) -> str:
    """Description of a run and its outcome."""
    spec, config, outcome = about.spec, record.config, record.outcome
    words = spec.family_class.words
    ends = {
        Status.FAILED: "It **failed** and counts as no evidence; see `traceback.txt` among the artifacts.",
        Status.DIVERGED: f"Its loss **diverged**, so it counts as not having {words.learned}.",
    }
    counted = f"{numbers.exact(parameters)} {words.parameters}"
    return f"""One {words.run} of {spec.size_axis} {config.size} ({counted}), of `{config.label}` with seed
{config.seed}, for the sweep `{about.id}`. {ends.get(outcome.status, "")}

`accuracy/...` is {words.score} at every evaluation, `measure/...` what else was measured, `probe/...` the results of
probes. `arrays.npz` holds what was kept of it, `probes/` the arrays of probes.
"""
