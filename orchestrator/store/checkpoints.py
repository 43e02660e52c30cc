"""Checkpoints of the stacks in training: each a directory of its own, whole, the newest of a stack last."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.search.base import Request
from orchestrator.store.files import whole_directory
from orchestrator.store.remains import write_members


class Checkpoints:
    """The checkpoints in a directory, as ``STACK.NUMBER``. One worker at a time writes those of a stack.

    Each names the requests of its stack, so that the stack can be put together again from nothing else.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def stacks(self) -> list[str]:
        """The stacks that have one."""
        return sorted({path.name.rpartition(".")[0] for path in self._there()})

    def newest(self, stack_id: str) -> Path | None:
        """The directory of a stack's newest checkpoint; None without one."""
        numbers = self._numbers(stack_id)
        return self._path(stack_id, numbers[-1]) if numbers else None

    @contextmanager
    def put(
        self, stack_id: str, requests: Sequence[Request], halvings: int, ended: Collection[int] = ()
    ) -> Iterator[Path]:
        """A directory to fill with a stack's next checkpoint, its members noted. Older ones go once it is whole."""
        older = self._numbers(stack_id)
        with whole_directory(self._path(stack_id, max(older, default=0) + 1)) as directory:
            write_members(directory, requests, halvings, ended)
            yield directory
        for number in older:
            shutil.rmtree(self._path(stack_id, number))

    def drop(self, stack_id: str) -> None:
        """Remove a stack's checkpoints."""
        for number in self._numbers(stack_id):
            shutil.rmtree(self._path(stack_id, number), ignore_errors=True)

    def _numbers(self, stack_id: str) -> list[int]:
        names = [path.name.rpartition(".") for path in self._there()]
        return sorted(int(number) for stack, _, number in names if stack == stack_id)

    def _there(self) -> list[Path]:
        """Whole checkpoints: those being written begin with a dot."""
        return list(self._root.glob("[!.]*.*"))

    def _path(self, stack_id: str, number: int) -> Path:
        return self._root / f"{stack_id}.{number}"
