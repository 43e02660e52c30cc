"""How optimisers race: the methods by name, settings that all problems share, and those of each problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, get_args

from trainables.described import ADDED_LATER
from trainables.errors import SettingsError
from trainables.reparametrization.graphs import FEWEST, GraphSettings

Counted = Literal["work", "steps"]
Activation = Literal["none", "tanh"]
Optimizer = Literal["adam", "rmsprop", "momentum"]
Scale = Literal["bound", "degree"]
Residual = Literal["none", "halves", "series"]

PLAIN = ("adam", "lbfgs", "momentum", "newton", "rmsprop")
"""Methods that move the unknowns themselves."""
REPARAMETRIZED = ("hessian", "laplacian", "random")
"""Methods that move the parameters of a graph network whose output the unknowns are, by what it propagates with."""
METHODS = tuple(sorted((*PLAIN, *REPARAMETRIZED)))


@dataclass(frozen=True)
class RaceSettings:
    """When a method has arrived, what it may spend, and when it is ahead.

    A method has arrived when the loss above the solution's is ``tolerance`` times what it was at the start. It may
    spend ``steps``. With ``counted: work`` one of these is as many floating-point operations as one gradient of the
    plain problem takes, so that a dear step counts for more; with ``steps`` every step of a method counts as one,
    whatever it costs, and so does every look of a line search and every product with the Hessian.

    A method is *ahead* when it has arrived and every rival needed more than ``factor`` times as much, or had spent that
    much without arriving. What the budget leaves open counts as not ahead. Once one method has arrived, the others go
    on until they have spent ``patience`` times as much as it.
    """

    steps: int = 4000
    tolerance: float = 1e-4
    factor: float = 1.0
    counted: Counted = "work"
    patience: float = 30.0
    evaluate_every: int = 100
    """Steps between two looks at who has arrived: points of a race's curve."""

    def __post_init__(self) -> None:
        _one_of("race.counted", self.counted, get_args(Counted))
        for name in ("steps", "evaluate_every"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1", key=f"race.{name}")
        if not 0 < self.tolerance < 1:
            raise SettingsError(f"tolerance is {self.tolerance}; it must be in (0, 1)", key="race.tolerance")
        if self.factor < 1:
            raise SettingsError(f"factor is {self.factor}; it must be at least 1", key="race.factor")
        if self.patience < self.factor:
            raise SettingsError(
                f"patience is {self.patience}, less than factor ({self.factor}): nobody could tell who is ahead",
                key="race.patience",
            )


@dataclass(frozen=True)
class NetworkSettings:
    """The graph network whose output the unknowns are, in the methods that reparametrize.

    Every node has ``width`` features, which are parameters as the weights are. Each of ``depth`` layers propagates
    them along the graph and multiplies them with a square of weights. With ``residual: halves`` a layer gives the
    mean of its input and that; with ``series`` all layers are read out together, with the coefficients of an inverse
    square root (network.py). ``optimizer`` moves the parameters; without ``train_weights`` the features alone, so
    that the network stays the polynomial in the propagation that it begins as (with no activation).

    With ``scale: bound`` it propagates with ``1 - (1 - damping) H / h``, where ``h`` bounds the spectrum of H; with
    ``degree`` with ``1 - (1 - damping) D^-1/2 H D^-1/2``, where D holds the sums of absolute values in H's rows, so
    that one node with a large row does not make all others' entries small.

    With a ``switch_after`` above 0, a run whose loss has not fallen by ``switch_share`` within so many steps of its
    network goes on with the unknowns themselves, from where it is: by the same ``optimizer``, at its rate there.
    """

    width: int = 1
    depth: int = 2
    residual: Residual = "series"
    train_weights: bool = True
    activation: Activation = "none"
    """What a layer does to what it gives."""
    optimizer: Optimizer = "adam"
    scale: Scale = "degree"
    damping: float = 0.0
    """In [0, 1): what is taken off all that is propagated (see ``scale``)."""
    switch_after: int = field(default=0, metadata=ADDED_LATER)
    switch_share: float = field(default=0.01, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        _one_of("network.activation", self.activation, get_args(Activation))
        _one_of("network.optimizer", self.optimizer, get_args(Optimizer))
        _one_of("network.residual", self.residual, get_args(Residual))
        _one_of("network.scale", self.scale, get_args(Scale))
        for name in ("width", "depth"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1", key=f"network.{name}")
        if not 0 <= self.damping < 1:
            raise SettingsError(f"damping is {self.damping}; it must be in [0, 1)", key="network.damping")
        if self.switch_after < 0:
            raise SettingsError(
                f"switch_after is {self.switch_after}; it must be 0 or more", key="network.switch_after"
            )
        if not 0 < self.switch_share < 1:
            raise SettingsError(
                f"switch_share is {self.switch_share}; it must be in (0, 1)", key="network.switch_share"
            )


@dataclass(frozen=True)
class RateSettings:
    """The learning rates of the methods ``adam``, ``rmsprop``, ``momentum``, ``hessian``, ``laplacian`` and ``random``;
    ``lbfgs`` and ``newton`` have none, for they search along a line."""

    adam: float = 0.03
    rmsprop: float = 0.01
    momentum: float = 0.05
    hessian: float = 0.03
    laplacian: float = 0.03
    random: float = 0.03

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise SettingsError(
                    f"the rate of {one.name} is {getattr(self, one.name)}; it must be positive", key=f"rates.{one.name}"
                )

    def of(self, method: str) -> float:
        """The rate of a method that has one."""
        return float(getattr(self, method))


@dataclass(frozen=True)
class ReparametrizationSettings:
    """Everything but mix, nodes and seed. A family's own settings add what its problem is."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    network: NetworkSettings = field(default_factory=NetworkSettings)
    rates: RateSettings = field(default_factory=RateSettings)
    race: RaceSettings = field(default_factory=RaceSettings)


@dataclass(frozen=True)
class GraphRaceSettings(ReparametrizationSettings):
    """The same for problems on a graph that is given."""

    graph: GraphSettings = field(default_factory=GraphSettings)


@dataclass(frozen=True)
class HeatSettings:
    """``held`` nodes, drawn at random, have temperatures from N(0, 1); all others begin at 0. ``spread`` is the
    standard deviation of ln conductance: 0 makes all conductances 1, and the Hessian the Laplacian of the bare graph.
    """

    held: int = 4
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.held < FEWEST:
            raise SettingsError(f"held is {self.held}; it must be from 1 to {FEWEST - 1}", key="heat.held")
        if self.spread < 0:
            raise SettingsError(f"spread is {self.spread}; it must be 0 or more", key="heat.spread")


@dataclass(frozen=True)
class OscillatorSettings:
    """Phases begin uniformly in an ``arc`` (radians, up to a full circle). From one shorter than half a circle the
    gradient flow of any connected graph comes to one common phase; from a longer one it may be caught elsewhere, and a
    method that is caught does not arrive. ``spread`` is the standard deviation of ln coupling.

    All that holds of Kuramoto's oscillators, with ``reactive`` at 0. Above it the model is Hopf-Kuramoto (hopf.py): the
    loss has a second part, ``reactive / 2`` times the square of the pull on each oscillator. Nothing but one phase is
    then stationary where no edge spans a quarter of a circle, as in an arc below pi / 2.
    """

    arc: float = 2.8
    spread: float = 1.0
    reactive: float = field(default=0.0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if not 0 < self.arc <= 2 * math.pi:
            raise SettingsError(f"arc is {self.arc}; it must be in (0, {2 * math.pi:.4f}]", key="oscillators.arc")
        if self.spread < 0:
            raise SettingsError(f"spread is {self.spread}; it must be 0 or more", key="oscillators.spread")
        if self.reactive < 0:
            raise SettingsError(f"reactive is {self.reactive}; it must be 0 or more", key="oscillators.reactive")


@dataclass(frozen=True)
class DiagramSettings:
    """Points begin uniformly in a square, one to the unit of area in the mean. All their classes of H0 are to die at
    one scale, which is ``deaths`` times the mean at the start: 0.5 asks for half of the total persistence."""

    deaths: float = 0.5

    def __post_init__(self) -> None:
        if not self.deaths > 0:
            raise SettingsError(f"deaths is {self.deaths}; it must be above 0", key="diagram.deaths")


def _one_of(key: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise SettingsError(f"{key} is {given!r}", key=key, given=str(given), allowed=allowed)
