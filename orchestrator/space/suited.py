"""Values for ``auto`` in a family's settings, chosen for the device before anything has a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.space.hardware import Hardware
from orchestrator.space.layers import Layers, Origin
from orchestrator.space.spec import DEFAULT_FAMILY
from trainables.base import SettingsError
from trainables.named import load_family


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
