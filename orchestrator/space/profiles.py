"""Profiles of a search space: the hardware that each profile needs, and the choice of the first that fits a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from orchestrator.space.parsing import parse
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware, cores
from orchestrator.system.strict import STRICT


class Needs(BaseModel):
    """The hardware that a profile needs. A profile with ``asked`` is chosen only by name."""

    model_config = STRICT

    gpu: bool = False
    cpus: int = Field(default=1, ge=1)
    memory_gb: float = Field(default=0.0, ge=0)
    asked: bool = False

    def missing(self, hardware: Hardware) -> list[str]:
        """Return a description of each requirement that ``hardware`` does not meet.

        A cluster that grows can only lack GPUs.
        """
        lacks = [] if hardware.gpus or not self.gpu else ["no GPU was found"]
        if hardware.grows:
            return lacks
        if self.cpus > hardware.cpus:
            lacks.append(f"it needs {cores(self.cpus)} but {hardware.cpus} were found")
        if hardware.memory_gb and self.memory_gb > hardware.memory_gb:  # 0: unknown.
            lacks.append(f"it needs {self.memory_gb:g} GB of memory but {hardware.memory_gb:.0f} were found")
        return lacks


def choose_profile(
    source: str, profiles: Mapping[str, Mapping[str, Any]], requested: str | None, hardware: Hardware
) -> tuple[str, str]:
    """Return a profile and the reason for it: the requested profile, or the first that fits ``hardware``.

    Raises ``UserError`` if none fits.
    """
    needs = {name: parse(Needs, profile.get("needs") or {}) for name, profile in profiles.items()}
    if requested is not None:
        lacks = needs[requested].missing(hardware)
        return requested, "requested" + (f", although {' and '.join(lacks)}" if lacks else "")
    too_large: list[str] = []
    # Files list profiles from the largest to the smallest, so the first that fits uses this machine best.
    for name, need in needs.items():
        if need.asked:
            continue
        lacks = need.missing(hardware)
        if not lacks:
            gpu = f" ({hardware.gpu_name} found)" if need.gpu else ""
            return name, "; ".join([*too_large, f"the first that fits this machine{gpu}"])
        too_large.append(f"not {name}, because {' and '.join(lacks)}")
    raise UserError(
        f"no profile of {source} fits this machine ({hardware}): {'; '.join(too_large)}. "
        f"Choose one with --profile: {', '.join(profiles)}."
    )
