"""Simple families that save their state and keep weights: what is refused, what comes back, where runs continue."""

from __future__ import annotations

import json
import math
import random
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from tests.trainables import resuming
from tests.trainables.resuming import Early, Keeps, Line, LineSettings, Saves, SavesForNothing
from tests.trainables.simple_families import TorchFit
from trainables import SimpleFamily
from trainables.base import Arm, Learner, Outcome, Report
from trainables.contract import states
from trainables.contract.conformance import Finding, case_of, findings
from trainables.contract.report_validator import BrokenFamilyError
from trainables.contract.simple import STATE, SimpleLearner
from trainables.contract.states import StateError, restored, snapshot
from trainables.contract.torch_checkpoints import write_checkpoint


def learner_of(family: SimpleFamily, size: int = 4, seed: int = 3) -> SimpleLearner:
    run = family.config(Arm.parse(family.tasks()[0]), size, seed)
    learner = family.learner([run], device="cpu", cache=Path("unused"))
    assert isinstance(learner, SimpleLearner)
    return learner


def rest(learner: Learner) -> list[Report]:
    """Return all remaining reports of one run."""
    reports = []
    while new := learner.advance():
        reports += new
    return reports


def ended(learner: Learner) -> Report:
    return rest(learner)[-1]


def outcome_of(report: Report) -> Outcome:
    assert report.outcome is not None
    return report.outcome


# States


@pytest.mark.parametrize(
    "state",
    [
        None,
        {"step": 3, "rate": 0.1, "name": "adam", "done": False, "none": None, "inf": math.inf, 7: "key"},
        {"a": [1, (2.5, "x"), {}], "b": ((), [])},
        {"random": random.Random(1).getstate()},
        {"numpy": np.random.default_rng(2).bit_generator.state},
        2**100,
    ],
)
def test_plain_values_come_back_as_they_were(state: Any) -> None:
    copied = snapshot(state)
    back = restored(json.loads(json.dumps(copied.tree)), copied.tensors)
    assert back == state
    assert type(back) is type(state)


@pytest.mark.parametrize("dtype", sorted(states.DTYPES, key=str), ids=str)
def test_tensors_come_back_bit_for_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype).t()  # Not contiguous.
    back = written_and_read({"value": tensor}, tmp_path)["value"]
    assert (back.dtype, back.shape) == (dtype, tensor.shape)
    assert torch.equal(back.contiguous().view(torch.uint8), tensor.contiguous().view(torch.uint8))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3)[:, ::-1],
        np.arange(3, dtype=">i4"),
        np.array([True, False]),
        np.array(2.5, dtype=np.float32),
        np.zeros((0, 3), dtype=np.uint64),
    ],
)
def test_arrays_come_back_as_arrays(array: Any, tmp_path: Path) -> None:
    back = written_and_read([array], tmp_path)[0]
    assert isinstance(back, np.ndarray)
    assert np.array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")


def test_numbers_of_numpy_keep_their_type(tmp_path: Path) -> None:
    back = written_and_read({"a": np.float32(0.1), "b": np.int8(3), "c": np.float64(0.3)}, tmp_path)
    assert {name: type(value) for name, value in back.items()} == {"a": np.float32, "b": np.int8, "c": np.float64}
    assert back["a"] == np.float32(0.1)


def written_and_read(state: Any, folder: Path) -> Any:
    """Return a state after it was in a file."""
    copied = snapshot(state)
    write_checkpoint(folder / "file", {str(place): one for place, one in enumerate(copied.tensors)}, copied.tree)
    with safe_open(folder / "file", framework="pt") as file:
        tensors = [file.get_tensor(str(place)) for place in range(len(copied.tensors))]
        return restored(json.loads(file.metadata()["notes"]), tensors)


def test_a_state_is_a_copy() -> None:
    tensor, array, values = torch.zeros(2), np.zeros(2), [0]
    copied = snapshot([tensor, array, values])
    tensor += 1
    array += 1
    values.append(1)
    back = restored(copied.tree, copied.tensors)
    assert (back[0].tolist(), back[1].tolist(), back[2]) == ([0, 0], [0, 0], [0])


def test_the_state_of_a_module_and_its_optimizer_fits() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    copied = snapshot({"model": OrderedDict(model.state_dict()), "optimizer": optimizer.state_dict()})
    back = restored(copied.tree, copied.tensors)
    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    other.load_state_dict(back["model"])
    again = torch.optim.AdamW(other.parameters())
    again.load_state_dict(back["optimizer"])
    assert str(again.state_dict()) == str(optimizer.state_dict())


class Odd:
    """A type that no state has."""


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (Odd(), "state is a tests.trainables.test_resuming.Odd; a state may have tensors, arrays, numbers"),
        ({"optimizer": {"hook": print}}, "state['optimizer']['hook'] is a builtin_function_or_method"),
        ({"layers": [1, {2}]}, "state['layers'][1] is a set"),
        ({"z": 1j}, "state['z'] is a complex"),
        ({"data": b"x"}, "state['data'] is a bytes"),
        ({(1, 2): 3}, "state has the key (1, 2), a tuple; keys are text or whole numbers"),
        ({True: 3}, "state has the key True, a bool"),
        ({"a": np.array([None])}, "state['a'] is a numpy.ndarray of the type object"),
        ({"a": np.array(["x"])}, "state['a'] is a numpy.ndarray of the type <U1"),
        ({"a": torch.zeros(2, dtype=torch.complex128)}, "state['a'] is a tensor (strided, complex128 on cpu)"),
        ({"a": torch.zeros(2).to_sparse()}, "state['a'] is a tensor (sparse_coo, float32 on cpu)"),
        ({"a": torch.zeros(2, device="meta")}, "state['a'] is a tensor (strided, float32 on meta)"),
        ({"n": 1 << 5000}, "state['n'] is a whole number of more than 4096 bits"),
        ({"t": "x" * 2_000_000}, "state['t'] is text of 2,000,000 characters; at most 1,000,000 fit"),
        ({"all": list(range(200_000))}, "is one of more than 100,000 values; put many numbers into one array"),
        ({"a": ITSELF}, "is nested more than 32 deep (does a list or dict contain itself?)"),
    ],
)
def test_a_state_that_cannot_be_saved_is_refused_with_its_place(state: Any, message: str) -> None:
    family: SimpleFamily = type("Wrong", (Saves,), {"state": state})(Saves.Settings())
    with pytest.raises(BrokenFamilyError) as error:
        learner_of(family).advance()
    assert str(error.value).startswith(f"the family {family.name!r} does not keep its contract: Wrong.train (mix add")
    assert message in str(error.value)


def test_a_state_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MOST_STATE_BYTES", 1 << 30)
    with pytest.raises(StateError, match=r"^state\['b'\] makes the state larger than 1 GiB$"):
        snapshot({"a": torch.zeros(1), "b": torch.zeros(1).expand(1 << 30)})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"tensor": 1}, "has no tensor 1"),
        ({"tensor": -1}, "has no tensor -1"),
        ({"array": True}, "has no tensor True"),
        ({"scalar": "0"}, "has no tensor '0'"),
        ([1], "which is not a value"),
        ({"list": [1], "dict": []}, "which is not a value"),
        ({"list": 3}, "has the list 3"),
        ({"dict": [[1.5, 2]]}, "has the entry"),
        ({"dict": [["a"]]}, "has the entry"),
        ({"pickle": []}, "the unknown kind 'pickle'"),
        ({"list": [0] * 200_000}, "too many values"),
    ],
)
def test_a_damaged_state_is_refused(tree: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        restored(tree, [torch.zeros(1)])


# Runs that continue


@pytest.mark.parametrize("stopped_at", [1, 3, 5, 6])
@pytest.mark.parametrize("family", [Line(LineSettings()), Early(LineSettings())], ids=["saved after", "saved before"])
def test_a_killed_run_continues_bit_for_bit(family: SimpleFamily, stopped_at: int, tmp_path: Path) -> None:
    whole = ended(learner_of(family))
    learner = learner_of(family)
    for _ in range(stopped_at):
        learner.advance()
    learner.save(tmp_path)
    learner.close()
    torch.manual_seed(12345)
    again = learner_of(family)
    again.restore(tmp_path)
    reports = rest(again)
    steps = [report.evaluation.step for report in reports if report.evaluation is not None]
    assert steps == list(range(stopped_at + 1, 7))  # None twice.
    repeats = stopped_at if isinstance(family, Early) else (stopped_at + 1) % 7
    assert again.first_step == repeats
    outcome = outcome_of(reports[-1])
    assert (outcome.curve, outcome.accuracy, outcome.steps) == (
        outcome_of(whole).curve,
        outcome_of(whole).accuracy,
        6,
    )
    assert [report.weights.keys() for report in reports[:-1]] == [{}.keys()] * len(reports[:-1])
    for what in ("weights", "arrays"):
        expected, given = getattr(whole, what), getattr(reports[-1], what)
        assert expected.keys() == given.keys()
        assert all(np.array_equal(expected[name], given[name]) for name in expected)


def test_a_run_can_be_killed_again_before_it_saves_again(tmp_path: Path) -> None:
    """What a resumed train does to its state in place does not change the next checkpoint."""
    family = Line(LineSettings())
    whole = outcome_of(ended(learner_of(family)))
    for place in range(3):
        learner = learner_of(family)
        if place:
            learner.restore(tmp_path)
        learner.advance()
        learner.save(tmp_path)
    learner = learner_of(family)
    learner.restore(tmp_path)
    assert outcome_of(ended(learner)).curve == whole.curve


def test_runs_do_not_share_their_states(tmp_path: Path) -> None:
    """The learners of one family take turns."""
    family = Line(LineSettings())
    learners = [learner_of(family, seed=seed) for seed in (0, 1)]
    for learner in learners:
        learner.advance()
    for seed, learner in enumerate(learners):
        learner.save(tmp_path / str(seed))
        with safe_open(tmp_path / str(seed) / STATE, framework="pt") as file:
            assert (
                json.loads(file.metadata()["notes"])["curve"][0][1]
                == outcome_of(ended(learner_of(family, seed=seed))).curve[0].loss
            )
    other = learner_of(family, seed=1)
    with pytest.raises(ValueError, match="belongs to another stack"):
        other.restore(tmp_path / "0")


def test_without_a_state_a_run_begins_again(tmp_path: Path) -> None:
    for family in (resuming.Silent(LineSettings()), TorchFit(TorchFit.Settings())):
        learner = learner_of(family)
        learner.advance()
        learner.save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["reported.json"]
        again = learner_of(family)
        again.restore(tmp_path)
        [report] = again.advance()
        assert report.evaluation is not None
        assert (report.evaluation.step, again.first_step) == (2, 1)
    assert not TorchFit.resumes
    assert Line.resumes


def test_saving_needs_a_train_that_can_continue() -> None:
    with pytest.raises(BrokenFamilyError, match=r"needs a train that can continue: add a parameter resume=None to it"):
        learner_of(SavesForNothing(SavesForNothing.Settings())).advance()


def damaged(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    """Change the JSON values of a checkpoint."""
    with safe_open(folder / STATE, framework="pt") as file:
        notes = json.loads(file.metadata()["notes"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    change(notes)
    write_checkpoint(folder / STATE, tensors, notes)


@pytest.mark.parametrize(
    "change",
    [
        lambda notes: notes.pop("curve"),
        lambda notes: notes.update(step="1"),
        lambda notes: notes.update(step=-1),
        lambda notes: notes.update(seconds=-1),
        lambda notes: notes.update(seconds=None),
        lambda notes: notes.update(curve=[[1, math.nan, {"add": 0.5}, {}]]),
        lambda notes: notes.update(curve=[[2, 0.5, {"add": 0.5}, {}], [1, 0.5, {"add": 0.5}, {}]]),
        lambda notes: notes.update(curve=[[1, 0.5, 3, {}]]),
        lambda notes: notes.update(curve=[[1, 0.5]]),
        lambda notes: notes.update(kept=3),
        lambda notes: notes.update(kept={"dict": [["weights", {"dict": [["../a", 3]]}], ["arrays", {"dict": []}]]}),
        lambda notes: notes.update(state={"tensor": 99}),
        lambda notes: notes.update(keys=["another"]),
    ],
)
def test_a_damaged_checkpoint_is_refused(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    family = Line(LineSettings())
    learner = learner_of(family)
    learner.advance()
    learner.save(tmp_path)
    damaged(lambda notes: None, tmp_path)
    learner_of(family).restore(tmp_path)
    damaged(change, tmp_path)
    with pytest.raises(ValueError, match=r"."):
        learner_of(family).restore(tmp_path)


# Kept with the run


def test_weights_and_arrays_are_kept_as_copies_in_numpy() -> None:
    tensor = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    kept: dict[str, Any] = {
        "weights": {"layer.weight": tensor},
        "arrays": {"embedding": np.eye(2), "file": torch.arange(2)},
    }
    family: SimpleFamily = type("Kept", (Keeps,), {"kept": kept})(Keeps.Settings())
    report = ended(learner_of(family))
    assert report.weights["layer.weight"].dtype == np.float32
    assert report.weights["layer.weight"].tolist() == [1, 1]
    assert report.arrays["embedding"].tolist() == [[1, 0], [0, 1]]
    assert report.arrays["file"].tolist() == [0, 1]
    assert report.arrays["embedding"] is not kept["arrays"]["embedding"]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({"weights": [torch.zeros(1)]}, "weights is a list; it must map names to tensors or arrays"),
        ({"weights": {"a": [1, 2]}}, "weights['a'] is a list; it must be a tensor or an array"),
        ({"arrays": {"a": "x"}}, "arrays['a'] is a str; it must be a tensor or an array"),
        ({"arrays": {"../a": np.eye(2)}}, "arrays['../a'] has a name that files cannot have"),
        ({"arrays": {3: np.eye(2)}}, "arrays[3] has a name that files cannot have"),
        ({"arrays": {"a": np.array([None])}}, "arrays['a'] is a numpy.ndarray of the type object"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(kept: dict[str, Any], message: str) -> None:
    family: SimpleFamily = type("Wrong", (Keeps,), {"kept": kept})(Keeps.Settings())
    with pytest.raises(BrokenFamilyError) as error:
        learner_of(family).advance()
    assert message in str(error.value)


def test_what_is_kept_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(states.MOST_KEPT_BYTES, "arrays", 1 << 20)
    with pytest.raises(
        StateError, match="arrays has 2 MB, of which 'large' is the largest part; a run keeps at most 1"
    ):
        Keeps(Keeps.Settings()).keep(arrays={"small": np.zeros(3), "large": np.zeros(1 << 18)})


# check-family


def continuing(name: str, folder: Path) -> Finding:
    kind = getattr(resuming, name)
    results = findings(case_of(kind(kind.Settings()), (2, 4), "cpu", folder))
    return next(finding for finding in results if finding.name == "a run continues from its checkpoint")


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("Line", "notes", "stopped after step 2, continued at step 3, with the same numbers as an undisturbed run"),
        ("Early", "notes", "stopped after step 2, continued at step 2, with the same numbers"),
        (
            "Reseeded",
            "notes",
            "continued at step 3, with other numbers than an undisturbed run; to get the same numbers",
        ),
        ("Beginner", "wrong", "after step 2, train began again at step 1, although it got its state as `resume`"),
        ("Silent", "wrong", "train has a parameter `resume`, but a whole run saved no state; call self.save(state)"),
        ("Keeps", "skipped", "train has no parameter `resume`, so a killed run begins again at its first step"),
        ("Saves", "skipped", "its runs end at their second evaluation or before"),
    ],
)
def test_the_check_of_a_family_says_whether_it_continues(name: str, part: str, message: str, tmp_path: Path) -> None:
    finding = continuing(name, tmp_path)
    assert message in getattr(finding, part)
    assert sum(map(bool, (finding.wrong, finding.skipped, finding.notes))) == 1
