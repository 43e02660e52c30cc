"""What a method pays for what it does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Price:
    """What a method pays, in units of the race: once at the ``setup``, for every ``look`` at the loss and its gradient,
    for a ``step`` beyond its look, and for a ``product`` with the Hessian."""

    setup: float
    look: float
    step: float
    product: float = 0.0
