"""Files that are written whole; links and devices stay what they are."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.system import files
from tests.cli.program import process
from trainables.contract.files import write_whole

Write = Callable[[Path, str], None]
SOURCES = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
every_writer = pytest.mark.parametrize("write", [write_whole, files.write_whole], ids=["trainables", "orchestrator"])


@every_writer
def test_a_link_stays_a_link_and_its_target_gets_the_content(write: Write, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"


@every_writer
def test_a_pipe_is_not_replaced_by_a_file(write: Write, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write(pipe, "text")
    reader.join()
    assert pipe.is_fifo()
    assert received == ["text"]


@every_writer
@pytest.mark.parametrize("redirected", ["", "> file", "| cat"])
def test_the_output_of_the_process_is_written(write: Write, redirected: str, tmp_path: Path) -> None:
    code = f"from pathlib import Path; from {write.__module__} import write_whole as w; w(Path('/dev/stdout'), 'text')"
    done = process(["sh", "-c", f'"$0" -c "$1" {redirected}', sys.executable, code], cwd=tmp_path, environment=SOURCES)
    done.succeeded()
    assert ((tmp_path / "file").read_text() if "file" in redirected else done.out) == "text"
