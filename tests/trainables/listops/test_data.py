"""Datasets: their contents, their dependencies, and that they are written once and completely."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.trainables.listops import naive
from tests.trainables.spelling import spelt
from trainables.base import Mix
from trainables.tasks.listops import TaskSettings
from trainables.tasks.texts import load_dataset, make_dataset
from trainables.transformer.datasets import Dataset

SMALL = TaskSettings(modulus=6, held_out_fraction=0.2, train_examples=2_000, validation_examples=60, test_examples=150)
FLAT = TaskSettings(modulus=6, held_out_fraction=0.2, train_examples=2_000, depth=1)
PAIR = Mix.parse("add+prod")


# Digests of ordered data from before multisets were supported (streams of numpy 2). Changing them changes every run
# key.
DIGESTS = {
    "nested": (SMALL, 0, "2f2de05a0bb289842aeeb626f9f04ea4"),
    "flat": (FLAT, 3, "44b4d3dd4b7f3a4dd592aed1b518f12a"),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_ordered_data_have_not_changed(name: str) -> None:
    settings, seed, expected = DIGESTS[name]
    assert make_dataset(settings, PAIR, seed).digest == expected


def test_cases_are_counted_and_read_back(tmp_path: Path) -> None:
    unordered = TaskSettings(
        modulus=6, max_arguments=4, depth=1, held_out="unordered", held_out_fraction=0.1, train_examples=2_000
    )
    made = make_dataset(unordered, PAIR, 0)
    prompts = {tuple(sorted(row[2:6].tolist())) for row in made.test["add"].tokens}
    assert made.cases == {"add": 6, "prod": 6} == {task: len(prompts) for task in PAIR.tasks}
    assert len(made.test["add"].answers) > 24, "every order of each"
    for _ in range(2):  # Made, then read.
        assert load_dataset(unordered, PAIR, 0, tmp_path).cases == made.cases
    flat, nested = make_dataset(FLAT, PAIR, 0), make_dataset(SMALL, PAIR, 0)
    assert flat.cases["add"] == len(flat.test["add"].answers) == 22
    assert 18 <= nested.cases["add"] <= 22 < len(nested.test["add"].answers)


def test_the_training_stream_consists_of_correct_solutions() -> None:
    dataset = make_dataset(SMALL, PAIR, 0)
    vocabulary = SMALL.vocabulary()
    assert dataset.tokens.dtype == np.uint8
    assert dataset.starts.dtype == np.int64
    assert len(dataset.starts) == 2_000
    expressions = np.split(dataset.tokens, dataset.starts[1:])
    answers = np.split(dataset.answer, dataset.starts[1:])
    names: list[str] = []
    for tokens, answer in zip(expressions, answers, strict=True):
        text = spelt(vocabulary, tokens)
        prompt, solution = text.split("=", 1)
        assert text == naive.solution(prompt, lambda name, numbers: naive.value(name, numbers, 6))
        assert spelt(vocabulary, tokens[answer]) == solution
        names += re.findall("[a-z]+", prompt)
    assert dataset.nodes == {"add": names.count("add"), "prod": names.count("prod")}


def test_a_dataset_is_generated_once_and_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "not" / "yet"
    first = load_dataset(SMALL, PAIR, 0, cache)
    assert first.digest == make_dataset(SMALL, PAIR, 0).digest

    def made_again(*_: object) -> Dataset:
        raise AssertionError("the dataset was made a second time")

    monkeypatch.setattr("trainables.tasks.texts.make_dataset", made_again)
    again = load_dataset(SMALL, Mix.parse("prod+add"), 0, cache)
    assert first.digest == again.digest
    assert first.nodes == again.nodes
    assert [path.name[:8] for path in cache.iterdir()] == ["listops-"]
    for settings, mix, seed in ((SMALL, PAIR, 1), (SMALL, Mix.parse("add"), 0), (FLAT, PAIR, 0)):
        with pytest.raises(AssertionError, match="second time"):
            load_dataset(settings, mix, seed, cache)


def test_a_failed_write_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        load_dataset(SMALL, PAIR, 0, tmp_path)
    assert list(tmp_path.iterdir()) == []
