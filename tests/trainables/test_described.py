"""Settings as plain values: settings added later appear only if they change something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch

from tests.trainables.stacks import SETTINGS, config, family_of
from trainables.contract.settings import ADDED_LATER, described_fields
from trainables.transformer.architecture import layout
from trainables.transformer.stack import compiled_form
from trainables.transformer.training_settings import OUTSIDE_THE_GRADIENT, TrainingSettings


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


def test_fields_added_later_are_omitted_at_their_default_on_every_level() -> None:
    assert described_fields(Outer()) == {"inner": {"old": 1}, "own": {"twice": 2}, "sizes": ()}
    changed = Outer(Inner(2, new=True), Own(3), word="other")
    assert described_fields(changed) == {
        "inner": {"old": 2, "new": True},
        "own": {"twice": 6},
        "sizes": (),
        "word": "other",
    }


@dataclass(frozen=True)
class LaterTraining(TrainingSettings):
    smoothing: float = field(default=0.0, metadata=ADDED_LATER)


def test_a_field_added_later_changes_no_key_or_stack_at_its_default() -> None:
    run = config()

    def identity(**changes: Any) -> tuple[str, str]:
        training = LaterTraining(**asdict(SETTINGS.training), **changes)
        later = replace(run, settings=replace(SETTINGS, training=training))
        return family.key(later), family.shape(later)

    family = family_of(SETTINGS)
    key, shape = family.key(run), family.shape(run)
    assert identity() == (key, shape)
    assert identity(smoothing=0.1)[0] != key
    assert identity(smoothing=0.1)[1] != shape


def test_a_new_setting_gets_its_own_compiled_step() -> None:
    """Exceptions are the settings listed as acting outside the gradient."""
    plain = LaterTraining(**asdict(SETTINGS.training))

    def form(**changes: Any) -> tuple[Any, ...]:
        where = layout(SETTINGS.model, 12, 18)
        return compiled_form(SETTINGS.model, where, replace(plain, **changes), torch.device("cuda"))

    assert form(smoothing=0.1) != form()
    assert form(loss="all") != form()
    assert form(precision="bf16") != form()
    assert form(batch=7) != form()
    rates = {"steps": 9, "learning_rate": 1e-4, "learning_rate_end": 1e-5, "warmup_steps": 1, "evaluate_every": 2}
    assert form(**rates, schedule="constant", beta1=0.5, beta2=0.5, clip=2.0, weight_decay=0.0, decay="all") == form()
    assert set(OUTSIDE_THE_GRADIENT) < {field.name for field in fields(TrainingSettings)}
