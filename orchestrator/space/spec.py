"""A search space, validated: everything a sweep is asked to do, with nothing left open."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from orchestrator.errors import nearest, unknown
from orchestrator.search.audit import LONGER
from orchestrator.search.base import Request
from orchestrator.search.registry import METHODS, settings_type
from orchestrator.space import strict_yaml
from orchestrator.space.mixes import Fairness, read_mix, with_budgets, with_recipes
from orchestrator.space.plain import flatten, plain_settings
from orchestrator.space.recipes import expand, resolve
from orchestrator.space.sizes import SizeRange
from orchestrator.space.tuning import Tune, Tuned
from orchestrator.space.validation import STRICT, InvalidDataError, Key, Problem, explain, parse
from trainables.base import Family, Mix, RunConfig, SettingsError, load_family
from trainables.probes.base import load_probe

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of search spaces and profiles become directories and experiment names."""


DEFAULT_FAMILY = "listops"
AUTO: Literal["auto"] = "auto"
"""A size the engine chooses from what it measured."""


def _stack_size(value: Any) -> int | Literal["auto"]:
    if value == AUTO:
        return AUTO
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ValueError(f"must be a whole number of at least 1, or auto; got {value!r}")


def _gpu_share(value: Any) -> float | Literal["auto"]:
    if value == AUTO:
        return AUTO
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"must be a number of at least 0, or auto; got {value!r}")
    if value > 1 and value != int(value):
        raise ValueError(f"above 1 only whole devices can be asked for, got {value}")
    return float(value)


class Resources(BaseModel):
    """What a stack of runs is given. Nothing here changes what is computed.

    ``cpu_per_stack`` in cores and ``gpu_per_stack`` in devices may be fractions; with 0 devices a stack trains on the
    CPU. ``max_stack`` is the most runs trained as one batched model. ``auto`` leaves the share of a GPU, or the stack
    for each size, to what was measured on the device (orchestrator/sizing). ``checkpoint_every_s`` is the time between
    checkpoints, ``retries`` how often a stack that failed is tried again, ``threads`` the threads one stack computes
    with (default: its cores, rounded down, at least 1).
    """

    model_config = STRICT | {"frozen": True}

    cpu_per_stack: float = Field(default=1.0, gt=0)
    gpu_per_stack: Annotated[float | Literal["auto"], PlainValidator(_gpu_share)] = 0.0
    max_stack: Annotated[int | Literal["auto"], PlainValidator(_stack_size)] = AUTO
    checkpoint_every_s: float = Field(default=60.0, gt=0)
    retries: int = Field(default=1, ge=0)
    threads: int | None = Field(default=None, ge=1)

    @property
    def device(self) -> str:
        """The torch device stacks train on."""
        return "cuda" if self.gpu_per_stack else "cpu"

    @property
    def gpus(self) -> float:
        """Devices each stack asks for. Only where that is no longer left open."""
        assert self.gpu_per_stack != AUTO, "the share of a GPU is settled before anything asks for it"
        return self.gpu_per_stack

    @property
    def threads_per_stack(self) -> int:
        """Threads one stack computes with."""
        return self.threads or max(1, int(self.cpu_per_stack))


class Search(BaseModel):
    """Which searcher chooses the runs: ``method``, and beside it the settings that are the method's own.

    ``settings`` holds them all, defaults included: keyword arguments of ``orchestrator.search.make_searcher``.
    """

    model_config = STRICT | {"frozen": True}

    method: str
    settings: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        method = data.get("method")
        if not isinstance(method, str):
            given = "is missing" if method is None else f"must be text; got {method!r}"
            raise InvalidDataError([Problem(("method",), f"{given}; allowed: {', '.join(METHODS)}")])
        if method not in METHODS:
            raise InvalidDataError([Problem(("method",), str(unknown("search method", method, METHODS)))])
        own = {key: value for key, value in data.items() if key != "method"}
        return {"method": method, "settings": asdict(parse(settings_type(method), own))}

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"method": self.method, **self.settings}

    def with_stack(self, runs: int) -> Search:
        """The same with so many seeds asked for together, where that was left open."""
        if self.settings["stack"] != AUTO:
            return self
        return self.model_copy(update={"settings": {**self.settings, "stack": runs}})


class SweepSpec(BaseModel):
    """One sweep: a question, the runs it may use and how they are chosen.

    ``mixes[0]`` is the baseline the others are compared with. ``budget`` says what every mix is given: the same
    ``total`` of steps and examples, as many examples of the ``target`` as the baseline sees (the mixes then carry
    budgets of their own), or ``both``: a mix that differs stands in ``mixes`` twice. Sizes are values of the family's
    ``size_axis``; seeds are ``seed``, ``seed + 1``, ...; ``settings`` is an instance of the family's ``Settings``.
    ``tune`` asks for settings to be tuned for each mix before the sweep; ``tuned`` holds what was found, by mix.
    ``recipes`` are other settings, by name, under each of which the same comparison is made: every mix stands in
    ``mixes`` once a recipe, recipe by recipe, and is compared with the baseline of its own recipe.
    ``probes`` look inside every trained model (trainables/probes/); without them, those of the family.
    """

    model_config = STRICT | {"frozen": True, "arbitrary_types_allowed": True}

    name: str
    question: str = Field(min_length=1)
    family: str = DEFAULT_FAMILY
    target: str
    budget: Fairness = "total"
    recipes: dict[str, Any] = Field(default_factory=dict)
    mixes: tuple[Annotated[Mix, PlainValidator(read_mix), PlainSerializer(lambda mix: mix.name)], ...]
    sizes: tuple[Annotated[int, Field(ge=1)], ...]
    seed: int = Field(default=0, ge=0)
    seeds: int = Field(ge=1)
    settings: Any = Field(default_factory=dict, validate_default=True)
    search: Search = Field(default_factory=lambda: Search.model_validate({"method": "bayes"}))
    tune: Tune | None = None
    tuned: dict[str, Tuned] = Field(default_factory=dict)
    probes: tuple[str, ...] = Field(default=None, validate_default=True)
    resources: Resources = Field(default_factory=Resources)
    profile: str = ""
    profile_reason: str = ""

    @field_validator("name")
    @classmethod
    def _safe_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(
                f"a name is a letter followed by lower-case letters, digits and underscores, 64 at most; got {value!r}"
            )
        return value

    @field_validator("family")
    @classmethod
    def _known_family(cls, value: str) -> str:
        missing = sorted(load_family(value).__abstractmethods__)
        if missing:
            raise ValueError(f"{value!r} is no complete family: it lacks {', '.join(missing)}")
        return value

    @field_validator("recipes", mode="before")
    @classmethod
    def _each_recipe(cls, value: Any) -> Any:
        return expand(value)

    @field_validator("mixes", mode="before")
    @classmethod
    def _mix_list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("mixes")
    @classmethod
    def _distinct_mixes(cls, value: tuple[Mix, ...], info: ValidationInfo) -> tuple[Mix, ...]:
        if not value:
            raise ValueError("at least one mix is needed, such as [add, add+prod]")
        value = with_budgets(value, info.data.get("target", ""), info.data.get("budget", "total"))
        value = with_recipes(value, info.data.get("recipes", {}))
        names = [mix.name for mix in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the mix {name} is named twice")
        return value

    @field_validator("tune", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return None if value == "none" else value

    @field_validator("probes", mode="before")
    @classmethod
    def _probe_list(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return load_family(info.data["family"]).probes if "family" in info.data else ()
        return tuple(value) if isinstance(value, list) else value

    @field_validator("probes")
    @classmethod
    def _distinct_probes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = [load_probe(each).name for each in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"there are two probes called {name!r}; their results would lie in one file")
        return value

    @field_validator("sizes", mode="before")
    @classmethod
    def _written_out(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return parse(SizeRange, value).sizes()
        return tuple(value) if isinstance(value, list) else value

    @field_validator("sizes")
    @classmethod
    def _ascending(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value:
            raise ValueError("at least one size is needed")
        if list(value) != sorted(set(value)):
            raise ValueError(f"sizes must be ascending and distinct, got {list(value)}")
        return value

    @field_validator("settings", mode="before")
    @classmethod
    def _family_settings(cls, value: Any, info: ValidationInfo) -> Any:
        if "family" not in info.data:
            return value  # The family is wrong, which is reported; nothing can be said about its settings.
        family = load_family(info.data["family"])
        if isinstance(value, family.Settings):
            return value
        return parse(family.Settings, family.modernised(value) if isinstance(value, Mapping) else value)

    @model_validator(mode="after")
    def _fits_family(self) -> SweepSpec:
        family = self.make_family()
        problems = list(self._mix_problems(family)) + list(self._tune_problems(family)) + list(self._recipe_problems())
        problems = problems or list(self._size_problems(family))
        if problems:
            raise InvalidDataError(problems)
        return self

    def _mix_problems(self, family: Family) -> Iterator[Problem]:
        known = family.tasks()
        if self.target not in known:
            yield Problem(("target",), str(unknown(family.words.task, self.target, known)))
            return
        for place, mix in enumerate(self.mixes):
            strangers = [task for task in mix.tasks if task not in known]
            for task in strangers:
                yield Problem(("mixes", place), str(unknown(family.words.task, task, known, where=f"the mix {mix}")))
            if not strangers and self.target not in mix.tasks:
                yield Problem(("target",), f"every mix must hold the target {self.target!r}; the mix {mix} does not")

    def _recipe_problems(self) -> Iterator[Problem]:
        try:
            resolved: Mapping[str, Any] = self.recipe_settings
        except InvalidDataError as error:
            yield from (replace(problem, key=("recipes", *problem.key)) for problem in error.problems)
            return
        if resolved and self.tune is not None:
            yield Problem(("tune",), "tunes one recipe; ask for it or for recipes, not for both in one search space")

    def _size_problems(self, family: Family) -> Iterator[Problem]:
        for place, mix in enumerate(self.mixes):
            for size in self.sizes:
                try:
                    self.family_of(mix).check(mix, size)
                    self.config(Request(mix.name, size, self.seed))
                except SettingsError as error:
                    named = tuple(error.key.split(".")) if error.key else ("mixes", place)
                    key = named if named[0] in type(self).model_fields else ("settings", *named)
                    yield Problem(key, f"mix {mix} at {family.size_axis} {size}: {explain(error)}")
                    return  # The other sizes and mixes would mostly say the same.

    def _tune_problems(self, family: Family) -> Iterator[Problem]:
        allowed = f"Allowed: {', '.join(family.tunable)}" if family.tunable else f"{self.family} lets none be tuned"
        for name, found in self.tuned.items():
            if name not in self.mix_named:
                yield Problem(("tuned", name), str(unknown("mix", name, self.mix_named)))
            for path in found.settings:
                if path not in family.tunable:
                    yield Problem(("tuned", name, "settings", path), f"cannot be tuned. {allowed}")
        if self.tune is None:
            return
        for path, span in self.tune.settings.items():
            key: Key = ("tune", "settings", *path.split("."))
            if path not in family.tunable:
                guess = nearest(path, family.tunable)
                hint = f" Did you mean {guess!r}?" if guess else ""
                yield Problem(key, f"there is no such setting to tune.{hint} {allowed}")
                continue
            for end in (span.low, span.high):
                try:
                    family.adjusted({path: end})
                except SettingsError as error:
                    yield Problem(key, explain(error))
        if overlap := sorted(set(self.tune.seed_list) & set(self.seed_list)):
            yield Problem(
                ("tune", "seed"),
                f"seed {overlap[0]} is one of the sweep's own; tuning needs others, so that it is blind",
            )
        if self.tune.sizes == "auto" and len(self.sizes) < 2:
            yield Problem(
                ("tune", "sizes"), "auto needs a sweep of at least two sizes; name two or more sizes to tune at"
            )
        for size in () if self.tune.sizes == "auto" else self.tune.sizes:
            try:
                family.check(self.baseline, size)
            except SettingsError as error:
                yield Problem(("tune", "sizes"), explain(error))

    @property
    def family_class(self) -> type[Family]:
        """The class of the family of models."""
        return load_family(self.family)

    def make_family(self) -> Family:
        """The family with this sweep's settings."""
        return self.family_class(self.settings)

    @cached_property
    def recipe_settings(self) -> dict[str, Any]:
        """The family's settings under each recipe. Raises :class:`InvalidDataError` for those that cannot be used."""
        return resolve(self.recipes, self.make_family(), self.sizes)

    def family_of(self, mix: Mix) -> Family:
        """The family with the settings a mix is trained with: its recipe's, or the sweep's own."""
        return self.family_class(self.recipe_settings[mix.recipe] if mix.recipe else self.settings)

    def warnings(self) -> list[str]:
        """What the user should know before paying for the sweep, a sentence each, with the recipes it is said of where
        it is not said of all."""
        if not self.recipes:
            return self.make_family().warnings(self.sizes)
        said: dict[str, list[str]] = {}
        for recipe, settings in self.recipe_settings.items():
            for warning in self.family_class(settings).warnings(self.sizes):
                said.setdefault(warning, []).append(recipe)
        everywhere = len(self.recipes)
        return [text if len(of) == everywhere else f"recipe {', '.join(of)}: {text}" for text, of in said.items()]

    @property
    def plain_mixes(self) -> tuple[str, ...]:
        """The mixes' names, each once, without recipes."""
        return tuple(dict.fromkeys(mix.plain_name for mix in self.mixes))

    def baseline_of(self, mix: Mix) -> Mix:
        """What a mix is compared with: the first mix of its own recipe."""
        return next(other for other in self.mixes if other.recipe == mix.recipe)

    @property
    def size_axis(self) -> str:
        """What a size means: the family's word."""
        return self.family_class.size_axis

    @property
    def baseline(self) -> Mix:
        """The mix the others are compared with: of the first recipe, where there are several."""
        return self.mixes[0]

    @property
    def seed_list(self) -> tuple[int, ...]:
        """Seeds in the order they are spent."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def cells(self) -> tuple[tuple[Mix, int], ...]:
        """Every (mix, size), mix by mix."""
        return tuple((mix, size) for mix in self.mixes for size in self.sizes)

    @property
    def mix_named(self) -> dict[str, Mix]:
        """The mixes by name, as searchers call them."""
        return {mix.name: mix for mix in self.mixes}

    def requests(self) -> list[Request]:
        """Every run the sweep may use: each cell with each seed, and the same with the steps of a budget's audit.

        A searcher needs only some of them.
        """
        return [
            Request(mix.name, size, seed, steps_factor)
            for steps_factor in (1, LONGER)
            for mix, size in self.cells
            for seed in self.seed_list
        ]

    def config(self, request: Request) -> RunConfig:
        """The run a request means."""
        mix = self.mix_named[request.mix]
        family = self.family_of(mix)
        found = self.tuned.get(request.mix)
        values = None if found is None else found.at(request.size, family.scales_with_size)
        return family.config(mix, request.size, request.seed, request.steps_factor, values)

    def to_dict(self) -> dict[str, Any]:
        """The sweep as plain JSON values: a search space without profiles."""
        return self.model_dump(mode="json", exclude={"settings"}) | {"settings": plain_settings(self.settings)}

    def to_yaml(self) -> str:
        """A search space that resolves to this very sweep, on any machine."""
        data = self.to_dict()
        ordered = {field: data[field] for field in type(self).model_fields}
        return strict_yaml.write(ordered)

    def differences(self, other: SweepSpec) -> dict[str, tuple[Any, Any]]:
        """Dotted keys whose values differ, with both values; empty when the two ask for the same runs.

        Resources, probes, the profile's name and the wording of the question do not count: they change no result. Nor
        does how many seeds the searcher asks for together, which depends on the device where it is left open, nor what
        was tuned where both ask for the same tuning: the one has it already, the other would find it.
        """
        mine, theirs = (flatten(spec.to_dict()) for spec in (self, other))
        same_tuning = self.tune is not None and self.tune == other.tune and not (self.tuned and other.tuned)
        ignored = _NO_RESULT | ({"tuned"} if same_tuning else set())
        return {
            key: (mine.get(key), theirs.get(key))
            for key in mine | theirs
            if not {key, key.split(".")[0]} & ignored and mine.get(key) != theirs.get(key)
        }


_NO_RESULT = frozenset({"question", "probes", "resources", "profile", "profile_reason", "search.stack"})
