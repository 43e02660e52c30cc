"""Labels of functions and classes: a name and, if others of this name have another content, a number."""

from __future__ import annotations

from types import FunctionType

from trainables.contract.class_texts import loaded_parts, module_of, value_text
from trainables.contract.held_objects import name_of
from trainables.contract.user_modules import is_in_users_file


class Labels:
    """Labels of functions and classes, in the order in which they are asked for.

    Equal ones share a label: after a cell was run again without a change, other cells still have what it made before.
    """

    def __init__(self) -> None:
        self._labels: dict[int, str] = {}
        self._labelled: list[object] = []
        """References, so that no other object gets the identity of one of them."""
        self._first: dict[str, FunctionType | type] = {}
        self._contents: dict[str, list[str]] = {}

    def label_of(self, one: FunctionType | type) -> str:
        """Return the label of a function or class."""
        if id(one) not in self._labels:
            name = name_of(one)
            first = self._first.setdefault(name, one)
            number = self._number_of(name, one) if one is not first else 0
            self._labels[id(one)] = f"{name} ({number + 1})" if number else name
            self._labelled.append(one)
        return self._labels[id(one)]

    def _number_of(self, name: str, one: FunctionType | type) -> int:
        if name not in self._contents:  # Most names are of one function or class, so contents need not be compared.
            self._contents[name] = [_content_of(self._first[name])]
        contents = self._contents[name]
        content = _content_of(one)
        if content not in contents:
            contents.append(content)
        return contents.index(content)


def _content_of(one: FunctionType | type) -> str:
    if isinstance(one, type) and is_in_users_file(module_of(one)):
        return "".join(text for part in loaded_parts(one) for text in part)
    return value_text(one)
