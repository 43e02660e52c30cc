"""Entry point of ``python -m orchestrator`` and of ``orchestrator``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

NAMING_CODE = ("run", "plan", "show", "reproduce", "check-family", "simulate", "doc", "probe")
"""Commands whose arguments may name code in the working directory. Others only read homes, which may be another
user's, and a home may name any module that can be found."""
CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""A class in a module, such as ``my_models:Board``."""

OF_HOMES = ("sweeps/*/journal.jsonl", "runs/*/outcome.json")
"""Files in every home that has a sweep or a run."""


def _is_home(directory: Path) -> bool:
    """Return True for a home or a directory in one, whose files may be another user's."""
    return any(next(place.glob(files), None) for place in (directory, *directory.parents) for files in OF_HOMES)


def _names_code(words: Sequence[str]) -> bool:
    """Return True if a command's words name code or a search space of the user's, which may name code next to it."""
    command, *given = [word for word in words if word != "--debug"] or [""]
    return command in NAMING_CODE and any(word.endswith((".yaml", ".yml")) or CODE.search(word) for word in given)


def main() -> None:
    """Run this process's command with :func:`orchestrator.cli.main.main`."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        sys.stderr.write("error: the working directory was deleted: start from another directory\n")
        sys.exit(2)
    sys.path[:] = [path for path in sys.path if path not in ("", here)]
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    # Imported late, because only now is the search path safe.
    from orchestrator.cli.main import main as run
    from orchestrator.system.permissions import writable_by_others
    from trainables.contract.user_code import offer_working_directory

    if _names_code(sys.argv[1:]) and not _is_home(Path(here)):
        offer_working_directory(here, is_open=writable_by_others(Path(here)) is not None)
    run()


if __name__ == "__main__":
    main()
