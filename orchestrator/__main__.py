"""Entry point of ``python -m orchestrator`` and of ``orchestrator``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAMING_CODE = ("run", "plan", "show", "reproduce", "check-family", "simulate", "doc", "probe")
"""Commands whose arguments may name code in the working directory. Others only read homes, which may be somebody
else's, and a home may name any module that can be found."""


OF_HOMES = ("sweeps/*/journal.jsonl", "runs/*/outcome.json")
"""Files in every home that has a sweep or a run."""


def _is_home(directory: Path) -> bool:
    """Return True for a home or a directory in one, whose files may be somebody else's. Libraries try to import modules
    that are not installed, so a file of such a name would be run."""
    return any(next(place.glob(files), None) for place in (directory, *directory.parents) for files in OF_HOMES)


def main() -> None:
    """Run this process's command with :func:`orchestrator.cli.main.main`."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        sys.stderr.write("error: the working directory was deleted: start from another directory\n")
        sys.exit(2)
    sys.path[:] = [path for path in sys.path if path not in ("", here)]
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    if next((word for word in sys.argv[1:] if word != "--debug"), "") in NAMING_CODE and not _is_home(Path(here)):
        sys.path.append(here)  # At the end: its modules do not replace those of a library or of this program.
    # Imported late, because only now is the search path safe.
    from orchestrator.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
