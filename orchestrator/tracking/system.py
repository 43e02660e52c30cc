"""How busy the driver's machine is while a sweep runs: measured with MLflow's own monitors, kept beside the journal.

A sample is a line of ``system.jsonl`` in the sweep's directory before it goes anywhere else, so that a lost store can
be rebuilt with it. Names are MLflow's (``cpu_utilization_percentage``, ``gpu_0_memory_usage_megabytes``, ...); its page
shows ``system/...`` in a tab of their own. On one machine the workers are part of what is measured; of other nodes of a
cluster Ray's dashboard knows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor

from orchestrator.alongside import Alongside
from orchestrator.store.machine import trouble_in

SAMPLES = "system.jsonl"
EVERY_S = 10.0
"""A sample costs about a millisecond, its record one call to the store."""


@dataclass(frozen=True)
class SystemSample:
    """What was measured at one moment; ``at_ms`` counts milliseconds since 1970."""

    at_ms: int
    values: dict[str, float]


class SystemMonitor(Alongside):
    """Samples the machine while its block runs, from a thread of its own.

    ``heard`` is called with every sample once it is on disk. GPUs are left out where there is none, or no
    ``nvidia-ml-py`` to ask it with.
    """

    def __init__(self, directory: Path, heard: Callable[[SystemSample], None], *, every_s: float = EVERY_S) -> None:
        super().__init__("system")
        self._path = directory / SAMPLES
        self._heard = heard
        self._every_s = every_s
        self._monitors = _monitors()

    def _work(self) -> None:
        self._measure()  # Shares of a processor's time are those since this thread last measured, which is now.
        over = False
        while not over:
            over = self._stop.wait(self._every_s)  # The last sample is the end's: a short sweep has that one.
            sample = SystemSample(int(time.time() * 1000), self._measure())
            if self._keep(sample):
                self._heard(sample)

    def _keep(self, sample: SystemSample) -> bool:
        """Put a sample on disk; False where that is in trouble, of which the sweep itself has more to say."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(sample)) + "\n")
        except OSError as error:
            if trouble_in(error) is None:
                raise
            return False
        return True

    def _measure(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for monitor in self._monitors:
            monitor.collect_metrics()
            values |= monitor.aggregate_metrics()
            monitor.clear_metrics()
        return values


def read_samples(directory: Path) -> Iterator[SystemSample]:
    """The samples of a sweep; one that a crash tore is left out."""
    path = directory / SAMPLES
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                yield SystemSample(**json.loads(line))
            except (ValueError, TypeError):
                continue


def _monitors() -> list[Any]:
    found = []
    kinds: tuple[Callable[[], Any], ...] = (CPUMonitor, DiskMonitor, GPUMonitor)
    for kind in kinds:
        # The GPU's needs a device and nvidia-ml-py.
        with suppress(ImportError, RuntimeError):
            found.append(kind())
    return found
