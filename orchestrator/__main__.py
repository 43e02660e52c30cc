"""``python -m orchestrator``."""

from __future__ import annotations

from orchestrator.cli import main

main()
