"""Conformance suite of transformers, run over every built-in family of them.

A case has settings that train for about 60 steps, and three mixes that share a task, the first with that task alone."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.conftest import data_cache
from tests.trainables.stacks import (
    NESTED_MODEL,
    PERMUTATIONS,
    SETTINGS,
    TRAINING,
    family_of,
    last_reports,
    make_learner,
    outcomes,
)
from trainables.base import Arm, RunConfig, SettingsError, Status
from trainables.families import BUILT_IN, load_family
from trainables.families.transformer import TransformerFamily, TransformerSettings
from trainables.tasks.held_out_tuples import HeldOut, Part
from trainables.tasks.texts import make_dataset
from trainables.transformer.datasets import Examples
from trainables.transformer.generation import accuracies, write_by_drafts
from trainables.transformer.learner import run_seed

__all__ = ["data_cache"]

SHORT = replace(TRAINING, steps=30, evaluate_every=15, batch=4)
FEW: dict[str, Any] = {"depth": 2, "validation_examples": 4, "test_examples": 10}
"""Few test examples, because untrained models write long texts and scoring takes a pass for every wrong token."""
CASES: dict[str, tuple[TransformerSettings, tuple[str, ...]]] = {
    "listops": (SETTINGS, ("add", "add+prod", "add+max:2")),
    "listops, nested": (
        replace(SETTINGS, task=replace(SETTINGS.task, **FEW), model=NESTED_MODEL, training=SHORT),
        ("add", "add+prod", "add+max:2"),
    ),
    "listops, as the sibling has it": (
        replace(
            SETTINGS,
            task=replace(SETTINGS.task, held_out_numbers="distinct", decoding="sampled"),
            model=replace(SETTINGS.model, parallel=True, bias=True),
        ),
        ("add", "add+prod", "add+max:2"),
    ),
    "permutations": (PERMUTATIONS, ("product", "product+sign", "image+order+product")),
    "permutations, nested": (
        replace(
            PERMUTATIONS,
            task=replace(PERMUTATIONS.task, subgroup="C3", **FEW),
            model=NESTED_MODEL,
            training=SHORT,
        ),
        ("product", "product+sign", "coset+product"),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[TransformerSettings, tuple[str, ...]]:
    return CASES[request.param]


@pytest.fixture
def mixes(case: tuple[TransformerSettings, tuple[str, ...]]) -> tuple[str, ...]:
    return case[1]


def equal(left: Examples, right: Examples) -> bool:
    return all(np.array_equal(getattr(left, field.name), getattr(right, field.name)) for field in fields(Examples))


def test_every_built_in_family_of_transformers_is_tested() -> None:
    transformers = {name for name in BUILT_IN if issubclass(load_family(name), TransformerFamily)}
    assert {case.split(",")[0] for case in CASES} == transformers


@pytest.fixture
def family(case: tuple[TransformerSettings, tuple[str, ...]]) -> TransformerFamily:
    return family_of(case[0])


@pytest.fixture
def runs(family: TransformerFamily, mixes: tuple[str, ...]) -> list[RunConfig]:
    """A run of each mix, all of one width."""
    return [family.config(Arm.parse(mix), 12, 0) for mix in mixes]


def test_its_mixes_can_be_trained_and_others_are_refused_by_name(
    family: TransformerFamily, runs: list[RunConfig]
) -> None:
    for run in runs:
        family.check(run.mix, run.size)
        assert set(run.mix.tasks) <= set(family.tasks())
    with pytest.raises(SettingsError, match="'no such task'") as caught:
        family.check(Arm.parse("no such task").mix, 12)
    assert (caught.value.key, caught.value.allowed) == ("mixes", family.tasks())
    with pytest.raises(SettingsError, match="at least 1"):
        family.check(runs[0].mix, 0)
    assert family.subject()


def test_runs_of_different_mixes_train_the_same_alone_and_in_a_stack(
    family: TransformerFamily, runs: list[RunConfig], data_cache: Path
) -> None:
    assert len({family.shape(run) for run in runs}) == 1
    together = outcomes(make_learner(runs, data_cache))
    for place, run in enumerate(runs):
        alone = outcomes(make_learner([run], data_cache))[0]
        mine = together[place]
        assert mine.status is Status.FINISHED
        np.testing.assert_allclose(
            [point.loss for point in mine.curve], [point.loss for point in alone.curve], rtol=2e-3
        )
        assert mine.curve[-1].loss < mine.curve[0].loss
        assert set(mine.accuracy) == set(mine.floor) == set(run.mix.tasks)
        assert all(0 <= share <= 1 for share in (*mine.accuracy.values(), *mine.floor.values()))


def test_a_resumed_stack_continues_exactly(runs: list[RunConfig], data_cache: Path, tmp_path: Path) -> None:
    undisturbed = outcomes(make_learner(runs, data_cache))
    stopped = make_learner(runs, data_cache)
    stopped.advance()
    stopped.save(tmp_path)
    resumed = make_learner(runs, data_cache)
    resumed.restore(tmp_path)
    again = outcomes(resumed)
    assert again.keys() == undisturbed.keys()
    for place, outcome in again.items():
        assert outcome.curve == undisturbed[place].curve
        assert outcome.accuracy == undisturbed[place].accuracy


def test_a_loaded_model_scores_the_same_as_the_trained_one(
    family: TransformerFamily, runs: list[RunConfig], data_cache: Path
) -> None:
    ended = last_reports(make_learner(runs[:1], data_cache))[0]
    assert ended.outcome is not None
    model, data = family.load(runs[0], ended.weights), family.data(runs[0], data_cache)
    (scores,) = accuracies(
        partial(write_by_drafts, lambda tokens: model.logits(tokens[0]).unsqueeze(0)),
        [list(data.test.values())],
        family.settings.task.vocabulary(),
        torch.device("cpu"),
        keys=[run_seed("decoding of the test", runs[0])] if family.settings.task.decoding == "sampled" else None,
    )
    assert dict(zip(data.test, scores, strict=True)) == ended.outcome.accuracy
    assert data.digest == ended.outcome.data


def test_a_mix_changes_the_training_text_but_not_the_test_sets(
    family: TransformerFamily, runs: list[RunConfig], data_cache: Path
) -> None:
    task = runs[0].mix.tasks[0]
    first, *others = [family.data(run, data_cache) for run in runs]
    for other in others:
        assert equal(first.test[task], other.test[task])
        assert equal(first.validation[task], other.validation[task])
        assert other.digest != first.digest
    reseeded = family.data(replace(runs[0], seed=1), data_cache)
    assert not equal(first.test[task], reseeded.test[task])
    again = make_dataset(runs[0].settings.task, runs[0].mix, 0)
    assert again.digest == first.digest, "the same when made again"


def test_no_held_out_tuple_is_trained_on(family: TransformerFamily, runs: list[RunConfig], data_cache: Path) -> None:
    task: Any = family.settings.task
    held_out, vocabulary = HeldOut(task, 0), task.vocabulary()
    for run in runs:
        data = family.data(run, data_cache)
        trained = vocabulary.arguments(data.tokens)
        assert held_out.cases(trained, Part.TRAINED) > 100
        assert held_out.cases(trained, Part.VALIDATION) == held_out.cases(trained, Part.TEST) == 0
        for examples in data.test.values():
            rows = [vocabulary.arguments(row) for row in examples.tokens]
            assert all(held_out.cases(row, Part.TEST) > 0 for row in rows)


def test_budgets_stretch_steps_and_examples(family: TransformerFamily, mixes: tuple[str, ...]) -> None:
    plain, twice = (family.config(replace(Arm.parse(mixes[0]), budget=budget), 12, 0) for budget in (1.0, 2.0))
    assert family.steps(twice) == 2 * family.steps(plain)
    assert family.flops(twice) == 2 * family.flops(plain)
    assert twice.settings.task.training_examples == 2 * plain.settings.task.training_examples
    assert family.key(twice) != family.key(plain)
    faster = family.adjusted({"training.learning_rate": 2 * plain.settings.training.learning_rate})
    assert faster.training.learning_rate_end == pytest.approx(2 * plain.settings.training.learning_rate_end)
    # Lower than the written end rate: valid, because the end rate is scaled with it.
    slower = family.adjusted({"training.learning_rate": plain.settings.training.learning_rate_end / 2})
    assert slower.training.learning_rate_end < slower.training.learning_rate
    with pytest.raises(SettingsError, match="it must be more, to fill a window"):
        replace(
            family.settings,
            task=replace(family.settings.task, train_examples=1),
            model=replace(family.settings.model, block=500),
        )


def test_a_block_that_is_too_short_is_refused(family: TransformerFamily) -> None:
    settings = family.settings
    short = replace(settings.model, block=settings.task.longest_text - 1)
    with pytest.raises(SettingsError, match=f"raise it to at least {settings.task.longest_text}") as caught:
        replace(settings, model=short)
    assert caught.value.key == "model.block"
