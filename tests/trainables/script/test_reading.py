"""Metrics are read from lines of every usual form, and refused lines say what is missing."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from trainables.base import SettingsError
from trainables.contract.bars import Bar
from trainables.script.metrics import MetricReader, MixedStepsError, Reading

KEYS = {"step": "iter", "loss": "val_loss", "accuracy": {"add": "acc_add", "prod": "acc_prod"}}
SIBLING = {
    "step": r"step (\d+): train loss",
    "loss": r"train loss ([\d.]+|nan)",
    "accuracy": {"add": r"Test accuracy for add: ([\d.]+%?)", "prod": r"Test accuracy for prod: ([\d.]+)"},
}


def points(lines: list[str], metrics: Any = None, pattern: Any = "", tasks: tuple[str, ...] = ("add",)) -> list[Any]:
    reader = MetricReader(Reading.of(metrics or {}, pattern), tasks)
    found = [reader.read(line) for line in lines]
    return [(one.step, one.loss, one.accuracy) for one in found if one is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"iter": 10, "val_loss": 0.5, "acc_add": 0.25}', [(10, 0.5, {"add": 0.25})]),
        ('{"iter": 10.0, "val_loss": 1, "acc_add": 1}', [(10, 1.0, {"add": 1.0})]),
        ('INFO 12:00 {"iter": 3, "val_loss": 0.5, "acc_add": 0.25}', [(3, 0.5, {"add": 0.25})]),
        ('{"iter": 0, "val_loss": 0.5, "acc_add": 0.25}', []),  # The untrained model.
        ('{"iter": 10, "val_loss": 0.5, "acc_add": "0.25"}', []),
        ('{"iter": 10, "val_loss": 0.5, "acc_add": true}', []),
        ('{"iter": 10, "val_loss": 0.5, "acc_ad', []),
        ('{"iter": Infinity, "val_loss": 0.5, "acc_add": 0.25}', []),
        ('["iter", 10]', []),
        ("", []),
        ("\0\x01\xff{}", []),
    ],
)
def test_a_json_line(line: str, expected: list[Any]) -> None:
    assert points([line], KEYS) == expected


def test_metrics_on_several_lines_belong_to_the_last_step() -> None:
    lines = ['{"iter": 5, "val_loss": 2.0}', '{"acc_add": 0.5}', '{"iter": 6, "val_loss": 1.0, "acc_add": 0.6}']
    assert points(lines, KEYS) == [(5, 2.0, {"add": 0.5}), (6, 1.0, {"add": 0.6})]
    assert points(['{"iter": 5, "acc_add": 0.5}', '{"iter": 6, "val_loss": 1.0}'], KEYS) == []


def test_a_dot_leads_into_a_mapping_unless_the_key_has_it() -> None:
    keys = {"step": "step", "accuracy": "val.acc"}
    assert points(['{"step": 1, "val": {"acc": 0.5}}'], keys) == [(1, 0.5, {"add": 0.5})]
    assert points(['{"step": 1, "val.acc": 0.75}'], keys) == [(1, 0.25, {"add": 0.75})]


def test_without_a_loss_it_is_the_share_of_wrong_answers() -> None:
    [(_, loss, _)] = points(
        ['{"s": 1, "a": 0.5, "b": 1.0}'], {"step": "s", "accuracy": {"add": "a", "prod": "b"}}, tasks=("add", "prod")
    )
    assert loss == 0.25


def test_one_pattern_for_each_metric_reads_the_lines_of_the_sibling() -> None:
    lines = [
        "number of parameters: 0.01M",
        "step 0: train loss 3.2, val loss 3.3",
        "Test accuracy for add: 0.1",
        "step 100: train loss 1.25, val loss 1.5",
        "Test accuracy for add: 93.5%",
        "Test accuracy for prod: 50 %",
        "step 200: train loss 1.0, val loss 1.2",
        "Test accuracy for add: 0.95",
        "Test accuracy for prod: 0.75",
    ]
    assert points(lines, pattern=SIBLING, tasks=("add", "prod")) == [
        (100, 1.25, {"add": 0.935, "prod": 0.5}),
        (200, 1.0, {"add": 0.95, "prod": 0.75}),
    ]


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        (r"step (?P<step>\d+).* acc (?P<accuracy>[\d.]+)", "step 7: acc 0.5", [(7, 0.5, {"add": 0.5})]),
        (r"step (?P<step>\d+).* acc (?P<accuracy>[\d.]+%?)", "step 7: acc 50%", [(7, 0.5, {"add": 0.5})]),
        (r"(?P<step>[\d,]+) (?P<loss>\S+) (?P<accuracy_add>\S+)", "1,000 2.5 1.0", [(1000, 2.5, {"add": 1.0})]),
    ],
)
def test_a_single_pattern_with_groups(pattern: str, line: str, expected: list[Any]) -> None:
    assert points([line], pattern=pattern) == expected


@pytest.mark.parametrize(
    "line",
    [
        '{"iter": 8, "val_loss": NaN}',
        '{"iter": 8, "val_loss": 1, "acc_add": -Infinity}',
        f'{{"iter": 8, "val_loss": {10**400}}}',
        f'{{"iter": 8, "val_loss": 1, "acc_add": {-(10**400)}}}',
    ],
)
def test_a_number_that_is_not_finite_ends_the_curve(line: str) -> None:
    [(step, loss, accuracy)] = points([line], KEYS)
    assert (step, accuracy) == (8, {})
    assert math.isnan(loss)


def test_a_step_that_is_too_large_is_missing() -> None:
    reader = MetricReader(Reading.of(KEYS, ""), ["add"])
    assert reader.read(f'{{"iter": {10**400}, "val_loss": 1, "acc_add": 0.5}}') is None
    assert "no line has the step (key 'iter')" in reader.missing()


def test_a_parameter_count_that_is_too_large_is_infinite() -> None:
    reader = MetricReader(Reading.of(KEYS, "", "n_params"), ["add"])
    assert reader.read(f'{{"n_params": {10**400}}}') is None
    assert reader.parameters == math.inf


def test_steps_that_go_backwards_are_refused_unless_a_process_began() -> None:
    line = '{{"iter": {}, "val_loss": 1, "acc_add": 0.5}}'
    reader = MetricReader(Reading.of(KEYS, ""), ["add"])
    assert reader.read(line.format(40)) is not None
    assert reader.read(line.format(40)) is None
    with pytest.raises(MixedStepsError, match="step 10 follows step 40"):
        reader.read(line.format(10))
    reader.begin_process()
    assert reader.read(line.format(10)) is not None


def test_missing_metrics_are_named_with_the_nearest_key_and_three_lines() -> None:
    reader = MetricReader(Reading.of({"step": "iter", "loss": "val_loss", "accuracy": "val_acc"}, ""), ["add"])
    for line in ("starting", '{"iter": 1, "val_loss": 2, "val_accuracy": 0.5}', "", "third", "fourth"):
        reader.read(line)
    message = reader.missing()
    assert "the accuracy of add (key 'val_acc')" in message
    assert "Did you mean 'val_accuracy'?" in message
    assert message.endswith('starting | {"iter": 1, "val_loss": 2, "val_accuracy": 0.5} | third')
    silent = MetricReader(Reading.of({}, r"(?P<step>\d+) (?P<accuracy>\d+)"), ["add"])
    assert "It printed nothing." in silent.missing()


@pytest.mark.parametrize(
    ("metrics", "pattern", "key"),
    [
        ({"step": "iter"}, "", "metrics.accuracy"),
        ({"accuracy": "a"}, "", "metrics.step"),
        ({"step": "iter", "accuracy": {}}, "", "metrics.accuracy"),
        ({"step": "iter", "accuracy": {"add": 3}}, "", "metrics.accuracy.add"),
        ({"step": "iter", "acuracy": "a", "accuracy": "b"}, "", "metrics.acuracy"),
        ({}, "(", "pattern"),
        ({}, "acc (?P<accuracy>x)", "pattern"),
        ({}, "(?P<step>x) (?P<acc>x)", "pattern"),
        ({}, {"step": "(x)", "accuracy": "no group"}, "pattern"),
        ({}, ["step"], "pattern"),
    ],
)
def test_a_reading_that_cannot_work_is_refused(metrics: Any, pattern: Any, key: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Reading.of(metrics, pattern)
    assert refused.value.key == key


def test_a_group_for_a_task_whose_name_no_group_can_have() -> None:
    reading = Reading.of({}, r"(?P<step>\d+) (?P<accuracy_find_exit>\S+)")
    assert (reading.place("find exit"), reading.place("rooms")) == ("accuracy_find_exit", "")
    reader = MetricReader(reading, ["find exit"])
    assert reader.read("3 0.5") is not None


def test_a_parameter_count_is_read_from_any_line() -> None:
    reader = MetricReader(Reading.of({"step": "iter", "accuracy": "a"}, "", "n_params"), ["add"])
    reader.read(json.dumps({"n_params": 1234}))
    assert reader.parameters == 1234


@pytest.mark.parametrize(
    ("metrics", "pattern", "line"),
    [
        ({"step": "iter", "score": "val_loss"}, "", '{"iter": 10, "val_loss": 1.5}'),
        ({"step": "iter", "score": {"add": "loss_add"}}, "", '{"iter": 10, "loss_add": 1.5}'),
        ({}, r"step (?P<step>\d+): loss (?P<score>[\d.]+)", "step 10: loss 1.5"),
        ({}, r"step (?P<step>\d+): loss (?P<score_add>[\d.]+)", "step 10: loss 1.5"),
        ({}, {"step": r"step (\d+)", "score": {"add": r"loss ([\d.]+)"}}, "step 10: loss 1.5"),
    ],
)
def test_a_score_is_an_accuracy_under_another_name(metrics: Any, pattern: Any, line: str) -> None:
    reader = MetricReader(Reading.of(metrics, pattern), ["add"], Bar(2.0, is_upper=True))
    point = reader.read(line)
    assert point is not None
    assert (point.step, point.loss, point.accuracy) == (10, 0.0, {"add": 1.5})
    assert point.evaluation(Bar(2.0, is_upper=True)).accuracy == {"add": 1.0}
    assert "score of add" in reader.matched
    assert "the score of add" in MetricReader(Reading.of(metrics, pattern), ["add"]).missing()


@pytest.mark.parametrize(
    ("metrics", "pattern", "key"),
    [
        ({"step": "iter", "accuracy": "a", "score": "b"}, "", "metrics.score"),
        ({}, {"step": r"(\d+)", "accuracy": r"a (\d+)", "score": r"b (\d+)"}, "pattern.score"),
        ({}, r"(?P<step>\d+) (?P<accuracy>\d+) (?P<score_add>\d+)", "pattern.score"),
    ],
)
def test_an_accuracy_and_a_score_are_refused(metrics: Any, pattern: Any, key: str) -> None:
    with pytest.raises(SettingsError, match="keep one") as caught:
        Reading.of(metrics, pattern)
    assert caught.value.key == key


@pytest.mark.parametrize("is_single", [True, False])
def test_patterns_are_limited_together_because_each_must_be_compiled(is_single: bool) -> None:
    slow = r"(?P<accuracy>1)(?i:" + "[a-\uffff]" * 400 + ")"
    of_tasks = dict.fromkeys("abcdefgh", r"x(\d+)" + "[a-\uffff]" * 50)
    pattern = rf"(?P<step>\d+){slow}" if is_single else {"step": r"(\d+)", "accuracy": of_tasks}
    with pytest.raises(SettingsError, match=r"the patterns have 2\d\d\d characters together; at most 2000 are allowed"):
        Reading.of({}, pattern)
