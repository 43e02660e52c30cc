"""``doctor``'s whole GPU half in the emulation: every check comes to an end, and says what is true of such a device.

It computes nothing: what looks at values must call it wrong, and what times it may say anything. What repeats, holds
memory or cannot be launched is judged as on a GPU.
"""

from __future__ import annotations

import subprocess
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.doctor.checkup import gpu_checks
from orchestrator.doctor.findings import Verdict, examine
from orchestrator.doctor.fresh import fresh
from orchestrator.doctor.gpu import steps, together

OK, SLOW, WRONG = Verdict.OK, Verdict.SLOW, Verdict.WRONG
EXPECTED = {
    "GPU": {OK},
    "driver": {SLOW},  # There is no nvidia-smi.
    "sharing": {OK},
    "compiler": {OK},
    "copying": {OK, SLOW},
    "multiplying": {OK, SLOW},
    "losses": {WRONG},
    "replaying": {OK},
    "shrinking": {OK},
    "memory's end": {OK},
    "many rows": {OK, WRONG},  # Its losses are what memory held before.
    "two processes": {OK, SLOW},
    "GPU tests": {WRONG},
    "throughput": {OK},
}
"""The verdicts that are true of a device that computes nothing and takes no time."""
PATIENCE = 10.0
"""Times the limits of a GPU's own machine: here kernels are compiled by a core that others use, too."""


def test_every_check_of_a_gpu_has_a_verdict_that_the_emulation_deserves() -> None:
    assert [check.name for check in gpu_checks()] == list(EXPECTED)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """More time for what starts other processes."""

    def run(words: list[str], *, timeout: float, **given: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, timeout=PATIENCE * timeout, check=False, **given)

    given = {"run": lambda words, check, **more: run(words, **more)}
    monkeypatch.setattr(together, "subprocess", SimpleNamespace(**given))
    for module in (steps, together):
        monkeypatch.setattr(module, "fresh", partial(fresh, timeout_s=PATIENCE * 300))


@pytest.mark.emulated
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("emulation", "patient")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_check_of_a_gpu_ends_with_what_is_true_of_the_emulation(name: str) -> None:
    [check] = [each for each in gpu_checks() if each.name == name]
    [(found, _)] = examine([check], PATIENCE * 600)
    assert found is not None
    print(f"{found.verdict:<6}{name:<15}{found.seconds:>5.0f} s  {found.said}")
    assert "error" not in found.figures, f"it could not end: {found.said}"
    assert found.verdict in EXPECTED[name], found.said
    assert bool(found.todo) == (found.verdict != OK)
