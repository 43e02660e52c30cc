"""A class in a notebook is trained and hashed with the code that it uses: files of the user, and other cells."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from tests.cli.program import process
from tests.sweep.boards import MODEL, SPACE, hash_of_cells
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
    "a computed import in a function": (
        "import importlib",
        "self.load()",
        "def load(self):\n        importlib.import_module('helper')",
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


CELLS = {
    "a function": ("def other():\n    return 1", "return 22", "other()"),
    "a class": ("class Net:\n    def rate(self):\n        return 1", "return 22", "Net().rate()"),
    "a base of a class": ("class Top:\n    rate = 'return 1'\nclass Net(Top): pass", "return 22", "Net.rate"),
    "an object": ("class Net:\n    def rate(self):\n        return 1\nnet = Net()", "return 22", "net.rate()"),
    "a decorated function": (
        "import functools\n@functools.lru_cache\ndef other():\n    return 1",
        "return 22",
        "other()",
    ),
    "a function of a function": (
        "def inner():\n    return 1\ndef other():\n    return inner()",
        "return 22",
        "other()",
    ),
    "a function in a list": ("others = [lambda: len('return 1')]", "return 22", "others[0]()"),
    "a number": ("rate = len('return 1')", "return 22", "rate"),
    "a dict": ("rates = {'a': [1.5, len('return 1')]}", "return 22", "rates['a']"),
    "a number of numpy": ("import numpy\nrate = numpy.float32(len('return 1'))", "return 22", "rate"),
    "a dict with a function": ("rates = {'act': abs, 'lr': len('return 1')}", "return 22", "rates['lr']"),
    "a dict with a default": (
        "import collections\nrates = collections.defaultdict(int, a=len('return 1'))",
        "return 22",
        "rates['a']",
    ),
    "fields": ("import types\nrates = types.SimpleNamespace(lr=len('return 1'))", "return 22", "rates.lr"),
    "a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass Rates:\n    lr: int\nrates = Rates(len('return 1'))",
        "return 22",
        "rates.lr",
    ),
    "a dataclass with slots": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass Rates:\n    lr: int\n"
        "    def __call__(self): pass\nrates = Rates(len('return 1'))",
        "return 22",
        "rates.lr",
    ),
    "a function of a library": (
        "import math\nother = math.sin if 'return 1' == 'return 1' else math.cos",
        "return 2",
        "other",
    ),
    "a class of a library": (
        "import collections\nModel = collections.Counter if 'return 1' == 'return 1' else collections.deque",
        "return 2",
        "Model()",
    ),
    "a function of numpy in a dict": (
        "import numpy\nrates = {'act': numpy.sin if 'return 1' == 'return 1' else numpy.cos}",
        "return 2",
        "rates['act']",
    ),
    "a class of a library in a closure": (
        "import collections\ndef make(one):\n    return lambda: one()\n"
        "other = make(collections.Counter if 'return 1' == 'return 1' else collections.deque)",
        "return 2",
        "other()",
    ),
    "a built-in function in a closure": (
        "import math\ndef make(one):\n    return lambda: one(2)\n"
        "other = make(math.sin if 'return 1' == 'return 1' else math.cos)",
        "return 2",
        "other()",
    ),
    "a built-in function in a default": (
        "import math\none = math.sin if 'return 1' == 'return 1' else math.cos\ndef other(x=one): return x(2)",
        "return 2",
        "other()",
    ),
    "a built-in function in a class": (
        "import math\nclass Net:\n    act = math.sin if 'return 1' == 'return 1' else math.cos",
        "return 2",
        "Net",
    ),
    "the class of a named tuple": (
        "import typing\nclass Rates(typing.NamedTuple):\n    lr: int = 1\n    def rate(self):\n        return 1\n"
        "rates = Rates()",
        "return 22",
        "rates.rate()",
    ),
    "the class of a dict": (
        "class Rates(dict):\n    def rate(self):\n        return 1\nrates = Rates()",
        "return 22",
        "rates.rate()",
    ),
    "the class of a member": (
        "import enum\nclass Mode(enum.Enum):\n    A = 1\n    def rate(self):\n        return 1\nmode = Mode.A",
        "return 22",
        "mode.rate()",
    ),
    "a default of pydantic": (
        "import pydantic\nclass Rates(pydantic.BaseModel):\n    lr: int = len('return 1')",
        "return 22",
        "Rates().lr",
    ),
    "a partial function": (
        "import functools\nother = functools.partial(abs, len('return 1'))",
        "return 22",
        "other()",
    ),
    "a function in an object": (
        "class Memo:\n    def __init__(self, one):\n        self.one = one\n    def __call__(self):\n"
        "        return self.one()\n@Memo\ndef other():\n    return 1",
        "return 22",
        "other()",
    ),
    "a function of numpy": ("import numpy\n@numpy.vectorize\ndef other(x):\n    return 1", "return 22", "other(2)"),
    "a bound method": (
        "class Net:\n    def inner(self):\n        return 1\n    def rate(self):\n        return self.inner()\n"
        "other = Net().rate",
        "return 22",
        "other()",
    ),
    "executed text": ("own = {}\nexec('def other(): return 1', own)\nother = own['other']", "return 22", "other()"),
    "a comprehension": ("rate = len('return 1')", "return 22", "[rate for _ in range(3)]"),
}


@pytest.mark.parametrize("part", CELLS)
def test_the_hash_of_a_class_in_a_notebook_covers_other_cells_that_it_uses(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, new, value = CELLS[part]
    cell = f"class Board:\n    def train(self):\n        return {value}\n"
    before = hash_of_cells(monkeypatch, first, cell)
    assert hash_of_cells(monkeypatch, f"unused = 5\n{first}", cell) == before
    changed = first.replace("return 1", new, 1)
    assert hash_of_cells(monkeypatch, changed, cell) != before


@pytest.mark.parametrize(
    ("first", "value"),
    [
        ("unused = {}", "1"),
        ("import numpy\ndata = numpy.full(3, {})", "data.sum()"),
        ("data = [{}] * 2000", "len(data)"),
        ("class Net:\n    pass\nnet = Net()\nnet.rate = {}", "net.rate"),
    ],
    ids=["unused", "array", "long list", "object"],
)
def test_data_of_other_cells_are_not_hashed(first: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = f"class Board:\n    def train(self):\n        return {value}\n"
    hashes = {hash_of_cells(monkeypatch, first.format(number), cell) for number in (1, 2)}
    assert len(hashes) == 1


ODD = {
    "an object that refuses questions": (
        "class Odd(dict):\n    __getattr__ = dict.__getitem__\nodd = Odd(lr=1)\n"
        "class Net:\n    odd = odd\n    def __call__(self): pass\n    def __getattr__(self, name):\n"
        "        raise KeyError(name)\nnet = Net()",
        "odd, Net, net",
    ),
    "an object that cannot be printed": (
        "class Odd:\n    def __repr__(self): raise KeyError('closed')\nclass Net:\n    odd = Odd()",
        "Net",
    ),
    "a closed file": ("import shelve\nodd = shelve.open('odd')\nodd.close()\nclass Net:\n    odd = odd", "odd, Net"),
    "a module without a name": ("import types\nodd = types.ModuleType('odd')\ndel odd.__name__", "odd"),
    "a list in itself": ("odd = [1]\nodd += [odd] * 40", "odd"),
    "lists in lists": ("import numpy\nodd = [[numpy.float32(1)] * 900 for _ in range(900)]", "odd"),
    "sets of texts": (
        "import dataclasses, types\n@dataclasses.dataclass\nclass Rates:\n    names: set\n"
        "odd = types.SimpleNamespace(names=set('abcdef'))\nclass Net:\n    rates = Rates(set('abcdef'))\n    odd = odd",
        "odd, Net",
    ),
    "functions as keys": ("def one(): pass\nodd = {one: 1, object(): 2, abs: 3}", "odd"),
}


@pytest.mark.parametrize("first", ODD)
def test_odd_objects_of_other_cells_have_the_same_hash_in_another_notebook(first: str, workplace: Path) -> None:
    """Also if they raise exceptions when they are asked for anything."""
    cells, names = ODD[first]
    cell = f"class Board:\n    def train(self):\n        return {names}\n"
    hash_it = "make_present('__main__', 'Board')\nprint(source_hash('__main__:Board'))"
    assert re.fullmatch("[0-9a-f]{16}\n", before := in_notebook(workplace, cells, cell, hash_it))
    assert in_notebook(workplace, cells, cell, hash_it) == before


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


def test_what_training_appends_to_a_list_of_a_cell_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an edit that was refused or undone, when the class is made again, and in a new notebook."""
    cells = "losses = []\nrate = 0.3"
    cell = "class Board:\n    def train(self):\n        losses.append(rate)\n"
    first = hash_of_cells(monkeypatch, cells, cell)
    notebook = sys.modules["board_cells"]

    def hash_now() -> str:
        return source_hash("board_cells:Board")

    for rate in (0.3, 0.7, 0.3):
        vars(notebook)["rate"] = rate
        assert (hash_now() == first) == (rate == 0.3)
        with attributes_may_be_filled(notebook.Board):
            if rate == 0.3:  # Otherwise the sweep is refused.
                notebook.Board().train()
                assert hash_now() == first
    assert notebook.losses == [0.3, 0.3]
    vars(notebook)["rate"] = 0.7
    after_edit = hash_now()
    assert after_edit != first
    assert after_edit == hash_of_cells(monkeypatch, "losses = []\nrate = 0.7", cell)


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


def test_a_variable_that_the_class_assigns_itself_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "class Board:\n    def train(self):\n        global count\n        count += 1\n        return count\n"
    assert hash_of_cells(monkeypatch, "count = 0", cell) == hash_of_cells(monkeypatch, "count = 7", cell)


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
