"""Jobs: what a machine trains, without the question that they answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.machine.resources import Resources
from trainables.families import FamilySource

UNSAFE = re.compile(r"[^\w .,+=()-]")
"""Characters of a shape that may not be part of a directory's name everywhere."""
LONGEST_SHAPE = 150
"""Maximum bytes of a shape in a directory's name, of which file systems allow 255."""


def stack_id(shape: str, keys: Sequence[str]) -> str:
    """Return the id of the stack of these runs, which is also the name of its directories. A shape is a family's text,
    for example with the name of its sizes (``width/depth``)."""
    slug = UNSAFE.sub("_", shape).lstrip(".").encode()[:LONGEST_SHAPE].decode(errors="ignore")
    digest = hashlib.sha256("|".join(keys).encode()).hexdigest()[:8]
    return f"{slug}-x{len(keys)}-{digest}"


@dataclass(frozen=True)
class Setup:
    """What all jobs of a sweep share. Workers get it, so it is small and can be pickled.

    Attributes:
        directory: The sweep's directory on the driver's machine.
        version: Version of the family in the driver.
        source: Hash of the family's source in the driver, or "" if it is unknown.
        accepts_other_code: True if runs of other code of the same family count, because they compute the same.
    """

    sweep_id: str
    directory: str
    family: FamilySource
    version: int
    source: str
    accepts_other_code: bool
    probes: tuple[str, ...]
    resources: Resources
