"""What a family tells the engine about machines: devices, speed, memory. Every member has a default."""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class Speed(NamedTuple):
    """Operations per second of a large model, and the parameters at which overhead halves that rate."""

    flops_per_s: float
    half_parameters: float

    def seconds(self, flops: float, parameters: float) -> float:
        """Return the seconds that ``flops`` take with a model of this many ``parameters``."""
        return flops / (self.flops_per_s * parameters / (parameters + self.half_parameters))


class MachineTraits:
    """How a family trains on a machine."""

    stacks: ClassVar[bool] = True
    """False if every run trains alone: ``learner`` then gets one run at a time."""
    resumes: ClassVar[bool] = True
    """False if a killed run begins again at its first step, so that its checkpoints save no training."""

    def training_step(self, device: str) -> str:
        """Return the name of the code that trains on this device, or an empty string if the family has only one."""
        return ""

    def slowness(self, device: str) -> str:
        """Return why this machine trains more slowly on this device than it could, and the remedy.

        Return an empty string if it does not.
        """
        return ""

    def speed(self, device: str) -> Speed | None:
        """Return the speed of a core or a GPU, for estimates of time, or None to assume the speed of torch."""
        return None

    def typical_speed(self, device: str) -> Speed | None:
        """Return the speed by which a search weighs runs, or None to weigh them by measured seconds.

        It must be the same on every machine, so that a search requests the same runs.
        """
        return None

    def check_files(self) -> None:
        """Raise :class:`SettingsError` if a file or program that training needs is missing on this machine.

        This is called before a sweep starts, but not when a stored sweep is read.
        """

    def check_device(self, device: str) -> None:
        """Raise :class:`SettingsError` if this device cannot train with the settings."""

    def compiles(self, device: str) -> bool:
        """Return True if ``learner`` compiles on this device. That is slow, happens once per shape, and is cached for
        other processes."""
        return False

    def memory(self, size: int) -> float:
        """Return one run's peak memory in a stack, in bytes rounded up, or 0 if unknown."""
        return 0.0
