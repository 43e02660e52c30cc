"""Scores on tables whose scores are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.prediction import (
    SCORES,
    chance,
    fourier_overlap,
    mix_scores,
    mutual_information,
    partner_ease,
    partner_peak,
    shared_groupings,
    shared_structure,
)
from tests.cli.program import command
from trainables.contract.tables import TaskTables
from trainables.tasks.listops import TaskSettings as ListOps
from trainables.tasks.permutations import TaskSettings as Permutations

TASKS = ("add", "prod", "max", "med", "nadd", "relabelled_add", "shuffled_add")


def listops(modulus: int, arguments: int = 2) -> TaskTables:
    task = ListOps(modulus=modulus, max_arguments=arguments, held_out_fraction=0.4)
    return task.tables(TASKS, seed=0)


def test_tables_hold_what_the_operations_compute() -> None:
    tables = listops(6, arguments=3)
    assert tables.values["add"].shape == (6, 6, 6)
    assert tables.values["add"][5, 4, 3] == 0
    assert tables.values["nadd"][1, 3, 0] == 4
    assert tables.values["med"][5, 0, 2] == 2


@pytest.mark.parametrize(("modulus", "shared"), [(6, 2), (7, 0), (20, 4), (43, 0), (45, 4)])
def test_add_and_prod_share_a_quotient_for_every_divisor(modulus: int, shared: int) -> None:
    tables = listops(modulus)
    assert shared_groupings("add", "prod", tables) == shared
    assert shared_groupings("add", "max", tables) == 0


def test_quotients_determine_as_much_of_a_sum_as_the_remainder_theorem_says() -> None:
    assert shared_structure("add", "prod", listops(6)) == pytest.approx(1.0)  # 2 x 3 = 6
    assert shared_structure("add", "prod", listops(9)) == pytest.approx(0.5)  # mod 3 alone: one of two digits
    assert shared_structure("add", "prod", listops(7)) == 0


def test_a_permuted_table_shares_no_structure_with_anything() -> None:
    tables = listops(6)
    for other in ("add", "prod", "max"):
        assert shared_groupings("shuffled_add", other, tables) == 0
        assert shared_groupings(other, "shuffled_add", tables) == 0


def test_information_is_all_of_it_about_a_relabelling_and_none_between_independent_digits() -> None:
    assert mutual_information("add", "relabelled_add", listops(6)) == pytest.approx(1.0)
    first, second = np.meshgrid(np.arange(5), np.arange(5), indexing="ij")
    digits = TaskTables({"first": first, "second": second}, {}, in_order=True)
    assert mutual_information("first", "second", digits) == pytest.approx(0.0, abs=1e-12)


def test_ease_and_peak_are_those_of_the_partner() -> None:
    tables = listops(6)
    assert partner_ease("max", "add", tables) == pytest.approx(0.0)
    assert partner_peak("max", "add", tables) == pytest.approx(1 / 6)
    assert partner_peak("add", "max", tables) == pytest.approx(11 / 36)  # max = 5
    shares = np.arange(1, 12, 2) / 36
    assert partner_ease("add", "max", tables) == pytest.approx(1 + (shares * np.log(shares)).sum() / math.log(6))


def test_fourier_power_is_the_same_for_a_relabelling_and_apart_for_sum_and_difference_of_odd_moduli() -> None:
    assert fourier_overlap("add", "relabelled_add", listops(6)) == pytest.approx(1.0)
    # A sum's power lies at frequencies (k, k), a difference's at (k, -k): the same only where 2 k = 0 modulo n.
    assert fourier_overlap("add", "nadd", listops(7)) == pytest.approx(0.0, abs=1e-9)
    assert fourier_overlap("add", "nadd", listops(6)) == pytest.approx(1 / 5)


def test_signs_of_permutations_are_a_quotient_and_their_images_are_none() -> None:
    task = Permutations(group="S4", max_arguments=2, held_out_fraction=0.1, subgroup="D4")
    tables = task.tables(("product", "sign", "image", "coset"), seed=0)
    assert shared_groupings("product", "sign", tables) == 1
    assert shared_structure("product", "sign", tables) == pytest.approx(math.log(2) / math.log(24))
    assert shared_groupings("product", "image", tables) == 0
    assert shared_groupings("product", "coset", tables) == 0  # D4 is no normal subgroup of S4
    assert fourier_overlap("product", "sign", tables) is None
    assert "fourier_overlap" not in mix_scores("product", ["sign"], tables)


def test_a_mix_of_several_has_the_mean_of_its_partners() -> None:
    tables = listops(6)
    found = mix_scores("add", ["prod", "max"], tables)
    one, other = mix_scores("add", ["prod"], tables), mix_scores("add", ["max"], tables)
    assert found == pytest.approx({name: (one[name] + other[name]) / 2 for name in found})
    assert list(found) == [score.name for score in SCORES]


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_scores_lie_in_their_ranges_for_any_tables(seed: int, items: int) -> None:
    rng = np.random.default_rng(seed)
    values = {name: rng.integers(0, items + 2, size=(items, items)) for name in ("one", "other")}
    tables = TaskTables(values, {"any": (*range(items - 1), 0)}, in_order=True)
    for score in SCORES:
        found = score.of("one", "other", tables)
        assert found is not None
        assert found >= 0 or score.name == "partner_ease"
        assert found <= 1 + 1e-9
    assert chance("one", "other", tables) == chance("one", "other", tables)


def test_predict_prints_every_score_of_every_mix() -> None:
    done = command("predict", "add_vs_add_prod", "--profile", "smoke")
    assert done.code == 0, done.err
    assert "add+prod" in done.out
    assert all(f"{score.name}: {score.says}" in done.out for score in SCORES)
