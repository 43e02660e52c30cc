"""Global modes of libraries, such as ``torch.no_grad()``, kept apart between a generator and the rest of the program.

If a generator yields inside a ``with`` block, the mode of the block stays on while the generator waits. It would affect
every other run of the process. So each step runs with the generator's own modes, and the program's modes are restored
after it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""Functions that read and write a mode."""


def apart(points: Iterator[T]) -> Iterator[T]:
    """Yield the values of a generator with its modes kept apart.

    Modes in context variables (numpy's ``errstate``, ``decimal``) are kept apart for any library. Torch and
    ``warnings`` do not use them, so their modes are listed here.
    """
    context = copy_context()
    own = _Modes()
    try:
        while True:
            with own:
                try:
                    point = context.run(next, points)
                except StopIteration:
                    return
            yield point
    finally:
        with own:
            if (close := getattr(points, "close", None)) is not None:
                context.run(close)


class _Modes:
    """The modes of a generator, in force during a ``with`` block. At first they equal the program's modes."""

    def __init__(self) -> None:
        self._own: list[Any] | None = None
        self._outer: list[Any] = []
        self._settings: list[Setting] = []
        self._inference: Any = None
        """Guard that turns torch's inference mode off while the generator waits inside it."""

    def __enter__(self) -> None:
        self._settings = _settings()
        self._outer = [read() for read, _ in self._settings]
        if self._inference is not None:  # Before the own modes, because it also changes the mode of gradients.
            self._inference.__exit__(None, None, None)
            self._inference = None
        if self._own is not None:
            self._write(self._own)

    def __exit__(self, *raised: object) -> None:
        if len(settings := _settings()) > len(self._settings):  # The step imported torch.
            self._outer += [read() for read, _ in settings[len(self._settings) :]]
            self._settings = settings
        self._own = [read() for read, _ in self._settings]
        torch = sys.modules.get("torch")
        if torch is not None and torch.is_inference_mode_enabled():
            self._inference = torch.inference_mode(False)
            self._inference.__enter__()
        self._write(self._outer)

    def _write(self, values: list[Any]) -> None:
        for (read, write), value in zip(self._settings, values, strict=False):
            if read() != value:
                write(value)


def _settings() -> list[Setting]:
    """Return the modes that are not in context variables. Modes of torch come last, once it is imported."""
    settings: list[Setting] = [(lambda: list(warnings.filters), _filter_warnings)]
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "set_autocast_dtype"):  # It may be half imported.
        return settings
    overrides: Any = torch.overrides

    def determinism() -> tuple[bool, bool]:
        return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    def devices() -> tuple[list[Any], Any]:
        """Return the function modes, such as ``with torch.device("cuda")``, and which one is the default device."""
        return overrides._get_current_function_mode_stack(), getattr(
            torch._GLOBAL_DEVICE_CONTEXT, "device_context", None
        )

    def set_devices(value: tuple[list[Any], Any]) -> None:
        while overrides._len_torch_function_stack():
            overrides._pop_mode()
        for mode in value[0]:
            overrides._push_mode(mode)
        torch._GLOBAL_DEVICE_CONTEXT.device_context = value[1]

    settings += [
        (torch.is_grad_enabled, torch._C._set_grad_enabled),
        (torch.get_default_dtype, torch.set_default_dtype),
        (devices, set_devices),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        (determinism, lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1])),
        (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    ]
    for device in ("cpu", "cuda"):
        is_on = partial(torch.is_autocast_enabled, device)
        dtype = partial(torch.get_autocast_dtype, device)
        settings += [(is_on, partial(torch.set_autocast_enabled, device))]
        settings += [(dtype, partial(torch.set_autocast_dtype, device))]
    return settings


def _filter_warnings(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
