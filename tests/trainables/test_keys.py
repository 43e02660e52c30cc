"""What a run's key covers, and that a setting that was added later changes no key at its default."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from orchestrator.space.spaces import load_space, names, variant_names
from orchestrator.space.written_spec import SCRIPT
from tests.cli.program import ROOT
from trainables.base import Arm, Family, Mix, RunConfig, Start, Until
from trainables.contract.runs import run_key
from trainables.contract.settings import ADDED_LATER, described_fields
from trainables.families import BUILT_IN


@dataclass(frozen=True)
class Own:
    value: int = 1

    def described(self) -> Mapping[str, Any]:
        return {"twice": 2 * self.value}


@dataclass(frozen=True)
class Inner:
    old: int = 1
    new: bool = field(default=False, metadata=ADDED_LATER)


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    own: Own = field(default_factory=Own)
    sizes: tuple[Inner, ...] = ()
    word: str = field(default="usual", metadata=ADDED_LATER)


RUN = RunConfig(Mix.parse("add+prod"), 8, 3, Outer())
CHANGES: dict[str, Any] = {
    "mix": Mix.parse("add:3+prod"),
    "size": 9,
    "seed": 4,
    "settings": Outer(Inner(2)),
    "start": Start(replace(RUN, seed=5), ("embedding",)),
    "frozen": ("embedding",),
    "until": Until("add", 0.9),
    "salt": "sweep",
}
"""Another value of every field of a run that changes what is computed."""


def test_fields_added_later_are_omitted_at_their_default_on_every_level() -> None:
    assert described_fields(Outer()) == {"inner": {"old": 1}, "own": {"twice": 2}, "sizes": ()}
    assert described_fields(Outer(Inner(2, new=True), Own(3), word="other")) == {
        "inner": {"old": 2, "new": True},
        "own": {"twice": 6},
        "sizes": (),
        "word": "other",
    }


def test_a_key_covers_every_field_of_a_run_but_its_name() -> None:
    assert set(CHANGES) == {one.name for one in fields(RunConfig)} - {"arm"}, "a new field: does it change results?"
    keys = [run_key("family", 1, replace(RUN, **{name: value})) for name, value in CHANGES.items()]
    keys += [run_key("family", 1, RUN), run_key("other", 1, RUN), run_key("family", 2, RUN)]
    keys += [run_key("family", 1, replace(RUN, start=Start(replace(RUN, seed=5), ("head",))))]
    keys += [run_key("family", 1, replace(RUN, until=Until("add", 0.8)))]
    assert len(set(keys)) == len(keys)
    assert run_key("family", 1, replace(RUN, arm="max, then add")) == run_key("family", 1, RUN)


def test_the_order_of_names_does_not_change_a_key() -> None:
    parts = [Start(RUN, order) for order in (("embedding", "head"), ("head", "embedding"))]
    assert len({run_key("family", 1, replace(RUN, start=start)) for start in parts}) == 1
    frozen = [replace(RUN, frozen=order) for order in (("embedding", "head"), ("head", "embedding"))]
    assert len({run_key("family", 1, run) for run in frozen}) == 1


EXAMPLE = ROOT / "tests/examples/nanogpt_script/space.yaml"


def shipped() -> dict[str, Family]:
    """Return each built-in family with the settings of a shipped space (a script: of an example)."""
    found: dict[str, Family] = {}
    for name in names():
        for variant in variant_names(name, "smoke") or (None,):
            spec = load_space(name, "smoke", variant=variant)
            found.setdefault(spec.family, spec.make_family())
    return found | {SCRIPT: load_space(str(EXAMPLE)).make_family()}


def leaves(settings: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every setting that has no settings of its own."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from leaves(value, (*path, one.name))
        else:
            yield (*path, one.name)


def other(value: Any) -> Any:
    """Return another value of this type, whether or not a family can train with it."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return OTHER_WORDS.get(value, f"{value}_other")
        case tuple():
            return (*value, *(value[:1] or ("other",)))
        case None:
            return 1
    raise AssertionError(f"no other value of {value!r}")


def changed(settings: Any, path: tuple[str, ...]) -> Any:
    """Return settings with another value at a path, without the checks of their class."""
    name, *rest = path
    new = copy.copy(settings)
    inner = getattr(settings, name)
    object.__setattr__(new, name, changed(inner, tuple(rest)) if rest else other(inner))
    return new


OTHER_WORDS = {"S3": "S4", "S4": "S5", "S5": "S4", "normal": "scaled", "scaled": "normal"}
"""Words on which a description depends."""
NOT_IN_KEYS = {"listops": {"model.init.gain"}, "permutations": {"model.init.gain"}}
"""Settings without effect, by family: ``gain`` is refused unless the initial weights are ``scaled``."""


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_key_covers_every_setting_of_a_family(name: str) -> None:
    family = shipped()[name]
    run = family.config(Arm.parse(family.tasks()[0]), 8, 0)
    ignored = set()
    for path in leaves(run.settings):
        if family.key(replace(run, settings=changed(run.settings, path))) == family.key(run):
            ignored.add(".".join(path))
    assert ignored == NOT_IN_KEYS.get(name, set())


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_settings_added_later_are_not_part_of_a_key_at_their_default(name: str) -> None:
    """Runs from before the setting existed keep their keys."""
    family = shipped()[name]
    described = described_fields(family.settings)
    at_default = [
        (*path, one.name)
        for path, owner in owners(family.settings)
        for one in fields(owner)
        if one.metadata == ADDED_LATER and getattr(owner, one.name) == one.default
    ]
    for *path, last in at_default:
        inner = described
        for part in path:
            inner = inner[part]
        assert last not in inner


def owners(settings: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every dataclass in settings, with its path."""
    yield path, settings
    for one in fields(settings):
        if is_dataclass(value := getattr(settings, one.name)):
            yield from owners(value, (*path, one.name))
