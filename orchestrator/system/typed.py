"""Plain data turned into values of a type, in pydantic's strict JSON mode."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, PydanticUserError, create_model

from orchestrator.system.strict import STRICT

T = TypeVar("T")


class UnusableTypeError(TypeError):
    """A type with a field that no JSON value can fill."""


class UnwritableError(ValueError):
    """Data that JSON cannot contain, such as a function."""


def from_plain(kind: type[T], data: Any, *, allow_infinite: bool = False) -> T:
    """Return an instance of ``kind`` made from plain data.

    Unknown keys are refused at every depth, and nothing is converted: ``true`` is not a number.

    Args:
        kind: A pydantic model or a standard dataclass.
        data: Values as in a JSON file.
        allow_infinite: Whether numbers may be infinite or NaN.

    Raises:
        pydantic.ValidationError: If the data do not have the types of the fields. Its locations begin with "value".
        UnusableTypeError: If ``kind`` has a field whose type pydantic does not understand.
        UnwritableError: If JSON cannot contain the data.
        RecursionError: If the data are nested too deeply.
    """
    try:
        holder = _holder(cast(Hashable, kind), allow_infinite)
    except (PydanticUserError, NameError) as error:
        raise UnusableTypeError(str(error)) from error
    try:
        # Only JSON mode turns a list into a tuple and a text into an enum without also accepting "6" for 6.
        text = json.dumps({"value": data})
    except (TypeError, ValueError) as error:
        raise UnwritableError(str(error)) from error
    return cast(T, holder.model_validate_json(text).value)  # type: ignore[attr-defined]


@cache
def _holder(kind: Any, allow_infinite: bool) -> type[BaseModel]:
    """Return a strict model around ``kind``, because a standard dataclass cannot declare itself strict."""
    config: ConfigDict = {**STRICT, "allow_inf_nan": allow_infinite}
    return create_model("Holder", __config__=config, value=(kind, ...))
