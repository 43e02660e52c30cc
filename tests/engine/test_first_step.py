"""From `run --engine local` to the first optimizer step: the project's files and stack frames that a reader meets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_FILES, MOST_FRAMES = 140, 12

PROGRAM = """
import json, os, sys, threading, traceback

OURS = ("orchestrator", "trainables")
asked = set()

class Finder:
    # Modules that the main thread imports: the recorder's thread loads MLflow meanwhile.
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in OURS and threading.current_thread() is threading.main_thread():
            asked.add(name)

sys.meta_path.insert(0, Finder())

import trainables.transformer.stack as stack

def first_step(*arguments, **named):
    files = sorted(name for name in asked if getattr(sys.modules.get(name), "__file__", None))
    paths = [frame.filename for frame in traceback.extract_stack()]
    frames = [path for path in paths if any(f"/{room}/" in path for room in OURS)]
    print("MET " + json.dumps([files, frames]), flush=True)
    os._exit(0)

stack.adamw_step = first_step
sys.argv = ["orchestrator", "run", "add_vs_add_prod", "--profile", "smoke", "--engine=local", "--home", sys.argv[1]]
from orchestrator.cli.main import main
main()
"""


def test_few_files_and_frames_lie_before_the_first_optimizer_step(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    [met] = [line for line in done.stdout.splitlines() if line.startswith("MET ")]
    files, frames = json.loads(met.removeprefix("MET "))
    assert "trainables.transformer.stack" in files
    assert len(files) <= MOST_FILES, files
    assert len(frames) <= MOST_FRAMES, frames
