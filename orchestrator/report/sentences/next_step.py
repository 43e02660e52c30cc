"""The recommended next step, the same in terminal, page, record and ``explain``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from orchestrator.history.sweeps import Sweep
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.sentences.transitions import MOST_LISTED, called, largest_tested, never_learned
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
"""The next aim after each aim of a search except the last, and the reason to choose it."""
FAILED_SHARE = 0.2
"""Share of failed runs at or above which the next step is to read their error."""
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
    """Return the command that follows a recommendation. Without a recommendation, it resumes the sweep.

    The command uses the sweep's own files.
    """
    if step is None:
        arguments = ["--resume", sweep.id]
    else:
        arguments = [argument for override in step.overrides for argument in ("--set", override)]
        arguments += ["--extend", sweep.id] if step.extends else []
    return command_line("run", sweep.files.spec, *arguments, "--home", sweep.files.home.root)


def next_step(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Return the most useful next run, or None if every question is answered or no run has ended."""
    if not any(mix.runs for mix in answer.mixes):
        return None
    steps = (recommend(spec, answer) for recommend in RECOMMENDATIONS)
    return next((step for step in steps if step is not None), None)


def _read_failures(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend reading an error if many runs failed. More runs would fail in the same way."""
    many_failed = answer.failed >= FAILED_SHARE * (answer.failed + answer.runs) > 0
    if not many_failed or _is_decided(answer):
        return None
    many = counted(answer.failed, "run")
    return NextStep(f"Read why {many} failed: `logs {answer.failed_run}`. Then train them again, with --retry-failed.")


def _leave_smoke_profile(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend another profile if nothing was learned with ``smoke``, which only shows that everything works."""
    if not answer.nothing_learned or spec.profile != SMOKE:
        return None
    return NextStep(f"The profile {SMOKE} only shows that everything works. For an answer, choose another --profile.")


def _train_longer(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend a larger budget if the largest size did not learn, and used its whole budget."""
    tested = {share.size for mix in answer.mixes if mix.runs for share in mix.shares}
    is_largest_tested = spec.sizes[-1] in tested
    if not answer.nothing_learned or not is_largest_tested or not any(mix.spent for mix in answer.mixes):
        return None
    return _longer(spec, f"nothing was {answer.words.learned} up to {largest_tested(answer, answer.mixes)}")


def _raise_aim(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend the next aim if the search reached its aim."""
    aim = spec.search.settings.get("aim")
    if not _is_decided(answer) or aim not in FURTHER:
        return None
    further, why = FURTHER[aim]
    most_runs = max(mix.runs for mix in answer.mixes)
    is_near_limit = MORE * most_runs > (spec.search.settings.get("max_runs") or math.inf)
    is_raised = further == "locate" or is_near_limit
    raised = [_raised_seeds(spec), *_raised_limits(spec)] if is_raised else []
    return NextStep(why, (f"search.aim={further}", *raised))


def _try_larger_size(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend a larger size for mixes whose transition is above all sizes."""
    above = _with_verdict(answer, Verdict.ABOVE)
    if not above:
        return None
    because = f"{_names(above)} {'was' if len(above) == 1 else 'were'} {never_learned(answer, above)}"
    return _other_size(spec, MORE * spec.sizes[-1], because)


def _try_smaller_size(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend a smaller size for mixes whose transition is below all sizes."""
    below = _with_verdict(answer, Verdict.BELOW)
    if not below:
        return None
    smallest = spec.sizes[0]
    was_learned = f"{'was' if len(below) == 1 else 'were'} already {answer.words.learned}"
    return _other_size(spec, smallest // MORE, f"{_names(below)} {was_learned} at {exact(smallest)}")


def _change_test_data(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend other test data if a constant answer scores too high to see a transition."""
    if not _with_verdict(answer, Verdict.NEAR_FLOOR):
        return None
    why = "More runs cannot decide this, because the most frequent answer alone scores too high."
    return NextStep(f"{why} Use test data in which it is less common.")


def _continue_comparisons(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend more pairs for comparisons that are not decided."""
    undecided = _undecided(answer)
    if not undecided:
        return None
    both = [*map(answer.baseline_of, undecided), *undecided]
    many = f"no difference has been shown yet in {len(undecided)} comparisons"
    few = f"no difference between {_names(both)} has been shown yet"
    return _continued(spec, both, many if len(undecided) > MOST_LISTED else few)


def _compare_in_pairs(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend pairs for mixes that were not trained in pairs with their baseline."""
    unpaired = _unpaired(answer)
    if not unpaired:
        return None
    names = _names([*map(answer.baseline_of, unpaired), *unpaired])
    return NextStep(f"Compare in pairs: {names} were not trained in pairs.", ("search.method=pairs",))


def _locate_transitions(spec: SweepSpec, answer: Answer) -> NextStep | None:
    """Recommend more runs for mixes whose transition is not located."""
    unlocated = _with_verdict(answer, Verdict.UNDECIDED)
    if not unlocated:
        return None
    return _continued(spec, unlocated, f"the transition of {_names(unlocated)} is not located")


RECOMMENDATIONS: tuple[Callable[[SweepSpec, Answer], NextStep | None], ...] = (
    _read_failures,
    _leave_smoke_profile,
    _train_longer,
    _raise_aim,
    _try_larger_size,
    _try_smaller_size,
    _change_test_data,
    _continue_comparisons,
    _compare_in_pairs,
    _locate_transitions,
)
"""Functions that return a recommendation, or None if theirs does not apply. The first that applies is the next step."""


def _undecided(answer: Answer) -> list[MixAnswer]:
    """Return the mixes that were compared in pairs without a decision."""
    return [mix for mix in answer.compared if mix.comparison is not None and not mix.is_decided]


def _unpaired(answer: Answer) -> list[MixAnswer]:
    """Return the mixes that have a baseline but no pairs with it."""
    return [mix for mix in answer.compared if mix.comparison is None]


def _is_decided(answer: Answer) -> bool:
    """Return True if the answer has comparisons, and all of them are decided."""
    return bool(answer.compared) and all(mix.is_decided for mix in answer.compared)


def _with_verdict(answer: Answer, verdict: Verdict) -> list[MixAnswer]:
    """Return the mixes with runs whose target has this verdict."""
    return [mix for mix in answer.mixes if mix.runs and mix.target.transition.verdict is verdict]


def _names(mixes: Sequence[MixAnswer]) -> str:
    return listed(list(dict.fromkeys(called(mix) for mix in mixes)))


def _longer(spec: SweepSpec, because: str) -> NextStep:
    """Recommend twice the budget for the same mixes, if the settings can express that."""
    why = f"Train twice as long: {because}."
    # Tuned values are by the name of a mix, which would change. Only arms without a name and with one phase can be
    # written as text with a budget.
    if spec.tuned or spec.budget != "total" or any(len(arm.phases) > 1 or arm.label for arm in spec.mixes):
        return NextStep(why)
    names = [replace(arm, budget=MORE * arm.budget).name for arm in spec.mixes]
    quoted = ", ".join(json.dumps(name) if ":" in name else name for name in names)
    return NextStep(why, (f"mixes=[{quoted}]",), extends=False)


def _other_size(spec: SweepSpec, size: int, because: str) -> NextStep:
    """Recommend a size, or return that it cannot be trained."""
    if not _can_train(spec, size):
        return NextStep(f"No further size can be trained: {because}.")
    overrides = (_with_sizes(spec, {size}), *_raised_limits(spec))
    return NextStep(f"Try {spec.size_axis} {exact(size)}: {because}.", overrides)


def _with_sizes(spec: SweepSpec, sizes: set[int]) -> str:
    return f"sizes=[{', '.join(map(str, sorted({*spec.sizes, *sizes})))}]"


def _can_train(spec: SweepSpec, size: int) -> bool:
    """Return True if every mix can be trained at a size."""
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
    # The geometric mean is in the middle of two sizes on a logarithmic axis.
    return min(inside, key=lambda size: abs(size * size - around[0][0] * around[0][1]), default=None)
