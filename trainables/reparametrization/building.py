"""A method by its name, at the start of a stack of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from trainables.base import RunConfig
from trainables.reparametrization.cost import Price
from trainables.reparametrization.methods import Descent, Method
from trainables.reparametrization.network import Network, initial, propagation
from trainables.reparametrization.problems import Problem, rng_of
from trainables.reparametrization.searching import Lbfgs, Newton
from trainables.reparametrization.settings import REPARAMETRIZED, ReparametrizationSettings
from trainables.reparametrization.switching import Switching

SEARCHING: dict[str, type[Method]] = {"lbfgs": Lbfgs, "newton": Newton}


def method_of(name: str, problem: Problem, runs: Sequence[RunConfig], price: Callable[[str], Price]) -> Method:
    """The method ``name`` on the runs of a stack, whose settings differ in rates alone; ``price`` says what a method
    pays."""
    settings: ReparametrizationSettings = runs[0].settings
    tolerance = settings.race.tolerance
    if name in SEARCHING:
        return SEARCHING[name](problem, price(name), tolerance)
    rates = [run.settings.rates.of(name) for run in runs]
    if name not in REPARAMETRIZED:
        return Descent(problem, price(name), tolerance, name, rates)
    asked = settings.network
    network, parameters_SP = _network(name, problem, runs)
    if not asked.switch_after:
        return Descent(problem, price(name), tolerance, asked.optimizer, rates, network, parameters_SP)
    plain = [run.settings.rates.of(asked.optimizer) for run in runs]
    prices = price(name), price(asked.optimizer)
    return Switching(problem, prices, tolerance, asked, (rates, plain), network, parameters_SP)


def _network(rule: str, problem: Problem, runs: Sequence[RunConfig]) -> tuple[Network, Tensor]:
    """The networks of a stack and their first parameters [S, P], which do not depend on the rule."""
    settings = runs[0].settings.network
    numbers = problem.instances[0].start.shape[1]
    matrices: list[Any] = []
    parameters = []
    for instance, run in zip(problem.instances, runs, strict=True):
        nodes = len(instance.start)
        shuffle = rng_of("shuffle", nodes, run.seed)
        matrices.append(propagation(rule, instance, settings, shuffle))
        parameters.append(initial(settings, nodes, numbers, rng_of("network", nodes, run.seed)))
    return Network(settings, matrices, numbers, problem.device), problem.stacked(parameters)
