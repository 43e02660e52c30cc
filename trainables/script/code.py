"""The code of a script, whose hash is part of the keys of its runs."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from trainables.contract.settings import SettingsError
from trainables.contract.sources import DIGITS, without_comments
from trainables.script import placeholders
from trainables.script.options import ScriptOptions


def code_files(options: ScriptOptions) -> list[str]:
    """Return the files of a script's code, relative to its directory: the files under ``code:``, by default the files
    in its command."""
    if options.code:
        return sorted(set(options.code))
    root = Path(options.directory)
    words = [word for word in options.command if word and not placeholders.fields_in(word, "script.command")]
    below = [word for word in words if not Path(word).is_absolute() and ".." not in Path(word).parts]
    return sorted({word for word in below if len(word) < 256 and (root / word).is_file()})


def code_hash(options: ScriptOptions) -> str:
    """Return the hash of a script's code. Comments and empty lines of Python files do not change it.

    Raises :class:`SettingsError` if a file cannot be read.
    """
    digest = hashlib.sha256()
    for name in code_files(options):
        path = Path(options.directory) / name
        try:
            if not path.is_file():
                raise FileNotFoundError(2, "No such file", str(path))
            content = path.read_bytes()
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror}", key="script.code", given=name) from error
        digest.update(f"{name}\0".encode() + (without_comments(content) if path.suffix == ".py" else content) + b"\0")
    return digest.hexdigest()[:DIGITS]


def with_code(options: ScriptOptions) -> ScriptOptions:
    """Return options with the hash of the present code. The hash is empty if the code cannot be read."""
    try:
        return replace(options, code_hash=code_hash(options))
    except SettingsError:
        return replace(options, code_hash="")
