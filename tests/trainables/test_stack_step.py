"""The stacked step: each run trains as if alone, and a resumed stack as if never interrupted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.trainables.trainers import TRAINING, losses, make_trainer, rows_of
from trainables.transformer import stack
from trainables.transformer.generation import write_by_drafts
from trainables.transformer.stack import StackTrainer

SEEDS = (3, 1, 4)


@pytest.fixture
def device() -> str:
    """Device of these tests. tests/gpu runs the same tests on another one."""
    return "cpu"


def test_loss_curves_alone_and_in_a_stack_agree_over_50_steps(device: str) -> None:
    settings = [replace(TRAINING, learning_rate=rate, weight_decay=rate) for rate in (5e-3, 2e-3, 1e-2)]
    together = losses(make_trainer(SEEDS, device=device, settings=settings), 50)
    for row, seed in enumerate(SEEDS):
        alone = losses(make_trainer([seed], device=device, settings=settings[row : row + 1]), 50)
        torch.testing.assert_close(together[:, row], alone[:, 0], rtol=1e-3, atol=1e-4)
    assert bool((together[-5:].mean(dim=0) < together[:5].mean(dim=0) - 0.5).all()), "nothing was learned"


def test_a_resumed_stack_repeats_its_steps_bit_for_bit(device: str) -> None:
    trainer = make_trainer(SEEDS, device=device)
    trainer.run(0, 10)
    saved = rows_of(trainer)
    trainer.run(10, 25)
    resumed = make_trainer(SEEDS, device=device, state=saved)
    resumed.run(10, 25)
    for name, tensor in trainer.state.tensors().items():
        assert torch.equal(tensor, resumed.state.tensors()[name]), name


def test_removed_runs_do_not_change_the_others(device: str) -> None:
    whole, thinned = make_trainer(SEEDS, device=device), make_trainer(SEEDS, device=device)
    expected = losses(whole, 30)[:, [0, 2]]
    before = losses(thinned, 12)[:, [0, 2]]
    after = losses(make_trainer([3, 4], device=device, state=rows_of(thinned, 0, 2)), 18, first=12)
    torch.testing.assert_close(torch.cat((before, after)), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_diverged_run_does_not_change_its_neighbors(device: str, poison: float) -> None:
    healthy, poisoned = make_trainer(SEEDS, device=device), make_trainer(SEEDS, device=device)
    expected = losses(healthy, 12)
    poisoned.state.parameters_SP[1] = poison
    curve = losses(poisoned, 12)
    assert not bool(torch.isfinite(curve[:, 1]).any())
    assert torch.equal(curve[:, [0, 2]], expected[:, [0, 2]])


def test_an_evaluation_that_runs_out_of_memory_continues_with_smaller_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(SEEDS)
    tokens_SMW = torch.randint(0, 13, (3, 40, 12), generator=torch.Generator().manual_seed(0))
    expected, got, begin_SM = tokens_SMW.clone(), tokens_SMW.clone(), torch.full((3, 40), 5)
    trainer.write(expected, begin_SM.clone(), 0)
    passes, models = [], trainer.models()

    def logits(tokens_SMT: Tensor) -> Tensor:
        passes.append(tokens_SMT.shape[1])
        if tokens_SMT.shape[1] > 10 or len(passes) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return models(tokens_SMT)

    monkeypatch.setattr(trainer, "models", lambda: logits)
    trainer.write(got, begin_SM, 0)
    assert passes[0] == 40
    assert torch.equal(got, expected)
    monkeypatch.setattr(trainer, "models", lambda: lambda tokens_SMT: logits(tokens_SMT.repeat(1, 40, 1)))
    with pytest.raises(torch.OutOfMemoryError):  # Not even one text of each run fits.
        trainer.write(got, torch.full((3, 40), 5), 0)


@pytest.mark.parametrize("keys", [None, (1, 2, 3)])
def test_a_cpu_keeps_its_way_of_writing(keys: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of rounding would change results of runs under the same key."""
    trainer, written = make_trainer(SEEDS), []
    expected = torch.randint(0, 13, (3, 40, 12), generator=torch.Generator().manual_seed(0))
    tokens_SMW, begin_SM = expected.clone(), torch.full((3, 40), 5)
    with torch.no_grad():
        write_by_drafts(trainer.models(), expected, begin_SM.clone(), 0, keys)
    monkeypatch.setattr(stack, "write_by_steps", lambda *given: written.append(given))
    trainer.write(tokens_SMW, begin_SM, 0, keys)
    assert not written
    assert torch.equal(tokens_SMW, expected)


def test_compiling_for_the_canonical_stack_may_run_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def differentiate(trainer: StackTrainer, weights_SP: Tensor, *windows: Tensor) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(stack, "_COMPILED_FIRST", set())
    monkeypatch.setattr(StackTrainer, "_differentiate", differentiate)
    make_trainer(SEEDS, compile_step=True)
    assert len(stack._COMPILED_FIRST) == 1


def test_weights_and_optimizer_state_stay_float32_in_bf16() -> None:
    trainer = make_trainer([0], settings=[replace(TRAINING, precision="bf16")])
    trainer.run(0, 3)
    assert {tensor.dtype for tensor in trainer.state.tensors().values()} == {torch.float32}
