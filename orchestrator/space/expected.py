"""Statements about a search space, with their sources, that finished sweeps are held against.

They stand in the file of the space itself, under ``expects:``; a space that is ``like`` another takes none over. The
rule of the verdicts: :mod:`orchestrator.report.statements`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from orchestrator.space.files import SpaceFile
from orchestrator.space.mistakes import STRICT, InvalidDataError, parse

Finding = Literal["fewer", "no fewer", "transition", "exponent below", "higher", "lower", "peaked first"]
LAW, INSIDE, ORDER, COMPARED = ("exponent below",), ("higher", "lower"), ("peaked first",), ("fewer", "no fewer")
"""Findings about all variants together, about what probes see inside models, about the order in which tasks are
learned, and about a mix compared with its baseline; the other one is a transition."""


class Expectation(BaseModel):
    """What a space is expected to show: ``expects`` is a list of such statements.

    ``claim`` says it in words, ``source`` where it is from. ``finds`` is what a sweep must find for it to hold: that a
    mix needs ``fewer`` parameters than the baseline, or ``no fewer``; that it has a ``transition`` at or below the
    largest size; that over all variants the size at the transition grows with a power of what they differ in that is
    ``exponent below`` ``limit``; or that in runs that learned the target a ``number`` of a probe (``separation/mod2``)
    is ``higher`` or ``lower`` ``than`` another one of the same runs, by default than the same in runs of the baseline
    at equal size; ``among: all`` counts the runs that did not learn it, too; or that in most runs of a mix tasks whose
    answers are ``peaked`` (of low entropy) are learned ``first``.

    ``factor`` is how many times fewer parameters ``fewer`` claims: a number, or its lowest and highest.
    ``control`` names a mix that must be learned as well for the statement to say anything.

    ``mix`` names the mix, ``"*"`` every one beside the baseline; with a transition, an exponent or ``than`` it may be
    the baseline. ``variant`` is a pattern (``prime_*``).
    """

    model_config = STRICT | {"frozen": True}

    claim: str = Field(min_length=1)
    source: str = Field(min_length=1)
    finds: Finding
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
        if bool(self.number) != (self.finds in INSIDE):
            raise ValueError(
                "`number` (of a probe: separation/mod2) goes with `finds: higher` and `finds: lower`, which need it"
            )
        if self.than and not self.number:
            raise ValueError("`than` says what a `number` is compared with: there is none")
        if self.factor is not None and self.finds != "fewer":
            raise ValueError("`factor` says how many times fewer parameters are claimed: it goes with `finds: fewer`")
        least, most = self.factor if isinstance(self.factor, tuple) else (self.factor, self.factor)
        if least is not None and most is not None and not 1 < least <= most:
            raise ValueError("`factor` is a number above 1, or two of them, the lower one first")
        return self

    @property
    def most_claimed(self) -> float:
        """The largest factor claimed; infinite without one."""
        most = self.factor[1] if isinstance(self.factor, tuple) else self.factor
        return math.inf if most is None else most

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes whose numbers it is about."""
        named = (each.partition("/")[0] for each in (self.number, self.than) if each)
        return tuple(dict.fromkeys(named))

    def is_about(self, variant: str) -> bool:
        """True if it is about this variant; ``""`` is a space without variants."""
        return fnmatchcase(variant, self.variant)


def expectations_of(file: SpaceFile) -> tuple[Expectation, ...]:
    """The statements of a search space's own file. Raises ``UserError`` with the line of what is wrong."""
    if not isinstance(file.expects, list):
        file.values.refuse(("expects",), "must be a list of statements, each with claim, source and finds")
    return tuple(_read(file, place, each) for place, each in enumerate(file.expects))


def _read(file: SpaceFile, place: int, written: Any) -> Expectation:
    try:
        return parse(Expectation, written)
    except InvalidDataError as error:
        mistake = error.mistakes[0]
        file.values.refuse(("expects", place, *mistake.key), mistake.message)


def about(expected: Sequence[Expectation], variant: str) -> list[Expectation]:
    """Those that one sweep answers: about its variant, and not about all variants together."""
    return [each for each in expected if each.finds not in LAW and each.is_about(variant)]
