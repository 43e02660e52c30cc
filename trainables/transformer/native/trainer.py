"""A stack on one CPU core, whose runs the native step trains one after the other.

Shape suffixes as in model.py: S stack, P parameters of one model, K steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.tasks.datasets import Dataset
from trainables.transformer.architecture import Layout, ModelSettings, flops_per_token
from trainables.transformer.model import forward
from trainables.transformer.native import MOST_WORDS, library
from trainables.transformer.optimizer import step_sizes
from trainables.transformer.stack import StackState, decayed_mask, trained_mask
from trainables.transformer.training_settings import TrainingSettings
from trainables.transformer.training_windows import fitting_starts

OF_MODEL = ("token", "position", "final_norm", "final_norm_bias", "head", "head_bias")
"""Tensors of a model, in the order of step.cpp."""
OF_LAYER = ("attention_norm", "qkv", "attention_out", "feed_forward_norm", "feed_forward_in", "feed_forward_out")
"""Tensors of each layer, in the order of step.cpp. Each is followed by its bias."""
NO_MEMORY = "not enough memory for the activations of a group of windows"
CALL_FLOPS = 1e10
"""Operations per call: some tenths of a second, during which signals wait."""


class Shape(ctypes.Structure):
    """A model and the offsets of its tensors. step.cpp explains the fields of this and the next structures."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("n_layer", "n_recurrence", "n_head", "n_embed", "hidden")),
        *((name, ctypes.c_int32) for name in ("block", "vocabulary", "is_gelu")),
        ("parameters", ctypes.c_int64),
        ("offsets", ctypes.c_void_p),
    )

    @classmethod
    def of(cls, model: ModelSettings, where: Layout) -> Shape:
        vocabulary, n_embed = where.shapes["token"]
        layers = (f"{layer}.{name}" for layer in range(model.n_layer) for name in OF_LAYER)
        names = (*OF_MODEL, *(full for name in layers for full in (name, f"{name}_bias")))
        offsets = np.array([where.offsets.get(name, -1) for name in names], np.int64)
        sizes = (model.n_layer, model.n_recurrence, model.n_head, n_embed, model.feed_forward * n_embed)
        rest = (model.block, vocabulary, model.activation == "gelu", where.width)
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
        made = cls(_address(tokens), _address(answer), _address(begins), count, key)
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


class NativeTrainer:
    """Runs optimizer steps of a stack on the CPU, as :class:`~trainables.transformer.stack.StackTrainer` does.

    A run has the same bits alone and in any stack. ``texts`` and ``keys`` are the arguments of ``WindowSampler``.
    """

    def __init__(
        self,
        state: StackState,
        model: ModelSettings,
        where: Layout,
        settings: Sequence[TrainingSettings],
        texts: Sequence[Dataset],
        keys: Sequence[int],
        *,
        frozen: Sequence[Collection[str]] = (),
    ) -> None:
        vocabulary, n_embed = where.shapes["token"]
        if (largest := max(int(text.tokens.max()) for text in texts)) >= min(vocabulary, MOST_WORDS):
            raise ValueError(f"a text has the token {largest}, outside the vocabulary of {vocabulary} tokens")
        self.state = state
        self._model = model
        self._where = where
        self._settings = tuple(settings)
        self._shape = Shape.of(model, where)
        self._texts = [Text.of(*pair, model.block, settings[0]) for pair in zip(texts, keys, strict=True)]
        self._decayed_P = decayed_mask(where, settings[0].decay)
        self._trained_SP = trained_mask(where, frozen, torch.device("cpu"))
        step_flops = settings[0].batch * model.block * flops_per_token(model, n_embed, vocabulary)
        self._steps_a_call = max(1, int(CALL_FLOPS / step_flops))

    def run(self, first: int, last: int) -> None:
        """Train steps ``first`` .. ``last - 1`` (from 0)."""
        sizes_SK3 = np.ascontiguousarray(step_sizes(self._settings, first, last).transpose(2, 0, 1))
        for row in range(len(self._settings)):
            for begin in range(first, last, self._steps_a_call):
                end = min(last, begin + self._steps_a_call)
                self._train(row, begin, end, sizes_SK3[row, begin - first :])
        self.state.loss_steps += last - first

    def keep(self, rows: Tensor) -> None:
        self.state.keep(rows)
        self._settings = tuple(self._settings[int(row)] for row in rows)
        self._texts = [self._texts[int(row)] for row in rows]
        if self._trained_SP is not None:
            self._trained_SP = self._trained_SP[rows].clone()

    def logits(self, tokens_SMT: Tensor) -> Tensor:
        with torch.no_grad():
            return forward(self._model, self._where.views(self.state.parameters_SP), tokens_SMT)

    def write(self, tokens_SMW: Tensor, begin_SM: Tensor, end: int) -> None:
        """Write every model's texts in place by greedy decoding, each from ``begin_SM`` to its first ``end``.

        The tokens after ``begin_SM`` are a draft, which saves time if it is right. W is at most ``block`` + 1; all
        tensors are int64.
        """
        native, (_, count, width) = library(), tokens_SMW.shape
        assert native is not None
        assert width <= self._model.block + 1
        assert tokens_SMW.is_contiguous()
        assert begin_SM.is_contiguous()
        shape, sizes = ctypes.byref(self._shape), (ctypes.c_int64(count), ctypes.c_int64(width))
        for row, parameters_P in enumerate(self.state.parameters_SP):
            tensors = (parameters_P, tokens_SMW[row], begin_SM[row])
            parameters, tokens, begin = (ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors)
            if not native.write_texts(shape, parameters, *sizes, tokens, begin, ctypes.c_int64(end)):
                raise MemoryError(NO_MEMORY)

    def _train(self, row: int, first: int, last: int, sizes_K3: NDArray[np.float32]) -> None:
        native, state, training = library(), self.state, self._settings[row]
        assert native is not None
        trained = None if self._trained_SP is None else self._trained_SP[row].data_ptr()
        weights = (training.clip, 1 - training.beta1, training.beta2, 1 - training.beta2)
        optimizer = Optimizer(*weights, self._decayed_P.data_ptr(), trained)
        moments = (state.adam.first_SP, state.adam.second_SP)
        run = State(*(tensor[row].data_ptr() for tensor in (state.parameters_SP, *moments, state.loss_S)))
        pointers = (ctypes.byref(each) for each in (self._shape, self._texts[row], optimizer, run))
        shape, text, *rest = pointers
        steps = (ctypes.c_int64(first), ctypes.c_int64(last), ctypes.c_void_p(_address(sizes_K3)))
        if not native.train(shape, ctypes.c_int32(training.batch), text, *rest, *steps):
            raise MemoryError(NO_MEMORY)


def loss_and_gradient(
    model: ModelSettings, where: Layout, parameters_P: Tensor, tokens_BW: Tensor, counted_BW: Tensor
) -> tuple[float, Tensor]:
    """Return one model's mean loss in predicting the counted tokens of its windows, and the gradient [P]."""
    native = library()
    assert native is not None
    tokens = np.ascontiguousarray(tokens_BW.numpy(), np.uint16)
    counted = np.ascontiguousarray(counted_BW.numpy(), np.bool_)
    parameters_P, gradient_P, loss = parameters_P.contiguous(), torch.empty_like(parameters_P), torch.empty(1)
    native.differentiate(
        ctypes.byref(Shape.of(model, where)),
        ctypes.c_void_p(parameters_P.data_ptr()),
        ctypes.c_int32(len(tokens)),
        ctypes.c_void_p(_address(tokens)),
        ctypes.c_void_p(_address(counted)),
        ctypes.c_void_p(loss.data_ptr()),
        ctypes.c_void_p(gradient_P.data_ptr()),
    )
    return float(loss), gradient_P


def _address(array: NDArray[np.generic] | None) -> int | None:
    return None if array is None else array.ctypes.data
