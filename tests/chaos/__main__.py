"""``python -m tests.chaos --rounds N``: faults drawn at random, each in the middle of a sweep; what they cost."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.chaos.faults import FAULTS
from tests.chaos.paced import RUNS
from tests.chaos.rounds import Round, play, truth


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where nothing was lost, doubled or changed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--within", type=float, default=float("inf"), help="begin no round after so many seconds")
    asked = parser.parse_args(arguments)
    rng = np.random.default_rng(asked.seed)
    begun, played, skipped = time.monotonic(), list[Round](), 0
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        expected = truth(Path(directory) / "truth")
        for number, (fault, after) in enumerate(drawn(asked.rounds, rng)):
            if time.monotonic() - begun > asked.within:
                break
            place = Path(directory) / str(number)
            place.mkdir()
            found = play(fault, after, expected, place, rng)
            if found is None:
                skipped += 1
                print(f"{number + 1}: {fault}: no disk can be mounted here, passed over", flush=True)
                continue
            played.append(found)
            print(f"{number + 1}: {'good' if found.good else 'BAD'} {found}", flush=True)
            if not found.good:
                print((place / "log").read_text(), flush=True)
    print(table(played))
    print(f"{len(played)} rounds of {RUNS} runs, seed {asked.seed}, {skipped} passed over")
    return 0 if played and all(each.good for each in played) else 1


def drawn(rounds: int, rng: np.random.Generator) -> list[tuple[str, int]]:
    """Faults, each with the number of runs after which it happens. Each kind comes once before any comes again."""
    kinds = list(FAULTS)
    order = [kinds[place] for _ in range(-(-rounds // len(kinds))) for place in rng.permutation(len(kinds))]
    return [(fault, int(rng.integers(1, RUNS - 1))) for fault in order[:rounds]]


def table(played: Sequence[Round]) -> str:
    """A Markdown table, a row a kind of fault."""
    lines = [
        "| fault | rounds | --resume by hand | lost | doubled | changed | other answers |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in [*FAULTS, "all"]:
        of_kind = [each for each in played if name in (each.fault, "all")]
        if of_kind:
            sums = [sum(getattr(each, what) for each in of_kind) for what in ("resumes", "lost", "doubled", "changed")]
            other = sum(not each.same_answer for each in of_kind)
            lines.append(f"| {name} | {len(of_kind)} | {' | '.join(map(str, sums))} | {other} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
