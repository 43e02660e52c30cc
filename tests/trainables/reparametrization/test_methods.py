"""The optimisers against those of torch, and against the solution."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.trainables.reparametrization.racing import heat, learner, runs
from trainables.reparametrization.cost import Price
from trainables.reparametrization.diffusion import HeatDiffusion
from trainables.reparametrization.family import RaceFamily
from trainables.reparametrization.lbfgs import Pairs
from trainables.reparametrization.learner import RaceLearner
from trainables.reparametrization.newton import newton_direction
from trainables.reparametrization.optimizers import FirstOrder
from trainables.reparametrization.searching import Lbfgs, Newton
from trainables.reparametrization.settings import METHODS
from trainables.reparametrization.synchronization import Synchronization

THEIRS: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
    "adam": lambda leaves: torch.optim.Adam(leaves, lr=0.03),
    "rmsprop": lambda leaves: torch.optim.RMSprop(leaves, lr=0.03),
    "momentum": lambda leaves: torch.optim.SGD(leaves, lr=0.03, momentum=0.9),
}


@pytest.mark.parametrize("name", THEIRS)
def test_first_order_methods_are_torchs(name: str) -> None:
    family = heat()
    problem = family.problem([family.instance(36, seed) for seed in range(2)], "cpu")
    mine = problem.start()
    theirs = mine.clone().requires_grad_()
    optimizer = THEIRS[name]([theirs])
    rate = torch.full((2, 1), 0.03, dtype=torch.float64)
    own = FirstOrder(name, rate, mine.flatten(1))
    for _ in range(50):
        gradient = problem.evaluate(mine)[1]
        mine = own.step(mine.flatten(1), gradient.flatten(1), torch.tensor([True, True])).view_as(mine)
        theirs.grad = problem.evaluate(theirs.detach())[1]
        optimizer.step()
    torch.testing.assert_close(mine, theirs.detach(), rtol=1e-9, atol=1e-12)


def test_lbfgs_finds_the_direct_solution() -> None:
    family = heat()
    problem = family.problem([family.instance(100, seed) for seed in range(3)], "cpu")
    method = Lbfgs(problem, Price(0.0, 1.0, 0.0), tolerance=1e-16)
    method.run(600)
    assert method.arrived_S.all()
    for x, one in zip(method.x_SND, problem.instances, strict=True):
        assert x.numpy() == pytest.approx(one.solution, abs=1e-6)


def test_a_direction_with_pairs_is_newtons_where_they_span_the_space() -> None:
    """On a quadratic of 4 unknowns, with exact changes along 4 conjugate steps, L-BFGS knows the inverse Hessian."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(4, 4, dtype=torch.float64, generator=generator)
    hessian = root @ root.T + torch.eye(4, dtype=torch.float64)
    _, steps = torch.linalg.eigh(hessian)
    pairs = Pairs(1, 4, torch.device("cpu"))
    for step in steps.T:
        pairs.add(step[None], (hessian @ step)[None], torch.tensor([True]))
    gradient = torch.randn(1, 4, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(pairs.direction(gradient), -torch.linalg.solve(hessian, gradient[0])[None])


def quadratic(unknowns: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """A positive definite matrix and a gradient [1, P]."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(unknowns, unknowns, dtype=torch.float64, generator=generator)
    return root @ root.T + torch.eye(unknowns, dtype=torch.float64), torch.randn(
        1, unknowns, dtype=torch.float64, generator=generator
    )


def test_conjugate_gradients_solve_newtons_system_as_far_as_asked() -> None:
    """With a first gradient far longer than this one the residual left is next to nothing."""
    hessian, gradient = quadratic()
    far = gradient.norm(dim=1) * 1e24
    direction, products = newton_direction(lambda v: v @ hessian, gradient, far, torch.tensor([True]))
    torch.testing.assert_close(direction, -torch.linalg.solve(hessian, gradient[0])[None], rtol=1e-8, atol=1e-10)
    assert 4 <= float(products[0]) <= 8
    loose, fewer = newton_direction(lambda v: v @ hessian, gradient, gradient.norm(dim=1), torch.tensor([True]))
    left = (loose @ hessian + gradient).norm() / gradient.norm()
    assert left <= 0.5
    assert float(fewer[0]) < float(products[0])


def test_a_direction_goes_down_where_curvature_is_negative() -> None:
    """Straight down, where the first product says so; with what positive curvature gave, later."""
    _, gradient = quadratic()
    going, first = torch.tensor([True]), gradient.norm(dim=1) * 1e24
    straight, products = newton_direction(lambda v: -v, gradient, first, going)
    assert torch.equal(straight, -gradient)
    assert float(products[0]) == 1
    saddle = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, -0.1], dtype=torch.float64))
    bent, _ = newton_direction(lambda v: v @ saddle, gradient, first, going)
    assert float((bent * gradient).sum()) < 0
    resting, unpaid = newton_direction(lambda v: v, gradient, first, torch.tensor([False]))
    assert not resting.any()
    assert not unpaid.any()


@pytest.mark.parametrize("kind", [HeatDiffusion, Synchronization])
def test_newton_arrives_within_a_few_steps_and_pays_for_its_products(kind: type[RaceFamily]) -> None:
    family = kind(kind.Settings())
    problem = family.problem([family.instance(100, seed) for seed in range(2)], "cpu")
    free, dear = (Newton(problem, Price(0.0, 1.0, 0.0, product), tolerance=1e-12) for product in (0.0, 2.0))
    for method in (free, dear):
        method.run(5000)
        assert method.arrived_S.all()
        assert (method.steps_S <= 25).all()
    torch.testing.assert_close(dear.x_SND, free.x_SND, rtol=0, atol=0)
    products = (dear.spent_S - free.spent_S) / 2
    assert (products >= dear.steps_S).all()
    assert (products == products.round()).all()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_comes_to_the_solution(name: str) -> None:
    rates = {"rates": {"adam": 0.02, "rmsprop": 0.001, "hessian": 0.05, "laplacian": 0.05, "random": 0.05}}
    family = heat(race={"steps": 3000, "tolerance": 1e-3, "counted": "steps"}, **rates)
    race = learner(family, runs(family, name, 36, [0]))
    assert isinstance(race, RaceLearner)
    while reports := race.advance():
        outcome = reports[0].outcome
    assert outcome is not None
    assert outcome.accuracy == {name: 1.0}
    assert outcome.measures[f"spent_{name}"] <= 3000
    assert outcome.curve[-1].measures[f"gap_{name}"] <= 1e-3


def test_all_begin_at_the_same_state() -> None:
    """Whatever a network's first output is."""
    family = heat(race={"counted": "steps", "evaluate_every": 1})
    for name in METHODS:
        (report,) = learner(family, runs(family, name, 36, [0])).advance()
        assert report.evaluation is not None
        if name not in ("lbfgs", "newton"):  # Their first looks are at the start, too, but no report is made of them.
            assert report.evaluation.measures[f"gap_{name}"] == pytest.approx(1.0)
