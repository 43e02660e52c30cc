"""Names of modules, which a process imports only once."""

from __future__ import annotations

from pathlib import Path

import pytest

names = iter(range(1000))


@pytest.fixture
def module(workplace: Path) -> str:
    """A module name that no other test has imported."""
    return f"models_{next(names)}"
