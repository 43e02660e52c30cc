"""The contract of a learner, which trains a stack of runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trainables.contract.runs import Report


class Learner(ABC):
    """Trains one stack of runs of equal shape as one batched model. Only one thread calls it."""

    @abstractmethod
    def advance(self) -> list[Report]:
        """Train every unfinished run to its next evaluation and report on each.

        Return an empty list once all runs have ended. A run that ends (budget used, solved, diverged) is frozen: later
        events in the stack do not change its outcome.
        """

    def train_for(self, seconds: float) -> bool:
        """Train for about ``seconds`` (above 0), but not past the next evaluation. Return True if the evaluation is
        due.

        The engine can then write checkpoints even if evaluations are far apart. Results do not change. A learner that
        cannot be saved between evaluations does nothing and returns True, as by default.
        """
        return True

    def steps_so_far(self) -> int:
        """Return the steps that every unfinished run has trained, including steps since its last evaluation, or 0 if
        unknown."""
        return 0

    @abstractmethod
    def save(self, directory: Path) -> None:
        """Write a checkpoint into ``directory``. Create the directory if it is missing, and replace an older checkpoint
        in a single rename."""

    @abstractmethod
    def restore(self, directory: Path) -> None:
        """Continue from a checkpoint, bit for bit on the same device. The checkpoint may be of a larger stack.

        Raises:
            FileNotFoundError: The directory has no checkpoint.
            ValueError: The checkpoint lacks one of the runs.
        """

    def take_over(self, weights: Mapping[int, Mapping[str, NDArray[Any]]]) -> None:
        """Start runs, by their index in the stack, from the weights of the previous phase.

        Take only the parts that a run's ``start`` names. This is called at most once, at step 0, for arms of several
        phases.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot start from the weights of another run")

    def work_in(self, directory: Path) -> None:  # noqa: B027 - most learners keep everything in memory
        """Use a directory for files that must survive a kill of this process, such as the checkpoints of a script.

        The directory may be missing, or contain the files of an earlier, killed learner of the same runs. This is
        called at most once, before :meth:`advance`. The caller removes the directory when all runs have ended.
        """

    def close(self) -> None:  # noqa: B027 - most learners have nothing to end
        """End everything that the learner has started, such as processes, and free its memory.

        This is called once, however the stack ends: finished, stopped, failed, interrupted or continued by another
        learner. No other method is called afterwards.
        """
