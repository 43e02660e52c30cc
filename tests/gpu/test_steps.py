"""Steps on a GPU (recorded, compiled and padded) compared with those of the CPU, and tests of every stack on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.trainables.test_stack_step import (
    test_a_diverged_run_does_not_change_its_neighbors,
    test_a_resumed_stack_repeats_its_steps_bit_for_bit,
    test_loss_curves_alone_and_in_a_stack_agree_over_50_steps,
    test_removed_runs_do_not_change_the_others,
)
from tests.trainables.trainers import MODEL, TRAINING, VOCABULARY, losses, make_trainer
from trainables.transformer import generation
from trainables.transformer.initialization import InitSettings

__all__ = [  # Collected again here, with this folder's `device`.
    "test_a_diverged_run_does_not_change_its_neighbors",
    "test_a_resumed_stack_repeats_its_steps_bit_for_bit",
    "test_loss_curves_alone_and_in_a_stack_agree_over_50_steps",
    "test_removed_runs_do_not_change_the_others",
]


@pytest.mark.parametrize("n_embed", [16, 37])
@pytest.mark.parametrize("compile_step", [False, True])
def test_on_a_gpu_captured_steps_follow_the_cpu(n_embed: int, compile_step: bool) -> None:
    trainer = make_trainer([0, 1], device="cuda", n_embed=n_embed, compile_step=compile_step)
    on_gpu = losses(trainer, 30)
    assert trainer._captured is not None
    assert trainer._captured._graph is not None
    torch.testing.assert_close(on_gpu, losses(make_trainer([0, 1], n_embed=n_embed), 30), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("keys", [None, (1, -7)])
def test_on_a_gpu_texts_are_written_token_by_token(
    keys: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "FEW_TOKENS", 0)
    trainer = make_trainer([0, 1], device="cuda", n_embed=37, model=replace(MODEL, init=InitSettings(std=0.7)))
    tokens = torch.randint(0, VOCABULARY, (2, 40, 12), generator=torch.Generator().manual_seed(0)).cuda()
    by_steps, by_drafts, begin = tokens.clone(), tokens.clone(), torch.full((2, 40), 5, device="cuda")
    never = VOCABULARY
    trainer.write(by_steps, begin.clone(), never, keys)
    with torch.no_grad():
        generation.write_by_drafts(trainer.models(), by_drafts, begin, never, keys)
    assert not torch.equal(by_steps, tokens)
    assert torch.equal(by_steps, by_drafts)


@pytest.fixture
def tf32_as_before() -> Iterator[None]:
    """Restore whether float32 products may be rounded, which is set for the whole process."""
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.usefixtures("tf32_as_before")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_on_a_gpu_the_learning_outcome_survives_less_precision(precision: Any) -> None:
    ends = []
    for kind in ("float32", precision):
        trainer = make_trainer(range(8), device="cuda", model=MODEL, settings=[replace(TRAINING, precision=kind)] * 8)
        ends.append(losses(trainer, 200)[-20:].mean(dim=0))
    noise = float(ends[0].std()) / 8**0.5
    assert abs(float(ends[1].mean() - ends[0].mean())) < max(2 * noise, 0.02)
