"""URIs of MLflow's servers for messages, without user names, passwords and tokens."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, quote_plus

URI = re.compile(
    r"(?P<scheme>https?:/*|[a-z][a-z0-9+.-]*:/+)?(?:(?P<login>.*)@)?(?P<place>[^?#]*)(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
"""Pattern of a URI. The login ends at the last ``@``, because a password may contain that and any other character."""
LOGIN = re.compile(r"//[^/\s]*@")
"""Pattern of the user name and password in any other URL of a message."""
HIDDEN = "..."
"""Text in place of what a message must not contain."""
SHORTEST_SECRET = 3
"""Minimum number of characters of a part of a password that is hidden on its own. Shorter ones are parts of words."""


class _Parts(NamedTuple):
    """The two parts of a URI that messages contain, and the texts that they must not contain."""

    scheme: str
    place: str
    secrets: list[str]


def shown_uri(uri: str) -> str:
    """Return a URI without user name, password, query and fragment."""
    parts = _parts(uri)
    return parts.scheme + parts.place


def hide_secrets(text: str, uri: str = "") -> str:
    """Return a message with the shown form of a URI, and without the passwords of this and other URIs."""
    parts = _parts(uri)
    if uri:
        text = text.replace(uri, shown_uri(uri))
    for secret in parts.secrets:
        text = text.replace(secret, HIDDEN)
    return LOGIN.sub("//", text)


def _parts(uri: str) -> _Parts:
    match = URI.fullmatch(uri)
    assert match is not None  # Every part of the pattern may be empty.
    scheme, login, place, query = (part or "" for part in match.group("scheme", "login", "place", "query"))
    # An @ after a question mark may be part of a query, as in /?mail=ann@host&token=..., or follow a password.
    is_unclear = re.search(r"[?#]", login) is not None
    user, colon, password = login.partition(":")
    hidden = [password if colon else user, *re.split(r"[?&#]", query), *([user, place] if is_unclear else ())]
    # If a password contains one of these characters, libraries report a part of it, for example as a bad port.
    values = [piece for text in hidden for piece in (text, text.partition("=")[2], *re.split(r"[/?#@:]", text))]
    forms = {form for value in values for form in (value, quote(value), quote(value, safe=""), quote_plus(value))}
    secrets = sorted((form for form in forms if len(form) >= SHORTEST_SECRET), key=len, reverse=True)
    return _Parts(scheme, HIDDEN if is_unclear else place, secrets)
