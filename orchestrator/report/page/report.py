"""A sweep as one HTML page that needs nothing else: figures and a small script are inside. Without the script it lacks
pointing, sliders and sorting, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from orchestrator.cost import cost_of
from orchestrator.home.sweeps import RunRecord, Sweep
from orchestrator.report import table
from orchestrator.report.answer import Answer
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.figures.learning import learning_figure
from orchestrator.report.figures.similarity import similarities_figure
from orchestrator.report.figures.style import inline_svg
from orchestrator.report.page import render
from orchestrator.report.page.explorer import explorer_data
from orchestrator.report.probed import probe_notes, probe_tables, structure_words
from orchestrator.report.races import speed_ups
from orchestrator.report.run_table import page_table
from orchestrator.report.side_by_side import finding
from orchestrator.report.words import numbers
from orchestrator.report.words.explanation import judged
from orchestrator.space.settings import flatten
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import LEVEL, Estimate, Verdict
from trainables.base import Words


def page(sweep: Sweep, state: str, answer: Answer, runs: Sequence[RunRecord], index: str = "") -> str:
    """The HTML of a sweep's report; the same arguments give the same text. ``state`` of the sweep in a word; ``index``
    is the address of the page of all sweeps, if it is served."""
    spec = sweep.spec
    answered = table.answer_table(answer)
    return render(
        "report.html.j2",
        sweep=sweep,
        spec=spec,
        state=state,
        begun=f"{datetime.fromisoformat(sweep.created).astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        index=index,
        answered=answered,
        judged=judged(spec, answer, state),
        words=answer.words,
        figures=_figures(spec, answer, runs),
        held_words=structure_words(answer, runs, spec.make_family()),
        explorer=explorer_data(answer, runs),
        decided=any(mix.comparison is not None and mix.comparison.decided is not None for mix in answer.mixes),
        races=[
            (found.mix, str(found.size), str(found.pairs), _speed_up(found.spent), _speed_up(found.seconds))
            for found in speed_ups(spec, runs)
        ],
        verdicts={verdict.value: text for verdict, text in _verdicts(answer.words).items()},
        shown={mix.target.transition.verdict.value for mix in answer.mixes},
        level=LEVEL,
        cost=numbers.cost(cost_of(spec, runs)),
        fresh=sweep.fresh,
        probes=probe_tables(spec.size_axis, runs),
        warnings=[*answered.caveats, *probe_notes(spec, runs)],
        asked=numbers.asked(spec)
        | {"probes": ", ".join(spec.probes) or "none", "family": spec.family, "profile": spec.profile or "none"},
        settings=flatten(spec.to_dict()["settings"]),
        runs=page_table(sweep, runs),
        versions=sweep.environment.get("versions", {}),
        source=_source(sweep.environment),
        hardware=sweep.environment.get("hardware", "unknown"),
        space=spec.to_yaml(),
    )


def _figures(spec: SweepSpec, answer: Answer, runs: Sequence[RunRecord]) -> dict[str, Markup | None]:
    """The figures as elements, None for those with nothing to draw."""
    axis, size, found = f"{answer.words.score} of {answer.target}", answer.size_axis, " ".join(finding(answer))
    drawn = {
        "curves": (main_figure(spec, answer, title=""), f"{axis} against {size}, every run a point. {found}"),
        "similarities": (
            similarities_figure(answer, runs),
            "Cosine similarities and principal components below and above each transition",
        ),
        "learning": (
            learning_figure(spec, runs) if any(run.outcome.curve for run in runs) else None,
            f"Validation {axis} over steps, a panel for each mix",
        ),
    }
    # Drawn here; the text in them went through matplotlib, which escapes it.
    return {
        name: None if figure is None else Markup(inline_svg(figure, name, label))
        for name, (figure, label) in drawn.items()
    }


def _speed_up(found: Estimate) -> str:
    """``2.1x [1.8, 2.6]``, with a dash for what is open."""
    value, low, high = ("-" if side is None else numbers.bare(side) for side in (found.value, found.low, found.high))
    return f"{value}{'' if found.value is None else 'x'} [{low}, {high}]"


def _source(environment: dict[str, Any]) -> str:
    git = environment.get("git")
    if not git:
        return "an installed package, not a checkout"
    return f"commit {git['commit']}" + (", edited" if git["edited"] else "")


def _verdicts(words: Words) -> dict[Verdict, str]:
    """Return the meaning of each verdict."""
    return {
        Verdict.FOUND: f"sizes below fail, sizes above {words.learn}, and the interval says how sharply that is known",
        Verdict.ABOVE: "censored: above the largest size tested, if anywhere",
        Verdict.BELOW: "censored: below the smallest size tested",
        Verdict.NEAR_FLOOR: f"the best constant answer nearly counts as {words.learned}: nothing can be measured",
        Verdict.UNDECIDED: "too few runs to say, or runs that contradict each other",
    }
