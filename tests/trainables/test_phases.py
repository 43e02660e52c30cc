"""Phases of a real stack: the parts taken over, also by another width, and the frozen parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from orchestrator.space.checks import check_parts
from tests.trainables.stacks import SETTINGS, last_reports, losses, make_learner
from trainables.base import RunConfig, SettingsError
from trainables.contract.arms import Arm, Mix, Phase
from trainables.families.listops import ListOps
from trainables.transformer.architecture import MODEL_PARTS
from trainables.transformer.initialization import resized
from trainables.transformer.learner import TransformerLearner

MAX, ADD = Mix.parse("max"), Mix.parse("add")
FAMILY = ListOps(SETTINGS)


def arm(**later: Any) -> RunConfig:
    """Return a run whose first half trains on MAX and whose second half trains on ADD."""
    return FAMILY.config(Arm((Phase(MAX, 0.5), Phase(ADD, 0.5, **later))), 12, 0)


def first_left(learner: TransformerLearner) -> dict[str, NDArray[Any]]:
    """Train a stack. Return the weights of its first run."""
    return dict(last_reports(learner)[0].weights)


def begun(run: RunConfig, cache: Path, donor: dict[str, NDArray[Any]]) -> TransformerLearner:
    learner = make_learner([run], cache)
    learner.take_over({0: donor})
    return learner


@pytest.fixture(scope="module")
def donor(data_cache: Path) -> dict[str, NDArray[Any]]:
    """Weights after the first phase."""
    return first_left(make_learner(arm().phases[:1], data_cache))


def test_both_phases_get_their_share_of_the_steps() -> None:
    assert [(run.mix.name, FAMILY.steps(run)) for run in arm().phases] == [("max", 30), ("add", 30)]


def test_a_phase_begins_with_the_weights_of_the_previous_one(donor: dict[str, NDArray[Any]], data_cache: Path) -> None:
    taken = begun(arm(), data_cache, donor)._weights(0)
    assert all(np.array_equal(taken[name], donor[name]) for name in donor)
    own = make_learner([replace(arm(), start=None)], data_cache)._weights(0)
    some = begun(arm(takes=("embedding",)), data_cache, donor)._weights(0)
    assert np.array_equal(some["token"], donor["token"])
    assert all(np.array_equal(some[name], own[name]) for name in own if name != "token")
    assert not np.array_equal(own["token"], donor["token"])


@pytest.mark.parametrize("part", MODEL_PARTS)
def test_a_frozen_part_keeps_its_exact_values(part: str, donor: dict[str, NDArray[Any]], data_cache: Path) -> None:
    left = first_left(begun(arm(frozen=(part,)), data_cache, donor))
    unchanged = {name for name in donor if np.array_equal(left[name], donor[name])}
    blocks = {name for name in donor if name not in ("token", "position", "head")}
    expected = {"embedding": {"token"}, "positions": {"position"}, "head": {"head"}, "blocks": blocks}[part]
    assert unchanged == expected


def test_later_phases_train_the_same_alone_and_in_a_stack(donor: dict[str, NDArray[Any]], data_cache: Path) -> None:
    runs = [arm(), arm(frozen=("embedding",)), replace(arm(), seed=1), arm(takes=("embedding",))]
    rng = np.random.default_rng(0)
    donors = [{name: tensor + rng.normal(0, 0.05, tensor.shape) for name, tensor in donor.items()} for _ in runs]
    stack = make_learner(runs, data_cache)
    stack.take_over(dict(enumerate(donors)))
    together = losses(stack)
    for place, (run, taken) in enumerate(zip(runs, donors, strict=True)):
        np.testing.assert_allclose(together[place], losses(begun(run, data_cache, taken))[0], rtol=2e-3)
    assert len({curve[0] for curve in together.values()}) == len(runs)


def test_a_first_phase_without_steps_gives_the_plain_run() -> None:
    nothing = FAMILY.config(Arm((Phase(MAX, 0.0), Phase(ADD, 1.0)), label="nothing first"), 12, 0)
    plain = FAMILY.config(Arm.parse("add"), 12, 0)
    assert FAMILY.key(nothing) == FAMILY.key(plain)
    assert nothing.start is None


def test_the_initial_weights_of_a_run_are_part_of_its_key() -> None:
    runs = [
        arm(),
        arm(takes=("embedding",)),
        arm(frozen=("embedding",)),
        FAMILY.config(Arm((Phase(Mix.parse("min"), 0.5), Phase(ADD, 0.5))), 12, 0),
        replace(arm(), start=None),
    ]
    assert len({FAMILY.key(run) for run in runs}) == len(runs)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(SettingsError, match="'heads'") as refused:
        check_parts(FAMILY, arm(takes=("heads",)))
    assert refused.value.allowed == ("all", *MODEL_PARTS)


def widened(*takes: str, size: int | None = 16) -> RunConfig:
    return FAMILY.config(Arm((Phase(MAX, 0.5, size=size), Phase(ADD, 0.5, takes=takes))), 12, 0)


@pytest.mark.parametrize("width", [3, 9, 40])
def test_dot_products_are_preserved_in_the_largest_directions_that_fit(width: int) -> None:
    old = np.random.default_rng(0).normal(size=(9, 30)).astype(np.float32)
    new = resized(old, width, np.random.default_rng(0))
    assert new.shape == (9, width)
    values, vectors = np.linalg.eigh(old @ old.T)
    best = (vectors[:, -width:] * values[-width:]) @ vectors[:, -width:].T
    assert new @ new.T == pytest.approx(best, abs=1e-2 if width < 9 else 1e-3)


def test_a_run_takes_the_embedding_of_a_wider_model(data_cache: Path) -> None:
    run = widened("embedding")
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
    assert FAMILY.key(widened("embedding")) != FAMILY.key(widened("embedding", size=None))


@pytest.mark.parametrize("part", ["all", "blocks"])
def test_other_parts_do_not_fit_another_width(part: str) -> None:
    with pytest.raises(SettingsError, match="of another size, 16; parts that fit another size: embedding"):
        check_parts(FAMILY, widened(part))
    check_parts(FAMILY, widened(part, size=None))
