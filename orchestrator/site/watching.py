"""The page of all sweeps while a sweep runs: whoever has its address may also stop something of the sweep there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.site.beside import free_port
from orchestrator.site.server import serving
from orchestrator.site.shelf import Shelf
from orchestrator.store.files import Home

PORT = 5000
"""The first port that is tried."""
REFRESH_S = 2
TOKEN_BYTES = 16
"""Nobody guesses 128 random bits; other users of the machine can reach its ports."""


@contextmanager
def watched(home: Path, say: Callable[[str], object]) -> Iterator[str]:
    """A block in which the page is served, on this machine alone, at an address with a secret in it, which is given and
    said."""
    shelf = Shelf(Home(home.resolve()), refresh_s=REFRESH_S)
    with serving(shelf, free_port(PORT), secrets.token_urlsafe(TOKEN_BYTES)) as address:
        say(f"page    {address} shows all of this on this machine, and stops it, as long as it runs")
        try:
            yield address
        finally:
            if time.monotonic() - shelf.asked_at < 2 * REFRESH_S:
                time.sleep(REFRESH_S + 1)  # Who watches sees how it ended.
