"""Separates machine errors from the other failures that Ray reports.

A stack fails only if its code raises an exception or exits the process. All other ends are machine errors, such as a
lost or preempted node, a worker that was killed because of memory or by hand, or a full disk. Ray reports them as typed
errors.
"""

from __future__ import annotations

import re
from pathlib import Path

from ray import cloudpickle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune.experiment import Trial

from orchestrator.engine.messages import DeviceLostError, FarewellError
from orchestrator.system.machine_errors import error_and_causes

COLOR = re.compile(r"\x1b\[[0-9;]*m")
"""Escape sequence for a color in a traceback."""
NODE = re.compile(r"the actor's node was (?:\w+ ?)+: *(.*)|its node has died", re.IGNORECASE)
"""Message of Ray's GCS for an actor whose node is lost."""
MEMORY = re.compile(r"killed due to .*memory|OutOfMemory|NODE_OUT_OF_MEMORY|low on memory", re.IGNORECASE)
"""Ray's messages for a process that it killed because a node ran out of memory."""
ADDRESS = re.compile(r"\bip: (\S+?)[,)]?(?:\s|$)", re.IGNORECASE)
"""Address of a node in Ray's messages."""
ON_PURPOSE = re.compile(r"Worker exit type: (?:INTENDED_USER_EXIT|USER_ERROR)|Worker exits with an exit code")
"""Ray's messages for a process that exited on its own (``sys.exit``). A killed process has no exit code."""
BY_RAY = re.compile(r"^ray\.exceptions\.", re.MULTILINE)
"""One of Ray's own exceptions in the traceback of a process that could not start."""
FREE_MEMORY = "close other programs, or train fewer stacks at a time with --set resources.cpu_per_stack=2"
"""Advice if memory is short."""


def machine_error_of(trial: Trial) -> str:
    """Return the machine error that ended a trial, with its remedy, or an empty string if the trial's code failed."""
    # Tune appends the traceback of each failure of a trial to one file.
    _, _, last = f"\n{traceback_of(trial)}".rpartition("\nFailure # ")
    return machine_error_text(_error_of(trial), last.partition("\n")[2] or last)


def farewell_of(trial: Trial) -> str:
    """Return the reason why a trial's worker left its stack to another machine, or an empty string if it did not."""
    error = _error_of(trial)
    cause = error.cause if isinstance(error, RayTaskError) else None
    return str(cause) if isinstance(cause, FarewellError) else ""


def _error_of(trial: Trial) -> BaseException | None:
    """Return the exception that ended a trial, or None if Tune has not kept it."""
    # This file is on this machine. Tune itself reads a copy, which may arrive later.
    path = Path(trial.pickled_error_file or "")
    error: BaseException | None = cloudpickle.loads(path.read_bytes()) if path.is_file() else None
    return error


def machine_error_behind(error: BaseException) -> str:
    """Return the machine error that ended Tune itself, or an empty string if Ray reports none."""
    reported = next((cause for cause in error_and_causes(error) if isinstance(cause, RayError)), None)
    return "" if reported is None else machine_error_text(reported, str(reported))


def machine_error_text(error: BaseException | None, message: str) -> str:
    """Return a sentence that describes a machine error of Ray, or an empty string if the stack's code failed.

    Args:
        error: Ray's typed error, or None for types that Tune does not keep. The stack's code never raises these types.
        message: Text of the error.
    """
    if isinstance(error, RayTaskError):
        cause = error.cause
        if isinstance(cause, DeviceLostError):
            return str(cause)
        if isinstance(cause, RayTaskError) or not isinstance(cause, RayError):
            return ""
        return machine_error_text(cause, str(cause))
    # The process failed before its first step. If Ray did not raise the exception, the stack's code did.
    if isinstance(error, RayActorError) and error.actor_init_failed and not BY_RAY.search(message):
        return ""
    return "" if ON_PURPOSE.search(message) else _sentence(message)


def traceback_of(trial: Trial) -> str:
    """Return Tune's record of a trial's failures, oldest first."""
    if trial.error_file is None or not Path(trial.error_file).exists():
        return f"trial {trial} failed and Ray left no traceback"
    return COLOR.sub("", Path(trial.error_file).read_text(encoding="utf-8"))


def _sentence(message: str) -> str:
    """Return a sentence for the user about one of Ray's messages."""
    address = ADDRESS.search(message)
    node = f"the node {address[1]}" if address else "a node"
    if (lost := NODE.search(message)) is not None:
        return f"{node} was lost ({lost[1]})" if lost[1] else f"{node} was lost"
    if MEMORY.search(message):
        return f"{node} ran short of memory, and Ray ended a process that trained there: {FREE_MEMORY}"
    if "worker process has died" in message or "died unexpectedly" in message:
        return (
            f"a training process on {node} died. Either the system ran out of memory (check dmesg; {FREE_MEMORY}), or "
            "someone killed the process, or the family's compiled code crashed"
        )
    reason = message.strip().rpartition("\n")[2] or "no reason given"
    return f"Ray lost a process that trained on {node} ({reason})"
