"""A race's graph in three moments: where the target was at the start, halfway and at the end, as its run kept it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orchestrator.report import style
from orchestrator.report.speedup import races
from orchestrator.space.spec import SweepSpec
from orchestrator.store.damage import DAMAGED_ARRAYS
from orchestrator.store.probed import read_array
from orchestrator.store.records import RunRecord

NODES, EDGES, GAPS = "nodes_", "edges_", "gaps_"
"""Arrays of a run, before a method's name: [moments, nodes, 3] places and values, [E, 3] the moment of an edge and its
ends, [moments] the gaps."""
HEIGHT_IN = 2.6
COLOURS = "viridis"
AREA = 900.0
"""Square points that all nodes of a panel cover together; one is never larger than :data:`LARGEST`."""
LARGEST = 14.0


def field_figure(spec: SweepSpec, runs: Sequence[RunRecord]) -> Figure | None:
    """The race with most rivals on the largest graph that was kept: a panel a moment. None where none was kept."""
    for mix in sorted(spec.mixes, key=lambda mix: -len(mix.tasks)):
        there = sorted(races(runs, mix.name), key=lambda run: (-run.config.size, run.config.seed))
        for run in there:
            kept = _kept(run, spec.target)
            if kept is not None:
                return _drawn(spec, run, *kept)
    return None


def _kept(run: RunRecord, method: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    """Nodes, edges and gaps; None where the run has none, or they are damaged."""
    try:
        nodes, edges, gaps = (read_array(run.directory, f"{kind}{method}") for kind in (NODES, EDGES, GAPS))
    except DAMAGED_ARRAYS:
        return None
    return None if nodes is None or edges is None or gaps is None else (nodes, edges, gaps)


def _drawn(spec: SweepSpec, run: RunRecord, nodes: NDArray[Any], edges: NDArray[Any], gaps: NDArray[Any]) -> Figure:
    figure = style.new_figure(HEIGHT_IN)
    panels = figure.subplots(1, len(nodes), sharex=True, sharey=True, squeeze=False)[0]
    values = nodes[:, :, 2]
    scale = Normalize(float(values.min()), float(values.max()))
    for moment, axes in enumerate(panels):
        _draw(axes, nodes[moment], edges[edges[:, 0] == moment, 1:], scale)
        where = "at the start" if moment == 0 else "at the end" if moment == len(nodes) - 1 else "on the way"
        axes.set_title(f"{where}: {_share(gaps[moment])}", fontsize=style.SMALL, loc="left", color=style.INK)
    style.title(figure, f"{spec.target} on {run.config.size} {spec.size_axis}, seed {run.config.seed}")
    return figure


def _draw(axes: Axes, nodes: NDArray[Any], edges: NDArray[Any], scale: Normalize) -> None:
    lines = nodes[edges, :2]
    axes.add_collection(LineCollection(list(lines), colors=style.FAINT, linewidths=0.4, zorder=1))
    area = min(AREA / len(nodes), LARGEST)
    axes.scatter(nodes[:, 0], nodes[:, 1], c=nodes[:, 2], cmap=COLOURS, norm=scale, s=area, linewidths=0, zorder=2)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    style.dress(axes, spines=())


def _share(gap: float) -> str:
    """``the first loss``, ``0.9 % of it``."""
    return "the first loss" if gap == 1 else f"{100 * np.float64(gap):.2g} % of it"
