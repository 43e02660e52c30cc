"""The generator, tested with an independent evaluator that only reads the text."""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.trainables import spelling
from tests.trainables.listops import naive
from tests.trainables.spelling import spelt, tokens
from trainables.base import Mix, SettingsError
from trainables.tasks.held_out_tuples import Part
from trainables.tasks.listops import TaskSettings
from trainables.tasks.operations import OPERATIONS
from trainables.tasks.texts import Expressions
from trainables.transformer.datasets import Examples
from trainables.transformer.vocabulary import ExpressionVocabulary

SHAPES: list[dict[str, Any]] = [
    {"modulus": 20},
    {"modulus": 6, "held_out_fraction": 0.2, "held_out": "unordered"},
    {"modulus": 7, "depth": 3, "nesting": 0.5, "held_out_fraction": 0.1},
    {"modulus": 9, "depth": 2, "max_arguments": 2, "nesting": 1.0, "held_out_fraction": 0.15},
    {"modulus": 5, "depth": 2, "max_arguments": 5, "nesting": 0.4},
    {"modulus": 300, "depth": 2, "max_arguments": 2},
    {"modulus": 12, "depth": 2, "max_arguments": 4, "held_out": "unordered"},
]


def lines(texts: Examples, vocabulary: ExpressionVocabulary) -> list[str]:
    ends = np.cumsum(texts.lengths)
    return [spelt(vocabulary, tokens) for tokens in np.split(texts.tokens, ends[:-1])]


@hypothesis_settings(max_examples=30)
@given(
    shape=st.sampled_from(SHAPES),
    tasks=st.sets(st.sampled_from(sorted(OPERATIONS)), min_size=1),
    part=st.sampled_from(list(Part)),
    seed=st.integers(0, 2**32),
)
def test_every_step_is_correct_and_every_window_belongs_to_its_part(
    shape: dict[str, Any], tasks: set[str], part: Part, seed: int
) -> None:
    settings = TaskSettings(**shape, operations=tuple(OPERATIONS))
    expressions = Expressions(settings, Mix.parse("+".join(sorted(tasks))), seed)
    texts, nodes = expressions.sample(part, 20, np.random.default_rng(seed))
    assert sum(texts.lengths) == len(texts.tokens)
    counted: Counter[str] = Counter()

    def evaluate(operation: str, arguments: list[int]) -> int:
        """Compute in plain Python; operations with a table use the product's function, which has its own tests."""
        assert 2 <= len(arguments) <= settings.max_arguments
        counted[operation] += 1
        if operation.endswith("_add"):
            return int(settings.function(operation, seed)(np.array(arguments)))
        return naive.value(operation, arguments, settings.modulus)

    for line, length, prompt_length, answer in zip(
        lines(texts, expressions.vocabulary), texts.lengths, texts.prompt_lengths, texts.answers, strict=True
    ):
        prompt = line.split("=")[0]
        assert line == naive.solution(prompt, evaluate)
        assert line.endswith(f"={answer}<eos>")
        assert length <= settings.longest_text
        assert prompt_length == len(tokens(expressions.vocabulary, prompt + "="))
        depths = accumulate((sign == "(") - (sign == ")") for sign in prompt)
        assert 1 <= max(depths) <= settings.levels
        windows = naive.windows(line, settings.max_arguments)
        parts = {int(expressions.held_out.part(np.array(window))) for window in windows}
        assert max(parts, default=0) == part
    assert nodes == {task: counted[task] for task in tasks}


def test_the_longest_text_is_reached_and_not_exceeded() -> None:
    settings = TaskSettings(modulus=20, nesting=1.0)
    texts, _ = Expressions(settings, Mix.parse("max"), 0).sample(Part.TRAINED, 3_000, np.random.default_rng(0))
    assert texts.lengths.max() == settings.longest_text == 60
    deep = TaskSettings(modulus=20, nesting=1.0, depth=3)
    texts, _ = Expressions(deep, Mix.parse("add"), 0).sample(Part.TRAINED, 20_000, np.random.default_rng(0))
    assert 400 < texts.lengths.max() <= deep.longest_text == 483


def test_shares_nesting_and_numbers_follow_the_settings() -> None:
    settings = TaskSettings(modulus=20, held_out_fraction=0.002)
    expressions = Expressions(settings, Mix.parse("add:3+prod"), 0)
    texts, nodes = expressions.sample(Part.TRAINED, 20_000, np.random.default_rng(0))
    assert nodes["add"] / sum(nodes.values()) == pytest.approx(0.75, abs=0.01)
    prompts = [line.split("=")[0] for line in lines(texts, expressions.vocabulary)]
    arities: list[int] = []

    def note(name: str, numbers: str) -> str:
        arities.append(numbers.count(",") + 1)
        return "0"

    for prompt in prompts:
        spelling.solution(prompt, note)
    # An argument is an operation with probability 1/4 and there are 2 or 3 arguments: 1 + 2.5 / 4 operations an
    # expression.
    assert len(arities) / len(prompts) == sum(nodes.values()) / len(prompts) == pytest.approx(1.625, abs=0.02)
    assert np.mean(arities) == pytest.approx(2.5, abs=0.01)
    numbers = np.array([int(number) for prompt in prompts for number in re.findall(r"\d+", prompt)])
    assert np.bincount(numbers) / len(numbers) == pytest.approx(np.full(20, 0.05), abs=0.006)


def test_generating_too_rare_expressions_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # Products of many numbers modulo 16 become 0, so a deep full tree sooner or later contains prod(0,0). If a seed
    # holds that pair out, no expression is left to train on, and without a limit the search would never stop.
    settings = TaskSettings(modulus=16, depth=6, max_arguments=2, nesting=1.0, held_out_fraction=0.07)
    prod = Mix.parse("prod")
    monkeypatch.setattr("trainables.tasks.texts.GIVE_UP_AFTER", 3)
    zeros = np.array([0, 0])
    seed = next(seed for seed in range(200) if Expressions(settings, prod, seed).held_out.part(zeros))
    with pytest.raises(SettingsError, match="random expressions of prod fit") as caught:
        Expressions(settings, prod, seed).sample(Part.TRAINED, 1_000, np.random.default_rng(0))
    assert caught.value.key == "task.held_out_fraction"
