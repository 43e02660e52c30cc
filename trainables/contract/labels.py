"""Labels of functions and classes: a name and, if others of this name have another content, a number."""

from __future__ import annotations

from types import FunctionType

from trainables.contract.class_texts import loaded_parts, module_of, name_of, value_text
from trainables.contract.user_modules import is_in_users_file


class Labels:
    """Labels of functions and classes, in the order in which they are asked for.

    Equal ones share a label: after a cell was run again without a change, other cells still have what it made before.
    """

    def __init__(self) -> None:
        self._labels: dict[int, str] = {}
        self._labelled: list[object] = []
        """References, so that no other object gets the identity of one of them."""
        self._contents: dict[str, list[str]] = {}

    def label_of(self, one: FunctionType | type) -> str:
        """Return the label of a function or class."""
        if id(one) not in self._labels:
            name = name_of(one)
            contents = self._contents.setdefault(name, [])
            content = _content_of(one)
            if content not in contents:
                contents.append(content)
            number = contents.index(content)
            self._labels[id(one)] = f"{name} ({number + 1})" if number else name
            self._labelled.append(one)
        return self._labels[id(one)]


def _content_of(one: FunctionType | type) -> str:
    if isinstance(one, type) and is_in_users_file(module_of(one)):
        return "".join(text for part in loaded_parts(one) for text in part)
    return value_text(one)
