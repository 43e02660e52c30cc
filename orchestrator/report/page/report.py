"""A sweep as a self-contained HTML page. Its script is only needed to sort and filter the table of runs.

The table of the answer is from answer_table.py, and the table of runs is in report.html.j2.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from markupsafe import Markup

from orchestrator.history.sweeps import Sweep
from orchestrator.report.answer import Answer
from orchestrator.report.answer_table import answer_table
from orchestrator.report.cost_so_far import cost_of
from orchestrator.report.figures.comparisons import PHONE_IN, main_figure
from orchestrator.report.figures.learning_curves import learning_figure
from orchestrator.report.figures.probes import SimilarityReader, probe_figure, similarities_figure
from orchestrator.report.figures.style import inline_svg
from orchestrator.report.page import render
from orchestrator.report.probe_findings import drawn_points, probe_notes, probe_points, structure_paragraphs
from orchestrator.report.races import speed_ups
from orchestrator.report.sentences.changes import changed_text
from orchestrator.report.sentences.costs import cost
from orchestrator.report.sentences.explanation import WAITING, all_caveats, how_sure, next_paragraph
from orchestrator.report.sentences.next_step import command_of, next_step
from orchestrator.report.sentences.origin import origin_text
from orchestrator.report.sentences.question import asked
from orchestrator.report.sentences.transitions import verdict_lines
from orchestrator.report.side_by_side import finding
from orchestrator.space.runs import Run
from orchestrator.space.settings import flatten
from orchestrator.space.spec import SweepSpec
from orchestrator.system.text import bare, exact
from orchestrator.transition.comparison import odds
from orchestrator.transition.types import LEVEL, Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # The package figures imports it first, after a check.


def page(
    sweep: Sweep,
    state: str,
    answer: Answer,
    runs: Sequence[Run],
    *,
    trials: Sequence[Run] = (),
    index: str = "",
    nonce: str = "",
    damage: Sequence[str] = (),
    failure: str = "",
) -> str:
    """Return the HTML of a sweep's report. The same arguments give the same text.

    Args:
        state: The sweep's state in one word.
        trials: Its tuning runs.
        index: Address of the page of all sweeps, if the report is served.
        nonce: Nonce of scripts, if the report is served.
        damage: Sentences about runs and files that could not be read.
        failure: Why the sweep failed, or an empty string.
    """
    spec = sweep.spec
    sure = how_sure(answer)
    family = spec.make_family()
    similarities = SimilarityReader()
    drawn, left_out = drawn_points(probe_points(runs))
    step = None if failure or state in WAITING else next_step(spec, answer)
    return render(
        "report.html.j2",
        nonce=nonce,
        sweep=sweep,
        spec=spec,
        state=state,
        failure=failure,
        state_text=origin_text(state, sweep.files.is_imported, sum(run.is_imported for run in (*runs, *trials))),
        changes=changed_text(spec),
        begun=f"{datetime.fromisoformat(sweep.created).astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        index=index,
        answer=answer,
        answered=answer_table(answer),
        sentences=finding(answer),
        verdict_lines=verdict_lines(answer),
        judged=(*sure, next_paragraph(spec, answer, state, failure=failure)) if sure else (),
        command=command_of(sweep, step) if step is not None and step.overrides else "",
        words=answer.words,
        figures=_figures(spec, answer, runs, similarities),
        structure_paragraphs=structure_paragraphs(answer, runs, family),
        decided=any(mix.is_decided for mix in answer.mixes),
        races=[
            (race.mix, str(race.size), str(race.pairs), _speed_up(race.spent), _speed_up(race.seconds))
            for race in speed_ups(spec, runs)
        ],
        level=LEVEL,
        cost=cost(cost_of(spec, runs)),
        probes={
            probe: _svg(f"probe-{probe}", f"{probe}: {', '.join(numbers)}", probe_figure(answer, numbers))
            for probe, numbers in drawn.items()
        },
        # After the figures, which find out what they leave out.
        warnings=[*damage, *all_caveats(answer), *probe_notes(spec, runs), *left_out, *similarities.notes()],
        runs=sorted(runs, key=lambda run: (run.config.label, run.config.size, run.config.seed)),
        exact=exact,
        odds=odds,
        parameters=family.parameters,
        **_conditions(sweep),
    )


def _conditions(sweep: Sweep) -> dict[str, object]:
    """Return the values of the page that say what a sweep asked, and where it was run."""
    spec = sweep.spec
    named = {"probes": ", ".join(spec.probes) or "none", "family": spec.family, "profile": spec.profile or "none"}
    return {
        "asked": asked(spec) | named,
        "settings": flatten(spec.to_dict()["settings"]),
        "space": spec.to_yaml(),
        "versions": sweep.environment.get("versions", {}),
        "git": sweep.environment.get("git"),
        "hardware": sweep.environment.get("hardware", "unknown"),
    }


def _figures(
    spec: SweepSpec, answer: Answer, runs: Sequence[Run], reader: SimilarityReader
) -> dict[str, Markup | None]:
    """Return the figures by name. Figures without content are None."""
    axis = f"{answer.words.score} of {answer.target}"
    description = f"{axis} against {answer.size_axis}. {' '.join(finding(answer))}"
    figures: dict[str, Markup | None] = dict.fromkeys(("narrow", "similarities", "learning"))
    figures["curves"] = _svg("curves", description, main_figure(answer))
    if not answer.recipes:
        figures["narrow"] = _svg("narrow", description, main_figure(answer, width_in=PHONE_IN))
    if (similarities := similarities_figure(answer, runs, reader)) is not None:
        label = "Cosine similarities and principal components below and above each transition"
        figures["similarities"] = _svg("similarities", label, similarities)
    if any(run.outcome.curve for run in runs):
        label = f"Validation {axis} over steps, a panel for each mix"
        figures["learning"] = _svg("learning", label, learning_figure(spec, runs))
    return figures


def _svg(name: str, label: str, figure: Figure) -> Markup:
    return Markup(inline_svg(figure, name, label))  # Safe: matplotlib escapes the text in its figures.


def _speed_up(estimate: Estimate) -> str:
    """Return ``2.1x [1.8, 2.6]``, with a dash for each unknown value."""
    sides = (estimate.value, estimate.low, estimate.high)
    value, low, high = ("-" if side is None else bare(side) for side in sides)
    return f"{value}{'' if estimate.value is None else 'x'} [{low}, {high}]"
