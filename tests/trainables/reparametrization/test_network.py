"""The network's gradients and its propagation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime

from tests.trainables.reparametrization.racing import heat
from trainables.reparametrization.network import Network, propagation, series
from trainables.reparametrization.problems import Problem
from trainables.reparametrization.settings import NetworkSettings, Residual

RNG = np.random.default_rng
Array = NDArray[np.float64]


def problem(seed: int = 0, spread: float = 1.0) -> Problem:
    """Return a problem of 32 free nodes."""
    return heat(heat={"spread": spread}).problem(36, seed)


def network(settings: NetworkSettings, numbers: int = 2) -> tuple[Network, Array]:
    """Return a network from the Hessian and its features."""
    made = Network(settings, propagation("hessian", problem(), settings, RNG(0)), numbers, RNG(1))
    return made, RNG(0).standard_normal(32 * settings.width)


@pytest.mark.parametrize("residual", ["halves", "series"])
def test_the_pullback_is_the_gradient(residual: Residual) -> None:
    net, parameters = network(NetworkSettings(width=3, depth=2, residual=residual))
    towards = RNG(2).standard_normal((32, 2))
    expected = approx_fprime(parameters, lambda at: np.vdot(net(at), towards))
    assert net.pullback(towards) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("residual", ["halves", "series"])
def test_the_network_is_a_polynomial_in_the_hessian(residual: Residual) -> None:
    """The polynomial is ``((2 - H) / 2)^3`` or three terms of ``H^-1/2``, with H scaled."""
    net, parameters = network(NetworkSettings(width=2, depth=3, residual=residual))
    hessian = problem().hessian.toarray()
    roots = np.sqrt(np.abs(hessian).sum(axis=1))
    p = np.eye(32) - hessian / np.outer(roots, roots)
    powers = [np.linalg.matrix_power(p, power) for power in range(4)]
    summed = sum(share * power for share, power in zip(series(3), powers, strict=True))
    whole = summed if residual == "series" else np.linalg.matrix_power((np.eye(32) + p) / 2, 3)
    assert net(parameters) == pytest.approx(whole @ parameters.reshape(32, 2), rel=1e-9, abs=1e-12)


def test_the_random_control_has_the_same_spectrum_on_another_graph() -> None:
    true, chance = (propagation(rule, problem(), NetworkSettings(), RNG(0)) for rule in ("hessian", "random"))
    spectrum = np.linalg.eigvalsh(true.toarray())
    assert spectrum == pytest.approx(np.linalg.eigvalsh(chance.toarray()), abs=1e-12)
    assert spectrum[0] > -1e-9
    assert spectrum[-1] < 1
    assert abs(true - chance).max() > 0.1
