"""Checks of a search space as a whole: its values must fit each other and the family of models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, product
from operator import attrgetter
from typing import Any

import numpy as np

from orchestrator.space.parsing import Key, Mistake, explain
from orchestrator.space.settings import flatten, plain_value
from orchestrator.space.tuning_settings import Tune
from orchestrator.system.did_you_mean import did_you_mean, unknown
from orchestrator.system.errors import UserError
from orchestrator.system.reading_time import check_reading_time
from orchestrator.transition.evidence import least_accuracy
from trainables.base import Family, RunConfig, SettingsError
from trainables.contract.arms import ALL, Arm
from trainables.probes.base import Probe

BETWEEN = 0.37
"""Position between two sizes, as a share of their distance. It is seldom a whole number."""
CLEAR = 0.1
"""Minimum distance above the best constant answer's accuracy at which a run may count as learned."""
MOST_CORNERED = 10
"""Maximum number of tuned settings for which we check every combination of lowest and highest values. With more, we
check two: all lowest values, and all highest values."""


def in_mixes(mixes: Sequence[Arm], target: str, family: Family) -> Iterator[Mistake]:
    """Refuse unknown tasks, and mixes without the target."""
    known = family.tasks()
    if target not in known:
        yield Mistake(("target",), str(unknown(family.words.task, target, known)))
        return
    for index, mix in enumerate(mixes):
        tasks = dict.fromkeys(task for phase in mix.phases for task in phase.mix.tasks)
        strangers = [task for task in tasks if task not in known]
        for task in strangers:
            yield Mistake(("mixes", index), str(unknown(family.words.task, task, known, where=f"the mix {mix}")))
        if not strangers and target not in mix.tasks:
            yield Mistake(("target",), f"every mix must contain the target {target!r}; the mix {mix} does not")


def in_bar(learned: float, target: str, family: Family) -> Iterator[Mistake]:
    """Refuse a target on which the best constant answer nearly counts as learned."""
    tables = family.tables([target], 0) if target in family.tasks() else None
    if tables is None:
        return
    constant = float(np.bincount(tables[target].ravel()).max() / tables[target].size)
    if (needed := least_accuracy(constant, learned)) - constant < CLEAR:
        yield Mistake(
            ("target",),
            f"cannot be measured: the best constant answer scores {constant:.2f} on {target}, and a run counts as "
            f"learned at {needed:.2f} or more. Choose a target whose most frequent answer is rarer",
        )


def check_counts(name: str, family: Family, sizes: Sequence[int]) -> None:
    """Check that a family's parameters grow with the size, even between the candidate sizes.

    Answers compare mixes by parameters, and a transition is usually between two sizes. Raises :class:`UserError`.
    """
    between = [low + BETWEEN * (high - low) for low, high in pairwise(sizes)] or [sizes[0] + BETWEEN]
    counts: dict[float, float] = {}
    for size in sorted([*sizes, *between]):
        try:
            counts[size] = float(family.parameters(size).total)
        except Exception as error:
            raise UserError(
                f"{name} cannot count the parameters at {family.size_axis} {size:g}: {type(error).__name__}: {error}. "
                "A transition may be between two sizes, so the count must accept fractions"
            ) from error
    # The count may be the same at some fraction between two sizes, but not at two candidate sizes.
    steps = [(small, large, False) for small, large in pairwise(sorted(counts))]
    steps += [(small, large, True) for small, large in pairwise(sizes)]
    for small, large, strictly in steps:
        if not (counts[small] < counts[large] if strictly else counts[small] <= counts[large]):
            raise UserError(
                f"{name} counts {counts[large]:g} parameters at {family.size_axis} {large:g} and {counts[small]:g} at "
                f"{small:g}. Mixes are compared by their parameters, so the count must grow with the size"
            )


def in_probes(probes: Sequence[Probe], family: Family) -> Iterator[Mistake]:
    """Refuse probes that need models or data if the family cannot return them."""
    for index, probe in enumerate(probes):
        for needed, method in ((probe.needs_model, "load"), (probe.needs_data, "data")):
            if needed and getattr(type(family), method) is getattr(Family, method):
                why = f"the probe {probe.name} needs the method {method!r}, which the family {family.name} lacks"
                yield Mistake(("probes", index), why)


def in_tuned(tuned: Mapping[str, Mapping[str, float]], names: Iterable[str], family: Family) -> Iterator[Mistake]:
    """Refuse tuned values of unknown mixes or of settings that cannot be tuned."""
    for name, values in tuned.items():
        if name not in names:
            yield Mistake(("tuned", name), str(unknown("mix", name, names)))
        for path in values:
            if path not in family.tunable:
                yield Mistake(("tuned", name, path), f"cannot be tuned. {_tunable(family)}")


def in_looks(looks: Mapping[str, int], names: Iterable[str]) -> Iterator[Mistake]:
    """Refuse earlier analyses of unknown mixes."""
    yield from (Mistake(("looks", name), str(unknown("mix", name, names))) for name in looks if name not in names)


def in_tune(
    tune: Tune, mixes: Sequence[Arm], sizes: Sequence[int], seeds: Iterable[int], family: Family
) -> Iterator[Mistake]:
    """Refuse a tuning that does not fit the sweep's mixes, sizes and seeds."""
    ends: dict[str, tuple[float, float]] = {}
    for path, span in tune.settings.items():
        key: Key = ("tune", "settings", *path.split("."))
        if path not in family.tunable:
            hint = did_you_mean(path, family.tunable)
            yield Mistake(key, f"there is no such setting to tune.{hint} {_tunable(family)}")
        elif attrgetter(path)(family.settings) is None:
            yield Mistake(key, f"tuning starts from the written value: write one for settings.{path}")
        else:
            ends[path] = (span.low, span.high)
            yield from _unusable(family, key, ({path: end} for end in ends[path]))
    if len(ends) > 1:
        # There are 2^n corners, and a script may have any number of settings.
        ways = product(*ends.values()) if len(ends) <= MOST_CORNERED else zip(*ends.values(), strict=True)
        corners = (dict(zip(ends, corner, strict=True)) for corner in ways)
        yield from islice(_unusable(family, ("tune", "settings"), corners), 1)
    if phased := [mix.name for mix in mixes if len(mix.phases) > 1]:
        yield Mistake(("tune",), f"only arms of one phase can be tuned; {phased[0]} has several")
    if overlap := sorted(set(tune.seed_list) & set(seeds)):
        yield Mistake(
            ("seed",),
            f"seed {overlap[0]} is also a seed of tuning runs: choose others, so that the answer is not biased",
        )
    if len(sizes) < 2:
        yield Mistake(("tune",), "tuning needs a sweep of at least two sizes")


def _unusable(family: Family, key: Key, trials: Iterable[Mapping[str, float]]) -> Iterator[Mistake]:
    """Yield a mistake for each combination of values with which the family cannot train."""
    for values in trials:
        check_reading_time()
        try:
            family.adjusted(values)
        except SettingsError as error:
            yield Mistake(key, explain(error))


def _tunable(family: Family) -> str:
    """Return which settings can be tuned."""
    allowed = ", ".join(family.tunable)
    return f"Allowed: {allowed}" if allowed else f"The family {family.name} has no settings to tune"


def in_along(along: str, settings: Any) -> Iterator[Mistake]:
    """Refuse a setting by which variants cannot be ordered."""
    values = flatten(plain_value(settings), "settings.")
    numbers = [name for name, value in values.items() if type(value) in (int, float) and value > 0]
    if along and along not in numbers:
        yield Mistake(("along",), str(unknown("positive number in the settings", along, numbers)))


def check_parts(family: Family, run: RunConfig) -> None:
    """Check the parts of models that phases take over or freeze. Raises :class:`SettingsError` for a part that models
    lack or that does not fit."""
    arm = f"the arm {run.label}"
    for phase in run.phases:
        start = phase.start
        takes = start.takes if start is not None else ()
        if phase.frozen and (ALL in phase.frozen or set(phase.frozen) >= set(family.parts or (ALL,))):
            raise SettingsError(f"{arm} has a phase in which everything is frozen", key="arms")
        for part in (*phase.frozen, *takes):
            if part not in (ALL, *family.parts):
                message = f"{arm} names the part {part!r}, which models of the family {family.name} lack"
                raise SettingsError(message, key="arms", given=part, allowed=(ALL, *family.parts))
        if start is not None and start.donor.size != phase.size:
            for part in [part for part in takes if part not in family.resizable]:
                can = ", ".join(family.resizable) or "none"
                other = f"a model of another size, {start.donor.size}; parts that fit another size: {can}"
                message = f"{arm} takes {part!r} over from {other}"
                raise SettingsError(message, key="arms", given=part, allowed=family.resizable)
        if (start is not None or phase.frozen) and not family.parts:
            raise SettingsError(f"the family {family.name} trains in one phase, with nothing frozen", key="arms")
