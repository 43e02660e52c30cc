"""A stack on one CPU core, whose runs the native step trains one after the other.

Shape suffixes as in model.py: S stack, P parameters of one model, K steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainables.transformer.architecture import Layout, ModelSettings, flops_per_token
from trainables.transformer.datasets import Dataset
from trainables.transformer.native import library
from trainables.transformer.optimizer import step_factors
from trainables.transformer.stack import Trainer
from trainables.transformer.training_settings import TrainingSettings
from trainables.transformer.training_windows import fitting_starts

OF_MODEL = ("token", "position", "final_norm", "final_norm_bias", "head", "head_bias")
"""Tensors of a model, in the order of step.cpp."""
OF_LAYER = ("attention_norm", "qkv", "attention_out", "feed_forward_norm", "feed_forward_in", "feed_forward_out")
"""Tensors of each layer, in the order of step.cpp. Each is followed by its bias."""
NO_MEMORY = "not enough memory for the activations of a group of windows"
"""Message if step.cpp cannot allocate memory."""
CALL_FLOPS = 1e10
"""Operations per call: a few tenths of a second. Signals are handled only between calls."""


class Shape(ctypes.Structure):
    """A model and the offsets of its tensors. step.cpp explains the fields of this and the next structures."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("n_layer", "n_recurrence", "n_head", "n_embed", "hidden")),
        *((name, ctypes.c_int32) for name in ("block", "vocabulary", "is_gelu", "is_parallel")),
        ("parameters", ctypes.c_int64),
        ("offsets", ctypes.c_void_p),
    )

    @classmethod
    def of(cls, model: ModelSettings, layout: Layout) -> Shape:
        """Return the structure for a model."""
        vocabulary, n_embed = layout.shapes["token"]
        layers = (f"{layer}.{name}" for layer in range(model.n_layer) for name in OF_LAYER)
        names = (*OF_MODEL, *(full for name in layers for full in (name, f"{name}_bias")))
        offsets = np.array([layout.offsets.get(name, -1) for name in names], np.int64)
        sizes = (model.n_layer, model.n_recurrence, model.n_head, n_embed, model.feed_forward * n_embed)
        rest = (model.block, vocabulary, model.activation == "gelu", model.parallel, layout.width)
        shape = cls(*sizes, *rest, offsets.ctypes.data)
        shape.memory = offsets  # Keeps the array alive as long as the structure that points to it.
        return shape


class Text(ctypes.Structure):
    """A run's text and the generator that draws its windows."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("tokens", "answer", "begins")),
        ("count", ctypes.c_int64),
        ("key", ctypes.c_int64),
    )

    @classmethod
    def of(cls, text: Dataset, key: int, block: int, training: TrainingSettings) -> Text:
        """Return the text of a run. Arrays of the dataset are not copied if they have the right type."""
        tokens = np.ascontiguousarray(text.tokens, np.uint16)
        answer = np.ascontiguousarray(text.answer) if training.loss == "answer" else None
        starts = np.ascontiguousarray(fitting_starts(text, block), np.int64)
        begins = starts if training.windows == "expression" else None
        count = len(tokens) - block if begins is None else len(begins)
        addresses = (None if array is None else array.ctypes.data for array in (tokens, answer, begins))
        made = cls(*addresses, count, key)
        made.memory = tokens, answer, begins
        return made


class Optimizer(ctypes.Structure):
    """The settings of AdamW that a run's steps share."""

    _fields_ = (
        *((name, ctypes.c_float) for name in ("clip", "first_weight", "second_decay", "second_weight")),
        ("decayed", ctypes.c_void_p),
        ("trained", ctypes.c_void_p),
    )


class State(ctypes.Structure):
    """Addresses of a run's parameters, their moments, and its loss."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("parameters", "first", "second", "loss"))


class NativeTrainer(Trainer):
    """Trains the runs of a stack one after the other. A run has the same bits alone and in any stack."""

    def __post_init__(self) -> None:
        super().__post_init__()
        vocabulary, n_embed = self.layout.shapes["token"]
        if (largest := max(int(text.tokens.max()) for text in self.texts)) >= vocabulary:
            raise ValueError(f"a text has the token {largest}, outside the vocabulary of {vocabulary} tokens")
        self._shape = Shape.of(self.model, self.layout)
        block = self.model.block
        training = self.settings[0]
        self._texts = [Text.of(*pair, block, training) for pair in zip(self.texts, self.keys, strict=True)]
        step_flops = training.batch * block * flops_per_token(self.model, n_embed, vocabulary)
        self._steps_a_call = max(1, int(CALL_FLOPS / step_flops))

    def run(self, first: int, last: int) -> None:
        factors_SK3 = np.ascontiguousarray(step_factors(self.settings, first, last).transpose(2, 0, 1))
        for row in range(len(self.settings)):
            for begin in range(first, last, self._steps_a_call):
                end = min(last, begin + self._steps_a_call)
                self._train(row, begin, end, factors_SK3[row, begin - first :])
        self.state.loss_steps += last - first

    def write(self, tokens_SMW: Tensor, begin_SM: Tensor, end: int, keys: Sequence[int] | None = None) -> None:
        """Write greedy texts natively, and sampled texts by torch. W is at most ``block`` + 1."""
        if keys is not None:
            return super().write(tokens_SMW, begin_SM, end, keys)
        native = library()
        _, count, width = tokens_SMW.shape
        assert native is not None
        assert width <= self.model.block + 1
        for parameters_P, tokens_MW, begin_M in zip(self.state.parameters_SP, tokens_SMW, begin_SM, strict=True):
            tensors = [_pointer(tensor) for tensor in (parameters_P, tokens_MW, begin_M)]
            sizes = (ctypes.c_int64(count), ctypes.c_int64(width))
            if not native.write_texts(ctypes.byref(self._shape), tensors[0], *sizes, *tensors[1:], ctypes.c_int64(end)):
                raise MemoryError(NO_MEMORY)

    def _train(self, row: int, first: int, last: int, sizes_K3: NDArray[np.float32]) -> None:
        native = library()
        state = self.state
        training = self.settings[row]
        assert native is not None
        trained = None if self._trained_SP is None else _pointer(self._trained_SP[row])
        weights = (training.clip, 1 - training.beta1, training.beta2, 1 - training.beta2)
        optimizer = Optimizer(*weights, _pointer(self._decayed_P), trained)
        run = State(*(_pointer(tensor[row]) for tensor in state.tensors().values()))
        structures = (self._shape, self._texts[row], optimizer, run)
        shape, text, *rest = (ctypes.byref(structure) for structure in structures)
        steps = (ctypes.c_int64(first), ctypes.c_int64(last), ctypes.c_void_p(sizes_K3.ctypes.data))
        if not native.train(shape, ctypes.c_int32(training.batch), text, *rest, *steps):
            raise MemoryError(NO_MEMORY)


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    assert tensor.is_contiguous()
    return ctypes.c_void_p(tensor.data_ptr())
