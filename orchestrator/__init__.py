"""Finds how small a model can be that learns a task: schedules training, searches sizes, records results.

In Python (names are loaded on first use, so that importing the package is fast):

    import orchestrator as o

    o.sweeps()                           # all of them
    s = o.load("add_vs_add_prod")        # or o.run("add_vs_add_prod", profile="smoke")
    s.answer                             # the answer as a table and in words
    s.transitions, s.runs, s.curves      # DataFrames
    s.figure("posterior")                # a matplotlib Figure
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api import SweepResults, load, run, sweeps

__all__ = ["SweepResults", "load", "run", "sweeps"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from orchestrator import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
