"""The network's gradients, and what it propagates with."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainables.reparametrization.graphs import GraphSettings
from trainables.reparametrization.heat import HeatInstance, heat_instance
from trainables.reparametrization.network import Network, count_parameters, initial, propagation
from trainables.reparametrization.settings import Activation, HeatSettings, NetworkSettings, Residual, Scale

CPU = torch.device("cpu")


def instances(count: int = 2, nodes: int = 36) -> list[HeatInstance]:
    return [heat_instance(GraphSettings(), HeatSettings(), nodes, seed) for seed in range(count)]


def network(settings: NetworkSettings, numbers: int = 1) -> tuple[Network, torch.Tensor]:
    found = instances()
    nodes = len(found[0].start)
    matrices = [propagation("hessian", one, settings, np.random.default_rng(0)) for one in found]
    parameters = [initial(settings, nodes, numbers, np.random.default_rng(seed)) for seed in range(2)]
    return Network(settings, matrices, numbers, CPU), torch.from_numpy(np.stack(parameters))


@pytest.mark.parametrize("activation", ["none", "tanh"])
@pytest.mark.parametrize("residual", ["none", "halves", "series"])
def test_the_pullback_is_the_gradient(activation: Activation, residual: Residual) -> None:
    settings = NetworkSettings(width=3, depth=2, residual=residual, activation=activation)
    net, parameters = network(settings, numbers=2)
    assert torch.autograd.gradcheck(net, parameters.requires_grad_(), fast_mode=True)
    output, pullback = net.output_and_pullback(parameters)
    towards = torch.randn(output.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (expected,) = torch.autograd.grad(net(parameters), parameters, towards)
    torch.testing.assert_close(pullback(towards), expected)


def test_weights_that_are_not_trained_have_no_gradient() -> None:
    settings = NetworkSettings(width=3, train_weights=False)
    net, parameters = network(settings)
    output, pullback = net.output_and_pullback(parameters)
    gradient = pullback(torch.ones_like(output))
    features = 3 * output.shape[1]
    assert (gradient[:, features:] == 0).all()
    assert (gradient[:, :features] != 0).any()
    assert gradient.shape[1] == count_parameters(settings, output.shape[1], 1)


def test_it_begins_as_an_inverse_square_root() -> None:
    """Of the scaled Hessian, but for a factor: to 2 % on the upper three quarters of its spectrum, with 40 layers."""
    settings = NetworkSettings(width=1, depth=40)
    net, parameters = network(settings)
    one = instances()[0]
    nodes = len(one.start)
    scaled = np.eye(nodes) - propagation("hessian", one, settings, np.random.default_rng(0)).toarray()
    values, vectors = np.linalg.eigh(scaled)
    features = torch.from_numpy(vectors.T.copy())  # Each eigenvector as the features of one network.
    outputs = []
    for feature in features:
        mine = parameters.clone()
        mine[0, :nodes] = feature
        outputs.append(float(feature @ net(mine)[0, :, 0].detach() * parameters[0, -1]))
    gains = np.array(outputs) * np.sqrt(values)
    upper = values > np.quantile(values, 0.25)
    assert gains[upper] == pytest.approx(np.full(upper.sum(), gains[-1]), rel=0.02)


def test_halves_stay_between_nothing_and_all() -> None:
    """``((1 + P) / 2) ** depth`` on the features, read out with a sign."""
    settings = NetworkSettings(width=1, depth=3, residual="halves")
    net, parameters = network(settings)
    one = instances()[0]
    nodes = len(one.start)
    layer = (np.eye(nodes) + propagation("hessian", one, settings, np.random.default_rng(0)).toarray()) / 2
    expected = np.linalg.matrix_power(layer, 3) @ parameters[0, :nodes].numpy() * float(parameters[0, -1])
    assert net(parameters)[0, :, 0].numpy() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scale", ["bound", "degree"])
def test_propagation_is_largest_where_the_hessian_is_smallest(scale: Scale) -> None:
    (one,) = instances(1)
    settings = NetworkSettings(scale=scale)
    matrix = propagation("hessian", one, settings, np.random.default_rng(0)).toarray()
    values, vectors = np.linalg.eigh(matrix)
    assert values[0] > -1e-9
    assert values[-1] < 1
    curvature = np.einsum("ni,nm,mi->i", vectors, one.hessian.toarray(), vectors)
    assert curvature[-1] < 0.1 * curvature[0]


def test_chance_has_the_same_spectrum_about_another_graph() -> None:
    (one,) = instances(1)
    settings = NetworkSettings()
    true, chance = (propagation(rule, one, settings, np.random.default_rng(0)) for rule in ("hessian", "random"))
    assert np.linalg.eigvalsh(chance.toarray()) == pytest.approx(np.linalg.eigvalsh(true.toarray()), abs=1e-12)
    assert abs(true - chance).max() > 0.1


def test_the_laplacians_propagation_knows_no_conductances() -> None:
    settings = NetworkSettings()
    graph = GraphSettings()
    plain, spread = (heat_instance(graph, HeatSettings(spread=spread), 36, 0) for spread in (0.0, 2.0))
    rng = np.random.default_rng(0)
    assert plain.hessian.nnz == spread.hessian.nnz
    assert abs(plain.hessian - spread.hessian).max() > 1
    assert (
        abs(propagation("laplacian", plain, settings, rng) - propagation("laplacian", spread, settings, rng)).max() == 0
    )
