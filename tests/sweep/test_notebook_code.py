"""Code in notebooks and main programs: what a cell or a file is now is trained, hashed or refused."""

from __future__ import annotations

import importlib
import linecache
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.system.errors import UserError
from tests.cli.program import process
from tests.sweep.boards import MODEL, SPACE, hash_of_cells, write
from trainables.contract.sources import source_hash

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.slow
@pytest.mark.parametrize("edited", ["train", "helper"])
def test_a_notebook_trains_the_file_as_it_is_now(workplace: Path, module: str, edited: str) -> None:
    helper = workplace / f"helper_{module}.py"
    helper.write_text("SCORE = 0.9\n")
    space = write(workplace, module, score="SCORE", imports=f"from helper_{module} import SCORE")
    o.run(space, engine="local", quiet=True)
    if edited == "helper":
        helper.write_text("SCORE = 0.7\n")
    else:
        write(workplace, module, score="0.7")
    with pytest.raises(UserError, match="has changed"):
        o.run(space, engine="local", quiet=True)
    answer = o.run(space, engine="local", quiet=True, fresh=True)
    assert set(answer.runs["accuracy"]) == {0.7}


CELL = """
class Other:
    pass


class Board:
    rate = 1

    def train(self):
        return 1
"""


def test_an_attribute_of_a_class_in_a_notebook_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    first = hash_of_cells(monkeypatch, CELL)
    assert hash_of_cells(monkeypatch, CELL.replace("class Other:", "class Another:")) == first
    changes = (("rate = 1", "rate = 2"), ("return 1", "return 2"))
    others = {hash_of_cells(monkeypatch, CELL.replace(old, new)) for old, new in changes}
    assert len({first, *others}) == 3


PARTS = {
    "a property": ("@property\n    def rate(self):\n        return 1", "return 2"),
    "a static method": ("@staticmethod\n    def rate():\n        return 1", "return 2"),
    "a class method": ("@classmethod\n    def rate(cls):\n        return 1", "return 2"),
    "a property over a cache": (
        "@property\n    @__import__('functools').cache\n    def rate(self):\n        return 1",
        "return 2",
    ),
    "a class": ("class Net:\n        def rate(self):\n            return 1", "return 2"),
    "a class with a class": (
        "class Net:\n        class Layer:\n            own = None\n            @property\n"
        "            def rate(self):\n                return 1\n        Layer.own = Layer",
        "return 2",
    ),
    "a class made before": ("net = type('Net', (), {'rate': lambda self: 'return 1'})", "return 2"),
    "a partial method": ("rate = __import__('functools').partialmethod(print, 'return 1')", "return 2"),
    "a set": ("rate = {'a', 'return 1'}", "return 2"),
    "an array": ("rate = __import__('numpy').array([ord(one) for one in 'return 1'])", "return 2"),
    "a long array of objects": (
        "rate = __import__('numpy').array([0] * 1_000 + ['return 1'] + [0] * 1_000, dtype=object)",
        "return 2",
    ),
    "digits of a tensor": ("rate = __import__('torch').tensor([1 + len('return 1') * 1e-6])", "return 22"),
    "the middle of a tensor": (
        "rate = __import__('torch').arange(5_000).bfloat16().index_fill(0, __import__('torch').tensor([2_000]), "
        "len('return 1'))",
        "return 22",
    ),
    "a sparse tensor": (
        "rate = __import__('torch').ones(5_000).index_fill(0, __import__('torch').tensor([2_000]), "
        "len('return 1')).to_sparse()",
        "return 22",
    ),
    "a sparse tensor of rows": (
        "rate = __import__('torch').eye(2_000).index_fill(0, __import__('torch').tensor([1_000]), "
        "len('return 1')).to_sparse_csr()",
        "return 22",
    ),
    "a quantized tensor": (
        "rate = __import__('torch').quantize_per_tensor(__import__('torch').ones(5_000).index_fill(0, "
        "__import__('torch').tensor([2_000]), len('return 1')), 1.0, 0, __import__('torch').qint8)",
        "return 22",
    ),
    "a nested tensor": (
        "rate = __import__('torch').nested.nested_tensor([__import__('torch').ones(5_000).index_fill(0, "
        "__import__('torch').tensor([2_000]), len('return 1'))], layout=__import__('torch').jagged)",
        "return 22",
    ),
    "a queue of tensors": (
        "rate = __import__('collections').deque([__import__('torch').ones(5_000).index_fill(0, "
        "__import__('torch').tensor([2_000]), len('return 1'))])",
        "return 22",
    ),
    "a mapping that is read-only": (
        "rate = __import__('types').MappingProxyType({'a': __import__('torch').ones(5_000).index_fill(0, "
        "__import__('torch').tensor([2_000]), len('return 1'))})",
        "return 22",
    ),
    "a tensor without dimensions": (
        "rate = [__import__('torch').tensor(1j + len('return 1') * 1e-6).conj()]",
        "return 22",
    ),
    "a fraction": ("rate = __import__('fractions').Fraction(len('return 1'), 3)", "return 22"),
    "a default": ("def rate(self, one='return 1'):\n        return 3", "return 2"),
    "a recursive function": (
        "rate = (lambda: [one := (lambda self: (one, two)), two := 'return 1'][0])()\n    others = [0, 'return 1']\n"
        "    others.append(others)",
        "return 2",
    ),
    "a wrapped function": ("rate = (lambda one: lambda self: one)('return 1')", "return 2"),
    "only an attribute": ("rate = (1, {'a': [2.5, 'return 1']})", "return 2"),
}


@pytest.mark.parametrize("has_source", [True, False])
@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_a_class_in_a_notebook_is_hashed(
    part: str, has_source: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some notebooks do not keep the source of their cells."""
    text, new = PARTS[part]
    importlib.import_module("torch._dynamo")  # It needs the source of its own functions when it is imported.
    cell = f"class Board:\n    {text}\n"
    if not has_source:
        monkeypatch.setattr(linecache, "getlines", lambda *_: [])
    first = hash_of_cells(monkeypatch, cell)
    assert len(first) == 16
    assert hash_of_cells(monkeypatch, cell) == first
    assert hash_of_cells(monkeypatch, cell.replace("return 1", new)) != first


def test_the_loaded_base_of_a_class_in_a_notebook_is_hashed(
    workplace: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes after it was imported. A new notebook has the new base, and another hash."""
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    file = workplace / f"{module}.py"
    file.write_text("class Base:\n    def rate(self):\n        return 1\n")
    cell = f"from {module} import Base\nclass Board(Base):\n    pass\n"
    hash_of_cells(monkeypatch, cell)
    file.write_text(file.read_text().replace("1", "22"))
    old = hash_of_cells(monkeypatch, cell)
    del sys.modules[module]
    importlib.invalidate_caches()
    assert hash_of_cells(monkeypatch, cell) != old


FILLED = {
    "a cache": "_cache = {}\n    def fill(self, size):\n        self._cache[size] = self\n        return 0.9",
    "a number": "runs = 0\n    def fill(self, size):\n        type(self).runs += 1\n        return 0.9",
    "a default": "def fill(self, size, seen=[]):\n        seen.append(size)\n        return 0.9",
}
"""Members of a class that training changes: a method ``fill`` and what it fills."""


@pytest.mark.parametrize("how", FILLED)
def test_a_class_in_a_notebook_may_fill_its_own_attributes(how: str, workplace: Path, module: str) -> None:
    """Later sweeps of the same notebook reuse its runs, and a cell that changes the class still counts."""
    space = write(workplace, module)
    space.write_text(space.read_text().replace(f"{module}:Board", "__main__:Board"))
    family = MODEL.format(score="self.fill(size)", version=1, first="pass", imports="")
    cell = family.replace("    floor = 0.5", f"    floor = 0.5\n    {FILLED[how]}\n")
    code = f"""
import orchestrator as o
exec({cell!r})
def trained(**options):
    return set(o.run({str(space)!r}, engine="local", record="jsonl", quiet=True, **options).runs["accuracy"])
print(trained(), trained(overrides={{"seeds": 2}}))
Board.floor = 0.4
try:
    trained()
except Exception as error:
    print(error)
"""
    shown = process([sys.executable, "-c", code], cwd=workplace).succeeded()
    assert shown.startswith("{0.9} {0.9}\n")
    assert "the code of __main__:Board has changed" in shown


def test_a_base_and_a_later_assignment_count_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "class Base:\n    rate = 1\n\n\nclass Board(Base):\n    pass\n"
    first = hash_of_cells(monkeypatch, cell)
    assert hash_of_cells(monkeypatch, cell.replace("1", "2")) != first
    assert hash_of_cells(monkeypatch, cell) == first
    sys.modules["board_cells"].Board.rate = 2
    assert source_hash("board_cells:Board") != first


def test_a_changed_file_deletes_nothing_behind_a_link(workplace: Path, module: str) -> None:
    """Python itself finds the module, as in a notebook, and reads its compiled file."""
    code = f"""
import pathlib, py_compile, sys
from trainables.contract.present_code import make_present
sys.path.insert(0, {str(workplace)!r})
sys.dont_write_bytecode = False
import {module}
sys.dont_write_bytecode = True
make_present({module!r})
compiled = pathlib.Path(py_compile.compile({module}.__file__))
compiled.parent.rename("others")
compiled.parent.symlink_to("others", target_is_directory=True)
pathlib.Path({module}.__file__).write_text("SCORE = 22\\n")
make_present({module!r})
print({module}.SCORE, compiled.exists())
"""
    (workplace / f"{module}.py").write_text("SCORE = 1\n")
    assert process([sys.executable, "-c", code], cwd=workplace).succeeded().split() == ["22", "True"]


EARLIER = {
    "changed": "pathlib.Path('helper.py').write_text('SCORE = 0.7')",
    "replaced by an older file": "os.utime('other.py', (1, 1)); os.replace('other.py', 'helper.py')",
}


@pytest.mark.parametrize("how", EARLIER)
@pytest.mark.parametrize("imported", ["helper", "module"])
def test_code_that_was_imported_before_this_program_and_then_changed(
    how: str, imported: str, workplace: Path, module: str
) -> None:
    """Another process then reuses the runs under the hash of the new code."""
    (workplace / "helper.py").write_text("SCORE = 0.9")
    (workplace / "other.py").write_text("SCORE = 0.7")
    space = write(workplace, module, score="helper.SCORE", imports="import helper")
    first = "helper" if imported == "helper" else module
    code = f"""
import os, pathlib, sys
sys.path.insert(0, {str(workplace)!r})
import {first}
{EARLIER[how]}
import orchestrator as o
print(set(o.run({str(space)!r}, engine="local", record="jsonl", quiet=True).runs["accuracy"]))
"""
    if imported == "module":  # It reads trainables, so the program was imported before the change.
        assert "from trainables" in (workplace / f"{module}.py").read_text()
    assert process([sys.executable, "-c", code], cwd=workplace).succeeded().strip().endswith("{0.7}")


def test_a_compiled_module_that_was_built_again_is_refused(workplace: Path, module: str) -> None:
    """Python would keep the old one."""
    space = write(workplace, module, score="0.9", imports=f"import built_{module}")
    built = workplace / f"built_{module}{EXTENSION_SUFFIXES[0]}"
    code = f"""
import importlib.util, pathlib, shutil, sys
shutil.copy(importlib.util.find_spec("_bisect").origin, {str(built)!r})
sys.modules["built_{module}"] = importlib.import_module("_bisect")
sys.path.insert(0, {str(workplace)!r})
import {module}
import orchestrator as o
o.run({str(space)!r}, engine="local", record="jsonl", quiet=True)
"""
    ended = process([sys.executable, "-c", code], cwd=workplace)
    assert f"{built} was built after this program started: start it again to use the new file" in ended.err


def test_a_file_that_changes_at_every_import_is_refused(workplace: Path, module: str) -> None:
    changes = "import pathlib, time; here = pathlib.Path(__file__)"
    changes += "; here.write_text(here.read_text() + f'X = {time.time_ns()}\\n')"
    space = write(workplace, module, imports=changes)
    code = f"import orchestrator as o\no.run({str(space)!r}, engine='local', record='jsonl', quiet=True)"
    ended = process([sys.executable, "-c", code], cwd=workplace)
    assert f"a file of {module} changes whenever it is imported" in ended.err


def test_a_file_that_changes_while_it_is_imported_is_imported_again(workplace: Path, module: str) -> None:
    """The import takes a while, and the user saves the file in the meantime."""
    changes = "import pathlib; here = pathlib.Path(__file__); here.write_text(here.read_text().replace('0.9', '0.7'))"
    space = write(workplace, module, score="0.9", imports=changes)
    code = f"""
import orchestrator as o
print(set(o.run({str(space)!r}, engine="local", record="jsonl", quiet=True).runs["accuracy"]))
"""
    assert process([sys.executable, "-c", code], cwd=workplace).succeeded().strip().endswith("{0.7}")


def test_a_notebook_that_imported_the_module_first(workplace: Path, module: str) -> None:
    space = write(workplace, module)
    code = f"""
import sys, time
import orchestrator as o
sys.path.insert(0, {str(workplace)!r})
import {module}
text = open({module}.__file__).read()
open({module}.__file__, "w").write(text.replace("0.9", "0.7"))
print(set(o.run({str(space)!r}, engine="local", record="jsonl", quiet=True).runs["accuracy"]))
"""
    assert process([sys.executable, "-c", code], cwd=workplace).succeeded().strip().endswith("{0.7}")


@pytest.mark.slow
def test_a_class_of_a_script_is_refused_under_ray(workplace: Path) -> None:
    (workplace / "script.py").write_text(
        MODEL.format(score="0.9", version=1, first="pass", imports="import orchestrator as o")
        + "import sys\n"
        + "answer = o.run('space.yaml', engine=sys.argv[1], record='jsonl', quiet=True)\n"
        + "print(set(answer.runs['accuracy']))\n"
    )
    (workplace / "space.yaml").write_text(SPACE.format(family="__main__:Board", mixes="checkers"))
    assert process([sys.executable, "script.py", "local"], cwd=workplace).succeeded().strip() == "{0.9}"
    ended = process([sys.executable, "script.py", "ray"], cwd=workplace)
    assert "Ray's workers cannot import __main__:Board from a script or notebook" in ended.err
