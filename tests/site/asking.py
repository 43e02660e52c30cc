"""Asks a page as a browser does, over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request


def get(address: str, **headers: str) -> str:
    """What is shown. Raises ``HTTPError`` for what is not."""
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answered:
        return str(answered.read().decode())


def post(address: str, body: str, **headers: str) -> int:
    """The status that a form's answer has in the end."""
    try:
        request = urllib.request.Request(address, body.encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answered:
            return int(answered.status)
    except urllib.error.HTTPError as error:
        return error.code
