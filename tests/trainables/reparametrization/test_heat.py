"""The heat problem against solutions of its own."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from trainables.reparametrization import heat as module
from trainables.reparametrization.graphs import GraphSettings, Kind
from trainables.reparametrization.heat import HeatInstance, HeatProblem, heat_instance, solve
from trainables.reparametrization.settings import HeatSettings

CPU = torch.device("cpu")


def instance(kind: Kind = "grid", nodes: int = 100, seed: int = 0) -> HeatInstance:
    return heat_instance(GraphSettings(kind), HeatSettings(), nodes, seed)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_solution_is_that_of_a_dense_solver(kind: Kind) -> None:
    found = instance(kind)
    exact = np.linalg.solve(found.hessian.toarray(), found.source[:, 0])
    assert found.solution[:, 0] == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_no_node_is_hotter_than_all_that_are_held() -> None:
    """The maximum principle: heat that stands still has its extremes where it is held."""
    found = instance(nodes=400)
    assert found.solution.max() <= found.held_at.max() + 1e-12
    assert found.solution.min() >= found.held_at.min() - 1e-12
    assert found.solution.std() > 0.01


def test_conjugate_gradients_find_what_factors_do(monkeypatch: pytest.MonkeyPatch) -> None:
    found = instance("regular", 300)
    monkeypatch.setattr(module, "FACTORED", 100)
    by_gradients = solve(found.hessian, found.source[:, 0], "regular")
    assert by_gradients == pytest.approx(found.solution[:, 0], rel=1e-9, abs=1e-11)


def test_the_excess_is_that_of_the_energy_and_the_gradient_its_slope() -> None:
    one = instance()
    problem = HeatProblem([one], CPU)
    rng = np.random.default_rng(1)
    x, direction = rng.standard_normal((2, *one.start.shape))

    def energy(at: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return float((at.T @ (one.hessian @ at) / 2 - one.source.T @ at)[0, 0])

    excess, gradient = problem.evaluate(torch.from_numpy(x)[None])
    assert float(excess[0]) == pytest.approx(energy(x) - energy(one.solution), rel=1e-9)
    step = 1e-5
    slope = (energy(x + step * direction) - energy(x - step * direction)) / (2 * step)
    assert float((gradient[0].numpy() * direction).sum()) == pytest.approx(slope, rel=1e-6)
    at_solution, gradient = problem.evaluate(torch.from_numpy(one.solution)[None])
    assert float(at_solution[0]) == 0.0
    assert float(gradient.abs().max()) == 0.0


def test_a_problem_is_the_same_for_the_same_seed_alone() -> None:
    assert instance(seed=1).digest() == instance(seed=1).digest()
    assert instance(seed=1).digest() != instance(seed=2).digest()
