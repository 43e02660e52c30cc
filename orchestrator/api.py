"""Sweeps from Python: in a notebook, or in a script that makes a figure.

import orchestrator as o

o.sweeps()                                   # what there is
s = o.load("add_vs_add_prod")                # the newest sweep of a search space, or any by its id
s.transitions                                # a DataFrame
s.figure("curves")                           # a matplotlib Figure
s = o.run("add_vs_add_prod", profile="smoke")
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from orchestrator.catalogue.listings import sweep_words
from orchestrator.catalogue.lookup import space_of
from orchestrator.catalogue.reading import StoredSweep, read_arrays, read_sweep, read_sweeps
from orchestrator.environment import user_path
from orchestrator.errors import UserError, unknown
from orchestrator.home.files import Home, check_home
from orchestrator.home.sweeps import Sweep, Unreadable
from orchestrator.report.answer import Answer
from orchestrator.report.words.numbers import counted, moment
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.python_options import from_python, home_from_python
from orchestrator.sweep.run_options import RunOptions
from orchestrator.terminal.size import with_usable_size

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.console import Console

FIGURES = ("curves", "embeddings", "learning", "transitions")
"""What :meth:`SweepResults.figure` draws."""


class SweepResults:
    """A sweep as it was when it was read: load it again to see what a running one has found since."""

    def __init__(self, stored: StoredSweep) -> None:
        self._stored = stored

    @property
    def id(self) -> str:
        """The sweep's id."""
        return self._stored.id

    @property
    def spec(self) -> SweepSpec:
        """What was asked: mixes, sizes, seeds and every setting."""
        return self._stored.spec

    @property
    def state(self) -> str:
        """``running``, ``finished``, ``interrupted`` or ``failed``."""
        return self._stored.state.value

    @property
    def answer(self) -> Answer:
        """What was found, as values: intervals, fits, posteriors, synergies."""
        return self._stored.answer

    @property
    def damage(self) -> tuple[str, ...]:
        """What of the sweep's files could not be read, a sentence each."""
        return self._stored.damage

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row a run that ended; :mod:`orchestrator.catalogue.export` names the columns."""
        from orchestrator.catalogue.export import runs_frame

        return runs_frame(self._stored)

    @cached_property
    def curves(self) -> pd.DataFrame:
        """A row for each evaluation and task: the learning curves."""
        from orchestrator.catalogue.export import curves_frame

        return curves_frame(self._stored)

    @cached_property
    def transitions(self) -> pd.DataFrame:
        """A row for each mix and task: transition, interval, verdict, synergy."""
        from orchestrator.catalogue.export import transitions_frame

        return transitions_frame(self._stored)

    def arrays(self, run: str) -> dict[str, NDArray[Any]]:
        """What is kept of a trained model and what probes made of it, by name: for ListOps ``embedding`` [number
        tokens, size] and, by the probe of this name, ``similarity`` [tokens, tokens].

        ``run`` is a key of :attr:`runs` or the beginning of one. Raises ``UserError`` for a run that left none.
        """
        return read_arrays(self._stored.run(run))

    def figure(self, kind: str = "curves") -> Figure:
        """A figure: ``curves`` (accuracy against size), ``embeddings`` (their similarities below and above each
        transition), ``learning`` (accuracy over steps) or ``transitions`` (in parameters, as ``compare`` draws them).
        Save it with ``.savefig``. Raises ``UserError``."""
        from orchestrator.report.figures import comparisons
        from orchestrator.report.figures.learning import learning_figure
        from orchestrator.report.figures.similarity import similarities_figure
        from orchestrator.report.side_by_side import Compared

        answer, spec, runs = self.answer, self.spec, self._stored.runs
        if kind == "curves":
            return comparisons.main_figure(spec, answer)
        if kind == "learning":
            return learning_figure(spec, runs, spec.question)
        if kind == "transitions":
            return comparisons.forest_figure([Compared(self.id, answer)], spec.question)
        if kind == "embeddings":
            drawn = similarities_figure(answer, runs)
            if drawn is None:
                raise UserError(f"no run of {self.id} left an array 'similarity' yet")
            return drawn
        raise unknown("figure", kind, FIGURES)

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs nothing else; returns where it lies."""
        from orchestrator.catalogue.export import write_report

        return write_report(self._stored, user_path(path))

    def export(self, directory: str | Path) -> list[Path]:
        """Write :attr:`runs`, :attr:`curves` and :attr:`transitions` as Parquet and CSV into a new directory."""
        from orchestrator.catalogue.export import export

        return export(self._stored, user_path(directory))

    def __repr__(self) -> str:
        return f"<sweep {self.id}: {self.state}, {counted(self._stored.counted, 'run')}; {sweep_words(self._stored)}>"

    def _repr_html_(self) -> str:
        from orchestrator.report import table

        said = table.answer_table(self.answer)
        head = "".join(f"<th>{escape(cell)}</th>" for cell in said.header)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells) + "</tr>"
            for row in said.rows
            if row.lead
        )
        lines = "<br>".join(escape(line) for line in said.sentences)
        return (
            f"<b>{escape(self.id)}</b>, {self.state}, begun {moment(self._stored.begun)}<br>"
            f"{escape(self.spec.question)}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><b>{lines}</b>"
        )


def _home(given: str | Path | None) -> Home:
    """Return a home by its directory."""
    directory = home_from_python(given)
    check_home(directory)
    return Home(directory.resolve())


def load(sweep: str, home: str | Path | None = None) -> SweepResults:
    """A sweep by its id, the beginning of it, or the name of a search space (its newest sweep).

    Raises ``UserError`` that names what there is, ``UnreadableError`` (a ``SweepError``) that says why it cannot be
    read and what to do. Damage that does not stop the reading is a warning, and :attr:`SweepResults.damage`.
    """
    found = SweepResults(read_sweep(_home(home), sweep))
    for said in found.damage:
        warnings.warn(said, stacklevel=2)
    return found


def sweeps(home: str | Path | None = None) -> pd.DataFrame:
    """Every sweep of a home directory, newest first: ``sweep``, ``space``, ``profile``, ``state``, ``runs``,
    ``transitions`` (in words), ``disk_bytes``, ``begun``; ``unreadable`` says why a sweep cannot be read, and
    what is not known then is missing."""
    import pandas as pd

    columns = ["sweep", "space", "profile", "state", "runs", "transitions", "disk_bytes", "begun", "unreadable"]
    rows = [_listed(each) for each in read_sweeps(_home(home))]
    return pd.DataFrame(rows, columns=columns).astype({"runs": "Int64", "disk_bytes": "Int64"})


def _listed(found: StoredSweep | Unreadable) -> tuple[object, ...]:
    """A row of :func:`sweeps`."""
    if isinstance(found, Unreadable):
        return (found.id, space_of(found.id), None, "unreadable", None, None, None, None, str(found))
    asked = (found.id, found.spec.name, found.spec.profile, found.state.value)
    return (*asked, found.counted, sweep_words(found), found.disk_bytes, found.begun, "")


def run(space: SweepSpec | str | Path, *, console: Console | None = None, **options: Any) -> SweepResults:
    """Run a sweep with the progress the command line shows, and return what it found.

    ``space`` is a search space's name, a YAML file or a specification. ``options`` are those of the command `run`,
    with underscores (:class:`orchestrator.sweep.run_options.RunOptions`): ``profile="smoke"``,
    ``overrides={"seeds": 5}``, ``home``, ``engine="local"``, ``max_time=3600`` (seconds); ``resume=True`` continues
    the newest unfinished sweep of the same settings. A Ray that this process uses already is used, and left running.
    Interrupting the cell leaves a sweep that can be resumed; in a thread no signal is handled. Raises ``UserError`` for
    what was asked wrongly, ``SweepError`` where a part fails.
    """
    from rich.console import Console

    from orchestrator.space.spaces import load_space
    from orchestrator.sweep.run import run_sweep

    home = options.pop("home", None)
    asked = RunOptions(**from_python(options), home=_home(home).root).started()
    if not isinstance(space, SweepSpec | str | Path):
        raise UserError(f"space={space!r:.60} cannot be used: write a search space's name or file, or a SweepSpec")
    if isinstance(space, SweepSpec):
        if asked.profile is not None or asked.variant is not None or asked.assignments:
            said = "profile, variant and overrides go with a search space's name or file"
            raise UserError(f"a specification is complete: {said}")
        spec = space
    else:
        spec = load_space(str(space), asked.profile, asked.assignments, variant=asked.variant)
    begun: list[Sweep] = []
    output = console or Console(quiet=asked.quiet, _environ=with_usable_size(os.environ))
    run_sweep(spec, replace(asked, begun=begun.append), output)
    return load(begun[0].id, home)
