"""Choice of a profile by the hardware, and values for ``auto`` that follow from the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.errors import UserError
from orchestrator.space.hardware import Hardware, Needs
from orchestrator.space.overlays import Origin, Values, nested
from orchestrator.space.spec import DEFAULT_FAMILY
from orchestrator.space.validation import parse
from trainables.base import SettingsError, load_family


def choose(
    source: str, profiles: Mapping[str, Mapping[str, Any]], asked: str | None, hardware: Hardware
) -> tuple[str, str]:
    """The profile asked for, or the first (largest) whose needs ``hardware`` meets, with the reason in a few words.

    Raises ``UserError``.
    """
    needs = {name: parse(Needs, profile.get("needs") or {}) for name, profile in profiles.items()}
    if asked is not None:
        lacks = needs[asked].missing(hardware)
        return asked, "asked for" + (f", although {' and '.join(lacks)}" if lacks else "")
    passed_over: list[str] = []
    for name, each in needs.items():
        if each.asked:
            continue
        lacks = each.missing(hardware)
        if not lacks:
            found = f" ({hardware.gpu_name} found)" if each.gpu else ""
            return name, "; ".join([*passed_over, f"{name} is the largest this machine can finish{found}"])
        passed_over.append(f"not {name}, as {' and '.join(lacks)}")
    raise UserError(
        f"no profile of {source} fits this machine ({hardware}): {'; '.join(passed_over)}. "
        f"Choose one with --profile: {', '.join(profiles)}."
    )


def suit(values: Values, hardware: Callable[[], Hardware]) -> Values:
    """The values with those that the family chooses for the device laid over them, with an origin that says so.

    ``hardware`` is asked only if something is left open. A family that cannot be found is left for validation.
    """
    settings, resources = values.data.get("settings"), values.data.get("resources")
    if not isinstance(settings, Mapping):
        return values
    try:
        family = load_family(str(values.data.get("family", DEFAULT_FAMILY)))
    except SettingsError:
        return values
    if not family.suited(settings, fast_bf16=False):
        return values
    here = hardware()
    on_gpu = isinstance(resources, Mapping) and bool(resources.get("gpu_per_stack"))
    fast = on_gpu and here.gpu_bf16
    device = here.gpu_name if on_gpu else "a CPU"
    origin = Origin(f"auto, for {device}, {'fast' if fast else 'not known to be fast'} in bf16")
    for path, value in family.suited(settings, fast_bf16=fast).items():
        key = ("settings", *path.split("."))
        values = values.under(Values(nested(key, value), {key: origin}))
    return values
