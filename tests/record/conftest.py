"""An MLflow database to copy, because creating one takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.home.directories import DATABASE
from orchestrator.record.mlflow_store import make_database


@pytest.fixture(scope="session", name="empty")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated MLflow database without records."""
    home = tmp_path_factory.mktemp("empty")
    make_database(home / DATABASE)
    return home / DATABASE
