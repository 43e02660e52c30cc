"""The next step, decided once for terminal, page, record and `explain`; and a sweep explained in paragraphs."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.words.numbers import counted, exact, listed
from orchestrator.report.words.verdicts import (
    MOST_LISTED,
    called,
    caveats,
    certainty,
    never,
    nothing_learned,
    sentences,
    verdict_line,
)
from orchestrator.search.base import BY_HAND
from orchestrator.search.stopping import COARSE, LEAST_PRECISION, gap_around
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import CONFIDENCE, LEVEL, Verdict
from trainables.base import SettingsError

MORE = 2
"""Factor for sizes, steps, seeds and runs that are asked for next; an interval narrows with the root of the seeds."""


@dataclass(frozen=True)
class NextStep:
    """The recommendation in a sentence, and the ``overrides`` of the same command that follow it (none if no run can
    help). ``extends``: the new sweep can reuse this one's runs."""

    why: str
    overrides: tuple[str, ...] = ()
    extends: bool = True

    def __str__(self) -> str:
        sets = " ".join(f"--set '{override}'" for override in self.overrides)
        return f"{self.why} ({sets})" if sets else self.why


def next_step(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """The one run of the same command that would tell most; None if every question is answered."""
    runs = [mix for mix in answer.mixes if mix.runs]
    if not runs:
        return None
    at = {verdict: [mix for mix in runs if mix.target.transition.verdict is verdict] for verdict in Verdict}
    learned, axis = answer.words.learned, spec.size_axis
    largest, smallest = spec.sizes[-1], spec.sizes[0]
    if nothing_learned(answer) and any(mix.spent for mix in answer.mixes):
        tried = max(answer.tested(mix.target.transition)[1].size for mix in answer.mixes)
        return _longer(spec, f"nothing was {learned} up to {axis} {exact(tried)}")
    if above := at[Verdict.ABOVE]:
        return _other_size(
            spec, MORE * largest, f"{_names(above)} {_was(above)} {never(answer, above)} up to {exact(largest)}"
        )
    if below := at[Verdict.BELOW]:
        return _other_size(
            spec, smallest // MORE, f"{_names(below)} {_was(below)} {learned} already at {exact(smallest)}"
        )
    if level := at[Verdict.PLATEAU]:
        because = f"{_names(level)} levelled off short of what counts as {learned}"
        if any(mix.spent for mix in level):
            return _longer(spec, because)
        return _other_size(spec, MORE * largest, because)
    if undecided := at[Verdict.UNDECIDED]:
        return _narrower(spec, undecided, f"the transition of {_names(undecided)} is undecided")
    if unclear := [mix for mix in answer.mixes if mix.synergy_total is not None and not mix.synergy_total.decided]:
        if at[Verdict.NEAR_FLOOR]:
            return NextStep("No further run can tell: use test data whose commonest answer is rarer.")
        baselines = [answer.mix(answer.baseline_of(mix)) for mix in unclear]
        with_ = called(baselines[0]) if len({called(mix) for mix in baselines}) == 1 else "their baselines"
        because = f"the comparison of {_names(unclear)} with {with_} is undecided"
        return _narrower(spec, [*baselines, *unclear], because)
    if at[Verdict.NEAR_FLOOR]:
        return NextStep("No further run can tell: use test data whose commonest answer is rarer.")
    return None


def _names(mixes: list[MixAnswer]) -> str:
    return listed(list(dict.fromkeys(called(mix) for mix in mixes)))


def _was(mixes: list[MixAnswer]) -> str:
    return "was" if len(mixes) == 1 else "were"


def _longer(spec: SweepSpec, because: str) -> NextStep:
    """The same mixes with twice their budget, if the settings can say so."""
    why = f"Train twice as long: {because}."
    if spec.tuned or spec.budget != "total" or any(len(arm.phases) > 1 or arm.label for arm in spec.mixes):
        return NextStep(why)
    arms = [replace(arm, budget=MORE * arm.budget) for arm in spec.mixes]
    plain = [replace(arm, recipe="").name for arm in arms]  # Such a name stands for all recipes.
    everywhere = {name for name, count in Counter(plain).items() if count == max(1, len(spec.recipes))}
    longer = dict.fromkeys(name if name in everywhere else arm.name for name, arm in zip(plain, arms, strict=True))
    written = ", ".join(json.dumps(name) if ":" in name else name for name in longer)
    return NextStep(why, (f"mixes=[{written}]",), extends=False)


def _other_size(spec: SweepSpec, size: int, because: str) -> NextStep:
    if not _can_train(spec, size):
        return NextStep(f"No further size can be trained: {because}.")
    return NextStep(f"Try {spec.size_axis} {exact(size)}: {because}.", (_with_sizes(spec, {size}),))


def _can_train(spec: SweepSpec, size: int) -> bool:
    try:
        for arm in spec.mixes:
            spec.family_of(arm).check(arm.mix, size)
    except SettingsError:
        return False
    return True


def _with_sizes(spec: SweepSpec, sizes: set[int]) -> str:
    return f"sizes=[{', '.join(map(str, sorted({*spec.sizes, *sizes})))}]"


def _narrower(spec: SweepSpec, mixes: list[MixAnswer], because: str) -> NextStep:
    """Twice the seeds, sizes in between where those there are too coarse, and every limit raised that would keep a
    searcher from using them."""
    settings, overrides, between = spec.search.settings, [f"seeds={MORE * spec.seeds}"], set[int]()
    if (precision := settings.get("precision")) is not None:
        narrower = max(precision / MORE, LEAST_PRECISION)
        between = _sizes_between(spec, mixes, narrower)
        overrides.append(f"search.precision={narrower:.3g}")
    if between:
        overrides.append(_with_sizes(spec, between))
    most_runs, used = settings.get("max_runs"), max(mix.runs for mix in mixes)
    if most_runs is not None and MORE * used > most_runs:
        overrides.append(f"search.max_runs={MORE * most_runs}")
    if (most_cost := settings.get("max_cost")) is not None:
        overrides.append(f"search.max_cost={most_cost * MORE**2:g}")
    return NextStep(f"Add seeds{' and sizes' if between else ''}, for narrower intervals: {because}.", tuple(overrides))


def _sizes_between(spec: SweepSpec, mixes: list[MixAnswer], precision: float) -> set[int]:
    """The middle of each gap between sizes, around the transitions of ``mixes``, that keeps a searcher from such a
    ``precision``."""
    values = [mix.target.transition.relative.value for mix in mixes]
    gaps = [gap_around(spec.sizes, value) for value in values if value is not None]
    middles = set()
    for low, high in filter(None, gaps):
        inside = [size for size in range(low + 1, high) if _can_train(spec, size)]
        if inside and COARSE * math.log(high / low) > precision:
            middles.add(min(inside, key=lambda size: abs(size * size - low * high)))
    return middles


@dataclass(frozen=True)
class Paragraph:
    """A few sentences under a ``label``."""

    label: str
    text: str

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


def explain(spec: SweepSpec, answer: Answer, state: str) -> tuple[Paragraph, ...]:
    """A sweep in plain words: asked, found, how sure, caveats, what next."""
    if not any(mix.runs for mix in answer.mixes):
        stands = "" if state == "failed" else f" The sweep is {state}."
        return (_asked(spec, answer), Paragraph("Found", f"{sentences(answer)[0]}{stands}"))
    one = "This was asked under one training recipe."
    asked = [] if answer.recipes else ["Settings were tuned for each mix." if answer.tuned else one]
    sure, then = judged(spec, answer, state)
    mind = " ".join([*caveats(answer), *asked])
    return (_asked(spec, answer), _found(answer, state), sure, *([Paragraph("Mind", mind)] if mind else []), then)


WAITING = {"interrupted": "Resume the sweep: it was interrupted.", "running": "Let the sweep end."}
"""The next step of a sweep that has not ended."""


def judged(spec: SweepSpec, answer: Answer, state: str) -> tuple[Paragraph, ...]:
    """Certainty and next step: two paragraphs, none before a run has ended."""
    if not any(mix.runs for mix in answer.mixes):
        return ()
    flaws = [said.partition(":")[0].lower() for said in answer.cautions]
    done = f"No run is needed at these settings; to mind: {listed(flaws)}." if flaws else "No run is needed."
    then = WAITING.get(state) or str(next_step(spec, answer) or done)
    return Paragraph("How sure", _how_sure(answer)), Paragraph("Next", then)


def _asked(spec: SweepSpec, answer: Answer) -> Paragraph:
    sizes = f"{answer.size_axis} {exact(answer.counts[0].size)} to {exact(answer.counts[-1].size)}"
    mixes = listed([called(mix) for mix in answer.mixes])
    return Paragraph(
        "Asked",
        f"{spec.question} Target {answer.target}; mixes {mixes}; sizes {sizes}. The transition is the size at which "
        f"mean {answer.words.score} reaches {LEVEL:.0%} of its asymptote.",
    )


def _found(answer: Answer, state: str) -> Paragraph:
    ended = sum(mix.runs for mix in answer.mixes)
    head = f"Found, from {counted(ended, 'run')}" + ("" if state == "finished" else f" (so far: the sweep is {state})")
    verdicts = [f"{verdict_line(answer, mix)}." for mix in answer.mixes if mix.runs]
    return Paragraph(head, " ".join(dict.fromkeys([*sentences(answer), *verdicts])))


def _how_sure(answer: Answer) -> str:
    """What the ratios' intervals exclude, and the runs that each mix rests on."""
    known: dict[str, list[str]] = {}
    for mix in answer.mixes:
        if mix.synergy_total is not None:
            known.setdefault(certainty(mix.synergy_total), []).append(called(mix))
    one = sum(map(len, known.values())) == 1
    ratios = [f"{said}{'' if one else f' for {listed(mixes)}'}" for said, mixes in known.items()]
    runs = [
        f"{mix.runs} of {called(mix)}{f' ({BY_HAND})' if mix.stopped else ''}"
        for mix in answer.mixes
        if mix.runs or mix.stopped
    ]
    head = f"The ratio's {CONFIDENCE:.0%} interval {'; '.join(ratios)}. " if ratios else ""
    if len(runs) > MOST_LISTED:
        counts = [mix.runs for mix in answer.mixes]
        runs = [f"{sum(counts)}, {min(counts)} to {max(counts)} a mix"]
    return f"{head}Runs: {listed(runs)}."
