"""A sweep in a paragraph of plain words: what was asked, what was found, how sure that is, what would change it, and
which runs to add next. Every number is one of the answer's; nothing is said that no number says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.panel import panel
from orchestrator.report.saying import count_words, finding_line, rests_on, size_words
from orchestrator.search.base import BY_HAND
from orchestrator.space.evidence import is_evidence
from orchestrator.space.spec import SweepSpec
from orchestrator.store.records import RunRecord
from orchestrator.transition.types import LEVEL, Density, SizeShare, Transition, Verdict

NARROW = 1.4
"""An interval whose ends are less than this factor apart (the searcher's own precision, e to the .33) needs no more."""
MORE_SEEDS = 3
"""Runs suggested at the size that would tell most."""
BEYOND = 1.5
"""How far beyond the sizes tested the next one is suggested, as a factor."""
MOST_LISTED = 6
"""Sizes of a mix at which runs disagree, or mixes, that are named; of more only how many there are."""


@dataclass(frozen=True)
class Paragraph:
    """A few sentences under a ``label`` that says what they answer. ``place`` is the section of the report that shows
    it, where there is one."""

    label: str
    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


def explain(spec: SweepSpec, answer: Answer, runs: Sequence[RunRecord], state: str) -> tuple[Paragraph, ...]:
    """The paragraphs: asked, found, how sure, which runs disagree, what would change it, what next."""
    if not any(mix.runs for mix in answer.mixes):
        return (_asked(spec, answer), Paragraph("Found", f"nothing yet: no run has ended; the sweep is {state}."))
    return (_asked(spec, answer), _found(answer, state), *judged(answer, runs))


def judged(answer: Answer, runs: Sequence[RunRecord]) -> tuple[Paragraph, ...]:
    """How sure the answer is, which runs disagree, what would change it, and what next: the last of these paragraphs,
    for who has read the answer itself. Nothing where no run has ended."""
    if not any(mix.runs for mix in answer.mixes):
        return ()
    seconds: dict[int, list[float]] = {}
    for run in runs:
        if (took := run.outcome.measures.get("seconds", 0.0)) and is_evidence(run.config):
            seconds.setdefault(run.config.size, []).append(took)
    costs = {size: sorted(found)[(len(found) - 1) // 2] for size, found in seconds.items()}
    further = {"What could change it": _what_would_change_it(answer), "Next": _next(answer, costs)}
    return (*in_short(answer, named=True), *_paragraphs(further))


def in_short(answer: Answer, *, named: bool = False) -> tuple[Paragraph, ...]:
    """How sure the answer is, and where runs disagree (``named``: which), as on a page of many sweeps. Nothing where no
    run has ended."""
    if not any(mix.runs for mix in answer.mixes):
        return ()
    return _paragraphs({"How sure": _how_sure(answer), "Runs that disagree": _disagreeing(answer, named=named)})


def _paragraphs(said: Mapping[str, str]) -> tuple[Paragraph, ...]:
    return tuple(Paragraph(label, text) for label, text in said.items() if text)


def _asked(spec: SweepSpec, answer: Answer) -> Paragraph:
    mixes, axis = listed([called(mix) for mix in answer.mixes]), answer.size_axis
    sizes = f"{axis} {_exact(answer.counts[0].size)} to {_exact(answer.counts[-1].size)}"
    return Paragraph(
        "Asked",
        f"{spec.question} Where in {axis} lies the transition of {answer.target}, for {mixes}? It is the size at which "
        f"{answer.words.score} reaches {LEVEL:.0%} of its asymptote; sizes to choose from are {sizes}.",
    )


def _found(answer: Answer, state: str) -> Paragraph:
    ended = sum(mix.runs for mix in answer.mixes)
    head = f"Found, from {ended} runs" + ("" if state == "finished" else f" (the sweep is {state}, so this may change)")
    verdicts = " ".join(f"{_verdict(answer, mix)}." for mix in answer.mixes)
    return Paragraph(head, f"{verdicts} {_compared(answer)}".rstrip())


def _verdict(answer: Answer, mix: MixAnswer) -> str:
    """One mix's verdict as a sentence without its full stop."""
    found = mix.target.transition
    learned, tried = sum(each.learned for each in found.shares), sum(each.tried for each in found.shares)
    won, counted = answer.words.learned, answer.words.parameters
    seeds = f"{learned} of {tried} runs {won} it" if tried else f"how many runs {won} it is not known"
    smallest, largest = answer.tested(found)
    axis, words = answer.size_axis, size_words(answer, found)
    if not mix.runs:
        return f"Of {called(mix)} no run has ended"
    if found.verdict is Verdict.FOUND:
        return f"With {called(mix)} it is {won} from {axis} {words} on, {count_words(answer, mix.target)} {counted}"
    if found.verdict is Verdict.ABOVE:
        return f"With {called(mix)} it is not {won} up to {axis} {_exact(largest.size)}, the largest tried ({seeds})"
    if found.verdict is Verdict.BELOW:
        return f"With {called(mix)} it is {won} already at {axis} {_exact(smallest.size)}, the smallest tried ({seeds})"
    if found.verdict is Verdict.PLATEAU:
        levels = f"{answer.words.score} levels off ({words}; {seeds})"
        return f"With {called(mix)} there is no transition: {levels}, and size does not help"
    if found.verdict is Verdict.FALLS:
        return f"With {called(mix)} sizes {won} it and larger ones fail again ({words}; {seeds})"
    if found.verdict is Verdict.NEAR_FLOOR:
        floor = f"the best constant answer is nearly as good as what counts as {won}"
        return f"With {called(mix)} nothing can be said: {floor}"
    return f"With {called(mix)} it is {words}: its runs are too few, or contradict each other ({seeds})"


def _compared(answer: Answer) -> str:
    if (several := panel(answer)) is not None:
        return " ".join(f"{finding_line(answer, finding)}." for finding in several.findings)
    said = []
    for mix in answer.mixes:
        if mix.synergy_total is not None:
            rests = rests_on(answer, mix)
            said.append(
                f"Resting on {rests}: {_synergy(answer, mix)}." if rests else f"In sum, {_synergy(answer, mix)}."
            )
    return " ".join(said)


def _synergy(answer: Answer, mix: MixAnswer) -> str:
    assert mix.synergy_total is not None, "the baseline is compared with nothing"
    against = called(answer.mix(answer.baseline_of(mix)))
    return wording.synergy(called(mix), against, mix.synergy_total, answer.words.parameters)


def _how_sure(answer: Answer) -> str:
    benefits = [
        f"{called(mix)} needs fewer {answer.words.parameters} with probability {_probability(benefit)}"
        for mix in answer.mixes
        if (found := mix.synergy_total) is not None
        and (benefit := found.p_benefit) is not None
        and any(each is not None for each in (found.value, found.low, found.high))
    ]
    known = [
        f"{called(mix)} {_span(answer, mix)} ({_counted(mix.runs, 'run')}{f', {BY_HAND}' if mix.stopped else ''})"
        for mix in answer.mixes
        if mix.runs or mix.stopped
    ]
    by = f"{answer.confidence:.0%} intervals in {answer.size_axis}: {listed(known)}."
    return f"{'; '.join(benefits)}. {by}" if benefits else by


def _span(answer: Answer, mix: MixAnswer) -> str:
    """The interval of a transition alone: ``10.8 to 15.4``; or what is said where there is none."""
    found = mix.target.transition
    low, high = found.relative.low, found.relative.high
    if found.verdict is Verdict.FOUND and low is not None and high is not None:
        return f"{wording.number(low)} to {wording.number(high)}"
    return size_words(answer, found)


def _disagreeing(answer: Answer, *, named: bool) -> str:
    """The sizes at which some seeds learned and others did not, with these seeds where they are to be ``named``; ``""``
    where no size is known to have been tried with two."""
    several = {mix.mix: [share for share in mix.target.transition.shares if share.tried > 1] for mix in answer.mixes}
    if not any(several.values()):
        return ""
    split = {
        name: [share for share in shares if share.learned < share.tried and share.learned]
        for name, shares in several.items()
    }
    if not any(split.values()):
        return "none: wherever several seeds were tried at a size, all of them did or none."
    said: list[str] = []
    for mix in answer.mixes:
        if split[mix.mix]:
            said.append(f"{called(mix)} {_split_words(answer, mix, split[mix.mix], named=named, first=not said)}.")
        elif several[mix.mix]:
            sizes = listed([_exact(share.size) for share in several[mix.mix]])
            only = "size" if len(several[mix.mix]) == 1 else "sizes"
            said.append(f"{called(mix)}: they agree at {sizes}, the only {only} tried with several seeds.")
        else:
            said.append(f"{called(mix)}: no size was tried with several seeds.")
    return " ".join(said)


def _split_words(answer: Answer, mix: MixAnswer, shares: Sequence[SizeShare], *, named: bool, first: bool) -> str:
    """``at n_embed 12 (3 of 5 learned, not seeds 3 and 4), 13 (1 of 2, not seed 0)``."""
    said: list[str] = []
    for place, share in enumerate(shares[:MOST_LISTED]):
        word = f" {answer.words.learned}" if first and not place else ""
        which = _named_seeds(mix.target.transition, share) if named else ""
        said.append(f"{_exact(share.size)} ({share.learned} of {share.tried}{word}{which})")
    more = len(shares) - MOST_LISTED
    rest = [f"and {_counted(more, 'more size')}"] if more > 0 else []
    return f"at {answer.size_axis + ' ' if first else ''}{', '.join([*said, *rest])}"


def _named_seeds(found: Transition, share: SizeShare) -> str:
    """Which of the seeds at a size did not learn, or which did where those are fewer: ``, not seed 2``, ``, only seeds
    0 and 3``; ``""`` in answers of earlier versions, which do not say what counts as learned."""
    if found.level is None:
        return ""
    here = [point for point in found.points if point.size == share.size]
    won = sorted(point.seed for point in here if point.accuracy >= found.level)
    lost = sorted(point.seed for point in here if point.accuracy < found.level)
    word, seeds = ("not", lost) if len(lost) <= len(won) else ("only", won)
    return f", {word} seed{'' if len(seeds) == 1 else 's'} {listed([str(seed) for seed in seeds])}"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _probability(share: float) -> str:
    """Never certain: ``0.97``, ``above 0.99``."""
    if share > 0.995:
        return "above 0.99"
    return "under 0.01" if share < 0.005 else f"{share:.2f}"


def _what_would_change_it(answer: Answer) -> str:
    said = []
    if not answer.recipes:
        said.append("another training recipe, for this was asked under one")
    said += [
        f"more training of {called(mix)}, a smaller size of which {answer.words.learned} with more steps"
        for mix in answer.mixes
        if mix.budget_limited
    ]
    held_back = [
        called(mix)
        for mix in answer.mixes
        if mix.budget_limited is None and mix.target.transition.verdict in (Verdict.ABOVE, Verdict.PLATEAU)
    ]
    if held_back:
        them = "it" if len(held_back) == 1 else "them"
        said.append(
            f"more training of {listed(held_back)}, if the budget is what held {them} back (no longer run was made)"
        )
    failed = sum(mix.failed for mix in answer.mixes)
    if failed:
        said.append(f"{failed} runs that failed and count as no evidence")
    return f"{'; '.join(said)}." if said else ""


def _next(answer: Answer, costs: Mapping[int, float]) -> str:
    said = [line for mix in answer.mixes if (line := _next_of(answer, mix, costs))]
    if not said:
        return f"no run is needed: every interval is narrower than a factor of {NARROW}."
    rest = len(said) - MOST_LISTED
    more = [f"and runs for {rest} more mixes"] if rest > 0 else []
    return f"{'; '.join([*said[:MOST_LISTED], *more])}."


def _next_of(answer: Answer, mix: MixAnswer, costs: Mapping[int, float]) -> str:
    """Which runs would tell most about one mix, and what they cost; ``""`` where it is known well enough."""
    found = mix.target.transition
    smallest, largest = (count.size for count in answer.tested(found))
    if found.verdict is Verdict.ABOVE:
        beyond = f"a size beyond {_exact(largest)}, such as {_exact(math.ceil(BEYOND * largest))}"
        return f"for {called(mix)} {beyond}{_beside(largest, costs, 'more')}"
    if found.verdict is Verdict.BELOW:
        under = max(1, math.floor(smallest / BEYOND))
        below = f"a size under {_exact(smallest)}, such as {_exact(under)}"
        return f"for {called(mix)} {below}{_beside(smallest, costs, 'less')}"
    if found.verdict is Verdict.PLATEAU:
        longer = f"longer runs at {_exact(largest)}{_beside(largest, costs, 'more')}"
        return f"for {called(mix)} {longer}, since more size did not help"
    if found.verdict is Verdict.NEAR_FLOOR:
        return f"for {called(mix)} test data whose best constant answer scores less"
    low, high = found.relative.low, found.relative.high
    if found.verdict is Verdict.FOUND and low and high and high / low < NARROW:
        return ""
    size = _telling(answer, found)
    return f"for {called(mix)} {MORE_SEEDS} more seeds at {answer.size_axis} {_exact(size)}{_cost(size, costs)}"


def _telling(answer: Answer, found: Transition) -> int:
    """The size on offer that the transition is as likely to lie above as below."""
    sizes = [count.size for count in answer.counts]
    density: Density | None = found.density
    if density is None:
        return sizes[len(sizes) // 2]

    def below(size: int) -> float:
        return sum(weight for place, weight in zip(density.sizes, density.weights, strict=True) if place <= size)

    return min(sizes, key=lambda size: abs(below(size) - 0.5))


def _exact(size: int) -> str:
    """A size as it stands in the tables beside these words: ``4 096``."""
    return wording.exact(size)


def _cost(size: int, costs: Mapping[int, float]) -> str:
    """What these runs take, by those of the nearest size that was trained."""
    if not costs:
        return ""
    near = min(costs, key=lambda other: abs(math.log(other / size)))
    seconds = MORE_SEEDS * costs[near]
    said = f"about {wording.duration(seconds)}" if seconds >= 1 else "less than 1 s"
    return f", {said} of training (as at {_exact(near)})"


def _beside(size: int, costs: Mapping[int, float], than: str) -> str:
    """What a run takes beyond this size, ``more`` or ``less`` than one of it; nothing where that is too short to
    say."""
    known = costs.get(size, 0.0)
    return f", {than} than {wording.duration(known)} of training a run" if known >= 1 else ""


def called(mix: MixAnswer) -> str:
    """A mix's name, in quotation marks where it is more than a word: ``"max, then add"``."""
    return f'"{mix.mix}"' if " " in mix.mix else mix.mix


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
