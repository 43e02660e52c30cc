"""Choices of a search space: the profile, a variant, and values for ``auto`` that follow from the device.

A variant asks the same question of another task, model or budget; each is a sweep of its own. ``variants:`` maps names
to what each changes, keys as at the top level of a search space. They are laid over the chosen profile, which may have
variants of its own. ``along`` names the number in which they differ: the answers are set against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, Field

from orchestrator.errors import UserError, unknown
from orchestrator.space.hardware import Hardware
from orchestrator.space.layers import Layers, Origin
from orchestrator.space.spec import DEFAULT_FAMILY
from orchestrator.space.validation import NAME, STRICT, Key, dotted, parse
from trainables.base import SettingsError
from trainables.named import load_family


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


VARIANTS = "variants"
OWN = ("name", "question", "family", "profile", "profile_reason", "variant", "along", VARIANTS)
"""Keys that say what a search space asks; its variants share them."""


def variants_of(layers: Layers) -> tuple[str, ...]:
    """The names of the variants, in the order written. Raises ``UserError`` for variants that are malformed."""
    written = layers.data.get(VARIANTS)
    if written is None:
        return ()
    if not isinstance(written, Mapping) or not written:
        _refuse(layers, (VARIANTS,), "must map the names of variants to what they change")
    for name, overlay in written.items():
        key: Key = (VARIANTS, str(name))
        if not NAME.fullmatch(str(name)):
            _refuse(layers, key, "a name is a letter followed by lower-case letters, digits and underscores")
        if not isinstance(overlay, Mapping) or not overlay:
            _refuse(layers, key, "must map keys to values, such as settings: ...")
        for shared in OWN:
            if shared in overlay:
                _refuse(layers, (*key, shared), "is the same for all variants; it belongs to the top level")
    return tuple(str(name) for name in written)


def choose_variant(layers: Layers, asked: str | None) -> None:
    """Lay one variant over the rest and leave the others out. Raises ``UserError``.

    A search space without variants takes none; of several, one must be asked for.
    """
    names = variants_of(layers)
    source = str(layers.origins[()])
    if not names:
        if asked is not None and asked != layers.data.get("variant"):
            raise UserError(f"{source} has no variants, so {asked!r} cannot be chosen")
        return
    if asked is None:
        raise UserError(
            f"{source} asks several variants, each a sweep of its own: give one of them with --variant "
            f"({', '.join(names)})"
        )
    if asked not in names:
        raise unknown("variant", asked, names, where=source)
    top: Key = (VARIANTS, asked)
    overlay: dict[str, Any] = dict(layers.data[VARIANTS][asked])
    origins = {
        key[2:]: replace(origin, variant=asked)
        for key, origin in layers.origins.items()
        if key[:2] == top and key != top
    }
    here = layers.origins[top]
    layers.drop((VARIANTS,))
    layers.add(overlay, origins)
    layers.add({"variant": asked}, {("variant",): here})


def _refuse(layers: Layers, key: Key, message: str) -> None:
    raise UserError(f"{layers.place(key)}: {message}" if key in layers.origins else f"{dotted(key)}: {message}")


def suit(layers: Layers, hardware: Callable[[], Hardware]) -> None:
    """Lay what the family chooses for the device over the layers, with an origin that says so.

    ``hardware`` is asked only where something is left open. A family that cannot be found is left for validation.
    """
    settings, resources = layers.data.get("settings"), layers.data.get("resources")
    if not isinstance(settings, Mapping):
        return
    try:
        family = load_family(str(layers.data.get("family", DEFAULT_FAMILY)))
    except SettingsError:
        return
    if not family.suited(settings, fast_bf16=False):
        return
    here = hardware()
    on_gpu = isinstance(resources, Mapping) and bool(resources.get("gpu_per_stack"))
    fast = on_gpu and here.gpu_bf16
    device = here.gpu_name if on_gpu else "a CPU"
    reason = f"auto, for {device}, {'fast' if fast else 'not known to be fast'} in bf16"
    for path, value in family.suited(settings, fast_bf16=fast).items():
        key = ("settings", *path.split("."))
        nested: Any = value
        for part in reversed(key):
            nested = {part: nested}
        layers.add(nested, {key: Origin(reason)})
