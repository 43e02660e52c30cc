"""The conformance suite over every registered searcher."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.search.registry import METHODS, make_searcher
from tests.conformance.searchers import Make, SearcherConformance

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, {}) for method in sorted(METHODS)},
    "bayes, three seeds at a time": ("bayes", {"stack": 3}),
    "bayes, mixes sharing priors": ("bayes", {"share": True}),
    "bayes, auditing the budget": ("bayes", {"budget_audit": True}),
    "bisection, auditing the budget": ("bisection", {"budget_audit": True}),
}


@pytest.mark.parametrize("case", CASES)
class TestSearchers(SearcherConformance):
    @pytest.fixture
    def make(self, case: str) -> Make:
        method, settings = CASES[case]
        return lambda problem: make_searcher(method, problem, **settings)
