"""Exports sweeps as tables, reports and comparisons. The names of columns never change, because notebooks rely on them.

``runs``, one row per run:
    ``sweep``, ``space``, ``variant``, ``profile``: where the run is from
    ``key``: a hash of everything that changes the run's result
    ``mix``: the tasks trained together
    ``size``, ``seed``: the size is on the size axis of the sweep
    ``status``: finished, diverged or failed
    ``steps``: steps trained
    ``seconds``: the run's share of its stack's training time
    ``accuracy``: the target's test score
    ``floor``: the score of the best constant answer
    ``parameters``: all trainable parameters
    ``core_parameters``: those in the model's body
    ``reused_from``: the sweep for which the run was trained, if it was another sweep or another mix
    ``test_accuracy/TASK``, ``floor/TASK``: score and best constant answer of every task
    ``tuned/SETTING``: every setting that was tuned
    ``probe/PROBE/NUMBER``: numbers of probes
    NAME: every other measure by its own name, or ``measure/NAME`` if a column above has that name

``curves``, one row per evaluation and task:
    ``sweep``, ``key``, ``mix``, ``size``, ``seed``: the run
    ``step``, ``loss``: the loss is in the family's unit
    ``task``, ``accuracy``: the accuracy is the task's validation score
    ``measure/NAME``: every other measure at that evaluation

``transitions``, one row per mix and task:
    ``sweep``, ``space``, ``variant``, ``profile``, ``size_axis``: the sweep
    ``mix``, ``recipe``, ``task``, ``is_target``: the subject of the row
    ``verdict``: what is known about the transition, for example found, above or below the sizes, undecided
    ``transition``, ``low``, ``high``: the size at 80% of the asymptote, with its 90% interval. With the suffixes
        ``_parameters`` and ``_core_parameters`` the same in parameters, with ``_absolute`` the size at accuracy 0.8
    ``p_above``, ``p_below``: probabilities that the transition is above or below the sizes tested
    ``tested_from``, ``tested_to``: the smallest and the largest size tested
    ``runs``, ``diverged``, ``failed``: numbers of runs
    ``imported_runs``: the number of the mix's runs that came with archives, if the whole sweep did not (then ``sweep``
        ends in ``(imported)``)
    ``words``: the transition in words
    ``asymptote``: the mean accuracy that large models reach
    ``p_levels_off``: the probability that the asymptote is below .9
  and, for the target in mixes other than the baseline, the result of the pairs:
    ``decided``: the side that the evidence favors: fewer, more, or empty if it is undecided
    ``claim``: "parameters" if the mix needs fewer (or more) parameters, "often" if it was only learned more (or less)
        often, empty if it is undecided
    ``claim_from``, ``claim_to``: the sizes at which that was shown
    ``evidence``, ``evidence_highest``: the current e-value, and the highest so far
    ``at_least``, ``at_least_core``: certified lower bounds of the factor between the mixes, in parameters of each kind
    ``pairs``: number of pairs, including those of unequal sizes
    ``synergy``, ``synergy_low``, ``synergy_high``: estimated factor by which the mix needs fewer parameters

Unknown values (a censored side, a failed run's accuracy) are missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.catalog.answer_file import answer_text
from orchestrator.catalog.pooled import PooledSweeps
from orchestrator.catalog.reading import StoredSweep
from orchestrator.history.sweeps import REPORT_FILE
from orchestrator.report.rows import COLUMNS, MEASURE, NUMBERS, rows, run_values
from orchestrator.report.side_by_side import LabeledAnswer
from orchestrator.search.base import Request
from orchestrator.system.errors import UserError
from orchestrator.system.files import replace_whole, whole_directory, write_whole
from orchestrator.system.permissions import foreign_link_text

if TYPE_CHECKING:
    import pandas as pd

ANSWER_SUFFIX = ".json"
"""Suffix of a file with a sweep's answer."""
CURVE_COLUMNS = ("sweep", "key", "mix", "size", "seed", "step", "loss", "task", "accuracy")
"""Columns of the table ``curves`` before the measures."""


def runs_frame(stored: StoredSweep) -> pd.DataFrame:
    """Return the runs that ended, in that order."""
    import pandas as pd

    values = run_values(stored.sweep, stored.runs)
    further = sorted({name for row in values for name in row} - set(COLUMNS))
    return pd.DataFrame(values, columns=[*COLUMNS, *further]).astype(dict.fromkeys([*NUMBERS, *further], float))


def curves_frame(stored: StoredSweep) -> pd.DataFrame:
    """Return every evaluation of the runs that ended."""
    import pandas as pd

    points = []
    measured: list[dict[str, float]] = []
    for run in stored.runs:
        config = run.config
        identity = (stored.record_id, run.key, config.label, config.size, config.seed)
        for point in run.outcome.curve:
            points += [(*identity, point.step, point.loss, task, accuracy) for task, accuracy in point.accuracy.items()]
            measured += [{f"{MEASURE}{name}": value for name, value in point.measures.items()}] * len(point.accuracy)
    frame = pd.DataFrame(points, columns=list(CURVE_COLUMNS))
    names = sorted({name for measures in measured for name in measures})
    return frame.join(pd.DataFrame(measured, columns=names).astype(float)) if names else frame


def pooled_frames(pooled: PooledSweeps, frame: Callable[[StoredSweep], pd.DataFrame]) -> pd.DataFrame:
    """Return one table for all sweeps, from :func:`runs_frame` or :func:`curves_frame`, without repeated runs."""
    import pandas as pd

    return pd.concat([frame(sweep) for sweep in pooled.distinct()], ignore_index=True)


def transitions_frame(stored: StoredSweep | PooledSweeps) -> pd.DataFrame:
    """Return the table of transitions. The target comes first in each mix."""
    import pandas as pd

    spec = stored.spec
    about = {"sweep": stored.record_id, "space": spec.name, "variant": spec.variant, "profile": spec.profile}
    imported = Counter(run.request.mix for run in stored.runs if run.is_imported and run.counts_for_answer)
    values = [
        {**about, "size_axis": spec.size_axis, **row.columns(), "imported_runs": imported[row.mix]}
        for row in rows(stored.answer)
    ]
    starts = ("transition", "low", "high", "asymptote", "p_", "synergy", "evidence", "at_least")
    numbers = [name for name in values[0] if name.startswith(starts)]
    types: dict[str, Any] = dict.fromkeys(numbers, float)
    types |= dict.fromkeys(("decided", "claim"), "string")
    types |= dict.fromkeys(("claim_from", "claim_to", "pairs"), "Int64")
    return pd.DataFrame(values).astype(types)


def posterior_frame(stored: StoredSweep | PooledSweeps) -> pd.DataFrame:
    """Return the posterior curve of each mix, with a row per tested size. A mix without a transition has no rows."""
    import pandas as pd

    answer = stored.answer
    points = []
    for mix in answer.mixes:
        curve = answer.curve(mix.target.transition, [count.size for count in answer.counts])
        if curve is not None:
            values = zip(curve.sizes, curve.middle, curve.low, curve.high, strict=True)
            points += [(stored.record_id, mix.mix, int(size), *value) for size, *value in values]
    return pd.DataFrame(points, columns=["sweep", "mix", "size", "median", "low", "high"])


def export(stored: StoredSweep, directory: Path) -> list[Path]:
    """Write Parquet and CSV files to a new directory, whole or not at all. Return the paths of the files.

    If the path ends in ``.json``, write the answer for ``verify`` instead (:mod:`orchestrator.catalog.answer_file`).
    Raises :class:`UserError` if the directory exists.
    """
    if directory.suffix == ANSWER_SUFFIX:
        write_whole(output_path(directory), answer_text(stored))
        return [directory]
    _refuse_foreign_links(directory)
    if directory.exists():
        raise UserError(f"{str(directory)!r} already exists; pass a new directory as --output, or remove it")
    tables = {"runs": runs_frame(stored), "curves": curves_frame(stored), "transitions": transitions_frame(stored)}
    with whole_directory(directory, must_be_new=True) as aside:  # Another user could be first in a shared directory.
        aside.chmod(0o755)  # Unlike a home, exported tables are for other users too.
        for name, table in tables.items():
            table.to_parquet(aside / f"{name}.parquet", index=False)
            table.to_csv(aside / f"{name}.csv", index=False)
        (aside / "columns.txt").write_text(f"{(__doc__ or '').strip()}\n", encoding="utf-8")
    return sorted(directory.iterdir())


def output_path(path: Path) -> Path:
    """Return the file to write. Raises :class:`UserError` for a directory, a file in a missing directory, and a path
    with a link of another user."""
    _refuse_foreign_links(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"{path} cannot be written: name a file in a directory that exists")
    return path


def _refuse_foreign_links(path: Path) -> None:
    """Raise :class:`UserError` for a path with a link of another user, who chose the file that would be overwritten."""
    if text := foreign_link_text(path):
        raise UserError(f"{path} cannot be written: {text}. Name a path in a directory that only you can write")


def page_of(stored: StoredSweep, index: str = "", nonce: str = "") -> str:
    """Return a sweep's report as HTML.

    Args:
        stored: The sweep.
        index: Address of the page of all sweeps, if the report is served.
        nonce: Text that allows the report's script to run, if the report is served.
    """
    from orchestrator.report.page.report import page

    return page(
        stored.sweep,
        stored.state.value,
        stored.answer,
        stored.runs,
        trials=stored.trials,
        index=index,
        nonce=nonce,
        damage=stored.warnings,
        failure=stored.failure,
    )


def write_report(stored: StoredSweep, path: Path | None = None) -> Path:
    """Write a sweep's report to a file, by default in the sweep's directory, and return the path. Replace an existing
    file. Raises :class:`UserError` for a directory, or for a file in a missing directory."""
    if path is None:
        path = stored.sweep.files.directory / REPORT_FILE
        replace_whole(path, page_of(stored))
    else:
        write_whole(output_path(path), page_of(stored))
    return path


def compared(sweeps: Sequence[StoredSweep]) -> list[LabeledAnswer]:
    """Return sweeps with distinct labels: space, variant, profile and whether the sweep was imported. Add the id if two
    labels would be equal."""
    origins = {sweep.id: sweep.origin for sweep in sweeps}
    short = {
        sweep.id: ", ".join(filter(None, (sweep.spec.title, sweep.spec.profile, origins[sweep.id]))) for sweep in sweeps
    }
    counts = Counter(short.values())
    labels = (name if counts[name] == 1 else f"{name} ({sweep_id})" for sweep_id, name in short.items())
    return [
        LabeledAnswer(
            label,
            sweep.answer,
            sweep.spec.name,
            sweep.spec.variant,
            sweep.spec.along,
            sweep.spec.place_along,
            _pair_keys(sweep),
            sweep.is_imported,
        )
        for label, sweep in zip(labels, sweeps, strict=True)
    ]


def _pair_keys(sweep: StoredSweep) -> dict[str, frozenset[tuple[str, str]]]:
    """Return the keys of the two runs of every requested pair, by mix."""
    spec = sweep.spec
    family = sweep.spec.make_family()
    pairs: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for block in sweep.blocks:
        own, baseline = (family.key(spec.config(Request(*run))) for run in block.runs)
        pairs[block.mix].add((own, baseline))
    return {mix: frozenset(keys) for mix, keys in pairs.items()}
