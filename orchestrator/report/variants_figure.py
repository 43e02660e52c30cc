"""The variants of a search space in one picture: a row a variant, its curves left and what the mixes save right; below,
where they differ in a number, the transitions against it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from orchestrator.report import style, wording
from orchestrator.report.comparison import Compared
from orchestrator.report.figures import size_span
from orchestrator.report.panel import Finding
from orchestrator.report.recipes_figure import EDGES_IN, ROW_IN, WIDTHS, draw_curves, draw_savings, ratio_span
from orchestrator.report.scaling import can_scale, draw_scaling

SCALING_IN = 2.9
"""Height of the panel of transitions against the number in which the variants differ."""


def can_compare(compared: Sequence[Compared]) -> bool:
    """Whether these are variants of one space, each asked under one recipe."""
    of_one = len({each.space for each in compared}) == 1 and all(each.variant for each in compared)
    return len(compared) > 1 and of_one and not any(each.answer.recipes for each in compared)


def variants_figure(compared: Sequence[Compared], title: str = "", width_in: float = style.WIDTH_IN) -> Figure:
    """Accuracy of the target against size in each variant, all on one axis of sizes; what the mixes save there, with
    intervals; and transitions against the number, where there is one. For what :func:`can_compare`."""
    findings, scales = _findings(compared), can_scale(compared)
    rows, columns = len(compared), 2 if findings else 1
    heights = [ROW_IN] * rows + ([SCALING_IN] if scales else [])
    figure = style.new_figure(sum(heights) + EDGES_IN, width_in)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights, width_ratios=WIDTHS[:columns])
    span, ratios = _span(compared), ratio_span(findings)
    for row, each in enumerate(compared):
        curves = figure.add_subplot(grid[row, 0])
        draw_curves(curves, each.answer, _name(each), span)
        curves.set_ylabel(f"{each.answer.words.score} of {each.answer.target}")
        saved = figure.add_subplot(grid[row, 1]) if findings else None
        if saved is not None:
            draw_savings(saved, findings, each.variant, ratios)
        if row < rows - 1:
            for axes in filter(None, (curves, saved)):
                axes.tick_params(labelbottom=False)
    answer = compared[0].answer
    curves.set_xlabel(f"{answer.size_axis}   (bars: transition, {answer.confidence:.0%} interval)")
    if saved is not None:
        saved.set_xlabel(f"times fewer {answer.words.parameters}\nthan {findings[0].baseline}")
    if scales:
        draw_scaling(figure.add_subplot(grid[rows, :]), compared)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=6, frameon=False, fontsize=style.SMALL)
    if title:
        style.title(figure, title)
    return figure


def _name(each: Compared) -> str:
    """``prime_5 (modulus 5)``."""
    if each.place is None:
        return each.variant
    return f"{each.variant} ({each.along.rpartition('.')[2]} {wording.exact(each.place)})"


def _span(compared: Sequence[Compared]) -> tuple[float, float]:
    """The ends of the axis of sizes: all that was on offer in any variant."""
    spans = [size_span(each.answer) for each in compared]
    return min(low for low, _ in spans), max(high for _, high in spans)


def _findings(compared: Sequence[Compared]) -> list[Finding]:
    """What each mix saves in each variant that has it."""
    saved: dict[str, Finding] = {}
    for each in compared:
        for mix in each.answer.mixes:
            if mix.synergy_total is not None:
                finding = saved.setdefault(mix.mix, Finding(mix.mix, each.answer.baseline_of(mix), {}))
                finding.by_recipe[each.variant] = mix.synergy_total
    return list(saved.values())
