"""Training windows, drawn by a counter-based generator in the manner of Salmon et al. (SC 2011).

The draw of a row is a hash of (run, step, row). It is therefore the same alone and in a stack, on a CPU and on a GPU,
and a resumed run needs only its step. The hash is SplitMix64's finalizer (Steele, Lea and Flood 2014) on tensors of
signed 64-bit words, which wrap as it requires.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import SettingsError
from trainables.transformer.datasets import Dataset
from trainables.transformer.training_settings import TrainingSettings

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 over the golden ratio, as a signed word."""


def shifted(word: Tensor, bits: int) -> Tensor:
    """Shift words to the right, with zeros from the left."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def scramble(word: Tensor) -> Tensor:
    """Map words to words bijectively so that every output bit depends on every input bit."""
    word = (word ^ shifted(word, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    word = (word ^ shifted(word, 27)) * (0x94D049BB133111EB - (1 << 64))
    return word ^ shifted(word, 31)


def fitting_starts(text: Dataset, block: int) -> NDArray[np.int64]:
    """Return the starts of expressions at which a whole window can start. Raises :class:`SettingsError` if there are
    none."""
    fitting = np.asarray(text.starts)[np.asarray(text.starts) + block < len(text.tokens)]
    if len(fitting) == 0:
        short = f"a text of {len(text.tokens)} tokens has no whole window of {block + 1} tokens"
        raise SettingsError(f"{short}; raise task.train_examples or lower model.block", key="task.train_examples")
    return fitting


class WindowSampler:
    """Draws each run's windows of ``block + 1`` tokens on the device. ``keys`` are the runs' signed 64-bit seeds. Runs
    with the same text object share its memory."""

    def __init__(
        self,
        texts: Sequence[Dataset],
        keys: Sequence[int],
        block: int,
        training: TrainingSettings,
        device: torch.device,
    ) -> None:
        self._batch = training.batch
        self._span = torch.arange(block + 1, device=device)
        self._keys_S1 = torch.tensor(keys, dtype=torch.int64, device=device).unsqueeze(1)
        distinct = list({id(text): text for text in texts}.values())
        tokens = np.concatenate([text.tokens for text in distinct])
        # Not every device can index with unsigned 16-bit numbers.
        narrow = np.int16 if tokens.max() <= np.iinfo(np.int16).max else np.int32
        self._tokens = torch.from_numpy(tokens.astype(narrow)).to(device)
        self._answer = torch.from_numpy(np.concatenate([text.answer for text in distinct])).to(device)
        fitting = [fitting_starts(text, block) for text in distinct]
        first_token = np.cumsum([0, *(len(text.tokens) for text in distinct[:-1])])
        self._begins: Tensor | None = None
        firsts = first_token
        counts = [len(text.tokens) - block for text in distinct]
        if training.windows == "expression":
            begins = [starts + first for starts, first in zip(fitting, first_token, strict=True)]
            self._begins = torch.from_numpy(np.concatenate(begins)).to(device)
            counts = [len(starts) for starts in fitting]
            firsts = np.cumsum([0, *counts[:-1]])
        place = {id(text): i for i, text in enumerate(distinct)}
        which = [place[id(text)] for text in texts]
        self._first_S1 = torch.tensor([int(firsts[i]) for i in which], device=device).unsqueeze(1)
        self._count_S1 = torch.tensor([counts[i] for i in which], device=device).unsqueeze(1)

    def draw(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens [S, B, block + 1] (int64) and their answer mask for ``step`` (a 0-d tensor, from 0)."""
        counter_B = step * self._batch + torch.arange(self._batch, device=self._keys_S1.device)
        bits_SB = shifted(scramble(self._keys_S1 + (counter_B + 1) * GOLDEN), 2)
        chosen_SB = self._first_S1 + bits_SB % self._count_S1
        begin_SB = chosen_SB if self._begins is None else self._begins[chosen_SB]
        where_SBT = begin_SB.unsqueeze(-1) + self._span
        return self._tokens[where_SBT].long(), self._answer[where_SBT]
