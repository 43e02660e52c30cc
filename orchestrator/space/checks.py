"""Checks of a search space as a whole: values that must fit one another and the family of models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.errors import did_you_mean, unknown
from orchestrator.search.base import Request
from orchestrator.space.mistakes import InvalidDataError, Key, Mistake, explain
from orchestrator.space.settings import flatten, plain_settings
from trainables.base import Family, RunConfig, SettingsError, Start
from trainables.contract.arms import ALL

if TYPE_CHECKING:
    from orchestrator.space.spec import SweepSpec
    from orchestrator.space.tuning import Tune

MOST_RUNS = 100_000
"""Of the whole grid, which planning and resuming go through run by run."""


def misfits(spec: SweepSpec) -> list[Mistake]:
    """Every mistake in how the values of a specification go together.

    Sizes are looked at only where nothing else is wrong: a run that cannot be trained would say the same again.
    """
    if (runs := len(spec.mixes) * len(spec.sizes) * spec.seeds) > MOST_RUNS:
        asked = f"{len(spec.mixes)} mixes x {len(spec.sizes)} sizes x {spec.seeds} seeds are {runs} runs"
        return [Mistake(("seeds",), f"{asked}; a sweep may have {MOST_RUNS} of them at most")]
    family = spec.make_family()
    found = [
        *_in_mixes(spec, family),
        *_in_tuned(spec, family),
        *_in_tune(spec, family),
        *_in_recipes(spec),
        *_in_along(spec),
    ]
    return found or list(_in_sizes(spec, family))


def _in_mixes(spec: SweepSpec, family: Family) -> Iterator[Mistake]:
    known = family.tasks()
    if spec.target not in known:
        yield Mistake(("target",), str(unknown(family.words.task, spec.target, known)))
        return
    for place, mix in enumerate(spec.mixes):
        tasks = dict.fromkeys(task for phase in mix.phases for task in phase.mix.tasks)
        strangers = [task for task in tasks if task not in known]
        for whole in known:
            if strangers and set(strangers) <= {part.strip() for part in whole.split("+")}:
                yield Mistake(("mixes", place), f"write {{{whole!r}: 1}} for the {family.words.task} {whole!r}")
                return
        for task in strangers:
            yield Mistake(("mixes", place), str(unknown(family.words.task, task, known, where=f"the mix {mix}")))
        if not strangers and spec.target not in mix.tasks:
            yield Mistake(("target",), f"every mix must hold the target {spec.target!r}; the mix {mix} does not")


def _in_tuned(spec: SweepSpec, family: Family) -> Iterator[Mistake]:
    for name, found in spec.tuned.items():
        if name not in spec.mix_named:
            yield Mistake(("tuned", name), str(unknown("mix", name, spec.mix_named)))
        for path in found:
            if path not in family.tunable:
                yield Mistake(("tuned", name, path), f"cannot be tuned. {_tunable(spec, family)}")


def _in_tune(spec: SweepSpec, family: Family) -> Iterator[Mistake]:
    tune = spec.tune
    if tune is None:
        return
    yield from _in_ranges(spec, tune, family)
    if phased := [mix.name for mix in spec.mixes if len(mix.phases) > 1]:
        yield Mistake(("tune",), f"tunes arms of one phase; {phased[0]} has several")
    if overlap := sorted(set(tune.seed_list) & set(spec.seed_list)):
        yield Mistake(
            ("tune", "seed"),
            f"seed {overlap[0]} is one of the sweep's own; tuning needs others, so that it is blind",
        )
    if tune.sizes == "auto" and len(spec.sizes) < 2:
        yield Mistake(("tune", "sizes"), "auto needs a sweep of at least two sizes; name two or more sizes to tune at")
    for size in () if tune.sizes == "auto" else tune.sizes:
        try:
            family.check(spec.baseline.mix, size)
        except SettingsError as error:
            yield Mistake(("tune", "sizes"), explain(error))


def _in_ranges(spec: SweepSpec, tune: Tune, family: Family) -> Iterator[Mistake]:
    """Ranges of settings that cannot be tuned, and ends that cannot be used."""
    for path, span in tune.settings.items():
        key: Key = ("tune", "settings", *path.split("."))
        if path not in family.tunable:
            hint = did_you_mean(path, family.tunable)
            yield Mistake(key, f"there is no such setting to tune.{hint} {_tunable(spec, family)}")
            continue
        for end in (span.low, span.high):
            try:
                family.adjusted({path: end})
            except SettingsError as error:
                yield Mistake(key, explain(error))


def _tunable(spec: SweepSpec, family: Family) -> str:
    """Settings that may be tuned, as a sentence."""
    return f"Allowed: {', '.join(family.tunable)}" if family.tunable else f"The family {spec.family} lets none be tuned"


def _in_recipes(spec: SweepSpec) -> Iterator[Mistake]:
    try:
        resolved = spec.recipe_settings
    except InvalidDataError as error:
        yield from (replace(mistake, key=("recipes", *mistake.key)) for mistake in error.mistakes)
        return
    if resolved and spec.tune is not None:
        yield Mistake(("tune",), "tunes one recipe; ask for it or for recipes, not for both in one search space")


def _in_along(spec: SweepSpec) -> Iterator[Mistake]:
    if not spec.along:
        return
    values = flatten(plain_settings(spec.settings), "settings.")
    numbers = [name for name, value in values.items() if _positive(value)]
    if spec.along not in numbers:
        yield Mistake(("along",), str(unknown("positive number in the settings", spec.along, numbers)))


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _in_sizes(spec: SweepSpec, family: Family) -> Iterator[Mistake]:
    """The first mix and size whose run cannot be trained; the others would mostly say the same."""
    for place, mix in enumerate(spec.mixes):
        for size in spec.sizes:
            try:
                run = spec.config(Request(mix.name, size, spec.seed))
                for phase in run.phases:
                    spec.family_of(mix).check(phase.mix, phase.size)
                check_parts(spec.family_of(mix), run)
            except SettingsError as error:
                named = tuple(error.key.split(".")) if error.key not in ("", "arms") else ("mixes", place)
                key = named if named[0] in type(spec).model_fields else ("settings", *named)
                yield Mistake(key, f"mix {mix} at {family.size_axis} {size}: {explain(error)}")
                return


def check_parts(family: Family, run: RunConfig) -> None:
    """Raise :class:`SettingsError` where a run, or one it goes on from, names a part that its model does not have, or
    takes one over from a model of another size that does not fit."""
    for phase in run.phases:
        if phase.frozen and (ALL in phase.frozen or set(phase.frozen) >= set(family.parts or (ALL,))):
            raise SettingsError(f"the arm {run.label} has a phase in which everything is frozen", key="arms")
        named = (*phase.frozen, *(phase.start.takes if phase.start is not None else ()))
        for part in named:
            if part != ALL and part not in family.parts:
                raise SettingsError(
                    f"the arm {run.label} names the part {part!r}, which models of the family {family.name} lack",
                    key="arms",
                    given=part,
                    allowed=(ALL, *family.parts),
                )
        if phase.start is not None and phase.start.donor.size != phase.size:
            _check_resized(family, run, phase.start)
        if (phase.start is not None or phase.frozen) and not family.parts:
            raise SettingsError(f"the family {family.name} trains in one phase, with nothing frozen", key="arms")


def _check_resized(family: Family, run: RunConfig, start: Start) -> None:
    for part in start.takes:
        if part not in family.resizable:
            can = ", ".join(family.resizable) or "none"
            raise SettingsError(
                f"the arm {run.label} takes {part!r} over from a model of another size, {start.donor.size}; parts "
                f"that fit another size: {can}",
                key="arms",
                given=part,
                allowed=family.resizable,
            )
