"""The variants of a search space against the number in which they differ: in words and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from orchestrator.report.answer import MixAnswer
from orchestrator.report.figures import style
from orchestrator.report.side_by_side import Compared
from orchestrator.report.words import numbers
from orchestrator.transition.scaling import Place, Scaling, scaling
from orchestrator.transition.types import Verdict

SEED = 0
"""The exponent's interval is drawn: the same answers say the same each time."""
KNOWN = (Verdict.FOUND, Verdict.ABOVE, Verdict.BELOW, Verdict.UNDECIDED)
"""Verdicts with a posterior that a law may rest on; a plateau is no transition."""
HEIGHT_IN = 3.4
"""Of the figure, in inches."""
NUDGE = 0.012
"""Mixes stand side by side at one value, this share of the axis apart."""


@dataclass(frozen=True)
class MixScaling:
    """How the transition of one mix moves along the setting; ``law`` is None where too little is known."""

    mix: str
    law: Scaling | None


def can_scale(compared: Sequence[Compared]) -> bool:
    """Whether these are variants of one space that differ in a number."""
    return len(compared) > 1 and len({(each.space, each.along) for each in compared}) == 1 and bool(compared[0].along)


def mix_scalings(compared: Sequence[Compared]) -> list[MixScaling]:
    """A law for each mix that every variant has, in the order of the first."""
    shared = [mix.mix for mix in compared[0].answer.mixes if all(_has(each, mix.mix) for each in compared)]
    rng = np.random.default_rng(SEED)
    return [MixScaling(mix, _law(compared, mix, rng)) for mix in shared]


def scaling_words(compared: Sequence[Compared]) -> Iterator[str]:
    """A sentence for each mix: ``add: n_embed at the transition goes as modulus^0.6 [0.2, 1.1], over 4 values``."""
    name = compared[0].along.rpartition(".")[2]
    axis = compared[0].answer.size_axis
    for each in mix_scalings(compared):
        law = each.law
        if law is None:
            yield f"{each.mix}: too little is known to say how {axis} at the transition moves with {name}"
            continue
        span = f"{law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
        said = f"{each.mix}: {axis} at the transition goes as {name}^{span}, over {law.places} values"
        if law.bounded:
            said += f"; transitions beyond the sizes are counted at the largest {axis}"
        yield said


def scaling_figure(compared: Sequence[Compared], title: str = "") -> Figure:
    """Transitions in size against the setting, both axes logarithmic, with intervals; arrows where a side is open."""
    figure = style.new_figure(HEIGHT_IN)
    draw_scaling(figure.subplots(), compared)
    if title:
        style.title(figure, title)
    return figure


def draw_scaling(axes: Axes, compared: Sequence[Compared]) -> None:
    """The same into a panel."""
    placed = [(each, each.place) for each in compared if each.place is not None]
    values = sorted({place for _, place in placed})
    reach = (values[-1] / values[0]) ** NUDGE
    sizes = [count.size for each in compared for count in each.answer.counts]
    edges = (min(sizes) / 1.1, max(sizes) * 1.1)
    for number, scaled in enumerate(mix_scalings(compared)):
        colour, marker = style.COLOURS[number % len(style.COLOURS)], style.MARKERS[number % len(style.MARKERS)]
        for each, place in placed:
            _draw(axes, each.answer.mix(scaled.mix), place * reach**number, (colour, marker), edges)
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


def _draw(axes: Axes, mix: MixAnswer, x: float, look: tuple[str, str], edges: tuple[float, float]) -> None:
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


def _has(each: Compared, mix: str) -> bool:
    return any(mix == other.mix for other in each.answer.mixes)


def _law(compared: Sequence[Compared], mix: str, rng: np.random.Generator) -> Scaling | None:
    places = []
    for each in compared:
        found = each.answer.mix(mix).target.transition
        if found.density is None or found.verdict not in KNOWN or each.place is None:
            return None
        largest, beyond = float(each.answer.counts[-1].size), found.verdict is Verdict.ABOVE
        places.append(Place(each.place, found.density, largest, beyond))
    return scaling(places, compared[0].answer.confidence, rng)
