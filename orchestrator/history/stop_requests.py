"""Requests to stop a sweep that another process drives."""

from __future__ import annotations

from orchestrator.history.sweeps import Sweep
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.errors import UserError
from trainables.contract.arms import as_named


def ask_to_stop(sweep: Sweep, mix: str) -> None:
    """Ask a sweep's driver to stop a mix at the next evaluation of a stack. An empty ``mix`` means the whole sweep.

    Raises:
        UserError: If no process drives the sweep, or if it does not have the mix.
    """
    mixes = [mix.name for mix in sweep.spec.mixes]
    named = as_named(mix, mixes)
    if named and named not in mixes:
        raise unknown("mix", named, mixes, where=sweep.id)
    if not sweep.files.is_driven():
        raise UserError(f"{sweep.id} is not running, so there is nothing to stop")
    sweep.files.request_stop(named)
