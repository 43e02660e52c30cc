"""The machine is really measured while a block runs, and what was measured is read back."""

from __future__ import annotations

import time
from pathlib import Path

from orchestrator.tracking.system import SAMPLES, SystemMonitor, SystemSample, read_samples


def test_samples_are_on_disk_before_anybody_hears_of_them(tmp_path: Path) -> None:
    heard: list[SystemSample] = []

    def hear(sample: SystemSample) -> None:
        assert list(read_samples(tmp_path))[-1] == sample
        heard.append(sample)

    with SystemMonitor(tmp_path, hear, every_s=0.1):
        until = time.monotonic() + 10
        while len(heard) < 3 and time.monotonic() < until:
            sum(range(100_000))
    assert list(read_samples(tmp_path)) == heard
    assert len(heard) >= 3
    # This test keeps a processor busy itself, if only a little.
    assert any(sample.values["cpu_utilization_percentage"] > 0 for sample in heard)
    for sample in heard:
        assert abs(sample.at_ms / 1000 - time.time()) < 60
        assert 0 <= sample.values["cpu_utilization_percentage"] <= 100
        assert sample.values["system_memory_usage_megabytes"] > 1
        assert sample.values["disk_available_megabytes"] > 0


def test_a_block_shorter_than_the_time_between_samples_has_one(tmp_path: Path) -> None:
    heard: list[SystemSample] = []
    with SystemMonitor(tmp_path, heard.append):
        pass
    assert len(heard) == 1
    assert list(read_samples(tmp_path)) == heard


def test_a_torn_sample_is_left_out(tmp_path: Path) -> None:
    (tmp_path / SAMPLES).write_text('{"at_ms": 5, "values": {"cpu_utilization_percentage": 1.5}}\n{"at_ms": 6, "val')
    assert list(read_samples(tmp_path)) == [SystemSample(5, {"cpu_utilization_percentage": 1.5})]
    assert list(read_samples(tmp_path / "nowhere")) == []
