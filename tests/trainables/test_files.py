"""Files that are written whole; links and devices stay what they are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from trainables.contract.files import write_whole


def test_a_link_stays_a_link_and_its_target_gets_the_content(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join()
    assert pipe.is_fifo()
    assert received == ["text"]
