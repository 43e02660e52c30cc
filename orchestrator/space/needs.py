"""The hardware that a profile of a search space needs."""

from __future__ import annotations

from pydantic import BaseModel, Field

from orchestrator.system.hardware import Hardware, cores
from orchestrator.system.strict import STRICT


class Needs(BaseModel):
    """The hardware that a profile needs. A profile with ``asked`` is chosen only by name."""

    model_config = STRICT

    gpu: bool = False
    cpus: int = Field(default=1, ge=1)
    memory_gb: float = Field(default=0.0, ge=0)
    asked: bool = False

    def missing(self, hardware: Hardware) -> list[str]:
        """Describe each requirement that ``hardware`` does not meet. A cluster that grows can only lack GPUs."""
        lacks = [] if hardware.gpus or not self.gpu else ["no GPU was found"]
        if hardware.grows:
            return lacks
        if self.cpus > hardware.cpus:
            lacks.append(f"it needs {cores(self.cpus)} but {hardware.cpus} were found")
        if hardware.memory_gb and self.memory_gb > hardware.memory_gb:  # 0: unknown.
            lacks.append(f"it needs {self.memory_gb:g} GB of memory but {hardware.memory_gb:.0f} were found")
        return lacks
