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
"""Name of the console script, and of the package."""


def command_line(*words: object) -> str:
    """Return the shell command that runs this program with these words, quoted as needed.

    It calls the console script if that is installed: ``python -m`` would run an ``orchestrator.py`` in the working
    directory. A program that the shell finds needs no path.
    """
    script = _script()
    program = (
        [_shortest(script)] if script is not None else [_shortest(Path(sys.executable), "python"), "-m", PROGRAM_NAME]
    )
    return shlex.join([*program, *map(str, words)])


def _shortest(program: Path, name: str = PROGRAM_NAME) -> str:
    """Return the name of a program if the shell finds it under that name, otherwise its path."""
    on_path = shutil.which(name)
    # Interpreters of environments are links to one file, so only their directories differ.
    if on_path is not None and Path(on_path).parent.resolve() == program.parent.resolve():
        return name
    return str(program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program)


def _script() -> Path | None:
    """Return the console script next to this interpreter if it runs this very program, not another copy of it."""
    script = Path(sys.executable).with_name(PROGRAM_NAME)
    here = Path(__file__).resolve().parents[2]
    try:
        installed = distribution("transition-sweeps")
    except PackageNotFoundError:
        return None
    origin = urlsplit(str(json.loads(installed.read_text("direct_url.json") or "{}").get("url", "")))
    # Of `pip install -e`, and of a wheel.
    place = Path(unquote(origin.path)) if origin.scheme == "file" else Path(str(installed.locate_file("")))
    return script if script.is_file() and place.resolve() == here else None
