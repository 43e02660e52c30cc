"""The conformance suite on every built-in probe."""

from __future__ import annotations

import pytest

from tests.conformance.probes import ProbeConformance, trained_runs
from tests.trainables.conftest import data_cache
from trainables.probes.base import BUILT_IN, Probe, load_probe

__all__ = ["data_cache", "trained_runs"]


@pytest.mark.parametrize("name", BUILT_IN)
class TestProbes(ProbeConformance):
    @pytest.fixture
    def probe(self, name: str) -> Probe:
        return load_probe(name)
