"""Settings as plain values: settings added later appear only if they change something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainables.contract.settings import ADDED_LATER, described_fields


@dataclass(frozen=True)
class Own:
    value: int = 1

    def described(self) -> Mapping[str, Any]:
        return {"twice": 2 * self.value}


@dataclass(frozen=True)
class Inner:
    old: int = 1
    new: bool = field(default=False, metadata=ADDED_LATER)


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    own: Own = field(default_factory=Own)
    sizes: tuple[Inner, ...] = ()
    word: str = field(default="usual", metadata=ADDED_LATER)


def test_fields_added_later_are_omitted_at_their_default_on_every_level() -> None:
    assert described_fields(Outer()) == {"inner": {"old": 1}, "own": {"twice": 2}, "sizes": ()}
    changed = Outer(Inner(2, new=True), Own(3), word="other")
    assert described_fields(changed) == {
        "inner": {"old": 2, "new": True},
        "own": {"twice": 6},
        "sizes": (),
        "word": "other",
    }
