"""What to ask next, where a sweep did not answer its question: in words, and as overrides of the same command."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.search.stopping import LEAST_PRECISION
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Verdict
from trainables.base import SettingsError

MORE_SEEDS = 2
"""Times as many: an interval's width falls with the root of their number."""
NARROWER = 2
"""Times as narrow as before is what the statistical searcher is asked for next, at the square of it in cost."""


@dataclass(frozen=True)
class NextStep:
    """Why the sweep leaves a question open, and the overrides with which an extension of it would ask further."""

    why: str
    overrides: tuple[str, ...]


def next_steps(spec: SweepSpec, found: Answer) -> list[NextStep]:
    """What would answer what is open, the most telling first; nothing where all is decided."""
    verdicts = {mix.mix: mix.target.transition.verdict for mix in found.mixes}
    beyond = {verdict: [mix for mix, its in verdicts.items() if its is verdict] for verdict in Verdict}
    steps, said = [], found.words
    if beyond[Verdict.ABOVE]:
        steps += _other_size(
            spec, beyond[Verdict.ABOVE], 2 * spec.sizes[-1], f"not {said.learned} up to {spec.sizes[-1]}"
        )
    if beyond[Verdict.BELOW] and spec.sizes[0] > 1:
        steps += _other_size(
            spec, beyond[Verdict.BELOW], spec.sizes[0] // 2, f"{said.learned} from {spec.sizes[0]} on already"
        )
    if beyond[Verdict.PLATEAU]:
        why = (
            f"{_listed(beyond[Verdict.PLATEAU])} levels off below what counts as {said.learned}; would more steps help?"
        )
        steps.append(NextStep(why, ("search.budget_audit=true",) if _audits(spec) else ()))
    undecided = beyond[Verdict.UNDECIDED] or [mix.mix for mix in found.mixes if not steps and _open(mix)]
    if undecided:
        what = "transition" if beyond[Verdict.UNDECIDED] else "comparison"
        why = f"the {what} of {_listed(undecided)} is undecided; more seeds would narrow it"
        steps.append(NextStep(why, (f"seeds={MORE_SEEDS * spec.seeds}", *_further(spec))))
    return steps


def _further(spec: SweepSpec) -> list[str]:
    """What else keeps a searcher from taking more runs: how narrow is narrow enough, and what a mix may cost."""
    settings, further = spec.search.settings, []
    if (precision := settings.get("precision")) is not None:
        further.append(f"search.precision={max(precision / NARROWER, LEAST_PRECISION):.3g}")
    if (most := settings.get("max_cost")) is not None:
        further.append(f"search.max_cost={most * NARROWER**2:g}")
    return further


def _other_size(spec: SweepSpec, mixes: list[str], size: int, what: str) -> list[NextStep]:
    try:
        for mix in spec.mixes:
            spec.family_of(mix).check(mix.mix, size)
    except SettingsError:
        return [NextStep(f"{_listed(mixes)}: {what}", ())]
    sizes = ", ".join(map(str, sorted({*spec.sizes, size})))
    return [NextStep(f"{_listed(mixes)}: {what}; the {spec.size_axis} {size} would say more", (f"sizes=[{sizes}]",))]


def _audits(spec: SweepSpec) -> bool:
    return "budget_audit" in spec.search.settings and not spec.search.settings["budget_audit"]


def _open(mix: MixAnswer) -> bool:
    return mix.synergy_total is not None and not mix.synergy_total.decided


def _listed(mixes: list[str]) -> str:
    return " and ".join(mixes)
