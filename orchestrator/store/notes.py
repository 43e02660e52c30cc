"""What a person writes about a sweep: a note and tags, in a file of their own that changes no result."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.store.files import SweepFiles, write_whole

TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}")
LONGEST = 2_000
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Notes:
    """A text, and tags in alphabetical order; both may be empty."""

    text: str = ""
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        tags = " ".join(f"#{tag}" for tag in self.tags)
        return " ".join(filter(None, (tags, self.text)))

    def changed(self, text: str | None, add: tuple[str, ...], drop: tuple[str, ...]) -> Notes:
        """With another text, unless that is None, and with tags added and dropped. Raises ``UserError``."""
        for tag in add:
            if not TAG.fullmatch(tag):
                raise UserError(f"the tag {tag!r}: letters, digits, '_', '.', ':' and '-', 40 at most, no spaces")
        if unknown := sorted(set(drop) - set(self.tags)):
            raise UserError(f"there is no tag {unknown[0]!r} to drop; there are: {', '.join(self.tags) or 'none'}")
        if text is not None and (len(text) > LONGEST or CONTROL.search(text)):
            raise UserError(f"a note has {LONGEST} characters at most, and no control characters")
        return Notes(self.text if text is None else text, tuple(sorted({*self.tags, *add} - set(drop))))


def read_notes(files: SweepFiles) -> Notes:
    """What was written about a sweep. A damaged file says so in place of the note."""
    try:
        said = json.loads(files.notes.read_text(encoding="utf-8"))
        return Notes(str(said["text"]), tuple(map(str, said["tags"])))
    except FileNotFoundError:
        return Notes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Notes(f"({files.notes.name} cannot be read: {type(error).__name__}; `note` writes it anew)")


def write_notes(files: SweepFiles, notes: Notes) -> None:
    """Put down what a person says about a sweep."""
    write_whole(files.notes, json.dumps({"text": notes.text, "tags": notes.tags}))
