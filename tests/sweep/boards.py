"""A family in a file, its space, and a probe, for tests that change code."""

from __future__ import annotations

import linecache
import sys
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

import orchestrator as o
from tests.cli.program import process
from trainables.contract.sources import source_hash

MODEL = """
from trainables import SimpleFamily
{imports}

class Board(SimpleFamily):
    task_names = ("checkers", "disc")
    floor = 0.5
    version = {version}

    def parameter_count(self, size):
        return 4 * size + 1

    def train(self, tasks, size, seed, settings):
        {first}
        for step in range(1, settings.steps + 1):
            yield step, 1 / step, {score}
"""
SPACE = """
question: At what width is a checkerboard learned?
family: {family}
target: checkers
mixes: [{mixes}]
sizes: [2, 4, 8]
seeds: 1
search: {{method: grid}}
settings: {{steps: 2}}
"""
PROBE = """
from trainables.probes.base import Probe, Probed

class Mean(Probe):
    name = "mean"

    def run(self, family, run, model, arrays, data):
        return Probed({{"value": {value}}})
"""
cell_numbers = count()
SCORE, OTHER = "SCORE = 0.9\n", "SCORE = 0.7\n"


def write(
    folder: Path, module: str, *, score: str = "0.9", version: int = 1, first: str = "pass", imports: str = ""
) -> Path:
    """Write a family and its space, and return the space's file."""
    folder.mkdir(exist_ok=True)
    text = MODEL.format(score=score, version=version, first=first, imports=imports)
    (folder / f"{module}.py").write_text(text)
    space = folder / "board.yaml"
    space.write_text(SPACE.format(family=f"{module}:Board", mixes="checkers"))
    return space


def accuracies(home: str = "results") -> set[float]:
    """Return the accuracies of the newest sweep."""
    return set(o.load(home=home).runs["accuracy"])


def train(space: Path, *words: str) -> list[str]:
    return ["run", str(space), "--engine=local", "--record=jsonl", *words]


def run_cell(monkeypatch: pytest.MonkeyPatch, notebook: ModuleType, cell: str) -> None:
    """Run a cell in a notebook, whose source is kept as IPython does."""
    name = f"<cell {next(cell_numbers)}>"
    monkeypatch.setitem(linecache.cache, name, (len(cell), None, cell.splitlines(keepends=True), name))
    exec(compile(cell, name, "exec"), vars(notebook))


def hash_of_cells(monkeypatch: pytest.MonkeyPatch, *cells: str) -> str:
    """Return the hash of the class ``Board`` in the cells of a new notebook."""
    notebook = ModuleType("board_cells")
    monkeypatch.setitem(sys.modules, "board_cells", notebook)
    for cell in cells:
        run_cell(monkeypatch, notebook, cell)
    return source_hash("board_cells:Board")


def in_notebook(folder: Path, *cells: str) -> str:
    """Return what a notebook prints. Its source is kept as IPython does."""
    program = f"""
import linecache, sys
sys.path.insert(0, {str(folder)!r})
sys.dont_write_bytecode = True
from trainables.contract.sources import source_hash
from trainables.contract.notebook_classes import attributes_may_be_filled
from trainables.contract.present_code import make_present
for number, cell in enumerate({cells!r}):
    name = f"<cell {{number}}>"
    linecache.cache[name] = len(cell), None, cell.splitlines(keepends=True), name
    exec(compile(cell, name, "exec"), globals())
"""
    return process([sys.executable, "-c", program], cwd=folder).succeeded()
