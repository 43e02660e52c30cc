"""Tests that need a CUDA device: everything in this folder and nothing else. They need neither Ray nor MLflow.

python -m pytest -m gpu tests/gpu"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in (item_ for item_ in items if item_.path.parent == Path(__file__).parent):
        import torch

        item.add_marker(pytest.mark.gpu)
        if not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="torch finds no CUDA device"))


@pytest.fixture
def device() -> str:
    return "cuda"
