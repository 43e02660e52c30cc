"""What every test in the emulation begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulation.emulated import Emulation, emulated


@pytest.fixture
def emulation() -> Iterator[Emulation]:
    """The emulation, of which nothing that CUDA forbids may be asked."""
    with emulated() as made:
        yield made
