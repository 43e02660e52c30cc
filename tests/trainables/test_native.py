"""The native step, judged by torch's step in float64; a run has the same bits alone, in a stack and resumed."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainables.trainers import MODEL, TEXT, TRAINING, VOCABULARY, losses, make_trainer, native_trainer, rows_of
from trainables.base import Mix
from trainables.tasks.listops import TaskSettings
from trainables.tasks.texts import make_dataset
from trainables.transformer import generation, native
from trainables.transformer.architecture import Layout, ModelSettings, layout_of
from trainables.transformer.initialization import InitSettings
from trainables.transformer.model import initialize
from trainables.transformer.native.trainer import NativeTrainer, Shape
from trainables.transformer.optimizer import StackState
from trainables.transformer.stack import stack_losses

CLOSE = 1e-5
"""Tolerated distance from float64, as measured by ``farthest``."""
MANY = 3
"""Additional tolerance, in multiples of torch's own distance in float32."""

torch.set_num_threads(1)


def native_gradient(
    model: ModelSettings, layout: Layout, parameters_P: torch.Tensor, tokens_BW: torch.Tensor, counted_BW: torch.Tensor
) -> tuple[float, torch.Tensor]:
    """Return one model's mean loss in predicting the counted tokens of its windows, and the gradient [P]."""
    library = native.library()
    assert library is not None
    tokens, counted = tokens_BW.numpy().astype(np.uint16), counted_BW.numpy()
    loss, gradient_P = np.empty(1, np.float32), torch.empty_like(parameters_P)
    library.differentiate(
        ctypes.byref(Shape.of(model, layout)),
        parameters_P.numpy().ctypes,
        ctypes.c_int32(len(tokens)),
        tokens.ctypes,
        counted.ctypes,
        loss.ctypes,
        gradient_P.numpy().ctypes,
    )
    return float(loss[0]), gradient_P


def noisy_model(model: ModelSettings, layout: Layout, seed: int) -> torch.Tensor:
    """Return a model whose gains and biases have random values."""
    generator = torch.Generator().manual_seed(seed)
    flat = initialize(model, layout, generator)
    for view in layout.views(flat.unsqueeze(0)).values():
        view.add_(0.2 * torch.randn(view.shape, generator=generator))
    return flat


def by_torch(
    model: ModelSettings, layout: Layout, flat: torch.Tensor, tokens: torch.Tensor, counted: torch.Tensor, dtype: Any
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return the reference's loss and gradients in a precision."""
    leaves = {name: view.detach().to(dtype).requires_grad_() for name, view in layout.views(flat.unsqueeze(0)).items()}
    loss = stack_losses(model, leaves, tokens.unsqueeze(0), counted[..., 1:].unsqueeze(0), 1).sum()
    return float(loss.detach()), dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def farthest(gradients: Mapping[str, torch.Tensor], exact: Mapping[str, torch.Tensor]) -> float:
    """Return the largest relative distance of a tensor's gradient. Tensors with tiny gradients are measured relative
    to the whole gradient."""
    whole = math.sqrt(sum(float(right.norm()) ** 2 for right in exact.values()))
    return max(
        float((gradients[name] - right).norm()) / max(float(right.norm()), 1e-2 * whole, 1e-12)
        for name, right in exact.items()
    )


MODELS = st.builds(
    ModelSettings,
    n_layer=st.integers(1, 3),
    n_recurrence=st.integers(1, 4),
    n_head=st.sampled_from((1, 2, 3)),
    feed_forward=st.integers(1, 4),
    activation=st.sampled_from(("relu", "gelu")),
    tied=st.booleans(),
    bias=st.booleans(),
    parallel=st.booleans(),
    block=st.sampled_from((1, 2, 5, 18, 20, 33, 70)),
)


# Use the same examples each time: a ReLU whose input is 0 except for rounding may go either way, which is not a defect.
@settings(max_examples=80, deadline=None, derandomize=True)
@given(MODELS, st.sampled_from((4, 5, 7, 8, 13)), st.integers(1, 19), st.integers(0, 2**20), st.data())
def test_loss_and_gradients_agree_with_torch(
    model: ModelSettings, head_size: int, batch: int, seed: int, data: st.DataObject
) -> None:
    vocabulary, counted_share = data.draw(st.tuples(st.sampled_from((2, 18, 300)), st.sampled_from((0.0, 0.1, 0.5, 1))))
    layout = layout_of(model, model.n_head * head_size, vocabulary)
    flat = noisy_model(model, layout, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(0, vocabulary, (batch, model.block + 1), generator=generator)
    counted = torch.rand(batch, model.block + 1, generator=generator) < counted_share
    loss, gradient = native_gradient(model, layout, flat, tokens, counted)
    judge, exact = by_torch(model, layout, flat, tokens, counted, torch.float64)
    single, inexact = by_torch(model, layout, flat, tokens, counted, torch.float32)
    assert abs(loss - judge) <= CLOSE * max(judge, 1) + MANY * abs(single - judge)
    mine = layout.views(gradient.unsqueeze(0))
    assert farthest(mine, exact) <= CLOSE + MANY * farthest(inexact, exact)


TRAININGS: dict[str, dict[str, Any]] = {
    "all tokens": {},
    "answers of whole expressions": {"loss": "answer", "windows": "expression"},
    "decay of all, no momentum": {"decay": "all", "weight_decay": 0.5, "beta1": 0.0},
    "tight clip": {"clip": 0.05, "beta2": 0.999},
}


@pytest.mark.parametrize("name", TRAININGS)
def test_training_follows_torch(name: str) -> None:
    """The first steps differ only by rounding; later ones drift apart as with any change in rounding."""
    settings = [replace(TRAINING, **TRAININGS[name], learning_rate=rate) for rate in (5e-3, 2e-3)]
    expected, got = (losses(make([3, 1], settings=settings), 30) for make in (make_trainer, native_trainer))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert bool((got[-5:].mean(dim=0) < got[:5].mean(dim=0) - 0.2).all()), "nothing was learned"


def test_a_run_has_the_same_bits_alone_in_a_stack_and_resumed() -> None:
    together, first = native_trainer([3, 1, 4], n_embed=13), native_trainer([1], n_embed=13)
    together.run(0, 25)
    first.run(0, 7)
    resumed = native_trainer([1], n_embed=13, state=rows_of(first))
    resumed.run(7, 25)
    for name, tensor in resumed.state.tensors().items():
        assert torch.equal(tensor, together.state.tensors()[name][1:2]), name


def test_frozen_parts_keep_their_first_values() -> None:
    trainer = native_trainer([3, 1], settings=[replace(TRAINING, decay="all")] * 2, frozen=[{"token", "0.qkv"}, set()])
    views = trainer.layout.views(trainer.state.parameters_SP)
    before = {name: view.clone() for name, view in views.items()}
    trainer.run(0, 5)
    stayed = [{name for name, view in views.items() if torch.equal(view[row], before[name][row])} for row in (0, 1)]
    assert stayed == [{"token", "0.qkv"}, set()]


@pytest.mark.parametrize(("poison", "activation"), [(math.nan, "relu"), (math.inf, "gelu"), (1e30, "relu")])
def test_a_diverged_run_has_no_finite_loss_and_does_not_change_others(poison: float, activation: Any) -> None:
    model = replace(MODEL, activation=activation)
    healthy, poisoned = native_trainer([3, 1], model=model), native_trainer([3, 1], model=model)
    expected = losses(healthy, 6)
    for trainer in (poisoned, reference := make_trainer([3, 1], model=model)):
        trainer.state.parameters_SP[1] = poison
    curve, theirs = losses(poisoned, 6), losses(reference, 6)
    assert torch.equal(torch.isfinite(curve[:, 1]), torch.isfinite(theirs[:, 1]))
    assert torch.equal(curve[:, 0], expected[:, 0])


def test_a_text_with_tokens_beyond_the_vocabulary_is_refused() -> None:
    layout = layout_of(MODEL, 16, VOCABULARY - 1)
    state = StackState.start(torch.zeros(1, layout.width))
    with pytest.raises(ValueError, match="outside the vocabulary"):
        NativeTrainer(state, MODEL, layout, [TRAINING], [TEXT], [0])


def test_a_library_built_from_other_source_code_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.library() is not None
    monkeypatch.setattr(native, "INTERFACE", -1)
    native._load.cache_clear()
    try:
        why, remedy = native.missing() or ("", "")
        assert native.library() is None
        assert not native.can_train(MODEL, TRAINING, "cpu")
    finally:
        native._load.cache_clear()
    assert "built from other source code" in why
    assert "pip install -e ." in remedy


TASK = TaskSettings(modulus=6, held_out_fraction=0.2, train_examples=100, validation_examples=40, test_examples=40)


@pytest.mark.parametrize(("spread", "n_embed", "activation"), [(0.3, 12, "gelu"), (0.7, 13, "relu")])
def test_greedy_texts_agree_with_torch(
    spread: float, n_embed: int, activation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models are random, so that most drafts are wrong; rows have different heights and texts different lengths."""
    monkeypatch.setattr(generation, "FEW_TOKENS", 0)
    words = TASK.vocabulary()
    model = ModelSettings(n_layer=2, n_recurrence=1, block=60, activation=activation, init=InitSettings(std=spread))
    layout = layout_of(model, n_embed, len(words))
    first = [initialize(model, layout, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    trainer = NativeTrainer(StackState.start(torch.stack(first)), model, layout, [TRAINING] * 2, [TEXT] * 2, [0, 1])
    joint, alone = (make_dataset(TASK, Mix.parse(mix), seed) for mix, seed in (("add+max", 0), ("add", 1)))
    questions = [list(joint.test.values()), list(alone.test.values())]
    theirs, begin = map(torch.from_numpy, generation.lay_out(questions, words.eos))
    mine = theirs.clone()
    by_torch, by_steps = (
        partial(write, trainer.models()) for write in (generation.write_by_drafts, generation.write_by_steps)
    )
    stepped = theirs.clone()
    by_torch(theirs, begin.clone(), words.eos)
    by_steps(stepped, begin.clone(), words.eos)
    trainer.write(mine, begin.clone(), words.eos)
    written = 0
    texts = (texts.flatten(0, 1) for texts in (theirs, mine, stepped))
    for expected, got, other, start in zip(*texts, begin.flatten(), strict=True):
        ends = (expected[start:] == words.eos).nonzero()
        end = int(start + ends[0]) + 1 if len(ends) else len(expected)
        assert torch.equal(got[:end], expected[:end])
        assert torch.equal(other[:end], expected[:end])
        written += end - int(start)
    assert written > 200
    scores = [
        generation.accuracies(write, questions, words, torch.device("cpu"))
        for write in (by_torch, by_steps, trainer.write)
    ]
    assert scores[0] == scores[1] == scores[2]
