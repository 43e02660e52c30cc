"""Searchers by name in search spaces. A new searcher is a separate file and a line here."""

from __future__ import annotations

from orchestrator.search.base import Searcher
from orchestrator.search.bisection import Bisection
from orchestrator.search.grid import Grid
from orchestrator.search.pairs import Pairs

METHODS: dict[str, type[Searcher]] = {
    "pairs": Pairs,
    "bisection": Bisection,
    "grid": Grid,
}
