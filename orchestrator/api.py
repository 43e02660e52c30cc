"""Sweeps from Python, in a notebook or in a script that makes a figure (see ``orchestrator/__init__.py``)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import rich.console
from numpy.typing import NDArray

from orchestrator.catalog import export
from orchestrator.catalog.listings import sweep_text
from orchestrator.catalog.pooled import PooledSweeps, pool
from orchestrator.catalog.reading import StoredSweep, load_model, read_arrays, read_sweep, read_weights, space_of
from orchestrator.catalog.summary import Summary
from orchestrator.catalog.summary_cache import read_summaries
from orchestrator.history.sweeps import Sweep, UnreadableError
from orchestrator.home.directories import Home
from orchestrator.home.new_home import check_home
from orchestrator.home.ownership import foreign_note
from orchestrator.home.trusted_code import UntrustedCodeError, check_script
from orchestrator.report import answer_table
from orchestrator.report.answer import Answer
from orchestrator.report.sentences.origin import origin_line
from orchestrator.report.side_by_side import LabeledAnswer, finding
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.invocation import Invocation, TimeLimit
from orchestrator.sweep.run_options import RunOptions, from_python, home_from_python
from orchestrator.sweep.several_sweeps import run_sweep
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.environment import user_path
from orchestrator.system.errors import UserError
from orchestrator.system.printing import clean
from orchestrator.system.text import counted, moment
from orchestrator.terminal.output import Output

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


FIGURES = ("posterior", "curves", "transitions", "embeddings")
"""Kinds of figures of :meth:`SweepResults.figure`. The first three show the DataFrame with the same name."""


@dataclass(frozen=True, repr=False)
class PrintedAnswer(Answer):
    """An answer that a notebook displays like the command line.

    Attributes:
        origin: What was imported, such as "16 runs imported". Empty if nothing was.
    """

    origin: str = ""

    def __repr__(self) -> str:
        return clean("\n".join(filter(None, (answer_table.plain(self), origin_line(self.origin)))))


class SweepResults:
    """A snapshot of a sweep. Load a running sweep again for its latest findings."""

    def __init__(self, stored: StoredSweep) -> None:
        self._stored = stored

    @property
    def id(self) -> str:
        """Id of the sweep."""
        return self._stored.id

    @property
    def spec(self) -> SweepSpec:
        """Specification of the sweep: mixes, sizes, seeds and all settings."""
        return self._stored.spec

    @property
    def state(self) -> str:
        """``running``, ``finished``, ``interrupted`` or ``failed``."""
        return self._stored.state.value

    @property
    def is_imported(self) -> bool:
        """True for a sweep that came with an archive, or that continues from an archive. Another user may have written
        the archive."""
        return self._stored.is_imported

    @cached_property
    def answer(self) -> PrintedAnswer:
        """Findings as values: intervals, posteriors, comparisons. Its ``repr`` is the printed answer."""
        return PrintedAnswer(**vars(self._stored.answer), origin=self._stored.origin)

    @property
    def damage(self) -> tuple[str, ...]:
        """A message for each part of the sweep's files that could not be read, and for changed code of its family."""
        return self._stored.warnings

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run that ended. :mod:`orchestrator.catalog.export` explains the columns."""
        return export.runs_frame(self._stored)

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Learning curves, one row per evaluation and task."""
        return export.curves_frame(self._stored)

    @cached_property
    def posterior(self) -> pd.DataFrame:
        """Mean accuracy by size for each mix with a transition: median and 90% band."""
        return export.posterior_frame(self._stored)

    @cached_property
    def transitions(self) -> pd.DataFrame:
        """Transition, interval, verdict and comparison, one row per mix and task."""
        return export.transitions_frame(self._stored)

    def arrays(self, run: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of a trained model and its probes, by name.

        For ListOps, they are ``embedding`` [number tokens, size] and, from the probe of the same name, ``similarity``
        [tokens, tokens]. ``run`` is a key of :attr:`runs` or a prefix. Raises ``UserError`` for a run without arrays.
        """
        _check("run", run, str, "a key of `runs`")
        return read_arrays(self._stored.run(run))

    def weights(self, run: str) -> dict[str, NDArray[Any]]:
        """Return the weights of a trained model by name, such as ``token`` and ``0.qkv`` of a transformer.

        ``run`` is a key of :attr:`runs` or a prefix. Raises ``UserError`` for a run without weights: it has failed, its
        family stores none, or their file is damaged.
        """
        _check("run", run, str, "a key of `runs`")
        return read_weights(self._stored.run(run))

    def model(self, run: str) -> Any:
        """Return a trained model, on the CPU. Its family chooses the type: the built-in transformers return a
        :class:`trainables.transformer.generation.TrainedTransformer`.

        ``run`` is a key of :attr:`runs` or a prefix. Raises ``UserError`` for a run without weights, and for a family
        that does not load models.
        """
        _check("run", run, str, "a key of `runs`")
        return load_model(self.spec, self._stored.run(run))

    def figure(self, kind: str = "posterior") -> Figure:
        """Return a figure: ``posterior`` (accuracy against size), ``curves`` (accuracy over steps), ``transitions`` (in
        parameters, like ``compare``) or ``embeddings`` (similarities below and above each transition). Raises
        ``UserError`` for an unknown kind, or if there is nothing to draw yet."""
        if kind not in FIGURES:
            raise unknown("figure", str(kind), FIGURES)
        from orchestrator.report.figures import comparisons, learning_curves, probes  # matplotlib takes half a second.

        answer = self.answer
        spec = self.spec
        runs = self._stored.runs
        match kind:
            case "posterior":
                return comparisons.main_figure(answer, spec.question)
            case "curves":
                return learning_curves.learning_figure(spec, runs, spec.question)
            case "transitions":
                return comparisons.forest_figure([LabeledAnswer(self._stored.record_id, answer)], spec.question)
        if (figure := probes.similarities_figure(answer, runs)) is None:
            raise UserError(f"no run of {self.id} has an array 'similarity' yet")
        return figure

    def report(self, path: str | Path) -> Path:
        """Write the report as one self-contained HTML file, and return its path."""
        _check("path", path, (str, Path), "the file to write")
        return export.write_report(self._stored, user_path(path))

    def export(self, directory: str | Path) -> list[Path]:
        """Write :attr:`runs`, :attr:`curves` and :attr:`transitions` as Parquet and CSV into a new directory, or the
        answer for the command ``verify`` to a path that ends in ``.json``."""
        _check("directory", directory, (str, Path), "a directory to create")
        return export.export(self._stored, user_path(directory))

    def __repr__(self) -> str:
        stored = self._stored
        runs = counted(self.answer.runs, "run")
        return clean(f"<sweep {self.id}: {stored.state_text}, {runs}; {sweep_text(stored)}>")

    def _repr_html_(self) -> str:
        answered = answer_table.answer_table(self.answer)
        head = "".join(f"<th>{escape(cell)}</th>" for cell in answered.header)
        cells = [[f"<td>{escape(cell)}</td>" for cell in row] for row in answered.rows]
        rows = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        lines = "<br>".join(map(escape, finding(self.answer)))
        return clean(
            f"<b>{escape(self.id)}</b>, {self._stored.state_text}, started {moment(self._stored.begun)}<br>"
            f"{escape(self.spec.question)}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><b>{lines}</b>"
        )


class PooledResults:
    """Several sweeps as one answer (see :mod:`orchestrator.catalog.pooled`), a snapshot like :class:`SweepResults`."""

    def __init__(self, pooled: PooledSweeps) -> None:
        self._pooled = pooled

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the sweeps, in the order in which they began, imported ones last."""
        return tuple(sweep.id for sweep in self._pooled.sweeps)

    @property
    def spec(self) -> SweepSpec:
        """Specification of the first sweep. The others differ only in seeds and limits."""
        return self._pooled.spec

    @cached_property
    def answer(self) -> PrintedAnswer:
        """Findings from all runs as values. Its ``repr`` is the printed answer."""
        origins = dict.fromkeys(sweep.origin for sweep in self._pooled.sweeps if sweep.origin)
        return PrintedAnswer(**vars(self._pooled.answer), origin="; ".join(origins))

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run that ended. If several sweeps have a run, it has one row."""
        return export.pooled_frames(self._pooled, export.runs_frame)

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Learning curves, one row per evaluation and task."""
        return export.pooled_frames(self._pooled, export.curves_frame)

    @cached_property
    def posterior(self) -> pd.DataFrame:
        """Mean accuracy by size for each mix with a transition: median and 90% band."""
        return export.posterior_frame(self._pooled)

    @cached_property
    def transitions(self) -> pd.DataFrame:
        """Transition, interval, verdict and comparison, one row per mix and task."""
        return export.transitions_frame(self._pooled)

    def figure(self) -> Figure:
        """Return the figure ``posterior`` of :meth:`SweepResults.figure`."""
        from orchestrator.report.figures import comparisons  # matplotlib takes half a second.

        return comparisons.main_figure(self.answer, self.spec.question)

    def __repr__(self) -> str:
        named = [f"{sweep.id} (imported)" if sweep.is_imported else sweep.id for sweep in self._pooled.sweeps]
        return f"<{self._pooled}: {', '.join(named)}>"


def _check(name: str, given: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise ``UserError`` unless an argument has one of these types."""
    if not isinstance(given, kinds):
        raise UserError(f"{name}={given!r:.60} cannot be used: pass {expected}")


def _home(given: str | Path | None) -> Home:
    directory = home_from_python(given)
    check_home(directory)
    return Home(directory.resolve())


def _read_home(given: str | Path | None) -> Home:
    """Return a home to read. Warn if the home is not this user's own."""
    home = _home(given)
    if note := foreign_note(home.root):
        warnings.warn(clean(note), stacklevel=3)
    return home


@overload
def load(sweep: str | None = None, home: str | Path | None = None) -> SweepResults: ...
@overload
def load(sweep: list[str] | tuple[str, ...], home: str | Path | None = None) -> PooledResults: ...
def load(
    sweep: str | list[str] | tuple[str, ...] | None = None, home: str | Path | None = None
) -> SweepResults | PooledResults:
    """Return a sweep, by default the newest. An imported sweep is the newest only among imported ones.

    Smaller damage is reported as a warning, and in :attr:`SweepResults.damage`.

    Args:
        sweep: The sweep's id, a prefix of the id, or its search space (for the space's newest sweep). For a list of
            these, return one answer from all the sweeps, which may differ only in their seeds.
        home: Directory of the home, by default as on the command line.

    Raises:
        UserError: If no sweep or several sweeps match, or if the sweeps differ in more than their seeds.
        UnreadableError: If a sweep cannot be read (a ``SweepError``, with reason and remedy).
    """
    place = _read_home(home)
    if isinstance(sweep, list | tuple):
        return PooledResults(pool([_load(name, place) for name in sweep]))
    return SweepResults(_load(sweep, place))


def _load(name: str | None, home: Home) -> StoredSweep:
    if name is not None:
        _check("sweep", name, str, "a sweep's id or its search space")
    stored = read_sweep(home, name)
    for text in stored.warnings:
        warnings.warn(clean(text), stacklevel=3)
    return stored


def sweeps(home: str | Path | None = None) -> pd.DataFrame:
    """Return all sweeps of a home, newest first.

    Columns are ``sweep``, ``space``, ``profile``, ``changes`` (text), ``state``, ``runs``, ``transitions`` (text),
    ``disk_bytes``, ``begun``, ``unreadable`` (the reason why other values of an unreadable sweep are missing) and
    ``imported`` (whether the sweep came with an archive, which another user may have written).
    """
    import pandas as pd

    identity = ["sweep", "space", "profile", "changes", "state"]
    columns = [*identity, "runs", "transitions", "disk_bytes", "begun", "unreadable", "imported"]
    place = _read_home(home)
    rows = [_listed(summary) for summary in read_summaries(place)]
    return pd.DataFrame(rows, columns=columns).astype({"runs": "Int64", "disk_bytes": "Int64"})


def _listed(sweep: Summary | UnreadableError) -> tuple[object, ...]:
    if isinstance(sweep, UnreadableError):
        return (
            sweep.id,
            space_of(sweep.id),
            None,
            None,
            "unreadable",
            None,
            None,
            None,
            None,
            str(sweep),
            sweep.is_imported,
        )
    identity = (sweep.id, sweep.space, sweep.profile, sweep.changes, sweep.state)
    return (*identity, sweep.runs, sweep.words, sweep.disk_bytes, sweep.begun_at, "", sweep.is_imported)


def _check_script(spec: SweepSpec) -> None:
    """Raise ``UserError`` for a script that this user has not run, because a specification may come from a home."""
    try:
        check_script(spec.to_dict())
    except UntrustedCodeError as error:
        raise UserError(f"{spec.name}: {error}") from error


def run(space: SweepSpec | str | Path, *, console: rich.console.Console | None = None, **options: Any) -> SweepResults:
    """Run a sweep, show its progress as on the command line, and return the results.

    If this process is already connected to Ray, Ray keeps running. Signals are handled only in the main thread.

    Args:
        space: Name of a search space, YAML file or specification.
        options: Options of the command `run` with underscores (:class:`orchestrator.sweep.run_options.RunOptions`),
            such as ``profile="smoke"``, ``overrides={"seeds": 5}``, ``home``, ``engine="local"`` or ``max_time=3600``
            (seconds). ``resume=True`` continues the newest unfinished sweep with the same settings.

    Raises:
        UserError: For invalid arguments.
        SweepError: If a part fails. Then the sweep can be resumed.
    """
    home = options.pop("home", None)
    checked = RunOptions(**from_python(options), home=_home(home).root).checked()
    if not isinstance(space, SweepSpec | str | Path):
        raise UserError(f"space={space!r:.60} cannot be used: pass a search space's name or file, or a SweepSpec")
    if not isinstance(space, SweepSpec):
        spec = load_space(str(space), checked.profile, checked.assignments, variant=checked.variant)
    elif checked.profile is None and checked.variant is None and not checked.assignments:
        spec = space.model_copy(
            update={}
        )  # Checked again: the caller may have changed a value inside it, such as a recipe.
        if spec.script is not None:
            _check_script(spec)
    else:
        rule = "profile, variant and overrides apply only to a search space's name or file"
        raise UserError(f"a specification is complete: {rule}")
    begun: list[Sweep] = []
    output = console or Output(quiet=checked.quiet)
    run_sweep(spec, checked, output, Invocation(limit=TimeLimit(checked.limit_s), begun=begun.append))
    return load(begun[0].id, home)
