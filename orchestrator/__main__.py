"""Entry point of ``python -m orchestrator`` and of ``orchestrator``."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run this process's command with :func:`orchestrator.cli.main.main`."""
    # Modules in the working directory can be imported, but do not replace those of a library or of this program.
    try:
        here = os.getcwd()
    except FileNotFoundError:
        sys.stderr.write("error: the working directory was deleted: start from another directory\n")
        sys.exit(2)
    sys.path[:] = [path for path in sys.path if path not in ("", here)]
    sys.path += [str(Path(__file__).resolve().parents[1]), here]
    # Imported late, because only now is the search path safe.
    from orchestrator.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
