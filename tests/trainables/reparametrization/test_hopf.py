"""Hopf-Kuramoto oscillators against what is known of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

from tests.trainables.reparametrization.racing import finish, learner, runs
from trainables.errors import SettingsError
from trainables.reparametrization.graphs import GraphSettings
from trainables.reparametrization.hopf import HopfInstance, HopfProblem, hopf_instance
from trainables.reparametrization.phases import order, phase_instance
from trainables.reparametrization.settings import OscillatorSettings, RaceSettings, RateSettings
from trainables.reparametrization.synchronization import Synchronization, SynchronizationSettings, within_two

CPU = torch.device("cpu")
SMALL_WORLD = GraphSettings("small_world")
BARE_RING = GraphSettings("ring", degree=2)
Phases = NDArray[np.float64]


def instance(seed: int = 0, reactive: float = 0.7, arc: float = 1.5) -> HopfInstance:
    return hopf_instance(SMALL_WORLD, OscillatorSettings(arc, reactive=reactive), 49, seed)


def ring(reactive: float, nodes: int = 24) -> HopfProblem:
    """Oscillators on a ring, all coupled alike."""
    return HopfProblem([hopf_instance(BARE_RING, OscillatorSettings(spread=0.0, reactive=reactive), nodes, 0)], CPU)


def loss(one: HopfInstance, phases: Phases) -> float:
    """By the formula, edge by edge."""
    pairs, pull = 0.0, np.zeros(len(phases))
    for (i, j), coupling in zip(one.ends, one.coupling, strict=True):
        pairs += coupling * (1 - np.cos(phases[i] - phases[j]))
        pull[i] += coupling * np.sin(phases[j] - phases[i])
        pull[j] += coupling * np.sin(phases[i] - phases[j])
    return float(pairs + one.reactive / 2 * (pull**2).sum())


def seen(problem: HopfProblem, phases: Phases) -> tuple[float, Phases]:
    excess, gradient = problem.evaluate(torch.from_numpy(phases)[None, :, None])
    return float(excess[0]), gradient[0, :, 0].numpy()


def test_loss_gradient_and_hessian_are_the_formulas() -> None:
    found = [instance(seed=0), instance(seed=1, reactive=0.2, arc=5.0)]
    problem = HopfProblem(found, CPU)
    excess, gradient = problem.evaluate(problem.start())
    direction = np.random.default_rng(0).standard_normal(49)
    bent = problem.curvature(problem.start())(problem.stacked([direction[:, None]] * 2))
    for row, one in enumerate(found):
        start = one.start[:, 0]
        assert float(excess[row]) == pytest.approx(loss(one, start), rel=1e-12)
        step = 1e-4
        ahead, behind = loss(one, start + step * direction), loss(one, start - step * direction)
        slope = float(gradient[row, :, 0].numpy() @ direction)
        assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)
        bend = (ahead - 2 * loss(one, start) + behind) / step**2
        assert float(bent[row, :, 0].numpy() @ direction) == pytest.approx(bend, rel=1e-3)
        assert one.hessian @ direction == pytest.approx(bent[row, :, 0].numpy(), rel=1e-9, abs=1e-9)
        assert abs(one.hessian - one.hessian.T).max() < 1e-12
    assert float(problem.evaluate(problem.stacked([one.solution for one in found]))[0].abs().max()) == 0.0


def test_a_twist_around_a_ring_pulls_at_nobody() -> None:
    """Both neighbours pull alike: the loss is that of Kuramoto's, and the state is stationary."""
    turned = 2 * np.pi * np.arange(24) / 24
    excess, gradient = seen(ring(reactive=3.0), turned)
    assert excess == pytest.approx(24 * (1 - np.cos(2 * np.pi / 24)), rel=1e-12)
    assert np.abs(gradient).max() < 1e-12


@pytest.mark.parametrize("reactive", [0.5, 1.0, 4.0])
def test_neighbours_on_a_ring_may_stand_apart_where_amplitudes_act_back(reactive: float) -> None:
    """With every second oscillator ``apart`` from the others the loss of a ring is ``1 - cos(apart) + 2 reactive
    sin(apart)^2`` a node: stationary where ``cos(apart) = -1 / (4 reactive)``, which no state of Kuramoto's is."""
    apart = np.arccos(-1 / (4 * reactive))
    phases = np.where(np.arange(24) % 2, apart, 0.0)
    excess, gradient = seen(ring(reactive), phases)
    assert excess == pytest.approx(24 * (1 - np.cos(apart) + 2 * reactive * np.sin(apart) ** 2), rel=1e-12)
    assert np.abs(gradient).max() < 1e-12
    assert np.abs(seen(ring(0.0), phases)[1]).max() > 0.5


def test_without_reaction_it_is_kuramotos() -> None:
    one, plain = instance(reactive=0.0), phase_instance(SMALL_WORLD, OscillatorSettings(1.5), 49, 0)
    assert abs(one.hessian - plain.hessian).max() == 0
    assert (one.start == plain.start).all()
    assert (one.coupling == plain.coupling).all()


def test_a_long_run_of_another_lbfgs_comes_to_one_phase() -> None:
    """scipy's, from the same start: the solution is reached, and nothing lies below it."""
    one = instance()
    problem = HopfProblem([one], CPU)
    limits = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10}
    found = minimize(lambda x: seen(problem, x), one.start[:, 0], jac=True, method="L-BFGS-B", options=limits)
    assert 0 <= found.fun < 1e-10
    assert order(found.x) > 1 - 1e-9
    assert order(one.start[:, 0]) < 0.95


def test_phases_of_hopf_oscillators_drift_down_this_loss() -> None:
    """Five of them with amplitudes of their own, coupled reactively, beside phases alone, which drift with the first
    order in the coupling, which is no gradient, and down this loss."""
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.random((5, 5)), 1)
    coupling += coupling.T
    start = 2 * rng.random(5)
    growth = 100.0

    def whole(_: float, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return growth / 2 * (1 - np.abs(z) ** 2) * z + 1j * (coupling @ z)

    first, second = np.nonzero(np.triu(coupling))
    some = hopf_instance(BARE_RING, OscillatorSettings(), 16, 0)
    here = replace(some, ends=np.stack([first, second], axis=1), coupling=coupling[first, second], start=start[:, None])
    acting, kuramoto = (HopfProblem([replace(here, reactive=one)], CPU) for one in (1 / growth, 0.0))

    def phases_alone(_: float, x: Phases, down: float) -> Phases:
        drift = (coupling * np.cos(x[None, :] - x[:, None])).sum(axis=1)
        return np.asarray(drift - down * (seen(acting, x)[1] - seen(kuramoto, x)[1]))

    ended = np.angle(solve_ivp(whole, (0, 1), np.exp(1j * start), rtol=1e-9, atol=1e-11).y[:, -1])
    misses = [
        np.abs(
            np.angle(np.exp(1j * (ended - solve_ivp(phases_alone, (0, 1), start, args=(down,), rtol=1e-9).y[:, -1])))
        )
        for down in (0.0, 1.0)
    ]
    assert misses[0].max() > 5e-3
    assert misses[1].max() < 0.1 * misses[0].max()


def hopf(reactive: float = 0.5) -> Synchronization:
    return Synchronization(
        SynchronizationSettings(
            graph=SMALL_WORLD,
            oscillators=OscillatorSettings(1.5, reactive=reactive),
            rates=RateSettings(adam=0.05, hessian=0.05),
            race=RaceSettings(steps=2000, tolerance=1e-2, counted="steps", patience=3.0),
        )
    )


def test_a_stack_of_races_equals_each_alone_and_arrives() -> None:
    family = hopf()
    names = ("adam", "hessian", "lbfgs", "newton")
    configs = runs(family, "+".join(names), 36, [0, 1])
    together = finish(learner(family, configs))
    for index, config in enumerate(configs):
        alone = finish(learner(family, [config]))[0]
        assert sum(alone.accuracy.values()) == 1
        assert together[index].accuracy == alone.accuracy
        for name in names:
            spent = f"spent_{name}"
            assert together[index].measures[spent] == pytest.approx(alone.measures[spent], rel=1e-9)


def test_keys_of_kuramotos_runs_stay_what_they_were() -> None:
    (plain,) = runs(hopf(reactive=0.0), "adam", 36, [0])
    (other,) = runs(hopf(), "adam", 36, [0])
    described = hopf(reactive=0.0).described(plain.settings)
    assert described["oscillators"] == {"arc": 1.5, "spread": 1.0}
    assert hopf().key(other) != hopf(reactive=0.0).key(plain)


def test_what_the_second_neighbours_cost() -> None:
    """On a ring of degree 4 there are as many of them again; the bare graph's Laplacian has none."""
    assert within_two(GraphSettings("ring", degree=4)) == 8
    assert 11 < within_two(GraphSettings("grid")) < 12
    family = Synchronization(replace(hopf().settings, race=RaceSettings(), graph=GraphSettings("ring", degree=4)))
    assert family.price("hessian").step > family.price("laplacian").step > family.price("adam").step
    assert family.price("random").step == family.price("hessian").step


def test_an_amplitude_that_acts_backwards_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be 0 or more"):
        OscillatorSettings(reactive=-1.0)
