"""The possible verdicts on a statement."""

from __future__ import annotations

from enum import StrEnum


class Agreement(StrEnum):
    """How a finding relates to a statement (the rules are in statements.py)."""

    AGREES = "agrees"
    PARTLY = "agrees in part"
    """The mix was learned more often at the sizes tried, but whether it needs fewer parameters is open."""
    LARGER = "larger than claimed"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided at this scale"
    NOT_RUN = "not run"

    @classmethod
    def of(cls, agrees: bool, contradicted: bool) -> Agreement:
        """Return the verdict on a claim. It is undecided if the finding neither agrees with the claim nor contradicts
        it."""
        if agrees:
            return cls.AGREES
        return cls.CONTRADICTED if contradicted else cls.UNDECIDED


Judgment = tuple[str, Agreement]
"""The finding as text, and the verdict."""
