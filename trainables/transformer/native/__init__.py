"""The training step of one CPU core in native code: step.cpp, which is compiled when the package is installed.

Three to ten times as fast as torch's step on the same core. It trains in float32 on a CPU; torch (stack.py) trains
everything else, evaluates, and trains where this step cannot be had.
"""

from __future__ import annotations

import ctypes
import functools
from importlib.util import find_spec

from trainables.transformer.training_settings import TrainingSettings

EXTENSION = "trainables.transformer.native._step"
"""The compiled library, declared in pyproject.toml. It is no Python module: ctypes loads it and needs no headers."""
NATIVE, TORCH = "native", "torch"
"""The two training steps, by their names in checkpoints. A run that began with one ends with it."""
MOST_WORDS = 2**16
"""The largest vocabulary: texts are read as 16-bit token ids."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled step, or None if it was not built or this CPU cannot run it."""
    return None if _path() is None or not _loaded().cpu_is_supported() else _loaded()


def missing() -> tuple[str, str] | None:
    """Why the native step is missing on this machine, and the remedy; None if it is there."""
    if library() is not None:
        return None
    if _path() is None:
        remedy = "install a C++ compiler (Debian: apt install g++), then pip install -e . again"
        return "torch trains, 3 to 10 times slower than the native step, which was not built", remedy
    why = "torch trains, 3 to 10 times slower than the native step, which needs a CPU with AVX2 and FMA"
    return why, "use a newer CPU, or a GPU"


def can_train(training: TrainingSettings, vocabulary: int, device: str) -> bool:
    """Return True if the native step trains runs with these settings on this device."""
    fits = training.precision == "float32" and vocabulary <= MOST_WORDS
    return device == "cpu" and fits and library() is not None


def _path() -> str | None:
    found = find_spec(EXTENSION)
    return None if found is None else found.origin


@functools.cache
def _loaded() -> ctypes.CDLL:
    path = _path()
    assert path is not None
    return ctypes.CDLL(path)
