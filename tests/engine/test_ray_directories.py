"""Ray's temporary directory and its token, and the error if one of them cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.doctor.machine import Verdict, directories
from orchestrator.engine.ray.files import TOKEN, TOKEN_PATH, protect_token, temporary_directory
from orchestrator.errors import UserError

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
    assert temporary_directory() == Path("/tmp")
    assert directories().verdict is Verdict.OK
    monkeypatch.setenv("RAY_TMPDIR", str(bad))
    with pytest.raises(UserError, match=f"{bad}: set RAY_TMPDIR to a directory that can be written, .* at most 39"):
        temporary_directory()
    assert directories().verdict is Verdict.WRONG


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
