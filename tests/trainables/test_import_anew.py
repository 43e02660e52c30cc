"""Changed modules are imported anew, as in a notebook that has just been started."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
import runpy
import shutil
import sys
import time
import types
import zipfile
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from trainables.contract import present_code
from trainables.contract.present_code import code_held, make_present
from trainables.contract.sources import source_hash
from trainables.contract.user_code import import_code
from trainables.contract.user_modules import files_of

_numbers = itertools.count()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that Python finds, which imports its module ``study``."""
    folder = tmp_path / f"anew_{next(_numbers)}"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return folder


@pytest.fixture
def study(package: Path) -> Callable[..., Any]:
    """Writes files of the package, and returns the value of SCORE that a sweep of its module ``study`` would train."""

    def trained(**sources: str | None) -> Any:
        for name, source in sources.items():
            file = package / f"{name}.py"
            file.write_text(source) if source is not None else file.unlink()
        name = f"{package.name}.study"
        make_present(name)
        module = import_code(name)
        source_hash(f"{name}:SCORE")
        return module.SCORE

    return trained


def test_a_name_that_a_file_defines_no_more_is_gone(study: Callable[..., Any]) -> None:
    optional = "from . import helper\nSCORE = getattr(helper, 'FAST', 'slow')\n"
    assert study(helper="FAST = 'fast'\n", study=optional) == "fast"
    assert study(helper="") == "slow"


def test_an_optional_module_may_be_deleted_and_come_back(study: Callable[..., Any]) -> None:
    optional = "try:\n    from .fast import SCORE\nexcept ImportError:\n    SCORE = 1\n"
    assert study(fast="SCORE = 2\n", study=optional) == 2
    assert study(fast=None) == 1
    assert study(fast="SCORE = 3\n") == 3


def test_an_optional_module_may_raise(study: Callable[..., Any]) -> None:
    optional = "try:\n    from .fast import SCORE\nexcept Exception:\n    SCORE = 1\n"
    assert study(fast="SCORE = 2\n", study=optional) == 2
    assert study(fast="raise ValueError\n") == 1


def test_modules_that_share_a_registry_of_their_package_register_once(study: Callable[..., Any]) -> None:
    outer = "ALL = {}\nfrom . import one, two\n"
    part = "from . import ALL\nassert {0!r} not in ALL\nALL[{0!r}] = {1}\n"
    main = "from . import ALL\nSCORE = dict(ALL)\n"
    sources = {"__init__": outer, "one": part.format("one", 1), "two": part.format("two", 2), "study": main}
    assert study(**sources) == {"one": 1, "two": 2}
    assert study(two=part.format("second", 22)) == {"one": 1, "second": 22}


def test_modules_share_an_enum_of_their_package(study: Callable[..., Any]) -> None:
    outer = "import enum\nclass Kind(enum.Enum):\n    GOOD = {}\nfrom . import user\n"
    user = "from . import Kind\ndef is_good(kind):\n    return kind is Kind.GOOD, kind.value\n"
    main = "from . import Kind\nfrom .user import is_good\nSCORE = is_good(Kind.GOOD)\n"
    assert study(__init__=outer.format(1), user=user, study=main) == (True, 1)
    assert study(__init__=outer.format(2)) == (True, 2)


def test_a_second_name_of_a_file_is_imported_anew(package: Path, study: Callable[..., Any]) -> None:
    other = f"other_{package.name}"
    (package.parent / f"{other}.py").symlink_to(package / "helper.py")
    main = f"import {other}\nfrom . import helper\nSCORE = helper.VALUE, {other}.VALUE\n"
    assert study(helper="VALUE = 1\n", study=main) == (1, 1)
    assert study(helper="VALUE = 2\n") == (2, 2)


@pytest.mark.parametrize("made", ["Board()", "types.ModuleType('other')"])
def test_an_object_in_the_place_of_a_module_is_made_anew(made: str, study: Callable[..., Any]) -> None:
    helper = (
        f"import sys, types\nclass Board:\n    pass\nsys.modules[__name__] = {made}\nsys.modules[__name__].VALUE = "
    )
    assert study(helper=f"{helper}1\n", study="from . import helper\nSCORE = helper.VALUE\n") == 1
    assert study(helper=f"{helper}2\n") == 2


def test_a_failed_import_changes_nothing(package: Path, study: Callable[..., Any]) -> None:
    main = "from . import helper\nSCORE = helper.VALUE\n"
    assert study(helper="VALUE = 1\n", study=main) == 1
    module, helper = (sys.modules[f"{package.name}.{name}"] for name in ("study", "helper"))
    with pytest.raises(ZeroDivisionError):
        study(helper="VALUE = 2\n", study=main + "1 / 0\n")
    assert sys.modules[f"{package.name}.study"] is module
    assert (module.SCORE, helper.VALUE, sys.modules[package.name].helper) == (1, 1, helper)
    assert study(helper="VALUE = 1\n", study=main) == 1
    assert study(helper="VALUE = 3\n") == 3


def test_an_edit_that_a_cell_imported_and_that_was_undone_is_not_trained(
    package: Path, study: Callable[..., Any]
) -> None:
    main = "from . import helper\ndef score():\n    return helper.VALUE\nSCORE = score\n"
    study(helper="VALUE = 1\n", study=main)
    first = study()
    assert first() == 1
    (package / "helper.py").write_text("VALUE = 22\n")
    importlib.reload(sys.modules[f"{package.name}.helper"])
    assert first() == 22
    assert study(helper="VALUE = 1\n")() == 1


def test_two_families_of_a_helper_both_have_its_present_code(package: Path, study: Callable[..., Any]) -> None:
    main = "from .helper import Base\nSCORE = Base\n"
    other = f"{package.name}.other"
    assert study(helper="class Base:\n    value = 1\n", study=main, other=main) is import_code(other).SCORE
    (package / "helper.py").write_text("class Base:\n    value = 22\n")
    make_present(other)
    assert import_code(other).SCORE.value == 22
    assert study() is sys.modules[f"{package.name}.helper"].Base


def test_two_users_of_a_helper_have_the_same_classes_of_it(package: Path, study: Callable[..., Any]) -> None:
    """As with a family and its probe. The probe is imported anew because the family is."""
    helper = "import enum\nclass Kind(enum.Enum):\n    GOOD = {}\ndef is_good(kind):\n    return kind is Kind.GOOD\n"
    main = "from .helper import Kind, is_good\nSCORE = lambda: (is_good(Kind.GOOD), Kind.GOOD.value)\n"
    other = f"{package.name}.other"
    study(helper=helper.format(1), study=main, other=main)
    import_code(other)
    study(helper=helper.format(22))
    for name in (other, f"{package.name}.study", other):
        make_present(name)
    assert [sys.modules[f"{package.name}.{name}"].SCORE() for name in ("study", "other")] == [(True, 22)] * 2


def test_another_user_of_a_helper_may_be_broken(
    package: Path, study: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    main = "from .helper import VALUE\nSCORE = VALUE\n"
    other = f"{package.name}.other"
    study(helper="VALUE = 1\n", study=main, other=main)
    import_code(other)
    assert study(helper="VALUE = 22\n", other=main + "1 / 0\n") == 22
    [line] = caplog.messages
    assert line == f"{other} has changed and cannot be imported again (ZeroDivisionError: division by zero)"
    with pytest.raises(ZeroDivisionError):
        import_code(other)
    assert study(other=main) == 22
    assert import_code(other).SCORE == 22


def test_an_edit_of_a_later_import_that_was_undone_is_not_trained(package: Path, study: Callable[..., Any]) -> None:
    main = "def score():\n    from .helper import VALUE\n    return VALUE\nSCORE = score\n"
    study(helper="VALUE = 1\n", study=main)
    (package / "helper.py").write_text("VALUE = 22\n")
    assert importlib.import_module(f"{package.name}.helper").VALUE == 22
    assert study(helper="VALUE = 1\n")() == 1


def test_a_cell_imported_an_edit_through_a_link(package: Path, study: Callable[..., Any], tmp_path: Path) -> None:
    study(helper="VALUE = 1\n", study="from . import helper\ndef SCORE():\n    return helper.VALUE\n")
    assert study()() == 1
    helper = sys.modules[f"{package.name}.helper"]
    (tmp_path / "link").symlink_to(package, target_is_directory=True)
    (package / "helper.py").write_text("VALUE = 22\n")
    exec(compile("VALUE = 22\n", str(tmp_path / "link" / "helper.py"), "exec"), vars(helper))
    assert study(helper="VALUE = 1\n")() == 1


def test_modules_that_only_cells_have_imported_stay(package: Path, study: Callable[..., Any]) -> None:
    outer = "PARTS = {}\n"
    mine = f"from {package.name} import PARTS\nPARTS['mine'] = 5\n"
    main = "from . import PARTS\nSCORE = lambda: (VALUE, PARTS.get('mine'))\nVALUE = {}\n"
    study(__init__=outer, mine=mine, study=main.format(1))
    held = importlib.import_module(f"{package.name}.mine")
    assert study(study=main.format(22))() == (22, 5)
    assert sys.modules[f"{package.name}.mine"] is held
    assert sys.modules[package.name].mine is held


def test_a_second_name_that_a_cell_gave_to_a_module_stays(package: Path, study: Callable[..., Any]) -> None:
    study(helper="VALUE = 1\n", study="from . import helper\nSCORE = 1\n")
    alias = f"old_{package.name}"
    sys.modules[alias] = sys.modules[f"{package.name}.helper"]
    study(helper="VALUE = 22\n")
    assert importlib.import_module(alias).VALUE == 22


def test_a_module_may_have_given_itself_another_class(study: Callable[..., Any]) -> None:
    lazy = "import sys, types\nclass Lazy(types.ModuleType):\n    VALUE = 1\nsys.modules[__name__].__class__ = Lazy\n"
    main = "from . import helper\nSCORE = helper.VALUE\n"
    assert study(helper=lazy, study=main) == 1
    with pytest.raises(ZeroDivisionError):
        study(helper="1 / 0\n")
    assert study(helper=lazy) == 1
    assert study(helper="VALUE = 22\n") == 22


def test_a_module_of_another_place_is_refused(
    package: Path, study: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `os.chdir` in a notebook, where the working directory is on the search path."""
    helper = f"helper_of_{package.name}"
    (tmp_path / f"{helper}.py").write_text("VALUE = 1\n")
    main = f"import {helper}\nSCORE = {helper}.VALUE\n"
    assert study(study=main) == 1
    other = tmp_path / "other" / f"{helper}.py"
    other.parent.mkdir()
    other.write_text("VALUE = 3\n")
    with monkeypatch.context() as changed:
        changed.setattr(sys, "path", [str(other.parent), *sys.path])
        with pytest.raises(ImportError, match=re.escape(f"imports {helper} from {other} instead of")):
            study(study=main + "SCORE += 1\n")
    assert study() == 2


def test_a_module_in_an_archive_keeps_its_state(package: Path, study: Callable[..., Any], tmp_path: Path) -> None:
    packed = tmp_path / "packed.zip"
    name = f"packed_{package.name}"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{name}.py", "STATE = []\n")
    sys.path.insert(0, str(packed))
    main = f"import {name}\n{name}.STATE.append(0)\nSCORE = len({name}.STATE)\n"
    assert study(study=main) == 1
    assert study(study=main + "\nOTHER = 1\n") == 2


def test_code_that_trains_is_not_replaced(package: Path, study: Callable[..., Any]) -> None:
    main = "from . import helper\nSCORE = lambda: helper.VALUE\n"
    score = study(helper="VALUE = 1\n", study=main, other=main)
    import_code(f"{package.name}.other")
    with code_held([f"{package.name}.study:Board"]):
        assert study() is score
        for write in (study, lambda **_: make_present(f"{package.name}.other")):
            with pytest.raises(ImportError, match=f"this process is running a sweep of {package.name}.study now"):
                write(helper="VALUE = 22\n")
        assert score() == 1
    assert study()() == 22


def test_code_that_a_cell_imports_again_while_it_trains_is_other_code(package: Path, study: Callable[..., Any]) -> None:
    name = f"{package.name}.study:Board"
    study(helper="VALUE = 1\n", study="from . import helper\nSCORE = 1\n")
    with code_held([name]):
        before = source_hash(name)
        (package / "helper.py").write_text("VALUE = 22\n")
        assert source_hash(name) == before
        importlib.reload(sys.modules[f"{package.name}.helper"])
        assert source_hash(name) != before
    (package / "helper.py").write_text("VALUE = 1\n")
    study()
    assert source_hash(name) == before


def test_bases_of_a_class_in_a_notebook_that_trains_are_not_replaced(
    package: Path, study: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    study(helper="VALUE = 1\n", study="from . import helper\nclass Base:\n    pass\nSCORE = Base\n")
    cells = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", cells)
    exec(f"from {package.name}.study import Base\nclass Board(Base):\n    pass\n", vars(cells))
    make_present("__main__", "Board")
    before = source_hash("__main__:Board")
    with code_held(["__main__:Board"]), pytest.raises(ImportError, match="this process is running a sweep"):
        study(helper="VALUE = 22\n")
    assert source_hash("__main__:Board") == before


def test_a_base_of_a_class_in_a_notebook_may_not_change(
    package: Path, study: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = package / "helper.py"
    study(helper="VALUE = 1\n", study="from . import helper\nclass Base:\n    rate = helper.VALUE\nSCORE = Base\n")
    cells = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", cells)
    cell = f"from {package.name}.study import Base\nclass Board(Base):\n    pass\n"
    exec(cell, vars(cells))
    make_present("__main__", "Board")
    make_present("__main__", "Board")
    helper.write_text("VALUE = 22\n")
    again = "was imported again after Board was made from it: import Base again, and run the cell of the class again"
    for _ in range(2):
        with pytest.raises(ImportError, match=again):
            make_present("__main__", "Board")
    exec(cell, vars(cells))
    make_present("__main__", "Board")
    assert vars(cells)["Board"].rate == 22
    make_present("__main__", "Board")


def test_a_base_of_a_class_in_a_notebook_is_imported_anew_by_another_sweep(
    package: Path, study: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "class Base:\n    rate = {}\nSCORE = Base\n"
    study(study=base.format(1))
    cells = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", cells)
    cell = f"from {package.name}.study import Base\nclass Board(Base):\n    pass\n"
    exec(cell, vars(cells))
    study(study=base.format(22))
    with pytest.raises(ImportError, match="was imported again after Board was made from it"):
        make_present("__main__", "Board")
    exec(cell, vars(cells))
    make_present("__main__", "Board")


MADE = {
    "a decorator": "def other(kind):\n    return type('Base', (kind,), {})\n@other\nclass Base:\n    pass\n",
    "a function": "def make():\n    class Base:\n        pass\n    return Base\nBase = make()\n",
    "a class": "class Outer:\n    class Base:\n        pass\nBase = Outer.Base\n",
}


@pytest.mark.parametrize("how", MADE)
def test_a_base_that_something_else_made_is_no_other_base(
    how: str, package: Path, study: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    study(study=MADE[how] + "SCORE = Base\n")
    cells = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", cells)
    exec(f"from {package.name}.study import Base\nclass Board(Base):\n    pass\n", vars(cells))
    for _ in range(2):
        make_present("__main__", "Board")


def test_a_class_of_a_family_in_a_notebook_is_looked_at_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bases are in this project and in Python itself, which are not the user's code."""
    cells = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", cells)
    exec("from trainables import SimpleFamily\nclass Board(SimpleFamily):\n    pass\n", vars(cells))
    begun = time.monotonic()
    make_present("__main__", "Board")
    assert time.monotonic() - begun < 1


def test_a_module_that_only_a_cell_reloaded_is_imported_anew_with_its_users(
    package: Path, study: Callable[..., Any]
) -> None:
    study(helper="VALUE = 1\n", study="SCORE = 1\n")
    (package / "later.py").write_text("from .helper import VALUE\nSCORE = VALUE\n")
    later = importlib.import_module(f"{package.name}.later")
    assert later.SCORE == 1
    (package / "helper.py").write_text("VALUE = 22\n")
    importlib.reload(sys.modules[f"{package.name}.helper"])
    make_present(f"{package.name}.later")
    assert later.SCORE == 22


def test_a_file_that_a_cell_ran_is_imported_anew(package: Path, study: Callable[..., Any]) -> None:
    study(study="SCORE = 1\n")
    (package / "later.py").write_text("SCORE = 1\n")
    later = importlib.import_module(f"{package.name}.later")
    (package / "later.py").write_text("SCORE = 22\n")
    runpy.run_path(str(package / "later.py"))
    make_present(f"{package.name}.later")
    assert later.SCORE == 22


def test_a_file_that_is_written_before_its_first_import_is_imported_once(
    package: Path, study: Callable[..., Any]
) -> None:
    helper = "import builtins\nVALUE = builtins.imports = getattr(builtins, 'imports', 0) + 1\n"
    main = "from .helper import VALUE\nSCORE = VALUE\n"
    assert [study(helper=helper, study=main), study(), study(helper=helper)] == [1, 1, 1]
    assert study(helper=helper + "OTHER = 1\n") == 2


def test_a_family_whose_folder_cannot_be_read_does_not_stop_others(
    package: Path, study: Callable[..., Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(study="SCORE = 1\n", other="SCORE = 1\n")
    other = f"{package.name}.other"
    import_code(other)

    def files_of_own(name: str) -> dict[str, Path]:
        if name == other:
            raise PermissionError(13, "Permission denied")
        return files_of(name)

    monkeypatch.setattr(present_code, "files_of", files_of_own)
    assert study(study="SCORE = 22\n") == 22
    [line] = caplog.messages
    assert line.startswith(f"could not check whether {other} shares files with {package.name}.study")


def test_what_a_cell_holds_and_changes_is_what_trains(package: Path, study: Callable[..., Any]) -> None:
    main = "from . import helper\ndef score():\n    return helper.VALUE\nSCORE = score\n"
    study(helper="VALUE = 1\n", study=main)
    held = sys.modules[f"{package.name}.helper"]
    study(helper="VALUE = 22\n")
    assert held.VALUE == 22
    vars(held)["VALUE"] = 3
    assert study()() == 3


def test_a_module_that_stays_is_still_an_attribute_of_its_package(package: Path, study: Callable[..., Any]) -> None:
    """Python keeps a directory without ``__init__.py``, which is not one of the family's modules."""
    (package / "data").mkdir()
    (package / "data" / "table.py").write_text("ROWS = 5\n")
    main = f"import {package.name}.data.table\nSCORE = {package.name}.data.table.ROWS\n"
    assert study(study=main) == 5
    assert study(study=main + "SCORE += 1\n") == 6
    (package / "__init__.py").write_text("import sys\n")
    assert study() == 6


def test_a_compiled_module_that_was_built_before_its_import_may_stay(package: Path, study: Callable[..., Any]) -> None:
    """An earlier cell may have built it. Editing another file must not make the sweep refuse it."""
    origin = importlib.util.find_spec("_bisect")
    assert origin is not None
    assert origin.origin is not None
    built = package / f"_bisect{EXTENSION_SUFFIXES[0]}"
    shutil.copy(origin.origin, built)
    main = "from . import _bisect\nSCORE = "
    assert study(study=main + "1\n") == 1
    assert study() == 1
    assert study(study=main + "22\n") == 22
    with built.open("ab") as file:
        file.write(b"changed")
    with pytest.raises(ImportError, match="was built after this program started"):
        study()
