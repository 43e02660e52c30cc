"""The benchmark compares like with like, and its table says what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.bench import throughput
from tests.bench.forms import Form
from tests.bench.plain import Case, PlainModel, PlainRun, Shape
from trainables.transformer.stack import StackTrainer

CASE = Case(Shape(block=9, batch=6, vocabulary=11), 16, "float32", "cpu")


class Steady(Form):
    """A form that always takes as long, or never gets ready."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        self.name, self.runs, self.closed, self._error = name, 1, False, error

    def prepare(self) -> None:
        if self._error is not None:
            raise self._error

    def measure(self, seconds: float) -> float:
        return 1.0

    def close(self) -> None:
        self.closed = True


def test_a_form_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    options, _ = throughput.parse(["--device", "cpu", "--quick", "--json", str(tmp_path / "x.json")])
    benchmark = throughput.Benchmark(options)
    large = Steady("stack of 256", torch.OutOfMemoryError("CUDA out of memory"))
    dead = Steady("b, k = 2", RuntimeError("a worker ended with exit code 1\nand more"))
    steady = Steady("a1")
    assert benchmark._one_by_one([large]) == {}
    assert not benchmark.failed
    assert benchmark._one_by_one([dead, steady]) == {steady: 1.0}
    assert benchmark.failed
    assert large.closed
    assert dead.closed
    with pytest.raises(ValueError, match="a mistake"):
        benchmark._one_by_one([Steady("a1", ValueError("a mistake"))])
    assert benchmark.notes == [
        "stack of 256: more memory than the device has",
        "b, k = 2: RuntimeError: a worker ended with exit code 1",
    ]


def give_weights(trainer: StackTrainer, model: PlainModel) -> None:
    """Make the plain model the one the stack of one begins with; linear layers keep their weights transposed."""
    views = trainer._where.views(trainer.state.parameters_SP)
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


@pytest.mark.bench
def test_the_cpu_form_prints_and_writes_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "throughput.json"
    arguments = ["--device", "cpu", "--quick", "--no-a2", "--widths", "16", "32", "64", "--json", str(path)]
    rows = throughput.main(arguments)
    written = json.loads(path.read_text())
    forms = ["a1", "b, k = 2", *(f"stack of {size}" for size in (1, 2, 4, 8))]
    assert sorted((row["n_embed"], row["form"]) for row in written["rows"]) == sorted(
        (width, form) for width in (16, 32, 64) for form in forms
    )
    assert all(row.rate > 0 and 0 < row.share < 1 for row in rows)
    assert written["machine"]["torch"] == torch.__version__
    with capsys.disabled():
        print("\n" + capsys.readouterr().out)
