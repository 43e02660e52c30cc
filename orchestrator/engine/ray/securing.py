"""Whether a cluster and this process agree on TLS: asked in a second, where Ray would ask for minutes and then say
that nobody answers."""

from __future__ import annotations

import os
import socket
import ssl

from orchestrator.errors import SweepError, UserError

SWITCH, CERTIFICATE, KEY, AUTHORITY = "RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"
"""Ray's own settings. What they name is shown to servers, too: each side proves who it is."""
FILES = {CERTIFICATE: "its certificate", KEY: "its key", AUTHORITY: "the certificate of the authority that signed both"}
PROTOCOL = "h2"
"""What Ray's ports speak. With it a server has something to say at once: that it takes the certificate it was shown."""


def uses_tls() -> bool:
    """Whether Ray's processes on this machine are told to use TLS."""
    return os.environ.get(SWITCH, "0").lower() in ("1", "true")


def check_tls(host: str, port: int, within_s: float) -> None:
    """Try to talk to a port of Ray as Ray would.

    Raises :class:`UserError` where a file that Ray needs for TLS is not named or cannot be read, and
    :class:`SweepError` where one side uses TLS and the other does not, or refuses its certificate.
    """
    at = f"the Ray cluster at {host}:{port}"
    if not uses_tls():
        if _speaks_tls(host, port, within_s):
            raise SweepError(
                f"{at} uses TLS and this program does not: set {SWITCH}=1 and, with a certificate of this machine, "
                f"{_asked()}"
            )
        return
    context = _ours()
    try:
        with (
            socket.create_connection((host, port), timeout=within_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            refused = not secured.recv(1)
    except ssl.SSLCertVerificationError as error:
        raise SweepError(
            f"{at} shows a certificate that {AUTHORITY} ({os.environ[AUTHORITY]}) does not vouch for: "
            f"{error.verify_message}"
        ) from error
    except TimeoutError:
        return  # It may be busy: Ray asks for longer.
    except OSError as error:
        if not _speaks_tls(host, port, within_s):
            raise SweepError(
                f"{SWITCH} is {os.environ[SWITCH]} and {at} does not use TLS: leave it out here, or set it on all nodes"
            ) from error
        refused = True
    if refused:
        raise SweepError(
            f"{at} refuses the certificate of this machine ({os.environ[CERTIFICATE]}): it has to be signed by the "
            "authority that signed the cluster's"
        )


def _ours() -> ssl.SSLContext:
    """A client with this machine's certificate. Raises :class:`UserError` where a file is not named, or is no good."""
    missing = [name for name in FILES if not os.environ.get(name)]
    if missing:
        raise UserError(f"{SWITCH} is {os.environ[SWITCH]} and {' and '.join(missing)} not set: name {_asked()}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols([PROTOCOL])
    names: tuple[str, ...] = (AUTHORITY,)
    try:
        context.load_verify_locations(os.environ[AUTHORITY])
        names = (CERTIFICATE, KEY)
        context.load_cert_chain(os.environ[CERTIFICATE], os.environ[KEY])
    except (OSError, ssl.SSLError) as error:
        named = " and ".join(f"{name} ({os.environ[name]})" for name in names)
        raise UserError(f"{named}: {error.strerror or error}; name {_asked()}") from error
    return context


def _speaks_tls(host: str, port: int, within_s: float) -> bool:
    """Whether a server begins to speak TLS with somebody it knows nothing of."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([PROTOCOL])
    try:
        with socket.create_connection((host, port), timeout=within_s) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # It refuses in words of TLS.
    except OSError:
        return False


def _asked() -> str:
    return ", ".join(f"{name} ({what})" for name, what in FILES.items())
