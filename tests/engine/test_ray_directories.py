"""Ray finds a place for its sockets and its token, whatever directories the user has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from orchestrator.engine.ray.files import (
    IN_SESSION,
    LONGEST_SOCKET,
    SYSTEM,
    TOKEN,
    TOKEN_PATH,
    protect_token,
    temporary_directory,
    token_file,
)
from orchestrator.errors import UserError
from tests.cli.program import process
from tests.engine.nodes import PLAIN

READ_ONLY = Path("/proc")
"""A directory in which even root cannot create a file."""


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN, TOKEN_PATH, "RAY_TMPDIR", "TMPDIR", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def long_directory(tmp_path: Path) -> Path:
    place = tmp_path / ("x" * 90)
    place.mkdir()
    return place


def test_rays_own_directory_is_used_if_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert temporary_directory() == SYSTEM
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert temporary_directory() == Path("/var/tmp")


@pytest.mark.parametrize("what", ["long", "missing", "read-only"])
def test_a_temporary_directory_that_ray_cannot_use_is_replaced(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {"long": long_directory(tmp_path), "missing": Path("/no/such"), "read-only": READ_ONLY}[what]
    monkeypatch.setenv("TMPDIR", str(bad))
    assert temporary_directory() == SYSTEM


def test_an_unusable_ray_tmpdir_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(long_directory(tmp_path)))
    with pytest.raises(UserError, match=r"whose path has \d+ bytes \(limit 39\): set RAY_TMPDIR .* such as /tmp"):
        temporary_directory()


def test_a_session_directory_leaves_room_for_the_longest_socket_path(tmp_path: Path) -> None:
    place = "x" * (LONGEST_SOCKET - IN_SESSION)
    assert len(f"{place}/ray/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store") == LONGEST_SOCKET


@pytest.mark.parametrize("home", [READ_ONLY, Path("/sys")])
def test_the_token_moves_to_a_writable_directory_that_ray_finds(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    protect_token(missing=True)
    token = token_file()
    assert token.is_relative_to(tmp_path)
    assert token.stat().st_mode & 0o777 == 0o600
    assert os.environ[TOKEN_PATH] == str(token)


@pytest.mark.slow
def test_ray_starts_without_a_home_in_a_long_temporary_directory_and_uses_the_token(tmp_path: Path) -> None:
    code = (
        "from orchestrator.engine.ray.session import RaySession\n"
        "from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled\n"
        "RaySession().begin()\nprint(*get_auth_headers_if_auth_enabled({}).values())"
    )
    environment = PLAIN | {"HOME": str(READ_ONLY), "TMPDIR": str(long_directory(tmp_path))}
    output = process([sys.executable, "-c", code], environment=environment, within_s=200).succeeded()
    [token] = tmp_path.rglob("ray_auth_token")
    assert output.strip() == f"Bearer {token.read_text()}"
