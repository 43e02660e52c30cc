"""Options of a run as Python values: numbers, mappings, ``None`` for a default."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from orchestrator.environment import user_path
from orchestrator.errors import UserError, unknown
from orchestrator.sweep.run_options import HOME, RunOptions

NUMBERS = (int, float)
SAMPLES = {
    "overrides": '{"seeds": 5} or ["seeds=5"]',
    "max_time": '"2h", 7200 (seconds) or a timedelta',
    "resume": "True (the newest unfinished sweep) or a sweep's id",
    "home": '"results" or a Path',
    "scratch": '"/scratch" or a Path',
    "stack": '4 or "auto"',
    "gpu_fraction": '0.5 or "auto"',
}
"""Examples for options that are not only text."""
KNOWN = {field.name: field.type for field in fields(RunOptions) if "option" in field.metadata}
SWITCHES = [name for name, kind in KNOWN.items() if kind == "bool"]


def from_python(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the values that the command line would produce, without those that are None. Raises
    :class:`UserError` for an unknown option or a value of the wrong type."""
    for name in given:
        if name not in KNOWN:
            raise unknown("option", name, KNOWN)
    return {name: _option(name, value) for name, value in given.items() if value is not None}


def home_from_python(given: Any) -> Path:
    """Return a home directory, the default for None. Raises :class:`UserError` for a value of the wrong type."""
    return HOME if given is None else user_path(_option("home", given))


def _option(name: str, value: Any) -> Any:
    if hasattr(value, "tolist"):  # A numpy number or array.
        value = value.tolist()
    number = isinstance(value, NUMBERS) and not isinstance(value, bool)
    if name == "overrides":
        return _overrides(value)
    if name == "max_time" and isinstance(value, timedelta):
        return f"{value.total_seconds():.3f}s"
    if name == "max_time" and number:
        return f"{value:.3f}s"
    if name == "resume" and isinstance(value, bool):
        return "" if value else None
    if name in SWITCHES and isinstance(value, bool):
        return value
    if name in ("stack", "gpu_fraction") and number:
        return str(value)
    if name in ("home", "scratch") and isinstance(value, os.PathLike):
        return Path(value)
    if name not in SWITCHES and name != "overrides" and isinstance(value, str):
        return value
    sample = SAMPLES.get(name, "True or False" if name in SWITCHES else "text")
    raise UserError(f"{name}={value!r} cannot be used: write {sample}")


def _overrides(value: Any) -> list[str]:
    """Return overrides as ``key=value``, with the value as JSON, which is also YAML."""
    if isinstance(value, Mapping):
        return [f"{key}={_json(str(key), inner)}" for key, inner in value.items()]
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return list(value)
    raise UserError(f"overrides={value!r} cannot be used: write {SAMPLES['overrides']}")


def _json(key: str, value: Any) -> str:
    def plain(inner: Any) -> Any:
        if hasattr(inner, "tolist"):
            return inner.tolist()
        if isinstance(inner, os.PathLike | range):
            return str(inner) if isinstance(inner, os.PathLike) else list(inner)
        raise UserError(f"overrides: {key} is {inner!r}, which cannot be written into a search space")

    return json.dumps(value, default=plain)
