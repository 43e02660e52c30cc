"""Problems on sparse graphs as families: optimisers race on them, and the size is the number of nodes.

A mix is a field of rivals: ``hessian+adam`` is a race between the two on the same graph from the same start, and the
target is the method that is asked to be ahead. The score of a run is 1 or 0, so the mean over seeds is the share of
graphs on which the target is ahead, paired by graph and seed; no mean is taken of numbers that a budget has cut short.

Operations are counted from formulas, per node of the graph: additions, multiplications, divisions and roots count as
one, a sine or cosine as :data:`SINE`. A product with the identity is none: a network has no readout to multiply with,
unless it has more features than numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from trainables.base import Family, Learner, Mix, Parameters, RunConfig, SettingsError, Words
from trainables.contract.settings import described_fields, digest_of
from trainables.reparametrization.methods import Price, method_of
from trainables.reparametrization.problems import CloudProblem, HeatProblem, PhaseProblem, Problem
from trainables.reparametrization.settings import (
    FEWEST,
    HISTORY,
    METHODS,
    PLANE,
    REPARAMETRIZED,
    DiffusionSettings,
    HomologySettings,
    ReparametrizationSettings,
    SynchronizationSettings,
)

SINE = 10
UPDATE = {"momentum": 4, "adam": 13}
"""An optimiser's update (methods.py), for a parameter."""
LOSS = 3
"""Of a quadratic whose gradient is known, for a number: a sum, a product and the sum over all."""


@dataclass(frozen=True)
class Operations:
    """Operations of a problem, per node: of the loss with its gradient (``evaluation``, the unit of ``counted: work``),
    of the entries of the ``hessian`` after the gradient, and of its ``product`` with a direction once they are known.
    ``entries`` are those in a row of a graph's matrices, in the mean."""

    entries: float
    evaluation: float
    hessian: float
    product: float


class RaceFamily(Family):
    """Races between optimisers on a problem with a sparse graph. A subclass has a name, its ``Settings`` (a subclass of
    :class:`ReparametrizationSettings`), its problem, and the problem's operations."""

    size_axis = "nodes"
    divides_examples = False
    compares_mixes = False  # Each mix is a question of its own: who is ahead of these rivals?
    words = Words(
        size="graph size",
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
    quadratic: ClassVar[bool] = False
    """True if the loss is quadratic: the gradient then follows from products with the Hessian."""
    problem_class: ClassVar[type[Problem]]

    @abstractmethod
    def graphs(self) -> str:
        """The problem's graphs, in a word or two."""

    @abstractmethod
    def operations(self) -> Operations:
        """Operations of the problem, from its formulas."""

    def problem(self, nodes: int, seed: int) -> Problem:
        """The problem of one run: the same for every mix."""
        return self.problem_class.drawn(self.settings, nodes, seed)

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
        unit, by_steps = self.operations().evaluation, settings.race.counted == "steps"
        a_step = [unit + self._step_flops(name) if by_steps else unit for name in run.mix.tasks]
        return settings.race.steps * sum(a_step) * run.size

    def shape(self, run: RunConfig) -> str:
        shared = {name: value for name, value in described_fields(run.settings).items() if name != "rates"}
        return f"{self.size_axis}-{run.size}-{digest_of([run.mix.tasks, shared])[:8]}"

    def memory(self, size: int) -> float:
        """Matrices three times over, pairs of L-BFGS, features of every layer and their gradients."""
        network = self.settings.network
        matrices = 3 * 20 * self.operations().entries
        pairs = 8 * 2 * 2 * HISTORY * self.numbers
        features = 8 * 6 * network.width * (network.depth + 2)
        return size * (2 * matrices + pairs + features)

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        # Imported late: it writes checkpoints with torch, which planning needs not.
        from trainables.reparametrization.learner import Race, RaceLearner

        races = []
        for run in runs:
            own = type(self)(run.settings)  # A recipe or a longer budget differs from the family's settings.
            problem = own.problem(run.size, run.seed)
            methods = {name: method_of(name, problem, run, own.price(name)) for name in run.mix.tasks}
            races.append(Race(own.key(run), problem.digest(), methods))
        return RaceLearner(races, runs[0].settings.race)

    def price(self, method: str) -> Price:
        """A method's prices, in units of the race. On a quadratic loss conjugate gradients need no look: the product
        that makes their step moves the gradient, too."""
        known = method == "cg" and self.quadratic
        if self.settings.race.counted == "steps":
            return Price(0.0, 0.0 if known else 1.0, 0.0, 1.0)
        own, setup = self.operations(), 0.0
        unit = own.evaluation
        if method in REPARAMETRIZED:  # The Hessian, its scale, the propagation, and the network's first output.
            setup = own.hessian + 4 * own.entries + self._forward_flops()
        # Conjugate gradients beside a product: two inner products and three sums a number.
        product = own.product + 10 * self.numbers
        look = LOSS * self.numbers if known else unit
        return Price(setup / unit, look / unit, self._step_flops(method) / unit, product / unit)

    def _step_flops(self, method: str) -> float:
        """Operations of a step, per node, beyond one look and the products it pays for."""
        network = self.settings.network
        if method == "newton":
            return self.operations().hessian
        if method == "cg":  # Jacobi's preconditioner, and the share of the last direction.
            return self.operations().hessian + 3 * self.numbers
        if method == "lbfgs":  # Two loops over its pairs, an inner product and a sum in each, and a new pair.
            return self.numbers * (8 * HISTORY + 8)
        if method not in REPARAMETRIZED:
            return self.numbers * UPDATE[method]
        return 2 * self._forward_flops() + self.numbers + network.width * UPDATE["adam"]

    def _forward_flops(self) -> float:
        """Operations of a network's output, per node; its gradient takes each of its products again."""
        network = self.settings.network
        width = network.width
        layer = 2 * self.operations().entries * width
        if network.residual == "series":
            layer += 2 * width
        reads = width > self.numbers
        return network.depth * layer + (2 * width * self.numbers if reads else 0)


class HeatDiffusion(RaceFamily):
    """Races to the temperatures at which heat stands still (problems.py)."""

    name = "heat_diffusion"
    version = 2
    quadratic = True
    problem_class = HeatProblem
    Settings = DiffusionSettings
    settings: DiffusionSettings

    def graphs(self) -> str:
        return self.settings.graph.kind

    def operations(self) -> Operations:
        """The loss takes a product with the Hessian, the source, and the rest of :data:`LOSS`; a product with the
        Hessian, which the gradient needs anyway, a product and a sum for each entry."""
        entries = self.settings.graph.neighbours + 1
        return Operations(entries, 2 * entries + 1 + LOSS, 0.0, 2 * entries)


class Synchronization(RaceFamily):
    """Races to one common phase (problems.py)."""

    name = "synchronization"
    version = 2
    problem_class = PhaseProblem
    Settings = SynchronizationSettings
    settings: SynchronizationSettings

    def graphs(self) -> str:
        return self.settings.graph.kind

    def operations(self) -> Operations:
        """The loss takes, for an edge, a difference and its half, a sine and a cosine, the loss and its sum, and both
        ends' sums; the Hessian a cosine and three additions or products; a product with it a difference, its product
        with the edge's entry, and both ends' sums."""
        neighbours = self.settings.graph.neighbours
        edges = neighbours / 2
        return Operations(neighbours + 1, edges * (4 + 2 * SINE + 4 + 3 + 4), edges * (SINE + 3), edges * 4)


TRIANGULATION_EDGES = 3
"""Of a Delaunay triangulation, for a point: by Euler's formula never more."""
LENGTH, IN_CIRCLE = 5, 29
"""Operations of a squared distance, with a comparison; and of the determinant that tests a point against the circle
through three others (six differences, three sums of squares, a 3 x 3 determinant)."""
TRIANGULATION_BYTES = 1000
"""For a point, while its tree is found: 10^5 points were seen to take 65 MB."""


class PersistentHomology(RaceFamily):
    """Races to a cloud of points with the persistence diagram that is asked for (problems.py)."""

    name = "persistent_homology"
    version = 2
    numbers = PLANE
    problem_class = CloudProblem
    Settings = HomologySettings
    settings: HomologySettings

    def check(self, mix: Mix, size: int) -> None:
        super().check(mix, size)
        if self.settings.network.width < PLANE and set(mix.tasks) & set(REPARAMETRIZED):
            raise SettingsError(
                f"width is {self.settings.network.width}; with fewer than {PLANE} features a point the network's "
                "output lies on a line",
                key="settings.network.width",
            )

    def graphs(self) -> str:
        return "clouds of points"

    def operations(self) -> Operations:
        """The loss takes the least that it takes to know the tree: for every edge of the triangulation its length, and
        an in-circle test (sorting and joining are not counted). Then, for an edge of the tree, of which there is one
        for each point but one, a difference, its length, its distance from the scale, the loss, and both ends' sums.
        The Hessian takes an edge's entry from its length, and both ends' sums; a product with it a difference, its part
        along the edge, the rest with its factor, and both ends' sums."""
        evaluation = TRIANGULATION_EDGES * (LENGTH + IN_CIRCLE) + 2 + 4 + 1 + 2 + 3 + 4
        return Operations(3.0, evaluation, 3 + 2, 2 + 5 + 2 + 2 + 2 + 4)

    def memory(self, size: int) -> float:
        return super().memory(size) + TRIANGULATION_BYTES * size
