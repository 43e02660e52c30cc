"""Settings of initial weights. model.py draws the weights, so this module needs no torch.

At widths of 4 to 256 the scale matters: N(0, 0.02), which large models use, is ten times too small at width 16. A sweep
then measures the time to leave the first plateau rather than what a width can learn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainables.contract.settings import SettingsError, require

KINDS = {"normal": ("std", 0.02), "scaled": ("gain", 1.0)}
"""The setting that belongs to each kind, and its default."""
FAR = 3.0
"""Factor from 1/sqrt(n_embed) beyond which weights cause a warning."""
EMBEDDINGS = ("token", "position")
"""Names of the embeddings."""
HEAD = "head"
"""Name of the output head."""
INTO_STREAM = ("attention_out", "feed_forward_out")
"""Names of the matrices that write into the residual stream."""


@dataclass(frozen=True)
class InitSettings:
    """Standard deviations of the initial weights, tensor by tensor. Norm gains start at 1, and biases at 0.

    Raises :class:`SettingsError` with the key ``model.init.<field>``.
    """

    kind: Literal["normal", "scaled"] = "normal"
    """``normal``: N(0, ``std``) for every matrix and embedding; ``scaled``: by fan-in."""
    std: float | None = None
    """With ``normal``: the standard deviation of every matrix and embedding. None means 0.02 (Radford et al. 2019,
    GPT-2, and the sibling code of arXiv 2505.18369)."""
    gain: float | None = None
    """With ``scaled``: matrices and head are N(0, ``gain`` / sqrt(fan-in)) (LeCun et al. 1998). Matrices that write
    into the residual stream are also divided by sqrt(2 x n_layer x n_recurrence), the number of times a block adds
    to the stream (GPT-2). Token and position embeddings are N(0, ``gain`` / sqrt(n_embed)), as in Vaswani et al.
    (2017): their length is about ``gain``, so branches can soon outweigh them. None means 1."""

    def __post_init__(self) -> None:
        for kind, (name, _) in KINDS.items():
            value = getattr(self, name)
            key = f"model.init.{name}"
            if value is not None:
                if self.kind != kind:
                    raise SettingsError(f"{name} applies only to kind {kind!r}, and kind is {self.kind!r}", key=key)
                require(0 < value < math.inf, key, value, "positive")

    @property
    def scale(self) -> float:
        """The number that belongs to the kind."""
        name, default = KINDS[self.kind]
        given: float | None = getattr(self, name)
        return default if given is None else given

    def deviation(self, name: str, shape: tuple[int, ...], additions: int) -> float:
        """Return the standard deviation of the initial values of a parameter of this shape, fan-in first.

        ``additions`` is the number of times that the model adds to its residual stream.
        """
        if self.kind == "normal":
            return self.scale
        if name in EMBEDDINGS:
            return self.scale / math.sqrt(shape[1])
        into_stream = name.rpartition(".")[2] in INTO_STREAM
        return self.scale / math.sqrt(shape[0] * (additions if into_stream else 1))

    def described(self) -> dict[str, Any]:
        """Return everything that changes the mathematics, including defaults. Equal initializations give equal
        values."""
        return {"kind": self.kind, KINDS[self.kind][0]: self.scale}


def scale_warning(init: InitSettings, sizes: Sequence[int]) -> str:
    """Return a caveat if ``normal`` weights are far from 1/sqrt(n_embed) at some of the ``sizes``.

    Return an empty string if they are not.
    """
    if init.kind != "normal":
        return ""
    relative = [init.scale * math.sqrt(size) for size in sizes]
    too_small = sum(ratio < 1 / FAR for ratio in relative)
    too_large = sum(ratio > FAR for ratio in relative)
    if not (far := too_small or too_large):
        return ""
    where = "every size" if far == len(sizes) else f"{far} of {len(sizes)} sizes"
    word, far_off = ("small", f"less than 1/{FAR:g} of") if too_small else ("large", f"more than {FAR:g} times")
    return (
        f"The initial weights are {word}: at {where}, their standard deviation, {init.scale:g}, is {far_off} "
        "1/sqrt(n_embed). So a run may fail because of its initial weights, not because of its size. To compare, set "
        "settings.model.init={kind: scaled}."
    )


Floats = NDArray[np.float32]


def resized(table_VC: Floats, width: int, rng: np.random.Generator) -> Floats:
    """Return a table [V, width] that keeps the dot products between the rows of ``table_VC`` [V, C].

    They are exact if ``width`` is at least the table's rank, otherwise approximate: the table keeps the largest
    principal directions (Eckart and Young 1936). Dot products do not determine the axes. A random rotation from ``rng``
    spreads the directions over all columns, as in a model trained at this width.
    """
    u_VK, s_K, _ = np.linalg.svd(table_VC.astype(np.float64), full_matrices=False)
    # The sign of a direction is arbitrary, so make its largest entry positive.
    signs = np.sign(u_VK[np.abs(u_VK).argmax(axis=0), np.arange(len(s_K))])
    kept = min(width, len(s_K))
    coordinates = np.zeros((len(table_VC), width))
    coordinates[:, :kept] = (u_VK * signs * s_K)[:, :kept]
    rotation, upper = np.linalg.qr(rng.normal(size=(width, width)))
    turned: Floats = (coordinates @ (rotation * np.sign(np.diag(upper)))).astype(np.float32)
    return turned
