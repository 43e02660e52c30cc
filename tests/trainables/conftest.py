from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for training data shared by all tests of a session, as the runs of a node share it."""
    return tmp_path_factory.mktemp("data")
