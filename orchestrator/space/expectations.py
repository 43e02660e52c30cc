"""Statements about a search space and their sources, which finished sweeps are compared with.

They are in the space's file under ``expects:``. ``like`` does not inherit them. For the verdicts, see
:mod:`orchestrator.report.verdicts.statements`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from orchestrator.space.overlays import Values
from orchestrator.system.strict import STRICT

Finds = Literal["fewer", "no fewer", "transition", "exponent below", "higher", "lower", "peaked first"]
# Findings by their subject. The only other finding is ``transition``.
LAW_FINDINGS = ("exponent below",)
"""Findings about all variants of a space."""
PROBE_FINDINGS = ("higher", "lower")
"""Findings about numbers of probes."""
ORDER_FINDINGS = ("peaked first",)
"""Findings about the order in which answers are learned."""
COMPARISON_FINDINGS = ("fewer", "no fewer")
"""Findings about two mixes."""


class Expectation(BaseModel):
    """A statement about a space: ``expects`` is a list of them.

    ``claim`` is the statement in words, ``source`` its source. ``finds`` is the finding that confirms it:

    * ``fewer`` or ``no fewer``: a mix needs fewer parameters than the baseline, or not. ``factor`` is how many times
      fewer: a number, or its lowest and highest value.
    * ``transition``: a mix has a transition at or below the largest size.
    * ``exponent below``: over all variants, the size at the transition is a power of ``along`` with an exponent below
      ``limit``.
    * ``higher`` or ``lower``: a ``number`` of a probe (``separation/mod2``) is higher or lower ``than`` another number
    of
      the same runs. By default it is compared with runs of the baseline at equal size. Only runs that learned the
      target count, or all runs with ``among: all``.
    * ``peaked first``: in most runs of a mix, tasks with peaked answers are learned first. Answers are peaked if some
      are much more frequent than others, so their entropy is low.

    ``control`` names a mix that must also be learned; otherwise the statement is not tested. ``mix`` names the mix;
    ``"*"`` means all except the baseline. ``variant`` is a pattern (``prime_*``).
    """

    model_config = STRICT

    claim: str = Field(min_length=1)
    source: str = Field(min_length=1)
    finds: Finds
    mix: str = "*"
    variant: str = "*"
    limit: float = 1.0
    factor: float | tuple[float, float] | None = None
    control: str = ""
    number: str = Field(default="", pattern=r"^([^/]+/.+)?$")
    than: str = Field(default="", pattern=r"^([^/]+/.+)?$")
    among: Literal["learned", "all"] = "learned"

    @model_validator(mode="after")
    def _names_what_it_compares(self) -> Expectation:
        if bool(self.number) != (self.finds in PROBE_FINDINGS):
            raise ValueError(
                "`finds: higher` and `finds: lower` need a probe's `number` (such as separation/mod2); others have none"
            )
        if self.than and not self.number:
            raise ValueError("`than` needs a `number` to compare")
        if self.factor is not None and self.finds != "fewer":
            raise ValueError("`factor` (how many times fewer parameters) applies only to `finds: fewer`")
        least, most = self.factor if isinstance(self.factor, tuple) else (self.factor, self.factor)
        if least is not None and most is not None and not 1 < least <= most:
            raise ValueError("`factor` must be a number above 1, or two such numbers, the lower first")
        return self

    @property
    def most_claimed(self) -> float:
        """Largest claimed factor, infinite if none is claimed."""
        most = self.factor[1] if isinstance(self.factor, tuple) else self.factor
        return math.inf if most is None else most

    @property
    def probes(self) -> tuple[str, ...]:
        """Probes of the statement's numbers."""
        named = (number.partition("/")[0] for number in (self.number, self.than) if number)
        return tuple(dict.fromkeys(named))

    def is_about(self, variant: str) -> bool:
        """Return True if the statement is about this variant. A space without variants has the variant ``""``."""
        return fnmatchcase(variant, self.variant)


def expectations_of(file: Values) -> tuple[Expectation, ...]:
    """Return the statements in the space's own file. Raises ``UserError`` with the line of a mistake."""
    written = file.data.get("expects", [])
    if not isinstance(written, list):
        file.refuse(("expects",), "must be a list of statements, each with claim, source and finds")
    return tuple(file.read(list[Expectation], "expects")) if written else ()


def about(expected: Sequence[Expectation], variant: str) -> list[Expectation]:
    """Return the statements about this variant, without statements about all variants together."""
    return [statement for statement in expected if statement.finds not in LAW_FINDINGS and statement.is_about(variant)]
