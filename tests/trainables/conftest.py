from __future__ import annotations

from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training data shared by the tests of a session, as the runs of a node share it."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small matrices gain nothing from threads, and results do not depend on the machine's cores."""
    torch.set_num_threads(1)
