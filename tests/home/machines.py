"""Programs beside a home in an object store that know nothing of one another, as on several machines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.chaos.program import ROOT

SPACE = {
    "name": "counted",
    "question": "Does PROD help ADD?",
    "family": "tests.home.counting:CountingFamily",
    "target": "add",
    "mixes": ["add", "add+prod"],
    "sizes": [16, 32, 64],
    "seeds": 2,
    "search": {"method": "grid"},
    "resources": {"max_stack": 1, "cpu_per_stack": 2, "checkpoint_every_s": 0.1},
}
HASTY = "import orchestrator.home.driver_lock as l; l.RENEW_S, l.LAPSE_S = 0.5, {lapse_s}; "
PROGRAM = "from orchestrator.cli.main import main; import sys; main(sys.argv[1:])"


class Machine:
    """``directory`` is all that it has to itself: its part of homes, and copies of what a store keeps. Leases lapse
    after ``lapse_s``, so that nobody has to wait."""

    def __init__(self, directory: Path, lapse_s: float = 3.0) -> None:
        self.directory = directory
        self._lapse_s = lapse_s
        directory.mkdir()

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        own = {"ORCHESTRATOR_LOCAL": str(self.directory), "TMPDIR": str(self.directory)}
        said = self.directory / "said.log"
        with said.open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-c", HASTY.format(lapse_s=self._lapse_s) + PROGRAM, *words],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=os.environ | own | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"},
                text=True,
            )

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command to its end, which is as expected; what it printed."""
        program = self.begin(*words)
        out, _ = program.communicate(timeout=280)
        assert program.returncode == code, f"{out}\n{self.said}"
        return out

    @property
    def said(self) -> str:
        """What its commands said on stderr."""
        return (self.directory / "said.log").read_text()


def write_space(directory: Path, log: Path, sleep_s: float) -> str:
    """The search space, of a family that says in ``log`` what it has trained, as a file; its path."""
    path = directory / f"{log.stem}.yaml"
    path.write_text(yaml.safe_dump(SPACE | {"settings": {"log": str(log), "sleep_s": sleep_s}}), encoding="utf-8")
    return str(path)
