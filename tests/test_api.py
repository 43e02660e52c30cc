"""Sweeps from Python, as in a notebook."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest
from rich.console import Console

import orchestrator as o
from orchestrator.api import SweepResults
from orchestrator.catalog.reading import read_sweep
from orchestrator.home.directories import Home
from orchestrator.report.answer import Answer
from orchestrator.report.answer_table import plain
from orchestrator.system.errors import SweepError, UserError
from tests.catalog.fabricated import failed, runs_of, write_sweep
from tests.cli.program import imported
from tests.scripted import FAMILY, events
from tests.sweep.sweeps import spec
from tests.sweep.test_stopping import say_stop
from tests.waiting import meanwhile


@pytest.fixture(scope="module", name="home")
def home_with_a_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    write_sweep(Home(path), outcomes={0: failed()})
    return path


def test_a_sweep_is_loaded_with_all_its_contents(home: Path, tmp_path: Path) -> None:
    s = o.load("logistic", home)
    assert s.state == "finished"
    assert isinstance(s.answer, Answer)
    assert s.spec.target == "add"
    assert len(s.runs) == len(runs_of(s.spec))
    assert list(s.transitions["mix"]) == ["add", "add+prod", "add+prod"]
    assert set(s.curves["task"]) == {"add", "prod"}
    arrays = s.arrays(s.runs["key"].iloc[-1])
    assert arrays["embedding"].shape[0] == arrays["similarity"].shape[0]
    assert s.report(tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert len(s.export(tmp_path / "tables")) == 7
    assert s.id in repr(s)
    assert repr(s.answer) == plain(read_sweep(Home(home), s.id).answer)
    assert s.spec.question in s._repr_html_()


def test_the_posterior_equals_the_curve_of_the_figure(home: Path) -> None:
    s = o.load("logistic", home)
    assert list(s.posterior.columns) == ["sweep", "mix", "size", "median", "low", "high"]
    joint = s.posterior[s.posterior["mix"] == "add+prod"]
    [row] = [row for _, row in s.transitions.iterrows() if row["mix"] == "add+prod" and row["is_target"]]
    curve = s.answer.curve(s.answer.mix("add+prod").target.transition, joint["size"])
    assert curve is not None
    assert list(joint["size"]) == [size for size in s.spec.sizes if row["tested_from"] <= size <= row["tested_to"]]
    assert list(joint["median"]) == list(curve.middle)
    assert (joint["low"] <= joint["median"]).all()
    assert (joint["median"] <= joint["high"]).all()
    # The median passes the middle of its range at the transition.
    middle = (joint["median"].min() + joint["median"].max()) / 2
    assert (
        joint[joint["size"] < row["low"]]["median"].max() < middle < joint[joint["size"] > row["high"]]["median"].min()
    )


@pytest.mark.parametrize("kind", ["posterior", "curves", "transitions", "embeddings"])
def test_every_figure_is_a_matplotlib_figure(home: Path, kind: str) -> None:
    assert isinstance(o.load("logistic", home).figure(kind), matplotlib.figure.Figure)


def test_mistakes_are_answered_with_the_valid_names(home: Path, tmp_path: Path) -> None:
    s = o.load("logistic", home)
    with pytest.raises(UserError, match="Did you mean 'curves'"):
        s.figure("curve")
    with pytest.raises(UserError, match="has no arrays: it failed"):
        s.arrays(s.runs["key"].iloc[0])
    number: Any = 5
    nothing: Any = None
    path: Any = home
    for wrong, message in (
        (lambda: o.load(number, home), "sweep=5 cannot be used: pass a sweep's id or its search space"),
        (lambda: o.load(path, home), "cannot be used: pass a sweep's id or its search space"),
        (lambda: s.arrays(number), "run=5 cannot be used: pass a key of `runs`"),
        (lambda: s.figure(nothing), "unknown figure 'None'"),
        (lambda: s.report(number), "path=5 cannot be used"),
        (lambda: s.export(nothing), "directory=None cannot be used"),
    ):
        with pytest.raises(UserError, match=message):
            wrong()
    with pytest.raises(UserError, match="has no run 'zz'"):
        s.arrays("zz")
    with pytest.raises(UserError, match="Did you mean 'logistic'"):
        o.load("logistc", home)
    assert o.load(home=home).id == o.load("logistic", home).id
    with pytest.raises(UserError, match="cannot be written"):
        s.report(tmp_path)
    with pytest.raises(UserError, match="a specification is complete"):
        o.run(spec(), profile="smoke", home=tmp_path)


def test_sweeps_are_listed_newest_first(home: Path, tmp_path: Path) -> None:
    listed = o.sweeps(home)
    assert list(listed["sweep"]) == Home(home).sweep_ids()
    assert listed["state"].iloc[0] == "finished"
    assert o.sweeps(tmp_path).empty


def test_a_sweep_from_python_prints_the_progress_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    console = Console(file=io.StringIO(), width=200)
    s = o.run(spec(), home=tmp_path, engine="local", console=console)
    assert isinstance(console.file, io.StringIO)
    output = console.file.getvalue()
    assert f"sweep {s.id}" in output
    assert " seed 0: add 0." in output
    assert s.state == "finished"
    assert s.transitions["verdict"].iloc[1] == "found"


def in_a_thread(work: Callable[[], SweepResults]) -> SweepResults:
    """Return the result of a function in another thread. Raises its exceptions."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_a_sweep_in_a_thread_ends_at_its_time_limit_or_when_stopped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    slow = spec(family=FAMILY, settings={"log": str(log), "steps": 40, "pace_s": 0.2}, seeds=1)
    options: dict[str, Any] = {"home": tmp_path / "home", "engine": "local", "quiet": True}
    with pytest.raises(SweepError, match="it reached its time limit of 2 s"):
        in_a_thread(lambda: o.run(slow, max_time=2, **options))
    reached = len(events(log))
    meanwhile(lambda: len(events(log)) > reached, lambda: say_stop(tmp_path / "home"))
    with pytest.raises(KeyboardInterrupt):
        in_a_thread(lambda: o.run(slow, resume=True, **options))


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import orchestrator; assert 'load' in dir(orchestrator)"
    assert imported(code, "numpy", "pydantic", "pandas", "torch", "ray", "mlflow") == []
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        o.__getattr__("lod")
