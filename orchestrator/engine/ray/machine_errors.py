"""Machine errors among the failures that Ray reports.

A stack fails only if its code raises an exception or exits the process. Ray reports all other ends as typed errors (a
lost or preempted node, a worker killed for memory or by hand, a full disk), which are machine errors.
"""

from __future__ import annotations

import re
from pathlib import Path

from ray import cloudpickle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune.experiment import Trial

from orchestrator.engine.messages import DeviceLostError, FarewellError
from orchestrator.system.machine_errors import with_causes

COLOR = re.compile(r"\x1b\[[0-9;]*m")
NODE = re.compile(r"the actor's node was (?:\w+ ?)+: *(.*)|its node has died", re.IGNORECASE)
"""Message of Ray's GCS for an actor whose node is lost."""
MEMORY = re.compile(r"killed due to .*memory|OutOfMemory|NODE_OUT_OF_MEMORY|low on memory", re.IGNORECASE)
ADDRESS = re.compile(r"\bip: (\S+?)[,)]?(?:\s|$)", re.IGNORECASE)
ON_PURPOSE = re.compile(r"Worker exit type: (?:INTENDED_USER_EXIT|USER_ERROR)|Worker exits with an exit code")
"""Ray's messages for a process that exited by itself (``sys.exit``). A killed process has no exit code."""
BY_RAY = re.compile(r"^ray\.exceptions\.", re.MULTILINE)
"""Ray's exception in the traceback of a process that could not start."""

FREE_MEMORY = "close other programs, or train fewer stacks at a time with --set resources.cpu_per_stack=2"


def machine_error_of(trial: Trial) -> str:
    """Return the machine error that ended a trial and its remedy, or "" if the trial's code failed."""
    _, _, last = f"\n{traceback_of(trial)}".rpartition("\nFailure # ")
    return machine_error_words(_error_of(trial), last.partition("\n")[2] or last)


def farewell_of(trial: Trial) -> str:
    """Return why the worker of a trial left its stack to others, or "" if it did not."""
    error = _error_of(trial)
    cause = error.cause if isinstance(error, RayTaskError) else None
    return str(cause) if isinstance(cause, FarewellError) else ""


def _error_of(trial: Trial) -> BaseException | None:
    path = Path(trial.pickled_error_file or "")  # Written here. Tune itself reads a copy, which may arrive later.
    error: BaseException | None = cloudpickle.loads(path.read_bytes()) if path.is_file() else None
    return error


def machine_error_behind(error: BaseException) -> str:
    """Return the machine error that ended Tune itself, or "" if Ray reports none."""
    reported = next((cause for cause in with_causes(error) if isinstance(cause, RayError)), None)
    return "" if reported is None else machine_error_words(reported, str(reported))


def machine_error_words(error: BaseException | None, message: str) -> str:
    """Return a sentence that describes Ray's error, or "" if the stack's code raised the exception.

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
        return machine_error_words(cause, str(cause))
    if isinstance(error, RayActorError) and error.actor_init_failed and not BY_RAY.search(message):
        return ""
    return "" if ON_PURPOSE.search(message) else _sentence(message)


def traceback_of(trial: Trial) -> str:
    """Return Tune's record of a trial's failures, oldest first."""
    if trial.error_file is None or not Path(trial.error_file).exists():
        return f"trial {trial} failed and Ray left no traceback"
    return COLOR.sub("", Path(trial.error_file).read_text(encoding="utf-8"))


def _sentence(message: str) -> str:
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
