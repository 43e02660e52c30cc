"""The step can be captured as a CUDA graph: what a CPU can show of it, and the real thing on a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.trainables.trainers import MODEL, TRAINING, losses, make_trainer
from trainables.captured import repeatable

WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::masked_select", "aten::unique")
"""Operations that make the host wait for the device, which ends a capture."""


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what a step does and repeats it on the same memory, as a CUDA graph does."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, result))
        return result

    def replay(self) -> None:
        for func, args, kwargs, before in self.calls:
            after = func(*args, **kwargs)
            pairs = zip(_tensors(before), _tensors(after), strict=True)
            for old, new in pairs:
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def _tensors(result: Any) -> list[torch.Tensor]:
    items = result if isinstance(result, tuple | list) else [result]
    return [item.detach() for item in items if isinstance(item, torch.Tensor)]


def recorded(step: Callable[[], None]) -> Tape:
    tape = Tape()
    with tape:
        step()
    return tape


def test_a_recorded_step_repeats_training_without_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [replace(TRAINING, learning_rate=rate) for rate in (5e-3, 1e-3)]
    plain = make_trainer([0, 1], settings=settings)
    plain.run(0, 8)
    replayed = make_trainer([0, 1], settings=settings)
    replayed.run(0, 1)
    # Recording is itself a step, at which the tape is in the place of the step it records.
    tapes: list[Tape] = []

    def record_then_replay() -> None:
        if tapes:
            with torch.no_grad():
                tapes[0].replay()
        else:
            tapes.append(recorded(take_step))

    take_step = replayed._take_step
    monkeypatch.setattr(replayed, "_take_step", record_then_replay)
    replayed.run(1, 8)
    for name, tensor in plain.state.tensors().items():
        assert torch.equal(tensor, replayed.state.tensors()[name]), name


@pytest.mark.parametrize("loss", ["all", "answer"])
@pytest.mark.parametrize("windows", ["anywhere", "expression"])
def test_no_operation_of_a_step_waits_for_the_device(loss: Any, windows: Any) -> None:
    trainer = make_trainer([0, 1], settings=[replace(TRAINING, loss=loss, windows=windows)] * 2)
    trainer.run(0, 1)
    names = {func.name().split(".")[0] for func, *_ in recorded(trainer._take_step).calls}
    assert "aten::bmm" in names
    assert not names & set(WAITS)


def test_repeatable_kernels_are_asked_for_only_meanwhile() -> None:
    assert not torch.are_deterministic_algorithms_enabled()
    with repeatable():
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"]
        assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]


@pytest.mark.gpu
@pytest.mark.parametrize("n_embed", [16, 37])
@pytest.mark.parametrize("compile_step", [False, True])
def test_on_a_gpu_captured_steps_follow_the_cpu(n_embed: int, compile_step: bool) -> None:
    trainer = make_trainer([0, 1], device="cuda", n_embed=n_embed, compile_step=compile_step)
    on_gpu = losses(trainer, 30)
    assert trainer._captured is not None
    assert trainer._captured.recorded
    torch.testing.assert_close(on_gpu, losses(make_trainer([0, 1], n_embed=n_embed), 30), rtol=2e-3, atol=1e-3)


@pytest.fixture
def tf32_as_before() -> Iterator[None]:
    """Whether float32 products may be rounded is set for the whole process."""
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.gpu
@pytest.mark.usefixtures("tf32_as_before")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_on_a_gpu_the_learning_outcome_survives_less_precision(precision: Any) -> None:
    ends = []
    for one in ("float32", precision):
        trainer = make_trainer(range(8), device="cuda", model=MODEL, settings=[replace(TRAINING, precision=one)] * 8)
        torch.backends.cuda.matmul.allow_tf32 = one == "tf32"
        ends.append(losses(trainer, 200)[-20:].mean(dim=0))
    noise = float(ends[0].std()) / 8**0.5
    assert abs(float(ends[1].mean() - ends[0].mean())) < max(2 * noise, 0.02)
