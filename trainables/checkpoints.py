"""Tools of learners in torch: the clock that training is measured by, and exact checkpoints.

A checkpoint is tensors and a little JSON in one safetensors file, which never runs code when read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from trainables.files import write_whole


def computing_s(device: torch.device) -> float:
    """Seconds, to be subtracted from one another.

    With one thread of a CPU: the computing time of the calling thread, so that other programs on the machine do not
    count. Else the wall clock, after a GPU has done its work.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write a checkpoint so that ``path`` is either the old one or the new one, whole, whatever happens."""
    content = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(content, {"notes": json.dumps(notes)}))


def read_checkpoint(path: Path, keys: Iterable[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors (on the CPU) and notes of a checkpoint of the runs with these keys. Raises ``FileNotFoundError`` where
    there is none, ``ValueError`` where it lacks one of the runs."""
    if not path.exists():
        raise FileNotFoundError(path)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        notes: dict[str, Any] = json.loads(file.metadata()["notes"])
    if not set(keys) <= set(notes["keys"]):
        raise ValueError(f"the checkpoint in {path.parent} belongs to another stack")
    return tensors, notes
