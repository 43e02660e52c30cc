"""The code of a script: which files a command names, and that a change of each changes the keys of its runs."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training_scripts import script_spec, written_space
from trainables.contract.settings import SettingsError
from trainables.script.code import code_files, code_hash, knows_code
from trainables.script.options import ScriptOptions

FILES = {
    "project/package/__main__.py": "from . import inner\nimport near\n",
    "project/package/near.py": "",
    "project/start": "#!/usr/bin/env python\nimport model\n",
    "project/train.v2.py": "import runpy\nrunpy.run_module('inner')\n",
    "project/inner/__init__.py": "",
    "project/inner/__main__.py": "",
    "project/own.py": "import orchestrator.part\n",
    "project/orchestrator/__init__.py": "",
    "project/orchestrator/part.py": "",
    "project/hiding.py": "import sys; sys.path.insert(0, __file__.rpartition('/')[0] + '/src'); import hidden\n",
    "project/hidden/data.txt": "",
    "project/seeking.py": "import hidden\n",
    "project/src/hidden.py": "",
    "project/run.sh": "cd .; python train.py {x}\n",
    "project/settings.yaml": "a: 1\n",
    "project/train.py": "import model\n",
    "project/model.py": "RATE = 1\n",
    "project/unused.py": "",
    "project/package/__init__.py": "",
    "project/package/inner.py": "",
    "lib/other.py": "import near\n",
    "lib/near.py": "",
}
COMMANDS = {
    "train.py": ("python train.py", {"model.py", "train.py"}),
    "a path above": ("python ../lib/other.py", {"../lib/near.py", "../lib/other.py"}),
    "an absolute path": ("python {root}/lib/other.py", {"{root}/lib/near.py", "{root}/lib/other.py"}),
    "a module": ("python -m train", {"model.py", "train.py"}),
    "a package": ("python -um package", {f"package/{name}.py" for name in ("__init__", "__main__", "inner", "near")}),
    "a folder": ("python package settings.yaml", {"package/__main__.py", "package/near.py", "settings.yaml"}),
    "a main file": ("python package/__main__.py", {"package/__main__.py", "package/near.py"}),
    "no suffix": ("./start", {"./start", "model.py", "start"}),
    "a name with dots": ("python train.v2.py", {"train.v2.py", "inner/__init__.py", "inner/__main__.py"}),
    "names of our packages": ("python own.py", {"own.py", "orchestrator/__init__.py", "orchestrator/part.py"}),
    "a hiding folder": ("python hiding.py", {"hiding.py", "src/hidden.py"}),
    "a shell script": ("bash run.sh", {"model.py", "run.sh", "train.py"}),
    "one option": ("python -mtrain", {"model.py", "train.py"}),
    "the value of an option": ("python train.py --config=settings.yaml", {"model.py", "settings.yaml", "train.py"}),
    "a module on the path": ("env PYTHONPATH=lib:src python -m hidden", {"src/hidden.py"}),
    "imports on the path": ("env PYTHONPATH=src python seeking.py", {"seeking.py", "src/hidden.py"}),
    "a launcher": ("torchrun --nproc 2 -m train", {"model.py", "train.py"}),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def options(place: Path, *command: str, directory: str = "project") -> ScriptOptions:
    return ScriptOptions(command, str(place / directory), metrics={"step": "s", "accuracy": "a"})


@pytest.mark.parametrize("in_a_shell", [False, True])
@pytest.mark.parametrize("kind", COMMANDS)
def test_the_files_of_a_command_are_hashed(kind: str, in_a_shell: bool, place: Path) -> None:
    text, named = COMMANDS[kind]
    text = text.format(root=place)
    script = options(place, *(["bash", "-c", f"exec {text} {{size}}"] if in_a_shell else text.split()))
    files = {name.format(root=place) for name in named}
    assert set(code_files(script)) == files
    assert knows_code(script)
    hashes = {code_hash(script)}
    for name in files:
        with (place / "project" / name).open("a") as file:
            file.write("RATE = 2\n")
        hashes.add(code_hash(script))
    assert len(hashes) == 1 + len(files)


def test_modules_next_to_the_target_of_a_link_are_hashed(place: Path) -> None:
    (place / "project" / "linked.py").symlink_to(place / "lib" / "other.py")
    assert code_files(options(place, "python", "linked.py")) == ["../lib/near.py", "linked.py"]


@pytest.mark.parametrize("command", [("python", "-m", "json.tool"), ("true", "{size}"), ("bash", "-c", "cd x; 'y")])
def test_without_known_code_the_directory_counts_and_a_warning_says_so(command: tuple[str, ...], place: Path) -> None:
    script = options(place, *command)
    assert not knows_code(script)
    assert code_files(script) == []
    assert code_hash(script) != code_hash(options(place, *command, directory="lib"))
    family = script_spec(place / "space", script={"command": list(command), "code": None}).make_family()
    assert "No file of the script is known, so its runs are reused even if its code changes." in family.warnings([8])[0]


def test_an_interpreter_is_not_the_code(place: Path) -> None:
    assert not knows_code(options(place, sys.executable, "-m", "json.tool"))
    assert not knows_code(options(place, sys.executable, "-c", "import train"))
    (place / "project" / "python3.11").symlink_to(sys.executable)
    assert not knows_code(options(place, "./python3.11", "-m", "json.tool"))


def test_a_configuration_file_is_not_the_program(place: Path) -> None:
    script = options(place, "env", "PYTHONPATH=src", "python", "-m", "elsewhere", "settings.yaml")
    assert code_files(script) == ["settings.yaml"]
    assert not knows_code(script)


def test_data_outside_the_directory_are_not_code(place: Path) -> None:
    (place / "data.txt").write_bytes(b"0" * (1 << 20) + b"0")
    (place / "data.bin").write_bytes(b"\0")
    (place / "config.toml").write_text("rate = 1\n")
    names = [str(place / name) for name in ("data.txt", "data.bin", "config.toml")]
    assert code_files(options(place, "python", "train.py", *names)) == [names[2], "model.py", "train.py"]


def test_two_projects_with_equal_commands_have_different_keys(place: Path) -> None:
    spaces = {}
    for name in ("one", "two"):
        command = {"command": [sys.executable, "-m", "train", "{size}"], "code": None}
        spaces[name] = script_spec(place / name, f"NAME = {name!r}\n", script=command)
    hashes = {spec.script.code_hash for spec in spaces.values() if spec.script is not None}
    assert len(hashes) == 2


@pytest.mark.parametrize("name", ["train.py", "model.py", "run.sh"])
def test_code_that_cannot_be_read_is_named(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every file, so the error of the system is raised here."""
    file = place / "project" / name
    read = Path.open

    def refuse(path: Path, *given: Any, **named: Any) -> Any:
        if path == file:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path, *given, **named)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SettingsError, match=f"{name} cannot be read: Permission denied"):
        code_hash(options(place, "bash", "run.sh"))


def test_a_package_with_too_many_modules_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.contract.user_modules.MOST_MODULES", 1)
    (place / "project" / "train.py").write_text("import package\n")
    with pytest.raises(SettingsError, match="has more than 1 modules"):
        code_files(options(place, "python", "train.py"))
    written_space(place / "space")
