"""A sweep that cannot be answered is failed, and says why wherever it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.catalog.reading import read_sweep
from orchestrator.home.directories import Home
from orchestrator.site.pages import SweepPages
from orchestrator.system.errors import exception_line
from tests.cli.program import Program
from tests.sweep.sweeps import UNITS

pytestmark = pytest.mark.usefixtures("undrawn")

BROKEN = {
    "tests.sweep.broken:PercentFamily": "does not keep its contract",
    "tests.sweep.broken:EndlessFamily": "does not keep its contract",
    "tests.trainables.simple_families:Raises": "ValueError: no data",
}
"""Families whose sweeps fail, and why."""


@pytest.mark.parametrize("family", BROKEN)
def test_a_sweep_that_broke_its_contract_is_failed(run: Program, workplace: Path, family: str) -> None:
    (workplace / "units.yaml").write_text(UNITS.replace("tests.families:LogisticFamily", family))
    ended = run("run", "units.yaml", "--engine=local")
    assert ended.code == 1
    why = BROKEN[family]
    assert why in ended.err
    assert o.load().state == "failed"
    sweep_id = o.load().id
    pages = SweepPages(Home(workplace / "results"))
    outputs = [run(*words).succeeded() for words in (("status",), ("sweeps",), ("explain",))]
    for text in (*outputs, pages.index(), pages.report(sweep_id)):
        assert "failed" in text.lower()
        assert why in text
    assert "failed: " in outputs[0]
    assert why in read_sweep(Home(workplace / "results"), None).failure
    assert f"--resume {sweep_id}" in outputs[2]
    assert ("--retry-failed" in outputs[2]) == (family == "tests.trainables.simple_families:Raises")
    if len(o.load().runs):
        [logs] = re.findall(r"`logs (\w+)`", outputs[2])
        assert why in run("logs", logs).succeeded()


def test_after_failed_runs_the_next_step_is_their_error(run: Program, workplace: Path) -> None:
    text = UNITS.replace("tests.families:LogisticFamily", "tests.trainables.simple_families:SometimesRaises")
    (workplace / "units.yaml").write_text(text.replace("seeds: 1", "seeds: 4"))
    out = run("run", "units.yaml", "--engine=local", "--set", "search={method: grid}").succeeded()
    [key, *_] = o.load().runs.query("status == 'failed'")["key"]
    [line] = [line for line in out.splitlines() if line.startswith("next")]
    assert f"`logs {key}`" in line
    assert "ValueError: odd seed" in run("logs", key).succeeded()
    assert "twice the runs" not in out
    assert f"`logs {key}`" in run("explain").succeeded()


PYDANTIC = """Traceback (most recent call last):
  File "/tmp/a.py", line 1, in train
    Note(x="a")
pydantic_core._pydantic_core.ValidationError: 2 validation errors for Note
x
  Input should be a valid integer [type=int_parsing]
    For further information visit https://errors.pydantic.dev/2/v/int_parsing
y
  Field required [type=missing]
    For further information visit https://errors.pydantic.dev/2/v/missing
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PYDANTIC, "pydantic_core._pydantic_core.ValidationError: 2 validation errors for Note"),
        ("Traceback:\n  File 'a', line 1\nKeyboardInterrupt", "KeyboardInterrupt"),
        (
            "Traceback:\n  File 'a'\nKeyError: 'x'\n\nDuring ...:\n\nTraceback:\n  File 'b'\nValueError: no\nmore",
            "ValueError: no",
        ),
        ("the previous phase left no weights", "the previous phase left no weights"),
        ("", ""),
    ],
)
def test_the_line_of_the_exception(text: str, line: str) -> None:
    assert exception_line(text) == line
