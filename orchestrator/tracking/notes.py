"""The descriptions beside the records, in Markdown, for a reader who did not run the sweep."""

from __future__ import annotations

from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.space.spec import SweepSpec
from orchestrator.store.records import RunRecord, Sweep
from orchestrator.transition.types import LEVEL
from orchestrator.tuning.objective import LEARNED, SURE, learned_of
from orchestrator.tuning.study import Tuning
from orchestrator.tuning.words import NOTHING_BETTER, values_text
from trainables.base import Parameters, Status


def experiment(spec: SweepSpec) -> str:
    """What the experiment of a search space holds, and how to compare in it."""
    return f"""**{spec.question}**

One run a sweep (tag `kind` = `sweep`); under each, one for every {spec.family_class.words.run} (`run`) and one for
every mix's transition (`transition`). The plus before a sweep's name opens it. To compare transitions, of one sweep or
of many, choose *Transitions* under *Views* above, or search for `tags.kind = "transition"`; sort or chart by the
metrics `transition`, `low`, `high` and `synergy`, or tick some and press Compare. The views *Runs* and *Sweeps* show
the other records with the columns that matter.
"""


def sweep(sweep: Sweep) -> str:
    """What a sweep asks and how its record is arranged."""
    spec = sweep.spec
    mixes, words = ", ".join(f"`{mix.name}`" for mix in spec.mixes), spec.family_class.words
    return f"""**{spec.question}**

This sweep looks for the size (`{spec.size_axis}`) from which on the target `{spec.target}` is {words.learned}, for each
of the mixes {mixes}: where {words.final_score} reaches {LEVEL:.0%} of its asymptote.
Profile `{spec.profile or "none"}`, searched by {spec.search.method}, sizes {spec.sizes[0]} to {spec.sizes[-1]},
up to {spec.seeds} seeds a size.

Nested below are one run for every {words.run} (tag `kind` = `run`) and one for every mix's transition
(`kind` = `transition`). `search_space.yaml` among the artifacts reproduces the sweep:
`python -m orchestrator run search_space.yaml`.
"""


def ended(about: Sweep, table: str, state: str) -> str:
    """The note of a sweep that has ended: the answer first."""
    head = "" if state == "finished" else f"This sweep is **{state}**; the answer is what its runs say so far.\n\n"
    return f"{head}```\n{table}\n```\n\n{sweep(about)}"


def run(about: Sweep, record: RunRecord, parameters: Parameters) -> str:
    """What one run trained and what came of it."""
    spec, config, outcome = about.spec, record.config, record.outcome
    words = spec.family_class.words
    who = (
        f"One {words.run} of {spec.size_axis} {config.size} ({wording.exact(parameters.total)} {words.parameters}), of "
        f"`{config.label}` with seed {config.seed}, for the sweep `{about.id}`."
    )
    if outcome.status is Status.FAILED:
        return f"{who}\n\nIt **failed** and counts as no evidence; `traceback.txt` among the artifacts says why."
    rows = "\n".join(
        f"| {task} | {share:.3f} | {outcome.floor.get(task, float('nan')):.3f} |"
        for task, share in sorted(outcome.accuracy.items())
    )
    ending = (
        f"Its loss stopped being finite (**diverged**), so it counts as not having {words.learned}."
        if outcome.status is Status.DIVERGED
        else "It finished."
    )
    return f"""{who} {ending} Steps: {outcome.steps}.

| {words.task} | {words.final_score} | best constant answer |
|---|---|---|
{rows}

`accuracy/...` is its {words.score} at every evaluation, `measure/...` what else was measured meanwhile, `probe/...`
what probes found in the end. `arrays.npz` holds what was kept of it, `probes/` what probes made of it.
"""


def tuning(about: Sweep, found: Tuning) -> str:
    """How a mix's settings were chosen."""
    axis, sizes = about.spec.size_axis, " and ".join(map(str, found.sizes))
    outcome = values_text(found.best.settings) if found.best.settings else NOTHING_BETTER
    rows = "\n".join(
        f"| {values_text(trial.values)} | {learned_of(trial.runs)} of {len(trial.runs)} |" for trial in found.trials
    )
    return f"""Before the sweep `{about.id}` began, `{found.mix}` was tuned with {len(found.trials)} trials at
{axis} {sizes}: **{outcome}**.

| settings | runs learned |
|---|---|
{rows}

A run has learned where `{about.spec.target}` reaches accuracy {LEARNED} on the validation tuples. Trials are judged by
how many of their runs learned, then by how soon; the better half of each round trained further seeds and sizes. The
settings as written, the first trial, stay unless another is learned by a larger share of runs with a probability of
{SURE:.0%}. The seeds are none of the sweep's; the test tuples were not looked at. `trials.json` holds every run.
"""


def transition(about: Sweep, answer: Answer, mix: MixAnswer) -> str:
    """Where a mix's transition lies and what it saves."""
    found = mix.target.transition
    low, high = answer.tested(found)
    asymptote = found.fit.asymptote if found.fit else None
    size = wording.estimate(found.relative, low.size, high.size, found.verdict, asymptote)
    total = wording.estimate(mix.target.total, low.total, high.total, found.verdict, asymptote)
    saving = (
        ""
        if mix.synergy_total is None
        else "\n\n**"
        + wording.synergy(mix.mix, answer.baseline_of(mix), mix.synergy_total, answer.words.parameters)
        + "**."
    )
    level = f"{answer.confidence:.0%} intervals; {LEVEL:.0%} of the asymptote"
    by_size: dict[int, list[str]] = {}
    for point in found.points:
        by_size.setdefault(point.size, []).append(f"{point.accuracy:.2f}")
    rows = "\n".join(f"| {size} | {', '.join(shares)} |" for size, shares in by_size.items())
    words = answer.words
    return f"""From where on `{answer.target}` is {words.learned} with `{mix.mix}`, from {mix.runs} runs of the sweep
`{about.id}`: {answer.size_axis} **{size}**, {words.parameters} **{total}** ({level}).{saving}

| {answer.size_axis} | {words.final_score} of `{answer.target}`, seed by seed |
|---|---|
{rows}

`curve.png` shows this; the shade below its axis is the posterior. `runs.csv` is the table of the runs with their keys
(tag `run_key`), `points.json` the same as points, `fit.json` the curve
`floor + (asymptote - floor) / (1 + exp(-slope (ln {answer.size_axis} - midpoint)))`, `posterior.json` the probability
of every size, `transition.json` all estimates.
"""
