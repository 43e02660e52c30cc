"""The hash of a class in a notebook changes if what it trains changes, however cells pass values on to each other."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sweep.boards import hash_of_cells

IMPORTS = "import abc, collections, dataclasses, functools, types, typing\n"
HOLDERS = {
    "a list": ("{name} = [{value}]", "{it}[0]"),
    "a tuple": ("{name} = (1, {value})", "{it}[1]"),
    "a deque": ("{name} = collections.deque([{value}])", "{it}[0]"),
    "a dict": ("{name} = {{'a': {value}}}", "{it}['a']"),
    "an ordered dict": ("{name} = collections.OrderedDict(a={value})", "{it}['a']"),
    "a dict with a default": ("{name} = collections.defaultdict(lambda: {value})", "{it}.default_factory()"),
    "a class of dicts": (
        "class Own{name}(dict):\n    __getattr__ = dict.__getitem__\n{name} = Own{name}(x={value})",
        "{it}.x",
    ),
    "a view of a dict": ("{name} = types.MappingProxyType({{'a': {value}}})", "{it}['a']"),
    "a namespace": ("{name} = types.SimpleNamespace(x={value})", "{it}.x"),
    "a dataclass": (
        "@dataclasses.dataclass\nclass Own{name}:\n    x: object\n{name} = Own{name}({value})",
        "{it}.x",
    ),
    "a factory of a field": (
        "@dataclasses.dataclass\nclass {name}:\n    x: object = dataclasses.field(default_factory=lambda: {value})",
        "{it}().x",
    ),
    "a named tuple": ("class Own{name}(typing.NamedTuple):\n    x: object\n{name} = Own{name}({value})", "{it}.x"),
    "another name": ("{name} = {value}", "{it}"),
    "a function": ("def {name}():\n    return {value}", "{it}()"),
    "a lambda": ("{name} = lambda: {value}", "{it}()"),
    "a generator": ("def {name}():\n    yield {value}", "next({it}())"),
    "a function in a function": (
        "def {name}():\n    def inner():\n        return {value}\n    return inner()",
        "{it}()",
    ),
    "an exception": (
        "def {name}():\n    try:\n        raise KeyError\n    except KeyError:\n        return {value}",
        "{it}()",
    ),
    "a default": ("def {name}(x={value}):\n    return x", "{it}()"),
    "a default of a name": ("def {name}(*, x={value}):\n    return x", "{it}()"),
    "a list next to data": ("{name} = types.SimpleNamespace(x=[{value}], words=['a'] * 2000)", "{it}.x[0]"),
    "a partial function of data": (
        "def own{name}(words):\n    return {value}\n{name} = functools.partial(own{name}, ['a'] * 2000)",
        "{it}()",
    ),
    "the variable of a function": ("def make{name}(x):\n    return lambda: x\n{name} = make{name}({value})", "{it}()"),
    "the first of two products": (
        "def make{name}(x):\n    return lambda: x\n{name} = make{name}({value}), make{name}(0)",
        "{it}[0]()",
    ),
    "the first of two classes": (
        "def make{name}(y):\n    class Own:\n        x = y\n    return Own\n"
        "{name} = make{name}({value}), make{name}(0)",
        "vars({it}[0])['x']",
    ),
    "a partial function": (
        "def own{name}(x):\n    return x\n{name} = functools.partial(own{name}, {value})",
        "{it}()",
    ),
    "a partial function with names": ("{name} = functools.partial(lambda x: x, x={value})", "{it}()"),
    "a cached function": ("@functools.lru_cache\ndef {name}():\n    return {value}", "{it}()"),
    "a decorated function": (
        "def around{name}(inner):\n    @functools.wraps(inner)\n    def outer():\n        return inner()\n"
        "    return outer\n@around{name}\ndef {name}():\n    return {value}",
        "{it}()",
    ),
    "a decorator with a value": (
        "def around{name}(x):\n    def decorate(inner):\n        def outer():\n            return (x, inner())[0]\n"
        "        return outer\n    return decorate\n@around{name}({value})\ndef {name}():\n    return 1",
        "{it}()",
    ),
    "a generic function": (
        "@functools.singledispatch\ndef {name}(x):\n    return 0\n@{name}.register\ndef _(x: int):\n    return {value}",
        "{it}(3)",
    ),
    "an attribute of a class": ("class {name}:\n    x = {value}", "vars({it})['x']"),
    "a method": ("class {name}:\n    def x(self):\n        return {value}", "{it}().x()"),
    "a property": ("class {name}:\n    @property\n    def x(self):\n        return {value}", "{it}().x"),
    "a cached property": (
        "class {name}:\n    @functools.cached_property\n    def x(self):\n        return {value}",
        "{it}().x",
    ),
    "a class method": ("class {name}:\n    @classmethod\n    def x(cls):\n        return {value}", "{it}.x()"),
    "a static method": ("class {name}:\n    @staticmethod\n    def x():\n        return {value}", "{it}.x()"),
    "a constructor": ("class {name}:\n    def __init__(self):\n        self.x = {value}", "{it}().x"),
    "a class with slots": (
        "class {name}:\n    __slots__ = ('x',)\n    def __init__(self):\n        self.x = {value}",
        "{it}().x",
    ),
    "a derived class": (
        "class Top{name}:\n    def x(self):\n        return None\n"
        "class {name}(Top{name}):\n    def x(self):\n        return {value}",
        "{it}().x()",
    ),
    "a base": (
        "class Top{name}:\n    def x(self):\n        return {value}\nclass {name}(Top{name}):\n    pass",
        "{it}().x()",
    ),
    "an abstract base": (
        "class Top{name}(abc.ABC):\n    @abc.abstractmethod\n    def x(self): ...\n"
        "class {name}(Top{name}):\n    def x(self):\n        return {value}",
        "{it}().x()",
    ),
    "a base that changes derived classes": (
        "class Top{name}:\n    def __init_subclass__(cls):\n        cls.x = staticmethod(lambda: {value})\n"
        "class {name}(Top{name}):\n    pass",
        "{it}.x()",
    ),
    "a metaclass": (
        "class Kind{name}(type):\n    def x(cls):\n        return {value}\n"
        "class {name}(metaclass=Kind{name}):\n    pass",
        "{it}.x()",
    ),
    "a class in a class": (
        "class {name}:\n    class Inner:\n        def x(self):\n            return {value}",
        "{it}.Inner().x()",
    ),
    "a class without a statement": ("{name} = type('Own', (), {{'x': lambda self: {value}}})", "{it}().x()"),
    "a method of another statement": (
        "class {name}:\n    pass\ndef own{name}(self):\n    return {value}\n{name}.x = own{name}",
        "{it}().x()",
    ),
    "a bound method": (
        "class Own{name}:\n    def x(self):\n        return {value}\n{name} = Own{name}().x",
        "{it}()",
    ),
    "an object that is called": (
        "class Own{name}:\n    def __call__(self):\n        return {value}\n{name} = Own{name}()",
        "{it}()",
    ),
    "an object with entries": (
        "class Own{name}:\n    def __getitem__(self, key):\n        return {value}\n{name} = Own{name}()",
        "{it}[0]",
    ),
}
"""For each way to pass a value on: the statements that do so under another name, and how to get it back."""
FILES = {
    "a module": ("def rate():\n    return {value}\n", "import {module} as v0", "{it}.rate()"),
    "a function": ("def rate():\n    return {value}\n", "from {module} import rate as v0", "{it}()"),
    "a class": ("class Net:\n    rate = {value}\n", "from {module} import Net as v0", "{it}.rate"),
    "an object": (
        "class Net:\n    def rate(self):\n        return {value}\nnet = Net()\n",
        "from {module} import net as v0",
        "{it}.rate()",
    ),
    "a dict of functions": ("RATES = {{'a': lambda: {value}}}\n", "from {module} import RATES as v0", "{it}['a']()"),
    "a cached function": (
        "import functools\n@functools.lru_cache\ndef rate():\n    return {value}\n",
        "from {module} import rate as v0",
        "{it}()",
    ),
    "a base": (
        "class Net:\n    def rate(self):\n        return {value}\n",
        "from {module} import Net\nclass v0(Net):\n    pass",
        "{it}().rate()",
    ),
    "a decorator": (
        "def around(inner):\n    return lambda: inner() + {value}\n",
        "from {module} import around\n@around\ndef v0():\n    return 0",
        "{it}()",
    ),
    "an import in a function": (
        "def rate():\n    return {value}\n",
        "def v0():\n    from {module} import rate\n    return rate()",
        "{it}()",
    ),
}
"""For each way to use a file: its text, the cell that uses it, and how to get a value of the file back."""
modules = itertools.count()
chains = st.lists(st.sampled_from(sorted(HOLDERS)), min_size=1, max_size=4)


def hash_and_result(*cells: str) -> tuple[str, object]:
    """Return the hash of ``Board`` in a new notebook, and what it trains."""
    with pytest.MonkeyPatch.context() as patch:
        before = hash_of_cells(patch, IMPORTS, *cells)
        result = sys.modules["board_cells"].Board().train()
    return before, result


def holders(chain: list[str]) -> list[str]:
    """Return the statements that pass the variable ``v0`` on, to ``v1`` and so forth."""
    return [HOLDERS[kind][0].format(name=f"v{number + 1}", value=f"v{number}") for number, kind in enumerate(chain)]


def value_in(chain: list[str], name: str) -> str:
    """Return how to get the first value of a chain back from its last variable."""
    for kind in reversed(chain):
        name = HOLDERS[kind][1].format(it=name)
    return name


def board(returned: str) -> str:
    return f"class Board:\n    def train(self):\n        return {returned}\n"


@given(chains)
@settings(max_examples=200, deadline=None)
def test_a_value_counts_however_cells_pass_it_on(chain: list[str]) -> None:
    cells = [*holders(chain), board(value_in(chain, f"v{len(chain)}"))]
    results = [hash_and_result(f"v0 = {value}", *cells) for value in (1, 22, 1)]
    assert [result for _, result in results] == [1, 22, 1]
    assert results[0][0] == results[2][0]
    assert results[0][0] != results[1][0]


@given(chains, st.booleans())
@settings(max_examples=200, deadline=None)
def test_each_of_two_values_counts_that_the_same_function_passes_on(chain: list[str], is_first: bool) -> None:
    """They share all code."""
    body = textwrap.indent("\n".join(holders(chain)), "    ")
    make = f"def make(v0):\n{body}\n    return v{len(chain)}\n"
    calls = "one = make({})\nother = make(0)" if is_first else "one = make(0)\nother = make({})"
    cells = board(f"{value_in(chain, 'one')}, {value_in(chain, 'other')}")
    results = [hash_and_result(make, calls.format(value), cells) for value in (1, 22, 1)]
    assert [result for _, result in results] == [(value, 0) if is_first else (0, value) for value in (1, 22, 1)]
    assert results[0][0] == results[2][0]
    assert results[0][0] != results[1][0]


@given(chains)
@settings(max_examples=200, deadline=None)
def test_which_of_two_values_a_name_has_counts(chain: list[str]) -> None:
    """Also if the class uses both."""
    body = textwrap.indent("\n".join(holders(chain)), "    ")
    make = f"def make(v0):\n{body}\n    return v{len(chain)}\none = make(1)\nother = make(22)"
    used = ", ".join(value_in(chain, name) for name in ("one", "other", "chosen"))
    results = [hash_and_result(make, f"chosen = {name}", board(used)) for name in ("one", "other", "one")]
    assert [result for _, result in results] == [(1, 22, 1), (1, 22, 22), (1, 22, 1)]
    assert results[0][0] == results[2][0]
    assert results[0][0] != results[1][0]


@given(kind=st.sampled_from(sorted(FILES)), chain=chains)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_counts_however_cells_pass_on_what_they_take_from_it(
    kind: str, chain: list[str], workplace: Path
) -> None:
    text, cell, taken = FILES[kind]
    module = f"composed_{next(modules)}"
    cells = [*holders(chain), board(taken.format(it=value_in(chain, f"v{len(chain)}")))]
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(workplace), *sys.path])
        patch.setattr(sys, "dont_write_bytecode", True)
        for value in (1, 22, 1):
            (workplace / f"{module}.py").write_text(text.format(value=value))
            sys.modules.pop(module, None)
            importlib.invalidate_caches()
            results.append(hash_and_result(cell.format(module=module), *cells))
    assert [result for _, result in results] == [1, 22, 1]
    assert results[0][0] == results[2][0]
    assert results[0][0] != results[1][0]
