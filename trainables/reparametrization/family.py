"""Problems on sparse graphs as families: optimisers race on them, and the size is the number of nodes.

A mix is a field of rivals: ``hessian+adam`` is a race between the two on the same graph from the same start, and the
target is the method that is asked to be ahead. The score of a run is 1 or 0, so the mean over seeds is the share of
graphs on which the target is ahead, paired by graph and seed; nothing is averaged that a budget has cut short.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainables.base import Family, Learner, Mix, Parameters, RunConfig, SettingsError, Words
from trainables.reparametrization.cost import direction_flops, setup_flops, step_flops
from trainables.reparametrization.graphs import FEWEST
from trainables.reparametrization.settings import METHODS, REPARAMETRIZED, ReparametrizationSettings

if TYPE_CHECKING:
    from trainables.reparametrization.methods import Method, Price
    from trainables.reparametrization.problems import Instance, Problem


class RaceFamily(Family):
    """Races between optimisers on a problem on graphs. A subclass names itself, its ``Settings`` (a subclass of
    :class:`ReparametrizationSettings`) and says what its problem is."""

    size_axis = "nodes"
    divides_examples = False
    words = Words(task="method", item="node", parameters="unknowns")
    settings: ReparametrizationSettings
    numbers: ClassVar[int] = 1
    """Unknowns of a node."""

    @abstractmethod
    def evaluation_flops(self) -> float:
        """Operations, per node, of the loss with its gradient: the unit of ``counted: work``."""

    @abstractmethod
    def hessian_flops(self) -> float:
        """Operations, per node, of the Hessian at the start."""

    @abstractmethod
    def instance(self, nodes: int, seed: int) -> Instance:
        """The problem of one run: the same for every mix."""

    @abstractmethod
    def problem(self, instances: Sequence[Any], device: str) -> Problem:
        """The losses of a stack."""

    def tasks(self) -> tuple[str, ...]:
        return METHODS

    def check(self, mix: Mix, size: int) -> None:
        if size < FEWEST:
            raise SettingsError(
                f"a graph of {size} nodes cannot be raced on; it must have at least {FEWEST}",
                key="sizes",
                given=str(size),
            )
        if max(mix.ratios.values()) > 1:
            raise SettingsError(f"all methods of a race count alike; {mix} weighs them", key="mixes")

    def subject(self) -> str:
        race = self.settings.race
        by = f", by {race.factor:g}x" if race.factor > 1 else ""
        return f"{self.settings.graph.kind}, to {race.tolerance:g} of the first loss{by} in {race.counted}"

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        if self.settings.race.counted == "work":
            return []
        return ["Steps are counted alike whatever they cost: a step through a network costs several plain ones."]

    def parameters(self, size: float) -> Parameters:
        unknowns = self.numbers * size
        return Parameters(unknowns, unknowns)

    def scaled(self, steps: float, examples: float) -> Any:
        race = self.settings.race
        return replace(self.settings, race=replace(race, steps=max(1, round(race.steps * steps))))

    def steps(self, run: RunConfig) -> int:
        settings: ReparametrizationSettings = run.settings
        return settings.race.steps

    def flops(self, run: RunConfig) -> float:
        settings: ReparametrizationSettings = run.settings
        each = {name: self._flops_a_step(name) for name in run.mix.tasks}
        unit = self.evaluation_flops()
        a_step = [flops if settings.race.counted == "steps" else unit for flops in each.values()]
        return settings.race.steps * sum(a_step) * run.size

    def shape(self, run: RunConfig) -> str:
        shared = {name: value for name, value in asdict(run.settings).items() if name != "rates"}
        described = [run.mix.tasks, shared]
        digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.size_axis}-{run.size}-{digest}"

    def precision(self) -> str:
        return "float64"

    def memory(self, size: int) -> float:
        """Matrices three times over while they are joined, pairs of L-BFGS, features of every layer and their
        gradients."""
        network = self.settings.network
        matrices = 3 * 20 * self._entries
        pairs = 8 * 2 * 2 * 10 * self.numbers
        features = 8 * 6 * network.width * (network.depth + 2)
        return size * (2 * matrices + pairs + features)

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        from trainables.reparametrization.learner import Entry, RaceLearner  # torch is for racing, not for reading

        instances = [self.instance(run.size, run.seed) for run in runs]
        entries = [Entry(self.key(run), run, instance.digest()) for run, instance in zip(runs, instances, strict=True)]
        problem = self.problem(instances, device)
        methods = {name: self._method(name, problem, runs) for name in runs[0].mix.tasks}
        return RaceLearner(entries, self.settings.race, methods)

    def _method(self, name: str, problem: Problem, runs: Sequence[RunConfig]) -> Method:
        from trainables.reparametrization.methods import Descent, Lbfgs

        price, tolerance = self._price(name), self.settings.race.tolerance
        if name == "lbfgs":
            return Lbfgs(problem, price, tolerance)
        rates = [run.settings.rates.of(name) for run in runs]
        if name not in REPARAMETRIZED:
            return Descent(problem, price, tolerance, name, rates)
        network, parameters_SP = self._network(name, problem, [run.seed for run in runs])
        return Descent(problem, price, tolerance, self.settings.network.optimizer, rates, network, parameters_SP)

    def _network(self, rule: str, problem: Problem, seeds: Sequence[int]) -> tuple[Any, Any]:
        """The networks of a stack and their first parameters [S, P], which do not depend on the rule."""
        from trainables.reparametrization.network import Network, initial, propagation
        from trainables.reparametrization.problems import rng_of

        settings = self.settings.network
        matrices, parameters = [], []
        for instance, seed in zip(problem.instances, seeds, strict=True):
            nodes = len(instance.start)
            shuffle = rng_of("shuffle", nodes, seed)
            matrices.append(propagation(rule, instance, settings, shuffle))
            parameters.append(initial(settings, nodes, self.numbers, rng_of("network", nodes, seed)))
        return Network(settings, matrices, self.numbers, problem.device), problem.stacked(parameters)

    def _price(self, method: str) -> Price:
        """What a method pays, in units of the race."""
        from trainables.reparametrization.methods import Price

        if self.settings.race.counted == "steps":
            return Price(0.0, 1.0, 0.0)
        unit = self.evaluation_flops()
        beyond = (self._flops_a_step(method) - unit) / unit
        return Price(setup_flops(method, self.hessian_flops(), self._entries) / unit, 1.0, beyond)

    def _flops_a_step(self, method: str) -> float:
        """Operations of a step, per node; for L-BFGS with one look."""
        unit = self.evaluation_flops()
        if method == "lbfgs":
            return unit + direction_flops(self.numbers)
        return step_flops(method, self.settings.network, unit, self._entries, self.numbers)

    @property
    def _entries(self) -> float:
        """Entries in a row of a graph's matrices, in the mean."""
        return self.settings.graph.neighbours + 1
