"""Probes on the trained models of a sweep that are there already."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.engine.probing import probe_kept_run
from orchestrator.home.files import scratch
from orchestrator.home.run_files import is_due
from trainables.base import Status
from trainables.probes.base import Probe


@dataclass
class Probings:
    """Results of a probe over the runs of a sweep: how many of which kind, and every error with its run's key."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """``3 probed, 1 there already``."""
        return ", ".join(f"{count} {word}" for word, count in self.counts.items()) or "there is no run yet"


def probe_runs(probe: Probe, stored: StoredSweep, *, again: bool = False) -> Probings:
    """Run a probe on every finished run that lacks it, with ``again`` on those that have it, too."""
    family, data = stored.spec.make_family(), scratch(stored.spec.resources.scratch)
    found = Probings()
    for run in stored.runs:
        if run.outcome.status is not Status.FINISHED:
            found.counts["not finished"] += 1
        elif not again and not is_due(probe, run.directory):
            found.counts["there already"] += 1
        else:
            result = probe_kept_run(probe, family, run.config, run.runs, run.key, data)
            found.counts["failed" if result.error else "probed"] += 1
            found.errors += [f"{run.key}: {result.reason}"] if result.error else []
    return found
