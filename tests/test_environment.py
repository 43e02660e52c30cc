"""Settings for other projects affect neither this program nor its child processes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from orchestrator import environment
from orchestrator.commands import command_line
from orchestrator.environment import hiding, is_foreign, settle_user, user_path
from orchestrator.errors import UserError
from orchestrator.space.spaces import read_space
from tests.cli.program import ROOT, Ended, process
from tests.sweep.sweeps import spec


@pytest.mark.parametrize(
    ("foreign", "names"),
    [
        (True, "MLFLOW_STATIC_PREFIX MLFLOW_SERVER_ALLOWED_HOSTS MLFLOW_SQLALCHEMYSTORE_POOLCLASS _MLFLOW_SERVER_X"),
        (True, "UVICORN_PORT GUNICORN_CMD_ARGS FLASK_APP TUNE_RESULT_DIR MPLBACKEND SOURCE_DATE_EPOCH PYTHONWARNINGS"),
        (
            True,
            "RAY_AIR_NEW_OUTPUT RAY_TRAIN_V2_ENABLED RAY_CHDIR_TO_TRIAL_DIR TORCH_LOGS MATPLOTLIBRC WEB_CONCURRENCY",
        ),
        (False, "MLFLOW_TRACKING_URI MLFLOW_TRACKING_PASSWORD MLFLOW_TRACKING_SERVER_CERT_PATH MLFLOW_S3_ENDPOINT_URL"),
        (False, "MLFLOW_HTTP_REQUEST_TIMEOUT REQUESTS_CA_BUNDLE AWS_ACCESS_KEY_ID HTTPS_PROXY RAY_TMPDIR PATH HOME"),
    ],
)
def test_foreign_variables_are_dropped_and_needed_ones_passed(foreign: bool, names: str) -> None:
    assert {name: is_foreign(name) for name in names.split()} == dict.fromkeys(names.split(), foreign)


def test_a_library_call_restores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_RESULT_DIR", "/elsewhere")
    with environment.without_foreign():
        assert "TUNE_RESULT_DIR" not in os.environ
    assert os.environ["TUNE_RESULT_DIR"] == "/elsewhere"


def python(*words: str, directory: Path, **settings: str) -> Ended:
    """Run Python with this project installed, in a directory, without PYTHONPATH unless ``settings`` set it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | settings
    return process([sys.executable, *words], cwd=directory, environment=environment, within_s=250)


def program(*words: str, directory: Path, **settings: str) -> Ended:
    return python("-m", "orchestrator", *words, directory=directory, **settings)


def write_other(place: Path, name: str) -> None:
    """Write a module that ends any process that imports it."""
    (place / f"{name}.py").write_text(f"raise SystemExit('the {name} of other work')\n")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A working directory with modules of another project, and with a family next to its search space."""
    (place := tmp_path / "here").mkdir()
    (place / "search_spaces").mkdir()
    for name in ("trainables", "numpy", "ray", "rich", "typer", "environment", "supervisor"):
        write_other(place, name)
    (place / "my_family.py").write_text((ROOT / "tests" / "families.py").read_text())
    text = spec(sizes=[8, 16], seeds=1).to_yaml()
    (place / "my_space.yaml").write_text(text.replace("tests.families:", "my_family:"))
    return place


@pytest.fixture
def here_beside_python(directory: Path) -> Path:
    """The same, with modules that are named like some of Python's own."""
    for name in ("random", "heapq", "queue"):
        write_other(directory, name)
    return directory


@pytest.mark.parametrize(
    ("words", "path"),
    [("show", None), ("plan my_space.yaml", None), ("plan my_space.yaml", "."), ("plan my_space.yaml", "{}:")],
)
def test_modules_of_another_project_in_the_working_directory_are_not_imported(
    here_beside_python: Path, words: str, path: str | None
) -> None:
    """PYTHONPATH may be relative, for example in an ``.envrc``, or end in a colon."""
    settings = {} if path is None else {"PYTHONPATH": path.format(here_beside_python.parent)}
    done = program(*words.split(), directory=here_beside_python, **settings)
    assert (done.code, done.err) == (0, ""), done.err


def test_the_installed_command_runs_next_to_another_module_named_orchestrator(directory: Path) -> None:
    """``python -m orchestrator`` would import the other module."""
    (directory / "orchestrator.py").write_text("raise SystemExit('the orchestrator of other work')\n")
    command = shutil.which("orchestrator", path=Path(sys.executable).parent)
    if command is None:
        pytest.skip("the package is not installed")
    done = process([command, "plan", "my_space.yaml"], cwd=directory)
    assert (done.code, done.err) == (0, ""), done.err


def test_a_deleted_working_directory_is_refused(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    line = f"cd {gone} && rmdir {gone} && {sys.executable} -m orchestrator run add_vs_add_prod --home {tmp_path}/home"
    done = process(["sh", "-c", line])
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert done.err.startswith("error: the working directory was deleted")


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_descriptor_of_a_closed_standard_stream(closed: str, tmp_path: Path) -> None:
    """cron and daemons close these streams. Output of libraries would otherwise go to a journal."""
    code = "from orchestrator import environment; environment.begin(); print(1, file=open('file', 'w'))"
    code += "; import os; os.write(2, b'printed'); os.write(1, b'printed'); assert os.read(0, 1) == b''"
    (tmp_path / "program.py").write_text(code)
    subprocess.run(["sh", "-c", f"exec {sys.executable} program.py {closed}"], cwd=tmp_path, check=True)
    assert (tmp_path / "file").read_text() == "1\n"


def test_a_hidden_package_is_reported_in_one_line(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = program("show", directory=tmp_path / "elsewhere", PYTHONPATH=os.pathsep.join([str(directory), str(ROOT)]))
    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    path = directory / "trainables.py"
    assert line.startswith(f"error: {path} hides the package 'trainables' of this program: rename it")


def test_a_hidden_package_is_reported_from_python_too(directory: Path) -> None:
    done = python("-c", "import orchestrator as o\ntry: o.load\nexcept ValueError as e: print(e)", directory=directory)
    assert "hides the package 'trainables'" in done.out


def test_a_directory_can_hide_a_package_like_a_module(tmp_path: Path) -> None:
    assert hiding("search_spaces", [str(tmp_path), str(ROOT)]) is None
    (tmp_path / "search_spaces").mkdir()
    assert hiding("search_spaces", [str(tmp_path)]) == str(tmp_path / "search_spaces")
    assert hiding("search_spaces", [str(tmp_path), str(ROOT)]) is None, "a regular package goes before a directory"


def test_warnings_turned_into_errors_do_not_end_the_program(tmp_path: Path) -> None:
    code = """
        import sys
        from orchestrator import environment
        environment.begin()
        import os, warnings
        warnings.warn("deprecated", DeprecationWarning)
        assert "PYTHONWARNINGS" not in os.environ and "MLFLOW_RUN_ID" not in os.environ
    """
    python("-c", textwrap.dedent(code), directory=tmp_path, PYTHONWARNINGS="error", MLFLOW_RUN_ID="7").succeeded()


@pytest.mark.parametrize("home", [None, "", "/no/such/home", ".", "~"])
def test_a_user_without_a_name_or_a_home_has_a_private_directory(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_entry(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home or "")
    if home is None:
        monkeypatch.delenv("HOME")
    monkeypatch.setenv("USER", "")
    monkeypatch.delenv("USER")
    settle_user()
    assert Path.home().parent == tmp_path
    assert Path.home().stat().st_mode & 0o077 == 0
    if not home:
        import getpass

        assert getpass.getuser() == f"uid-{os.getuid()}"


def test_a_tilde_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "asked.yaml").write_text(spec().to_yaml())
    assert read_space("~/asked.yaml").source == str(tmp_path / "asked.yaml")
    with pytest.raises(UserError, match="no user has that name"):
        user_path("~nobody-of-this-name/x")


INTERPRETER = Path(sys.executable)


def test_a_shell_that_finds_this_python_needs_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(INTERPRETER.parent), os.defpath]))
    assert command_line("run", "a space.yaml") == "python -m orchestrator run 'a space.yaml'"


def test_another_python_on_the_path_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Environments link to one file, so a link to the same Python elsewhere does not have this program."""
    (tmp_path / "python").symlink_to(INTERPRETER.resolve())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert command_line("status") == f"{shlex.quote(sys.executable)} -m orchestrator status"


def test_an_environment_below_the_working_directory_is_named_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    project = INTERPRETER.parents[2]
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(project)
    assert command_line("status") == f"{INTERPRETER.relative_to(project)} -m orchestrator status"
