"""The conformance suite on every registered searcher."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.search.registry import METHODS, make_searcher
from tests.conformance.searchers import Make, SearcherConformance

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, {}) for method in sorted(METHODS)},
    "pairs, three at a time": ("pairs", {"stack": 3}),
    "pairs, decide": ("pairs", {"aim": "decide"}),
}


@pytest.mark.parametrize("case", CASES)
class TestSearchers(SearcherConformance):
    @pytest.fixture
    def make(self, case: str) -> Make:
        method, settings = CASES[case]
        return lambda problem: make_searcher(method, problem, **settings)
