"""Modules next to a search space: what they name is found in any process, and no other file in their folder runs."""

from __future__ import annotations

import json
import os
import py_compile
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

import orchestrator as o
from orchestrator.history.sweeps import load_sweep
from orchestrator.home.directories import Home
from orchestrator.space.spaces import load_space
from orchestrator.system.errors import UserError
from tests.chaos.ground import HEAD
from tests.cli.program import ROOT, Ended, line, process
from tests.home.test_trusted_code import BOARD, planted
from trainables.contract import user_code
from trainables.contract.user_code import path_of_children
from trainables.contract.user_modules import files_of, folders_of

OPTIONAL = ("ujson", "cython", "Cython", "sksparse", "scikits", "uarray", "brotli", "chardet", "uvloop", "backports")
"""Modules that libraries import if they are installed, and that are not."""
MODELS = """
import importlib
import multiprocessing
from importlib import import_module as load

import board_helper
from board_parts.layers import SHARE
from trainables import SimpleFamily

LITERAL = importlib.import_module("board_literal").VALUE
PLUGIN = load(f"board_plugins.{'one'}").VALUE


class Board(SimpleFamily):
    task_names = ("checkers",)
    floor = 0.5
    is_spawning = False

    def train(self, tasks, size, seed, settings):
        import board_late  # Only now.

        values = [board_helper.VALUE, SHARE, LITERAL, PLUGIN, board_late.VALUE]
        if self.is_spawning:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                values = pool.map(board_helper.same, values)
        yield 1, 0.1, sum(values) / 10
"""
PROJECT = {
    "my_models.py": MODELS,
    "board.yaml": BOARD,
    "board_helper.py": "VALUE = 1\n\n\ndef same(value):\n    return value\n",
    "board_parts/__init__.py": "from . import numbers\n",
    "board_parts/numbers.py": "SHARE = 2\n",
    "board_parts/layers.py": "from .numbers import SHARE\n",
    "board_literal.py": "VALUE = 1\n",
    "board_plugins/one.py": "VALUE = 1\n",  # In a package without a file.
    "board_late.py": "VALUE = 2\n",
}
ACCURACY = 0.7
PLAIN = """
from trainables import SimpleFamily
{imports}


class Board(SimpleFamily):
    task_names = ("checkers",)
    floor = 0.5

    def train(self, tasks, size, seed, settings):
        yield 1, 0.1, {score}
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a family, its siblings, and files of somebody else under the names of optional modules."""
    folder = tmp_path / "project"
    write(folder, PROJECT)
    write(folder, {f"{name}.py": f"open({str(tmp_path / 'marker')!r}, 'w')\n" for name in OPTIONAL})
    return folder


def in_folder(folder: Path, *words: object) -> Ended:
    """Run the program in a folder as a user does, without this clone on PYTHONPATH."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return process(line(*words), cwd=folder, environment=variables, within_s=200)


@contextmanager
def place_to_train(name: str) -> Iterator[list[str]]:
    """Yield the options of a place: this process, Ray on this machine, or a cluster that was there before."""
    if name != "cluster":
        yield ["--engine", name]
        return
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    cluster.add_node(num_cpus=1)
    try:
        yield ["--address", cluster.address]
    finally:
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["local", "ray", "cluster"])
def test_a_family_finds_its_siblings_and_libraries_find_nothing(place: str, project: Path, tmp_path: Path) -> None:
    with place_to_train(place) as options:
        in_folder(project, "run", "board.yaml", *options, "--record", "jsonl").succeeded()
    assert not (tmp_path / "marker").exists()
    home = Home(project / "results")
    [sweep_id] = home.sweep_ids()
    outcomes = [json.loads(path.read_text()) for path in home.runs.glob("*/outcome.json")]
    assert [outcome["accuracy"]["checkers"] for outcome in outcomes] == [ACCURACY] * 3
    for words in (["report", sweep_id], ["export", sweep_id, "--output", "tables"], ["sweeps"]):
        in_folder(project, *words).succeeded()
        assert not (tmp_path / "marker").exists(), words


@pytest.mark.slow
def test_a_home_that_names_code_of_a_trusted_folder_opens_the_folder_to_no_library(
    project: Path, tmp_path: Path
) -> None:
    """Reports and tables are made by libraries that try to import optional modules."""
    in_folder(project, "home", "trust", ".").succeeded()
    in_folder(project, "run", "board.yaml", "--engine", "local", "--record", "jsonl", "-q").succeeded()
    home = (project / "results").rename(tmp_path / "elsewhere")
    [sweep_id] = Home(home).sweep_ids()
    (tmp_path / "marker").unlink(missing_ok=True)
    assert "checkers" in in_folder(tmp_path, "explain", "--home", home).succeeded()
    for words in (["report", "--output", "report.html"], ["export", "--output", "tables"]):
        in_folder(tmp_path, *words, sweep_id, "--home", home).succeeded()
        assert not (tmp_path / "marker").exists(), words


@pytest.mark.slow
def test_a_compiled_file_of_somebody_else_does_not_run(project: Path, tmp_path: Path) -> None:
    planted(project / "board_helper.py", tmp_path / "marker")
    in_folder(project, "run", "board.yaml", "--engine", "local", "--record", "jsonl", "-q").succeeded()
    assert not (tmp_path / "marker").exists()


@pytest.mark.slow
def test_processes_that_a_family_starts_find_its_siblings(project: Path) -> None:
    (project / "my_models.py").write_text(MODELS.replace("is_spawning = False", "is_spawning = True"))
    in_folder(project, "run", "board.yaml", "--engine", "local", "--record", "jsonl", "-q").succeeded()
    outcomes = [json.loads(path.read_text()) for path in (project / "results" / "runs").glob("*/outcome.json")]
    assert [outcome["accuracy"]["checkers"] for outcome in outcomes] == [ACCURACY] * 3


def test_a_sibling_that_no_file_names_is_said(project: Path, workplace: Path) -> None:
    computed = 'importlib.import_module("_".join(["board", "unnamed"]))\n'
    write(project, {"board_unnamed.py": "", "my_models.py": MODELS.replace("\n\nclass", f"\n\n{computed}\n\nclass")})
    with pytest.raises(UserError, match=rf"No file of your code names {project}/board_unnamed\.py: import it in"):
        load_space(str(project / "board.yaml"))


def test_a_module_finds_others_in_the_working_directory_of_the_command(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not in the family's folder, so another node may have them elsewhere. They are not hashed."""
    models = PLAIN.format(imports="from board_common import VALUE", score="VALUE")
    space = BOARD.replace("my_models", "board_uncommon")
    files = {"spaces/board_uncommon.py": models, "board_common.py": "VALUE = 0.6\n", "spaces/board.yaml": space}
    write(workplace, files)
    monkeypatch.setattr(user_code, "_here", str(workplace))
    spec = load_space("spaces/board.yaml")
    assert folders_of([spec.family]) == {"board_uncommon": f"{workplace}/spaces", "board_common": str(workplace)}
    assert list(files_of("board_uncommon")) == ["board_uncommon"]
    answered = o.run("spaces/board.yaml", engine="local", quiet=True)
    assert set(answered.runs["accuracy"]) == {0.6}


def test_a_search_space_elsewhere_opens_the_working_directory_to_no_import(
    workplace: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user is in another user's folder, and names a search space of their own."""
    imports = "try:\n    import board_optional\nexcept ImportError:\n    board_optional = None"
    models = PLAIN.format(imports=imports, score=0.6)
    files = {"board_elsewhere.py": models, "board.yaml": BOARD.replace("my_models", "board_elsewhere")}
    other = tmp_path_factory.mktemp("other")
    write(workplace, files)
    write(other, {"board_optional.py": "raise ZeroDivisionError\n", "board_asked.py": models})
    monkeypatch.setattr(user_code, "_here", str(other))
    assert load_space(str(workplace / "board.yaml")).folder == str(workplace)
    assert sys.modules["board_elsewhere"].board_optional is None
    write(workplace, {"asked.yaml": BOARD.replace("my_models", "board_asked")})
    with pytest.raises(UserError, match=rf"{other}/board_asked\.py does not count: a search space finds modules in"):
        load_space(str(workplace / "asked.yaml"))


def test_a_directory_that_others_can_write_offers_no_imports_to_a_space_below(workplace: Path) -> None:
    files = {
        "spaces/board_below.py": PLAIN.format(imports="import board_above", score=0.6),
        "spaces/board.yaml": BOARD.replace("my_models", "board_below"),
        "board_above.py": "",
    }
    write(workplace, files)
    (workplace / "spaces").chmod(0o755)
    assert "checkers" in in_folder(workplace, "plan", "spaces/board.yaml").succeeded()
    os.chown(workplace, 12345, -1) if os.getuid() == 0 else workplace.chmod(0o1777)
    refused = in_folder(workplace, "plan", "spaces/board.yaml").refused()
    assert f"{workplace}/board_above.py does not count" in " ".join(refused.split())


LIBRARY = "import sys, os\nfrom pathlib import Path\nhere = os.path.dirname(os.path.abspath(__file__))\n"


@pytest.mark.parametrize(
    ("imports", "file"),
    [
        ("from {module}_parts import *", "parts/layer.py"),
        ("import {module}_parts.deep.inner", "parts/layer.py"),
        ("import importlib\nim = importlib.import_module\nim('{module}_parts.layer')", "parts/layer.py"),
        ("import importlib\nimportlib.import_module(__name__ + '_parts.layer')", "parts/layer.py"),
        ("import importlib\nimportlib.import_module(f'{{__name__}}_parts.layer')", "parts/layer.py"),
        ("import pkgutil\nSHARE = pkgutil.resolve_name('{module}_parts.layer:SHARE')", "parts/layer.py"),
        (LIBRARY + "sys.path.insert(0, here + '/lib')\nimport {module}_aside", "lib/{module}_aside.py"),
        (LIBRARY + "sys.path += [os.path.join(here, 'lib')]\nimport {module}_aside", "lib/{module}_aside.py"),
        (
            LIBRARY + "lib = Path(here) / 'deep' / 'lib'\nsys.path.append(str(lib))\nimport {module}_aside",
            "deep/lib/{module}_aside.py",
        ),
        (
            "from importlib.util import module_from_spec, spec_from_file_location\n"
            + LIBRARY
            + "spec = spec_from_file_location('any', here + '/lib/{module}_aside.py')\n"
            + "spec.loader.exec_module(module_from_spec(spec))",
            "lib/{module}_aside.py",
        ),
    ],
    ids=["star", "own name", "assigned", "sum", "formatted", "resolve_name", "path", "path list", "steps", "location"],
)
def test_what_a_module_imports_in_other_ways_is_hashed(
    imports: str, file: str, workplace: Path, request: pytest.FixtureRequest
) -> None:
    module = f"board_{request.node.callspec.id.replace(' ', '_')}"
    changed = file.format(module=module).replace("parts/", f"{module}_parts/")
    files = {
        f"{module}.py": PLAIN.format(imports=imports.format(module=module), score=0.6),
        f"{module}_parts/__init__.py": '__all__ = ["layer"]\n',
        f"{module}_parts/deep/inner.py": "import importlib\nimportlib.import_module('..layer', __name__)\n"
        if "deep.inner" in imports
        else "",
        "board.yaml": BOARD.replace("my_models", module),
    }
    # From pkg.deep.inner, one step up leads to pkg.deep, a package, and two to pkg.
    files[f"{module}_parts/deep/inner.py"] = files[f"{module}_parts/deep/inner.py"].replace("'..layer'", "'...layer'")
    write(workplace, files | {changed: "SHARE = 2\n"})
    first = load_space("board.yaml")
    write(workplace, {changed: "SHARE = 2222\n"})
    assert first.refreshed().source != first.source


FIND = "import importlib.util as u\nspec = u.find_spec('{package}.impl')\nmodule = u.module_from_spec(spec)\n"
BY_ANY_NAME = {
    "locate": "import pydoc\nSCORE = pydoc.locate('{package}.impl.SCORE')",
    "find_spec": FIND + "spec.loader.exec_module(module)\nSCORE = module.SCORE",
    "map": "import importlib\nSCORE = [*map(importlib.import_module, ['{package}.impl'])][0].SCORE",
    "partial": "import functools, importlib\nf = functools.partial(importlib.import_module, '.impl', __package__)\n"
    "SCORE = f().SCORE",
    "table": "import importlib\nSCORE = {{'any': importlib.import_module}}['any']('{package}.impl').SCORE",
    "constant": "import importlib\nNAME = '{package}.impl'\nSCORE = importlib.import_module(NAME).SCORE",
}
"""For each way to import a module by a name that is written out: the lines that import it."""
BY_COMPUTED_NAME = {
    "computed": "import importlib\nSCORE = importlib.import_module('.'.join([__package__, 'impl'])).SCORE",
    "lazy": "import {package}\nSCORE = {package}.impl.SCORE",
}
LAZY = (
    "def __getattr__(name):\n    from importlib import import_module\n    return import_module('.' + name, __name__)\n"
)


@pytest.mark.parametrize(
    ("way", "has_file"),
    # A package without a file may be any directory, so it does not count whole, and computed names are missed.
    [*((way, True) for way in (*BY_ANY_NAME, *BY_COMPUTED_NAME)), *((way, False) for way in BY_ANY_NAME)],
)
def test_a_module_of_a_package_is_hashed_however_it_is_imported(way: str, has_file: bool, workplace: Path) -> None:
    package = f"board_{way}_{has_file}".lower()
    imports = (BY_ANY_NAME | BY_COMPUTED_NAME)[way].format(package=package)
    space = BOARD.replace("my_models", f"{package}.main")
    files = {f"{package}/main.py": PLAIN.format(imports=imports, score="SCORE"), "board.yaml": space}
    if has_file:
        files[f"{package}/__init__.py"] = LAZY
    write(workplace, files | {f"{package}/impl.py": "SCORE = 0.5\n"})
    first = load_space("board.yaml")
    assert list(files_of(f"{package}.main"))[-1] == f"{package}.main"  # It is imported again after the others.
    write(workplace, {f"{package}/impl.py": "SCORE = 0.25\n"})
    second = first.refreshed()
    assert second.source != first.source
    assert sys.modules[f"{package}.main"].SCORE == 0.25


def test_a_package_counts_whole(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a file, or if a name in it is computed. A text that looks like a file's name imports nothing."""
    imports = "import board_whole, importlib\nimportlib.import_module('board_plugged.' + 'one'.lower())\n"
    imports += "FILE = 'board_aside.py'"
    files = [
        *("board_whole/__init__.py", "board_whole/deep/er.py", "board_whole/deep/in/__init__.py", "board_whole/a-b.py"),
        *("board_whole/.hidden/no.py", "board_whole/no.data.py", "board_whole/no.txt", "board_whole/1.0/no.py"),
        *("board_plugged/one.py", "board_plugged/two.py", "board_aside/py.txt", "board_aside/other.py"),
    ]
    space = BOARD.replace("my_models", "board_counts")
    write(workplace, dict.fromkeys(files, ""))
    write(workplace, {"board_counts.py": PLAIN.format(imports=imports, score=0.9), "board.yaml": space})
    (workplace / "board_whole" / "circle").symlink_to("..", target_is_directory=True)
    load_space("board.yaml")
    expected = {
        *("board_counts", "board_whole", "board_whole.deep.er", "board_whole.deep.in", "board_whole.a-b"),
        *("board_plugged.one", "board_plugged.two"),
    }
    found = {name for name in files_of("board_counts") if not name.startswith("board_whole.circle")}
    assert found == expected
    monkeypatch.setattr("trainables.contract.user_modules.MOST_MODULES", 2)
    with pytest.raises(ImportError, match=r"board_whole has more than 2 modules.*a package of its own"):
        files_of("board_counts")


def test_a_package_counts_whole_in_a_directory_without_a_file(workplace: Path) -> None:
    imports = "import importlib\nSCORE = importlib.import_module('.'.join([__package__, 'impl'])).SCORE"
    write(
        workplace,
        {
            "board_outer/inner/__init__.py": "",
            "board_outer/inner/main.py": PLAIN.format(imports=imports, score="SCORE"),
            "board_outer/inner/impl.py": "SCORE = 0.5\n",
            "board.yaml": BOARD.replace("my_models", "board_outer.inner.main"),
        },
    )
    first = load_space("board.yaml")
    write(workplace, {"board_outer/inner/impl.py": "SCORE = 0.25\n"})
    assert first.refreshed().source != first.source


def test_compiled_code_without_a_source_file_is_refused(workplace: Path) -> None:
    write(
        workplace,
        {
            "board_compiled/__init__.py": "",
            "board_compiled/main.py": PLAIN.format(imports="from board_compiled import impl", score="0.5"),
            "board_compiled/impl.py": "SCORE = 0.5\n",
            "board.yaml": BOARD.replace("my_models", "board_compiled.main"),
        },
    )
    source = workplace / "board_compiled" / "impl.py"
    py_compile.compile(str(source), str(source.with_suffix(".pyc")))
    source.unlink()
    with pytest.raises(UserError, match=r"impl\.pyc is compiled code without a source file: add impl\.py"):
        load_space("board.yaml")


def test_an_installed_package_without_a_file_comes_first(workplace: Path) -> None:
    imports = "import mpl_toolkits.axes_grid1"
    files = {"mpl_toolkits/__init__.py": "raise ZeroDivisionError\n", "mpl_toolkits/axes_grid1.py": ""}
    space = BOARD.replace("my_models", "board_namespace")
    write(workplace, files | {"board_namespace.py": PLAIN.format(imports=imports, score=0.9), "board.yaml": space})
    assert load_space("board.yaml").family_class.__module__ == "board_namespace"
    assert "site-packages" in str(sys.modules["mpl_toolkits.axes_grid1"].__file__)


def test_two_sweeps_of_one_process_find_the_siblings_of_their_folders(workplace: Path) -> None:
    models = PLAIN.format(imports="from board_two_helper import VALUE", score="VALUE")
    for folder, value in (("one", 0.6), ("two", 0.7)):
        space = BOARD.replace("my_models", "board_two")
        files = {"board_two.py": models, "board_two_helper.py": f"VALUE = {value}\n", "board.yaml": space}
        write(workplace / folder, files)
    for folder, value in (("one", 0.6), ("two", 0.7), ("one", 0.6)):
        answered = o.run(workplace / folder / "board.yaml", home=workplace / folder, engine="local", quiet=True)
        assert set(answered.runs["accuracy"]) == {value}
    both = [Home(workplace / folder) for folder in ("one", "two")]
    folders = [load_sweep(home, home.sweep_ids()[0]).spec.folder for home in both]
    assert folders == [str(workplace / "one"), str(workplace / "two")]


def test_other_processes_search_neither_the_working_directory_nor_the_users_folders(
    workplace: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook, Python itself searches both here."""
    folder, other = tmp_path_factory.mktemp("folder"), tmp_path_factory.mktemp("other")
    write(folder, {"board_alone.py": PLAIN.format(imports="", score=0.9)})
    write(workplace, {"board.yaml": BOARD.replace("my_models", "board_alone")})
    monkeypatch.setattr(sys, "path", ["", *sys.path, str(folder), str(other)])
    monkeypatch.setenv("PYTHONPATH", "")
    assert load_space("board.yaml").folder == str(folder)
    searched = path_of_children().split(os.pathsep)
    assert str(other) in searched
    assert str(ROOT) in searched
    assert {str(folder), str(workplace), ""}.isdisjoint(searched)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert str(folder) in path_of_children().split(os.pathsep)
