"""What training leaves on disk, by name: of a run that ended and of a stack that goes on. Read without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from orchestrator.search.base import Request
from trainables.base import Outcome

OUTCOME = "outcome.json"
WEIGHTS = "weights.safetensors"
CHECKPOINT = "checkpoint"
"""In a stack's directory: what it goes on from."""
MEMBERS = "members.json"
"""In a stack's directory: the requests it was made of, so that it can be put together again."""


def read_outcome(directory: Path) -> Outcome:
    """The outcome in a finished run's directory."""
    return Outcome.from_json(json.loads((directory / OUTCOME).read_text(encoding="utf-8")))


def read_members(directory: Path) -> Sequence[Request]:
    """The requests of a stack that left a checkpoint."""
    return [Request(**request) for request in json.loads((directory / MEMBERS).read_text(encoding="utf-8"))]
