"""Names of variables, attributes and modules that compiled code uses."""

from __future__ import annotations

import dis
import re
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from trainables.contract.imports import IMPORTING, MODULE

PACKAGE = re.compile(rf"({MODULE.pattern})\.([%{{].*)?")
"""Pattern of the part of a module's name before a computed part."""


class NamesInCode(NamedTuple):
    """Names in compiled code: of global variables that it reads and assigns, of attributes, and of imports.

    ``packages`` are those from which it imports modules whose names it computes.
    """

    read: frozenset[str]
    assigned: frozenset[str]
    attributes: frozenset[str]
    imported: frozenset[str]
    packages: frozenset[str]

    @property
    def imports_by_name(self) -> bool:
        """True if the code calls a function such as ``importlib.import_module``."""
        return not IMPORTING.isdisjoint(self.read | self.attributes)


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
    packages = set[str]()
    if not IMPORTING.isdisjoint(read | attributes):  # A call such as `importlib.import_module("helper")`.
        texts = [text for text in code.co_consts if isinstance(text, str)]
        imported.update(filter(MODULE.fullmatch, texts))
        packages.update(match[1] for match in map(PACKAGE.fullmatch, texts) if match)
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    own = (read, assigned, attributes, imported, packages)
    return NamesInCode(*(frozenset(one).union(*(names[place] for names in inner)) for place, one in enumerate(own)))
