"""The software and hardware that a result was computed with."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orchestrator.system import hardware

PACKAGES = ("torch", "ray", "mlflow", "numpy", "scipy", "scikit-learn")
"""Packages whose versions may change a result or its record."""


def describe_environment() -> dict[str, Any]:
    """Return the environment as JSON values, without names of users or hosts and without paths.

    They are ``versions`` by package, ``git`` (the commit and whether files were edited, or None outside a checkout),
    ``hardware`` and ``platform``.
    """
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "git": _git(),
        "hardware": str(hardware.detect()),
        "platform": platform.platform(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # Sweeps run without MLflow.
        return "not installed"


def _git() -> dict[str, Any] | None:
    directory = Path(__file__).resolve().parent
    # An installed package may be inside an unrelated checkout, for example in its virtual environment.
    commit = _run_git(directory, "rev-parse", "HEAD")
    tracked = _run_git(directory, "ls-files", "--error-unmatch", Path(__file__).name)
    if commit is None or tracked is None:
        return None
    return {"commit": commit, "edited": bool(_run_git(directory, "status", "--porcelain", "--untracked-files=no"))}


def _run_git(directory: Path, *words: str) -> str | None:
    """Return the output of a git command, or None if it fails."""
    try:
        return subprocess.run(
            ["git", *words], cwd=directory, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
