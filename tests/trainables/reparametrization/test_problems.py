"""Graphs and problems, compared with their formulas and with solutions and diagrams of other libraries."""

from __future__ import annotations

from collections.abc import Callable

import networkx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import connected_components

from trainables.contract.settings import SettingsError
from trainables.reparametrization.graphs import deaths, edges, laplacian, spanning_tree
from trainables.reparametrization.problems import CloudProblem, HeatProblem, PhaseProblem, Problem
from trainables.reparametrization.settings import (
    DiagramSettings,
    DiffusionSettings,
    GraphSettings,
    HomologySettings,
    Kind,
    RaceSettings,
    SynchronizationSettings,
)

Array = NDArray[np.float64]


@pytest.mark.parametrize("kind", ["grid", "small_world"])
@pytest.mark.parametrize("nodes", [16, 17])
def test_graphs_are_simple_symmetric_and_connected(kind: Kind, nodes: int) -> None:
    ends = edges(GraphSettings(kind), nodes, np.random.default_rng(0))
    assert (ends[:, 0] < ends[:, 1]).all()
    assert (np.unique(ends, axis=0) == ends).all()
    matrix = laplacian(ends, 1.0, nodes)
    assert matrix.shape == (nodes, nodes)
    assert abs(matrix - matrix.T).nnz == 0
    assert matrix.nnz == nodes + 2 * len(ends)
    assert set(matrix.data[matrix.data < 0]) == {-1.0}
    assert connected_components(matrix)[0] == 1
    assert np.abs(matrix.sum(axis=1)).max() < 1e-12


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (GraphSettings, {"degree": 3}, "must be even"),
        (DiagramSettings, {"deaths": 0.0}, "must be above 0"),
        (RaceSettings, {"factor": 40}, "patience is .*it must be at least factor"),
        (RaceSettings, {"tolerance": 1.0}, "must be in"),
    ],
)
def test_invalid_settings_are_refused(kind: Callable[..., object], given: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        kind(**given)


def heat(kind: Kind = "grid", nodes: int = 100, seed: int = 0) -> HeatProblem:
    return HeatProblem.drawn(DiffusionSettings(graph=GraphSettings(kind)), nodes, seed)


def phases(nodes: int = 49, seed: int = 0) -> PhaseProblem:
    return PhaseProblem.drawn(SynchronizationSettings(), nodes, seed)


def cloud(nodes: int = 40, seed: int = 0, share: float = 0.5) -> CloudProblem:
    return CloudProblem.drawn(HomologySettings(diagram=DiagramSettings(share)), nodes, seed)


MADE: dict[str, Callable[..., Problem]] = {"heat": heat, "phases": phases, "clouds": cloud}


def heights(points: Array) -> Array:
    """Return the scales at which components merge, computed from all distances."""
    return np.asarray(linkage(points, "single")[:, 2])


def energy(problem: HeatProblem, x: Array) -> float:
    return float((x.T @ (problem.hessian @ x) / 2 - problem.source.T @ x)[0, 0])


def loss(problem: Problem, x: Array) -> float:
    """Return the loss by its formula, without the problem's code."""
    if isinstance(problem, HeatProblem):
        return energy(problem, x) - energy(problem, problem.solution)
    if isinstance(problem, PhaseProblem):
        pairs = zip(problem.ends, problem.coupling, strict=True)
        return float(sum(coupling * (1 - np.cos(x[i, 0] - x[j, 0])) for (i, j), coupling in pairs))
    assert isinstance(problem, CloudProblem)
    return float(((heights(x) - problem.scale) ** 2).sum() / 2)


@pytest.mark.parametrize("name", MADE)
def test_loss_gradient_and_curvature_agree_with_the_formulas(name: str) -> None:
    problem = MADE[name]()
    excess, gradient = problem.evaluate(problem.start)
    direction = np.random.default_rng(0).standard_normal(problem.start.shape)
    bent = problem.curvature(problem.start)(direction)
    assert excess == pytest.approx(loss(problem, problem.start), rel=1e-9)
    step = 1e-4  # Small enough to keep the tree the same.
    ahead, behind = loss(problem, problem.start + step * direction), loss(problem, problem.start - step * direction)
    assert np.vdot(gradient, direction) == pytest.approx((ahead - behind) / (2 * step), rel=1e-4)
    curvature = (ahead - 2 * loss(problem, problem.start) + behind) / step**2
    assert np.vdot(bent, direction) == pytest.approx(curvature, rel=1e-3)
    if name != "clouds":  # The Hessian of a cloud has one number for each block of two by two.
        assert bent == pytest.approx(problem.hessian @ direction, rel=1e-9)
    at_solution = problem.evaluate(problem.solution)
    assert abs(at_solution[0]) < 1e-20
    assert np.abs(at_solution[1]).max() < 1e-12


@pytest.mark.parametrize("name", MADE)
def test_the_preconditioner_equals_the_diagonal_or_bounds_it(name: str) -> None:
    problem = MADE[name](nodes=16)
    shape = problem.start.shape
    product = problem.curvature(problem.start)
    diagonal = np.broadcast_to(problem.diagonal(problem.start), shape).ravel()
    exact = np.array([product(unit.reshape(shape)).ravel() @ unit for unit in np.eye(len(diagonal))])
    assert (diagonal > 0).all()
    assert (diagonal >= exact - 1e-12).all()
    if name == "heat":
        assert diagonal == pytest.approx(exact, rel=1e-12)


def test_gradients_are_exactly_zero_without_a_force() -> None:
    """Adam would turn rounding errors into full steps. At a common temperature only the neighbors of held nodes have
    a gradient."""
    problem = heat(nodes=512)
    gradient = problem.evaluate(np.zeros_like(problem.start))[1]
    assert np.count_nonzero(gradient) == np.count_nonzero(problem.source) <= 16
    assert not phases().evaluate(np.full((49, 1), 1.234))[1].any()


@pytest.mark.parametrize("kind", ["grid", "small_world"])
def test_the_heat_solution_agrees_with_a_dense_solver(kind: Kind) -> None:
    problem = heat(kind)
    exact = np.linalg.solve(problem.hessian.toarray(), problem.source[:, 0])
    assert problem.solution[:, 0] == pytest.approx(exact, rel=1e-9, abs=1e-12)
    # The maximum principle: no node is hotter or colder than all held nodes.
    low, high = problem.solution.min(), problem.solution.max()
    assert problem.held_at.min() - 1e-12 <= low < high <= problem.held_at.max() + 1e-12


def test_the_hessian_of_a_cloud_is_averaged_over_directions() -> None:
    problem = cloud(nodes=16)
    product = problem.curvature(problem.start)
    whole = np.stack([product(unit.reshape(16, 2)).ravel() for unit in np.eye(32)]).reshape(16, 2, 16, 2)
    assert problem.hessian.toarray() == pytest.approx((whole[:, 0, :, 0] + whole[:, 1, :, 1]) / 2, rel=1e-12, abs=1e-12)
    assert problem.laplacian.diagonal().sum() == 2 * 15
    assert problem.hessian.nnz <= 16 + 2 * 15


def clouds() -> dict[str, Array]:
    """Return clouds with every difficulty of a triangulation."""
    rng = np.random.default_rng(0)
    uniform = rng.random((300, 2))
    return {
        "uniform": uniform,
        "clusters": np.concatenate([rng.normal(size=(40, 2)), 30 + rng.normal(size=(40, 2))]),
        "far": 1e6 + uniform,
        "tiny": 1e-12 * uniform,
        "grid": np.stack(np.meshgrid(np.arange(7.0), np.arange(5.0)), axis=-1).reshape(-1, 2),
        "line": np.outer(rng.random(20), (1.0, 2.0)),
        "level": np.stack([np.arange(9.0) ** 2, np.zeros(9)], axis=1),
        "twice": np.concatenate([uniform[:50], uniform[:20]]),
        "nearly": np.concatenate([uniform[:50], uniform[:20] * (1 + 1e-15)]),
        "two": np.array([[0.0, 0.0], [3.0, 4.0]]),
        "one place": np.ones((5, 2)),
    }


@pytest.mark.parametrize("name", clouds())
def test_deaths_agree_with_the_heights_of_single_linkage(name: str) -> None:
    points = clouds()[name]
    expected = np.sort(heights(points))
    assert deaths(points) == pytest.approx(expected, rel=1e-9, abs=1e-12 * np.abs(points).max())


def test_a_tree_connects_all_points_and_breaks_ties_by_order() -> None:
    tree = spanning_tree(clouds()["uniform"])
    assert tree.shape == (299, 2)
    assert (tree[:, 0] < tree[:, 1]).all()
    assert networkx.is_connected(networkx.Graph(tree.tolist()))
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert deaths(square * (1.0, 2.0)).tolist() == [1.0, 1.0, 2.0]
    assert spanning_tree(square).tolist() == [[0, 1], [0, 3], [1, 2]]
