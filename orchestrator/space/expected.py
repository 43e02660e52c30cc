"""What a search space is expected to show, and by whom: statements that a finished sweep agrees with or does not.

They stand in the file of the space itself, under ``expects:``; a space that is ``like`` another takes none over.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import BaseModel, Field

from orchestrator.space.files import SpaceFile
from orchestrator.space.validation import STRICT, InvalidDataError, parse

Finding = Literal["fewer", "no fewer", "transition", "exponent below"]


class Expectation(BaseModel):
    """One statement.

    ``claim`` says it in words, ``source`` where it is from. ``finds`` is what a sweep must find for it to hold: that a
    mix needs ``fewer`` parameters than the baseline, or ``no fewer``; that it has a ``transition`` at or below the
    largest size; or that over all variants the size at the transition grows with a power of what they differ in that is
    ``exponent below`` ``limit``. ``mix`` names the mix, ``"*"`` every one beside the baseline; with a transition or an
    exponent it may be the baseline. ``variant`` is a pattern (``prime_*``).
    """

    model_config = STRICT | {"frozen": True}

    claim: str = Field(min_length=1)
    source: str = Field(min_length=1)
    finds: Finding
    mix: str = "*"
    variant: str = "*"
    limit: float = 1.0

    def is_about(self, variant: str) -> bool:
        """Whether it is about a variant; ``""`` is a space without variants."""
        return fnmatchcase(variant, self.variant)


def expectations_of(file: SpaceFile) -> tuple[Expectation, ...]:
    """The statements of a search space's own file. Raises ``UserError`` with the line of what is wrong."""
    if not isinstance(file.expects, list):
        file.refuse(("expects",), "must be a list of statements, each with claim, source and finds")
    return tuple(_read(file, place, each) for place, each in enumerate(file.expects))


def _read(file: SpaceFile, place: int, written: Any) -> Expectation:
    try:
        return parse(Expectation, written)
    except InvalidDataError as error:
        mistake = error.mistakes[0]
        file.refuse(("expects", place, *mistake.key), mistake.message)


def about(expected: Sequence[Expectation], variant: str) -> list[Expectation]:
    """Those that one sweep answers: about its variant, and about a saving or a transition."""
    return [each for each in expected if each.finds != "exponent below" and each.is_about(variant)]
