"""The recommended next step, the same in terminal, page, record and ``explain``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from orchestrator.history.sweeps import Sweep
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.words.transitions import MOST_LISTED, called, largest_tested, never_learned
from orchestrator.search.pairs import Aim
from orchestrator.space.spec import SweepSpec
from orchestrator.system.commands import command_line
from orchestrator.system.text import counted, exact, listed
from orchestrator.transition.types import Verdict
from trainables.base import SettingsError

SMOKE = "smoke"
"""Profile that is far too short to learn, in every shipped space."""
FURTHER: dict[Aim, tuple[Aim, str]] = {
    "decide": (
        "locate",
        "This search stopped as soon as the comparison was decided. Locate the transitions, to see how many parameters "
        "each mix needs.",
    ),
    "factor": ("locate", "This search stopped before it located the transitions. Now locate them."),
}
"""For each aim of a search except the last, the aim that goes further, and why."""
FAILED_SHARE = 0.2
"""Share of failed runs from which their error is the next thing to read."""
MORE = 2
"""Factor by which the next step raises sizes, steps, seeds, runs and cost."""


@dataclass(frozen=True)
class NextStep:
    """A recommendation.

    Attributes:
        why: The recommendation in a sentence.
        overrides: Settings to add to the same command, empty if no run can help.
        extends: True if the new sweep can reuse this sweep's runs.
        continues: True if it continues an open comparison with twice the seeds and limits.
    """

    why: str
    overrides: tuple[str, ...] = ()
    extends: bool = True
    continues: bool = False

    def __str__(self) -> str:
        sets = " ".join(f"--set '{override}'" for override in self.overrides)
        return f"{self.why} ({sets})" if sets else self.why


def command_of(sweep: Sweep, step: NextStep | None = None) -> str:
    """Return the command that follows a recommendation, using the sweep's own files, or resumes the sweep."""
    if step is None:
        words = ["--resume", sweep.id]
    else:
        words = [word for override in step.overrides for word in ("--set", override)]
        words += ["--extend", sweep.id] if step.extends else []
    return command_line("run", sweep.files.spec, *words, "--home", sweep.files.home.root)


def next_step(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Return the most useful next run, or None if every question is answered."""
    ended = [mix for mix in answer.mixes if mix.runs]
    if not ended:
        return None
    by_verdict = {verdict: [mix for mix in ended if mix.target.transition.verdict is verdict] for verdict in Verdict}
    undecided = [mix for mix in answer.compared if mix.comparison is not None and not mix.is_decided]
    apart = [mix for mix in answer.compared if mix.comparison is None]
    is_decided = answer.compared and not undecided and not apart
    if (
        answer.failed >= FAILED_SHARE * (answer.failed + answer.runs) > 0 and not is_decided
    ):  # More runs would fail in the same way.
        many = counted(answer.failed, "run")
        return NextStep(
            f"Read why {many} failed: `logs {answer.failed_run}`. Then train them again, with --retry-failed."
        )
    largest = spec.sizes[-1]
    smallest = spec.sizes[0]
    learned = answer.words.learned
    tested = {share.size for mix in ended for share in mix.shares}
    if answer.nothing_learned and spec.profile == SMOKE:
        return NextStep(
            f"The profile {SMOKE} only shows that everything works. For an answer, choose another --profile."
        )
    if answer.nothing_learned and largest in tested and any(mix.spent for mix in answer.mixes):
        return _longer(spec, f"nothing was {learned} up to {largest_tested(answer, answer.mixes)}")
    aim = spec.search.settings.get("aim")
    if is_decided and aim in FURTHER:
        further, why = FURTHER[aim]
        most_runs = max(mix.runs for mix in answer.mixes)
        is_near_limit = MORE * most_runs > (spec.search.settings.get("max_runs") or math.inf)
        is_raised = further == "locate" or is_near_limit
        raised = [_raised_seeds(spec), *_raised_limits(spec)] if is_raised else []
        return NextStep(why, (f"search.aim={further}", *raised))
    if above := by_verdict[Verdict.ABOVE]:
        because = f"{_names(above)} {'was' if len(above) == 1 else 'were'} {never_learned(answer, above)}"
        return _other_size(spec, MORE * largest, because)
    if below := by_verdict[Verdict.BELOW]:
        because = f"{_names(below)} {'was' if len(below) == 1 else 'were'} already {learned} at {exact(smallest)}"
        return _other_size(spec, smallest // MORE, because)
    if by_verdict[Verdict.NEAR_FLOOR]:
        why = "More runs cannot decide this, because the most frequent answer alone scores too high."
        return NextStep(f"{why} Use test data in which it is less common.")
    if undecided:
        both = [*map(answer.baseline_of, undecided), *undecided]
        many = f"no difference has been shown yet in {len(undecided)} comparisons"
        few = f"no difference between {_names(both)} has been shown yet"
        return _continued(spec, both, many if len(undecided) > MOST_LISTED else few)
    if apart:
        names = _names([*map(answer.baseline_of, apart), *apart])
        return NextStep(f"Compare in pairs: {names} were not trained in pairs.", ("search.method=pairs",))
    if unplaced := by_verdict[Verdict.UNDECIDED]:
        return _continued(spec, unplaced, f"the transition of {_names(unplaced)} is not located")
    return None


def _names(mixes: Sequence[MixAnswer]) -> str:
    return listed(list(dict.fromkeys(called(mix) for mix in mixes)))


def _longer(spec: SweepSpec, because: str) -> NextStep:
    """Recommend twice the budget for the same mixes, if the settings can express that."""
    why = f"Train twice as long: {because}."
    if spec.tuned or spec.budget != "total" or any(len(arm.phases) > 1 or arm.label for arm in spec.mixes):
        return NextStep(why)
    names = [replace(arm, budget=MORE * arm.budget).name for arm in spec.mixes]
    quoted = ", ".join(json.dumps(name) if ":" in name else name for name in names)
    return NextStep(why, (f"mixes=[{quoted}]",), extends=False)


def _other_size(spec: SweepSpec, size: int, because: str) -> NextStep:
    if not _can_train(spec, size):
        return NextStep(f"No further size can be trained: {because}.")
    overrides = (_with_sizes(spec, {size}), *_raised_limits(spec))
    return NextStep(f"Try {spec.size_axis} {exact(size)}: {because}.", overrides)


def _with_sizes(spec: SweepSpec, sizes: set[int]) -> str:
    return f"sizes=[{', '.join(map(str, sorted({*spec.sizes, *sizes})))}]"


def _can_train(spec: SweepSpec, size: int) -> bool:
    if size < 1:
        return False
    try:
        for arm in spec.mixes:
            spec.family_of(arm).check(arm.mix, size)
    except SettingsError:
        return False
    return True


def _continued(spec: SweepSpec, mixes: Sequence[MixAnswer], because: str) -> NextStep:
    """Recommend doubling the seeds and the limits, and adding a size next to each mix's transition."""
    if len({point.seed for mix in mixes for point in mix.target.transition.points}) >= spec.seeds > 1:
        because += ", and every seed was used"
    between = {size for mix in mixes if (size := _size_between(spec, mix)) is not None}
    sizes = [_with_sizes(spec, between)] if between else []
    overrides = (_raised_seeds(spec), *sizes, *_raised_limits(spec))
    return NextStep(f"Continue with twice the runs: {because}.", overrides, continues=True)


def _raised_seeds(spec: SweepSpec) -> str:
    return f"seeds={MORE * spec.seeds}"


def _raised_limits(spec: SweepSpec) -> list[str]:
    """Return overrides that double every limit of the search."""
    limits = {name: spec.search.settings.get(name) for name in ("max_runs", "max_cost")}
    return [f"search.{name}={value * MORE:g}" for name, value in limits.items() if value is not None]


def _size_between(spec: SweepSpec, mix: MixAnswer) -> int | None:
    """Return a size between the two around a mix's transition, or None if none can be trained."""
    value = mix.target.transition.relative.value
    around = [(low, high) for low, high in pairwise(spec.sizes) if value is not None and low < value < high]
    inside = [size for low, high in around for size in range(low + 1, high) if _can_train(spec, size)]
    return min(inside, key=lambda size: abs(size * size - around[0][0] * around[0][1]), default=None)
