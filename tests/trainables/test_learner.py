"""The learner: a run in a stack equals the run alone, a resumed stack equals an uninterrupted one, and ends are
final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.stacks import PERMUTATIONS, SETTINGS, TRAINING, config, family_of, losses, make_learner, outcomes
from trainables.base import Mix, RunConfig, SettingsError, Status
from trainables.contract.torch_checkpoints import read_checkpoint, write_checkpoint
from trainables.families.listops import ListOps
from trainables.transformer import learner
from trainables.transformer.learner import CHECKPOINT
from trainables.transformer.training_settings import TrainingSettings

MIXED_STACK = [
    config("add", seed=0),
    config("add+prod", seed=0),
    config("add", seed=1, learning_rate=1e-3, weight_decay=0.0),
]


def test_losses_have_not_changed(data_cache: Path) -> None:
    """A change that alters these losses must raise ``ListOps.version``."""
    curve = losses(make_learner([config("add+prod", 16, 7, steps=20, evaluate_every=1)], data_cache))[0]
    np.testing.assert_allclose(curve[::5] + curve[-1:], GOLDEN, rtol=1e-3)


def test_runs_of_one_stack_train_on_their_own_examples(data_cache: Path) -> None:
    """The runs share mix, seed and shape, but one has fewer examples."""
    many = config()
    few = replace(many, settings=replace(many.settings, task=replace(many.settings.task, train_examples=100)))
    together = make_learner([many, few], data_cache)
    family = family_of(many.settings)
    assert family.shape(many) == family.shape(few)
    ended = outcomes(together)
    assert ended[0].data != ended[1].data
    for place, run in enumerate([many, few]):
        (alone,) = outcomes(make_learner([run], data_cache)).values()
        assert ended[place].data == alone.data
        np.testing.assert_allclose(ended[place].curve[-1].loss, alone.curve[-1].loss, rtol=2e-3)


def test_part_of_a_stack_continues_from_the_checkpoint_of_the_whole(data_cache: Path, tmp_path: Path) -> None:
    """One of four runs has diverged, so that places in the checkpoint differ from places in the stack."""
    wild = config("add", seed=2, learning_rate=1e30, learning_rate_end=1e30)
    whole = make_learner([wild, *MIXED_STACK], data_cache)
    for _ in range(2):
        whole.advance()
    whole.save(tmp_path)
    part = make_learner([wild, MIXED_STACK[1], MIXED_STACK[2]], data_cache)
    part.restore(tmp_path)
    expected, got = outcomes(whole), outcomes(part)
    assert got.keys() == {1, 2}
    for mine, place in ((1, 2), (2, 3)):
        np.testing.assert_allclose(
            [point.loss for point in got[mine].curve], [point.loss for point in expected[place].curve], rtol=2e-3
        )
        assert got[mine].curve[:2] == expected[place].curve[:2]
    with pytest.raises(ValueError, match="another stack"):
        make_learner([*MIXED_STACK, config("add", seed=3)], data_cache).restore(tmp_path)
    with pytest.raises(FileNotFoundError):
        make_learner(MIXED_STACK, data_cache).restore(tmp_path / "nowhere")


@pytest.mark.parametrize("step", ["native", "torch"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("parameters", lambda tensor: tensor[:, :1]),
        ("parameters", lambda tensor: tensor[:1]),
        ("first", lambda tensor: tensor[:, :0]),
        ("second", lambda tensor: tensor.to(torch.uint8)),
        ("loss", lambda tensor: tensor[:0]),
        ("loss_steps", lambda number: -1),
        ("loss_steps", lambda number: "x"),
        ("step", lambda number: 10**18),
        ("step", lambda number: -1),
        ("evaluated", lambda number: None),
    ],
)
def test_a_checkpoint_of_another_size_or_type_is_refused(
    name: str,
    change: Callable[[Any], Any],
    step: str,
    data_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Someone else may have written it, and the native step writes to addresses."""
    if step == "torch":
        monkeypatch.setattr(learner, "can_train", lambda *_: False)
    whole = make_learner(MIXED_STACK, data_cache)
    whole.advance()
    whole.save(tmp_path)
    tensors, notes = read_checkpoint(tmp_path / CHECKPOINT, [])
    make_learner(MIXED_STACK, data_cache).restore(tmp_path)
    for content in (tensors, notes):
        if name in content:
            content[name] = change(content[name])
    write_checkpoint(tmp_path / CHECKPOINT, tensors, notes)
    with pytest.raises((ValueError, IndexError)):
        make_learner(MIXED_STACK, data_cache).restore(tmp_path)


@pytest.mark.parametrize("step", ["native", "torch"])
def test_a_stack_continues_from_a_checkpoint_between_evaluations(
    step: str, data_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if step == "torch":
        monkeypatch.setattr("trainables.transformer.learner.can_train", lambda *_: False)
    expected = outcomes(make_learner(MIXED_STACK, data_cache))
    monkeypatch.setattr("trainables.transformer.learner.CALL_S", 1e-9)  # One step a call.
    learner, stops = make_learner(MIXED_STACK, data_cache), 0
    curves: dict[int, list[Any]] = {place: [] for place in range(len(MIXED_STACK))}
    while True:
        while not learner.train_for(1e-6):
            stops += 1
            if stops % 13 == 0:
                learner.save(tmp_path)
                learner = make_learner(MIXED_STACK, data_cache)
                learner.restore(tmp_path)
        if not (reports := learner.advance()):
            break
        for report in reports:
            curves[report.index].append(report.evaluation)
    assert stops > 40  # Of 60 steps.
    assert {place: one.curve for place, one in expected.items()} == {place: tuple(one) for place, one in curves.items()}


def test_training_for_a_time_stops_at_the_evaluation_that_is_due(data_cache: Path) -> None:
    learner = make_learner([config()], data_cache)
    assert learner.steps_so_far() == 0
    assert learner.train_for(60)
    assert learner.train_for(60)
    assert learner.steps_so_far() == TRAINING.evaluate_every
    [report] = learner.advance()
    assert report.evaluation is not None
    assert report.evaluation.step == TRAINING.evaluate_every
    while learner.advance():
        pass
    assert learner.train_for(60)


def test_a_diverged_run_stops_and_leaves_its_neighbors_alone(data_cache: Path) -> None:
    wild = config("add", seed=2, learning_rate=1e30, learning_rate_end=1e30)
    ended = outcomes(make_learner([config(), wild, config(seed=1)], data_cache))
    assert [ended[i].status for i in range(3)] == [Status.FINISHED, Status.DIVERGED, Status.FINISHED]
    assert ended[1].accuracy == ended[1].floor
    assert ended[1].steps < TRAINING.steps
    alone = outcomes(make_learner([config()], data_cache))[0]
    together = [point.loss for point in ended[0].curve]
    np.testing.assert_allclose(together, [point.loss for point in alone.curve], rtol=2e-3)


def test_a_solved_run_is_frozen_while_its_neighbor_continues(data_cache: Path) -> None:
    easy, hard = (
        config(mix, 24, 100, steps=900, evaluate_every=50, stop_when_solved=True, batch=32) for mix in ("max", "add")
    )
    ended = outcomes(make_learner([easy, hard], data_cache))
    assert ended[0].steps < ended[1].steps == 900
    assert [min(point.accuracy.values()) >= 0.99 for point in ended[0].curve[-3:]] == [True] * 3
    assert ended[0].accuracy["max"] >= 0.9


def test_a_cpu_refuses_a_precision_that_only_gpus_have(data_cache: Path) -> None:
    with pytest.raises(SettingsError, match="precision is tf32; it must be float32 or bf16 on a CPU"):
        make_learner([config(precision="tf32")], data_cache)


def test_outcomes_count_the_examples_of_training_and_test(data_cache: Path) -> None:
    measures = outcomes(make_learner([config("add+prod", size=12)], data_cache))[0].measures
    seen = measures["nodes_seen_add"] + measures["nodes_seen_prod"]
    # One node per expression of 8.5 tokens on average: 60 steps of 16 windows of 18 tokens.
    assert seen == pytest.approx(60 * 16 * 18 / 8.5, rel=0.05)
    # Flat and ordered expressions test every tuple once: half of 43.
    assert measures["test_examples_add"] == measures["test_cases_add"] == 22


def test_runs_of_the_same_shape_can_share_a_stack() -> None:
    family = ListOps(SETTINGS)
    same = [config(), config("add+prod"), config(seed=5), config(learning_rate=1e-3, weight_decay=0.0)]
    assert len({family.shape(run) for run in same}) == 1
    other = [config(size=16), config(batch=8), config(steps=50), config(loss="all"), config(precision="bf16")]
    assert len({family.shape(run) for run in [config(), *other]}) == 6
    for settings in (SETTINGS, PERMUTATIONS):
        sampled: Any = replace(settings.task, decoding="sampled")
        runs = [
            RunConfig(Mix.parse(settings.task.tasks()[0]), 12, 0, one)
            for one in (settings, replace(settings, task=sampled))
        ]
        assert len({family_of(run.settings).shape(run) for run in runs}) == 2


def test_schedules_start_and_end_at_the_given_rates() -> None:
    given = TrainingSettings(steps=1000, learning_rate=1e-3, learning_rate_end=1e-5, warmup_steps=10)
    for schedule in ("cosine", "exponential", "constant"):
        settings = replace(given, schedule=schedule)
        rates = settings.learning_rates(0, 1000)
        assert rates[0] == pytest.approx(1e-3 / 11)
        assert rates[10] == pytest.approx(1e-3)
        end = 1e-3 if schedule == "constant" else 1e-5
        assert rates[-1] == pytest.approx(end, rel=0.02)
        torch.testing.assert_close(torch.tensor(settings.learning_rates(300, 400)), torch.tensor(rates[300:400]))


GOLDEN = [2.93631, 2.612612, 2.269499, 2.076034, 2.037562]


def test_a_checkpoint_continues_with_the_training_step_that_made_it(
    data_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints of torch's step use it even if the native step exists; checkpoints of the native step are refused
    without it."""
    native = make_learner([config()], data_cache)
    native.advance()
    native.save(tmp_path / "native")
    monkeypatch.setattr("trainables.transformer.learner.can_train", lambda *_: False)
    by_torch = make_learner([config()], data_cache)
    by_torch.advance()
    by_torch.save(tmp_path / "torch")
    with pytest.raises(ValueError, match="the native step began these runs"):
        make_learner([config()], data_cache).restore(tmp_path / "native")
    monkeypatch.undo()
    for name, expected, is_native in (("native", native, 1.0), ("torch", by_torch, 0.0)):
        resumed = make_learner([config()], data_cache)
        resumed.restore(tmp_path / name)
        theirs, mine = outcomes(expected)[0], outcomes(resumed)[0]
        assert mine.measures["native_step"] == theirs.measures["native_step"] == is_native
        assert mine.curve == theirs.curve
