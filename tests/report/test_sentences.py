"""Every sentence of an answer is of a known kind and agrees with the runs. Counts, sizes and levels are recomputed
here from runs whose accuracies alone show whether they learned."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from scipy.stats import fisher_exact

from orchestrator.report.answer import Answer, answer
from orchestrator.report.sentences.transitions import verdict_lines
from orchestrator.report.side_by_side import finding
from orchestrator.space.runs import Run as EndedRun
from orchestrator.transition.evidence import Block, Direction
from orchestrator.transition.types import Verdict
from tests.report.samples import SIZES, config, diverged, failed, make_spec, run_of, scored

BASELINE, MIX = MIXES = ("add", "add+prod")
SPEC = make_spec()
NOTHING, PART, ALL = 0.12, 0.5, 0.97
"""Accuracies of runs. Only the last one counts as learned."""
DIVERGED, FAILED = -1.0, -2.0


@dataclass(frozen=True)
class Run:
    """A run with its accuracy, or with a code for divergence or failure."""

    mix: str
    size: int
    seed: int
    accuracy: float

    @property
    def ended(self) -> EndedRun:
        run = config(self.mix, self.size, self.seed)
        if self.accuracy < 0:
            return run_of(run, failed() if self.accuracy == FAILED else diverged(run))
        return run_of(run, scored(run, self.accuracy))


def sweep(seed: int) -> list[Run]:
    """Return random runs of two mixes that learn from one size up to another, or nowhere, with random lapses."""
    chance, runs = random.Random(seed), list[Run]()
    lapses, seeds = chance.choice((0.0, 0.1, 0.3, 1.0)), chance.randint(1, 4)
    for mix in MIXES:
        start, density = chance.choice((*SIZES, 999, 999, 999, 999)), chance.choice((0.0, 0.2, 0.5, 1.0))
        end = chance.choice((64, 999, 999, 999))
        for size, place in product(SIZES, range(seeds)):
            if chance.random() < density:
                lapse = chance.choice((NOTHING, NOTHING, PART, ALL, ALL, DIVERGED, FAILED))
                usual = ALL if start <= size < end else NOTHING
                runs.append(Run(mix, size, place, lapse if chance.random() < lapses else usual))
    return runs


def asked(runs: Sequence[Run], seed: int) -> list[Block]:
    """Return shuffled blocks: one for each run of the mix, sometimes with a larger baseline model."""
    chance, ended = random.Random(seed), {(run.mix, run.size, run.seed) for run in runs}
    blocks = []
    for run in runs:
        larger = [size for size in SIZES if size >= run.size and (BASELINE, size, run.seed) in ended]
        if run.mix == MIX and (larger or chance.random() < 0.1):
            other = larger[0] if larger else run.size
            blocks.append(Block(MIX, BASELINE, run.size, other, run.seed))
    chance.shuffle(blocks)
    return blocks


class Case:
    """An answer and its runs."""

    def __init__(self, seed: int) -> None:
        runs = sweep(seed)
        blocks = asked(runs, seed)
        self.answer: Answer = answer(SPEC, [run.ended for run in runs], blocks=blocks)
        self.runs = {mix: [run for run in runs if run.mix == mix and run.accuracy != FAILED] for mix in MIXES}
        self.failed = any(run.accuracy == FAILED for run in runs)
        self.comparison = self.answer.mix(MIX).comparison
        ended = {(run.mix, run.size, run.seed): run.accuracy for run in runs}
        self.pairs = list[tuple[tuple[int, float], tuple[int, float]]]()
        for block in blocks:
            if not all(run in ended for run in block.runs):
                break
            first, other = block.runs
            self.pairs.append(((first[1], ended[first]), (other[1], ended[other])))

    def shares(self, mix: str) -> dict[int, tuple[int, int]]:
        """Return learned and tried runs by size, ascending."""
        sizes = sorted({run.size for run in self.runs[mix]})
        outcomes = {size: [run.accuracy == ALL for run in self.runs[mix] if run.size == size] for size in sizes}
        return {size: (sum(learned), len(learned)) for size, learned in outcomes.items()}

    def learned(self, mix: str) -> int:
        return sum(learned for learned, _ in self.shares(mix).values())

    def side(self, place: int, at_least: float = 0) -> tuple[int, int, set[int]]:
        """Return the number of learned runs, of all runs, and the sizes of the mix (0) or the baseline (1) in counted
        pairs of equal size or, if given, in pairs whose models differ in parameters by a factor of at least
        ``at_least``."""
        count = SPEC.make_family().parameters
        chosen = [
            pair
            for pair in self.pairs
            if (count(pair[1][0]).total >= at_least * count(pair[0][0]).total if at_least else pair[0][0] == pair[1][0])
        ]
        runs = [pair[place] for pair in chosen if pair[place][1] != FAILED]
        return sum(accuracy == ALL for _, accuracy in runs), len(runs), {size for size, _ in runs}

    def within(self, low: int, high: int, place: int) -> tuple[int, int]:
        """Return the learned and all runs of the mix (0) or the baseline (1) in pairs of one size from low to high."""
        runs = [pair[place] for pair in self.pairs if pair[0][0] == pair[1][0] and low <= pair[0][0] <= high]
        ended = [accuracy == ALL for _, accuracy in runs if accuracy != FAILED]
        return sum(ended), len(ended)

    def rarer(self) -> bool:
        """Return whether larger models of either mix learn less often, beyond chance."""
        for mix in MIXES:
            shares = list(self.shares(mix).items())
            risen = [
                share for place, (_, share) in enumerate(shares) if any(good for _, (good, _) in shares[: place + 1])
            ]
            for split in range(1, len(risen)):
                parts = risen[:split], risen[split:]
                table = [[sum(good for good, _ in part), sum(n - good for good, n in part)] for part in parts]
                if fisher_exact(table, alternative="greater")[1] <= 0.01:
                    return True
        return False


@functools.cache
def made(seed: int) -> Case:
    return Case(seed)


@pytest.mark.parametrize("seed", [*range(100), 256])  # 256: most sizes fail, the largest is learned.
def test_every_sentence_agrees_with_the_runs(seed: int) -> None:
    case = made(seed)
    (text,) = finding(case.answer)
    comparison, (own, other) = case.comparison, (case.side(place) for place in (0, 1))
    if not any(case.runs.values()):
        assert text == ("Every run so far failed." if case.failed else "No run has ended yet.")
    elif text.startswith("Nothing was learned"):
        assert all(case.runs[mix] and not case.learned(mix) for mix in MIXES)
        largest = max(run.size for mix in MIXES for run in case.runs[mix])
        assert text == f"Nothing was learned up to units {largest}."
    elif comparison is None:
        assert text == "Nothing is decided: add+prod and add were not trained in pairs."
    elif not own[1] or not other[1]:
        failed = "no pair of equal size is complete"
        if comparison.equal.pairs:
            failed = f"in every pair, the {'add+prod' if other[1] else 'add'} run failed"
        assert text.endswith(f" has been shown yet: {failed}.")
    else:
        certified = comparison.at_least if re.search("at least", text) else None
        larger = [case.side(0, certified), case.side(1, certified)] if certified else []
        ranges = [(int(low), int(high or low)) for low, high in re.findall(r"units (\d+)(?: to (\d+))?", text)]
        inside = [case.within(*ends, place) for ends in ranges for place in (0, 1)]
        counts = [
            f"{learned} of {tried}" for learned, tried in [*inside[:2], *(side[:2] for side in larger), *inside[2:]]
        ]
        assert re.findall(r"\d+ of \d+", text) == counts
        tried, is_contrary = own[2] | other[2], "the other way around" in text
        assert {end for ends in ranges for end in ends} <= tried
        if comparison.decided is None:
            assert text.startswith("No difference between add+prod and add has been shown yet: ")
            assert ("of either mix" in text) == (own[0] == other[0] == 0)
            assert ranges == [(min(tried), max(tried))]
            return
        (better, whole), (worse, of) = inside[:2] if comparison.decided is Direction.MIX_AHEAD else inside[1::-1]
        assert better / whole > worse / of  # The sizes named are those where the side is ahead.
        if is_contrary:
            assert inside[2][0] / inside[2][1] != inside[3][0] / inside[3][1]
        if re.search("needs (fewer|more)", text):
            assert text.startswith(f"add+prod needs {comparison.decided} parameters than add")
            assert not case.rarer()
            assert not is_contrary
            ends = [case.answer.mix(mix).target.transition.relative for mix in MIXES]
            low, high = ends if comparison.decided is Direction.BASELINE_AHEAD else ends[::-1]
            assert low.high is not None
            assert high.low is not None
            assert low.high <= high.low
        else:
            often = "more" if comparison.decided is Direction.MIX_AHEAD else "less"
            assert f"add+prod models learned add {often} often than add models: " in text
        factor = re.search(r"at least ([\d.,]+) times", text)
        step = 1 if (comparison.at_least or 1) >= 10 else 0.1  # Bounds are rounded down.
        assert factor is None or 0 <= (comparison.at_least or 1) - float(factor[1]) < step


@pytest.mark.parametrize("seed", range(100))
def test_every_line_about_a_mix_agrees_with_its_runs(seed: int) -> None:
    """``none below 12, 0 of 1 at 12, 1 of 1 at 20, all above 20``, with every size between."""
    case = made(seed)
    names = [mix.mix for mix in case.answer.mixes if mix.shares]
    for name, line in zip(names, verdict_lines(case.answer), strict=True):
        shares, (listed,) = case.shares(name), re.findall(r"; models that learned: ([^;]*)", line)
        parts = [tuple(map(int, part)) for part in re.findall(r"(\d+) of (\d+) at (\d+)", listed)]
        first, last = parts[0][-1], parts[-1][-1]
        below = [learned for size, (learned, _) in shares.items() if size < first]
        above = [learned == tried for size, (learned, tried) in shares.items() if size > last]
        assert parts == [(*share, size) for size, share in shares.items() if first <= size <= last]
        assert [bool(below), bool(above)] == [f"none below {first}" in listed, f"all above {last}" in listed]
        assert not any(below)
        assert all(above)
        if level := re.search(r"; accuracy ([\d.]+)(?: to ([\d.]+))? at units (\d+) to (\d+)", line):
            low, high, *ends = level.groups()
            larger = [size for size in shares if size >= max(shares) / 2]
            scores = [[max(run.accuracy, 0.1) for run in case.runs[name] if run.size == size] for size in larger]
            means = [round(sum(score) / len(score), 2) for score in scores]
            assert (float(low), float(high or low)) == (min(means), max(means))
            assert list(map(int, ends)) == [larger[0], larger[-1]]


@pytest.mark.parametrize("seed", [19, 65])
def test_a_median_outside_the_tried_sizes_is_not_a_finding(seed: int) -> None:
    alone = make_spec(mixes=(BASELINE,))
    result = answer(alone, [run.ended for run in sweep(seed) if run.mix == BASELINE])
    assert result.mixes[0].target.transition.verdict is Verdict.UNDECIDED
    assert finding(result)[0].startswith("add: transition not located, ")
