"""Starts Ray on this machine, or joins a cluster, and says in plain words why that does not work."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ray
from ray._private import ray_constants
from ray._private.authentication.authentication_constants import AUTHORIZATION_BEARER_PREFIX
from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled
from ray.exceptions import AuthenticationError, RaySystemError

from orchestrator.errors import SweepError, UserError

REACHABLE = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
"""With 0, Ray takes 127.0.0.1 for the machine's address, and everything listens there alone. It is what Ray does by
itself where it knows no clusters (macOS, Windows), and its only switch for it. Whoever sets it to 1 opens the ports."""
ASKED = os.environ.get(REACHABLE)
PATIENT = {
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "10",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "300",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_py_gcs_connect_timeout_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
}
"""How long Ray's parts wait for one another, by default 10 to 60 s. On a busy machine that is too short, and Ray then
ends a sweep of hours. The sweep's parent notices a part that died (``supervisor.py``)."""
ANSWER_WITHIN_S = 5.0
"""How long a cluster may take to answer before Ray is asked, which itself waits for minutes and fails at length."""
REFUSED = b"InvalidAuthToken"
"""What Ray's core writes to stderr, and nowhere else, where a cluster refuses the token."""


@contextmanager
def switch_kept() -> Iterator[None]:
    """A block after which Ray listens as it would have before: a later Ray of this process is another matter. What else
    Ray's environment says stays, because its core reads that once in a process."""
    before, everywhere = os.environ.get(REACHABLE), ray_constants.ENABLE_RAY_CLUSTER
    try:
        yield
    finally:
        os.environ.pop(REACHABLE, None)
        if before is not None:
            os.environ[REACHABLE] = before
        ray_constants.ENABLE_RAY_CLUSTER = everywhere


def start(address: str | None, *, dashboard: bool = False) -> Any:
    """Ray's context: of a new Ray on this machine, reachable from it alone, or of the cluster at ``address``.

    Raises :class:`UserError` for what is no address and :class:`SweepError` where Ray does not start, no cluster
    answers, or it refuses the token.
    """
    _listen(everywhere=address is not None)
    if address is None:
        os.environ.update({name: os.environ.get(name, value) for name, value in PATIENT.items()})
        # Actors inherit it, so that a family found from here (a module in this directory, say) is found there.
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        try:
            # Without an address Ray would join the cluster that was started last on this machine, whosever it is.
            return _init(address="local", include_dashboard=dashboard, dashboard_host="127.0.0.1")
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise SweepError(f"Ray does not start on this machine: {error}") from error
        except Exception as error:
            if type(error) is not Exception:
                raise
            # Just that is what Ray raises where its raylet has not come within 30 s, which nobody can make longer.
            raise SweepError(f"Ray does not start on this machine, which may be too busy for it: {error}") from error
    _check_address(address)
    with _stderr() as said:
        try:
            return _init(address=address)
        except AuthenticationError as error:
            raise SweepError(f"RAY_AUTH_MODE is token and there is none here: {_where_tokens_lie()}") from error
        except (ConnectionError, RuntimeError, ValueError, OSError, RaySystemError) as error:
            said.seek(0)
            if REFUSED in said.read():
                raise SweepError(_refused(address)) from error
            raise SweepError(f"no Ray cluster answers at {address!r}: {error}") from error


def _check_address(address: str) -> None:
    """Raise ``UserError`` unless ``address`` is ``auto`` or ``[ray://]host:port``, ``SweepError`` if nobody listens."""
    if address == "auto":
        return
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("", "ray") or not host or not port or parts.path:
        raise UserError(
            f"--address {address!r} is no address of a Ray cluster: write host:port (the head node's port is 6379 "
            "unless it was started with another), or auto for the cluster this machine is part of"
        )
    try:
        socket.create_connection((host, port), timeout=ANSWER_WITHIN_S).close()
    except OSError as error:
        raise SweepError(
            f"no Ray cluster answers at {address}: {error.strerror or error}. Is it running (ray status), and is the "
            "port open to this machine?"
        ) from error


def _init(**asked: Any) -> Any:
    return ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **asked)


def _listen(*, everywhere: bool) -> None:
    """Have Ray listen on all interfaces, or on loopback alone."""
    os.environ[REACHABLE] = ASKED or ("1" if everywhere else "0")
    # Ray reads it when it is imported, which may have been before.
    ray_constants.ENABLE_RAY_CLUSTER = os.environ[REACHABLE].lower() in ("1", "true")


def _refused(address: str) -> str:
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        return (
            f"the Ray cluster at {address} asks for its token, and none was sent: set RAY_AUTH_MODE=token, and "
            f"{_where_tokens_lie()}. (A cluster has a token wherever one lay in that file when it was started.)"
        )
    return f"the Ray cluster at {address} refuses the token of this machine: it is another one; {_where_tokens_lie()}"


def _where_tokens_lie() -> str:
    return f"copy the head node's ~/.ray/auth_token to {token_file()} (or name another file in RAY_AUTH_TOKEN_PATH)"


def token_file() -> Path:
    """Where Ray looks for its token on this machine."""
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH", Path.home() / ".ray" / "auth_token"))


def token_asked() -> str:
    """The token that this Ray asks for, its dashboard included; "" where it asks for none."""
    headers = get_auth_headers_if_auth_enabled({})
    return next((str(each).removeprefix(AUTHORIZATION_BEARER_PREFIX) for each in headers.values()), "")


@contextmanager
def _stderr() -> Iterator[Any]:
    """A block whose stderr, that of Ray's core included, goes to a file. It is shown after all where the block fails
    for another reason than a token."""
    with tempfile.TemporaryFile() as said:
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(before, 2)
            os.close(before)
            said.seek(0)
            text = said.read()
            if REFUSED not in text:
                os.write(2, text)
