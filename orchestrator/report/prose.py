"""Text that wraps between words and never within a number: ``2 700`` stays on one line, at a terminal and on a page."""

from __future__ import annotations

import re

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod
from rich.containers import Lines
from rich.measure import Measurement
from rich.text import Text

GROUPED = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")
"""The space between thousands."""
JOINT = "\ue000"
"""Stands for that space while rich wraps, which breaks lines at no-break spaces, too. It is for private use."""
INDENT = 2


def whole_numbers(text: str) -> str:
    """A text whose numbers, written with thousands apart, a browser does not break."""
    return GROUPED.sub("\N{NO-BREAK SPACE}", text)


class Prose(Text):
    """Text for a terminal. ``hanging``: of a text of several lines those after the first stand further in.

    Printed in a table or a ``Group``: rich makes a plain ``Text`` of one that is printed by itself.
    """

    def __init__(self, text: str, style: str = "", *, hanging: bool = False) -> None:
        super().__init__(text, style)
        self._indent = " " * (INDENT + len(text) - len(text.lstrip())) if hanging else ""

    def wrap(
        self,
        console: Console,
        width: int,
        *,
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        tab_size: int = 8,
        no_wrap: bool | None = None,
    ) -> Lines:
        """The lines of the text in so many columns."""

        def wrapped(columns: int) -> Lines:
            return self._joined().wrap(
                console, columns, justify=justify, overflow=overflow, tab_size=tab_size, no_wrap=no_wrap
            )

        lines = wrapped(width)
        if len(lines) > 1 and len(self._indent) < width // 2:
            lines = wrapped(width - len(self._indent))
            for line in lines[1:]:
                line.pad_left(len(self._indent))
        for line in lines:
            line.plain = line.plain.replace(JOINT, " ")
        return lines

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._joined().__rich_measure__(console, options)

    def _joined(self) -> Text:
        """The same as rich's own text, in which a number is one word."""
        joined = self.copy()
        joined.plain = GROUPED.sub(JOINT, self.plain)
        return joined
