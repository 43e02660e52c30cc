"""Answers side by side: the recipes of a sweep, the variants of a space, several sweeps as a forest plot; and the
figure a sweep is known by."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures import style
from orchestrator.report.figures.rows import (
    draw_interval,
    drawn_estimate,
    mix_styles,
    points_id,
    series_of,
    styles_of,
)
from orchestrator.report.figures.transitions import (
    draw_runs,
    label_sizes,
    labelled_sizes,
    size_span,
    transitions_figure,
)
from orchestrator.report.rows import Row, targets
from orchestrator.report.side_by_side import Compared, Finding, can_scale, mix_scalings, recipes_of
from orchestrator.report.side_by_side import findings as findings_of
from orchestrator.report.words import numbers
from orchestrator.report.words.verdicts import saving
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Estimate, Synergy, Verdict

PHONE_IN = 3.4
"""Width of a figure for a phone: its type is then as large as the page's."""
ROW_IN, EDGES_IN, SCALING_IN = 1.6, 1.2, 2.9
"""Inches: the height of a row of panels, what a figure needs besides, and the panel of a law."""
WIDTHS = (3.1, 1.9)
"""Widths of the two columns, relative to each other."""
BAR_DROP = 0.09
"""Distance between the bars of transitions under the curves, in accuracy."""
LEAST_SPAN = 4.0
"""The ratio axis reaches at least from 1/4 to 4."""
NUDGE = 0.012
"""Mixes stand side by side at one value of a law, this share of the axis apart."""
FOREST_ROW_IN, FOREST_HEAD_IN, FOREST_EDGE = 0.27, 1.1, 1.25
"""Inches of a row and of all besides; room outside the smallest and largest number, as a factor."""


def main_figure(spec: SweepSpec, answer: Answer, *, title: str | None = None) -> Figure:
    """Accuracy against size with the transitions, of several recipes a row each, under the question or another
    ``title``."""
    draw = recipes_figure if answer.recipes else transitions_figure
    return draw(spec, answer, title=title)


def narrow_figure(spec: SweepSpec, answer: Answer) -> Figure | None:
    """The same for a narrow screen, without the question; None for several recipes, which need two columns."""
    return None if answer.recipes else transitions_figure(spec, answer, title="", width_in=PHONE_IN)


def recipes_figure(spec: SweepSpec, answer: Answer, *, title: str | None = None) -> Figure:
    """A row for each recipe of an answer of several: accuracy of the target against size, and the ratios of
    parameters if mixes are compared."""
    named = [(recipe.name, answer.under(recipe.name)) for recipe in answer.recipes]
    findings = findings_of(recipes_of(answer))
    return _grid(named, findings, spec.question if title is None else title, size_span(answer), style.WIDTH_IN)[0]


def can_compare(compared: Sequence[Compared]) -> bool:
    """True for variants of one space, each asked under one recipe."""
    of_one = len({each.space for each in compared}) == 1 and all(each.variant for each in compared)
    return len(compared) > 1 and of_one and not any(each.answer.recipes for each in compared)


def variants_figure(compared: Sequence[Compared], title: str = "", width_in: float = style.WIDTH_IN) -> Figure:
    """A row for each variant as :func:`recipes_figure` has for recipes, all on one axis of sizes; below, transitions
    against the number in which they differ, if there is one. For what :func:`can_compare`."""
    named = [(each.variant, each.answer) for each in compared]
    spans = [size_span(each.answer) for each in compared]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    scales = can_scale(compared)
    figure, law = _grid(named, findings_of(compared), title, span, width_in, law=scales, names=[*map(_name, compared)])
    if law is not None:
        _draw_scaling(law, compared)
    return figure


def _grid(
    named: Sequence[tuple[str, Answer]],
    findings: Sequence[Finding],
    title: str,
    span: tuple[float, float],
    width_in: float,
    *,
    law: bool = False,
    names: Sequence[str] = (),
) -> tuple[Figure, Axes | None]:
    """A row of panels an answer, and an empty panel below all for a ``law``."""
    count, columns = len(named), 2 if findings else 1
    heights = [ROW_IN] * count + ([SCALING_IN] if law else [])
    figure = style.new_figure(sum(heights) + EDGES_IN, width_in)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights, width_ratios=WIDTHS[:columns])
    for row, (name, answer) in enumerate(named):
        left = figure.add_subplot(grid[row, 0])
        _draw_curves(left, answer, names[row] if names else name, span)
        right = figure.add_subplot(grid[row, 1]) if findings else None
        if right is not None:
            _draw_savings(right, findings, name, _ratio_span(findings))
        for axes in filter(None, (left, right)):
            axes.tick_params(labelbottom=row == count - 1)
    answer = named[-1][1]
    left.set_xlabel(f"{answer.size_axis}   (bars: transition, {answer.confidence:.0%} interval)")
    if right is not None:
        right.set_xlabel(f"times fewer {answer.words.parameters}\nthan {findings[0].baseline}")
    figure.supylabel(f"{answer.words.final_score} of {answer.target}", fontsize=style.TEXT, color=style.INK)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=6, frameon=False, fontsize=style.TEXT)
    if title:
        style.title(figure, title)
    return figure, figure.add_subplot(grid[count, :]) if law else None


def _draw_curves(axes: Axes, answer: Answer, name: str, span: tuple[float, float]) -> None:
    """Accuracy of the target against size for every mix, with a bar under the curves for each transition."""
    known = mix_styles(answer)
    series = [series_of(mix.mix, mix.target, known[mix.mix], points_id(mix)) for mix in answer.mixes]
    draw_runs(axes, series, answer)
    for place, each in enumerate(series):
        found, (smallest, largest) = each.transition, answer.tested(each.transition)
        bar = drawn_estimate(found.relative, found.verdict, smallest.size, largest.size)
        if bar is not None and (bar.low is not None or bar.high is not None):
            draw_interval(axes, bar, -BAR_DROP * (place + 1), each.colour, span, each.marker)
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(-BAR_DROP * (len(answer.mixes) + 1), 1.06)
    axes.set_yticks([0, 0.5, 1])
    axes.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    label_sizes(axes, labelled_sizes(answer))
    axes.set_title(name, fontsize=style.TEXT, loc="left", color=style.INK, pad=3)
    style.dress(axes)


def _draw_savings(axes: Axes, findings: Sequence[Finding], recipe: str, span: tuple[float, float]) -> None:
    """The ratios of parameters of the mixes compared under one recipe, or in one variant."""
    axes.axvline(1, color=style.GREY, linewidth=0.8, zorder=0)
    known = styles_of([findings[0].baseline, *(finding.mix for finding in findings)])
    here = [finding for finding in findings if recipe in finding.saved]
    for place, finding in enumerate(here):
        found, look = finding.saved[recipe], known[finding.mix]
        if found.low is not None or found.high is not None:
            draw_interval(axes, Estimate(found.value, found.low, found.high), place, look.colour, span, look.marker)
        axes.annotate(
            ("" if len(here) == 1 else f"{finding.mix}: ") + saving(found),
            (0.5, place),
            xycoords=("axes fraction", "data"),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontsize=style.SMALL + 0.5,
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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{numbers.bare(value).removesuffix('.0')}x"))
    style.dress(axes, spines=("bottom",))


def _ratio_span(findings: Sequence[Finding]) -> tuple[float, float]:
    """The ends of the ratio axis: the same to both sides of 1, with all that is known inside."""
    known = [_furthest(found) for finding in findings for found in finding.saved.values()]
    most = max([LEAST_SPAN, *known]) * 1.4
    return 1 / most, most


def _furthest(found: Synergy) -> float:
    return max((max(end, 1 / end) for end in (found.value, found.low, found.high) if end), default=1.0)


def _name(each: Compared) -> str:
    """``prime_5 (modulus 5)``."""
    if each.place is None:
        return each.variant
    return f"{each.variant} ({each.along.rpartition('.')[2]} {numbers.exact(each.place)})"


def forest_figure(compared: Sequence[Compared], title: str = "") -> Figure:
    """Each transition of several sweeps in trainable parameters, with its interval, and each ratio in words: sizes of
    different families and architectures have no common axis."""
    groups = [targets(each.answer, each.label) for each in compared]
    ends = [end for group in groups for row in group for end in (row.smallest.total, row.largest.total)]
    span = (min(ends) / FOREST_EDGE, max(ends) * FOREST_EDGE)
    known = styles_of(row.mix for group in groups for row in group)
    lines: list[tuple[str, Row | str]] = []
    for each, group in zip(compared, groups, strict=True):
        lines.append((each.label, ""))
        lines += [(row.mix, row) for row in group]
        for mix in each.answer.mixes:
            if mix.synergy_total is not None:
                lines.append((f"{mix.mix} vs {each.answer.baseline_of(mix)}", saving(mix.synergy_total)))
    figure = style.new_figure(FOREST_ROW_IN * len(lines) + FOREST_HEAD_IN)
    axes = figure.subplots()
    for place, (_, row) in enumerate(lines):
        said = row if isinstance(row, str) else _draw_forest_row(axes, row, place, known[row.mix].colour, span)
        outside = axes.get_yaxis_transform()
        axes.text(1.04, place, said, transform=outside, va="center", fontsize=style.SMALL + 0.5, color=style.INK)
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(len(lines) - 0.4, -0.7)
    axes.set_yticks(range(len(lines)), [name for name, _ in lines])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.exact(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    confidence = compared[0].answer.confidence
    axes.set_xlabel(f"trainable parameters at the transition ({confidence:.0%} interval; grey: sizes tested)")
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT, pad=9)
    for tick, (_, row) in zip(axes.get_yticklabels(), lines, strict=True):
        tick.set_fontweight("bold" if row == "" else "normal")
    if title:
        style.title(figure, title)
    return figure


def _draw_forest_row(axes: Axes, row: Row, place: int, colour: str, span: tuple[float, float]) -> str:
    """Draw one transition; returns its words."""
    axes.plot([row.smallest.total, row.largest.total], [place, place], color=style.FAINT, linewidth=1, zorder=1)
    bar = drawn_estimate(row.parameters, row.verdict, row.smallest.total, row.largest.total)
    if bar is not None and row.runs:
        draw_interval(axes, bar, place, colour, span)
    return row.size_words if bar is None else row.count_words


def _draw_scaling(axes: Axes, compared: Sequence[Compared]) -> None:
    """The same into a panel."""
    placed = [(each, each.place) for each in compared if each.place is not None]
    values = sorted({place for _, place in placed})
    reach = (values[-1] / values[0]) ** NUDGE
    sizes = [count.size for each in compared for count in each.answer.counts]
    edges = (min(sizes) / 1.1, max(sizes) * 1.1)
    for number, scaled in enumerate(mix_scalings(compared)):
        colour, marker = style.COLOURS[number % len(style.COLOURS)], style.MARKERS[number % len(style.MARKERS)]
        for each, place in placed:
            _draw_placed(axes, each.answer.mix(scaled.mix), place * reach**number, (colour, marker), edges)
        axes.plot([], [], color=colour, marker=marker, linewidth=2, label=scaled.mix)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(*edges)
    axes.set_xlim(values[0] / 1.15, values[-1] * 1.15)
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.yaxis.set_major_locator(FixedLocator(sorted(set(sizes))[:: max(1, len(set(sizes)) // 8)]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: numbers.exact(value)))
        axis.set_minor_formatter(NullFormatter())
    answer = compared[0].answer
    axes.set_xlabel(compared[0].along.rpartition(".")[2])
    axes.set_ylabel(f"{answer.size_axis} at the transition of {answer.target}\n({answer.confidence:.0%} intervals)")
    axes.legend(frameon=False, fontsize=style.SMALL)
    style.dress(axes)


def _draw_placed(axes: Axes, mix: MixAnswer, x: float, look: tuple[str, str], edges: tuple[float, float]) -> None:
    """One transition: its interval, its value, and an arrow towards where an open side goes on."""
    colour, marker = look
    found = mix.target.transition
    low, high = found.relative.low, found.relative.high
    if found.verdict is Verdict.ABOVE and found.points:
        low = float(max(point.size for point in found.points))
    if found.verdict in (Verdict.PLATEAU, Verdict.NEAR_FLOOR) or (low is None and high is None):
        return
    axes.plot([x, x], [low or edges[0], high or edges[1]], color=colour, linewidth=2, solid_capstyle="butt", zorder=2)
    for end, edge, arrow in ((low, edges[0], "v"), (high, edges[1], "^")):
        if end is None:
            axes.plot(x, edge, marker=arrow, color=colour, markersize=6, clip_on=False, zorder=3)
    if found.relative.value is not None:
        axes.plot(x, found.relative.value, marker=marker, color=colour, markersize=6, zorder=4)
