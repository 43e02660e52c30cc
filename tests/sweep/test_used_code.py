"""A class in a notebook is trained and hashed with the files of the user that it uses."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from tests.sweep.boards import MODEL, SPACE, hash_of_cells, in_notebook
from trainables.contract.notebook_classes import attributes_may_be_filled
from trainables.contract.present_code import make_present
from trainables.contract.sources import source_hash

pytestmark = pytest.mark.usefixtures("undrawn")

HELPER = "def rate():\n    return {value}\nRATE = {value}\nclass Net:\n    def rate(self):\n        return {value}\n"
FILES = {
    "a module": ("import helper", "helper.rate()", ""),
    "a function": ("from helper import rate", "rate()", ""),
    "a class": ("from helper import Net", "Net().rate()", ""),
    "an object": ("from helper import Net\nnet = Net()", "net.rate()", ""),
    "a method": ("import helper", "1", "own = helper.rate"),
    "a partial function": ("import functools, helper\nown = functools.partial(helper.rate)", "own()", ""),
    "functions in a dict": ("import helper\nRATES = {'a': [helper.rate]}", "RATES['a'][0]()", ""),
    "functions in an attribute": ("import helper", "self.own['a'][0]()", "own = {'a': [helper.rate]}"),
    "a class in an attribute": ("import helper", "self.own().rate()", "own = helper.Net"),
    "a function of a class in the class": (
        "import helper",
        "self.Net().rate()",
        "class Net:\n        def rate(self):\n            return helper.rate()",
    ),
    "an import in a function": ("", "self.load()", "def load(self):\n        import helper as h"),
    "an import by a call": (
        "import importlib",
        "self.load()",
        "def load(self):\n        importlib.import_module('helper')",
    ),
    "a computed import in a function": (
        "import importlib",
        "self.load('helper')",
        "def load(self, name):\n        return importlib.import_module(f'package.{name}').rate()",
    ),
    "a computed import from a package without a file": (
        "import importlib",
        "self.load('helper')",
        "def load(self, name):\n        return importlib.import_module('library.%s' % name).rate()",
    ),
    "an import by the name in a cell": (
        "import importlib\nNAME = 'package.helper'",
        "importlib.import_module(NAME).rate()",
        "",
    ),
    "an import by the name in an attribute": (
        "from importlib import import_module",
        "import_module(self.name).rate()",
        "name = 'helper'",
    ),
    "an import by the name in a default": (
        "import importlib",
        "self.load()",
        "def load(self, name='library.helper'):\n        return importlib.import_module(name).rate()",
    ),
    "a file": (
        "import importlib.util as util\nspec = util.spec_from_file_location('own', 'helper.py')\n"
        "own = util.module_from_spec(spec)\nspec.loader.exec_module(own)",
        "own.rate()",
        "",
    ),
    "a name in a function": ("", "self.load()", "def load(self):\n        from helper import rate"),
    "a module in a directory": ("import library.helper", "library.helper.rate()", ""),
    "a module in a package": ("import package", "package.helper.rate()", ""),
    "an imported name of a package": ("", "self.load()", "def load(self):\n        from package import helper"),
    "a function of another cell": ("import helper\ndef other():\n    return helper.rate()", "other()", ""),
    "a module of a module": ("import above", "above.rate()", ""),
}
"""For each way to use ``helper.py``: cells before that of the class, what its function returns, and another member."""


def write_helpers(folder: Path, value: str) -> None:
    for name in ("", "library/", "package/"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "helper.py").write_text(HELPER.format(value=value))
    (folder / "package" / "__init__.py").write_text("from package import helper\n")
    (folder / "above.py").write_text("from helper import rate\n")


@pytest.mark.parametrize("way", FILES)
def test_the_hash_of_a_class_in_a_notebook_covers_the_files_that_it_uses(way: str, workplace: Path) -> None:
    """Also that of a notebook that starts after the change."""
    first, value, member = FILES[way]
    cell = f"class Board:\n    {member or 'pass'}\n    def train(self):\n        return {value}\n"
    hash_it = "make_present('__main__', 'Board')\nprint(source_hash('__main__:Board'))"
    write_helpers(workplace, "1")
    before = in_notebook(workplace, first, cell, hash_it)
    assert in_notebook(workplace, first, cell, "Board().train()", hash_it) == before
    write_helpers(workplace, "22")
    assert in_notebook(workplace, first, cell, hash_it) != before


def test_the_hash_does_not_depend_on_other_imports_from_a_package_without_a_file(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    package = workplace / "package_without_file"
    package.mkdir()
    for name in ("models", "data"):
        (package / f"{name}.py").write_text("RATE = 1\n")
    cells = (
        "import package_without_file.models",
        "class Board:\n    def train(self, parameter):\n        return package_without_file.models, parameter.data\n",
    )
    before = hash_of_cells(monkeypatch, *cells)
    importlib.import_module("package_without_file.data")
    assert source_hash("board_cells:Board") == before


PRODUCTS = {
    "functions": ("def make(x):\n    return lambda: x\n", "(low(), high())"),
    "classes": ("def make(x):\n    class Net:\n        rate = x\n    return Net\n", "(low.rate, high.rate)"),
    "decorated functions": (
        "def make(x):\n    def decorate(inner):\n        return lambda: inner() * x\n    return decorate(lambda: 1)\n",
        "(low(), high())",
    ),
}
"""Functions in a file that make functions and classes for cells, and how a class uses two of these."""


@pytest.mark.parametrize("part", PRODUCTS)
def test_the_hash_of_a_class_in_a_notebook_covers_each_product_of_a_factory_in_a_file(
    part: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, value = PRODUCTS[part]
    name = f"factory_of_{part.replace(' ', '_')}"
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    (workplace / f"{name}.py").write_text(text)
    cell = f"class Board:\n    def train(self):\n        return {value}\n"
    calls = ("low, high = make(1), make(2)", "low, high = make(22), make(2)", "low, high = make(1), make(22)")
    hashes = {hash_of_cells(monkeypatch, f"from {name} import make\n{call}", cell) for call in calls}
    assert len(hashes) == 3
    assert hash_of_cells(monkeypatch, f"from {name} import make\n{calls[0]}", cell) in hashes


class Editable:
    """A finder as that of a package that was installed for editing, in a folder that is not on the search path."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        folder = self.folder / self.name
        return spec_from_file_location(fullname, folder / "__init__.py", submodule_search_locations=[str(folder)])


def test_a_package_that_was_installed_for_editing_counts_before_and_after_its_import(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = workplace / "source" / "editable_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "net.py").write_text("RATE = 1\n")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable("editable_package", package.parent)])
    cell = "class Board:\n    def train(self):\n        from editable_package import net\n        return net.RATE\n"
    before = hash_of_cells(monkeypatch, cell)
    assert sys.modules["board_cells"].Board().train() == 1
    assert source_hash("board_cells:Board") == before
    for name in ("editable_package", "editable_package.net"):
        monkeypatch.delitem(sys.modules, name)
    (package / "net.py").write_text("RATE = 22\n")
    assert hash_of_cells(monkeypatch, cell) != before


OLD = {
    "a factory": ("def make():\n    def rate():\n        return {0}\n    return rate", "make()", "one()"),
    "an attribute": ("class Net:\n    rate = {0}", "Net", "one.rate"),
    "an enum": ("import enum\nclass Net(enum.Enum):\n    rate = {0}", "Net", "one.rate.value"),
    "a default": ("def rate(x={0}):\n    return x", "rate", "one()"),
    "a base": ("class Top:\n    rate = {0}\nclass Net(Top):\n    pass", "Net", "one.rate"),
    "a function in a function": (
        "def around(inner):\n    return lambda: inner()\n@around\ndef rate():\n    return {0}",
        "rate",
        "one()",
    ),
    "a dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass Net:\n    rate: float = {0}", "Net", "one()"),
}
"""For each kind of code that a cell takes from a file: the file, what the cell takes, and how its class uses it."""


@pytest.mark.parametrize("part", OLD)
def test_what_a_cell_took_from_a_file_before_its_change_is_refused(
    part: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notebook would train old code under the hash of the new file. A comment changes nothing."""
    text, taken, value = OLD[part]
    name = f"taken_{part.replace(' ', '_')}"
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    file = workplace / f"{name}.py"
    file.write_text(text.format(1))
    first, cell = (
        f"import {name}\none = {name}.{taken}",
        f"class Board:\n    def train(self):\n        return {value}\n",
    )
    before = hash_of_cells(monkeypatch, first, cell)
    make_present("board_cells", "Board")
    file.write_text(f"# Why.\n{text.format(1)}")
    make_present("board_cells", "Board")
    assert source_hash("board_cells:Board") == before
    file.write_text(text.format(22))
    with pytest.raises(ImportError, match=r"has changed since a cell imported .*: run the cells again that import or"):
        make_present("board_cells", "Board")
    assert hash_of_cells(monkeypatch, first, cell) != before
    make_present("board_cells", "Board")


def test_a_function_that_a_file_keeps_in_a_dict_is_not_refused(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    file = workplace / "keeps_in_a_dict.py"
    file.write_text("RATES = {'a': lambda: 1}\n")
    cell = "class Board:\n    def train(self):\n        return rate()\n"
    before = hash_of_cells(monkeypatch, "import keeps_in_a_dict\nrate = keeps_in_a_dict.RATES['a']", cell)
    make_present("board_cells", "Board")
    file.write_text("# Why.\nRATES = {'a': lambda: 1}\n")
    make_present("board_cells", "Board")
    assert source_hash("board_cells:Board") == before


@pytest.mark.parametrize("changed", ["a file", "another cell", "the class"])
def test_code_that_changes_during_a_sweep_counts_afterwards(
    changed: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    name = f"changes_during_{changed.replace(' ', '_')}"
    file = workplace / f"{name}.py"
    file.write_text(HELPER.format(value="1"))
    cell = "class Board:\n    def train(self):\n        return helper.rate() + other()\n"
    first = hash_of_cells(monkeypatch, f"import {name} as helper\ndef other():\n    return 1", cell)
    notebook = sys.modules["board_cells"]
    make_present("board_cells", "Board")
    with attributes_may_be_filled(notebook.Board):
        if changed == "a file":
            file.write_text(HELPER.format(value="22"))
            importlib.reload(notebook.helper)
        elif changed == "another cell":
            exec(compile("def other():\n    return 22", "<other cell>", "exec"), vars(notebook))
        else:
            notebook.Board.train = lambda self: 22
    make_present("board_cells", "Board")
    assert source_hash("board_cells:Board") != first


def test_a_class_in_a_notebook_that_uses_a_changed_file_trains_the_new_code_or_is_refused(workplace: Path) -> None:
    """A module is imported anew, but a cell that imported a function from it must run again."""
    family = MODEL.format(score="helper.rate() + rate() / 10", version=1, first="pass", imports="import helper")
    (workplace / "board.yaml").write_text(SPACE.format(family="__main__:Board", mixes="checkers"))
    write_helpers(workplace, ".5")
    options = "engine='local', record='jsonl', quiet=True"
    run = f"import orchestrator as o\nprint(*set(o.run('board.yaml', {options}).runs['accuracy']))"
    tried = "try:\n" + "".join(f"    {line}\n" for line in run.splitlines()) + "except Exception as e:\n    print(e)"
    change = f"import pathlib; pathlib.Path('helper.py').write_text({HELPER.format(value='.75')!r})"
    again = "from helper import rate"
    fresh = run.replace("quiet=True", "quiet=True, fresh=True")
    shown = in_notebook(workplace, again, family, run, change, tried, again, tried, fresh).splitlines()
    assert shown[0] == "0.55"
    assert shown[1].endswith(
        f"{workplace / 'helper.py'} has changed since a cell imported rate from it: run the cells again that import or "
        "use rate"
    )
    assert "the code of __main__:Board has changed" in shown[2]
    assert shown[-1] == "0.825"


def test_a_function_that_a_tool_has_reloaded_in_place_is_not_refused(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IPython's autoreload gives old functions their new code."""
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    helper = workplace / "reloaded_in_place.py"
    helper.write_text(HELPER.format(value="1"))
    cell = "class Board:\n    def train(self):\n        return rate()\n"
    before = hash_of_cells(monkeypatch, "from reloaded_in_place import rate", cell)
    helper.write_text(HELPER.format(value="22"))
    module = importlib.reload(sys.modules["reloaded_in_place"])
    sys.modules["board_cells"].rate.__code__ = module.rate.__code__
    make_present("board_cells", "Board")
    assert source_hash("board_cells:Board") != before
