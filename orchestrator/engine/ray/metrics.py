"""A sweep's progress as Prometheus metrics, exported by Ray for its page with Ray's own.

Ray puts ``ray_`` before every name. Nothing is computed unless the dashboard runs, whose agents export them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Self

from ray.util.metrics import Gauge

from orchestrator.terminal.snapshot import Counts, Snapshot

PREFIX = "ray_"
EVERY_S = 5.0
"""Ray's agents collect values every ten seconds."""

RUNS = "sweep_runs"
LEFT = "sweep_runs_left_at_most"
ACCURACY = "sweep_accuracy_in_training"
STEPS = "sweep_run_steps_per_second"
LOW, HIGH = "sweep_transition_above_size", "sweep_transition_up_to_size"
TRAINED = "sweep_trained_seconds"
GPU_MEMORY = "sweep_gpu_memory_bytes"

METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    RUNS: ("Runs by mix and state: training, finished, diverged, failed.", ("sweep", "mix", "state")),
    LEFT: ("Runs that may still come, at most.", ("sweep", "mix")),
    ACCURACY: ("Mean accuracy on the target of the runs in training, at their last evaluations.", ("sweep", "mix")),
    STEPS: ("Optimizer steps of all runs together, a second, over the last minute.", ("sweep",)),
    LOW: ("The largest size that did not learn the target.", ("sweep", "mix")),
    HIGH: ("The smallest size that learned the target.", ("sweep", "mix")),
    TRAINED: ("Training time spent, summed over runs.", ("sweep",)),
    GPU_MEMORY: ("GPU memory held by a worker's tensors, at its peak.", ("sweep",)),
}
"""Every metric by its name without :data:`PREFIX`: its description, and its labels in addition to Ray's."""


@dataclass(frozen=True)
class Value:
    """One value of a metric."""

    name: str
    value: float
    labels: dict[str, str]


def values(sweep_id: str, snapshot: Snapshot) -> Iterator[Value]:
    """A snapshot as metrics, without what is unknown."""
    whole = {"sweep": sweep_id}
    training: dict[str, list[float | None]] = defaultdict(list)
    for run in snapshot.in_flight:
        training[run.mix].append(run.accuracy)
    for mix in snapshot.mixes:
        labels, counts = whole | {"mix": mix.mix}, snapshot.counts.get(mix.mix, Counts())
        for state, count in (
            ("training", len(training[mix.mix])),
            ("finished", counts.finished),
            ("diverged", counts.diverged),
            ("failed", counts.failed),
        ):
            yield Value(RUNS, count, labels | {"state": state})
        yield Value(LEFT, mix.runs_left, labels)
        if accuracies := [accuracy for accuracy in training[mix.mix] if accuracy is not None]:
            yield Value(ACCURACY, fmean(accuracies), labels)
        if mix.low is not None:
            yield Value(LOW, mix.low, labels)
        if mix.high is not None:
            yield Value(HIGH, mix.high, labels)
    yield Value(TRAINED, snapshot.trained_s, whole)
    if snapshot.steps_per_s is not None:
        yield Value(STEPS, snapshot.steps_per_s, whole)


class Exporter:
    """Sets the metrics while its block runs, from a thread of its own, and once more when it ends."""

    def __init__(self, sweep_id: str, snapshot: Callable[[], Snapshot], *, every_s: float = EVERY_S) -> None:
        self._sweep_id = sweep_id
        self._snapshot = snapshot
        self._every_s = every_s
        self._gauges: dict[str, Gauge] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            for each in values(self._sweep_id, self._snapshot()):
                if each.name not in self._gauges:
                    self._gauges[each.name] = gauge(each.name)
                self._gauges[each.name].set(each.value, each.labels)
            if self._stop.wait(self._every_s):
                return


def gauge(name: str) -> Gauge:
    """Ray's gauge for one of :data:`METRICS`."""
    description, labels = METRICS[name]
    return Gauge(name, description, labels)
