"""A class in a notebook is hashed with functions, classes and values of other cells that it uses."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.sweep.boards import hash_of_cells, in_notebook, run_cell
from trainables.contract.notebook_classes import attributes_may_be_filled
from trainables.contract.sources import source_hash

pytestmark = pytest.mark.usefixtures("undrawn")

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
    "a class that replaces a method of its base": (
        "class Top:\n    def rate(self):\n        return 0\nclass Net(Top):\n    def rate(self):\n        return 1",
        "return 22",
        "Net().rate()",
    ),
    "an attribute that the base has, too": (
        "class Top:\n    rate = 0\nclass Net(Top):\n    rate = len('return 1')",
        "return 22",
        "Net.rate",
    ),
    "a dataclass with a base": (
        "import dataclasses\n@dataclasses.dataclass\nclass Top:\n    lr: int = 0\n"
        "@dataclasses.dataclass\nclass Rates(Top):\n    lr: int = len('return 1')",
        "return 22",
        "Rates().lr",
    ),
    "a module of torch": (
        "import torch\nclass Top(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        "class Net(Top):\n    def forward(self, x):\n        return 1",
        "return 22",
        "Net()(2)",
    ),
    "one of two bases": (
        "class Low:\n    rate = 1\nclass High:\n    rate = 2\n"
        "class Net(Low if 'return 1' == 'return 1' else High):\n    pass",
        "return 2",
        "(Low, High, Net.rate)",
    ),
    "a metaclass": (
        "class Kind(type):\n    def rate(cls):\n        return 1\nclass Net(metaclass=Kind):\n    pass",
        "return 22",
        "Net.rate()",
    ),
    "a decorator that names what it wraps": (
        "import functools\ndef damped(inner):\n    @functools.wraps(inner)\n    def around():\n"
        "        return inner() + len('return 1')\n    return around\n@damped\ndef other():\n    return 0",
        "return 22",
        "other()",
    ),
    "a lambda of two lines": (
        "others = {\n    'a': lambda x: x\n    + len('return 1'),\n    'b': lambda x: x,\n}",
        "return 22",
        "others['a'](1)",
    ),
    "the first function of a factory": (
        "def make(x):\n    return lambda: x\nlow = make(len('return 1'))\nhigh = make(2)",
        "return 22",
        "(high(), low())",
    ),
    "one of two functions of a factory": (
        "def make(x):\n    return lambda: x\nlow, high = make(1), make(2)\n"
        "other = low if 'return 1' == 'return 1' else high",
        "return 2",
        "(high(), low(), other())",
    ),
    "the first class of a factory": (
        "def make(x):\n    class Net:\n        rate = x\n    return Net\nLow = make(len('return 1'))\nHigh = make(2)",
        "return 22",
        "(High.rate, Low.rate)",
    ),
    "one of two kinds of objects": (
        "class Low:\n    rate = 1\nclass High:\n    rate = 2\nlow, high = Low(), High()\n"
        "net = Low() if 'return 1' == 'return 1' else High()",
        "return 2",
        "(low, high, net)",
    ),
    "a generic function": (
        "import functools\n@functools.singledispatch\ndef other(x):\n    return 0\n"
        "@other.register\ndef _(x: int):\n    return 1",
        "return 22",
        "other(3)",
    ),
    "the default of a dict": (
        "import collections\nrates = collections.defaultdict(lambda: len('return 1'))",
        "return 22",
        "rates['a']",
    ),
    "the order of a dict": (
        "rates = dict(sorted({'a': 1, 'b': 2}.items(), reverse=len('return 1') > 8))",
        "return 22",
        "list(rates)",
    ),
    "an undeclared field": (
        "import dataclasses\n@dataclasses.dataclass\nclass Rates:\n    lr: int = 1\n"
        "rates = Rates()\nrates.decay = len('return 1')",
        "return 22",
        "rates.decay",
    ),
    "one of two lambdas in a line": (
        "low, high = (lambda: 1), (lambda: 2)\nother = low if 'return 1' == 'return 1' else high",
        "return 2",
        "other()",
    ),
    "one of two definitions": (
        "is_long = len('return 1') > 8\nif is_long:\n    def other():\n        return 5\n"
        "else:\n    def other():\n        return 6",
        "return 22",
        "other()",
    ),
    "a decorator of a library": (
        "library = {'__name__': 'json'}\nexec('def around(inner): return lambda: inner()', library)\n"
        "@library['around']\ndef other():\n    return 1",
        "return 22",
        "other()",
    ),
    "a function in an attribute of a function": (
        "def other():\n    return other.rate()\nother.rate = lambda: len('return 1')",
        "return 22",
        "other()",
    ),
    "a function next to data": (
        "import functools\ndef evaluate(words):\n    return 1\nother = functools.partial(evaluate, ['a'] * 2000)",
        "return 22",
        "other()",
    ),
    "a number next to data": (
        "import types\nrates = types.SimpleNamespace(lr=len('return 1'), words=['a'] * 2000)",
        "return 22",
        "rates.lr",
    ),
    "an entry that occurs twice": (
        "low, high = [1], [2]\nrates = [low, high, low if 'return 1' == 'return 1' else high]",
        "return 2",
        "rates",
    ),
    "a large number": ("rate = 10**5000 + len('return 1')", "return 22", "rate"),
    "a method of a library": (
        "import numpy\ndraw = numpy.random.normal if 'return 1' == 'return 1' else numpy.random.uniform",
        "return 2",
        "draw()",
    ),
    "a method of an object of a library": (
        "import numpy\nown = numpy.random.default_rng(0)\n"
        "draw = own.normal if 'return 1' == 'return 1' else own.laplace",
        "return 2",
        "draw()",
    ),
    "a method of a class of a library": (
        "import numpy\nown = numpy.random.Generator\ndraw = own.normal if 'return 1' == 'return 1' else own.laplace",
        "return 2",
        "draw",
    ),
    "a method of a function of a library": (
        "import numpy\nadd = numpy.add.reduce if 'return 1' == 'return 1' else numpy.multiply.reduce",
        "return 2",
        "add([1])",
    ),
    "a method of one of two objects of a library": (
        "from scipy import stats\ndraw = (stats.norm if 'return 1' == 'return 1' else stats.laplace).rvs",
        "return 2",
        "draw()",
    ),
    "a partial function of a library's method": (
        "import functools, numpy\nown = numpy.random\n"
        "draw = functools.partial(own.normal if 'return 1' == 'return 1' else own.uniform, 0)",
        "return 2",
        "draw()",
    ),
    "a method of a library in a class": (
        "import numpy\nown = numpy.random\n"
        "class Net:\n    draw = own.normal if 'return 1' == 'return 1' else own.uniform",
        "return 2",
        "Net",
    ),
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


DECORATED = """
import functools
def damped(inner):
    @functools.wraps(inner)
    def around(*given):
        return inner(*given) * {value}
    return around
"""


def test_the_hash_of_a_class_in_a_notebook_covers_decorators_of_its_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "class Board:\n    @damped\n    def train(self):\n        return 1\n"
    hashes = {hash_of_cells(monkeypatch, DECORATED.format(value=value), cell) for value in (1, 22)}
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("first", "value"),
    [
        ("unused = {}", "1"),
        ("import numpy\ndata = numpy.full(3, {})", "data.sum()"),
        ("data = [{}] * 2000", "len(data)"),
        ("class Net:\n    pass\nnet = Net()\nnet.rate = {}", "net.rate"),
        ("def other():\n    other.calls += 1\nother.calls = {}", "other()"),
    ],
    ids=["unused", "array", "long list", "object", "count of calls"],
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
    "values in each other": (
        "import dataclasses\n@dataclasses.dataclass(eq=False)\nclass Node:\n    number: int\n    near: list\n"
        "grid = {(i, j): Node(i, []) for i in range(12) for j in range(12)}\nfor (i, j), node in grid.items():\n"
        "    node.near += [grid[one] for one in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)) if one in grid]\n"
        "odd = [grid[0, 0]]\nclass Net:\n    odd = odd",
        "odd, Net",
    ),
    "functions of functions": (
        "def compose(f, g):\n    return lambda x: f(g(x))\nodd = abs\nfor _ in range(40):\n    odd = compose(odd, odd)",
        "odd",
    ),
    "a deep tuple": (
        "odd = ()\nfor _ in range(3000):\n    odd = (odd,)\nclass Net:\n    odd = odd",
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


def test_a_variable_that_the_class_assigns_itself_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "class Board:\n    def train(self):\n        global count\n        count += 1\n        return count\n"
    assert hash_of_cells(monkeypatch, "count = 0", cell) == hash_of_cells(monkeypatch, "count = 7", cell)


def test_a_number_that_another_cell_changes_during_a_sweep_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread, a sweep runs while cells do."""
    cell = "class Board:\n    def train(self):\n        return rate\n"
    first = hash_of_cells(monkeypatch, "rate = 0.3", cell)
    notebook = sys.modules["board_cells"]
    with attributes_may_be_filled(notebook.Board):
        vars(notebook)["rate"] = 0.7
        assert source_hash("board_cells:Board") != first
    assert source_hash("board_cells:Board") == hash_of_cells(monkeypatch, "rate = 0.7", cell)


@pytest.mark.parametrize(
    ("again", "user"),
    [
        ("class Net:\n    def rate(self):\n        return 1\n", "class Large(Net):\n    pass\n"),
        ("def rate():\n    return 1\n", "Large = {'rate': rate}\nNet = rate\n"),
        ("import dataclasses\n@dataclasses.dataclass\nclass Net:\n    lr: int = 1\n", "Large = Net()\n"),
    ],
    ids=["base", "function", "dataclass"],
)
def test_a_cell_that_ran_again_without_a_change_does_not_count(
    again: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although other cells have what it made before."""
    first = hash_of_cells(monkeypatch, again, user, "class Board:\n    def train(self):\n        return Net, Large\n")
    run_cell(monkeypatch, sys.modules["board_cells"], again)
    assert source_hash("board_cells:Board") == first


@pytest.mark.parametrize("content", ["'rate': 22", "'rate': 1, 'train': lambda self: 22"])
def test_a_class_without_a_statement_counts(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python gives it the module of its metaclass."""
    cell = "import abc\nclass Top(abc.ABC):\n    pass\nBoard = type(Top)('Board', (Top,), {{{}}})"
    before = hash_of_cells(monkeypatch, cell.format("'rate': 1"))
    assert hash_of_cells(monkeypatch, cell.format("'rate': 1")) == before
    assert hash_of_cells(monkeypatch, cell.format(content)) != before
