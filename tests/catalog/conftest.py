"""An empty home."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.home.directories import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)
