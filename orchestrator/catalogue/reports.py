"""A sweep's report and the comparison of several, put on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orchestrator.catalogue.reading import State, StoredSweep
from orchestrator.errors import UserError
from orchestrator.report.comparison import Compared
from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import write_whole
from orchestrator.store.records import REPORT


def output_path(path: Path) -> Path:
    """The file to write. Raises :class:`UserError` for a directory, or one in a directory that does not exist."""
    if path.is_dir():
        raise UserError(f"{str(path)!r} is a directory; name the file, such as {str(path / 'report.html')!r}")
    if not path.parent.is_dir():
        raise UserError(f"{str(path)!r}: there is no directory {str(path.parent)!r}; create it, or name another file")
    return path


def write_report(stored: StoredSweep, path: Path) -> Path:
    """Write a sweep's report to a file, whole, over an older one. Raises :class:`UserError` as :func:`output_path`."""
    from orchestrator.report.page.report import PageContent, page

    content = PageContent(stored.sweep, stored.state.value, stored.answer, stored.runs)
    write_whole(output_path(path), page(content))
    return path


def kept_report(stored: StoredSweep) -> Path:
    """The report in a sweep's directory, written if a run, a probe or the program is newer than it, or the sweep has
    not ended."""
    path = stored.sweep.directory / REPORT
    if stored.state is State.FINISHED and path.is_file():
        program = [each for each in Path(__file__).parents[1].rglob("*") if each.suffix in (".py", ".j2")]
        sources = (*program, stored.sweep.directory / "journal.jsonl", *(run.directory for run in stored.runs))
        if path.stat().st_mtime >= max(each.stat().st_mtime for each in sources if each.exists()):
            return path
    return write_report(stored, path)


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
