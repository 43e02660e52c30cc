"""Ray's temporary directory and its tokens, and the error if one of them cannot be used."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import IO

import pytest
from ray._raylet import (  # type: ignore[attr-defined]
    AuthenticationMode,
    AuthenticationTokenLoader,
    get_authentication_mode,
)

from orchestrator.engine.ray import files
from orchestrator.engine.ray.files import (
    LOCK,
    TOKEN,
    TOKEN_MODE,
    TOKEN_PATH,
    end_processes,
    fresh_token,
    private_directory,
    protect_token,
    sessions_parent,
    token_file,
)
from orchestrator.system.errors import UserError
from tests.cli.program import ROOT

SHARED = "c0ffee" * 10 + "beef"
"""Token of a cluster, which all of its members know."""
READ_ONLY = Path("/proc")
"""A directory in which even root cannot create a file."""


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token path of a user who has no token yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (TOKEN_MODE, TOKEN, TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / ".ray" / "auth_token"


@pytest.mark.parametrize("bad", [Path("/tmp") / ("x" * 90), Path("/no/such"), READ_ONLY])
def test_a_temporary_directory_that_ray_cannot_use_is_refused(bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    assert sessions_parent() == Path("/tmp")
    monkeypatch.setenv("RAY_TMPDIR", str(bad))
    with pytest.raises(UserError, match=f"{bad}: set RAY_TMPDIR to a writable directory .* at most 28"):
        sessions_parent()


def test_a_directory_that_others_can_exchange_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's processes read the token from there by its path. The path of the directory of tests is too long for Ray."""
    monkeypatch.setattr(files, "LONGEST_PATH", 1000)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    tmp_path.chmod(0o777)
    reason = f"other users can write {tmp_path}, and could replace Ray's files: set RAY_TMPDIR"
    with pytest.raises(UserError, match=reason), private_directory():
        pytest.fail("it is used")
    tmp_path.chmod(0o1777)
    with private_directory() as directory:
        assert directory.parent.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys
from orchestrator.engine.ray.files import private_directory
with private_directory() as directory:
    print(directory, flush=True)
    sys.stdin.read()
"""


def test_a_private_directory_is_removed_at_the_end_and_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_PATH", 1000)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    foreign, victim = tmp_path / "ray-abcdefgh", tmp_path / "victim"
    for directory in (foreign, victim, tmp_path / "ray"):
        directory.mkdir(0o700)
        (directory / "precious").touch()
    (tmp_path / "ray-link1234").symlink_to(victim)
    (victim / LOCK).touch()
    code = f"from orchestrator.engine.ray import files; files.LONGEST_PATH = 1000\n{HOLD}"
    held, killed = (
        subprocess.Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT) for _ in range(2)
    )
    used, left = (Path(str(one.stdout and one.stdout.readline()).strip()).parent for one in (held, killed))
    killed.kill()
    killed.wait()
    (left / "session" / "logs").mkdir(parents=True)
    with private_directory() as own:
        own.mkdir(mode=0o777)
        assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
        assert used.is_dir()
        assert not left.exists()
        (own / "log").touch()
    assert not own.parent.exists()
    held.communicate("")
    assert not used.exists()
    names = {"ray", "ray-abcdefgh", "ray-link1234", "victim"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert all((tmp_path / name / "precious").exists() for name in names)


AGENT = """
import subprocess, sys
late = "import os, sys, time; print(flush=True); time.sleep(float(sys.argv[2])); os.makedirs(sys.argv[1].split('=')[1])"
option = f"--temp-dir={sys.argv[1]}/session_2026-01-01_00-00-00_000000_1/logs"
subprocess.Popen([sys.executable, "-c", late, option, sys.argv[2]])
"""
"""A program that starts another one, which has lost its parent when it makes a directory some seconds later."""


def _start_agent(inside: Path, delay_s: float = 1) -> IO[str]:
    """Start an agent with its files in a private directory. Return its output, which ends with it."""
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(inside), str(delay_s)], stdout=PIPE, text=True)
    agent.wait()
    assert agent.stdout is not None
    assert agent.stdout.readline() == "\n"
    return agent.stdout


def test_an_agent_that_outlives_ray_does_not_make_the_directory_again() -> None:
    with private_directory() as inside:
        output = _start_agent(inside)
    with output:
        assert output.read() == ""
    assert not inside.parent.exists()


def test_a_directory_that_an_agent_made_again_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_PATH", 1000)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    session = "r/session_2026-11-29_23-33-53_535062_2551"
    for path in (f"ray-left0000/{session}/logs", f"ray-mine0000/{session}", "ray-more0000/r", "ray-link0000"):
        (tmp_path / path).mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (tmp_path / f"ray-left0000/{session}/link").symlink_to(outside)
    (tmp_path / "ray-mine0000/thesis.tex").touch()
    (tmp_path / "ray-more0000/r/thesis.tex").touch()
    (tmp_path / "ray-link0000/r").symlink_to(tmp_path / "ray-mine0000/r")
    used = _start_agent(tmp_path / "ray-used0000/r", 600)
    (tmp_path / f"ray-used0000/{session}").mkdir(parents=True)
    with private_directory():
        pass
    names = {"outside", "ray-mine0000", "ray-more0000", "ray-link0000"}
    assert {path.name for path in tmp_path.iterdir()} == {*names, "ray-used0000"}
    end_processes(tmp_path / "ray-used0000")
    with used:
        assert used.read() == ""
    with private_directory():
        pass
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (outside / "precious").exists()
    assert (tmp_path / f"ray-mine0000/{session}").is_dir()


def test_only_the_user_can_read_the_token_of_a_cluster(token: Path) -> None:
    protect_token()
    assert not token.exists()
    token.parent.mkdir()
    token.write_text(SHARED)
    token.chmod(0o644)
    protect_token()
    assert token.read_text() == SHARED
    assert token.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("given", ["nothing", "default", TOKEN, TOKEN_PATH])
def test_a_ray_of_this_machine_has_a_new_token(
    given: str, token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the token of a cluster is given, Ray uses it only before and after."""
    if given != "nothing":
        path = token if given == "default" else tmp_path / "mounted"
        path.parent.mkdir(exist_ok=True)
        path.write_text(SHARED)
        if given != "default":
            monkeypatch.setenv(given, SHARED if given == TOKEN else str(path))
    loader, before = AuthenticationTokenLoader.instance(), dict(os.environ)
    loader.reset_cache()
    used = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with fresh_token(tmp_path / name):
            used.append(loader.get_raw_token())
            assert used[-1] == token_file().read_text()
            assert token_file().parent == tmp_path / name
            assert token_file().stat().st_mode & 0o777 == 0o600
        assert dict(os.environ) == before
        assert loader.has_token(ignore_auth_mode=True) is (given != "nothing")
    assert given == "nothing" or loader.get_raw_token(ignore_auth_mode=True) == SHARED
    assert len({*used, SHARED}) == 3
    assert min(map(len, used)) >= 32


def test_a_directory_where_the_token_cannot_be_written_is_refused(token: Path) -> None:
    before = dict(os.environ)
    refused = pytest.raises(
        UserError, match=r"token cannot be written to /proc/token .*: free some space there, or set"
    )
    with refused, fresh_token(READ_ONLY):
        pass
    assert dict(os.environ) == before


def test_no_token_is_written_if_the_user_has_disabled_tokens(
    token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_MODE, "disabled")
    with fresh_token(tmp_path):
        assert get_authentication_mode() == AuthenticationMode.DISABLED
    assert list(tmp_path.iterdir()) == []
