"""Probes of a transformer with hand-written weights, which sums parities and thirds and combines them in its answer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainables.built_by_hand import PARITY, THIRD, by_remainders, every_pair, made, one_application
from tests.trainables.stacks import SETTINGS
from trainables.probes.base import Probed, load_probe
from trainables.tasks.listops import ListOps

FAMILY = ListOps(one_application(SETTINGS))


def probed(name: str) -> Probed:
    run, data = every_pair(FAMILY, "add")
    model = made(FAMILY.settings, np.stack([PARITY, THIRD], axis=1), by_remainders())
    return load_probe(name).run(FAMILY, run, model, {}, data)


def test_the_model_makes_no_mistakes() -> None:
    result = probed("mistakes")
    assert result.numbers == {"add.right": 1, "add.entropy": pytest.approx(1)}
    np.testing.assert_allclose(result.arrays["answers"], np.full((1, 6), 1 / 6))


def test_without_attention_or_feed_forward_the_answer_is_constant() -> None:
    numbers = probed("reliance").numbers
    assert numbers["add.whole"] == 1
    assert numbers["add.no_attention"] == pytest.approx(1 / 6)  # Always odd and 2 modulo 3: 5.
    assert numbers["add.no_feed_forward"] == pytest.approx(1 / 6)  # Always the first number: 0.


def test_without_the_directions_of_a_remainder_the_model_guesses_it() -> None:
    numbers = probed("destruction").numbers
    assert numbers["add.whole"] == 1
    assert numbers["add.without_mod2"] == pytest.approx(1 / 2)
    assert numbers["add.without_mod3"] == pytest.approx(1 / 3)
    for divisor, groupings in ((2, 10), (3, 15)):
        assert numbers[f"add.others_mod{divisor}"] < 1
        assert 1 / groupings <= numbers[f"add.without_mod{divisor}.p"] <= 1
        assert 0 < numbers[f"removed_mod{divisor}"] < 1
