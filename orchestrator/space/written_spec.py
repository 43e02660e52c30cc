"""Keys of a search space. The values in its file are checked key by key and completed with defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)

from orchestrator.jobs.resources import Resources
from orchestrator.space.parsing import NAME, InvalidDataError, Mistake, parse, unwritable
from orchestrator.space.recording import Recording
from orchestrator.space.search_method import Search
from orchestrator.space.settings import plain_value
from orchestrator.space.sizes import LARGEST_SIZE, SizeRange
from orchestrator.space.tuning_settings import Tune
from orchestrator.space.written_arms import Fairness, read_arm, with_budgets, with_recipes, written
from orchestrator.system.strict import STRICT
from trainables.base import SettingsError
from trainables.contract.arms import Arm
from trainables.contract.bars import Bar
from trainables.families import load_family
from trainables.probes.base import load_probe
from trainables.script.options import ScriptOptions
from trainables.script.user_settings import settings_type

DEFAULT_FAMILY = "listops"
"""Family of a space that does not specify one."""
SCRIPT = "script"
"""Family of a space with ``script:``."""
MOST_LOOKS = 1_000
"""Maximum number of earlier analyses of a comparison's runs."""
MOST_MIXES = 500
"""Maximum number of mixes. Every listing of a home reads the mixes of its sweeps."""
MOST_ARMS = 2_000
"""Maximum number of mixes under all recipes together. A listing takes a second for them."""
LIST_FIELD = Field(strict=False)
"""Field of a tuple that may be written as a list."""


class WrittenSpec(BaseModel):
    """What a search space may contain: its keys, their defaults, and what each value may be.

    ``settings`` is an instance of the family's ``Settings``, and ``variant`` the name of a variant (space/spaces.py).
    Values are checked in the order of the fields, so a value may depend on earlier values.
    :class:`~orchestrator.space.spec.SweepSpec` checks how all values fit together.
    """

    model_config = STRICT | {"arbitrary_types_allowed": True}

    name: str
    """Name of the space and its sweeps; by default the file's name."""
    question: str = Field(min_length=1)
    """The question that the sweep answers, as a sentence."""
    family: str = DEFAULT_FAMILY
    """The family of models: a built-in one, or ``package.module:Class``."""
    script: Any = None
    """A training program, instead of ``family``: how to start it, and where it prints its metrics
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
    mixes: Annotated[tuple[Annotated[Arm, PlainValidator(read_arm), PlainSerializer(written)], ...], LIST_FIELD]
    """Tasks to train together, such as ``[add, add+prod, "add:2+max"]``, or arms with a name and phases. The first mix
    is the baseline."""
    sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST_SIZE)], ...], LIST_FIELD]
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
    """What to do if the code of a family from outside this project has changed since its finished runs were trained.
    ``refuse`` does not mix them with new runs. ``warn`` uses them: choose it if the change does not alter results."""
    profile: str = ""
    profile_reason: str = ""
    variant: str = ""
    along: str = ""
    """The setting in which variants differ, if it is a number (``settings.task.modulus``)."""
    salt: str = ""
    """Part of every run's key. With a salt, runs of other sweeps are not reused (``--fresh``). Empty by default."""
    looks: dict[str, Annotated[int, Field(ge=1, le=MOST_LOOKS)]] = Field(default_factory=dict)
    """Number of earlier sweeps of the home that had analyzed some runs of a mix's comparison when the sweep began, by
    mix. The odds of its evidence are divided by that number plus one (history/earlier_looks.py)."""

    @model_validator(mode="before")
    @classmethod
    def _make_plain(cls, data: Any) -> Any:
        data = plain_value(data)
        if isinstance(data, Mapping) and data.get("script") is not None and "family" not in data:
            data = {**data, "family": SCRIPT}
        return data

    @field_validator("name", "variant")
    @classmethod
    def _check_name(cls, value: str, field: ValidationInfo) -> str:
        if not NAME.fullmatch(value) and (value or field.field_name == "name"):
            raise ValueError(
                f"a name is a lowercase letter and up to 63 lowercase letters, digits and underscores; got {value!r}"
            )
        return value

    @field_validator("recipes", mode="before")
    @classmethod
    def _nest_settings(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        # In sweeps of earlier versions, recipes lack the level ``settings``.
        return {
            name: overlay if not isinstance(overlay, Mapping) or "settings" in overlay else {"settings": overlay}
            for name, overlay in value.items()
        }

    @field_validator("mixes")
    @classmethod
    def _check_mixes(cls, value: tuple[Arm, ...], info: ValidationInfo) -> tuple[Arm, ...]:
        if not value:
            raise ValueError("at least one mix is needed, such as [add, add+prod]")
        if len(value) > MOST_MIXES:
            raise ValueError(f"there are {len(value):,} mixes, and a sweep may have {MOST_MIXES}")
        value = with_budgets(value, info.data.get("target", ""), info.data.get("budget", "total"))
        recipes = info.data.get("recipes", {})
        if len(value) * len(recipes) > MOST_ARMS:
            raise ValueError(
                f"{len(value):,} mixes under {len(recipes):,} recipes are more than {MOST_ARMS:,} together"
            )
        value = with_recipes(value, recipes)
        if twice := _first_repeated(mix.name for mix in value):
            raise ValueError(f"the mix {twice} is named twice")
        return value

    @field_validator("sizes", mode="before")
    @classmethod
    def _list_sizes(cls, value: Any) -> Any:
        return parse(SizeRange, value).sizes() if isinstance(value, Mapping) else value

    @field_validator("sizes")
    @classmethod
    def _check_sizes(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value:
            raise ValueError("at least one size is needed")
        if list(value) != sorted(set(value)):
            raise ValueError(f"sizes must be ascending and distinct, got {list(value)}")
        return value

    @field_validator("family")
    @classmethod
    def _check_family(cls, value: str) -> str:
        if missing := sorted(load_family(value).__abstractmethods__):
            raise ValueError(f"{value!r} is not a complete family: it lacks {', '.join(missing)}")
        return value

    @field_validator("script", mode="before")
    @classmethod
    def _read_script(cls, value: Any, info: ValidationInfo) -> ScriptOptions | None:
        family = info.data.get("family", SCRIPT)
        if value is None and family == SCRIPT and "family" in info.data:
            raise ValueError("the family script needs script: with a command and its metrics")
        if value is not None and family != SCRIPT:
            raise ValueError(f"specify either family: or script:; family is {family!r}")
        return None if value is None else parse(ScriptOptions, value)

    @field_validator("floor", mode="before")
    @classmethod
    def _check_floor(cls, value: Any, info: ValidationInfo) -> Any:
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
    def _check_bar(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        if info.data.get("family", SCRIPT) != SCRIPT:
            raise ValueError("only a script has a bar here: a family defines its own")
        if info.data.get("floor") is not None:
            raise ValueError("specify either floor:, for accuracies, or learned:, for other numbers")
        Bar.of(value)
        return dict(value)

    @field_validator("probes", mode="before")
    @classmethod
    def _default_probes(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None:
            return value
        return load_family(info.data["family"]).probes if "family" in info.data else ()

    @field_validator("probes")
    @classmethod
    def _check_probes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if twice := _first_repeated(load_probe(probe).name for probe in value):
            raise ValueError(f"two probes have the name {twice!r}; their results would be in one file")
        return value

    @field_validator("settings", mode="before")
    @classmethod
    def _read_settings(cls, value: Any, info: ValidationInfo) -> Any:
        if "family" not in info.data:
            return value  # The family was wrong and is reported, so the type of its settings is unknown.
        # Workers read plain values. An integer instead of a float would change a run's key, so read plain values here.
        if info.data["family"] == SCRIPT:
            kind = _settings_of_script(value)
        else:
            kind = load_family(info.data["family"]).Settings
        settings: Any = parse(kind, value)
        if mistakes := list(unwritable(plain_value(settings))):  # A default may be a function, for example.
            raise InvalidDataError(*mistakes)
        # A default may have another type than its field. Read it in the same way as a stored sweep.
        return parse(kind, plain_value(settings))

    @classmethod
    def keys_in_a_file(cls) -> list[str]:
        """Return the keys that a file may have at its top level. Keys that record a choice are not among them."""
        choices = {"profile", "profile_reason", "variant", "salt", "looks"}
        return sorted({*cls.model_fields, "like", "profiles", "variants", "expects"} - choices)


def _first_repeated(names: Iterable[str]) -> str:
    """Return the first name that occurs twice, or an empty string if there is none."""
    return next((name for name, count in Counter(names).items() if count > 1), "")


def _settings_of_script(values: Any) -> type[Any]:
    """Return the type of a script's settings, which may have any names. Raises :class:`InvalidDataError`."""
    if not isinstance(values, Mapping) or "steps" not in values:
        raise InvalidDataError(Mistake((), "a script needs settings with `steps`, the number of steps of a run"))
    try:
        return settings_type(tuple(values))
    except SettingsError as error:
        raise InvalidDataError(Mistake((error.key,), str(error))) from error
