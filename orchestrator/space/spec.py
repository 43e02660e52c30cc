"""A checked search space, with its family, its mixes by name and the configuration of each run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, Self

from pydantic import PrivateAttr, model_validator
from pydantic_core import PydanticSerializationError

from orchestrator.search.base import Request
from orchestrator.space import checks, strict_yaml
from orchestrator.space.parsing import InvalidDataError, Mistake, explain, parse
from orchestrator.space.settings import flatten, plain_value, resolve
from orchestrator.space.written_spec import WrittenSpec
from orchestrator.system.errors import UserError
from orchestrator.system.reading_time import check_reading_time
from orchestrator.transition.evidence import LEARNED
from trainables.base import Family, RunConfig, SettingsError, Until
from trainables.contract.arms import Arm
from trainables.contract.bars import Bar
from trainables.contract.runs import salted
from trainables.contract.sources import source_hash
from trainables.contract.user_code import offer
from trainables.families import FamilySource, load_family, refresh
from trainables.probes.base import load_probe
from trainables.script.code import with_code
from trainables.script.family import ScriptFamily

MOST_RUNS = 100_000
"""Maximum number of runs of the whole grid, where each phase is a run. Planning and resuming iterate over them."""
MOST_MISTAKES = 20
"""Maximum number of mistakes in how the values fit together that are looked for."""
INDEPENDENT = frozenset({"resources", "search", "probes", "code", "salt", "looks"})
"""Keys on whose values no other key of a checked specification depends. In ``search`` this is true of ``stack``
only."""


class SweepSpec(WrittenSpec):
    """A sweep: a question, the runs that it may use, and how they are chosen.

    It is checked as a whole once, when it is made. Later code trusts it.
    """

    _was_checked: bool = PrivateAttr(default=False)
    """False for a specification that was made by ``model_construct``."""

    @model_validator(mode="after")
    def _check_whole(self) -> SweepSpec:
        # Look these up now: later, the name of the family may stand for other code.
        _ = self.family_class, self.folder, self.source
        if mistakes := self._mistakes():
            raise InvalidDataError(*mistakes)
        self._was_checked = True
        return self

    def _mistakes(self) -> list[Mistake]:
        """Return every mistake in how the values fit together."""
        phases = sum(len(mix.phases) for mix in self.mixes)
        if (runs := phases * len(self.sizes) * self.seeds) > MOST_RUNS:
            phased = "" if phases == len(self.mixes) else f" with {phases} phases"
            grid = f"{len(self.mixes)} mixes{phased} x {len(self.sizes)} sizes x {self.seeds} seeds are {runs} runs"
            return [Mistake(("seeds",), f"{grid}; a sweep may have at most {MOST_RUNS}")]
        family = self.make_family()
        tune = self.tune
        # An error lists a few mistakes only, and somebody else may have written a space with thousands.
        all_mistakes = chain(
            checks.in_mixes(self.mixes, self.target, family),
            checks.in_bar(self.search.settings.get("learned", LEARNED), self.target, family),
            checks.in_probes([load_probe(probe) for probe in self.probes], family),
            checks.in_tuned(self.tuned, self.mix_named, family),
            checks.in_looks(self.looks, self.mix_named),
            checks.in_tune(tune, self.mixes, self.sizes, self.seed_list, family) if tune is not None else (),
        )
        mistakes = list(islice(all_mistakes, MOST_MISTAKES))
        try:  # Resolving the recipes is their check.
            if self.recipe_settings and tune is not None:
                mistakes.append(Mistake(("tune",), "a search space can have tune: or recipes:, not both"))
        except InvalidDataError as error:
            mistakes += error.mistakes
        mistakes += checks.in_along(self.along, self.settings)
        # A run with one of these mistakes cannot be trained, and would repeat the message.
        return mistakes or self._untrainable()

    def _untrainable(self) -> list[Mistake]:
        """Return the mistake of the first run that cannot be trained. Other runs usually repeat it."""
        for mix, size in self.cells:
            check_reading_time()
            family = self.family_of(mix)
            try:
                run = self.config(Request(mix.name, size, self.seed))
                for phase in run.phases:
                    if fault := _fault(partial(family.check, phase.mix, phase.size)):
                        return [self._fault_of_family(f"check the mix {mix}", size, fault)]
                checks.check_parts(family, run)
                if fault := _fault(partial(_count, family, size)):
                    return [self._fault_of_family("count the parameters", size, fault)]
            except SettingsError as error:
                is_of_mix = error.key in ("", "arms")
                named = ("mixes", self.mixes.index(mix)) if is_of_mix else tuple(error.key.split("."))
                key = named if named[0] in type(self).model_fields else ("settings", *named)
                return [Mistake(key, f"mix {mix} at {self.size_axis} {size}: {explain(error)}")]
        return []

    def _fault_of_family(self, task: str, size: int, fault: str) -> Mistake:
        return Mistake(("family",), f"{self.family} cannot {task} at {self.size_axis} {size}: {fault}")

    @property
    def title(self) -> str:
        """Name of the sweep, with its variant if the space has several."""
        return f"{self.name}, {self.variant}" if self.variant else self.name

    @cached_property
    def family_class(self) -> type[Family]:
        """The family.

        Like :attr:`folder` and :attr:`source`, it is looked up when the specification is checked. Later, its name may
        stand for a class in another folder or in a changed file.
        """
        return self.family_source.load()

    @property
    def family_source(self) -> FamilySource:
        """Values from which other processes make the family."""
        named = [task for mix in self.mixes for phase in mix.phases for task in phase.mix.tasks]
        bar = None if self.learned is None else Bar.of(self.learned)
        return FamilySource(self.family, self.settings, self.script, self.floor, (self.target, *named), bar)

    @cached_property
    def folder(self) -> str:
        """Folder that the family's module is imported from. Empty for a family of this project."""
        return self.family_source.folder

    @cached_property
    def source(self) -> str:
        """Hash of the family's source or of the script's code. Empty for a family of this project."""
        return self.family_source.hash

    def make_family(self) -> Family:
        """Return the family with the sweep's own settings."""
        return self.family_class(self.settings)

    @cached_property
    def recipe_settings(self) -> dict[str, Any]:
        """Settings of the family under each recipe. Raises :class:`InvalidDataError` for invalid recipes."""
        return resolve(self.recipes, self.make_family(), self.sizes)

    def family_of(self, mix: Arm) -> Family:
        """Return the family with the settings of the mix's recipe, or the sweep's own."""
        return self.family_class(self.recipe_settings[mix.recipe] if mix.recipe else self.settings)

    def check_device(self) -> None:
        """Raise :class:`SettingsError` if the device of the stacks cannot train a mix with its settings."""
        for mix in self.mixes:
            self.family_of(mix).check_device(self.resources.device)

    def check_startable(self) -> None:
        """Raise :class:`UserError` if the family does not find its files, or if its count of parameters does not grow
        with the size. Stored sweeps are read without this check."""
        try:
            self.make_family().check_files()
        except SettingsError as error:
            raise UserError(f"{error.key}: {explain(error)}") from error
        checks.check_counts(self.family, self.make_family(), self.sizes)

    def warnings(self, *, of_code: bool = True) -> list[str]:
        """Return caveats of the sweep's answer. A caveat that is not about all recipes names its recipes.

        Args:
            of_code: Whether to look for caveats of a script's code. That reads files which the specification names.
        """
        if not self.recipes:
            family = self.make_family()
            of_script = family.code_warnings() if of_code and isinstance(family, ScriptFamily) else []
            return [*family.warnings(self.sizes), *of_script]
        recipes_of: dict[str, list[str]] = {}
        for recipe, settings in self.recipe_settings.items():
            for warning in self.family_class(settings).warnings(self.sizes):
                recipes_of.setdefault(warning, []).append(recipe)
        return [
            warning if len(recipes) == len(self.recipes) else f"Recipe {', '.join(recipes)}: {warning}"
            for warning, recipes in recipes_of.items()
        ]

    @property
    def place_along(self) -> float | None:
        """Value of the setting ``along``, or None if the space has no such setting."""
        return float(flatten(plain_value(self.settings), "settings.")[self.along]) if self.along else None

    @property
    def plain_mixes(self) -> tuple[str, ...]:
        """Distinct mix names, without recipes."""
        return tuple(dict.fromkeys(mix.plain_name for mix in self.mixes))

    def baseline_of(self, mix: Arm) -> Arm:
        """Return the baseline of a mix: the first mix of its recipe."""
        return self._baselines[mix.recipe]

    @cached_property
    def _baselines(self) -> dict[str, Arm]:
        """The baseline of each recipe. A sweep may have thousands of mixes, and most readers ask for each one's."""
        return {mix.recipe: mix for mix in reversed(self.mixes)}

    @property
    def size_axis(self) -> str:
        """Name of the axis of sizes, such as ``n_embed``."""
        return self.family_class.size_axis

    @property
    def baseline(self) -> Arm:
        """The mix that others are compared with, under the first recipe."""
        return self.mixes[0]

    @property
    def seed_list(self) -> tuple[int, ...]:
        """Seeds, in the order of use."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def cells(self) -> tuple[tuple[Arm, int], ...]:
        """Every (mix, size), mix by mix."""
        return tuple((mix, size) for mix in self.mixes for size in self.sizes)

    @cached_property
    def mix_named(self) -> dict[str, Arm]:
        """Mixes by name, as searchers know them."""
        return {mix.name: mix for mix in self.mixes}

    def requests(self) -> list[Request]:
        """Return all runs that the sweep may use: each cell with each seed. A searcher needs only some of them."""
        return [Request(mix.name, size, seed) for mix, size in self.cells for seed in self.seed_list]

    def config(self, request: Request) -> RunConfig:
        """Return the configuration of a requested run: the last phase of its arm, or the requested phase."""
        mix = self.mix_named[request.mix]
        family = self.family_of(mix)
        values = dict(request.values) or self.tuned.get(request.mix, {})
        run = family.config(mix, request.size, request.seed, values)
        if request.until is not None:
            run = replace(run, until=Until(self.target, request.until))
        run = salted(run, self.salt)
        return run.phases[request.phase - 1] if request.phase else run

    def before(self, request: Request) -> Request | None:
        """Return the phase before a run, or None if the run starts from new weights."""
        return next(iter(self.chain(request)[-2:-1]), None)

    def chain(self, request: Request) -> list[Request]:
        """Return the phases before a run, earliest first, and the run."""
        if len(self.mix_named[request.mix].phases) == 1:
            return [request]
        last = request.phase or len(self.config(request).phases)
        return [*(replace(request, phase=number) for number in range(1, last)), request]

    def requests_by_key(self) -> dict[str, Request]:
        """Return all runs that the sweep may use, including earlier phases of its arms, by key."""
        key = self.make_family().key
        return {key(self.config(phase)): phase for request in self.requests() for phase in self.chain(request)}

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep as plain JSON values: a search space without profiles."""
        absent = {name for name in ("variant", "along", "salt", "looks") if not getattr(self, name)}
        absent |= {name for name in ("script", "floor", "learned") if getattr(self, name) is None}
        absent |= {"code"} if self.code == "refuse" else set()
        absent |= set() if self.record.weights else {"record"}
        values = self.model_dump(mode="json", exclude={"settings", *absent}, warnings="error")
        return values | {"settings": plain_value(self.settings)}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a checked copy. Raises :class:`UserError` if it is invalid.

        The method of pydantic would skip the checks and keep stale derived values.
        """
        if update is None:
            return super().model_copy(deep=deep)
        if self.folder:  # Another search space, from another folder, may have been opened in the meantime.
            offer([self.folder])
        try:
            return parse(type(self), self.to_dict() | plain_value(update))
        except InvalidDataError as error:
            raise UserError(f"this specification cannot be used: {error}") from error
        except (PydanticSerializationError, TypeError, AttributeError) as error:
            raise UserError(f"this specification has a value that cannot be written to a file: {error}") from error

    def substitute(self, **values: Any) -> Self:
        """Return a copy with these values of :data:`INDEPENDENT` keys, unchecked.

        Only pass values that were computed here or taken from a checked specification of the same models.
        """
        assert self._was_checked
        assert values.keys() <= INDEPENDENT
        return super().model_copy(update=values)

    def checked(self) -> Self:
        """Return the sweep if it was checked, otherwise a checked copy. ``model_construct`` skips checks.

        Raises :class:`UserError` if the sweep is invalid.
        """
        return self if self._was_checked else self.model_copy(update={})

    def refreshed(self) -> Self:
        """Return the sweep with the present code of the family. If the code has changed, the sweep is checked again.

        Raises:
            UserError: The sweep is invalid with the present code.
            SettingsError: The present code cannot be imported.
        """
        if self.folder:
            offer([self.folder])
        refresh(self.family)
        for probe in self.probes:
            refresh(probe, kind="probe", key="probes")
        if self.script is not None:
            return self.with_code().checked()
        is_same = load_family(self.family) is self.family_class and source_hash(self.family) == self.source
        return self.checked() if is_same else self.model_copy(update={})

    def with_code(self) -> Self:
        """Return the sweep with the hash of the present code of its script."""
        return self if self.script is None else self.model_copy(update={"script": with_code(self.script)})

    def to_yaml(self) -> str:
        """Return a search space that resolves to this sweep on any machine."""
        data = self.to_dict()
        return strict_yaml.write({field: data[field] for field in type(self).model_fields if field in data})


def _count(family: Family, size: int) -> None:
    """Raise ``ValueError`` unless a family's number of parameters is positive and finite."""
    count = float(family.parameters(size).total)
    if not 0 < count < math.inf:
        raise ValueError(f"the count is {count:g}")


def _fault(check: Callable[[], None]) -> str:
    """Run a check of a family, and return its exception as text, or an empty string if it passed.

    A ``SettingsError`` is raised again, because it is a mistake of the user and not of the family.
    """
    try:
        check()
    except SettingsError:
        raise
    except Exception as error:  # noqa: BLE001 - only code of a user's family runs here, and it may raise anything
        return f"{type(error).__name__}: {error}"
    return ""
