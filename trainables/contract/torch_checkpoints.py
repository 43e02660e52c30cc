"""Exact checkpoints of learners in torch.

A checkpoint is one safetensors file with tensors and a little JSON. Reading it never runs code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from trainables.contract.files import write_whole


class OtherStepError(ValueError):
    """Raised if this device lacks the training step with which the runs of a checkpoint began. Another device can
    continue them."""


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically."""
    content = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(content, {"notes": json.dumps(notes)}))


def read_checkpoint(path: Path, keys: Iterable[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors (on the CPU) and notes of a checkpoint that contains the runs with these keys.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: The checkpoint lacks one of the runs.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        notes: dict[str, Any] = json.loads(file.metadata()["notes"])
    if not set(keys) <= set(notes["keys"]):
        raise ValueError(f"the checkpoint in {path.parent} belongs to another stack")
    return tensors, notes
