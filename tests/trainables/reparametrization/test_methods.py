"""The methods, compared with torch, scipy and the solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, cg

from tests.trainables.reparametrization.racing import families, heat, runs
from trainables.reparametrization.methods import (
    ConjugateGradients,
    Descent,
    Price,
    method_of,
    newton_direction,
)
from trainables.reparametrization.problems import HeatProblem
from trainables.reparametrization.settings import METHODS

PRICE = Price(0.0, 1.0, 0.0)
PROBLEMS = ("heat", "phases", "clouds")
THEIRS: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
    "adam": lambda leaves: torch.optim.Adam(leaves, lr=0.03),
    "momentum": lambda leaves: torch.optim.SGD(leaves, lr=0.03, momentum=0.9),
}


@pytest.mark.parametrize("name", THEIRS)
def test_first_order_methods_agree_with_torch(name: str) -> None:
    problem = heat().problem(36, 0)
    mine = Descent(problem, PRICE, 1e-9, name, 0.03, None)
    mine.run(51)
    theirs = torch.tensor(problem.start, requires_grad=True)
    optimizer = THEIRS[name]([theirs])
    for _ in range(50):
        theirs.grad = torch.from_numpy(problem.evaluate(theirs.detach().numpy())[1])
        optimizer.step()
    assert mine.x == pytest.approx(theirs.detach().numpy(), rel=1e-9, abs=1e-12)


def test_conjugate_gradients_agree_with_scipy_on_a_quadratic() -> None:
    """Iterates are compared one by one, with Jacobi's preconditioner."""
    problem = heat().problem(100, 0)
    assert isinstance(problem, HeatProblem)
    iterates: list[np.ndarray] = []
    jacobi = LinearOperator(problem.hessian.shape, lambda x: x.ravel() / problem.hessian.diagonal())
    note = lambda x: iterates.append(x.copy())  # noqa: E731 - scipy calls it
    cg(problem.hessian, problem.source[:, 0], x0=problem.start[:, 0], M=jacobi, maxiter=40, callback=note)
    for steps in (1, 10, 40):
        mine = ConjugateGradients(problem, Price(0.0, 0.0, 1.0), 1e-20)
        mine.run(steps)
        assert mine.x[:, 0] == pytest.approx(iterates[steps - 1], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", METHODS)
def test_a_start_moved_by_rounding_error_does_not_change_outcomes(name: str, method: str) -> None:
    """After a move of 1e-14 the cost changes by at most 3%. Newton's method on clouds is only tested on small ones,
    because its inner systems stop at different trees (tests/bench/results/reparametrization.md has the spread)."""
    family = families()[name]
    nodes = {"heat": 256, "phases": 256, "clouds": 36 if method == "newton" else 100}[name]
    for seed in (0, 1):
        original = family.problem(nodes, seed)
        moves = [1e-14 * np.random.default_rng(move).standard_normal(original.start.shape) for move in range(3)]
        (run,) = runs(family, method, nodes, [seed])
        problems = [original, *(replace(original, start=original.start + move) for move in moves)]
        made = [method_of(method, problem, run, family.price(method)) for problem in problems]
        for race in made:
            race.run(4000)
            assert race.standing.arrived
            assert race.standing.spent == pytest.approx(made[0].standing.spent, rel=0.03)


def quadratic(unknowns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return a positive definite matrix and a gradient [P]."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((unknowns, unknowns))
    return root @ root.T + np.eye(unknowns), rng.standard_normal(unknowns)


def test_conjugate_gradients_solve_newtons_system_to_the_requested_accuracy() -> None:
    """If the first gradient was much longer than this one, almost no residual is allowed."""
    hessian, gradient = quadratic()
    length = float(np.linalg.norm(gradient))
    direction, products = newton_direction(lambda v: hessian @ v, gradient, length * 1e24)
    assert direction == pytest.approx(-np.linalg.solve(hessian, gradient), rel=1e-8, abs=1e-10)
    assert 4 <= products <= 8
    loose, fewer = newton_direction(lambda v: hessian @ v, gradient, length)
    assert np.linalg.norm(hessian @ loose + gradient) <= 0.5 * length
    assert fewer < products


def test_prices_count_the_operations_of_the_formulas() -> None:
    """For heat on a grid, counted by hand: an evaluation has 5 products and sums, the source and the loss, 14 in
    total; Adam's update 13; a layer 10 forward and 10 backward, plus 1 to add the start. Products with the identity
    are free."""
    prices = {name: heat().price(name) for name in METHODS}
    total = {name: 14 * (price.evaluation + price.step) for name, price in prices.items()}
    assert total["adam"] == pytest.approx(14 + 13)
    assert total["hessian"] == total["random"] == pytest.approx(14 + 10 + 10 + 1 + 13)
    assert total["cg"] + 14 * prices["cg"].product == pytest.approx(3 + 3 + 10 + 10)
    by_steps = heat(race={"counted": "steps"})
    assert by_steps.price("hessian") == Price(0.0, 1.0, 0.0, 1.0)
    assert by_steps.price("cg") == Price(0.0, 0.0, 0.0, 1.0)
    assert families()["phases"].price("cg").evaluation == 1.0
