"""Every sentence of an answer is of a known kind, and holds by the runs alone: counts, ends of the sizes tried, ratios
and reasons for doubt are computed again here, from runs whose accuracies say by themselves whether they learned."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from scipy.stats import fisher_exact

from orchestrator.report.answer import Answer, answer
from orchestrator.report.table import answer_table
from orchestrator.report.words.next_step import explain, next_step
from orchestrator.transition.types import Estimate, Transition, Verdict
from tests.report.samples import SIZES, config, diverged, failed, make_spec
from trainables.base import Outcome, RunConfig, Status

BASELINE, MIX = MIXES = ("add", "add+prod")
SPEC = make_spec()
NOTHING, PART, ALL = 0.12, 0.5, 0.97
"""Accuracies of runs: whatever the level is that counts as learned, the last alone reaches it."""
DIVERGED, FAILED = -1.0, -2.0


@dataclass(frozen=True)
class Run:
    """A run, with its accuracy or what became of it instead."""

    mix: str
    size: int
    seed: int
    accuracy: float

    @property
    def ended(self) -> tuple[RunConfig, Outcome]:
        asked = config(self.mix, self.size, self.seed)
        if self.accuracy < 0:
            return asked, failed() if self.accuracy == FAILED else diverged(asked)
        tasks = asked.mix.tasks
        return asked, Outcome(Status.FINISHED, 3, dict.fromkeys(tasks, self.accuracy), dict.fromkeys(tasks, 0.1))


def sweep(seed: int) -> list[Run]:
    """Runs of two mixes that learn from some size on, up to some other size, or nowhere, but for lapses."""
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


@dataclass(frozen=True)
class Counted:
    """What the runs of one mix show. ``shares`` are the learned and the tried by size, ascending."""

    mix: str
    runs: Sequence[Run]

    @property
    def shares(self) -> dict[int, tuple[int, int]]:
        sizes = sorted({run.size for run in self.runs})
        here = {size: [run.accuracy == ALL for run in self.runs if run.size == size] for size in sizes}
        return {size: (sum(learned), len(learned)) for size, learned in here.items()}

    @property
    def learned(self) -> int:
        return sum(learned for learned, _ in self.shares.values())

    @property
    def disagreements(self) -> list[tuple[str, ...]]:
        """Size, learned, tried and the smaller learned size that it is unlike."""
        told = list[tuple[str, ...]]()
        for size, (learned, tried) in self.shares.items():
            smaller = [other for other, (good, _) in self.shares.items() if other < size and good]
            if 0 < learned < tried or (smaller and not learned):
                told.append(tuple(map(str, (size, learned, tried, "" if learned else smaller[-1]))))
        return told

    def mostly(self, size: int) -> bool:
        """True if the mean of the runs at a size is at 80 % of what the best of them reach."""
        here = [max(run.accuracy, 0.1) for run in self.runs if run.size == size]
        return sum(here) / len(here) >= 0.8 * ALL

    def between(self, low: float, high: float) -> tuple[int, int]:
        inside = [share for size, share in self.shares.items() if low <= size <= high]
        return sum(learned for learned, _ in inside), sum(tried for _, tried in inside)


@dataclass(frozen=True)
class Ratio:
    """The baseline's parameters over the mix's."""

    value: float | None
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        return 1 if (self.low or 0) > 1 else -1 if (self.high or 2) < 1 else 0


def ratio(top: Estimate, bottom: Estimate) -> Ratio:
    """Of two sizes in parameters, n (n + 1) here: Zou and Donner's interval, or the bounds' where a size is unknown."""

    def lies(size: float | None) -> float:
        return math.nan if size is None else math.log(size * size + size)

    a, a_low, a_high = map(lies, (top.value, top.low, top.high))
    b, b_low, b_high = map(lies, (bottom.value, bottom.low, bottom.high))
    low, high = a_low - b_high, a_high - b_low
    if not math.isnan(a - b):
        low, high = a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)
    return Ratio(*(None if math.isnan(each) else math.exp(each) for each in (a - b, low, high)))


class Told:
    """An answer, and what the runs say of it."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.answer: Answer = answer(SPEC, [run.ended for run in runs])
        kept = [run for run in runs if run.accuracy != FAILED]
        self.mixes = {mix: Counted(mix, [run for run in kept if run.mix == mix]) for mix in MIXES}
        self.found: dict[str, Transition] = {mix.mix: mix.target.transition for mix in self.answer.mixes}
        self.ratio = ratio(self.found[BASELINE].relative, self.found[MIX].relative)
        self.doubt = self._doubt()

    def _doubt(self) -> str:
        verdicts = {found.verdict.value for found in self.found.values()}
        if "plateau" in verdicts:
            return "a curve levels off below 0.9"
        if "falls again" in verdicts:
            return "a curve falls again"
        sign = self.ratio.sign
        if not sign:
            return "interval"
        other = ratio(self.found[BASELINE].absolute, self.found[MIX].absolute)
        if (other.sign if other.value is None else math.copysign(1, other.value - 1)) == -sign:
            return "at absolute accuracy 0.8 it looks otherwise"
        small, large = (MIX, BASELINE) if sign > 0 else (BASELINE, MIX)
        ends = self.found[small].relative.value or 0, self.found[large].relative.value or math.inf
        (good, tried), (others, other_tried) = (self.mixes[mix].between(*ends) for mix in (small, large))
        if min(tried, other_tried) < 4:
            return "fewer than four runs a side between the two transitions"
        p = fisher_exact([[good, tried - good], [others, other_tried - others]], alternative="greater")[1]
        return "the runs between the two transitions differ no more than by chance" if p > 0.05 else ""


Check = Callable[..., bool]
NAME, NUMBER = r"(add|add\+prod)", r"([\d.,]+)"


def near(text: str, value: float | None, rel: float = 0.051) -> bool:
    """True if a number is printed as this one is, to two digits."""
    return value is not None and float(text.replace(",", "")) == pytest.approx(value, rel=rel)


def in_words(told: Told, low: str) -> bool:
    """A ratio's interval that decides nothing: ``between 2.0x fewer and 1.9x more``, ``at least 2.8x fewer``."""
    at = {"fewer": lambda bound: bound, "more": lambda bound: 1 / bound}
    found = re.findall(r"([\d.]+)x (fewer|more)", low)
    bounds = [each for each in (told.ratio.high, told.ratio.low) if each is not None]
    if low.startswith("at "):
        (bound,) = bounds
        lower, word = told.ratio.low is not None, found[0][1]
        return (low[:8] == "at least") == (lower == (word == "fewer")) and near(found[0][0], at[word](bound))
    return len(found) == len(bounds) == 2 and all(
        (word == "fewer") == (bound >= 1) and near(text, at[word](bound))
        for (text, word), bound in zip(found, bounds, strict=True)
    )


def decides(told: Told, value: str, word: str, low: str, high: str) -> bool:
    held = told.ratio if word == "fewer" else ratio(told.found[MIX].relative, told.found[BASELINE].relative)
    return not told.doubt and held.sign == 1 and all(map(near, (value, low, high), (held.value, held.low, held.high)))


def never_learned(told: Told, names: str, reliably: str, size: str) -> bool:
    mixes = [told.mixes[name] for name in names.split(" and ")]
    tried = [max(mix.shares) for mix in mixes]
    top = [mix.shares[max(mix.shares)] for mix in mixes]
    return (
        max(tried) == int(size)
        and bool(reliably) == any(mix.learned for mix in mixes)
        and all(learned < count for learned, count in top)
    )


def first_learned(told: Told, name: str, size: str) -> bool:
    shares = told.mixes[name].shares
    return min(shares) == int(size) and 2 * shares[int(size)][0] > shares[int(size)][1]


def levels_off(told: Told, name: str, level: str | None = None) -> bool:
    mix = told.mixes[name]
    top = [max(run.accuracy, 0.1) for run in mix.runs if 2 * run.size >= max(mix.shares)]
    return sum(top) / len(top) < 0.9 and (level is None or float(level) < 0.9)


def learned_from(told: Told, name: str, value: str, low: str, high: str) -> bool:
    """Some size failed and some was learned; the interval is about the value, its ends no further in than sizes that
    say otherwise, and an end that is open is called by the end of the sizes tried."""
    shares, at = told.mixes[name].shares, float(value)
    ends = [
        float(each) if each[0].isdigit() else math.nan
        for each, open_end in ((low, f"below {min(shares)}"), (high, f"above {max(shares)}"))
        if each[0].isdigit() or each == open_end
    ]
    lost = [size for size, share in shares.items() if size <= at and not told.mixes[name].mostly(size)]
    won = [size for size, share in shares.items() if size >= at and told.mixes[name].mostly(size)]
    return (
        len(ends) == 2
        and 0 < told.mixes[name].learned < len(told.mixes[name].runs)
        and not ends[0] > min(at, *lost[-1:], math.inf)
        and not ends[1] < max(at, *won[:1], 0)
    )


INTERVAL = rf"{NUMBER} \[([^,]*), ([^\]]*)\]"
VERDICTS: dict[str, Check] = {
    rf"no run of {NAME} has ended": lambda told, name: not told.mixes[name].runs,
    rf"{NAME} was not (reliably )?learned up to units (\d+)": never_learned,
    rf"{NAME} was learned already at units (\d+)": first_learned,
    rf"{NAME} levels off(?: at {NUMBER})?, short of what counts as learned": levels_off,
    rf"{NAME} is learned from units {INTERVAL} on": learned_from,
    rf"{NAME} is learned from units {INTERVAL} on and fails again above": lambda told, name, *said: bool(
        [size for size, learned, _, unlike in told.mixes[name].disagreements if unlike or learned]
    ),
    rf"{NAME} is undecided.*": lambda told, name: told.mixes[name].runs,
}
SENTENCES: dict[str, Check] = {
    r"No run has ended yet\.": lambda told: not any(mix.runs for mix in told.mixes.values()),
    r"Nothing was learned up to units (\d+)\.": lambda told, size: (
        all(mix.runs and not mix.learned for mix in told.mixes.values())
        and int(size) == max(run.size for mix in told.mixes.values() for run in mix.runs)
    ),
    rf"add\+prod needs {NUMBER}x (fewer|more) parameters than add, 90% interval \[{NUMBER}, {NUMBER}\]\.": decides,
    rf"add\+prod needs at least {NUMBER}x (fewer|more) parameters than add\.": lambda told, bound, word: (
        not told.doubt and near(bound, told.ratio.low if word == "fewer" else told.ratio.high and 1 / told.ratio.high)
    ),
    r"Undecided: add\+prod needs (at [^,]*) parameters than add\.": lambda told, said: (
        told.ratio.sign == 0 and in_words(told, said)
    ),
    r"Undecided: for add\+prod anything from ([^,]*) parameters than add fits the runs\.": lambda told, said: (
        told.ratio.sign == 0 and in_words(told, said)
    ),
    r"Undecided: add\+prod needs (at [^,]*) parameters than add, but (.*)\.": lambda told, said, doubt: (
        told.ratio.sign != 0 and doubt == told.doubt and in_words(told, said)
    ),
    r"Undecided: for add\+prod anything from ([^,]*) parameters than add fits the runs, but (.*)\.": (
        lambda told, said, doubt: told.ratio.sign != 0 and doubt == told.doubt and in_words(told, said)
    ),
    r"Undecided: the runs do not bound what add\+prod needs against add\.": lambda told: (
        told.ratio.low is told.ratio.high is None
    ),
    r"(add and add\+prod) were not (reliably )?learned up to units (\d+)\.": never_learned,
    rf"Undecided: the runs of {NAME}(?: and {NAME})? tell too little\.": lambda told, *names: all(
        name is None or told.found[name].verdict.value == "undecided" for name in names
    ),
    r"Not comparable: ([^;]*); ([^;]*)\.": lambda told, *both: all(holds(told, said, VERDICTS) for said in both),
}


def disagree(told: Told, name: str, listed: str, smaller: str | None) -> bool:
    said = re.findall(r"(\d+) \((\d+) of (\d+) learned(?:, unlike (\d+))?\)", listed)
    known = told.mixes[name].disagreements
    return bool(said) and said == known[-4:] and int(smaller or 0) == max(0, len(known) - 4)


CAVEATS: dict[str, Check] = {
    r"add\+prod saw 50% as many examples of add as add: budget=both would tell that apart\.": lambda told: (
        not told.doubt and told.ratio.sign < 0
    ),
    rf"{NAME}: seeds disagree at units ((?:\d+ \([^)]*\)(?:, )?)+)(?: and (\d+) smaller sizes?)?\.": disagree,
    r"(\d+) runs? diverged and counts? as not learned\.": lambda told, count: (
        int(count) == sum(run.accuracy == DIVERGED for run in told.runs)
    ),
    r"(\d+) runs? failed and counts? as no evidence\.": lambda told, count: (
        int(count) == sum(run.accuracy == FAILED for run in told.runs)
    ),
}


def tried(told: Told, name: str, said: str, half: str | None, bimodal: str | None) -> bool:
    """``0/1 at 12 (none below), 2/4 at 16, 1/1 at 20 (all above)``: every size in between, and what the rest shows."""
    shares = told.mixes[name].shares
    each = re.findall(r"(\d+)/(\d+) at (\d+)(?: \((none below|all above)\))?", said)
    sizes = [int(size) for _, _, size, _ in each]
    below = [share for size, share in shares.items() if size < sizes[0]]
    above = [share for size, share in shares.items() if size > sizes[-1]]
    mixed = [run.accuracy == PART for run in told.mixes[name].runs if 0 < shares[run.size][0] < shares[run.size][1]]
    return (
        [shares[size] for size in sizes] == [(int(learned), int(count)) for learned, count, _, _ in each]
        and sizes == [size for size in shares if sizes[0] <= size <= sizes[-1]]
        and [bool(below), bool(above)] == ["none below" in said, "all above" in said]
        and not any(learned for learned, _ in below)
        and all(learned == count for learned, count in above)
        and (half is None or min(shares) <= float(half) <= max(shares))
        and (bimodal is None or 2 * sum(mixed) < len(mixed))
    )


LINE = (
    rf"{NAME}: [^;]*; learned by ([^;]*)(?:; half of all seeds learn at {NUMBER} \[[^\]]*\])?"
    r"(; where seeds disagree, most learn fully or not at all)?"
)


def sure(told: Told, interval: str, one: str, other: str | None) -> bool:
    held = told.ratio
    known = "is open on both sides" if held.low is held.high is None else "holds 1 (no difference)"
    if held.sign:
        known = f"excludes 1, but {told.doubt}" if told.doubt else "excludes 1 (no difference)"
    counts = dict.fromkeys(MIXES, 0)
    counts |= {name: int(count) for count, name in (part.split(" of ") for part in (one, other) if part)}
    return interval == known and counts == {name: len(mix.runs) for name, mix in told.mixes.items()}


SURE = {
    r"The ratio's 90% interval (.*)\. Runs: (\d+ of [^ ]*?)(?: and (\d+ of .*))?\.": sure,
}


def at_ends(told: Told, names: str, said: Callable[..., bool], *more: str) -> bool:
    return all(said(told, name, *more) for name in names.split(" and "))


NEXT: dict[str, Check] = {
    r"Train twice as long: nothing was learned up to units (\d+)\. .*": SENTENCES[
        r"Nothing was learned up to units (\d+)\."
    ],
    r"Train twice as long: (.*) levelled off short of what counts as learned\. .*": lambda told, names: at_ends(
        told, names, levels_off
    ),
    r"Try units 256: (.*) (?:was|were) not (reliably )?learned up to (\d+)\. .*": never_learned,
    r"Try units 256: (.*) levelled off short of what counts as learned\. .*": lambda told, names: at_ends(
        told, names, levels_off
    ),
    r"Try units 4: (.*) (?:was|were) learned already at (\d+)\. .*": lambda told, names, size: at_ends(
        told, names, first_learned, size
    ),
    r"Add seeds.*: the transition of (.*) is undecided\. .*": lambda told, names: all(
        told.found[name].verdict.value == "undecided" for name in names.split(" and ")
    ),
    r"Add seeds.*: the comparison of add\+prod with add is undecided\. .*": lambda told: bool(told.doubt),
    r"No run is needed\.": lambda told: not told.doubt,
}


def holds(told: Told, said: str, kinds: dict[str, Check]) -> bool:
    """True if a sentence is of one of these kinds, and so are the runs."""
    matches = [(check, found) for kind, check in kinds.items() if (found := re.fullmatch(kind, said))]
    return bool(matches) and any(check(told, *found.groups()) for check, found in matches)


@pytest.mark.parametrize("seed", [*range(100), 256])  # 256: most sizes fail, the largest is learned.
def test_every_sentence_holds_by_the_runs_alone(seed: int) -> None:
    told = Told(sweep(seed))
    said = answer_table(told.answer)
    paragraphs = {each.label: [each.text] for each in explain(SPEC, told.answer, "finished")}
    for kinds, sentences in (
        (SENTENCES, said.sentences),
        (CAVEATS, said.caveats),
        ({LINE: tried}, said.learned),
        (SURE, paragraphs.get("How sure", [])),
        (NEXT, paragraphs.get("Next", [])),
    ):
        assert [sentence for sentence in sentences if not holds(told, sentence, kinds)] == []
    for mix, counted in told.mixes.items():
        assert bool(counted.disagreements) == any(line.startswith(f"{mix}: seeds") for line in said.caveats)


@pytest.mark.parametrize("seed", [19, 65])
def test_a_median_outside_the_sizes_tried_is_no_finding(seed: int) -> None:
    alone = make_spec(mixes=(BASELINE,))
    found = answer(alone, [run.ended for run in sweep(seed) if run.mix == BASELINE])
    assert found.mixes[0].target.transition.verdict is Verdict.UNDECIDED
    assert answer_table(found).sentences[0].startswith("add is undecided, at ")
    assert "the transition of add is undecided" in str(next_step(alone, found))
