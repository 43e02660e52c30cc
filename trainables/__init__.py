"""Families of models, their tasks and probes. Imports neither Ray nor MLflow nor the orchestrator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trainables.contract.executed_files import watch_executed_files

if TYPE_CHECKING:
    from trainables.contract.simple import SimpleFamily, SimpleSettings

# Before other modules of the user are imported, because a notebook may change their files later.
watch_executed_files()

__all__ = ["SimpleFamily", "SimpleSettings"]

IMPORTED_AT = time.time()
"""Time when this package was imported. Families are always defined later, because they need its base classes."""


def __getattr__(name: str) -> Any:
    # Imported lazily: numpy takes a tenth of a second, and every command imports this package.
    if name in __all__:
        from trainables.contract import simple

        return getattr(simple, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
