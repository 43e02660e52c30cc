"""Files that families and probes run before a run, in a failed run or in a probe are named once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from tests.cli.program import Program

pytestmark = pytest.mark.usefixtures("undrawn")

MODEL = """
import importlib, os, runpy, signal, sys
from trainables import SimpleFamily

LIB = {lib!r}
MARK = os.path.join(LIB, "mark")

class Board(SimpleFamily):
    task_names = ("checkers",)
    floor = 0.5

    def parameter_count(self, size):
        {counting}
        return 4 * size + 1

    def train(self, tasks, size, seed, settings):
        {training}
        for step in range(1, settings.steps + 1):
            yield step, 1 / step, 0.9
"""
PROBE = """
import runpy
from trainables.probes.base import Probe, Probed

class Mean(Probe):
    name = "mean"

    def run(self, family, run, model, arrays, data):
        runpy.run_path({helper!r})
        return Probed({{"value": 1.0}})
"""
SPACE = """
question: At what width is a checkerboard learned?
family: {module}:Board
target: checkers
mixes: [checkers]
sizes: [2, 4, 8]
seeds: 1
search: {{method: grid}}
settings: {{steps: 2}}
"""
RACE = """
question: Which method arrives first?
family: heat_diffusion
target: hessian
mixes: [hessian+adam]
sizes: [16, 25]
seeds: 1
search: {{method: grid}}
probes: ['{module}:Mean']
"""
numbers = iter(range(1000))


@pytest.fixture
def module(workplace: Path) -> str:
    """A module name that no other test has imported."""
    return f"unseen_{next(numbers)}"


@pytest.fixture
def helper(workplace: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that no hash covers."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (workplace / "lib").mkdir()
    (workplace / "lib" / f"helper_{module}.py").touch()
    return workplace / "lib" / f"helper_{module}.py"


def write(helper: Path, module: str, *, counting: str = "pass", training: str = "pass", probes: str = "") -> Path:
    """Write a family and its search space, and return the space's file."""
    folder = helper.parents[1] / "models"
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(MODEL.format(lib=str(helper.parent), counting=counting, training=training))
    (folder / "board.yaml").write_text(SPACE.format(module=module) + probes)
    return folder / "board.yaml"


def train(space: Path) -> list[str]:
    return ["run", str(space), "--engine=local", "--record=jsonl"]


def said(messages: Sequence[str]) -> list[str]:
    """Return the beginnings of the warnings of unknown files."""
    return [message.partition(". ")[0] for message in messages if "also runs" in message]


def test_a_file_that_ran_before_the_first_stack_is_named(
    run: Program, helper: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The plan counts parameters."""
    counting = f"sys.path.insert(0, LIB); importlib.import_module('_'.join(('helper', {module!r})))"
    run(*train(write(helper, module, counting=counting))).succeeded()
    assert said(caplog.messages) == [f"{module} also runs {helper}"]


@pytest.mark.parametrize("cause", ["raise RuntimeError('unlucky')", "os.kill(os.getpid(), signal.SIGINT)"])
def test_a_file_that_a_failed_or_interrupted_stack_ran_is_named_by_a_later_one(
    cause: str, run: Program, helper: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    once = f"runpy.run_path({str(helper)!r}); open(MARK, 'w').close()"
    space = write(helper, module, training=f"if not os.path.exists(MARK): {once}; {cause}")
    run(*train(space))
    run(*train(space)).succeeded()
    assert said(caplog.messages) == [f"{module} also runs {helper}"]


def test_a_file_is_named_only_once(run: Program, helper: Path, module: str, caplog: pytest.LogCaptureFixture) -> None:
    """The import says that the function will import it."""
    training = f"import helper_{module}; runpy.run_path({str(helper)!r})"
    space = write(helper, module, training=training)
    (space.parent / f"{module}.py").write_text(
        (space.parent / f"{module}.py").read_text().replace("class Board", "sys.path.insert(0, LIB)\n\nclass Board")
    )
    run(*train(space)).succeeded()
    run(*train(space), "--fresh").succeeded()
    assert said(caplog.messages) == [f"{module} also runs {helper}"]


def test_a_file_that_a_probe_runs_is_named(
    run: Program, helper: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The family is built in."""
    (helper.parents[1] / f"probe_{module}.py").write_text(PROBE.format(helper=str(helper)))
    space = helper.parents[1] / "race.yaml"
    space.write_text(RACE.format(module=f"probe_{module}"))
    run(*train(space)).succeeded()
    assert said(caplog.messages) == [f"probe_{module} also runs {helper}"]


def test_a_file_that_runs_while_stored_runs_are_probed_is_named(
    run: Program, helper: Path, module: str, workplace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(*train(write(helper, module))).succeeded()
    sys.path.append(str(helper.parents[1]))
    (helper.parents[1] / f"probe_{module}.py").write_text(PROBE.format(helper=str(helper)))
    [sweep_id] = Home(workplace / "results").sweep_ids()
    assert said(caplog.messages) == []
    assert "3 probed" in run("probe", sweep_id, f"probe_{module}:Mean").succeeded()
    assert said(caplog.messages) == [f"{module} or probe_{module} also runs {helper}"]


def test_what_the_import_of_a_probe_runs_is_said_of_the_probe_alone(
    run: Program, helper: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    probe = PROBE.format(helper=str(helper.with_name("gone.py")))
    (helper.parents[1] / "models").mkdir()
    (helper.parents[1] / "models" / f"probe_{module}.py").write_text(
        f"import runpy\nrunpy.run_path({str(helper)!r})\n{probe}"
    )
    run(*train(write(helper, module, probes=f"probes: ['probe_{module}:Mean']\n"))).succeeded()
    assert said(caplog.messages) == [f"probe_{module} also runs {helper}"]


def test_a_file_that_runs_while_reused_runs_are_probed_is_named(
    run: Program, helper: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    space = write(helper, module, probes=f"probes: ['probe_{module}:Mean']\n")
    probe = space.parent / f"probe_{module}.py"
    probe.write_text(PROBE.format(helper=str(helper)).replace("runpy.run_path", "str"))
    run(*train(space)).succeeded()
    assert said(caplog.messages) == []
    probe.write_text(PROBE.format(helper=str(helper)))
    run(*train(space)).succeeded()
    assert said(caplog.messages) == [f"{module} or probe_{module} also runs {helper}"]
