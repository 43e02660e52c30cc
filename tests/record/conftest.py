"""An MLflow database to copy: making one takes seconds, copying it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.record.store import DATABASE, choose


@pytest.fixture(scope="session", name="empty")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated MLflow database without records."""
    home = tmp_path_factory.mktemp("empty")
    MlflowClient(choose(home, {}).uri)
    return home / DATABASE
