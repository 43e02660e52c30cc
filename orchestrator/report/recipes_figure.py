"""A sweep of several recipes in one picture: a row a recipe, its curves left and what the mixes save right."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from orchestrator.report import style, wording
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures import draw_runs, labelled_sizes, size_span
from orchestrator.report.looks import looks, looks_of, series_of
from orchestrator.report.panel import Finding, panel
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Estimate, Synergy, Verdict

ROW_IN, EDGES_IN = 1.45, 1.15
WIDTHS = (3.1, 1.6)
"""Widths of the two columns, relative to each other."""
BAR_DROP = 0.07
"""Distance between the bars of transitions under the curves, in accuracy."""
LEAST_SPAN = 4.0
"""The ratio axis reaches at least from 1/4 to 4."""


def recipes_figure(spec: SweepSpec, answer: Answer, *, title: str | None = None) -> Figure:
    """Accuracy of the target against size under each recipe; where mixes are compared, the ratio of parameters, too.
    Above it stands the question, or another ``title``."""
    several = panel(answer)
    assert several is not None, "a figure of recipes for an answer of several"
    findings = several.findings
    columns = 2 if findings else 1
    figure = style.new_figure(ROW_IN * len(answer.recipes) + EDGES_IN)
    grid = figure.subplots(len(answer.recipes), columns, sharex="col", width_ratios=WIDTHS[:columns], squeeze=False)
    for row, recipe in zip(grid, answer.recipes, strict=True):
        under = answer.under(recipe.name)
        draw_curves(row[0], under, recipe.name, size_span(under))
        if findings:
            draw_savings(row[1], findings, recipe.name, ratio_span(findings))
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=6, frameon=False, fontsize=style.SMALL)
    grid[-1][0].set_xlabel(f"{answer.size_axis}   (bars: transition, {answer.confidence:.0%} interval)")
    if findings:
        grid[-1][1].set_xlabel(f"times fewer {answer.words.parameters}\nthan {findings[0].baseline}")
    figure.supylabel(f"test accuracy of {answer.target}", fontsize=style.TEXT, color=style.INK)
    if head := spec.question if title is None else title:
        style.title(figure, head)
    return figure


def draw_curves(axes: Axes, answer: Answer, name: str, span: tuple[float, float]) -> None:
    """Accuracy of the target against size for every mix of an answer, on an axis of these ends, with a bar under the
    curves for each transition."""
    known = looks(answer)
    for place, mix in enumerate(answer.mixes):
        series = series_of(mix.mix, mix.target, known[mix.mix])
        draw_runs(axes, series, answer)
        _draw_transition(axes, answer, mix, -BAR_DROP * (place + 1), series.colour, span)
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(-BAR_DROP * (len(answer.mixes) + 1), 1.06)
    axes.set_yticks([0, 0.5, 1])
    axes.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    axes.xaxis.set_major_locator(FixedLocator([count.size for count in labelled_sizes(answer)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_title(name, fontsize=style.TEXT, loc="left", color=style.INK, pad=3)
    style.dress(axes)


def _draw_transition(
    axes: Axes, answer: Answer, mix: MixAnswer, height: float, colour: str, span: tuple[float, float]
) -> None:
    """A bar over the interval; dotted to the edge where a side is censored, none where nothing is known."""
    found = mix.target.transition
    smallest, largest = answer.tested(found)
    estimate = Estimate(None, float(largest.size), None) if found.verdict is Verdict.ABOVE else found.relative
    if found.verdict is Verdict.BELOW:
        estimate = Estimate(None, None, float(smallest.size))
    if found.verdict is Verdict.PLATEAU or (estimate.low is None and estimate.high is None):
        return
    _draw_interval(axes, (estimate.value, estimate.low, estimate.high), height, colour, span)


def draw_savings(axes: Axes, findings: Sequence[Finding], recipe: str, span: tuple[float, float]) -> None:
    """What mixes save under one recipe, or in one variant, as far as they were compared there: ratios of parameters on
    an axis of these ends. ``findings``: those of all recipes, at least one."""
    axes.axvline(1, color=style.GREY, linewidth=0.8, zorder=0)
    known = looks_of([findings[0].baseline, *(finding.mix for finding in findings)])
    here = [finding for finding in findings if recipe in finding.by_recipe]
    for place, finding in enumerate(here):
        found = finding.by_recipe[recipe]
        colour = known[finding.mix].colour
        if found.low is not None or found.high is not None:
            _draw_interval(axes, (found.value, found.low, found.high), place, colour, span)
        words = ("" if len(here) == 1 else f"{finding.mix}: ") + wording.saving(found)
        axes.annotate(
            words,
            (0.5, place),
            xycoords=("axes fraction", "data"),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=style.SMALL,
            color=style.INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(len(here) - 0.4, -0.8)
    axes.set_yticks([])
    ticks = [tick for tick in (1 / 16, 1 / 4, 1, 4, 16, 64) if span[0] <= tick <= span[1]]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{wording.bare(value).removesuffix('.0')}x"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    style.dress(axes, spines=("bottom",))


def _draw_interval(
    axes: Axes,
    ends: tuple[float | None, float | None, float | None],
    height: float,
    colour: str,
    span: tuple[float, float],
) -> None:
    """Value and both ends on one line, at least one end known; an open side is dotted to the edge, with an arrow."""
    value, low, high = ends
    known = [end for end in (low, high) if end is not None]
    axes.plot(known, [height] * len(known), color=colour, linewidth=2.2, solid_capstyle="butt", zorder=2)
    for end, edge, arrow in ((low, span[0], "<"), (high, span[1], ">")):
        if end is not None:
            axes.plot(end, height, marker="|", color=colour, markersize=7, markeredgewidth=1.5, zorder=3)
        else:
            axes.plot([known[0], edge], [height, height], color=colour, linewidth=1.8, linestyle=(0, (1, 1)), zorder=2)
            axes.plot(edge, height, marker=arrow, color=colour, markersize=5, clip_on=False, zorder=3)
    if value is not None:
        axes.plot(value, height, marker="o", color=colour, markersize=5, zorder=4)


def ratio_span(findings: Sequence[Finding]) -> tuple[float, float]:
    """The ends of the ratio axis: the same to both sides of 1, with all that is known inside."""
    known = [_furthest(found) for finding in findings for found in finding.by_recipe.values()]
    most = max([LEAST_SPAN, *known]) * 1.4
    return 1 / most, most


def _furthest(found: Synergy) -> float:
    return max((max(end, 1 / end) for end in (found.value, found.low, found.high) if end), default=1.0)
