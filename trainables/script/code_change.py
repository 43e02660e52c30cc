"""Sentence about the files of a script's code that have changed since its sweep began."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Mapping

from trainables.script.code import file_hashes
from trainables.script.options import ScriptOptions
from trainables.script.program_text import has_program_suffix

PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
"""Pattern of names of files that YAML reads as texts without quotation marks."""


def change_text(options: ScriptOptions, before: Mapping[str, str]) -> str:
    """Return a clause that names the files that have changed, and a remedy if the script may write them itself.

    Args:
        options: The script's options.
        before: The result of :func:`file_hashes` when the sweep began. If it is empty, all files are named.

    Raises :class:`SettingsError` if a file cannot be read.
    """
    now = file_hashes(options)
    changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name)) or list(now)
    text = (
        f"{', '.join(changed)} in {options.directory} on {platform.node()} {'was' if len(changed) == 1 else 'were'} "
        "changed in the meantime, or that machine has another copy"
    )
    settings = [name for name in changed if name in now and not has_program_suffix(name)]
    return f"{text}. {_remedy(settings, now.keys() - {*settings})}" if settings and before else text


def _remedy(written: list[str], others: Iterable[str]) -> str:
    """Return what to do if the script itself writes some files. The ``others`` are the rest of its code."""
    it = "it" if len(written) == 1 else "them"
    start = (
        f"If the script itself writes {' and '.join(written)}, let it write {it} to {{out}}, because several runs may "
        "train at once"
    )
    # Only files below the directory can be listed.
    listed = sorted(name for name in others if not name.startswith(("/", "../")))
    if not listed:
        return start
    names = ", ".join(name if PLAIN.fullmatch(name) else json.dumps(name) for name in listed)
    return f"{start}, or list its own files under `script:` without {it}: `code: [{names}]`"
