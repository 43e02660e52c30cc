"""The settings that a user names for a script: plain values under any names. (``options.py`` has the keys under
``script:``.)"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any

from trainables.contract.settings import MOST_STEPS, SettingsError, require
from trainables.script.placeholders import COMMON_PLACEHOLDERS

LONGEST_TEXT = 10_000
"""Maximum number of characters of a setting."""


@dataclass(frozen=True)
class ScriptSettings:
    """Settings of a script: its steps, and any others by name (:func:`settings_type`)."""

    steps: int = 1000
    """Optimizer steps that a run may take."""

    def __post_init__(self) -> None:
        require(1 <= self.steps <= MOST_STEPS, "steps", self.steps, f"at least 1 and at most {MOST_STEPS}")
        for setting in fields(self):
            value = getattr(self, setting.name)
            is_plain = isinstance(value, bool | int | float | str)
            require(is_plain, setting.name, repr(value), "a number, text, true or false")
            is_safe = not isinstance(value, str) or ("\0" not in value and len(value) <= LONGEST_TEXT)
            require(is_safe, setting.name, f"{value!r:.60}", f"text of at most {LONGEST_TEXT} characters without NUL")

    def __reduce__(self) -> tuple[Any, ...]:
        # The type is made at run time, so pickle cannot find it by its name.
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return _settings, (values,)


def _settings(values: Mapping[str, Any]) -> ScriptSettings:
    made: ScriptSettings = settings_type(tuple(values))(**values)
    return made


def settings_type(names: Sequence[str]) -> type[Any]:
    """Return the type of settings with these names. Equal names give the same type.

    Raises :class:`SettingsError` for a name that a placeholder cannot have, or that is a placeholder of every script.
    """
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise SettingsError(f"{name!r} cannot be the name of a setting: use letters, digits and _", key=str(name))
        if name in COMMON_PLACEHOLDERS:
            raise SettingsError(f"{name!r} is a placeholder of every script: rename the setting", key=name)
    return _settings_type(tuple(sorted(set(names) - {"steps"})))


@cache
def _settings_type(names: tuple[str, ...]) -> type[Any]:
    others = [(name, Any, field(kw_only=True)) for name in names]
    return make_dataclass("ScriptSettings", others, bases=(ScriptSettings,), frozen=True)
