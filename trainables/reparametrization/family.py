"""Problems on sparse graphs as families: optimisers race on them, and the size is the number of nodes.

A mix is a field of rivals: ``hessian+adam`` is a race between the two on the same graph from the same start, and the
target is the method that is asked to be ahead. The score of a run is 1 or 0, so the mean over seeds is the share of
graphs on which the target is ahead, paired by graph and seed; nothing is averaged that a budget has cut short.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainables.base import Family, Learner, Mix, Parameters, RunConfig, SettingsError, Words
from trainables.described import described_fields
from trainables.reparametrization.cost import Price, conjugate_flops, direction_flops, setup_flops, step_flops
from trainables.reparametrization.graphs import FEWEST
from trainables.reparametrization.settings import METHODS, GraphRaceSettings, ReparametrizationSettings

if TYPE_CHECKING:
    from trainables.reparametrization.problems import Instance, Problem


class RaceFamily(Family):
    """Races between optimisers on a problem with a sparse graph. A subclass names itself, its ``Settings`` (a subclass
    of :class:`ReparametrizationSettings`), where its problem is, and what that costs."""

    size_axis = "nodes"
    divides_examples = False
    compares_mixes = False  # A mix is a race against rivals of its own: who is ahead there is a question by itself.
    words = Words(
        task="method",
        item="node",
        parameters="unknowns",
        run="race",
        score="share won",
        final_score="share of races won",
        learn="win",
        learned="won",
    )
    settings: ReparametrizationSettings
    numbers: ClassVar[int] = 1
    """Unknowns of a node."""

    @property
    @abstractmethod
    def problem_at(self) -> str:
        """``module:Class`` of its :class:`Problem`, imported when there is something to race: torch is for racing, not
        for reading."""

    @abstractmethod
    def graphs(self) -> str:
        """What graphs the problem is on, in a word or two."""

    @abstractmethod
    def neighbours(self) -> float:
        """Neighbours of a node in the graph of the Hessian at the start, in the mean."""

    @abstractmethod
    def evaluation_flops(self) -> float:
        """Operations, per node, of the loss with its gradient: the unit of ``counted: work``."""

    @abstractmethod
    def hessian_flops(self) -> float:
        """Operations, per node, of the entries of the Hessian where the gradient is known."""

    @abstractmethod
    def product_flops(self) -> float:
        """Operations, per node, of the Hessian's product with a direction, once its entries are known."""

    @property
    def entries(self) -> float:
        """Entries in a row of a graph's matrices, in the mean."""
        return self.neighbours() + 1

    def entries_of(self, method: str) -> float:
        """Those that a method propagates with."""
        return self.entries

    def instance(self, nodes: int, seed: int) -> Instance:
        """The problem of one run: the same for every mix."""
        return self._problem_class().drawn(self.settings, nodes, seed)

    def problem(self, instances: Sequence[Any], device: str) -> Problem:
        """The losses of a stack."""
        import torch

        return self._problem_class()(instances, torch.device(device))

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
        return f"{self.graphs()}, to {race.tolerance:g} of the first loss{by} in {race.counted}"

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
        shared = {name: value for name, value in described_fields(run.settings).items() if name != "rates"}
        described = [run.mix.tasks, shared]
        digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.size_axis}-{run.size}-{digest}"

    def memory(self, size: int) -> float:
        """Matrices three times over while they are joined, pairs of L-BFGS, features of every layer and their
        gradients."""
        network = self.settings.network
        matrices = 3 * 20 * self.entries
        pairs = 8 * 2 * 2 * 10 * self.numbers
        features = 8 * 6 * network.width * (network.depth + 2)
        return size * (2 * matrices + pairs + features)

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        from trainables.reparametrization.building import method_of
        from trainables.reparametrization.learner import Entry, RaceLearner

        instances = [self.instance(run.size, run.seed) for run in runs]
        entries = [Entry(self.key(run), run, instance.digest()) for run, instance in zip(runs, instances, strict=True)]
        problem = self.problem(instances, device)
        methods = {name: method_of(name, problem, runs, self.price) for name in runs[0].mix.tasks}
        return RaceLearner(entries, self.settings.race, methods)

    def price(self, method: str) -> Price:
        """What a method pays, in units of the race."""
        if self.settings.race.counted == "steps":
            return Price(0.0, 1.0, 0.0, 1.0)
        unit = self.evaluation_flops()
        beyond = (self._flops_a_step(method) - unit) / unit
        product = (self.product_flops() + conjugate_flops(self.numbers)) / unit
        return Price(setup_flops(method, self.hessian_flops(), self.entries_of(method)) / unit, 1.0, beyond, product)

    def _flops_a_step(self, method: str) -> float:
        """Operations of a step, per node, with one look; of Newton's without its products."""
        unit = self.evaluation_flops()
        if method == "lbfgs":
            return unit + direction_flops(self.numbers)
        if method == "newton":
            return unit + self.hessian_flops()
        return step_flops(method, self.settings.network, unit, self.entries_of(method), self.numbers)

    def _problem_class(self) -> type[Problem]:
        module, _, name = self.problem_at.partition(":")
        found: type[Problem] = getattr(importlib.import_module(module), name)
        return found


class GraphRaceFamily(RaceFamily):
    """Races on a problem whose graph is given."""

    settings: GraphRaceSettings

    def graphs(self) -> str:
        return self.settings.graph.kind

    def neighbours(self) -> float:
        return self.settings.graph.neighbours
