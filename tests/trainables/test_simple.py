"""Families of one generator: their defaults, and the errors for a wrong ``train``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.simple_families import Curve, Diverges, TorchFit, Yields
from trainables import SimpleFamily
from trainables.base import Arm, Outcome, RunConfig, Status
from trainables.contract.conformance import case_of, findings
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator
from trainables.families import load_family

HERE = "tests.trainables.simple_families"


def made(name: str) -> SimpleFamily:
    kind = load_family(f"{HERE}:{name}")
    family = kind(kind.Settings())
    assert isinstance(family, SimpleFamily)
    return family


def run_of(family: SimpleFamily, size: int = 8, seed: int = 3) -> RunConfig:
    return family.config(Arm.parse("+".join(family.tasks())), size, seed)


def trained(family: SimpleFamily, run: RunConfig) -> Outcome:
    """Train a run as a worker does, with every report validated."""
    learner = family.learner([run], device="cpu", cache=Path("unused"))
    validator = ReportValidator(family, [run])
    while True:
        for report in validator.check(learner.advance()):
            if report.outcome is not None:
                assert learner.advance() == []
                return report.outcome


@pytest.mark.parametrize("name", ["Curve", "TorchFit"])
def test_a_simple_family_keeps_the_contract_of_a_family(name: str, tmp_path: Path) -> None:
    results = {finding.name: finding for finding in findings(case_of(made(name), (), "cpu", tmp_path))}
    assert {name: finding.wrong for name, finding in results.items() if finding.wrong} == {}
    skipped = [name for name, finding in results.items() if finding.skipped]
    assert skipped == ["a run in a stack equals the run alone", "a run continues from its checkpoint"]


def test_a_run_ends_with_its_last_point_and_its_curve() -> None:
    family = Curve(Curve.Settings())
    outcome = trained(family, run_of(family, size=100))
    assert (outcome.status, outcome.steps) == (Status.FINISHED, 4)
    assert [point.step for point in outcome.curve] == [2, 4]
    assert outcome.accuracy == outcome.curve[-1].accuracy
    assert outcome.accuracy.keys() == {"add", "prod"}
    assert outcome.accuracy["add"] == pytest.approx(0.98, abs=0.1)
    assert outcome.floor == {"add": 0.1, "prod": 0.1}
    assert outcome.measures["seconds"] > 0


def test_a_loss_that_is_not_finite_counts_as_divergence() -> None:
    family = Diverges(Diverges.Settings())
    outcome = trained(family, run_of(family))
    assert (outcome.status, outcome.steps) == (Status.DIVERGED, 2)
    assert outcome.accuracy == outcome.floor == {"add": 0.25, "prod": 0.25}
    assert [point.step for point in outcome.curve] == [1]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"points": ((2, 0.5, 0.2), (1, 0.4, 0.3))}, "yielded step 1; it must be a whole number of at least 3"),
        ({"points": ((1.5, 0.5, 0.2),)}, "yielded step 1.5; it must be a whole number"),
        ({"points": ()}, "yielded nothing; yield (step, loss, accuracy) at least once"),
        ({"points": ((1, 0.5),)}, "yielded tuple (1, 0.5); yield (step, loss, accuracy)"),
        ({"points": ((1, 0.5, {"add": 0.5}),)}, "for each task of the mix ('add', 'prod'); it is dict {'add': 0.5}"),
        ({"points": ((1, 0.5, np.array([0.5, 0.7])),)}, "accuracy on 'add' must be a number; it is ndarray array("),
        (
            {"points": ((1, 0.5, {"add": [0.5, 0.7], "prod": 0.5}),)},
            "list [0.5, 0.7]; use one number, such as the mean",
        ),
        (
            {"points": ((1, torch.tensor([0.5, 0.7]), 0.5),)},
            "loss must be a number; it is Tensor tensor([0.5000, 0.7000])",
        ),
        ({"points": ((np.array([1, 2]), 0.5, 0.5),)}, "yielded step [1 2]; it must be a whole number"),
        ({"train": lambda *_: [(1, 0.5, 0.5)]}, "returned list [(1, 0.5, 0.5)]; make it a generator"),
    ],
)
def test_the_error_of_a_wrong_train_names_the_mistake(members: dict[str, Any], message: str) -> None:
    family: SimpleFamily = type("Wrong", (Yields,), members)(Yields.Settings())
    run = run_of(family)
    with pytest.raises(BrokenFamilyError) as error:
        trained(family, run)
    assert str(error.value).startswith(f"the family {family.name!r} does not keep its contract: ")
    assert f"(mix {run.label}, size 8, seed 3): " in str(error.value)
    assert message in str(error.value)


def test_a_missing_floor_is_said() -> None:
    """The best constant answer is rarely always wrong, and a family inherits a floor that its base defines."""
    [caveat] = Yields(Yields.Settings()).warnings([8])
    assert "does not define `floor`" in caveat
    assert Diverges(Diverges.Settings()).warnings([8]) == []
    inherits: SimpleFamily = type("Inherits", (Curve,), {})(Curve.Settings())
    assert inherits.warnings([8]) == []


def test_randomness_without_a_seed_is_detected(tmp_path: Path) -> None:
    wrong = {finding.name: finding.wrong for finding in findings(case_of(made("Unseeded"), (8,), "cpu", tmp_path))}
    assert "a seed must determine a run" in wrong["a run trains to its end, and its seed determines it"]


def test_a_killed_run_starts_over_and_reports_no_step_twice(tmp_path: Path) -> None:
    family = TorchFit(TorchFit.Settings())
    run = run_of(family)
    whole = trained(family, run)
    learner = family.learner([run], device="cpu", cache=tmp_path)
    for _ in range(3):
        learner.advance()
    learner.save(tmp_path / "checkpoint")
    again = family.learner([run], device="cpu", cache=tmp_path)
    again.restore(tmp_path / "checkpoint")
    (report,) = again.advance()
    assert report.evaluation == whole.curve[3]
    with pytest.raises(FileNotFoundError):
        again.restore(tmp_path / "nothing")
    other = family.learner([run_of(family, seed=4)], device="cpu", cache=tmp_path)
    with pytest.raises(ValueError, match="belongs to another run"):
        other.restore(tmp_path / "checkpoint")


def test_without_a_parameter_count_sizes_are_compared() -> None:
    assert TorchFit.words.parameters == "units of size"
    assert Curve.words.parameters == "parameters"
    assert TorchFit(TorchFit.Settings()).parameters(7.5).total == 7.5
    assert Curve(Curve.Settings()).parameters(2).core == 21


def test_keys_depend_on_settings_and_version() -> None:
    def key(kind: type[SimpleFamily], **settings: Any) -> str:
        family = kind(kind.Settings(**settings))
        return family.key(run_of(family))

    later = type("Later", (Curve,), {"name": Curve.name, "version": 2})
    assert key(Curve) == key(Curve)
    assert len({key(Curve), key(Curve, midpoint=13.0), key(Curve, steps=6), key(later)}) == 4


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, r"Wrong.task_names must be a tuple of names such as \('add',\); it is \(\)"),
        ({"task_names": "add"}, r"Wrong.task_names must be .* it is 'add'"),
        ({"task_names": ("add",), "Settings": dict}, r"Wrong\.Settings must be a frozen dataclass with a whole number"),
    ],
)
def test_missing_required_attributes_are_named(members: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("Wrong", (SimpleFamily,), {"train": lambda *_: None, **members})


def made_by_a_function(rate: float) -> type[SimpleFamily]:
    class Made(SimpleFamily):
        task_names = ("checkers",)

        def train(self, tasks: Any, size: int, seed: int, settings: Any) -> Iterator[Any]:
            yield 1, 1.0, rate

    return Made


def renamed(name: str) -> type[SimpleFamily]:
    made = made_by_a_function(0.1)
    made.__name__ = made.__qualname__ = name
    return made


Gelu, Silu = renamed("Gelu"), renamed("Silu")
Low, High = made_by_a_function(0.5), made_by_a_function(0.8)
Same = High
Dynamic = type("Another name", (SimpleFamily,), {"task_names": ("disc",), "train": Low.train})


NAMED = ("Low", "High", "Dynamic", "Gelu", "Silu", "Same", "Low")


def test_classes_that_one_function_made_have_the_names_by_which_they_are_named() -> None:
    """Otherwise they would share their runs."""
    module = __name__
    names = [load_family(f"{module}:{name}").name for name in NAMED]
    assert names == [f"{module}:{name}" for name in (*NAMED[:-2], "High", "Low")]
