"""Environment of a sweep for its journal: versions, commit and hardware."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orchestrator.space import hardware

PACKAGES = ("torch", "ray", "mlflow", "numpy", "scipy", "scikit-learn")


def describe_environment() -> dict[str, Any]:
    """Return JSON values: ``versions`` by package, ``git`` (commit and whether it was edited, or None outside a
    checkout), ``hardware`` and ``platform``. They do not contain a user, host or path."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "git": _git(),
        "hardware": str(hardware.detect()),
        "platform": platform.platform(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _git() -> dict[str, Any] | None:
    directory = Path(__file__).resolve().parent
    commit = _run_git(directory, "rev-parse", "HEAD")
    tracked = _run_git(directory, "ls-files", "--error-unmatch", Path(__file__).name)
    if commit is None or tracked is None:
        return None
    return {"commit": commit, "edited": bool(_run_git(directory, "status", "--porcelain", "--untracked-files=no"))}


def _run_git(directory: Path, *words: str) -> str | None:
    """Return the output of a git command, or None if it fails. Git hooks set variables that name another repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *words], cwd=directory, env=environment, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
