"""The hash of a family's code covers all that its module imports by name, and what this project trains with."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from orchestrator.space.spaces import load_space
from tests.cli.program import process
from tests.sweep.boards import MODEL, OTHER, SCORE, SPACE, write
from trainables.contract import sources
from trainables.contract.sources import hash_of_training_code

pytestmark = pytest.mark.usefixtures("undrawn")


def test_the_hash_of_this_project_covers_what_trains_and_nothing_else(tmp_path: Path) -> None:
    for package in ("trainables", "search_spaces"):
        shutil.copytree(sources.ROOT / package, tmp_path / package)
    now = hash_of_training_code.__wrapped__  # Not cached.
    hashes = {now(tmp_path)}
    operations = tmp_path / "trainables" / "tasks" / "operations.py"
    native, new = (tmp_path / name for name in ("trainables/transformer/native/step.cpp", "search_spaces/mine.py"))
    added = tmp_path / "trainables" / "vision" / "cnn.py"
    added.parent.mkdir()
    for path in (operations, native, new, added):
        with path.open("a") as file:
            file.write("x = 1\n")
        hashes.add(now(tmp_path))
    assert len(hashes) == 5
    (tmp_path / "trainables" / "contract" / "words.py").write_text("")
    operations.with_name(".#operations.py").symlink_to("user@host.1")  # Emacs does this while a file is open.
    operations.write_text(operations.read_text() + "# Why.\n")
    assert now(tmp_path) in hashes


def test_a_file_is_read_again_if_size_and_second_of_the_change_stay(workplace: Path, module: str) -> None:
    space = write(workplace, module)
    file = workplace / f"{module}.py"
    load_space(str(space))
    times = file.stat().st_atime, file.stat().st_mtime
    file.write_text(file.read_text().replace("version = 1", "version = 2"))
    os.utime(file, times)
    assert load_space(str(space)).family_class.version == 2


BY_NAME = "import importlib\nSCORE = importlib.import_module('helper_{module}').SCORE\n"
AROUND = "import sys\nSCORE = sys.modules['{module}'].SCORE"
RENAMED = "from importlib import import_module as load\nSCORE = load('.part', __package__).SCORE\n"
FROM_FILE = """
from importlib.util import module_from_spec, spec_from_file_location as spec_of
from pathlib import Path
spec = spec_of("any", Path(__file__).with_name("lib_{module}") / "helper.py")
helper = module_from_spec(spec)
spec.loader.exec_module(helper)
SCORE = helper.SCORE
"""
ADDED = """
import os, site, sys
from site import addsitedir as add
from sys import path as own
library = os.path.join(os.path.dirname(__file__), "lib_{module}")
%s
from own_{module} import SCORE
"""
IMPORTED = {
    "package": ("{module}/models.py", AROUND, "{module}/__init__.py"),
    "outer package": ("{module}/inner/models.py", AROUND, "{module}/__init__.py"),
    "by name": ("{module}.py", BY_NAME, "helper_{module}.py"),
    "by name in a package": ("{module}/models.py", RENAMED, "{module}/part.py"),
    "by file": ("{module}.py", FROM_FILE, "lib_{module}/helper.py"),
    "imported search path": ("{module}.py", ADDED % "own.insert(0, library)", "lib_{module}/own_{module}.py"),
    "renamed search path": ("{module}.py", ADDED % "it = sys.path; it += [library]", "lib_{module}/own_{module}.py"),
    "site directory": ("{module}.py", ADDED % "add(library)", "lib_{module}/own_{module}.py"),
}
"""For each way to import a module: the file of the family, a line in it, and the file of the module."""


@pytest.mark.parametrize("way", IMPORTED)
def test_the_hash_covers_what_a_module_imports(way: str, workplace: Path, module: str) -> None:
    file, imports, other = (text.format(module=module) for text in IMPORTED[way])
    (workplace / file).parent.mkdir(parents=True, exist_ok=True)
    (workplace / file).write_text(MODEL.format(score="SCORE", version=1, first="pass", imports=imports))
    (workplace / other).parent.mkdir(exist_ok=True)
    (workplace / other).write_text(SCORE)
    space = workplace / "board.yaml"
    name = file.removesuffix(".py").replace("/", ".")
    space.write_text(SPACE.format(family=f"{name}:Board", mixes="checkers"))
    before = load_space(str(space)).source
    assert load_space(str(space)).source == before
    (workplace / other).write_text(OTHER)
    assert load_space(str(space)).source != before


@pytest.mark.parametrize(("name", "changed"), [("study", "parts"), ("study", "__init__"), ("__main__", "inner/deep")])
def test_the_hash_covers_relative_imports_of_a_program_in_a_package(name: str, changed: str, workplace: Path) -> None:
    """It runs with ``python -m package`` or ``python -m package.study``."""
    package = workplace / "package"
    (package / "inner").mkdir(parents=True)
    for file in ("parts.py", "__init__.py", "inner/deep.py"):
        (package / file).write_text(SCORE)
    program = f"from .parts import SCORE\nfrom .inner import deep\n{MODEL}\nprint(source_hash('__main__:Board'))\n"
    imports = "from trainables.contract.sources import source_hash"
    (package / f"{name}.py").write_text(program.format(score="SCORE", version=1, first="pass", imports=imports))
    line = [sys.executable, "-m", "package" if name == "__main__" else f"package.{name}"]
    before = process(line, cwd=workplace).succeeded()
    assert re.fullmatch("[0-9a-f]{16}\n", before)
    assert process(line, cwd=workplace).succeeded() == before
    (package / f"{changed}.py").write_text(OTHER)
    assert process(line, cwd=workplace).succeeded() != before


@pytest.mark.parametrize("linked", ["module", "package"])
def test_the_hash_covers_modules_next_to_a_link(linked: str, workplace: Path, module: str) -> None:
    """A module that is a link imports modules from the folder of the link."""
    imports = f"from helper_{module} import SCORE"
    package = workplace / "elsewhere" / f"{module}_package"
    write(workplace / "elsewhere", module, score="SCORE", imports=imports)
    package.mkdir()
    (workplace / "elsewhere" / f"{module}.py").rename(package / f"{module}.py")
    if linked == "module":
        name = module
        (workplace / f"{module}.py").symlink_to(package / f"{module}.py")
    else:
        name = f"{module}_package.{module}"
        (workplace / package.name).symlink_to(package)
    helper = workplace / f"helper_{module}.py"
    helper.write_text(SCORE)
    space = workplace / "board.yaml"
    space.write_text(SPACE.format(family=f"{name}:Board", mixes="checkers"))
    before = load_space(str(space)).source
    assert load_space(str(space)).folder == str(workplace)
    helper.write_text(OTHER)
    assert load_space(str(space)).source != before


@pytest.mark.parametrize(
    "beginning",
    [b"SCORE = 0.9\n# Why.\r", b"# coding: utf-7\nSCORE = 0.9\n#+AAo-", b"SCORE = 0.9  # coding\r#\r"],
    ids=["lone CR", "encoding", "empty comment"],
)
def test_the_hash_covers_lines_that_only_look_like_comments(beginning: bytes, workplace: Path, module: str) -> None:
    space = write(workplace, module, score="SCORE", imports=f"from helper_{module} import SCORE")
    helper = workplace / f"helper_{module}.py"
    hashes, scores = [], []
    for line in (SCORE, OTHER):
        helper.write_bytes(beginning + line.encode())
        spec = load_space(str(space))
        hashes.append(spec.source)
        scores.append(sys.modules[spec.family_class.__module__].SCORE)
    assert scores == [0.9, 0.7]
    assert len(set(hashes)) == 2


def test_texts_that_are_too_long_for_names_of_files_are_no_modules(workplace: Path, module: str) -> None:
    """Ray and Hydra import by texts such as ``package.module``."""
    space = write(workplace, module, imports=f"TEXT = 'a.{'b' * 300}'\ndef load():\n    import {'c' * 300}")
    assert re.fullmatch(r"[0-9a-f]{16}", load_space(str(space)).source)
