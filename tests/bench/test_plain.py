"""The benchmark compares equal work, and its table has a row for each form."""

from __future__ import annotations

import pytest
import torch

from tests.bench import throughput
from tests.bench.plain import Case, PlainModel, PlainRun, Shape
from trainables.transformer.stack import StackTrainer

CASE = Case(Shape(block=9, batch=6, vocabulary=11), 16, "float32", "cpu")


def give_weights(trainer: StackTrainer, model: PlainModel) -> None:
    """Copy the initial weights of a stack of one to the plain model, whose linear layers transpose them."""
    views = trainer.layout.views(trainer.state.parameters_SP)
    targets = {
        "token": model.token.weight,
        "position": model.position.weight,
        "0.attention_norm": model.block.attention_norm.weight,
        "0.qkv": model.block.qkv.weight,
        "0.attention_out": model.block.attention_out.weight,
        "0.feed_forward_norm": model.block.feed_forward_norm.weight,
        "0.feed_forward_in": model.block.feed_forward_in.weight,
        "0.feed_forward_out": model.block.feed_forward_out.weight,
        "final_norm": model.final_norm.weight,
        "head": model.head.weight,
    }
    assert targets.keys() == views.keys()
    assert {id(target) for target in targets.values()} == {id(parameter) for parameter in model.parameters()}
    with torch.no_grad():
        for name, target in targets.items():
            same_way_up = name in ("token", "position") or target.dim() == 1
            target.copy_(views[name][0] if same_way_up else views[name][0].T)


def test_the_plain_run_has_the_loss_curve_of_a_stack_of_one() -> None:
    torch.set_num_threads(1)
    trainer = CASE.stack(1)
    model = PlainModel(CASE.model, CASE.width, CASE.shape.vocabulary)
    give_weights(trainer, model)
    plain = PlainRun(model, CASE.training, torch.zeros(100, dtype=torch.int32), compiled=False)
    ours, theirs = [], []
    for step in range(12):
        windows = trainer._sampler.draw(torch.tensor(step))[0][0]
        theirs.append(float(plain.step(windows)))
        trainer.state.loss_S.zero_()
        trainer.run(step, step + 1)
        ours.append(float(trainer.state.loss_S))
    assert ours == pytest.approx(theirs, rel=2e-5)
    assert theirs[-1] != theirs[0]


@pytest.mark.night
def test_the_table_has_a_row_a_form(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(throughput, "SHAPES", {"flat": CASE.shape})
    throughput.main(["--device", "cpu", "--quick", "--widths", "8", "--seconds", "0.01"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| 8 ")]
    assert [row[1] for row in rows] == ["a1", "stack of 1", "stack of 4", "native", "b, k = 2"]
    assert all(float(row[2]) > 0 for row in rows)
