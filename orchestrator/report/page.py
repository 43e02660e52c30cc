"""A sweep as one HTML page that needs nothing else: no network, figures and a small script inside. Without the script
it lacks what one can point at and slide, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from orchestrator.cost.spent import cost_of
from orchestrator.report import table, wording
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.explaining import judged
from orchestrator.report.explorer import explorer_data
from orchestrator.report.learning import learning_figure
from orchestrator.report.main_figure import main_figure, narrow_figure
from orchestrator.report.panels import similarities_figure
from orchestrator.report.probe_figure import probe_figure
from orchestrator.report.probes import probe_notes, probe_tables, probe_texts
from orchestrator.report.races import SpeedUp, race_figure, speed_ups
from orchestrator.report.structure import structures, told
from orchestrator.report.style import inline_svg
from orchestrator.report.templates import render
from orchestrator.report.thresholds import threshold_table
from orchestrator.space.plain import flatten
from orchestrator.space.recipes import difference
from orchestrator.space.spec import SweepSpec
from orchestrator.store.records import RunRecord, Sweep
from orchestrator.transition.types import LEVEL, PLATEAU, Estimate, Synergy, Verdict
from trainables.base import Status, Words

TEMPLATE = "page.html.j2"
FOLLOW_S = 15
"""How often a page that is served asks whether its sweep has changed, in seconds: to make it anew takes some."""


@dataclass(frozen=True)
class Served:
    """Addresses for a page that somebody serves: of the page of all sweeps, ``index``, and of a text that changes when
    the sweep does, ``mark``: it was ``seen`` when the page was made. ``""`` where the sweep changes no more."""

    index: str
    mark: str = ""
    seen: str = ""


@dataclass(frozen=True)
class PageContent:
    """What a page tells. ``state`` is how the sweep stands, in a word; ``served`` is None for a page that stands by
    itself."""

    sweep: Sweep
    state: str
    answer: Answer
    runs: Sequence[RunRecord]
    served: Served | None = None


def page(content: PageContent) -> str:
    """The HTML of a sweep's report. The same content gives the same text."""
    spec = content.sweep.spec
    said = table.answer_table(content.answer)
    held = structures(content.answer, content.runs, spec.make_family())
    tables = probe_tables(spec.size_axis, content.runs)
    return render(
        TEMPLATE,
        sweep=content.sweep,
        spec=spec,
        state=content.state,
        begun=f"{datetime.fromisoformat(content.sweep.created).astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        served=content.served,
        follow_s=FOLLOW_S,
        said=said,
        judged=judged(content.answer, content.runs),
        words=content.answer.words,
        has_core=content.answer.has_core,
        figures=_figures(content),
        structures=held,
        held_words=told(held, content.answer.words),
        explorer=explorer_data(spec, content.answer, content.runs),
        thresholds=threshold_table(content.answer, spec.make_family()),
        synergies=[_synergy_row(mix) for mix in content.answer.mixes if mix.synergy_total and mix.synergy_core],
        races=[_race_row(found) for found in speed_ups(spec, content.runs)],
        verdicts={verdict.value: text for verdict, text in _verdicts(content.answer.words).items()},
        shown={mix.target.transition.verdict.value for mix in content.answer.mixes},
        level=LEVEL,
        cost=wording.cost(cost_of(spec, content.runs)),
        fresh=content.sweep.fresh,
        probes=tables,
        probe_texts=probe_texts(tables),
        warnings=[*spec.warnings(), *_run_warnings(content.runs), *probe_notes(spec, content.runs)],
        asked=_asked(spec),
        settings=flatten(spec.to_dict()["settings"]),
        runs=_run_rows(content),
        versions=content.sweep.environment.get("versions", {}),
        source=_source(content.sweep.environment),
        hardware=content.sweep.environment.get("hardware", "unknown"),
        space=spec.to_yaml(),
    )


def _figures(content: PageContent) -> dict[str, Markup | None]:
    """The figures as elements, None where there is nothing to draw."""
    spec, answer, runs = content.sweep.spec, content.answer, content.runs
    drawn = {
        "curves": main_figure(spec, answer, title=""),  # The question stands above it on the page.
        "narrow": narrow_figure(spec, answer),
        "similarities": similarities_figure(answer, runs),
        "probes": probe_figure(answer, runs),
        "races": race_figure(spec, runs, speed_ups(spec, runs)),
        "learning": learning_figure(spec, runs) if any(run.outcome.curve for run in runs) else None,
    }
    # Drawn by ourselves; the text in them went through matplotlib, which escapes it.
    return {name: None if figure is None else Markup(inline_svg(figure, name)) for name, figure in drawn.items()}


def _synergy_row(mix: MixAnswer) -> dict[str, str]:
    total, core = mix.synergy_total, mix.synergy_core
    assert total is not None
    assert core is not None
    return {
        "mix": mix.mix,
        "total": wording.saving(total),
        "core": wording.saving(core),
        "ratio": _ratio(total),
        "benefit": "unknown" if total.p_benefit is None else f"{total.p_benefit:.3f}",
    }


def _race_row(found: SpeedUp) -> dict[str, str]:
    return {
        "mix": found.mix,
        "size": str(found.size),
        "pairs": str(found.pairs),
        "spent": _speed_up(found.spent),
        "seconds": _speed_up(found.seconds),
    }


def _speed_up(found: Estimate) -> str:
    """``2.1x [1.8, 2.6]``, with a dash for what is open."""
    value, low, high = ("-" if side is None else wording.bare(side) for side in (found.value, found.low, found.high))
    return f"{value}{'' if found.value is None else 'x'} [{low}, {high}]"


def _ratio(found: Synergy) -> str:
    """``3.6x [2.8, 4.9]``, one-sided where a side is not known."""
    low = None if found.low is None else wording.bare(found.low)
    high = None if found.high is None else wording.bare(found.high)
    if found.value is None:
        sides = [f">= {low}x"] if low else []
        sides += [f"<= {high}x"] if high else []
        return ", ".join(sides) or "unknown"
    return f"{wording.times(found.value)} [{low or '?'}, {high or '?'}]"


def _asked(spec: SweepSpec) -> dict[str, str]:
    return {
        "target": spec.target,
        "mixes": wording.mixes(spec),
        **{f"recipe {name}": difference(spec.settings, found) for name, found in spec.recipe_settings.items()},
        spec.size_axis: " ".join(map(str, spec.sizes)),
        "seeds": " ".join(map(str, spec.seed_list)),
        "search": wording.search(spec.search.method, spec.search.settings),
        "budget": spec.budget,
        "probes": ", ".join(spec.probes) or "none",
        "family": spec.family,
        "profile": spec.profile or "none",
    }


def _run_rows(content: PageContent) -> list[dict[str, Any]]:
    family = content.sweep.spec.make_family()
    target = content.answer.target
    ordered = sorted(content.runs, key=lambda run: (run.config.label, run.config.size, run.config.seed))
    return [
        {
            "key": run.key,
            "mix": run.config.label,
            "size": run.config.size,
            "parameters": wording.exact(family.parameters(run.config.size).total),
            "seed": run.config.seed,
            "status": run.outcome.status.value,
            "steps": f"{run.outcome.steps}" + (f" (x{run.config.steps_factor})" if run.config.steps_factor > 1 else ""),
            "target": f"{run.outcome.accuracy[target]:.3f}" if target in run.outcome.accuracy else "",
            "others": ", ".join(
                f"{task} {accuracy:.3f}" for task, accuracy in run.outcome.accuracy.items() if task != target
            ),
            "seconds": f"{run.outcome.measures.get('seconds', 0.0):.0f}",
            "from": run.found_in,
        }
        for run in ordered
    ]


def _run_warnings(runs: Sequence[RunRecord]) -> list[str]:
    counts = {status: sum(run.outcome.status is status for run in runs) for status in Status}
    said = []
    if counts[Status.DIVERGED]:
        said.append(f"{counts[Status.DIVERGED]} runs diverged; they count as having learned nothing.")
    if counts[Status.FAILED]:
        said.append(f"{counts[Status.FAILED]} runs failed and count as no evidence; `logs RUN` shows why.")
    return said


def _source(environment: dict[str, Any]) -> str:
    git = environment.get("git")
    if not git:
        return "an installed package, not a checkout"
    return f"commit {git['commit']}" + (", edited" if git["edited"] else "")


def _verdicts(words: Words) -> dict[Verdict, str]:
    """What each verdict means."""
    learned, so_good = words.learned, f"what counts as {words.learned}"
    return {
        Verdict.FOUND: f"sizes below fail, sizes above {words.learn}, and the interval says how sharply that is known",
        Verdict.ABOVE: f"censored: nothing up to the largest size tested {learned} it, so it lies beyond, if anywhere",
        Verdict.BELOW: f"censored: already the smallest size tested {learned} it",
        Verdict.PLATEAU: f"{words.score} levels off under {PLATEAU:g}: more size did not help, so there is none at "
        "this budget",
        Verdict.FALLS: f"larger sizes fail again where smaller ones {learned} it, beyond chance: nothing is compared "
        "with it",
        Verdict.NEAR_FLOOR: f"the best constant answer is nearly as good as {so_good}: too near to tell",
        Verdict.UNDECIDED: "too few runs to say, or runs that contradict each other",
    }
