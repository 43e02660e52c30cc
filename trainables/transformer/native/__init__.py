"""The training step of one CPU core in native code: step.cpp, compiled when the package is installed.

It is 1.7 to 12 times as fast as plain PyTorch on the same core. It trains in float32 and decodes greedily. Torch
(stack.py) trains everything else, samples, and is used if the native step is not available.
"""

from __future__ import annotations

import ctypes
import functools
from importlib.util import find_spec

from trainables.contract.machine_traits import Speed
from trainables.transformer.architecture import ModelSettings
from trainables.transformer.training_settings import TrainingSettings

EXTENSION = "trainables.transformer.native._step"
"""The compiled library, declared in pyproject.toml. ctypes loads it, so building it needs no Python headers."""
NATIVE = "native"
"""Name of this training step in checkpoints. A run uses the same step from beginning to end."""
TORCH = "torch"
"""Name of torch's training step in checkpoints."""
SPEED = Speed(9.2e10, 800.0)
"""Speed of a core, from whole runs of the profile `laptop`, two at a time on two cores: 20 s at n_embed 16, 23 at 18,
29 at 20, 38 at 24 and 51 at 28 (within 4%)."""
INTERFACE = 4
"""The version of step.cpp's functions and structures that this code calls."""
SLOWER = "torch trains, 1.7 to 12 times slower than the native step"
"""What it means that the native step is missing."""
REBUILD = "build it again: pip install -e ."
"""The remedy for a native step that does not fit this code."""
ACTIVATIONS = ("relu", "gelu")
"""Activations that step.cpp computes."""


def library() -> ctypes.CDLL | None:
    """Return the compiled step, or None if it was not built or this machine cannot run it."""
    return _load()[0]


def missing() -> tuple[str, str] | None:
    """Return why the native step is missing on this machine and the remedy, or None if it is available."""
    native, why, remedy = _load()
    return None if native else (f"{SLOWER}, {why}", remedy)


def supports(model: ModelSettings, training: TrainingSettings, device: str) -> bool:
    """Return True if the native step has these settings, on any machine where it is installed."""
    return device == "cpu" and model.activation in ACTIVATIONS and training.precision == "float32"


def can_train(model: ModelSettings, training: TrainingSettings, device: str) -> bool:
    """Return True if the native step can train with these settings here."""
    return supports(model, training, device) and library() is not None


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str, str]:
    """Return the compiled step, or None with the reason and the remedy."""
    found = find_spec(EXTENSION)
    if found is None or found.origin is None:
        remedy = "install a C++ compiler (Debian: apt install g++), then pip install -e . again"
        return None, "which was not built", remedy
    try:
        native = ctypes.CDLL(found.origin)
    except OSError as error:
        return None, f"which cannot be loaded ({error})", REBUILD
    if not hasattr(native, "interface") or native.interface() != INTERFACE:
        return None, "which was built from other source code", REBUILD
    if not native.cpu_is_supported():
        return None, "which needs a CPU with AVX2 and FMA", "use a newer CPU, or a GPU"
    return native, "", ""
