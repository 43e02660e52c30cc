"""A validated search space: everything that defines a sweep, defaults included."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticSerializationError

from orchestrator.machine.resources import Resources
from orchestrator.search.base import Request
from orchestrator.space import checks, strict_yaml
from orchestrator.space.mistakes import NAME, InvalidDataError, Mistake, explain, parse, unwritable
from orchestrator.space.recording import Recording
from orchestrator.space.search_method import Search
from orchestrator.space.settings import flatten, plain_value, resolve
from orchestrator.space.sizes import LARGEST_SIZE, SizeRange
from orchestrator.space.tuning_settings import Tune
from orchestrator.space.written_arms import Fairness, read_arm, with_budgets, with_recipes, written
from orchestrator.system.errors import UserError
from orchestrator.system.strict import STRICT
from orchestrator.transition.evidence import LEARNED
from trainables.base import Family, RunConfig, SettingsError, Until
from trainables.contract.arms import Arm
from trainables.contract.bars import Bar
from trainables.contract.runs import salted
from trainables.contract.sources import search_in, source_hash
from trainables.families import FamilySource, load_family, refresh_family
from trainables.probes.base import load_probe
from trainables.script.code import with_code
from trainables.script.options import ScriptOptions
from trainables.script.settings import settings_type

DEFAULT_FAMILY, SCRIPT = "listops", "script"
MOST_LOOKS = 1_000
"""Maximum number of earlier analyses of a comparison's runs."""
MOST_MIXES = 500
"""Maximum number of mixes. Every listing of a home reads the mixes of its sweeps."""
MOST_RUNS = 100_000
"""Maximum number of runs of the whole grid, because planning and resuming iterate over them."""
NO_RESULT = frozenset(
    {
        "question",
        "probes",
        "resources",
        "record",
        "code",
        "profile",
        "profile_reason",
        "variant",
        "along",
        "salt",
        "search.stack",
    }
    | {"looks"}
    | {f"script.{name}" for name in ("directory", "resume", "parameters", "seeded", "stops_early")}
    | {f"script.{name}" for name in ("silent_s", "memory_gb", "size_axis", "config_name", "code")}
)
"""Keys of a specification that do not change results."""
INDEPENDENT = frozenset({"resources", "search", "probes", "code", "salt", "looks"})
"""Keys on whose values no other key of a checked specification depends (of ``search``: its ``stack``)."""
LISTED = Field(strict=False)
"""A tuple that may be written as a list."""


class SweepSpec(BaseModel):
    """A sweep: a question, the runs that it may use, and how they are chosen.

    ``settings`` is an instance of the family's ``Settings``, and ``variant`` the name of a variant (space/spaces.py).
    """

    model_config = STRICT | {"arbitrary_types_allowed": True}

    name: str
    """Name of the space and its sweeps; by default the file's name."""
    question: str = Field(min_length=1)
    """The question that the sweep answers, as a sentence."""
    family: str = DEFAULT_FAMILY
    """The family of models: a built-in one, or ``package.module:Class``."""
    script: Any = None
    """A training program, in place of ``family``: how to start it, and where it prints its metrics
    (trainables/script/options.py)."""
    floor: Any = None
    """Accuracy of the best constant answer of a script: a number, or one for each task."""
    learned: Any = None
    """The bar of a script's scores, if they are not accuracies: ``{at_least: 0.9}``, or ``{at_most: 1.2}`` for a loss.
    A run scores 1 if it reaches the bar and 0 otherwise. A change makes new runs."""
    target: str
    """The task whose transition the sweep locates."""
    budget: Fairness = "total"
    """What is equal for every mix. ``total``: steps and examples. ``target``: examples of the target, so that mixes
    differ in steps. ``both``: ``mixes`` contains a mix twice if the two budgets differ."""
    recipes: dict[str, Any] = Field(default_factory=dict)
    """Other settings, by name: ``{slow: {settings: {training: {learning_rate: 1.0e-4}}}}``. ``mixes`` then
    contains every mix once for each recipe, and each mix is compared with the baseline under the same recipe."""
    mixes: Annotated[tuple[Annotated[Arm, PlainValidator(read_arm), PlainSerializer(written)], ...], LISTED]
    """Tasks to train together, such as ``[add, add+prod, "add:2+max"]``, or arms with a name and phases. The first mix
    is the baseline."""
    sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST_SIZE)], ...], LISTED]
    """Sizes of models, values of the family's ``size_axis``: a list, or a range such as ``{from: 8, to: 256, count: 16,
    multiple_of: 4}``."""
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    """The first seed."""
    seeds: int = Field(ge=1, le=100_000)
    """Maximum number of runs of a mix at one size: with ``seed``, ``seed + 1``, ..."""
    settings: Any = Field(default_factory=dict, validate_default=True)
    search: Search = Field(default_factory=lambda: Search.model_validate({}))
    tune: Tune | None = None
    """Settings to tune for each mix before the sweep."""
    tuned: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Tuned settings: by mix, a number for each dotted name."""
    probes: tuple[str, ...] = Field(default=None, validate_default=True, strict=False)
    """Probes of every trained model (trainables/probes/); by default the family's."""
    resources: Resources = Field(default_factory=Resources)
    record: Recording = Field(default_factory=Recording)
    code: Literal["refuse", "warn"] = "refuse"
    """What to do if finished runs were trained by other code of a family from outside this project: ``refuse`` to mix
    them with new runs, or ``warn`` and use them, because the change does not alter what they compute."""
    profile: str = ""
    profile_reason: str = ""
    variant: str = ""
    along: str = ""
    """The setting in which variants differ, if it is a number (``settings.task.modulus``)."""
    salt: str = ""
    """Part of every run's key that keeps other sweeps' runs from being reused (``--fresh``); ``""`` shares runs."""
    looks: dict[str, Annotated[int, Field(ge=1, le=MOST_LOOKS)]] = Field(default_factory=dict)
    """By mix, how many earlier sweeps of the home had analyzed some of the runs of its comparison when the sweep began.
    The odds of its evidence are divided by that number plus one (home/earlier_looks.py)."""
    _was_checked: bool = PrivateAttr(default=False)
    """False for a specification that was made by ``model_construct``."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        data = plain_value(data)
        if isinstance(data, Mapping) and data.get("script") is not None and "family" not in data:
            data = {**data, "family": SCRIPT}
        return data

    @field_validator("name", "variant")
    @classmethod
    def _safe_name(cls, value: str, field: ValidationInfo) -> str:
        if not NAME.fullmatch(value) and (value or field.field_name == "name"):
            raise ValueError(
                f"a name is a lowercase letter and up to 63 lowercase letters, digits and underscores; got {value!r}"
            )
        return value

    @field_validator("recipes", mode="before")
    @classmethod
    def _under_settings(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        # Sweeps of earlier versions have the settings of a recipe without this level.
        return {
            name: overlay if not isinstance(overlay, Mapping) or "settings" in overlay else {"settings": overlay}
            for name, overlay in value.items()
        }

    @field_validator("mixes")
    @classmethod
    def _distinct_mixes(cls, value: tuple[Arm, ...], info: ValidationInfo) -> tuple[Arm, ...]:
        if not value:
            raise ValueError("at least one mix is needed, such as [add, add+prod]")
        if len(value) > MOST_MIXES:
            raise ValueError(f"there are {len(value):,} mixes, and a sweep may have {MOST_MIXES}")
        value = with_budgets(value, info.data.get("target", ""), info.data.get("budget", "total"))
        value = with_recipes(value, info.data.get("recipes", {}))
        if twice := _repeated(mix.name for mix in value):
            raise ValueError(f"the mix {twice} is named twice")
        return value

    @field_validator("sizes", mode="before")
    @classmethod
    def _written_out(cls, value: Any) -> Any:
        return parse(SizeRange, value).sizes() if isinstance(value, Mapping) else value

    @field_validator("sizes")
    @classmethod
    def _ascending(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value:
            raise ValueError("at least one size is needed")
        if list(value) != sorted(set(value)):
            raise ValueError(f"sizes must be ascending and distinct, got {list(value)}")
        return value

    @field_validator("family")
    @classmethod
    def _known_family(cls, value: str) -> str:
        if missing := sorted(load_family(value).__abstractmethods__):
            raise ValueError(f"{value!r} is not a complete family: it lacks {', '.join(missing)}")
        return value

    @field_validator("script", mode="before")
    @classmethod
    def _script_options(cls, value: Any, info: ValidationInfo) -> ScriptOptions | None:
        family = info.data.get("family", SCRIPT)
        if value is None and family == SCRIPT and "family" in info.data:
            raise ValueError("the family script needs script: with a command and its metrics")
        if value is not None and family != SCRIPT:
            raise ValueError(f"give either family: or script:; family is {family!r}")
        return None if value is None else parse(ScriptOptions, value)

    @field_validator("floor", mode="before")
    @classmethod
    def _shares(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        if info.data.get("family", SCRIPT) != SCRIPT:
            raise ValueError("only a script has a floor here: a family defines its own")
        shares = value.values() if isinstance(value, Mapping) else [value]
        if not all(type(share) in (int, float) and 0 <= share < 1 for share in shares) or not shares:
            raise ValueError(f"must be a share from 0 to below 1, or one for each task; got {value!r}")
        return {task: float(share) for task, share in value.items()} if isinstance(value, Mapping) else float(value)

    @field_validator("learned", mode="before")
    @classmethod
    def _bar(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        if info.data.get("family", SCRIPT) != SCRIPT:
            raise ValueError("only a script has a bar here: a family defines its own")
        if info.data.get("floor") is not None:
            raise ValueError("give either floor:, for accuracies, or learned:, for other numbers")
        Bar.of(value)
        return dict(value)

    @field_validator("probes", mode="before")
    @classmethod
    def _of_family(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None:
            return value
        return load_family(info.data["family"]).probes if "family" in info.data else ()

    @field_validator("probes")
    @classmethod
    def _distinct_probes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if twice := _repeated(load_probe(probe).name for probe in value):
            raise ValueError(f"two probes have the name {twice!r}; their results would be in one file")
        return value

    @field_validator("settings", mode="before")
    @classmethod
    def _family_settings(cls, value: Any, info: ValidationInfo) -> Any:
        if "family" not in info.data:
            return value  # The family is reported as wrong, and its settings are unknown.
        # From plain values, because workers read those, and an integer in place of a float would change a run's key.
        if info.data["family"] == SCRIPT:
            kind = _settings_of_script(value)
        else:
            kind = load_family(info.data["family"]).Settings
        settings: Any = parse(kind, value)
        if mistakes := list(unwritable(plain_value(settings))):  # A default may be a function, for example.
            raise InvalidDataError(*mistakes)
        # Read again as the stored sweep will be read: a default may have another type than its field.
        return parse(kind, plain_value(settings))

    @model_validator(mode="after")
    def _fits_together(self) -> SweepSpec:
        _ = self.family_class, self.folder, self.source
        if mistakes := self._mistakes():
            raise InvalidDataError(*mistakes)
        self._was_checked = True
        return self

    def _mistakes(self) -> list[Mistake]:
        """Return every mistake in how the values fit together."""
        if (runs := len(self.cells) * self.seeds) > MOST_RUNS:
            grid = f"{len(self.mixes)} mixes x {len(self.sizes)} sizes x {self.seeds} seeds are {runs} runs"
            return [Mistake(("seeds",), f"{grid}; a sweep may have at most {MOST_RUNS}")]
        family, tune = self.make_family(), self.tune
        mistakes = [
            *checks.in_mixes(self.mixes, self.target, family),
            *checks.in_bar(self.search.settings.get("learned", LEARNED), self.target, family),
            *checks.in_probes([load_probe(probe) for probe in self.probes], family),
            *checks.in_tuned(self.tuned, self.mix_named, family),
            *checks.in_looks(self.looks, self.mix_named),
            *(checks.in_tune(tune, self.mixes, self.sizes, self.seed_list, family) if tune is not None else ()),
        ]
        try:
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
                named = (
                    tuple(error.key.split(".")) if error.key not in ("", "arms") else ("mixes", self.mixes.index(mix))
                )
                key = named if named[0] in type(self).model_fields else ("settings", *named)
                return [Mistake(key, f"mix {mix} at {self.size_axis} {size}: {explain(error)}")]
        return []

    def _fault_of_family(self, task: str, size: int, fault: str) -> Mistake:
        return Mistake(("family",), f"{self.family} cannot {task} at {self.size_axis} {size}: {fault}")

    @classmethod
    def keys_in_a_file(cls) -> list[str]:
        """Return the keys that a file may have at its top level, without keys that record a choice."""
        choices = {"profile", "profile_reason", "variant", "salt", "looks"}
        return sorted({*cls.model_fields, "like", "profiles", "variants", "expects"} - choices)

    @property
    def title(self) -> str:
        """Name of the sweep, with its variant if the space has several."""
        return f"{self.name}, {self.variant}" if self.variant else self.name

    @cached_property
    def family_class(self) -> type[Family]:
        """The family. Like :attr:`folder` and :attr:`source`, it is found when the specification is checked, because
        its name may later stand for a class of another folder or of a changed file."""
        return self.family_source.load()

    @property
    def family_source(self) -> FamilySource:
        """How other processes make the family."""
        named = [task for mix in self.mixes for phase in mix.phases for task in phase.mix.tasks]
        bar = None if self.learned is None else Bar.of(self.learned)
        return FamilySource(self.family, self.settings, self.script, self.floor, (self.target, *named), bar)

    @cached_property
    def folder(self) -> str:
        """Folder that the family's module is imported from, "" for a family of this project."""
        return self.family_source.folder

    @cached_property
    def source(self) -> str:
        """Hash of the family's source or of the script's code, "" for a family of this project."""
        return self.family_source.hash

    def make_family(self) -> Family:
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
        """Raise :class:`UserError` unless the family counts parameters as an answer needs and finds its files. Stored
        sweeps are read without this check."""
        try:
            self.make_family().check_files()
        except SettingsError as error:
            raise UserError(f"{error.key}: {explain(error)}") from error
        checks.check_counts(self.family, self.make_family(), self.sizes)

    def warnings(self) -> list[str]:
        """Return caveats of the sweep's answer. A caveat that is not about all recipes names its recipes."""
        if not self.recipes:
            return self.make_family().warnings(self.sizes)
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
        """Value of the setting ``along``, or None."""
        return float(flatten(plain_value(self.settings), "settings.")[self.along]) if self.along else None

    @property
    def plain_mixes(self) -> tuple[str, ...]:
        """Distinct mix names, without recipes."""
        return tuple(dict.fromkeys(mix.plain_name for mix in self.mixes))

    def baseline_of(self, mix: Arm) -> Arm:
        """Return the baseline of a mix: the first mix of its recipe."""
        return next(other for other in self.mixes if other.recipe == mix.recipe)

    @property
    def size_axis(self) -> str:
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

    @property
    def mix_named(self) -> dict[str, Arm]:
        """Mixes by name, as searchers know them."""
        return {mix.name: mix for mix in self.mixes}

    def requests(self) -> list[Request]:
        """Return all runs that the sweep may use: each cell with each seed. A searcher needs only some of them."""
        return [Request(mix.name, size, seed) for mix, size in self.cells for seed in self.seed_list]

    def config(self, request: Request) -> RunConfig:
        """Return the run of a request: the last phase of its arm, or the requested phase."""
        mix = self.mix_named[request.mix]
        family = self.family_of(mix)
        values = dict(request.values) or self.tuned.get(request.mix, {})
        run = family.config(mix, request.size, request.seed, values)
        if request.until is not None:
            run = replace(run, until=Until(self.target, request.until))
        run = salted(run, self.salt)
        return run.phases[request.phase - 1] if request.phase else run

    def before(self, request: Request) -> Request | None:
        """Return the phase before a run, which provides its weights, or None if it starts from new weights."""
        return next(iter(self.chain(request)[-2:-1]), None)

    def chain(self, request: Request) -> list[Request]:
        """Return the phases before a run, earliest first, and the run."""
        if len(self.mix_named[request.mix].phases) == 1:
            return [request]
        last = request.phase or len(self.config(request).phases)
        return [*(replace(request, phase=place) for place in range(1, last)), request]

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep as plain JSON values: a search space without profiles."""
        absent = {name for name in ("variant", "along", "salt", "looks") if not getattr(self, name)}
        absent |= {name for name in ("script", "floor", "learned") if getattr(self, name) is None}
        absent |= {"code"} if self.code == "refuse" else set()
        absent |= set() if self.record.weights else {"record"}
        values = self.model_dump(mode="json", exclude={"settings", *absent}, warnings="error")
        return values | {"settings": plain_value(self.settings)}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a checked copy. Pydantic's skips checks and keeps stale derived values. Raises :class:`UserError`."""
        if update is None:
            return super().model_copy(deep=deep)
        if self.folder:
            search_in(self.folder)
        try:
            return parse(type(self), self.to_dict() | plain_value(update))
        except InvalidDataError as error:
            raise UserError(f"this specification cannot be used: {error}") from error
        except (PydanticSerializationError, TypeError, AttributeError) as error:
            raise UserError(f"this specification has a value that cannot be written to a file: {error}") from error

    def substitute(self, **values: Any) -> Self:
        """Return a copy with other values of :data:`INDEPENDENT` keys, without checking it again. The values are from
        another checked specification of the same models, or were computed by this program."""
        assert self._was_checked
        assert values.keys() <= INDEPENDENT
        return super().model_copy(update=values)

    def checked(self) -> Self:
        """Return the sweep itself, or a checked copy because ``model_construct`` skips checks. Raises
        :class:`UserError`."""
        return self if self._was_checked else self.model_copy(update={})

    def refreshed(self) -> Self:
        """Return the sweep with the code of the family as it is in its files now. If that is other code, the sweep is
        checked again. Raises as :meth:`checked`, and :class:`SettingsError` if that code cannot be imported."""
        if self.folder:
            search_in(self.folder)
        refresh_family(self.family)
        if self.script is not None:
            return self.with_code().checked()
        is_same = load_family(self.family) is self.family_class and source_hash(self.family) == self.source
        return self.checked() if is_same else self.model_copy(update={})

    def with_code(self) -> Self:
        """Return the sweep with the hash of its script's code as it is now."""
        return self if self.script is None else self.model_copy(update={"script": with_code(self.script)})

    def to_yaml(self) -> str:
        """Return a search space that resolves to this sweep on any machine."""
        data = self.to_dict()
        return strict_yaml.write({field: data[field] for field in type(self).model_fields if field in data})


def _repeated(names: Iterable[str]) -> str:
    """Return the first name that occurs twice, or ``""``."""
    return next((name for name, count in Counter(names).items() if count > 1), "")


def differences(spec: SweepSpec, other: SweepSpec) -> dict[str, tuple[Any, Any]]:
    """Return the dotted keys whose values differ, with both values; empty if both sweeps need the same runs.

    Keys that do not change results are left out. So are tuned values if both sweeps have the same tuning and one has
    not been tuned yet, because it would find the same values.
    """
    one, two = flatten(spec.to_dict()), flatten(other.to_dict())
    same_tuning = spec.tune is not None and spec.tune == other.tune and not (spec.tuned and other.tuned)
    ignored = NO_RESULT | ({"tuned"} if same_tuning else set())
    return {
        key: (one.get(key), two.get(key))
        for key in one | two
        if not {key, key.split(".")[0]} & ignored and one.get(key) != two.get(key)
    }


def _settings_of_script(values: Any) -> type[Any]:
    """Return the type of a script's settings, which may have any names. Raises :class:`InvalidDataError`."""
    if not isinstance(values, Mapping) or "steps" not in values:
        raise InvalidDataError(Mistake((), "a script needs settings with `steps`, the number of steps of a run"))
    try:
        return settings_type(tuple(values))
    except SettingsError as error:
        raise InvalidDataError(Mistake((error.key,), str(error))) from error


def _count(family: Family, size: int) -> None:
    """Raise ``ValueError`` unless a family's number of parameters is positive and finite."""
    count = float(family.parameters(size).total)
    if not 0 < count < math.inf:
        raise ValueError(f"the count is {count:g}")


def _fault(check: Callable[[], None]) -> str:
    """Run a check that a family has written. Return the exception it raised as text, or "" if it passed. A
    ``SettingsError`` is raised again, because it is a mistake of the user and not of the family."""
    try:
        check()
    except SettingsError:
        raise
    except Exception as error:  # noqa: BLE001 - only code of a user's family runs here, and it may raise anything
        return f"{type(error).__name__}: {error}"
    return ""
