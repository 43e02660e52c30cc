"""Oscillators against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from tests.trainables.reparametrization.racing import finish, learner, runs
from trainables.reparametrization.graphs import GraphSettings
from trainables.reparametrization.phases import PhaseInstance, PhaseProblem, order, phase_instance
from trainables.reparametrization.settings import OscillatorSettings, RaceSettings, RateSettings
from trainables.reparametrization.synchronization import Synchronization, SynchronizationSettings

CPU = torch.device("cpu")


def instance(nodes: int = 49, seed: int = 0) -> PhaseInstance:
    return phase_instance(GraphSettings(), OscillatorSettings(), nodes, seed)


def loss(one: PhaseInstance, phases: np.ndarray) -> float:
    """By the formula, edge by edge."""
    pairs = zip(one.ends, one.coupling, strict=True)
    return float(sum(coupling * (1 - np.cos(phases[i] - phases[j])) for (i, j), coupling in pairs))


def test_loss_gradient_and_hessian_are_the_formulas() -> None:
    found = [instance(seed=0), instance(seed=1)]
    problem = PhaseProblem(found, CPU)
    excess, gradient = problem.evaluate(problem.start())
    direction = np.random.default_rng(0).standard_normal(49)
    for row, one in enumerate(found):
        start = one.start[:, 0]
        assert float(excess[row]) == pytest.approx(loss(one, start), rel=1e-12)
        step = 1e-4
        ahead, behind = loss(one, start + step * direction), loss(one, start - step * direction)
        slope = float(gradient[row, :, 0].numpy() @ direction)
        assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)
        bend = (ahead - 2 * loss(one, start) + behind) / step**2
        assert float(direction @ (one.hessian @ direction)) == pytest.approx(bend, rel=1e-3)
    assert float(problem.evaluate(problem.stacked([one.solution for one in found]))[0].abs().max()) == 0.0


def test_a_long_run_of_another_lbfgs_comes_to_one_phase() -> None:
    """scipy's, on the loss alone, from the same start: the solution is reached, and nothing lies below it."""
    one = instance()
    problem = PhaseProblem([one], CPU)

    def both(phases: np.ndarray) -> tuple[float, np.ndarray]:
        excess, gradient = problem.evaluate(torch.from_numpy(phases)[None, :, None])
        return float(excess[0]), gradient[0, :, 0].numpy()

    limits = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(both, one.start[:, 0], jac=True, method="L-BFGS-B", options=limits)
    assert 0 <= found.fun < 1e-10
    assert order(found.x) > 1 - 1e-9
    assert order(one.start[:, 0]) < 0.8


def test_a_stack_of_races_equals_each_alone_and_arrives() -> None:
    settings = SynchronizationSettings(
        rates=RateSettings(adam=0.05, hessian=0.05),
        race=RaceSettings(steps=1000, tolerance=1e-2, counted="steps", patience=3.0),
    )
    family = Synchronization(settings)
    configs = runs(family, "adam+hessian+lbfgs", 36, [0, 1, 2])
    together = finish(learner(family, configs))
    for index, config in enumerate(configs):
        alone = finish(learner(family, [config]))[0]
        assert sum(alone.accuracy.values()) == 1
        assert together[index].accuracy == alone.accuracy
        for name in ("adam", "hessian", "lbfgs"):
            spent = f"spent_{name}"
            assert together[index].measures[spent] == pytest.approx(alone.measures[spent], rel=1e-9)
