"""Setup of tests of homes."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import Mock

import pytest


@pytest.fixture(scope="module", autouse=True)
def without_figures_and_record(undrawn: None) -> Iterator[None]:
    """Sweeps in this process have no figures, report or record, which take longer than their runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.record.choice.open_mlflow", lambda store: Mock())
        yield
