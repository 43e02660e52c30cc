"""The program run in this process, as a shell would run it."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from orchestrator.cli.main import main


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Program = Callable[..., Ended]


def command(*words: object) -> Ended:
    """Run a command with these words; how it ended."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return Ended(ended.value.code, out.getvalue(), err.getvalue())


def separate(*words: object) -> Ended:
    """The same in a process of its own: within one, MLflow keeps databases open that are moved aside."""
    command = [sys.executable, "-m", "orchestrator", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return Ended(done.returncode, done.stdout, done.stderr)
