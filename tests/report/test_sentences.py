"""Every sentence of an answer is of a known kind and agrees with the runs. Counts, sizes and levels are recomputed
here from runs whose accuracies alone show whether they learned."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from scipy.stats import fisher_exact

from orchestrator.report.answer import Answer, answer
from orchestrator.report.side_by_side import finding
from orchestrator.report.words.transitions import verdict_lines
from orchestrator.transition.evidence import Block, Direction
from orchestrator.transition.types import Verdict
from tests.report.samples import SIZES, config, diverged, failed, make_spec, scored
from trainables.base import Outcome, RunConfig

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
    def ended(self) -> tuple[RunConfig, Outcome]:
        run = config(self.mix, self.size, self.seed)
        if self.accuracy < 0:
            return run, failed() if self.accuracy == FAILED else diverged(run)
        return run, scored(run, self.accuracy)


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

    def side(self, place: int) -> tuple[int, int, set[int]]:
        """Return the number of learned runs, of all runs, and the sizes of the mix (0) or the baseline (1) in
        counted pairs."""
        runs = [pair[place] for pair in self.pairs if pair[place][1] != FAILED]
        return sum(accuracy == ALL for _, accuracy in runs), len(runs), {size for size, _ in runs}

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


Check = Callable[..., bool]
NUMBER, SHARE = r"([\d.,]+)", r"(\d+ of \d+)"
RANGE = r"units (\d+)(?: to (\d+))?"


def counts(case: Case, mix: str, baseline: str) -> bool:
    """Check that ``5 of 6`` and ``0 of 6`` are the runs in pairs."""
    return [mix, baseline] == ["{} of {}".format(*case.side(place)[:2]) for place in (0, 1)]


def spans(sizes: set[int], low: str, high: str | None) -> bool:
    return (min(sizes), max(sizes)) == (int(low), int(high or low))


def decided(case: Case, word: str, factor: str | None) -> bool:
    comparison = case.comparison
    assert comparison is not None
    assert comparison.at_least is not None
    step = 1 if comparison.at_least >= 10 else 0.1  # Bounds are rounded down.
    return comparison.decided == word and not case.rarer() and 0 <= comparison.at_least - float(factor or 1) < step


def needs(
    case: Case, word: str, factor: str | None, mix: str, low: str, high: str | None, other: str, *ends: str
) -> bool:
    sizes = spans(case.side(0)[2], low, high) and spans(case.side(1)[2], *ends)
    return decided(case, word, factor) and counts(case, mix, other) and sizes


def needs_at_same_sizes(case: Case, word: str, factor: str | None, low: str, high: str, mix: str, other: str) -> bool:
    return needs(case, word, factor, mix, low, high, other, low, high)


def more_often(case: Case, word: str, low: str, high: str | None, mix: str, other: str) -> bool:
    assert case.comparison is not None
    direction = Direction.FEWER if word == "more" else Direction.MORE
    both = spans(case.side(0)[2] | case.side(1)[2], low, high)
    return case.comparison.decided is direction and case.rarer() and counts(case, mix, other) and both


def is_open(case: Case, mix: str, other: str) -> bool:
    assert case.comparison is not None
    return case.comparison.decided is None and counts(case, mix, other)


def alike(case: Case, mix: str, other: str) -> bool:
    first, two = (case.side(place)[0] / case.side(place)[1] for place in (0, 1))
    return is_open(case, mix, other) and abs(first - two) <= 0.2 and case.side(0)[2] == case.side(1)[2]


NEEDS = rf"add\+prod needs (fewer|more) parameters than add(?:, at least {NUMBER} times (?:fewer|as many))?"
OPEN = r"No difference between add\+prod and add has been shown yet"
SENTENCES: dict[str, Check] = {
    r"No run has ended yet\.": lambda case: not any(case.runs.values()),
    r"Every run so far failed\.": lambda case: not any(case.runs.values()) and case.failed,
    r"Nothing was learned up to units (\d+)\.": lambda case, size: (
        all(case.runs[mix] and not case.learned(mix) for mix in MIXES)
        and int(size) == max(run.size for mix in MIXES for run in case.runs[mix])
    ),
    rf"{NEEDS}: at {RANGE} it was learned in {SHARE} runs, add in {SHARE}\.": needs_at_same_sizes,
    rf"{NEEDS}: it was learned in {SHARE} runs at {RANGE}, add in {SHARE} at {RANGE}\.": needs,
    rf"add\+prod is learned (more|less) often than add at {RANGE}: in {SHARE} runs against {SHARE}\.": more_often,
    rf"{OPEN}: both were learned about as often at the same sizes \({SHARE} and {SHARE}\)\.": alike,
    rf"{OPEN}: neither was learned \({SHARE} and {SHARE}\)\.": lambda case, mix, other: (
        is_open(case, mix, other) and mix.startswith("0 ") and other.startswith("0 ")
    ),
    rf"{OPEN}: at {RANGE} add\+prod was learned in {SHARE} runs, add in {SHARE}\.": lambda case, low, high, *shares: (
        is_open(case, *shares) and spans(case.side(0)[2] | case.side(1)[2], low, high)
    ),
    rf"{OPEN}: no pair of their runs is complete\.": lambda case: not all(case.side(place)[1] for place in (0, 1)),
    r"Nothing is decided: add\+prod and add were not trained in pairs\.": lambda case: case.comparison is None,
}


def tried(case: Case, name: str, listed: str, low: str | None, high: str | None, *sizes: str | None) -> bool:
    """Check ``0/1 at 12 (none below), 2/4 at 16, 1/1 at 20 (all above)``: every size between, and the summaries of
    the others."""
    shares = case.shares(name)
    parts = re.findall(r"(\d+)/(\d+) at (\d+)(?: \((none below|all above)\))?", listed)
    shown = [int(size) for _, _, size, _ in parts]
    below = [share for size, share in shares.items() if size < shown[0]]
    above = [share for size, share in shares.items() if size > shown[-1]]
    larger = [size for size in shares if size >= max(shares) / 2]
    scores = [[max(run.accuracy, 0.1) for run in case.runs[name] if run.size == size] for size in larger]
    means = [sum(score) / len(score) for score in scores]
    levels = low is None or (
        (float(low), float(high or low)) == (round(min(means), 2), round(max(means), 2))
        and [int(size) for size in sizes if size] == [larger[0], larger[-1]]
    )
    return (
        [shares[size] for size in shown] == [(int(learned), int(count)) for learned, count, _, _ in parts]
        and shown == [size for size in shares if shown[0] <= size <= shown[-1]]
        and [bool(below), bool(above)] == ["none below" in listed, "all above" in listed]
        and not any(learned for learned, _ in below)
        and all(learned == count for learned, count in above)
        and levels
    )


ACCURACY = rf"; accuracy {NUMBER}(?: to {NUMBER})? at {RANGE}"
LINE = rf"(?=([^;:]*?)(?: is| was|:) )[^;]*; seeds that learned: ([^;]*)(?:{ACCURACY})?"


def is_true(case: Case, text: str, kinds: dict[str, Check]) -> bool:
    """Return whether a sentence is of one of these kinds and agrees with the runs."""
    matches = [(check, match) for kind, check in kinds.items() if (match := re.fullmatch(kind, text))]
    return bool(matches) and all(check(case, *match.groups()) for check, match in matches)


@pytest.mark.parametrize("seed", [*range(100), 256])  # 256: most sizes fail, the largest is learned.
def test_every_sentence_agrees_with_the_runs(seed: int) -> None:
    case = Case(seed)
    for kinds, sentences in ((SENTENCES, finding(case.answer)), ({LINE: tried}, verdict_lines(case.answer))):
        assert [sentence for sentence in sentences if not is_true(case, sentence, kinds)] == []


@pytest.mark.parametrize("seed", [19, 65])
def test_a_median_outside_the_tried_sizes_is_not_a_finding(seed: int) -> None:
    alone = make_spec(mixes=(BASELINE,))
    result = answer(alone, [run.ended for run in sweep(seed) if run.mix == BASELINE])
    assert result.mixes[0].target.transition.verdict is Verdict.UNDECIDED
    assert finding(result)[0].startswith("add: transition undecided, at ")
