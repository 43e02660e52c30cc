"""Sweeps as files that others read: tables, a report, comparisons. Column names never change: notebooks rest on them.

``curves``, one row an evaluation and task:
    ``sweep``, ``key``, ``mix``, ``size``, ``seed``; ``step``, ``loss`` (in the family's unit),
    ``task``, ``accuracy`` (validation); then ``measure/NAME`` for what else was measured at that evaluation.

``transitions``, one row a mix and task:
    ``sweep``, ``space``, ``variant``, ``profile``, ``size_axis``; ``mix``, ``recipe``, ``task``, ``is_target``,
    ``verdict``; ``transition``, ``low``, ``high`` on the size axis, the same with ``_parameters``, ``_core_parameters``
    and (at accuracy 0.8) ``_absolute`` behind them; ``p_above``, ``p_below``; ``tested_from``, ``tested_to``; ``runs``,
    ``diverged``, ``failed``; for the target of mixes other than the baseline what pairs of runs decide: ``decided``
    (fewer, more or empty), ``evidence`` now and ``evidence_highest``, the certified factors ``at_least`` and
    ``at_least_core``, ``pairs``; the estimated ratio ``synergy``, ``synergy_low``, ``synergy_high``, the same for
    ``synergy_core``; ``words``.

Unknown values (a censored side, a failed run's accuracy) are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.errors import UserError
from orchestrator.home.files import whole_directory
from orchestrator.report.rows import rows
from orchestrator.report.run_table import EXPORTED, MEASURE, columns_text, run_values
from orchestrator.report.side_by_side import Compared
from trainables.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

CURVE_COLUMNS = ("sweep", "key", "mix", "size", "seed", "step", "loss", "task", "accuracy")
COLUMNS = "columns.txt"
"""In the exported directory: the meaning of each column."""


def runs_frame(stored: StoredSweep) -> pd.DataFrame:
    """The runs that ended, in the order they did."""
    import pandas as pd

    found = run_values(stored.sweep, stored.runs)
    columns = [column.name for column in EXPORTED]
    further = sorted({name for row in found for name in row} - set(columns))
    numbers = [*(column.name for column in EXPORTED if column.number), *further]
    return pd.DataFrame(found, columns=[*columns, *further]).astype(dict.fromkeys(numbers, float))


def curves_frame(stored: StoredSweep) -> pd.DataFrame:
    """Every evaluation of the runs that ended."""
    import pandas as pd

    points = []
    measured: list[dict[str, float]] = []
    for run in stored.runs:
        config = run.config
        which = (stored.id, run.key, config.label, config.size, config.seed)
        for point in run.outcome.curve:
            points += [(*which, point.step, point.loss, task, accuracy) for task, accuracy in point.accuracy.items()]
            measured += [{f"{MEASURE}{name}": value for name, value in point.measures.items()}] * len(point.accuracy)
    frame = pd.DataFrame(points, columns=list(CURVE_COLUMNS))
    names = sorted({name for each in measured for name in each})
    return frame.join(pd.DataFrame(measured, columns=names).astype(float)) if names else frame


def transitions_frame(stored: StoredSweep) -> pd.DataFrame:
    """The table of results, the target of each mix first."""
    import pandas as pd

    spec = stored.spec
    about = {"sweep": stored.id, "space": spec.name, "variant": spec.variant, "profile": spec.profile}
    values = [{**about, "size_axis": spec.size_axis, **row.columns()} for row in rows(stored.answer)]
    starts = ("transition", "low", "high", "p_", "synergy", "evidence", "at_least")
    numbers = [name for name in values[0] if name.startswith(starts)]
    return pd.DataFrame(values).astype({**dict.fromkeys(numbers, float), "decided": "string", "pairs": "Int64"})


def export(stored: StoredSweep, directory: Path) -> list[Path]:
    """Write runs, curves and transitions as Parquet and CSV into a new directory, whole or not at all; returns the
    files. Raises :class:`UserError` where the directory is there already."""
    if directory.exists():
        raise UserError(f"{str(directory)!r} is there already; name a new directory with --output, or remove it")
    try:
        directory.mkdir()
        directory.rmdir()
    except OSError as error:
        why = f"{str(directory)!r} cannot be made ({error.strerror}); name another directory with --output"
        raise UserError(why) from error
    tables = {
        "runs": runs_frame(stored),
        "curves": curves_frame(stored),
        "transitions": transitions_frame(stored),
    }
    with whole_directory(directory) as aside:
        aside.chmod(0o755)
        for name, table in tables.items():
            table.to_parquet(aside / f"{name}.parquet", index=False)
            table.to_csv(aside / f"{name}.csv", index=False)
        (aside / COLUMNS).write_text(f"{(__doc__ or '').strip()}\n\n{columns_text()}\n", encoding="utf-8")
    return sorted(directory.iterdir())


def output_path(path: Path) -> Path:
    """The file to write. Raises :class:`UserError` for a directory, or one in a directory that does not exist."""
    if path.is_dir():
        raise UserError(f"{str(path)!r} is a directory; name the file, such as {str(path / 'report.html')!r}")
    if not path.parent.is_dir():
        raise UserError(f"{str(path)!r}: there is no directory {str(path.parent)!r}; create it, or name another file")
    return path


def page_of(stored: StoredSweep, index: str = "") -> str:
    """A sweep's report as HTML; ``index`` is the address of the page of all sweeps, if it is served."""
    from orchestrator.report.page.report import page

    return page(stored.sweep, stored.state.value, stored.answer, stored.runs, index)


def write_report(stored: StoredSweep, path: Path) -> Path:
    """Write a sweep's report to a file, whole, over an older one. Raises :class:`UserError` as :func:`output_path`."""
    write_whole(output_path(path), page_of(stored))
    return path


def compared(sweeps: Sequence[StoredSweep]) -> list[Compared]:
    """Sweeps under names that tell them apart: space, variant and profile, and the id if that is not enough."""
    short = {each.id: ", ".join(filter(None, (each.spec.title, each.spec.profile))) for each in sweeps}
    often = Counter(short.values())
    labels = (short[each.id] if often[short[each.id]] == 1 else f"{short[each.id]} ({each.id})" for each in sweeps)
    return [
        Compared(label, each.answer, each.spec.name, each.spec.variant, each.spec.along, each.spec.place_along)
        for label, each in zip(labels, sweeps, strict=True)
    ]
