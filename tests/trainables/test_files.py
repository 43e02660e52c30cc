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


@pytest.mark.parametrize("name", ["results", "*", "[a-z]"])
def test_hidden_directories_of_the_user_stay(name: str, tmp_path: Path) -> None:
    """An export to ``results`` once deleted ``.results-backup``."""
    token = "0123456789abcdef"
    contents = {
        f".{name}-backup": "whole",
        f".{name}-{token}0": "whole",
        f".{name}-{token}": "thesis",
        ".git-2025": "x",
    }
    for directory, inner in contents.items():
        (tmp_path / directory / inner).mkdir(parents=True)
    abandoned, recent = (tmp_path / f".{name}-{digits}" for digits in (token[::-1], 2 * token[:8]))
    for path in (abandoned, recent):
        (path / files.FILLED_DIRECTORY).mkdir(parents=True)
    for path in (*map(tmp_path.joinpath, contents), abandoned):
        os.utime(path, (1, 1))
    with files.whole_directory(tmp_path / name) as made:
        (made / "table").touch()
    assert {path.name for path in tmp_path.iterdir()} == {*contents, recent.name, name}
