"""Runs the program in this process, as a shell would."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """Result of a command."""

    code: int
    out: str
    err: str

    def succeeded(self) -> str:
        """Return the output of a command that must have succeeded."""
        assert self.code == 0, f"{self.out}\n{self.err}"
        return self.out

    def refused(self) -> str:
        """Return the error message of a command that must have been refused."""
        assert self.code == 2, f"{self.out}\n{self.err}"
        return self.err


Program = Callable[..., Ended]


def command(*words: object) -> Ended:
    """Run a command with these words. Return its result."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return Ended(ended.value.code, out.getvalue(), err.getvalue())


def line(*words: object) -> list[str]:
    """Return the command line for a separate process."""
    return [sys.executable, "-m", "orchestrator", *map(str, words)]


def process(
    line: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    within_s: float | None = None,
) -> Ended:
    """Run any command line in a separate process."""
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=within_s)
    return Ended(done.returncode, done.stdout, done.stderr)


def separate(*words: object, within_s: float = 300.0) -> Ended:
    """Run a command in a separate process. MLflow keeps databases open within a process, even after they are moved."""
    return process(line(*words), within_s=within_s)


def started(*words: object) -> subprocess.Popen[str]:
    """Start the program in a separate process."""
    return subprocess.Popen(line(*words), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def imported(code: str, *names: str) -> list[str]:
    """Return the names among these modules that some code imports."""
    code += f"\nimport sys\nprint([name for name in {names} if name in sys.modules])"
    output = process([sys.executable, "-c", code]).succeeded()
    return list(ast.literal_eval(output.splitlines()[-1]))
