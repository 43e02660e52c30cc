"""A sweep's report and the comparison of several, put on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.errors import UserError
from orchestrator.report.comparison import Compared
from orchestrator.report.page import PageContent, page
from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import write_whole


def write_report(stored: StoredSweep, path: Path) -> Path:
    """Write a sweep's report to a file, whole, over an older one. Raises :class:`UserError` for a bad path."""
    if path.is_dir():
        raise UserError(f"{str(path)!r} is a directory; name the file, such as {str(path / 'report.html')!r}")
    content = PageContent(stored.sweep, stored.state.value, stored.answer, stored.runs)
    write_whole(path, page(content))
    return path


def compared(sweeps: Sequence[StoredSweep]) -> list[Compared]:
    """Sweeps under names that tell them apart: space, variant and profile, and the id where that is not enough."""
    short = {each.id: ", ".join(filter(None, _named(each.spec))) for each in sweeps}
    often = Counter(short.values())
    labels = (short[each.id] if often[short[each.id]] == 1 else f"{short[each.id]} ({each.id})" for each in sweeps)
    return [
        Compared(label, each.answer, each.spec.name, each.spec.variant, each.spec.along, each.spec.place_along)
        for label, each in zip(labels, sweeps, strict=True)
    ]


def by_place(found: Sequence[Compared]) -> list[Compared]:
    """Variants along a number by that number, smallest first; others in the order given."""
    known = [(each.place, at) for at, each in enumerate(found) if each.place is not None]
    return [found[at] for _, at in sorted(known)] if len(known) == len(found) else list(found)


def _named(spec: SweepSpec) -> tuple[str, str, str]:
    return spec.name, spec.variant, spec.profile
