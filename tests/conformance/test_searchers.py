"""The conformance suite over every registered searcher."""

from __future__ import annotations

import pytest

from orchestrator.search.registry import METHODS, make_searcher
from tests.conformance.searchers import Make, SearcherConformance


@pytest.mark.parametrize("method", sorted(METHODS))
class TestSearchers(SearcherConformance):
    @pytest.fixture
    def make(self, method: str) -> Make:
        return lambda problem: make_searcher(method, problem)
