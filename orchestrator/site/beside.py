"""What joins the page of all sweeps to MLflow's page beside it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from orchestrator.report.index import REFRESH_S, Link
from orchestrator.site.server import HOST
from orchestrator.site.shelf import Shelf
from orchestrator.store.files import Home
from orchestrator.tracking.page import places
from orchestrator.tracking.store import Store, StoreError

TRIED = 20
"""Ports after the first that are tried for one that is free."""


def shelf_of(home: Path, store: Store, port: int, *, refresh_s: int = REFRESH_S) -> Shelf:
    """The sweeps of a home, each with its links into MLflow's page at ``port``; what runs is shown anew every
    ``refresh_s`` seconds."""

    def links() -> tuple[Mapping[str, tuple[Link, ...]], str]:
        try:
            found = places(store, port)
        except StoreError as error:
            return {}, str(error)
        named = {
            sweep: (
                ("Transitions in MLflow", each.transitions),
                ("Transitions as charts", each.transition_charts),
                ("Runs in MLflow", each.runs),
                ("Runs as charts", each.run_charts),
                ("Its record in MLflow", each.record),
            )
            for sweep, each in found.items()
        }
        return {sweep: tuple(Link(*pair) for pair in pairs if pair[1]) for sweep, pairs in named.items()}, ""

    return Shelf(Home(home.resolve()), links, refresh_s=refresh_s)


def free_port(first: int) -> int:
    """The first port from this one on that nobody listens at; any free one where the next :data:`TRIED` are taken."""
    for port in (*range(first, min(first + TRIED, 65536)), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise RuntimeError("no port is free on this machine")
