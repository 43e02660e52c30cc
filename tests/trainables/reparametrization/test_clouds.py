"""The homology problem against its formulas, and against diagrams that scipy finds from all distances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage

from tests.trainables.reparametrization.racing import finish, learner, runs
from trainables.base import Mix, SettingsError
from trainables.reparametrization.clouds import CloudInstance, CloudProblem, cloud_instance
from trainables.reparametrization.cost import Price
from trainables.reparametrization.homology import HomologySettings, PersistentHomology
from trainables.reparametrization.searching import Lbfgs
from trainables.reparametrization.settings import DiagramSettings, NetworkSettings, RaceSettings, RateSettings

CPU = torch.device("cpu")


def instance(nodes: int = 40, seed: int = 0, deaths: float = 0.5) -> CloudInstance:
    return cloud_instance(DiagramSettings(deaths), nodes, seed)


def heights(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """At which scales components merge."""
    return np.asarray(linkage(points, "single")[:, 2])


def loss(one: CloudInstance, points: NDArray[np.float64]) -> float:
    return float(((heights(points) - one.scale) ** 2).sum() / 2)


def test_what_is_asked_is_a_share_of_what_is_there() -> None:
    one = instance(deaths=0.3)
    assert one.scale == pytest.approx(0.3 * heights(one.start).mean(), rel=1e-9)
    assert heights(one.solution) == pytest.approx(np.full(39, one.scale), rel=1e-9)
    assert instance(seed=1).digest() == instance(seed=1).digest() != instance(seed=2).digest()


def test_loss_gradient_and_hessian_are_the_formulas() -> None:
    found = [instance(seed=0), instance(seed=1)]
    problem = CloudProblem(found, CPU)
    excess, gradient = problem.evaluate(problem.start())
    direction = np.random.default_rng(0).standard_normal((40, 2))
    bent = problem.curvature(problem.start())(problem.stacked([direction, direction]))
    for row, one in enumerate(found):
        assert float(excess[row]) == pytest.approx(loss(one, one.start), rel=1e-9)
        step = 1e-4  # Small enough for the tree to stay.
        ahead, behind = loss(one, one.start + step * direction), loss(one, one.start - step * direction)
        assert float((gradient[row].numpy() * direction).sum()) == pytest.approx(
            (ahead - behind) / (2 * step), rel=1e-4
        )
        curvature = (ahead - 2 * loss(one, one.start) + behind) / step**2
        assert float((bent[row].numpy() * direction).sum()) == pytest.approx(curvature, rel=1e-3)
    assert float(problem.evaluate(problem.stacked([one.solution for one in found]))[0].max()) < 1e-20


def test_the_hessian_at_the_start_is_its_mean_over_directions() -> None:
    one = instance(nodes=16)
    problem = CloudProblem([one], CPU)
    product = problem.curvature(problem.start())
    units = torch.eye(32, dtype=torch.float64).reshape(32, 1, 16, 2)
    whole = torch.stack([product(unit).flatten() for unit in units]).numpy().reshape(16, 2, 16, 2)
    assert one.hessian.toarray() == pytest.approx((whole[:, 0, :, 0] + whole[:, 1, :, 1]) / 2, rel=1e-12, abs=1e-12)
    assert one.laplacian.diagonal().sum() == 2 * 15
    assert one.hessian.nnz <= 16 + 2 * 15


def test_points_are_moved_until_all_classes_die_where_they_should() -> None:
    one = instance(nodes=60)
    method = Lbfgs(CloudProblem([one], CPU), Price(0.0, 1.0, 0.0), tolerance=1e-12)
    method.run(3000)
    assert method.arrived_S.all()
    assert heights(method.x_SND[0].numpy()) == pytest.approx(np.full(59, one.scale), rel=1e-4)
    assert heights(one.start).std() > 0.1


def homology(**network: object) -> PersistentHomology:
    settings = HomologySettings(
        rates=RateSettings(adam=0.02, rmsprop=0.005, momentum=0.05, hessian=0.05, laplacian=0.05, random=0.05),
        race=RaceSettings(steps=200, tolerance=0.05, patience=3.0, evaluate_every=50),
    )
    return PersistentHomology(replace(settings, network=NetworkSettings(**({"width": 2} | network))))  # type: ignore[arg-type]


def test_a_stack_of_races_equals_each_alone() -> None:
    family = homology(depth=1, residual="halves", train_weights=False)
    names = ("adam", "hessian", "lbfgs", "newton")
    configs = runs(family, "+".join(names), 25, [0, 1])
    together = finish(learner(family, configs))
    for index, config in enumerate(configs):
        alone = finish(learner(family, [config]))[0]
        assert together[index].accuracy == alone.accuracy
        assert together[index].data == alone.data
        for name in names:
            assert together[index].measures[f"spent_{name}"] == pytest.approx(alone.measures[f"spent_{name}"], rel=1e-9)
    assert sum(sum(outcome.accuracy.values()) for outcome in together.values()) > 0


def test_a_method_that_diverges_is_broken_and_nothing_else() -> None:
    """Clouds that fly apart along one line, and then beyond what float64 holds."""
    family = homology()
    wild = PersistentHomology(replace(family.settings, rates=replace(family.settings.rates, momentum=30.0)))
    outcome = finish(learner(wild, runs(wild, "momentum", 36, [0])))[0]
    assert outcome.accuracy == {"momentum": 0.0}
    assert not outcome.measures["arrived_momentum"]


def test_a_network_needs_a_feature_for_each_coordinate() -> None:
    flat = homology(width=1)
    with pytest.raises(SettingsError, match="lies on a line"):
        flat.check(Mix.parse("hessian+adam"), 64)
    flat.check(Mix.parse("adam"), 64)
    homology().check(Mix.parse("hessian+adam"), 64)


def test_a_share_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be above 0"):
        DiagramSettings(0.0)
