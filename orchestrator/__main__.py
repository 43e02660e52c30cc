"""The program: ``python -m orchestrator``, or ``orchestrator``."""

from __future__ import annotations

import sys

from orchestrator import environment
from orchestrator.errors import UserError


def main() -> None:
    """Run the command of this process, as :func:`orchestrator.cli.main.main` does."""
    try:
        environment.begin()
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    # Imported late: only now is it certain whose modules are imported.
    from orchestrator.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
