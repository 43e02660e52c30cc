"""The code that trained a run is part of what was trained: other code is refused, or said."""

from __future__ import annotations

import importlib
import linecache
import os
import re
import shutil
import sys
import time
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

import orchestrator as o
from orchestrator.history.other_code import check_resumed
from orchestrator.history.sweeps import Sweep, create_sweep, load_sweep
from orchestrator.home.directories import Home
from orchestrator.home.run_files import read_origin
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import seal
from orchestrator.space.spaces import load_space
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.several_sweeps import run_sweep
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import remove_tree
from tests.cli.program import Program, process
from tests.cli.program import line as command_line
from tests.sweep.sweeps import ended, quiet, run_here, spec
from tests.training_scripts import GOOD, written_space
from trainables.base import Outcome, Status
from trainables.contract import sources, unknown_files
from trainables.contract.sources import hash_of_training_code, source_hash

pytestmark = pytest.mark.usefixtures("undrawn")

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
names = iter(range(1000))


@pytest.fixture
def module(workplace: Path) -> str:
    """A module name that no other test has imported."""
    return f"models_{next(names)}"


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


def test_each_run_keeps_the_hash_of_its_code(run: Program, workplace: Path, module: str) -> None:
    run(*train(write(workplace, module))).succeeded()
    origins = [read_origin(path) for path in Home(workplace / "results").runs.iterdir()]
    assert len(origins) == 3
    [source] = {origin.source for origin in origins if origin is not None}
    assert re.fullmatch(r"[0-9a-f]{16}", source)


@pytest.mark.slow
@pytest.mark.parametrize("edited", ["train", "helper"])
def test_edited_code_is_refused_with_two_ways_on(run: Program, workplace: Path, module: str, edited: str) -> None:
    """The code is edited in the module itself, or in a module of its folder that it imports."""
    helper = workplace / f"helper_{module}.py"
    helper.write_text("SCORE = 0.9\n")
    score, imports = f"helper_{module}.SCORE", f"import helper_{module}"
    space = write(workplace, module, score=score, imports=imports)
    run(*train(space)).succeeded()
    if edited == "helper":
        helper.write_text("SCORE = 0.7\n")
    else:
        write(workplace, module, score="0.7", imports=imports)
    message = run(*train(space)).refused()
    assert len(message.strip().splitlines()) == 1
    assert "has changed, and 3 finished runs" in message
    for way in ("version", "--fresh", "--set code=warn"):
        assert way in message
    assert len(Home(workplace / "results").sweep_ids()) == 1  # Nothing started.

    warned = run(*train(space, "--set", "code=warn")).succeeded()
    assert "3 finished runs" in warned
    assert accuracies() == {0.9}
    run(*train(space, "--fresh")).succeeded()
    assert accuracies() == {0.7}
    write(workplace, module, score="0.7" if edited == "train" else score, version=2, imports=imports)
    run(*train(space)).succeeded()
    assert accuracies() == {0.7}


PROBE = """
from trainables.probes.base import Probe, Probed

class Mean(Probe):
    name = "mean"

    def run(self, family, run, model, arrays, data):
        return Probed({{"value": {value}}})
"""


def test_reused_runs_are_probed_again_with_changed_code(run: Program, workplace: Path, module: str) -> None:
    """A user corrects a probe, and forgets its version."""
    space = write(workplace, module)
    with space.open("a") as file:
        file.write(f"probes: ['probe_{module}:Mean']\n")
    for value, comment in (("1", ""), ("1", "# Why.\n"), ("2", "")):
        (workplace / f"probe_{module}.py").write_text(PROBE.format(value=value) + comment)
        output = run(*train(space)).succeeded()
        assert ("Probed 3 earlier runs" in output) is (value == "2")
        assert set(o.load(home="results").runs["probe/mean/value"]) == {float(value)}
    assert (
        "3 already done" in run("probe", Home(workplace / "results").sweep_ids()[0], f"probe_{module}:Mean").succeeded()
    )


@pytest.mark.parametrize("is_listed", [False, True])
def test_changed_programs_next_to_a_script_are_said_unless_its_code_is_listed(
    is_listed: bool, run: Program, workplace: Path
) -> None:
    """The script computes the path of its package, so the package does not count as its code."""
    code = f"import sys, pathlib; sys.path.append(str(pathlib.Path(__file__).parents[0] / {'lib'!r}.lower()))\n{GOOD}"
    space = written_space(workplace / "project", code, script={"code": ["train.py"] if is_listed else None})
    package = workplace / "project" / "lib" / "package.py"
    package.parent.mkdir()
    package.write_text("SCALE = 1\n")
    run(*train(space)).succeeded()
    assert "have changed since" not in run(*train(space)).succeeded()
    package.write_text("SCALE = 2\n")
    warning = (
        f"programs or settings in {package.parents[1]} that are not known to belong to the script, such as "
        "lib/package.py, have changed since 4 finished runs"
    )
    assert (warning in run(*train(space)).succeeded()) is not is_listed
    assert (warning in run(*train(space, "--resume")).succeeded()) is not is_listed


@pytest.mark.slow
def test_a_script_under_ray_imports_from_its_own_environment(run: Program, workplace: Path) -> None:
    """With the path of the workers, it would train with Orchestrator's torch instead of its own."""
    place = workplace / "path.txt"
    code = f"import os\nopen({str(place)!r}, 'w').write(str(os.environ.get('PYTHONPATH')))\n"
    space = written_space(workplace / "project", code + GOOD)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process(command_line("run", space, "--record=jsonl"), cwd=workplace, environment=environment).succeeded()
    assert place.read_text() == "None"


@pytest.mark.slow
def test_programs_next_to_a_script_that_change_during_its_sweep_are_said(
    run: Program, workplace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first run writes the other program, whose name does not occur in the script."""
    code = f"import pathlib; pathlib.Path('OTHER.PY'.lower()).write_text('SCALE = 2')\n{GOOD}"
    space = written_space(workplace / "project", code, script={"code": None})
    (workplace / "project" / "other.py").write_text("SCALE = 1")
    run_sweep(load_space(str(space)), RunOptions(home=workplace / "results"), quiet())
    [sweep_id] = Home(workplace / "results").sweep_ids()
    assert (
        f"programs or settings in {workplace / 'project'} that are not known to belong to the script, such as "
        f"other.py, have changed during {sweep_id}; if the script runs them, its runs are of different code"
    ) in caplog.messages
    assert "since 4 finished runs of this sweep ended" in run(*train(space)).succeeded()
    run(*train(space, "--set", "seed=100")).succeeded()
    both = Home(workplace / "results").sweep_ids()
    newest, oldest = both[0], both[-1]
    assert "; their code for training differs." in run("compare", "--pooled", newest, oldest).succeeded()
    other = f"these sweeps trained different code of the project of the script in {workplace / 'project'}"
    assert other in run("compare", newest, oldest).err


@pytest.mark.slow
def test_runs_of_different_code_are_not_pooled(run: Program, workplace: Path, module: str) -> None:
    """The second sweep has other seeds, so none of its runs is refused."""
    space = write(workplace, module)
    run(*train(space, "--set", "code=warn")).succeeded()
    write(workplace, module, score="0.7")
    run(*train(space, "--set", "code=warn", "--set", "seed=100")).succeeded()
    both = Home(workplace / "results").sweep_ids()
    pooled = run("compare", "--pooled", *both).succeeded()
    assert "Pooled from 2 sweeps: 6 runs; their code for training differs." in pooled
    run(*train(space, "--set", "seed=200")).succeeded()
    newest = Home(workplace / "results").sweep_ids()[0]
    warning = f"warning: these sweeps trained different code of {module}:Board"
    compared = run("compare", *both)
    assert (compared.code, warning in compared.err, warning in run("compare", newest, both[0]).err) == (0, True, False)
    message = f"these sweeps cannot be pooled: the code of {module}:Board changed between their runs"
    assert message in run("compare", "--pooled", newest, both[1]).refused()
    assert "Pooled from 2 sweeps: 6 runs." in run("compare", "--pooled", newest, both[0]).succeeded()
    write(workplace, module, score="0.7", version=2)
    run(*train(space, "--set", "seed=300")).succeeded()
    words = ["compare", "--pooled", newest, Home(workplace / "results").sweep_ids()[0]]
    assert f"their runs are of version 1 and version 2 of {module}:Board" in run(*words).refused()


@pytest.mark.parametrize("change", ["code", "version"])
def test_a_command_that_reads_a_sweep_says_that_its_code_has_changed(
    change: str, run: Program, workplace: Path, module: str
) -> None:
    """The present code decides what ``status`` calls learned, and how many parameters a model has."""
    space = write(workplace, module)
    run(*train(space)).succeeded()
    assert "has changed since" not in run("status").succeeded()
    write(workplace, module, **({"score": "0.7"} if change == "code" else {"version": 2}))
    [sweep_id] = Home(workplace / "results").sweep_ids()
    warning = f"warning: the code of {module}:Board has changed since {sweep_id} started; what it computes from runs"
    for words in (["status"], ["status"], ["report"], ["explain"], ["export", sweep_id, "--output", "tables"]):
        ended = process(command_line(*words), cwd=workplace)
        assert (ended.code, ended.err.count(warning)) == (0, 1), ended.err


def test_a_resumed_sweep_has_no_numbers_of_an_earlier_probe(run: Program, workplace: Path, module: str) -> None:
    probe = workplace / f"probe_{module}.py"
    probe.write_text(PROBE.format(value="1"))
    named = f"probes: ['probe_{module}:Mean']\n"
    interrupted(workplace / "board.yaml", module, probes=named)
    probe.write_text(PROBE.format(value="2"))
    space = write(workplace, module)
    space.write_text(space.read_text() + named)
    assert "Probed 2 earlier runs" in run(*train(space, "--resume", "--set", "code=warn")).succeeded()
    assert list(o.load(home="results").runs["probe/mean/value"]) == [2.0] * 3


@pytest.mark.parametrize("later", ["run", "resume"])
def test_changed_code_of_this_project_is_said_in_one_line(
    later: str, run: Program, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with a checkout corrects a task that they added, and forgets the version of its family."""
    sweep = train(Path("add_vs_add_prod"), "--profile=smoke")
    run(*sweep).succeeded()
    again = [*sweep, *(["--resume"] if later == "resume" else [])]
    assert "own code" not in run(*again).succeeded()
    for module in ("history.other_code", "engine.campaign"):
        monkeypatch.setattr(f"orchestrator.{module}.hash_of_training_code", lambda: "0123456789abcdef")
    [line] = [line for line in run(*again).succeeded().splitlines() if "own code" in line]
    assert "Orchestrator's own code for training has changed (another commit, or your edits) since 8 finished" in line
    run(*sweep, "--fresh").succeeded()


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


@pytest.mark.parametrize("change", ["comment", "empty lines"])
def test_a_comment_is_no_change(run: Program, workplace: Path, module: str, change: str) -> None:
    space = write(workplace, module)
    run(*train(space)).succeeded()
    file = workplace / f"{module}.py"
    text = file.read_text()
    file.write_text(text.replace("    floor", "    # Why.\n    floor") if change == "comment" else f"{text}\n\n\n")
    assert "Reused 3 runs" in run(*train(space)).succeeded()


def interrupted(space: Path, module: str, *, cause: str = "raise KeyboardInterrupt", probes: str = "") -> str:
    """Run a sweep that is interrupted at its third run. Return its id."""
    write(space.parent, module, first=f"if size == 8: {cause}")
    space.write_text(space.read_text() + probes)
    code = f"import orchestrator as o; o.run({str(space)!r}, engine='local', record='jsonl')"
    ended = process([sys.executable, "-c", code], cwd=space.parent)
    assert ended.code != 0
    [sweep_id] = Home(space.parent / "results").sweep_ids()
    return sweep_id


@pytest.mark.slow
@pytest.mark.parametrize("change", ["version", "train"])
def test_resume_refuses_other_code(run: Program, workplace: Path, module: str, change: str) -> None:
    space = write(workplace, module)
    sweep_id = interrupted(space, module)
    assert len(list(Home(workplace / "results").runs.iterdir())) == 2
    write(workplace, module, score="0.7", version=2 if change == "version" else 1)
    message = run(*train(space, "--resume", sweep_id)).refused()
    assert f"{sweep_id} cannot be resumed" in message
    if change == "version":
        assert "has version 2, but had 1 when it started" in message
        message = run(*train(space, "--resume", sweep_id, "--set", "code=warn")).refused()  # Keys differ in any case.
        assert "has version 2" in message
        run(*train(space)).succeeded()
        assert accuracies() == {0.7}
    else:
        assert "has changed" in message
        warned = run(*train(space, "--resume", sweep_id, "--set", "code=warn")).succeeded()
        assert "has changed since" in warned
        assert accuracies() == {0.7, 0.9}


@pytest.mark.slow
def test_failed_runs_are_trained_again_by_corrected_code(run: Program, workplace: Path, module: str) -> None:
    space = write(workplace, module, first="if size == 8: raise ValueError('no data')")
    run(*train(space)).succeeded()
    [sweep_id] = Home(workplace / "results").sweep_ids()
    write(workplace, module, score="0.7")
    assert "has changed" in run(*train(space, "--resume", sweep_id)).refused()
    warned = run(*train(space, "--resume", sweep_id, "--retry-failed")).succeeded()
    assert "its finished runs are kept, because of --retry-failed" in warned
    assert list(o.load().runs.sort_values("size")["accuracy"]) == [0.9, 0.9, 0.7]


def test_a_sweep_without_finished_runs_continues_with_corrected_code(
    run: Program, workplace: Path, module: str
) -> None:
    space = write(workplace, module, score="90")
    assert run(*train(space)).code == 1
    write(workplace, module)
    [sweep_id] = Home(workplace / "results").sweep_ids()
    run(*train(space, "--resume", sweep_id)).succeeded()
    assert (accuracies(), o.load().state) == ({0.9}, "finished")


def test_a_file_is_read_again_if_size_and_second_of_the_change_stay(workplace: Path, module: str) -> None:
    space = write(workplace, module)
    file = workplace / f"{module}.py"
    load_space(str(space))
    times = file.stat().st_atime, file.stat().st_mtime
    file.write_text(file.read_text().replace("version = 1", "version = 2"))
    os.utime(file, times)
    assert load_space(str(space)).family_class.version == 2


SCORE, OTHER = "SCORE = 0.9\n", "SCORE = 0.7\n"
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


OUTSIDE = {
    "a folder above": "sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'shared'))",
    "a computed folder": "[sys.path.insert(0, str(one)) for one in pathlib.Path(__file__).parents[1].glob('sh*d')]",
}


@pytest.mark.parametrize("how", OUTSIDE)
def test_code_that_is_not_hashed_is_named(
    how: str, workplace: Path, module: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (workplace / "shared").mkdir()
    (workplace / "shared" / f"helper_{module}.py").write_text(SCORE)
    imports = f"import os, pathlib, sys; {OUTSIDE[how]}; from helper_{module} import SCORE"
    load_space(str(write(workplace / "models", module, score="SCORE", imports=imports)))
    helper = workplace / "shared" / f"helper_{module}.py"
    assert caplog.messages == [
        f"{module} also runs {helper}. Runs are reused even if these files change. Import them from the folder of "
        f"{module}, or raise its `version` when they change."
    ]
    load_space(str(write(workplace / "others", f"{module}_alone")))
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("name", ["{}.py", "{}/part.py"])
def test_a_file_that_a_function_imports_from_another_folder_is_named(
    name: str, workplace: Path, module: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    helper = workplace / name.format(f"helper_{module}")
    helper.parent.mkdir(exist_ok=True)
    helper.write_text(SCORE)
    helper = workplace / Path(name).parts[0].format(f"helper_{module}")
    imports = "import os, sys; sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))"
    load_space(str(write(workplace / "models", module, first=f"import json, helper_{module}", imports=imports)))
    assert [message.partition(". ")[0] for message in caplog.messages] == [f"{module} also runs {helper}"]


def test_a_resumed_sweep_that_has_only_checkpoints_says_that_other_programs_changed(workplace: Path) -> None:
    spec = load_space(str(written_space(workplace / "project", script={"code": None})))
    other = workplace / "project" / "other.py"
    other.write_text("SCALE = 1")
    sweep = create_sweep(spec, Home(workplace / "results"))
    (sweep.files.checkpoints / "stack.1").mkdir(parents=True)
    assert check_resumed(load_sweep(sweep.files.home, sweep.id), retry_failed=False) == ""
    other.write_text("SCALE = 2")
    os.utime(other, (time.time() + 5, time.time() + 5))
    assert check_resumed(load_sweep(sweep.files.home, sweep.id), retry_failed=False) == (
        f"programs or settings in {workplace / 'project'} that are not known to belong to the script, such as "
        f"other.py, have changed since {sweep.id} began; its interrupted runs continue. If the script runs them, pass "
        "--fresh, and list them under `script: code`"
    )
    remove_tree(sweep.files.checkpoints)
    assert check_resumed(load_sweep(sweep.files.home, sweep.id), retry_failed=False) == ""


def test_a_file_of_another_folder_that_was_imported_before_is_named(
    workplace: Path, module: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell of a notebook may have imported it."""
    helper = workplace / "lib" / f"helper_{module}.py"
    helper.parent.mkdir()
    helper.write_text(SCORE)
    monkeypatch.setattr(sys, "path", [str(helper.parent), *sys.path])
    importlib.import_module(helper.stem)
    load_space(str(write(workplace / "models", module, score="SCORE", imports=f"from {helper.stem} import SCORE")))
    assert [message.partition(". ")[0] for message in caplog.messages] == [f"{module} also runs {helper}"]


@pytest.mark.parametrize("code", ["runpy.run_path(%s)", "importlib.util.spec_from_file_location('x', %s)"])
def test_a_file_that_a_module_ran_by_its_path_before_the_sweep_is_named(
    code: str, workplace: Path, module: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell of a notebook has imported the module itself."""
    helper = workplace / "lib" / f"helper_{module}.py"
    helper.parent.mkdir()
    helper.write_text(SCORE)
    above = "os.path.dirname(os.path.dirname(os.path.abspath(__file__)))"
    imports = "import importlib.util, os, runpy; " + code % f"os.path.join({above}, 'lib', {helper.name!r})"
    space = write(workplace / "models", module, imports=imports)
    monkeypatch.setattr(sys, "path", [str(space.parent), *sys.path])
    importlib.import_module(module)
    load_space(str(space))
    assert [message.partition(". ")[0] for message in caplog.messages] == [f"{module} also runs {helper}"]


RUN_BY_TRAINING = {
    "an added folder": ("sys.path.insert(0, {lib!r}); import helper_{module}", "helper_{module}.py"),
    "a package without __init__": ("sys.path.insert(0, {lib!r}); import inner_{module}.part", "inner_{module}/part.py"),
    "a path of a package": ("import {module}; {module}.__path__ = [{lib!r}]; import {module}.part", "part.py"),
    "a file": (
        "(s := importlib.util.spec_from_file_location('x', {file!r})).loader.exec_module("
        "importlib.util.module_from_spec(s))",
        "computed.py",
    ),
    "a file in a cache": ("runpy.run_path({file!r})", ".cache/mods/torchinductor/helper.py"),
    "a script": ("runpy.run_path({file!r})", "run.py"),
    "a script in the working directory": (
        "here = os.getcwd(); os.chdir({lib!r}); runpy.run_path('{name}'); os.chdir(here)",
        "go.py",
    ),
    "compiled text": ("exec(compile(open({file!r}).read(), {file!r}, 'exec'))", "text.py"),
    "another process": ("subprocess.run([sys.executable, 'simulate.py'], cwd={lib!r})", "simulate.py"),
    "a shell": ("subprocess.run('cd /; sh {file} > /dev/null', shell=True)", "simulate.sh"),
    "a folder of a shell": ("subprocess.run('cd {lib} && python3 near.py', shell=True)", "near.py"),
    "a module": ("subprocess.run([sys.executable, '-m', 'part.{module}'], cwd={lib!r})", "part/{module}.py"),
    "a program without suffix": ("subprocess.run([{file!r}])", "simulate"),
    "os.system": ("os.system('sh {file}; true')", "system.sh"),
    "a program of another language": ("subprocess.run(['true', {file!r}])", "score.pl"),
    "the program of a command": ("subprocess.run(['score'], executable={file!r})", "program.sh"),
    "the program of a spawned process": ("os.waitpid(os.posix_spawn({file!r}, ['score'], os.environ), 0)", "spawn.sh"),
    "a file of a shell": ("subprocess.run(['sh', '-e', {file!r}, os.devnull])", "plain"),
    "a file of a shell in a text": ("subprocess.run('true; cd {lib} && sh ./{name} /bin/cat', shell=True)", "plain"),
    "a directory": ("subprocess.run([sys.executable, '-B', {lib!r}])", "__main__.py"),
    "an archive": ("subprocess.run([sys.executable, {file!r}], stderr=subprocess.DEVNULL)", "app.zip"),
    "a module after other options": (
        "subprocess.run([sys.executable, '-Bm', 'most_{module}'], cwd={lib!r})",
        "most_{module}.py",
    ),
    "a module in an option": ("subprocess.run([sys.executable, '-mown_{module}'], cwd={lib!r})", "own_{module}.py"),
}


WITHOUT_INTERPRETER = ("plain", "score.pl", "app.zip")
"""Files in them that do not begin with the name of an interpreter."""


@pytest.mark.parametrize("how", RUN_BY_TRAINING)
def test_a_file_that_training_runs_in_another_folder_is_named_at_the_end_of_a_run(
    how: str,
    run: Program,
    workplace: Path,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing at import time leads to the file."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    code, name = RUN_BY_TRAINING[how]
    lib = workplace / "lib"
    file = lib / name.format(module=module)
    file.parent.mkdir(parents=True)
    file.write_text("" if file.suffix == ".py" or file.name in WITHOUT_INTERPRETER else "#!/bin/sh\n")
    file.chmod(0o755)
    first = code.format(lib=str(lib), file=str(file), module=module, name=file.name)
    space = write(
        workplace / "models", module, first=first, imports="import importlib.util, os, runpy, subprocess, sys"
    )
    run(*train(space)).succeeded()
    warnings = [message.partition(". ")[0] for message in caplog.messages if "also runs" in message]
    assert warnings == [f"{module} also runs {file}"]


def test_modules_that_libraries_make_while_a_run_trains_are_no_unknown_code(
    run: Program, workplace: Path, module: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray gives a module of Python another name, torch and Triton import what they have compiled."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(workplace / "compiled"))
    made_by_torch = ("torchinductor_me/ab/made.py", ".cache/torch_extensions/py311_cpu/made.py", "compiled/made.py")
    files = {"numpy._made_here": "made.py", "made_by_triton": ".triton/cache/made.py", "made": ".pyxbld/lib/made.py"}
    files |= {f"made_by_torch_{number}": name for number, name in enumerate(made_by_torch)}
    for name in files.values():
        (workplace / name).parent.mkdir(parents=True, exist_ok=True)
        (workplace / name).touch()
    made = {name: str(workplace / file) for name, file in files.items()}
    first = (
        "import numpy, sys, types, zipfile; sys.modules['other_zipfile'] = zipfile; "
        f"sys.modules.update({{name: types.SimpleNamespace(__file__=file) for name, file in {made!r}.items()}})"
    )
    try:
        run(*train(write(workplace / "models", module, first=first))).succeeded()
    finally:
        for name in ("other_zipfile", *files):
            sys.modules.pop(name, None)
    assert [message for message in caplog.messages if "also runs" in message] == []


def test_threads_may_import_modules_while_unknown_code_is_looked_for(
    workplace: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of MLflow does so while a run ends."""
    load_space(str(write(workplace / "models", module)))
    earlier = unknown_files.executed_code()
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def import_another(name: str) -> str:
        sys.modules[f"imported_{len(sys.modules)}"] = ModuleType("imported")
        return name.partition(".")[0]

    monkeypatch.setattr(unknown_files, "top_name", import_another)
    assert unknown_files.unknown_files_text([module], earlier) == ""


def test_a_run_whose_code_cannot_be_looked_for_is_no_failed_run(
    run: Program, workplace: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Libraries make modules that import others when they are asked for anything."""
    lazy = "type('Lazy', (), {'__getattr__': lambda self, name: 1 / 0})()"
    try:
        run(*train(write(workplace / "models", module, first=f"import sys; sys.modules['lazy'] = {lazy}"))).succeeded()
    finally:
        sys.modules.pop("lazy", None)
    text = f"could not check which other files {module} runs (ZeroDivisionError: division by zero)"
    assert [message for message in caplog.messages if "other files" in message] == [text]


def test_a_family_that_imports_torch_first_runs_no_unknown_code(workplace: Path, module: str) -> None:
    """Torch makes modules whose files do not exist, such as torch.ops."""
    space = write(workplace, module, imports="import torch")
    ended = process([sys.executable, "-m", "orchestrator", "plan", space], cwd=workplace)
    assert ended.succeeded().startswith("board: ")
    assert ended.err == ""


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


def test_extend_refuses_other_code(run: Program, workplace: Path, module: str) -> None:
    space = write(workplace, module)
    run(*train(space)).succeeded()
    write(workplace, module, score="0.7")
    [sweep_id] = Home(workplace / "results").sweep_ids()
    assert "has changed" in run(*train(space, "--extend", sweep_id, "--set", "seeds=2")).refused()


def test_a_home_without_hashes_is_continued(run: Program, workplace: Path, module: str) -> None:
    """Runs of earlier versions have no hash, so nothing is known about their code."""
    space = write(workplace, module)
    run(*train(space)).succeeded()
    for path in Home(workplace / "results").runs.glob("*/origin.json"):
        path.write_text(re.sub(r', "source": "\w+"', "", path.read_text()))
        (path.parent / "contents.json").unlink()
        seal(path.parent)
    write(workplace, module, score="0.7")
    assert "Reused 3 runs" in run(*train(space)).succeeded()


@pytest.mark.slow
def test_modules_of_the_same_name_are_found_by_folder(run: Program, workplace: Path, module: str) -> None:
    one, two = write(workplace / "one", module), write(workplace / "two", module, score="0.7")
    run(*train(one)).succeeded()
    message = run(*train(two)).refused()
    assert f"the code of {module}:Board in {two.parent} differs from the code in {one.parent}" in message
    run(*train(two, "--home", "other")).succeeded()
    assert accuracies("other") == {0.7}
    assert accuracies() == {0.9}
    run(*train(one, "--set", "seeds=2")).succeeded()  # Back in the first project.
    assert accuracies() == {0.9}


def test_modules_next_to_a_space_come_before_those_of_the_working_directory(workplace: Path, module: str) -> None:
    write(workplace, module)
    space = write(workplace / "two", module, score="0.7")
    ended = process([sys.executable, "-m", "orchestrator", *train(space)], cwd=workplace)
    ended.succeeded()
    assert accuracies() == {0.7}


def test_specifications_keep_the_code_of_their_folder(workplace: Path, module: str) -> None:
    one = load_space(str(write(workplace / "one", module)))
    two = load_space(str(write(workplace / "two", module, score="0.7")))
    assert one.source != two.source
    assert [spec.checked().folder for spec in (one, two, one)] == [
        str(workplace / name) for name in ("one", "two", "one")
    ]
    assert one.checked().source == one.source
    assert set(o.run(one, engine="local", quiet=True).runs["accuracy"]) == {0.9}
    write(workplace / "one", module, score="0.8")
    assert two.refreshed().source == two.source
    assert one.refreshed().source not in (one.source, two.source)


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


def hash_of_cell(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the hash of a class in a cell of a notebook, whose source is kept as IPython does."""
    notebook = ModuleType("board_cells")
    monkeypatch.setitem(sys.modules, "board_cells", notebook)
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    exec(compile(text, name, "exec"), vars(notebook))
    return source_hash("board_cells:Board")


def test_an_attribute_of_a_class_in_a_notebook_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    first = hash_of_cell("<cell 1>", CELL, monkeypatch)
    assert hash_of_cell("<cell 2>", CELL.replace("class Other:", "class Another:"), monkeypatch) == first
    changes = (("rate = 1", "rate = 2"), ("return 1", "return 2"))
    others = {hash_of_cell(f"<cell of {new}>", CELL.replace(old, new), monkeypatch) for old, new in changes}
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
    importlib.import_module("torch")  # It needs the source of its own functions when it is imported.
    cell = f"class Board:\n    {text}\n"
    if not has_source:
        monkeypatch.setattr(linecache, "getlines", lambda *_: [])
    first = hash_of_cell("<cell 1>", cell, monkeypatch)
    assert len(first) == 16
    assert hash_of_cell("<cell 2>", cell, monkeypatch) == first
    assert hash_of_cell("<cell 3>", cell.replace("return 1", new), monkeypatch) != first


def test_the_loaded_base_of_a_class_in_a_notebook_is_hashed(
    workplace: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes after it was imported. A new notebook has the new base, and another hash."""
    monkeypatch.setattr(sys, "path", [str(workplace), *sys.path])
    file = workplace / f"{module}.py"
    file.write_text("class Base:\n    def rate(self):\n        return 1\n")
    cell = f"from {module} import Base\nclass Board(Base):\n    pass\n"
    hash_of_cell("<cell 1>", cell, monkeypatch)
    file.write_text(file.read_text().replace("1", "22"))
    old = hash_of_cell("<cell 2>", cell, monkeypatch)
    del sys.modules[module]
    importlib.invalidate_caches()
    assert hash_of_cell("<cell 3>", cell, monkeypatch) != old


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
    first = hash_of_cell("<cell 1>", cell, monkeypatch)
    assert hash_of_cell("<cell 2>", cell.replace("1", "2"), monkeypatch) != first
    assert hash_of_cell("<cell 1>", cell, monkeypatch) == first
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


@pytest.mark.parametrize("code", ["refuse", "warn"])
def test_other_code_that_trains_at_the_same_time(code: str, tmp_path: Path) -> None:
    """Another sweep stores a run of this sweep after it was checked."""
    wanted = spec(sizes=[8, 16], code=code)

    def store(sweep: Sweep) -> None:
        for request in wanted.requests():
            config = wanted.config(request)
            scores = dict.fromkeys(config.mix.tasks, 0.5)
            other = RunStore(sweep.files.home, "other", source="f" * 16)
            other.put(wanted.make_family().key(config), Outcome(Status.FINISHED, 3, scores, scores), {})

    if code == "warn":
        run_here(wanted, tmp_path, invocation=Invocation(begun=store))
        assert {entry.trained_for for entry in ended(tmp_path)} == {"other"}
        return
    with pytest.raises(SweepError, match=r"was trained by other code of tests\.families:LogisticFamily, for other"):
        run_here(wanted, tmp_path, invocation=Invocation(begun=store))
    assert ended(tmp_path) == []


IN_WORKER = "'default_worker' in ' '.join(sys.orig_argv)"
WORKERS = [
    (f"version = 1 + ({IN_WORKER})", "has version 2, but the process that started the sweep has 1"),
    pytest.param(
        f"version = 1 / (not {IN_WORKER})",
        "cannot use the sweep: family: family .* ZeroDivisionError",
        marks=pytest.mark.night,
    ),
    pytest.param(f"name = str({IN_WORKER})", "computes different run keys than the process", marks=pytest.mark.night),
]
"""Lines of a class that differ between the driver and Ray's workers, as an edited file or another copy would."""


@pytest.mark.slow
@pytest.mark.parametrize(("line", "why"), WORKERS)
def test_a_worker_with_other_code_stops_the_sweep(workplace: Path, module: str, line: str, why: str) -> None:
    space = write(workplace, module, imports="import sys")
    file = workplace / f"{module}.py"
    file.write_text(file.read_text().replace("version = 1\n", f"{line}\n"))
    with pytest.raises(SweepError, match=why):
        o.run(space, quiet=True)
    assert o.load().state == "failed"
    assert len(o.load().runs) == 0


@pytest.mark.slow
def test_a_worker_with_other_code_of_a_probe_stops_the_sweep(workplace: Path, module: str) -> None:
    space = write(workplace, module)
    with space.open("a") as file:
        file.write(f"probes: ['probe_{module}:Mean']\n")
    probe = workplace / f"probe_{module}.py"
    probe.write_text(PROBE.format(value="1"))
    options = RunOptions(home=workplace / "results")
    invocation = Invocation(begun=lambda _: probe.write_text(PROBE.format(value="2")))
    with pytest.raises(SweepError, match=f"the code of the probes probe_{module}:Mean on .* differs from the process"):
        run_sweep(load_space(str(space)), options, quiet(), invocation)


@pytest.mark.slow
def test_a_file_that_changes_while_its_sweep_starts_stops_the_sweep(workplace: Path, module: str) -> None:
    space = write(workplace, module)
    file = workplace / f"{module}.py"
    changed = file.read_text().replace("0.9", "0.7")
    options = RunOptions(home=workplace / "results")
    invocation = Invocation(begun=lambda _: file.write_text(changed))
    with pytest.raises(SweepError, match="differs from the code in the process"):
        run_sweep(load_space(str(space)), options, quiet(), invocation)
