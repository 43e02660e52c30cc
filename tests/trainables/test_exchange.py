"""Probes of transformers with hand-written weights. After an exchange of an argument's group, models that compute with
the group change their answers accordingly, and others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.trainables.built_by_hand import (
    NUMBERS,
    PARITY,
    THIRD,
    Units,
    by_heart,
    by_remainders,
    every_pair,
    made,
    one_application,
    peak,
    units,
)
from tests.trainables.stacks import PERMUTATIONS, SETTINGS
from trainables.probes.base import Probed, load_probe
from trainables.probes.exchange import answers_after, drawn, independent
from trainables.probes.transformer_probe import answers, last_steps
from trainables.tasks.listops import ListOps
from trainables.tasks.permutations import Permutations
from trainables.transformer.architecture import parameter_shapes
from trainables.transformer.family import TransformerFamily
from trainables.transformer.generation import TrainedTransformer

Floats = NDArray[np.float64]

TWO = ListOps(one_application(SETTINGS))
"""ListOps with two numbers modulo 6."""


def probed(family: TransformerFamily, task: str, features: Floats, units: Units, name: str = "exchange") -> Probed:
    run, data = every_pair(family, task)
    model = made(family.settings, features, units)
    return load_probe(name).run(family, run, model, {}, data)


def adding(name: str) -> Probed:
    """Probe a model that sums parities and thirds and combines them in its answer."""
    return probed(TWO, "add", np.stack([PARITY, THIRD], axis=1), by_remainders(), name)


def test_the_model_makes_no_mistakes() -> None:
    result = adding("mistakes")
    assert result.numbers == {"add.right": 1, "add.entropy": pytest.approx(1)}
    np.testing.assert_allclose(result.arrays["answers"], np.full((1, 6), 1 / 6))


def test_without_attention_or_feed_forward_the_answer_is_constant() -> None:
    numbers = adding("reliance").numbers
    assert numbers["add.whole"] == 1
    assert numbers["add.no_attention"] == pytest.approx(1 / 6)  # Always odd and 2 modulo 3: 5.
    assert numbers["add.no_feed_forward"] == pytest.approx(1 / 6)  # Always the first number: 0.


def test_without_the_directions_of_a_remainder_the_model_guesses_it() -> None:
    numbers = adding("destruction").numbers
    assert numbers["add.whole"] == 1
    assert numbers["add.without_mod2"] == pytest.approx(1 / 2)
    assert numbers["add.without_mod3"] == pytest.approx(1 / 3)
    for divisor, groupings in ((2, 10), (3, 15)):
        assert numbers[f"add.others_mod{divisor}"] < 1
        assert 1 / groupings <= numbers[f"add.without_mod{divisor}.p"] <= 1
        assert 0 < numbers[f"removed_mod{divisor}"] < 1


def test_a_model_that_adds_remainders_follows_every_exchange() -> None:
    result = adding("exchange")
    numbers = result.numbers
    assert set(numbers) == {f"add.{what}_mod{d}" for what in ("moved", "others", "kept", "only") for d in (2, 3)} | {
        f"add.moved_mod{d}.p" for d in (2, 3)
    }
    for divisor in (2, 3):
        assert numbers[f"add.moved_mod{divisor}"] == 1
        assert numbers[f"add.kept_mod{divisor}"] == 1
        assert numbers[f"add.only_mod{divisor}"] == 1
        assert numbers[f"add.others_mod{divisor}"] < 0.6
    # A different parity and the same remainder modulo 3: the number changes by 3.
    np.testing.assert_array_equal(result.arrays["exchanged"], np.eye(6)[(NUMBERS + 3) % 6])


def test_a_model_with_memorized_sums_does_not_follow() -> None:
    numbers = probed(TWO, "add", np.eye(6), by_heart()).numbers
    assert numbers["add.moved_mod2"] == numbers["add.only_mod2"] == 0
    assert numbers["add.kept_mod2"] == 1


def test_a_constant_answer_does_not_move() -> None:
    constant = units((np.zeros(2), 1.0, np.eye(6)[4]))
    numbers = probed(TWO, "add", np.stack([PARITY, THIRD], axis=1), constant).numbers
    assert {numbers[f"add.{what}_mod{d}"] for what in ("moved", "others") for d in (2, 3)} == {0}


def test_signs_of_permutations_are_exchanged_like_parities() -> None:
    family = Permutations(one_application(replace(PERMUTATIONS, task=replace(PERMUTATIONS.task, subgroup="A3"))))
    sign = np.array(family.groupings()["sign"])
    features = (2.0 * sign - 1)[:, None]
    even, odd = np.eye(6)[sign.argmin()], np.eye(6)[sign.argmax()]
    parities = [peak(0, 1, at, 2, says) for at, says in ((-2, even), (0, odd), (2, even))]
    numbers = probed(family, "product", features, units(*(unit for group in parities for unit in group))).numbers
    # The order of a product does not follow from the factors' orders. The cosets of A3 are the signs.
    assert set(numbers) == {
        f"product.{what}"
        for name in ("sign", "coset")
        for what in (f"moved_{name}", f"moved_{name}.p", f"others_{name}")
    }
    assert numbers["product.moved_sign"] == numbers["product.moved_coset"] == 1
    codes = family.settings.task.function("sign", 0)(np.array([[0, 0], [0, sign.argmax()]]))
    columns = np.eye(codes.max() + 1)[codes]
    parities = [peak(0, 1, at, 2, columns[unlike]) for at, unlike in ((-2, 0), (0, 1), (2, 0))]
    result = probed(family, "sign", features, units(*(unit for group in parities for unit in group)))
    assert result.numbers["sign.moved_sign"] == 1
    assert result.arrays == {}  # Signs are not elements.


@pytest.mark.parametrize(
    ("task", "modulus", "count"),
    [("max", 6, 0), ("shuffled_add", 6, 0), ("add", 7, 0), ("prod", 12, 18), ("nadd", 6, 10), ("add", 8, 6)],
)
def test_only_groups_respected_by_the_operation_are_exchanged(task: str, modulus: int, count: int) -> None:
    family = ListOps(replace(TWO.settings, task=replace(TWO.settings.task, modulus=modulus)))
    constant = units((np.zeros(1), 1.0, np.eye(modulus)[0]))  # Right often enough to be probed.
    assert len(probed(family, task, np.zeros((modulus, 1)), constant).numbers) == count


def noise(seed: int, family: ListOps = TWO) -> TrainedTransformer:
    """Return a model with random weights."""
    rng, settings, vocabulary = (
        np.random.default_rng(seed),
        family.settings.model,
        len(family.settings.task.vocabulary()),
    )
    shapes = parameter_shapes(settings, 12, vocabulary)
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    return TrainedTransformer(settings, 12, vocabulary, weights)


@pytest.mark.parametrize("changes", [{}, {"tied": True, "bias": True, "n_layer": 2}], ids=str)
def test_adding_zero_does_not_change_answers(changes: dict[str, Any]) -> None:
    family = ListOps(replace(TWO.settings, model=replace(TWO.settings.model, **changes)))
    run, data = every_pair(family, "add")
    model, rng = noise(3, family), np.random.default_rng(0)
    for name, parameter in model.parameters.items():  # Otherwise the '=' or the biases alone determine the answer.
        parameter *= 0.1 if name.endswith("bias") else 20 if name == "0.attention_out" else 1
    questions = last_steps(run, data)["add"]
    before = answers(model, questions, 6)
    assert len(np.unique(before)) > 1
    exchange = drawn(questions, before, NUMBERS % 2, family.settings.task.function("add", 0), rng)
    after = answers_after(model, questions, exchange, 6, np.zeros((len(exchange.rows), 12)))
    np.testing.assert_array_equal(after, before[exchange.rows])


def test_groups_with_equal_overlaps_are_independent() -> None:
    twelve = np.arange(12)
    assert independent(twelve % 2, twelve % 3)
    assert not independent(twelve % 2, twelve % 4)
    assert not independent(twelve % 2, twelve % 2)
    assert not independent(twelve % 2, twelve // 4 // 2)
