"""Printing of text that another user may have written. A terminal obeys control characters: they can rewrite what was
shown, fill the clipboard or answer questions in the user's name. Nothing is printed except through this module."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer
from rich import console
from rich.segment import Segment

CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal or the order of text, and halves of characters, which cannot be encoded."""


def clean(text: str) -> str:
    r"""Return a text with its control characters written out, such as ``\x1b``. Lines and tabs are kept."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a line without styles."""
    typer.echo(clean(str(text)), err=err, nl=nl)


class Console(console.Console):
    """A console that styles text but passes no control character of the text on. It does not obey rich's markup:
    with it, a text could contain a link, and rich prints the address of a link as it is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Return segments as rich does, with clean text. Its own control codes are separate from text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style, segment.control)

    def out(self, *objects: Any, **options: Any) -> None:
        """Print text as it is, without wrapping it."""
        super().out(*(clean(str(item)) for item in objects), **options)
