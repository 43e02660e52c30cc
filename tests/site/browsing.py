"""Requests as a browser makes them: with the cookie of an earlier visit."""

from __future__ import annotations

import urllib.request
from http.cookiejar import CookieJar

JAR = CookieJar()
"""Cookies of earlier visits, each for its host and folder."""
BROWSER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(JAR))


def get(address: str, body: bytes | None = None, **headers: str) -> str:
    """Return the text at an address, sent with POST if there is a body. Raises ``HTTPError``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with BROWSER.open(urllib.request.Request(address, body, named), timeout=60) as answered:
        return str(answered.read().decode())


def opened(address: str) -> str:
    """Visit an address with a token, and return the address of the page of all sweeps that it leads to."""
    with BROWSER.open(address, timeout=60) as answered:
        return str(answered.geturl())


def cookie(address: str) -> str:
    """Return the header of the cookie that the browser sends to an address."""
    request = urllib.request.Request(address)
    JAR.add_cookie_header(request)
    return str(request.get_header("Cookie"))
