"""The page of all sweeps while a sweep runs: whoever has its address may also stop something of the sweep there, and go
on with one that was interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.site.beside import free_port
from orchestrator.site.resuming import Resuming
from orchestrator.site.server import new_token, serving
from orchestrator.site.shelf import Shelf
from orchestrator.store.files import Home

PORT = 5000
"""The first port that is tried."""
REFRESH_S = 2
LOOKED_AT_S = 90.0
"""A page that was not asked for so long is not open any more: browsers let one in the background ask once a minute."""


@contextmanager
def watched(home: Path, say: Callable[[str], object], options: Sequence[str] = ()) -> Iterator[str]:
    """A block in which the page is served, on this machine alone, at an address with a secret in it, which is given and
    said. Where somebody stopped the whole sweep on the page, it stays after the block as long as a browser shows it: so
    that they can go on with it there. ``options`` of ``run`` are those that a sweep is gone on with."""
    shelf = Shelf(Home(home.resolve()), refresh_s=REFRESH_S, resuming=Resuming(options))
    with serving(shelf, free_port(PORT), new_token()) as address:
        say(f"page    {address} shows all of this on this machine, stops it and goes on with it, as long as this runs")
        try:
            yield address
        finally:
            if shelf.stopped_a_sweep:
                say("The page stays as long as a browser shows it, to resume the sweep there; Ctrl-C ends it.")
                while time.monotonic() - shelf.asked_at < LOOKED_AT_S:
                    time.sleep(REFRESH_S)
            elif time.monotonic() - shelf.asked_at < 2 * REFRESH_S:
                time.sleep(REFRESH_S + 1)  # Who watches sees how it ended.
