"""Files of other folders that a family imports or runs are named, and what libraries make is not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from orchestrator.space.spaces import load_space
from tests.cli.program import Program, process
from tests.sweep.boards import SCORE, train, write
from trainables.contract import unknown_files, user_code

pytestmark = pytest.mark.usefixtures("undrawn")


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


@pytest.mark.parametrize("is_package", [False, True])
def test_a_file_that_a_function_imports_from_the_working_directory_is_named(
    is_package: bool, workplace: Path, module: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named when the space is read, because a sweep whose runs are all reused calls no function."""
    monkeypatch.setattr(user_code, "_here", str(workplace))
    monkeypatch.setattr(user_code, "_is_here_open", False)
    package = workplace / f"common_{module}"
    package.mkdir()
    if is_package:
        (package / "__init__.py").touch()
    (package / "part.py").write_text(SCORE)
    (package / "unused.py").touch()
    load_space(str(write(workplace / "models", module, first=f"from common_{module}.part import SCORE")))
    names = ["__init__.py", "part.py", "unused.py"] if is_package else ["part.py"]
    files = ", ".join(str(package / name) for name in names)
    assert [message.partition(". ")[0] for message in caplog.messages] == [f"{module} also runs {files}"]
    load_space(str(write(workplace / "models", f"{module}_alone", first="import json")))
    assert len(caplog.messages) == 1


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
