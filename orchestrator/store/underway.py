"""What stacks in training have to show to people who look from elsewhere: notes beside the journal, by the driver."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from orchestrator.search.base import Request
from orchestrator.store.files import SweepFiles
from orchestrator.store.remains import mend_progress, note_progress, write_members
from trainables.base import Evaluation


class Underway:
    """Used by the process that drives the sweep. Nothing is made of these notes: one that is lost costs no run."""

    def __init__(self, files: SweepFiles) -> None:
        self._files = files

    def begin(self, stack_id: str, requests: Sequence[Request]) -> None:
        """A stack is training, or goes on: after a line, perhaps, that a full disk has torn."""
        write_members(self._files.stack(stack_id), requests)
        mend_progress(self._files.stack(stack_id))

    def evaluated(self, stack_id: str, key: str, evaluation: Evaluation) -> None:
        """One of its runs reached an evaluation."""
        note_progress(self._files.stack(stack_id), [(key, evaluation)])

    def become(self, stack_id: str, others: dict[str, Sequence[Request]]) -> None:
        """A stack's runs go on as other stacks, by their ids."""
        shown = self._files.stack(stack_id)
        for other, requests in others.items():
            if shown.is_dir():
                shutil.copytree(shown, self._files.stack(other), dirs_exist_ok=True)
            write_members(self._files.stack(other), requests)
        self.end(stack_id)

    def end(self, stack_id: str) -> None:
        """All of its runs have ended."""
        shutil.rmtree(self._files.stack(stack_id), ignore_errors=True)
