"""Embeddings for models of another width, which preserve dot products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from orchestrator.space.checks import check_parts
from tests.trainables.stacks import SETTINGS, make_learner
from trainables.base import RunConfig, SettingsError
from trainables.contract.arms import Arm, Mix, Phase
from trainables.tasks.listops import ListOps
from trainables.transformer.initialization import resized

MAX, ADD = Mix.parse("max"), Mix.parse("add")
FAMILY = ListOps(SETTINGS)


def arm(*takes: str, size: int | None = 16) -> RunConfig:
    return FAMILY.config(Arm((Phase(MAX, 0.5, size=size), Phase(ADD, 0.5, takes=takes))), 12, 0)


def table(rows: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


@pytest.mark.parametrize("width", [9, 12, 40])
def test_dot_products_are_preserved_if_the_width_suffices(width: int) -> None:
    old = table(9, 30)
    new = resized(old, width, np.random.default_rng(0))
    assert new.shape == (9, width)
    assert new @ new.T == pytest.approx(old @ old.T, abs=1e-3)


def test_the_largest_directions_are_preserved_at_smaller_widths() -> None:
    old = table(9, 30)
    new = resized(old, 3, np.random.default_rng(0))
    values, vectors = np.linalg.eigh(old @ old.T)
    best = (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T
    assert new @ new.T == pytest.approx(best, abs=1e-2)


def test_a_run_takes_the_embedding_of_a_wider_model(data_cache: Path) -> None:
    run = arm("embedding")
    (donor, _) = run.phases
    assert (donor.size, run.size) == (16, 12)
    check_parts(FAMILY, run)
    theirs = make_learner([donor], data_cache)._weights(0)
    learner = make_learner([run], data_cache)
    own = dict(learner._weights(0))
    learner.take_over({0: theirs})
    taken = learner._weights(0)
    alike = [(weights["token"] @ weights["token"].T).reshape(-1) for weights in (taken, theirs)]
    assert np.corrcoef(alike[0], alike[1])[0, 1] > 0.9
    assert all(np.array_equal(taken[name], own[name]) for name in own if name != "token")


def test_a_donor_is_shared_by_all_sizes_and_its_width_is_part_of_the_key() -> None:
    staged = Arm((Phase(MAX, 0.5, size=16), Phase(ADD, 0.5, takes=("embedding",))))
    small, large = (FAMILY.config(staged, size, 0) for size in (8, 12))
    assert FAMILY.key(small.phases[0]) == FAMILY.key(large.phases[0])
    assert FAMILY.key(small) != FAMILY.key(large)
    assert FAMILY.key(arm("embedding")) != FAMILY.key(arm("embedding", size=None))


@pytest.mark.parametrize("part", ["all", "blocks", "positions", "head"])
def test_other_parts_do_not_fit_another_width(part: str) -> None:
    with pytest.raises(SettingsError, match="of another size, 16; parts that fit another size: embedding"):
        check_parts(FAMILY, arm(part))
    check_parts(FAMILY, arm(part, size=None))
