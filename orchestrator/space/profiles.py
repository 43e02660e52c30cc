"""Profiles: one question at several scales, from the largest to the smallest, each with the hardware it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from orchestrator.errors import UserError
from orchestrator.space.hardware import Hardware
from orchestrator.space.validation import STRICT, parse


class Needs(BaseModel):
    """The hardware that a profile needs. One with ``asked`` is taken only when it is asked for by name."""

    model_config = STRICT | {"frozen": True}

    gpu: bool = False
    cpus: int = Field(default=1, ge=1)
    memory_gb: float = Field(default=0.0, ge=0)
    asked: bool = False


@dataclass(frozen=True)
class ChosenProfile:
    """The profile that was chosen and the reason, in a few words."""

    name: str
    reason: str


def choose(
    source: str, profiles: Mapping[str, Mapping[str, Any]], asked: str | None, hardware: Hardware
) -> ChosenProfile:
    """The profile asked for, or the first (largest) whose needs ``hardware`` meets. Raises ``UserError``."""
    if asked is not None:
        lacks = list(missing(needs_of(profiles[asked]), hardware))
        return ChosenProfile(asked, "asked for" + (f", although {' and '.join(lacks)}" if lacks else ""))
    passed_over: list[str] = []
    for name, profile in profiles.items():
        needs = needs_of(profile)
        lacks = list(missing(needs, hardware))
        if needs.asked:
            continue
        if not lacks:
            return ChosenProfile(name, "; ".join([*passed_over, _reason(name, profile, hardware)]))
        passed_over.append(f"not {name}, as {' and '.join(lacks)}")
    raise UserError(
        f"no profile of {source} fits this machine ({hardware}): {'; '.join(passed_over)}. "
        f"Choose one with --profile: {', '.join(profiles)}."
    )


def needs_of(profile: Mapping[str, Any]) -> Needs:
    """Needs of a profile. Raises ``InvalidDataError``."""
    return parse(Needs, profile.get("needs") or {})


def missing(needs: Needs, hardware: Hardware) -> Iterator[str]:
    """What ``hardware`` lacks, each in a few words. Machines that are added may have any cores and memory; whether any
    has a GPU is not known before one is there."""
    if needs.gpu and not hardware.gpus:
        yield "no GPU was found"
    if hardware.grows:
        return
    if needs.cpus > hardware.cpus:
        yield f"it needs {needs.cpus} CPU cores and {hardware.cpus} were found"
    if hardware.memory_gb and needs.memory_gb > hardware.memory_gb:  # 0: unknown.
        yield f"it needs {needs.memory_gb:g} GB of memory and {hardware.memory_gb:.0f} were found"


def _reason(name: str, profile: Mapping[str, Any], hardware: Hardware) -> str:
    found = f" ({hardware.gpu_name} found)" if needs_of(profile).gpu else ""
    return f"{name} is the largest this machine can finish{found}"
