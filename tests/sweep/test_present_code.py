"""A sweep trains what the files are now, or says that it does not: in notebooks, main programs and made classes."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import ModuleType

import pytest

import orchestrator as o
from orchestrator.space.spaces import load_space
from tests.cli.program import process
from tests.sweep.boards import MODEL, SPACE, write
from trainables.contract.sources import source_hash

pytestmark = pytest.mark.usefixtures("undrawn")

PROBE = """
from trainables.probes.base import Probe, Probed

def make(number):
    class Made(Probe):
        name = "made"

        def run(self, family, run, model, arrays, data):
            return Probed({"value": number})

    return Made
"""


def package_of(workplace: Path, module: str, files: dict[str, str]) -> Path:
    """Write a package with the family in model.py, and its space, and return the space's file."""
    for name, text in files.items():
        (workplace / module / name).parent.mkdir(parents=True, exist_ok=True)
        (workplace / module / name).write_text(text)
    space = workplace / "board.yaml"
    space.write_text(SPACE.format(family=f"{module}:Board", mixes="checkers"))
    return space


def trained(space: Path, *, fresh: bool = False) -> set[float]:
    return set(o.run(space, engine="local", quiet=True, fresh=fresh).runs["accuracy"])


def model(imports: str) -> str:
    return MODEL.format(score="SCORE", version=1, first="pass", imports=imports)


@pytest.mark.slow
def test_modules_that_import_each_other_are_all_imported_again(workplace: Path, module: str) -> None:
    first = "SCORE = 0.9\nfrom .model import Board\n"
    space = package_of(workplace, module, {"__init__.py": first, "model.py": model("from . import SCORE")})
    assert trained(space) == {0.9}
    (workplace / module / "__init__.py").write_text(first.replace("0.9", "0.7"))
    assert trained(space, fresh=True) == {0.7}


@pytest.mark.slow
def test_a_module_in_a_folder_that_a_package_adds_to_its_path_is_imported_again(workplace: Path, module: str) -> None:
    first = "import os\n__path__.append(os.path.join(os.path.dirname(__file__), 'extra'))\nfrom .model import Board\n"
    files = {"__init__.py": first, "model.py": model("from .part import SCORE"), "extra/part.py": "SCORE = 0.9\n"}
    space = package_of(workplace, module, files)
    assert trained(space) == {0.9}
    (workplace / module / "extra" / "part.py").write_text("SCORE = 0.7\n")
    assert trained(space, fresh=True) == {0.7}


@pytest.mark.slow
def test_an_optional_module_that_was_deleted_is_not_used(workplace: Path, module: str) -> None:
    fast = workplace / f"fast_{module}.py"
    fast.write_text("SCORE = 0.9\n")
    optional = f"try:\n    from {fast.stem} import SCORE\nexcept ImportError:\n    SCORE = 0.7"
    space = write(workplace, module, score="SCORE", imports=optional)
    assert trained(space) == {0.9}
    fast.unlink()
    assert trained(space, fresh=True) == {0.7}


@pytest.mark.parametrize("changed", ["helper", "program"])
def test_what_has_changed_since_a_program_started_is_refused_or_named(
    changed: str, workplace: Path, module: str
) -> None:
    helper, program = workplace / f"helper_{module}.py", workplace / f"{module}.py"
    helper.write_text("SCORE = 0.9\n")
    files = {"helper": helper, "program": program}
    lines = (
        f"with open({str(files[changed])!r}, 'a') as file:\n    file.write('# Another line.\\n')",
        "from orchestrator.space.spaces import load_space",
        f"load_space({str(workplace / 'board.yaml')!r})",
    )
    (workplace / "board.yaml").write_text(SPACE.format(family="__main__:Board", mixes="checkers"))
    text = MODEL.format(score="SCORE", version=1, first="pass", imports=f"from {helper.stem} import SCORE")
    program.write_text("\n".join(("import time\ntime.sleep(0.3)", text, *lines)))
    ended = process([sys.executable, program], cwd=workplace)
    assert ended.code == (changed == "program")
    assert f"{files[changed]} has changed since this program started" in ended.err
    assert ("If it was imported before, start it again" in ended.err) == (changed == "helper")


def test_a_function_of_a_file_is_what_was_imported(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class in a notebook has it as an attribute."""
    file = workplace / "score_of_board.py"

    def hash_of_class() -> str:
        notebook = ModuleType("board_cells")
        cell = "class Board:\n    score = staticmethod(score)\n"
        monkeypatch.setitem(sys.modules, "board_cells", notebook)
        monkeypatch.setitem(linecache.cache, "<cell>", (len(cell), None, cell.splitlines(keepends=True), "<cell>"))
        exec(compile(file.read_text(), str(file), "exec"), vars(notebook))
        imported = dict(vars(notebook))
        file.write_text("def score():\n    return 0.7\n")
        linecache.checkcache()
        exec(compile(cell, "<cell>", "exec"), imported)
        monkeypatch.setattr(notebook, "Board", imported["Board"], raising=False)
        return source_hash("board_cells:Board")

    file.write_text("def score():\n    return 0.9\n")
    assert hash_of_class() != hash_of_class()


def test_a_link_in_a_package_counts_by_where_it_leads(workplace: Path, module: str) -> None:
    files = {f"{name}/part.py": f"SCORE = 0.{number}\n" for number, name in enumerate(("v1", "v2"), start=1)}
    space = package_of(workplace, module, {"__init__.py": model("SCORE = 0.9"), **files})
    link = workplace / module / "active"
    link.symlink_to("v1")
    (workplace / module / "v1" / "above").symlink_to("..")
    before = load_space(str(space)).source
    link.unlink()
    link.symlink_to("v2")
    assert load_space(str(space)).source != before


@pytest.mark.parametrize("text", ["from {impl} import make\nP = make({number})", "from {impl} import Made as P"])
def test_the_hash_of_a_probe_covers_the_module_that_names_it_and_the_one_that_made_it(
    text: str, workplace: Path, module: str
) -> None:
    impl = workplace / f"impl_{module}.py"
    code = "import sys; from trainables.probes.base import load_probe; print(load_probe(sys.argv[1]).source)"

    def source(number: int, *, more: str = "") -> str:
        (workplace / f"{module}.py").write_text(text.format(impl=impl.stem, number=number))
        impl.write_text(f"{PROBE}\nMade = make({number})\n{more}")
        return process([sys.executable, "-c", code, f"{module}:P"], cwd=workplace).succeeded()

    assert source(3) == source(3)
    assert len({source(3), source(5), source(3, more="CHANGED = 1\n")}) == 3
