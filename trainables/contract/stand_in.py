"""Stand-ins for families that can no longer be imported: they show finished runs and cannot train."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, make_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from trainables.base import Family, Learner, Parameters, RunConfig
from trainables.contract.words import Words

CLASS_MEMBERS = ("name", "version", "size_axis", "tunable", "parts", "resizable", "compares_mixes")
"""Class members that a description contains unchanged."""
METHODS = ("tasks", "subject", "items_in_order", "groupings", "grouping_words")
"""Methods without arguments, whose results a description contains."""


def description(family: Family, runs: Sequence[RunConfig]) -> dict[str, Any]:
    """Return everything that reports need from a family, as plain JSON values; ``runs`` has one run of each size."""
    return {
        **{name: getattr(family, name) for name in CLASS_MEMBERS},
        **{name: getattr(family, name)() for name in METHODS},
        "words": asdict(family.words),
        "sizes": [run.size for run in runs],
        "parameters": [asdict(family.parameters(run.size)) for run in runs],
        "steps": [family.steps(run) for run in runs],
        "flops": [family.flops(run) for run in runs],
    }


class StandIn(Family):
    """A family rebuilt from its description. It knows only the names of its settings and cannot train."""

    described: ClassVar[Mapping[str, Any]]

    def parameters(self, size: float) -> Parameters:
        counts = self.described["parameters"]
        return Parameters(*(self._at(size, [count[kind] for count in counts]) for kind in ("total", "core")))

    def scaled(self, steps: float, examples: float) -> Any:
        return self.settings

    def adjusted(self, values: Mapping[str, float]) -> Any:
        return self.settings

    def steps(self, run: RunConfig) -> int:
        return round(self._at(run.size, self.described["steps"]))

    def flops(self, run: RunConfig) -> float:
        return self._at(run.size, self.described["flops"])

    def shape(self, run: RunConfig) -> str:
        return f"{self.size_axis}-{run.size}"

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        raise NotImplementedError(f"the family {self.name!r} cannot be imported, so it cannot train")

    def _at(self, size: float, values: Sequence[float]) -> float:
        """Interpolate between the described sizes, and extrapolate beyond them, by power laws."""
        sizes = self.described["sizes"]
        if size in sizes:
            return float(values[sizes.index(size)])
        if len(sizes) == 1:
            return float(values[0] * size / sizes[0])
        pieces = list(pairwise(zip(sizes, values, strict=True)))
        (left, low), (right, high) = next((piece for piece in pieces if size < piece[1][0]), pieces[-1])
        return float(low * (size / left) ** (math.log(high / low) / math.log(right / left)))


@cache  # Every new settings class would keep another parsing model in memory, and a page reads sweeps repeatedly.
def stand_in(text: str, settings: tuple[str, ...]) -> type[StandIn]:
    """Return the class of a family from the JSON text of its description; its ``Settings`` have these fields.

    Raises ``ValueError`` if the text is not JSON or the description is incomplete.
    """
    described = json.loads(text)
    try:
        members = {name: described[name] for name in CLASS_MEMBERS + METHODS} | {"words": Words(**described["words"])}
    except (KeyError, TypeError) as error:
        raise ValueError(f"the description of its family is incomplete: {error}") from error
    # JSON has no tuples, of which tasks and labels are made.
    members["tasks"] = tuple(members["tasks"])
    members["groupings"] = {name: tuple(labels) for name, labels in members["groupings"].items()}
    members |= {name: staticmethod(lambda result=members[name]: result) for name in METHODS}
    fields = [(name, Any) for name in settings]
    members |= {"described": described, "Settings": make_dataclass("Settings", fields, frozen=True)}
    return type("StandIn", (StandIn,), members)
