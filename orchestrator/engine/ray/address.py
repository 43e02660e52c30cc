"""Whether a Ray cluster can be there at all, asked before Ray is: Ray itself waits for minutes and fails at length."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from orchestrator.errors import SweepError, UserError

TIMEOUT_S = 5.0


def check_address(address: str) -> None:
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
        socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    except OSError as error:
        raise SweepError(
            f"no Ray cluster answers at {address}: {error.strerror or error}. Is it running (ray status), and is the "
            "port open to this machine?"
        ) from error
