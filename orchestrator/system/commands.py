"""Commands of this program as lines to paste into a shell."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

PROGRAM_NAME = "orchestrator"
"""Name of the console script, and of the package that Python imports."""
DISTRIBUTION = "transition-sweeps"
"""Name of the package that pip installs."""


def command_line(*words: object) -> str:
    """Return the shell command that runs this program with these words, quoted as needed.

    If the console script is installed, use it: ``python -m`` would run an ``orchestrator.py`` in the working directory.
    If the shell finds the program by its name, omit the path.
    """
    script = _script()
    program = (
        [_shortest(script)] if script is not None else [_shortest(Path(sys.executable), "python"), "-m", PROGRAM_NAME]
    )
    return shlex.join([*program, *map(str, words)])


def _shortest(program: Path, name: str = PROGRAM_NAME) -> str:
    """Return the name of a program if the shell finds it under that name, otherwise its path."""
    on_path = shutil.which(name)
    # Python interpreters of several environments may be links to one file, so only their directories differ.
    if on_path is not None and Path(on_path).parent.resolve() == program.parent.resolve():
        return name
    return str(program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program)


def _script() -> Path | None:
    """Return the console script next to this interpreter. Return None if it is missing or runs another copy of this
    program."""
    script = Path(sys.executable).with_name(PROGRAM_NAME)
    here = Path(__file__).resolve().parents[2]
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
    origin = urlsplit(str(json.loads(installed.read_text("direct_url.json") or "{}").get("url", "")))
    # `pip install -e` records the directory of the sources. A wheel is unpacked next to its metadata.
    directory = Path(unquote(origin.path)) if origin.scheme == "file" else Path(str(installed.locate_file("")))
    return script if script.is_file() and directory.resolve() == here else None
