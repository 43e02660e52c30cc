"""MLflow's server behind the page of sweeps."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.record.mlflow_server import serve
from orchestrator.record.mlflow_store import choose_store


def test_mlflow_makes_its_temporary_files_in_a_private_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow computes the name of a lock from its database, and would follow another user's link of that name."""
    environments: list[dict[str, str]] = []

    class Server:
        pid = 2**22 + 1  # No process has it.

        def __init__(self, command: list[str], env: dict[str, str], **options: Any) -> None:
            environments.append(env)

        def wait(self, timeout: float | None = None) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Server)
    assert serve(choose_store(tmp_path, {}), tmp_path / "private" / "socket") == 0
    assert environments[0]["TMPDIR"] == str(tmp_path / "private")
