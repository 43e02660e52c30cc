"""Entry point of ``python -m orchestrator`` and of ``orchestrator``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run this process's command with :func:`orchestrator.cli.main.main`."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # MKL would end the process in a deleted directory.
        sys.stderr.write("error: the working directory was deleted: start from another directory\n")
        sys.exit(2)
    # A random.py in the working directory must not replace Python's while the modules below are imported.
    sys.path[:] = [path for path in sys.path if path not in ("", here)]
    from orchestrator import environment
    from orchestrator.errors import UserError

    try:
        environment.begin()
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    # Imported late, because only now is the search path safe.
    from orchestrator.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
