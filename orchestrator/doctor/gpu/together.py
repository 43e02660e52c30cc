"""Processes that share a GPU, the tests that need one, and the throughput benchmark: what takes longest."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from orchestrator.doctor.findings import Finding, ok, skipped, slow, wrong
from orchestrator.doctor.fresh import Order, fresh
from orchestrator.doctor.sample import Sample

ROOT = Path(__file__).parents[3]
SAMPLE = Sample(n_embed=32, runs=32, device="cuda", precision="bf16", block=128, batch=64)
STEPS, SECONDS = 4, 5.0
PAYS = 1.05
"""Two processes are worth their memory from so many times one process's rate on."""
BRIEF = ("--tb=no", "--assert=plain")
"""Options of pytest: nobody reads more than which tests fail, and to show a tensor of a GPU whose sums are wrong can
take all memory there is: the size of what is shown is computed there."""
TESTS_S, THROUGHPUT_S = 240.0, 150.0
FROM_A_CLONE = "it comes with the repository: run doctor from a clone of it"


def two_processes() -> Finding:
    """Two stacks in processes with half of the GPU each, against one stack in one."""
    alone = fresh([Order(SAMPLE, STEPS, SECONDS)])[0].rate
    half = Order(replace(SAMPLE, runs=SAMPLE.runs // 2), STEPS, SECONDS, share=0.5)
    both = sum(each.rate for each in fresh([half, half]))
    figures = {"alone": alone, "both": both, "runs_x_steps_a_second_ratio": both / alone}
    said = f"two stacks of {half.sample.runs} in two processes take {both / alone:.2f} times the steps of one of 32"
    if both < PAYS * alone:
        todo = (
            "--gpu-fraction 1 is as quick here, with more memory; where MPS runs (nvidia-cuda-mps-control -d), more pay"
        )
        return slow(said, todo, **figures)
    return ok(said, **figures)


def tests() -> Finding:
    """The tests marked gpu, where they are at hand."""
    folder = ROOT / "tests" / "trainables"
    if not folder.is_dir():
        return skipped("the tests that need a GPU are not installed", FROM_A_CLONE)
    words = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--no-header", "-p", "no:cacheprovider", *BRIEF]
    words.append(str(folder))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TESTS_S)
    last = next(reversed(done.stdout.strip().splitlines()), "")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    said = f"tests marked gpu: {last.strip('= ')}"
    if done.returncode:
        todo = "steps do not do here what they should: python -m pytest -m gpu tests/trainables"
        return wrong(said, todo, failed=failed)
    return ok(said)


def throughput() -> Finding:
    """Rows of the throughput benchmark, where it is at hand, for as long as there is time."""
    if not (ROOT / "tests" / "bench" / "throughput.py").is_file():
        return skipped("the throughput benchmark is not installed", FROM_A_CLONE)
    words = [sys.executable, "-m", "tests.bench.throughput", "--device", "cuda", "--widths", "64", "--stacks", "16"]
    words += ["64", "--shares", "2", "--seconds", "0.5", "--minutes", str(THROUGHPUT_S / 60 - 1)]
    words.append("--no-a2")  # To compile what is not the project's own would take most of that time.
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=2 * THROUGHPUT_S)
    rows = [line for line in done.stdout.splitlines() if re.match(r"\| \d+ \|", line)]
    if done.returncode or not rows:
        notes = [line for line in done.stdout.splitlines() if re.match(r"[^|]+: \w*(Error|memory)", line)]
        said = "; ".join(notes) or next(reversed(done.stderr.strip().splitlines()), "")
        return wrong(f"the throughput benchmark fails: {said}", f"run it by itself: {' '.join(words[1:6])}")
    best = max(rows, key=lambda row: float(row.split("|")[3]))
    cells = [cell.strip() for cell in best.split("|")[1:-1]]
    said = f"quickest at n_embed {cells[0]}: {cells[1]}, {cells[2]} runs x steps/s, {cells[7]} of the ceiling"
    return ok(said, table=rows)
