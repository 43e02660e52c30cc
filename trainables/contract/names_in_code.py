"""Names of variables, attributes and modules that compiled code uses."""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from trainables.contract.imports import IMPORTING, MODULE


class NamesInCode(NamedTuple):
    """Names in compiled code: of global variables that it reads and assigns, of attributes, and of imports."""

    read: frozenset[str]
    assigned: frozenset[str]
    attributes: frozenset[str]
    imported: frozenset[str]


@lru_cache(maxsize=1024)
def names_in(code: CodeType) -> NamesInCode:
    """Return the names in the code of a function and of the functions in it."""
    read = set[str]()
    assigned = set[str]()
    attributes = set[str]()
    imported = set[str]()
    package = ""
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        match instruction.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_FROM_DICT_OR_GLOBALS":
                read.add(name)
            case "STORE_GLOBAL" | "DELETE_GLOBAL":
                assigned.add(name)
            case "LOAD_ATTR" | "LOAD_METHOD":
                attributes.add(name)
            case "IMPORT_NAME":
                package = name
                imported.add(name)
            case "IMPORT_FROM":
                imported.add(f"{package}.{name}")
    if not IMPORTING.isdisjoint(read | attributes):  # A call such as `importlib.import_module("helper")`.
        imported.update(text for text in code.co_consts if isinstance(text, str) and MODULE.fullmatch(text))
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    own = (read, assigned, attributes, imported)
    return NamesInCode(*(frozenset(one).union(*(names[place] for names in inner)) for place, one in enumerate(own)))
