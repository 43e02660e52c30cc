"""Settings for other projects affect neither this program nor its child processes."""

from __future__ import annotations

import os
import shlex
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from orchestrator.space.spaces import read_space
from orchestrator.system import environment
from orchestrator.system.commands import command_line
from orchestrator.system.environment import is_foreign, settle_user, user_path
from orchestrator.system.errors import UserError
from tests.cli.program import ROOT, line, process
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


def test_a_working_directory_with_modules_of_another_project_is_usable(tmp_path: Path) -> None:
    """They do not replace modules of Python, of a library or of this program, but a family there is found."""
    (tmp_path / "search_spaces").mkdir()
    for name in ("trainables", "numpy", "rich", "environment", "random"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the {name} of other work')\n")
    (tmp_path / "my_family.py").write_text((ROOT / "tests" / "families.py").read_text())
    text = spec(sizes=[8, 16], seeds=1).to_yaml()
    (tmp_path / "my_space.yaml").write_text(text.replace("tests.families:", "my_family:"))
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = process(line("plan", "my_space.yaml"), cwd=tmp_path, environment=variables)
    assert (done.code, done.err) == (0, "")


def test_foreign_variables_are_dropped_before_the_program_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "7")
    environment.begin()
    assert "MLFLOW_RUN_ID" not in os.environ


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
SCRIPT = INTERPRETER.with_name("orchestrator")


def without_script(patch: pytest.MonkeyPatch) -> None:
    """Make the console script look as if it ran another copy of the program."""
    patch.setattr("orchestrator.system.commands.distribution", lambda name: distribution("rich"))


def test_a_shell_that_finds_this_program_needs_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(INTERPRETER.parent), os.defpath]))
    assert command_line("run", "a space.yaml") == "orchestrator run 'a space.yaml'"
    without_script(monkeypatch)
    assert command_line("run", "a space.yaml") == "python -m orchestrator run 'a space.yaml'"


def test_another_program_on_the_path_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Environments link to one file, so a link to the same Python elsewhere does not have this program."""
    (tmp_path / "python").symlink_to(INTERPRETER.resolve())
    (tmp_path / "orchestrator").symlink_to(SCRIPT.resolve())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert command_line("status") == f"{shlex.quote(str(SCRIPT))} status"
    without_script(monkeypatch)
    assert command_line("status") == f"{shlex.quote(sys.executable)} -m orchestrator status"


def test_an_environment_below_the_working_directory_is_named_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    project = INTERPRETER.parents[2]
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(project)
    assert command_line("status") == f"{SCRIPT.relative_to(project)} status"
    without_script(monkeypatch)
    assert command_line("status") == f"{INTERPRETER.relative_to(project)} -m orchestrator status"


@pytest.mark.parametrize("shadow", ["orchestrator.py", "orchestrator/__main__.py"])
def test_printed_commands_run_this_program_next_to_another_of_its_name(
    shadow: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / shadow).parent.mkdir(exist_ok=True)
    (tmp_path / shadow).write_text("raise SystemExit('the orchestrator of other work')\n")
    monkeypatch.chdir(tmp_path)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = process(["sh", "-c", command_line("show")], cwd=tmp_path, environment=variables)
    assert (done.code, done.err) == (0, "")
    assert "add_vs_add_prod" in done.out


def test_a_deleted_working_directory_is_refused(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    line = f"cd {gone} && rmdir {gone} && {sys.executable} -m orchestrator run add_vs_add_prod --home {tmp_path}/home"
    done = process(["sh", "-c", line])
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert done.err.startswith("error: the working directory was deleted")
