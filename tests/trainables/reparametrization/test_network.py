"""The network's gradients, and its propagation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainables.reparametrization.heat import HeatInstance, heat_instance
from trainables.reparametrization.network import Network, initial, propagation, series
from trainables.reparametrization.settings import GraphSettings, HeatSettings, NetworkSettings, Residual

CPU = torch.device("cpu")
RNG = np.random.default_rng


def instances(count: int = 2, spread: float = 1.0) -> list[HeatInstance]:
    return [heat_instance(GraphSettings(), HeatSettings(spread=spread), 36, seed) for seed in range(count)]


def network(settings: NetworkSettings, numbers: int = 1) -> tuple[Network, torch.Tensor]:
    matrices = [propagation("hessian", one, settings, RNG(0)) for one in instances()]
    parameters = [initial(settings, 32, numbers, RNG(seed)) for seed in range(2)]
    return Network(settings, matrices, numbers, CPU), torch.from_numpy(np.stack(parameters))


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("residual", ["halves", "series"])
def test_the_pullback_is_the_gradient(trained: bool, residual: Residual) -> None:
    settings = NetworkSettings(width=3, depth=2, residual=residual, train_weights=trained)
    net, parameters = network(settings, numbers=2)
    assert parameters.shape[1] == 32 * 3 + (2 * 9 + 6 if trained else 0)
    assert torch.autograd.gradcheck(net, parameters.requires_grad_(), fast_mode=True)
    output, pullback = net.output_and_pullback(parameters)
    towards = torch.randn(output.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (expected,) = torch.autograd.grad(net(parameters), parameters, towards)
    torch.testing.assert_close(pullback(towards), expected)


@pytest.mark.parametrize("residual", ["halves", "series"])
def test_it_is_a_polynomial_in_the_hessian_with_weights_or_without(residual: Residual) -> None:
    """``((2 - H) / 2)^3``, or three terms of ``H^-1/2``, with H scaled."""
    bare = NetworkSettings(width=2, depth=3, residual=residual)
    net, parameters = network(bare, numbers=2)
    one = instances()[0]
    roots = np.sqrt(np.abs(one.hessian.toarray()).sum(axis=1))
    scaled = one.hessian.toarray() / np.outer(roots, roots)
    p = np.eye(32) - scaled
    powers = [np.linalg.matrix_power(p, power) for power in range(4)]
    summed = sum(share * power for share, power in zip(series(3), powers, strict=True))
    whole = summed if residual == "series" else np.linalg.matrix_power((np.eye(32) + p) / 2, 3)
    expected = whole @ parameters[0].numpy().reshape(32, 2)
    assert net(parameters)[0].numpy() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    weighted, more = network(NetworkSettings(width=2, depth=3, residual=residual, train_weights=True), numbers=2)
    torch.testing.assert_close(weighted(more), net(parameters))


def test_its_series_is_an_inverse_square_root() -> None:
    """Of the scaled Hessian, but for a factor: to 2 % on the upper three quarters of its spectrum, with 40 layers."""
    scaled = np.eye(32) - propagation("hessian", instances()[0], NetworkSettings(residual="series"), RNG(0)).toarray()
    values = np.linalg.eigvalsh(scaled)
    gains = sum(share * (1 - values) ** power for power, share in enumerate(series(40))) * np.sqrt(values)
    upper = values > np.quantile(values, 0.25)
    assert gains[upper] == pytest.approx(np.full(upper.sum(), gains[-1]), rel=0.02)


def test_chance_has_the_same_spectrum_about_another_graph() -> None:
    (one,) = instances(1)
    true, chance = (propagation(rule, one, NetworkSettings(), RNG(0)) for rule in ("hessian", "random"))
    spectrum = np.linalg.eigvalsh(true.toarray())
    assert spectrum == pytest.approx(np.linalg.eigvalsh(chance.toarray()), abs=1e-12)
    assert spectrum[0] > -1e-9
    assert spectrum[-1] < 1
    assert abs(true - chance).max() > 0.1


def test_the_laplacians_propagation_knows_no_conductances() -> None:
    (plain,), (spread,) = instances(1, 0.0), instances(1, 2.0)
    assert abs(plain.hessian - spread.hessian).max() > 1
    first, second = (propagation("laplacian", one, NetworkSettings(), RNG(0)) for one in (plain, spread))
    assert abs(first - second).max() == 0
