"""Settings of the races: names of methods, settings of all problems and of each problem. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from trainables.contract.settings import MOST_STEPS, require

Kind = Literal["grid", "small_world"]
"""Kind of a graph."""
Residual = Literal["halves", "series"]
"""How a network combines its layers."""

REPARAMETRIZED = ("hessian", "laplacian", "random")
"""Methods that move the parameters of a graph network, named by its propagation; its output is the unknowns."""
METHODS = ("adam", "cg", "hessian", "laplacian", "lbfgs", "momentum", "newton", "random")
"""Names of all methods."""
FEWEST_NODES = 16
"""Number of nodes of the smallest graph."""
HISTORY = 10
"""Maximum number of pairs that L-BFGS keeps."""
PLANE = 2
"""Number of coordinates of a point of a cloud."""


@dataclass(frozen=True)
class GraphSettings:
    """The graph of a problem."""

    kind: Kind = "grid"
    """A square ``grid``, or a ``small_world``: a ring with random shortcuts (Watts and Strogatz 1998, Nature 393,
    440)."""
    degree: int = 4
    """Number of neighbors of each node of a small world before rewiring: the nearest on the ring."""
    rewired: float = 0.05
    """Probability that an edge of a small world moves to a random end."""

    def __post_init__(self) -> None:
        even = 2 <= self.degree < FEWEST_NODES // 2 and self.degree % 2 == 0
        require(even, "graph.degree", self.degree, f"even, from 2 to {FEWEST_NODES // 2 - 2}")
        require(0 <= self.rewired <= 1, "graph.rewired", self.rewired, "in [0, 1]")

    @property
    def neighbors(self) -> float:
        """Neighbors of a node: the mean over a large graph."""
        return 4.0 if self.kind == "grid" else float(self.degree)


@dataclass(frozen=True)
class RaceSettings:
    """Rules of a race: when a method has arrived, how much it may spend, and when it is ahead."""

    steps: int = 4000
    """Budget of a method, in units of ``counted``."""
    tolerance: float = 1e-4
    """A method has arrived once its loss exceeds the solution's by at most this share of the gap at the start."""
    factor: float = 1.0
    """A method is *ahead* when it has arrived and every rival spent more than this many times as much, whether or not
    the rival arrived. A race that the budget leaves open counts as not ahead."""
    counted: Literal["work", "steps"] = "work"
    """Unit of cost. ``work``: the floating-point operations of one loss and gradient of the plain problem. ``steps``:
    every step, every evaluation of a line search and every product with the Hessian counts as one."""
    patience: float = 30.0
    """After the first arrival, the other methods continue until they have spent this many times as much."""
    evaluate_every: int = 100
    """Steps between two points of a race's curve."""

    def __post_init__(self) -> None:
        rule = f"at least 1 and at most {MOST_STEPS}"
        for name in ("steps", "evaluate_every", "factor"):
            require(1 <= getattr(self, name) <= MOST_STEPS, f"race.{name}", getattr(self, name), rule)
        require(0 < self.tolerance < 1, "race.tolerance", self.tolerance, "in (0, 1)")
        require(self.patience >= self.factor, "race.patience", self.patience, f"at least factor ({self.factor})")


@dataclass(frozen=True)
class NetworkSettings:
    """The graph network; its output is the unknowns."""

    width: int = 1
    """Number of features per node; the features are the parameters."""
    depth: int = 1
    """Number of layers; each propagates the features along the graph."""
    residual: Residual = "halves"
    """``halves``: a layer returns the mean of its input and its propagation, and the last layer is the output.
    ``series``: the output combines all layers with the coefficients of an inverse square root (network.py)."""

    def __post_init__(self) -> None:
        require(self.width >= 1, "network.width", self.width, "at least 1")
        require(self.depth >= 1, "network.depth", self.depth, "at least 1")

    def described(self) -> dict[str, Any]:
        """Add that no weights are trained, a choice in earlier versions, so that run keys stay the same."""
        return asdict(self) | {"train_weights": False}


@dataclass(frozen=True)
class RateSettings:
    """Learning rates of the methods that have one; ``cg``, ``lbfgs`` and ``newton`` search along a line instead."""

    adam: float = 0.1
    """Learning rate of Adam on the unknowns."""
    momentum: float = 0.03
    """Learning rate of gradient descent with momentum."""
    hessian: float = 0.1
    """Learning rate of Adam on a network that propagates with the Hessian."""
    laplacian: float = 0.1
    """Learning rate of Adam on a network that propagates with the bare graph's Laplacian."""
    random: float = 0.1
    """Learning rate of Adam on a network that propagates with the Hessian, its nodes shuffled."""

    def __post_init__(self) -> None:
        for name, rate in vars(self).items():
            require(rate > 0, f"rates.{name}", rate, "positive")


@dataclass(frozen=True)
class ReparametrizationSettings:
    """Settings of every problem, without mix, nodes and seed. A family's own settings add its problem."""

    network: NetworkSettings = field(default_factory=NetworkSettings)
    rates: RateSettings = field(default_factory=RateSettings)
    race: RaceSettings = field(default_factory=RaceSettings)


@dataclass(frozen=True)
class HeatSettings:
    """The problem of ``heat_diffusion``."""

    held: int = 4
    """Number of random nodes with fixed temperatures from N(0, 1). All other nodes start at temperatures from the same
    distribution."""
    spread: float = 1.0
    """Standard deviation of ln conductance. With 0 all conductances are 1, and the Hessian is the bare graph's
    Laplacian."""

    def __post_init__(self) -> None:
        require(1 <= self.held < FEWEST_NODES, "heat.held", self.held, f"from 1 to {FEWEST_NODES - 1}")
        require(self.spread >= 0, "heat.spread", self.spread, "0 or more")


@dataclass(frozen=True)
class OscillatorSettings:
    """The problem of ``synchronization``."""

    arc: float = 2.8
    """Phases start uniformly in this arc (radians). Below half a circle the gradient flow of any connected graph
    reaches one common phase; above it, a method may get stuck elsewhere and never arrive."""
    spread: float = 1.0
    """Standard deviation of ln coupling."""

    def __post_init__(self) -> None:
        require(0 < self.arc <= 2 * math.pi, "oscillators.arc", self.arc, f"in (0, {2 * math.pi:.4f}]")
        require(self.spread >= 0, "oscillators.spread", self.spread, "0 or more")


@dataclass(frozen=True)
class DiagramSettings:
    """The problem of ``persistent_homology``. Points start uniformly in a square, one per unit of area on average."""

    deaths: float = 0.5
    """Scale at which all classes of H0 should die, relative to their mean death at the start: 0.5 halves the total
    persistence."""

    def __post_init__(self) -> None:
        require(self.deaths > 0, "diagram.deaths", self.deaths, "above 0")


@dataclass(frozen=True)
class DiffusionSettings(ReparametrizationSettings):
    """Settings of ``heat_diffusion``."""

    graph: GraphSettings = field(default_factory=GraphSettings)
    heat: HeatSettings = field(default_factory=HeatSettings)


@dataclass(frozen=True)
class SynchronizationSettings(ReparametrizationSettings):
    """Settings of ``synchronization``."""

    graph: GraphSettings = field(default_factory=GraphSettings)
    oscillators: OscillatorSettings = field(default_factory=OscillatorSettings)


@dataclass(frozen=True)
class HomologySettings(ReparametrizationSettings):
    """Settings of ``persistent_homology``. The network has at least a feature for each coordinate."""

    network: NetworkSettings = field(default_factory=lambda: NetworkSettings(width=PLANE))
    diagram: DiagramSettings = field(default_factory=DiagramSettings)
