"""Work that goes on beside the sweep, in a thread of its own, until a block ends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Alongside(ABC):
    """A context manager: :meth:`_work` runs in a thread while the block does, and has to end once ``_stop`` is set."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @abstractmethod
    def _work(self) -> None:
        """What goes on; it waits on ``_stop`` between one time and the next."""
