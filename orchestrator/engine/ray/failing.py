"""What Ray says of a trial that failed, and whether that was its node's doing."""

from __future__ import annotations

import re
from pathlib import Path

from ray.tune.experiment import Trial

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
NODE = re.compile(r"the actor's node was (?:\w+ ?)+: *(.*)|its node has died", re.IGNORECASE)
"""How Ray's GCS says that an actor is gone because its node is. It has no other word for it in what reaches Tune."""
SILENT = re.compile(r"The actor \w+ is unavailable: (.*?)\.?(?: The task may or may not .*)?$", re.MULTILINE)
"""What Ray says of an actor that does not answer, where nobody has told it within a second that the actor ended. The
node tells that of a worker that ends: so the node has gone, too, or cannot be reached."""
ADDRESS = re.compile(r"^\s*ip: (\S+)", re.MULTILINE)


def traceback_of(trial: Trial) -> str:
    """What Tune wrote down of the trial's failures, the last one at its end. It lies on the driver's disk until Tune
    moves it."""
    if trial.error_file is None or not Path(trial.error_file).exists():
        return f"trial {trial} failed and Ray left no traceback"
    return COLOUR.sub("", Path(trial.error_file).read_text(encoding="utf-8"))


def lost_node(said: str) -> str:
    """That a node was lost, where the last failure that a trial's traceback tells of is that; ``""`` otherwise."""
    last = said.rpartition("Failure # ")[2]
    if (silent := SILENT.search(last)) is not None:
        return f"a node was lost, or cannot be reached ({silent[1]})"
    found = NODE.search(last)
    if found is None:
        return ""
    address = ADDRESS.search(last)
    node = f"the node {address[1]}" if address else "a node"
    return f"{node} was lost ({found[1]})" if found[1] else f"{node} was lost"
