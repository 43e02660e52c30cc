"""Both sides have to use TLS, and know each other: whichever does not is named, with what to set."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from orchestrator.engine.ray.securing import AUTHORITY, CERTIFICATE, FILES, KEY, SWITCH, check_tls
from orchestrator.errors import SweepError, UserError
from tests.engine.certificates import Authority

HERE = "127.0.0.1"
GREETING = bytes.fromhex("000000040000000000")
"""With what a port of Ray begins to speak: an empty frame of settings, of HTTP/2."""


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[int]:
    """A port that greets whoever comes, or with ``context`` whoever has shown a certificate that it trusts."""
    with socket.create_server((HERE, 0)) as server:

        def greet() -> None:
            with suppress(OSError):  # The server has been closed.
                while True:
                    came, _ = server.accept()
                    with suppress(OSError), came:
                        came.settimeout(5)
                        with context.wrap_socket(came, server_side=True) if context else came as talking:
                            talking.sendall(GREETING)
                            talking.recv(1)

        threading.Thread(target=greet, daemon=True).start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def secured(ours: Authority) -> Iterator[int]:
    """A port that trusts those whom the authority has signed."""
    files = ours.environment("server", [])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[CERTIFICATE], files[KEY])
    context.load_verify_locations(files[AUTHORITY])
    context.verify_mode = ssl.CERT_REQUIRED
    with listening(context) as port:
        yield port


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SWITCH, *FILES):
        monkeypatch.delenv(name, raising=False)


def use(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in files.items():
        monkeypatch.setenv(name, value)


def test_sides_that_agree_are_left_alone(ours: Authority, secured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(None) as plain:
        check_tls(HERE, plain, 5)
    use(ours.environment("us", []), monkeypatch)
    check_tls(HERE, secured, 5)


def test_a_cluster_with_tls_asks_for_certificates(secured: int) -> None:
    with pytest.raises(
        SweepError, match="uses TLS and this program does not: set RAY_USE_TLS=1 and, with a cert"
    ) as no:
        check_tls(HERE, secured, 5)
    assert no.value.exit_code == 1
    assert all(name in str(no.value) for name in FILES)


def test_a_cluster_without_tls_is_not_joined_with_it(ours: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    use(ours.environment("us", []), monkeypatch)
    with listening(None) as plain, pytest.raises(SweepError, match=r"RAY_USE_TLS is 1 and the Ray .* does not use"):
        check_tls(HERE, plain, 5)


def test_certificates_of_two_authorities_do_not_go_together(
    ours: Authority, secured: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Authority(tmp_path / "theirs").environment("us", [])
    use(theirs, monkeypatch)
    with pytest.raises(
        SweepError, match=r"shows a certificate that RAY_TLS_CA_CERT \(.*authority.crt\) does not vouch"
    ):
        check_tls(HERE, secured, 5)
    monkeypatch.setenv(AUTHORITY, ours.environment("x", [])[AUTHORITY])  # We believe them, they do not believe us.
    with pytest.raises(SweepError, match=r"refuses the certificate of this machine \(.*us.crt\): it has to be signed"):
        check_tls(HERE, secured, 5)


def test_files_that_are_not_named_or_no_good_are_the_users_mistake(
    ours: Authority, secured: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ours.environment("us", [])
    use(files, monkeypatch)
    monkeypatch.delenv(KEY)
    with pytest.raises(UserError, match="RAY_USE_TLS is 1 and RAY_TLS_SERVER_KEY not set: name RAY_TLS_SERVER_CERT"):
        check_tls(HERE, secured, 5)
    monkeypatch.setenv(KEY, str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"RAY_TLS_SERVER_KEY \(.*nowhere\): No such file or directory"):
        check_tls(HERE, secured, 5)
    monkeypatch.setenv(KEY, files[KEY])
    (tmp_path / "empty").touch()
    monkeypatch.setenv(AUTHORITY, str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"RAY_TLS_CA_CERT \(.*empty\): "):
        check_tls(HERE, secured, 5)
