"""Prints text that another user may have written. Everything is printed through this module.

A terminal obeys control characters. They can rewrite printed text, fill the clipboard, or answer questions in the name
of the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer
from rich import console
from rich.segment import Segment

CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Pattern of characters that control a terminal or the order of text, and of half characters without an encoding."""


def clean(text: str) -> str:
    r"""Return a text with its control characters written out, such as ``\x1b``. Line ends and tabs stay."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a line without styles."""
    typer.echo(clean(str(text)), err=err, nl=nl)


class Console(console.Console):
    """A console that styles text, but prints none of its control characters. Rich's markup is off, because a text could
    contain a link, and rich prints the address of a link unchanged."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Return rich's segments with clean text. Rich's own control codes are in separate segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style, segment.control)

    def out(self, *objects: Any, **options: Any) -> None:
        """Print text without wrapping it."""
        super().out(*(clean(str(item)) for item in objects), **options)
