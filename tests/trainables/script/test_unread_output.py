"""A script whose output nobody reads any more ends with its worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.waiting import wait_for
from trainables.script.guard import MOST_SEGMENTS, segments
from trainables.script.process import ScriptProcess


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_guard_with_unread_output_ends_with_its_script(stream: str, tmp_path: Path) -> None:
    """It waited for ever for room in the directory of output: a process was left for each run of a killed sweep."""
    program = f"import sys\nwhile True: sys.{stream}.write('x' * 99 + chr(10))"
    process = ScriptProcess([sys.executable, "-c", program], tmp_path, {}, tmp_path, grace_s=0.5)
    wait_for(lambda: len(segments(str(tmp_path))) >= MOST_SEGMENTS, 60)
    process.stop()
    ended = process.ended()
    assert ended is not None
    assert ended.stopped
    assert process._guard.poll() is not None
