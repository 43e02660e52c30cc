"""Inject random faults, several into each sweep, and report their cost: ``python -m tests.chaos --rounds N``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from tests.chaos.disturbed import LostError
from tests.chaos.faults import FAULTS, small_disk
from tests.chaos.ground import KeptRay, OwnRay
from tests.chaos.rounds import ROUNDS_A_SWEEP, RUNS, Counted, Round, Truth, play, truth

OWN = 0.25
"""Share of faults for which a sweep starts its own Ray although a shared cluster would do: starting Ray is slow."""
AGAIN = 3
"""Maximum number of sweeps per drawn sweep. Faults without a visible effect do not count and are repeated."""
Batch = tuple[bool, list[str]]
"""True if a sweep has its own Ray, and the faults to inject into it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if enough faults had an effect and no run was lost, doubled or changed; otherwise return 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="faults with a visible effect (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random faults (default 0)")
    parser.add_argument("--within", type=float, default=float("inf"), help="start no sweep after this many seconds")
    wanted_spec = parser.parse_args(arguments)
    rng = np.random.default_rng(wanted_spec.seed)
    begun, played = time.monotonic(), list[tuple[list[Round], Counted]]()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name, closing(KeptRay()) as cluster:
        directory = Path(name)
        expected = truth(directory / "truth")
        waiting = drawn(wanted_spec.rounds, _kinds(directory), rng)
        most = AGAIN * len(waiting)
        while waiting and len(played) < most and time.monotonic() - begun < wanted_spec.within:
            own, faults = waiting.pop(0)
            place = directory / f"sweep-{len(played) + 1}"
            played.append(_sweep(faults, OwnRay() if own else cluster, expected, place, rng))
            rounds, _ = played[-1]
            if left := [*(item.fault for item in rounds if not item.seen), *faults[len(rounds) :]]:
                waiting.append((own, left))
    seen, good = sum(item.seen for rounds, _ in played for item in rounds), sum(item.good for _, item in played)
    print(f"\n{good} of {len(played)} sweeps of {RUNS} runs lost, doubled and changed nothing")
    print(f"saw {seen} faults of seed {wanted_spec.seed} in {time.monotonic() - begun:.0f} s, cluster start included")
    return 0 if seen >= wanted_spec.rounds and good == len(played) else 1


def drawn(rounds: int, kinds: Sequence[str], rng: np.random.Generator) -> list[Batch]:
    """Draw ``rounds`` faults, at most :data:`ROUNDS_A_SWEEP` per sweep. Each kind occurs once before any kind
    repeats."""
    order = [kinds[place] for _ in range(-(-rounds // len(kinds))) for place in rng.permutation(len(kinds))]
    of: dict[bool, list[str]] = {True: [], False: []}
    for fault in order[:rounds]:
        kind = FAULTS[fault]
        of[kind.own or (not kind.cluster and bool(rng.random() < OWN))].append(fault)
    return [
        (own, faults[first : first + ROUNDS_A_SWEEP])
        for own, faults in of.items()
        for first in range(0, len(faults), ROUNDS_A_SWEEP)
    ]


def _kinds(directory: Path) -> list[str]:
    """Return the kinds of faults that are possible on this machine."""
    place = directory / "disk"
    place.mkdir()
    with small_disk(place) as mounted:
        kinds = [name for name, fault in FAULTS.items() if mounted or not fault.disk]
    if not mounted:
        print(f"cannot mount a disk here: skipping {', '.join(set(FAULTS) - set(kinds))}", flush=True)
    return kinds


def _sweep(
    faults: Sequence[str], ground: OwnRay, expected: Truth, place: Path, rng: np.random.Generator
) -> tuple[list[Round], Counted]:
    """Run a sweep with these faults. Print its output if its result is wrong or a fault had no visible effect."""
    (place / "disk").mkdir(parents=True)
    rounds = list[Round]()

    def note(item: Round) -> None:
        rounds.append(item)
        print(f"{place.name}: {'seen' if item.seen else 'NOT SEEN'}: {item}", flush=True)

    begun = time.monotonic()
    with small_disk(place / "disk"):
        try:
            result = play(faults, ground, expected, place, rng, note)
        except (LostError, TimeoutError, subprocess.TimeoutExpired) as error:
            print(f"{place.name}: {type(error).__name__}: {error}", flush=True)
            result = Counted(lost=RUNS, doubled=0, changed=0, same_answer=False)
    print(f"{place.name}: {'good' if result.good else 'BAD'} {result}, {time.monotonic() - begun:.0f} s", flush=True)
    if not result.good or not all(item.seen for item in rounds):
        print((place / "log").read_text(), flush=True)
    return rounds, result


if __name__ == "__main__":
    sys.exit(main())
