"""Ray's temporary directory and its token, and the error if one of them cannot be used."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from orchestrator.engine.ray import files
from orchestrator.engine.ray.files import LOCK, TOKEN, TOKEN_PATH, place_for_sessions, private_directory, protect_token
from orchestrator.system.errors import UserError
from tests.cli.program import ROOT

READ_ONLY = Path("/proc")
"""A directory in which even root cannot create a file."""


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token path of a user who has no token yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (TOKEN, TOKEN_PATH, "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / ".ray" / "auth_token"


@pytest.mark.parametrize("bad", [Path("/tmp") / ("x" * 90), Path("/no/such"), READ_ONLY])
def test_a_temporary_directory_that_ray_cannot_use_is_refused(bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    assert place_for_sessions() == Path("/tmp")
    monkeypatch.setenv("RAY_TMPDIR", str(bad))
    with pytest.raises(UserError, match=f"{bad}: set RAY_TMPDIR to a directory that can be written, .* at most 28"):
        place_for_sessions()


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
    monkeypatch.setattr(files, "LONGEST", 1000)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    foreign, victim = tmp_path / "ray-abcdefgh", tmp_path / "victim"
    for directory in (foreign, victim, tmp_path / "ray"):
        directory.mkdir(0o700)
        (directory / "precious").touch()
    (tmp_path / "ray-link1234").symlink_to(victim)
    (victim / LOCK).touch()
    code = f"from orchestrator.engine.ray import files; files.LONGEST = 1000\n{HOLD}"
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


def test_only_the_user_can_ever_read_the_token(token: Path) -> None:
    protect_token(missing=False)
    assert not token.exists()
    protect_token(missing=True)
    written = token.read_text()
    assert len(written) >= 32
    assert token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)
    protect_token(missing=True)
    assert token.read_text() == written
    assert token.stat().st_mode & 0o777 == 0o600


def test_no_token_is_written_if_the_user_has_configured_authentication(
    token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ((TOKEN_PATH, str(tmp_path / "mounted")), ("RAY_AUTH_MODE", "disabled")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            protect_token(missing=True)
        assert list(tmp_path.iterdir()) == []


def test_a_home_where_the_token_cannot_be_written_is_refused(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(READ_ONLY))
    with pytest.raises(UserError, match=r"token cannot be written to /proc/.ray/auth_token .*: set HOME"):
        protect_token(missing=True)
