"""``python -m orchestrator``."""

from __future__ import annotations

from orchestrator.cli.main import main

main()
