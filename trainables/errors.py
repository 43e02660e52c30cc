"""Errors raised on purpose."""

from __future__ import annotations

from collections.abc import Sequence


class SettingsError(ValueError):
    """A setting that cannot be used.

    ``key`` is the dotted path of the setting inside the family's settings (``task.modulus``), or ``""``.
    ``allowed`` lists the values that would do, where they can be listed; callers name the nearest.
    """

    def __init__(self, message: str, *, key: str = "", given: str = "", allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key = key
        self.given = given
        self.allowed = tuple(allowed)
