"""Placeholders in a script's command, environment and configuration file, and their values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from string import Formatter
from typing import Any

from trainables.base import RunConfig
from trainables.contract.settings import SettingsError

COMMON_PLACEHOLDERS = ("size", "seed", "tasks", "shares", "checkpoint", "out", "config")
"""Placeholders of every script. The names of its settings are also placeholders."""
VARIABLE_PREFIX = "SWEEP_"
"""Start of the names of environment variables with the values of placeholders."""


def fields_in(text: str, key: str) -> list[str]:
    """Return the names of placeholders in a text.

    Raises :class:`SettingsError` if a brace is not closed, or if there is more than a name between two braces.
    """
    try:
        parsed = list(Formatter().parse(text))
    except ValueError:
        raise _malformed(text, key) from None
    fields = []
    for _, name, form, conversion in parsed:
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            raise _malformed(text, key)
        fields.append(name)
    return fields


def _malformed(text: str, key: str) -> SettingsError:
    rule = "write a placeholder as {size}, and a brace that is meant as such twice: {{ or }}"
    return SettingsError(f"{text!r} cannot be filled in: {rule}", key=key, given=text)


def check(text: str, known: Sequence[str], key: str) -> None:
    """Raise :class:`SettingsError` for a placeholder that is not known."""
    for name in fields_in(text, key):
        if name not in known:
            raise SettingsError(f"there is no placeholder {{{name}}}", key=key, given=name, allowed=tuple(known))


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Return a text with values instead of placeholders."""
    return "".join(
        literal + ("" if name is None else as_text(values[name])) for literal, name, _, _ in Formatter().parse(text)
    )


def fill_value(value: Any, values: Mapping[str, Any]) -> Any:
    """Return plain values with filled-in text.

    A text that is a single placeholder becomes the placeholder's value, so a number stays a number.
    """
    if isinstance(value, Mapping):
        return {name: fill_value(inner, values) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [fill_value(inner, values) for inner in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\{(\w+)\}", value)
    return values[whole[1]] if whole else fill(value, values)


def texts_in(value: Any) -> list[str]:
    """Return every text in plain values, except keys."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [text for part in inner for text in texts_in(part)]


def as_text(value: Any) -> str:
    """Return a value as an argument of a command: ``0.001``, ``true``. Text stays as it is."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | Mapping | list | tuple) else repr(value)


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables for all values: ``SWEEP_SIZE``, ... ``SWEEP_TASKS`` has the shares, as JSON."""
    variables = {
        f"{VARIABLE_PREFIX}{name.upper()}": as_text(value) for name, value in values.items() if name != "shares"
    }
    return variables | {f"{VARIABLE_PREFIX}TASKS": as_text(values["shares"])}


def as_configuration(value: Any, indent: str = "") -> str:
    """Return plain values as JSON that YAML 1.1 reads in the same way. YAML reads 1e-05 as text, but not 1.0e-05."""
    inside = f"{indent}  "
    if isinstance(value, Mapping):
        lines = [f"{inside}{json.dumps(str(name))}: {as_configuration(item, inside)}" for name, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}" if lines else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(as_configuration(item, inside) for item in value) + "]"
    if isinstance(value, float) and math.isfinite(value):
        mantissa, exponent, power = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}{exponent}{power}"
    return json.dumps(value)


def values_of(run: RunConfig, directory: Path, config_name: str) -> dict[str, Any]:
    """Return the values of placeholders for a run.

    Args:
        run: The run.
        directory: Directory that only this run uses.
        config_name: Name of the file ``{config}``.
    """
    own = {field.name: getattr(run.settings, field.name) for field in fields(run.settings)}
    shares = dict(zip(run.mix.tasks, run.mix.shares, strict=True))
    given = {"size": run.size, "seed": run.seed, "tasks": run.mix.name, "shares": shares}
    places = {"checkpoint": directory / "checkpoint", "out": directory / "out"}
    config = directory / "out" / config_name
    return own | given | {name: str(path) for name, path in (places | {"config": config}).items()}
