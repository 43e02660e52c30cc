"""A trained transformer, from the weights its run left: to be asked, not to be trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.architecture import ModelSettings, parameter_shapes
from trainables.transformer import forward


class TrainedTransformer:
    """One model on the CPU, in float32 whatever it was trained in.

    ``parameters`` are its weights by name, without a stack axis; ``vocabulary`` counts its tokens.

    Raises ``ValueError`` where ``weights`` are not those of a model of these settings and width.
    """

    def __init__(
        self, settings: ModelSettings, n_embed: int, vocabulary: int, weights: Mapping[str, NDArray[Any]]
    ) -> None:
        wanted = parameter_shapes(settings, n_embed, vocabulary)
        given = {name: weight.shape for name, weight in weights.items()}
        if differing := sorted(name for name in wanted | given if wanted.get(name) != given.get(name)):
            name = differing[0]
            raise ValueError(
                f"the weights are of another model: {name!r} has shape {given.get(name)}, not {wanted.get(name)}"
                + (f", and {len(differing) - 1} more differ" if len(differing) > 1 else "")
            )
        self.settings = settings
        self.vocabulary = vocabulary
        self.parameters = {name: torch.from_numpy(np.array(weights[name], np.float32)) for name in wanted}

    def logits(self, tokens_BT: Tensor) -> Tensor:
        """Logits [B, T, V] for token ids [B, T], T at most the model's ``block``. Raises ``ValueError`` beyond it."""
        if tokens_BT.shape[1] > self.settings.block:
            raise ValueError(f"{tokens_BT.shape[1]} tokens do not fit the model's block of {self.settings.block}")
        stacked = {name: parameter.unsqueeze(0) for name, parameter in self.parameters.items()}
        with torch.no_grad():
            return forward(self.settings, stacked, tokens_BT.long().unsqueeze(0))[0]
