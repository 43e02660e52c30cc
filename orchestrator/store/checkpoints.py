"""What stacks in training go on from: each checkpoint a directory of its own, whole, the newest of a stack last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.search.base import Request
from orchestrator.store.damage import Say, is_aside, is_whole_stack, put_aside_in
from orchestrator.store.remains import write_members
from orchestrator.store.storage import Storage


class Checkpoints:
    """The checkpoints in a storage, as ``STACK.NUMBER``. A stack is written by one worker at a time.

    Each says which runs it holds, so that the stack can be put together again from nothing else.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def stacks(self) -> list[str]:
        """The stacks that have one."""
        return sorted({name.rpartition(".")[0] for name in self._storage.list() if not is_aside(name)})

    def newest(self, stack_id: str) -> Path | None:
        """The directory of a stack's newest one, for reading; None where it has none."""
        numbers = self._numbers(stack_id)
        return self._storage.get(_name(stack_id, numbers[-1])) if numbers else None

    @contextmanager
    def put(self, stack_id: str, requests: Sequence[Request], halvings: int) -> Iterator[Path]:
        """A directory to fill with a stack's next one, beside what it says of its runs. Older ones go when it is
        there."""
        older = self._numbers(stack_id)
        with self._storage.put(_name(stack_id, max(older, default=0) + 1)) as directory:
            write_members(directory, requests, halvings)
            yield directory
        for number in older:
            self._storage.delete(_name(stack_id, number))

    def drop(self, stack_id: str) -> None:
        """Forget a stack's."""
        for number in self._numbers(stack_id):
            self._storage.delete(_name(stack_id, number))

    def is_whole(self, stack_id: str, say: Say) -> bool:
        """Whether a stack can go on from its newest one. A damaged one is put aside and named."""
        return is_whole_stack(self._storage, _name(stack_id, self._numbers(stack_id)[-1]), say)

    def put_aside(self, stack_id: str) -> str:
        """Keep a stack's newest one under a name that says that it is damaged; that name."""
        return put_aside_in(self._storage, _name(stack_id, self._numbers(stack_id)[-1]))

    def _numbers(self, stack_id: str) -> list[int]:
        names = self._storage.list(f"{stack_id}.")
        return sorted(int(name.rpartition(".")[2]) for name in names if not is_aside(name))


def _name(stack_id: str, number: int) -> str:
    return f"{stack_id}.{number}"
