"""Problems on sparse graphs as families: optimizers race on them, and the size is the number of nodes.

The mix ``hessian+adam`` is a race between these methods on the same graph from the same start. A run's score is 1 if
the target is ahead, otherwise 0. The mean over seeds is therefore the share of graphs on which it is ahead.

Operations are counted from formulas, per node. Additions, multiplications, divisions and roots count as 1. A sine or
cosine counts as :data:`SINE`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from trainables.base import Family, Learner, Mix, Parameters, RunConfig, Words
from trainables.contract.settings import described_fields, digest_of, require
from trainables.reparametrization.methods import Price, method_of
from trainables.reparametrization.problems import CloudProblem, HeatProblem, PhaseProblem, Problem
from trainables.reparametrization.settings import (
    FEWEST_NODES,
    HISTORY,
    METHODS,
    REPARAMETRIZED,
    DiffusionSettings,
    HomologySettings,
    ReparametrizationSettings,
    SynchronizationSettings,
)

SINE = 10
"""Operations of a sine or cosine."""
UPDATE = {"momentum": 4, "adam": 13}
"""Operations of an optimizer's update (methods.py), per parameter."""
LOSS = 3
"""Operations per number of a quadratic loss with known gradient: a sum, a product, and the total sum."""


class Operations(NamedTuple):
    """Operations of a problem, per node.

    Attributes:
        entries: Mean number of entries per row of a matrix.
        evaluation: Operations of the loss and its gradient, the unit of work.
        hessian: Operations of the Hessian.
        product: Operations of the product of the Hessian with a direction.
    """

    entries: float
    evaluation: float
    hessian: float
    product: float


class RaceFamily(Family):
    """Races between optimizers on a problem with a sparse graph."""

    size_axis = "nodes"
    compares_mixes = False  # Each mix is a separate question: which method is ahead of these rivals?
    words = Words(
        size="graph size",
        task="method",
        item="node",
        parameters="unknowns",
        run="race",
        score="share won",
        final_score="share of races won",
        learned="won",
    )
    settings: ReparametrizationSettings
    problem_class: ClassVar[type[Problem]]

    @property
    @abstractmethod
    def operations(self) -> Operations:
        """Operations of the problem, from its formulas."""

    def problem(self, nodes: int, seed: int) -> Problem:
        """Return the problem on a graph of this size and seed."""
        return self.problem_class.drawn(self.settings, nodes, seed)

    def tasks(self) -> tuple[str, ...]:
        return METHODS

    def check(self, mix: Mix, size: int) -> None:
        require(size >= FEWEST_NODES, "sizes", size, f"at least {FEWEST_NODES} nodes")
        numbers = self.problem_class.numbers
        width = self.settings.network.width
        require(width >= numbers, "settings.network.width", width, f"at least {numbers}, one for each coordinate")

    def subject(self) -> str:
        race = self.settings.race
        graph = getattr(self.settings, "graph", None)
        graphs = graph.kind if graph else "clouds of points"
        by = f", by {race.factor:g}x" if race.factor > 1 else ""
        return f"{graphs}, to {race.tolerance:g} of the first loss{by} in {race.counted}"

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        note = "All steps count alike, although a step through a network costs as much as several plain steps."
        return [note] if self.settings.race.counted == "steps" else []

    def parameters(self, size: float) -> Parameters:
        unknowns = self.problem_class.numbers * size
        return Parameters(unknowns, unknowns)

    def scaled(self, steps: float, examples: float) -> Any:
        race = self.settings.race
        return replace(self.settings, race=replace(race, steps=max(1, round(race.steps * steps))))

    def steps(self, run: RunConfig) -> int:
        return int(run.settings.race.steps)

    def flops(self, run: RunConfig) -> float:
        unit = self.operations.evaluation
        by_steps = run.settings.race.counted == "steps"
        a_step = [unit + self._step_flops(name) if by_steps else unit for name in run.mix.tasks]
        return float(run.settings.race.steps * sum(a_step) * run.size)

    def shape(self, run: RunConfig) -> str:
        shared = {name: value for name, value in described_fields(run.settings).items() if name != "rates"}
        return f"{self.size_axis}-{run.size}-{digest_of([run.mix.tasks, shared])[:8]}"

    def memory(self, size: int) -> float:
        """Count the bytes of matrices (three times), pairs of L-BFGS, features of all layers with gradients, and a
        triangulation. A triangulation of 10^5 points took 65 MB."""
        network = self.settings.network
        problem = self.problem_class
        arrays = 4 * HISTORY * problem.numbers + 6 * network.width * (network.depth + 2)
        triangulation = 1000 if problem is CloudProblem else 0
        return size * (2 * 3 * 20 * self.operations.entries + 8 * arrays + triangulation)

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        # Imported here because it loads torch (for checkpoints), which planning does not need.
        from trainables.reparametrization.learner import Race, RaceLearner

        races = []
        for run in runs:
            family = type(self)(run.settings)  # A recipe or a longer budget differs from the family's settings.
            problem = family.problem(run.size, run.seed)
            methods = {name: method_of(name, problem, run, family.price(name)) for name in run.mix.tasks}
            races.append(Race(family.key(run), problem.digest(), methods))
        return RaceLearner(races, runs[0].settings.race)

    def price(self, method: str) -> Price:
        """Return a method's prices, in units of the race.

        On a quadratic loss, conjugate gradients do not need an evaluation: the product also gives the new gradient.
        """
        numbers = self.problem_class.numbers
        known = method == "cg" and self.problem_class.quadratic
        if self.settings.race.counted == "steps":
            return Price(0.0, 0.0 if known else 1.0, 0.0, 1.0)
        entries, unit, hessian, product = self.operations
        # A network computes the Hessian, its scale, the propagation, and the first output.
        setup = hessian + 4 * entries + self._forward_flops() if method in REPARAMETRIZED else 0.0
        # Conjugate gradients take a product, and two inner products and three sums per number.
        product += 10 * numbers
        evaluation = LOSS * numbers if known else unit
        return Price(setup / unit, evaluation / unit, self._step_flops(method) / unit, product / unit)

    def _step_flops(self, method: str) -> float:
        """Return the operations of a step, per node, in addition to its evaluation and its products."""
        hessian = self.operations.hessian
        numbers = self.problem_class.numbers
        if method in REPARAMETRIZED:
            return 2 * self._forward_flops() + numbers + self.settings.network.width * UPDATE["adam"]
        return {
            "newton": hessian,
            "cg": hessian + 3 * numbers,  # Jacobi's preconditioner, and the previous direction's share.
            # Two loops over the pairs, with an inner product and a sum in each, and a new pair.
            "lbfgs": numbers * (8 * HISTORY + 8),
            **{name: numbers * update for name, update in UPDATE.items()},
        }[method]

    def _forward_flops(self) -> float:
        network = self.settings.network
        numbers = self.problem_class.numbers
        width = network.width
        layer = 2 * width * (self.operations.entries + (network.residual == "series"))
        return network.depth * layer + (2 * width * numbers if width > numbers else 0)


class HeatDiffusion(RaceFamily):
    """Races to the steady temperatures of a graph (reparametrization/problems.py)."""

    name = "heat_diffusion"
    version = 2
    problem_class = HeatProblem
    Settings = DiffusionSettings
    settings: DiffusionSettings

    @property
    def operations(self) -> Operations:
        # A product takes one multiplication and one addition per entry. The gradient also subtracts the source.
        entries = self.settings.graph.neighbors + 1
        return Operations(entries, 2 * entries + 1 + LOSS, 0.0, 2 * entries)


class Synchronization(RaceFamily):
    """Races to a common phase (reparametrization/problems.py)."""

    name = "synchronization"
    version = 2
    problem_class = PhaseProblem
    Settings = SynchronizationSettings
    settings: SynchronizationSettings

    @property
    def operations(self) -> Operations:
        # Per edge. Loss and gradient: a difference, its half, a sine, a cosine, the edge's loss, its sum, and sums at
        # both ends. Hessian: a cosine and three others. Its product: a difference, its factor, and sums at both ends.
        neighbors = self.settings.graph.neighbors
        edges = neighbors / 2
        return Operations(neighbors + 1, edges * (4 + 2 * SINE + 4 + 3 + 4), edges * (SINE + 3), edges * 4)


class PersistentHomology(RaceFamily):
    """Races to a cloud of points with a given persistence diagram (reparametrization/problems.py)."""

    name = "persistent_homology"
    version = 2
    problem_class = CloudProblem
    Settings = HomologySettings
    settings: HomologySettings

    @property
    def operations(self) -> Operations:
        # For each of a point's three edges in the triangulation (Euler's maximum) the loss takes a squared distance
        # with a comparison (5) and an in-circle test (29), without sorting and joining. Per edge of the tree, loss: a
        # difference, its length, its distance from the scale, the loss, both ends' sums; Hessian: its entry, both ends'
        # sums; its product: a difference, the part along the edge, the rest, both ends' sums.
        evaluation = 3 * (5 + 29) + 2 + 4 + 1 + 2 + 3 + 4
        return Operations(3.0, evaluation, 3 + 2, 2 + 5 + 2 + 2 + 2 + 4)
