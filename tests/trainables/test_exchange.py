"""Probes of transformers with hand-written weights. After an exchange of an argument's group, models that compute with
the group change their answers accordingly, and others do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.trainables.built_by_hand import (
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
from trainables.families.listops import ListOps
from trainables.families.permutations import Permutations
from trainables.families.transformer import TransformerFamily
from trainables.probes.base import Probed, load_probe
from trainables.probes.exchange import Exchanges, answers_after, independent
from trainables.probes.transformer_probe import answers, last_steps
from trainables.transformer.architecture import parameter_shapes
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
    assert adding("mistakes").numbers == {"add.right": 1}


def test_without_the_directions_of_a_remainder_the_model_guesses_it() -> None:
    numbers = adding("destruction").numbers
    assert numbers["add.whole"] == 1
    assert numbers["add.without_mod2"] == pytest.approx(1 / 2)
    assert numbers["add.without_mod3"] == pytest.approx(1 / 3)
    for divisor, groupings in ((2, 10), (3, 15)):
        assert numbers[f"add.others_mod{divisor}"] < 1
        assert 1 / groupings <= numbers[f"add.without_mod{divisor}.p"] <= 1


def test_a_model_that_adds_remainders_follows_every_exchange() -> None:
    numbers = adding("exchange").numbers
    assert set(numbers) == {f"add.{what}_mod{d}" for what in ("moved", "others", "kept", "only") for d in (2, 3)} | {
        f"add.moved_mod{d}.p" for d in (2, 3)
    }
    for divisor in (2, 3):
        assert numbers[f"add.moved_mod{divisor}"] == 1
        assert numbers[f"add.kept_mod{divisor}"] == 1
        assert numbers[f"add.only_mod{divisor}"] == 1
        assert numbers[f"add.others_mod{divisor}"] < 0.6


@pytest.mark.parametrize(("tied", "bias"), [(False, False), (False, True), (True, False), (True, True)])
def test_a_shift_by_nothing_keeps_every_answer(*, tied: bool, bias: bool) -> None:
    settings = replace(TWO.settings, model=replace(TWO.settings.model, tied=tied, bias=bias))
    run, data = every_pair(ListOps(settings), "add")
    rng, codes = np.random.default_rng(0), 6
    shapes = parameter_shapes(settings.model, 8, len(settings.task.vocabulary()))
    weights = {name: rng.normal(0, 0.1 if name == "position" else 1, shape) for name, shape in shapes.items()}
    model = TrainedTransformer(settings.model, 8, len(settings.task.vocabulary()), weights)
    questions = last_steps(run, data)["add"]
    rows = np.arange(len(questions.answers))
    places = np.array([places[0] for places in questions.places])
    exchanges = Exchanges(rows, places, np.zeros_like(rows), rows)
    shifted = answers_after(model, questions, exchanges, codes, np.zeros((len(rows), 8)))
    assert shifted.tolist() == answers(model, questions, codes).tolist()


def test_a_model_with_memorized_sums_does_not_follow() -> None:
    numbers = probed(TWO, "add", np.eye(6), by_heart()).numbers
    assert numbers["add.moved_mod2"] == numbers["add.only_mod2"] == 0
    assert numbers["add.kept_mod2"] == 1


def test_signs_of_permutations_are_exchanged_like_parities() -> None:
    family = Permutations(one_application(replace(PERMUTATIONS, task=replace(PERMUTATIONS.task, subgroup="C3"))))
    sign = np.array(family.groupings()["sign"])
    features = (2.0 * sign - 1)[:, None]
    even, odd = np.eye(6)[sign.argmin()], np.eye(6)[sign.argmax()]
    parities = [peak(0, 1, at, 2, says) for at, says in ((-2, even), (0, odd), (2, even))]
    numbers = probed(family, "product", features, units(*(unit for group in parities for unit in group))).numbers
    # The order of a product does not follow from the factors' orders. The cosets of C3 are the signs.
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


@pytest.mark.parametrize(
    ("task", "modulus", "count"),
    [("max", 6, 0), ("add", 7, 0), ("prod", 12, 18), ("add", 8, 6)],
)
def test_only_groups_respected_by_the_operation_are_exchanged(task: str, modulus: int, count: int) -> None:
    family = ListOps(replace(TWO.settings, task=replace(TWO.settings.task, modulus=modulus)))
    constant = units((np.zeros(1), 1.0, np.eye(modulus)[0]))  # Right often enough to be probed.
    assert len(probed(family, task, np.zeros((modulus, 1)), constant).numbers) == count


def test_groups_with_equal_overlaps_are_independent() -> None:
    twelve = np.arange(12)
    assert independent(twelve % 2, twelve % 3)
    assert not independent(twelve % 2, twelve % 4)
    assert not independent(twelve % 2, twelve % 2)
    assert not independent(twelve % 2, twelve // 4 // 2)
