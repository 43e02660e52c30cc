"""The generator, tested with sympy and an independent evaluator that only reads the text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.trainables.permutations.oracle import Oracle, sympy_group, within
from tests.trainables.spelling import spelt, tokens
from trainables.base import Mix
from trainables.tasks.held_out_tuples import HeldOut, Part
from trainables.tasks.permutation_groups import named_group
from trainables.tasks.permutations import TaskSettings
from trainables.tasks.texts import Expressions, make_dataset

SHAPES: list[dict[str, Any]] = [
    {"group": "S3", "held_out_fraction": 0.2, "subgroup": "C3"},
    {"group": "S4", "point": 2, "subgroup": "D4"},
    {"group": "S4", "depth": 1, "held_out": "unordered", "subgroup": "C4"},
    {"group": "S3", "depth": 3, "max_arguments": 2, "nesting": 0.6, "held_out_fraction": 0.4, "subgroup": "C3"},
    {"group": "S5", "max_arguments": 2, "subgroup": "D4"},
]
TASKS = ("product", "image", "sign", "order", "coset")


def oracle(settings: TaskSettings) -> Oracle:
    points = sympy_group(settings.group).degree
    assert settings.subgroup is not None
    return Oracle(points, settings.point, within(sympy_group(settings.subgroup), points))


def texts_of(settings: TaskSettings, mix: str, part: Part, count: int, seed: int) -> list[str]:
    expressions = Expressions(settings, Mix.parse(mix), seed)
    texts, _ = expressions.sample(part, count, np.random.default_rng(seed))
    assert texts.lengths.max() <= settings.longest_text
    pieces = np.split(texts.tokens, np.cumsum(texts.lengths)[:-1])
    spellings = [spelt(expressions.vocabulary, piece) for piece in pieces]
    prompts = [tokens(expressions.vocabulary, text.split("=")[0] + "=") for text in spellings]
    assert [len(prompt) for prompt in prompts] == texts.prompt_lengths.tolist()
    return spellings


@hypothesis_settings(max_examples=25)
@given(
    shape=st.sampled_from(SHAPES),
    tasks=st.sets(st.sampled_from(TASKS), min_size=1),
    part=st.sampled_from(list(Part)),
    seed=st.integers(0, 2**32),
)
def test_every_step_is_correct_and_every_list_belongs_to_its_part(
    shape: dict[str, Any], tasks: set[str], part: Part, seed: int
) -> None:
    settings = TaskSettings(**shape)
    known, held_out = oracle(settings), HeldOut(settings, seed)
    place = {tuple(row): element for element, row in enumerate(named_group(settings.group).images.tolist())}
    for text in texts_of(settings, "+".join(sorted(tasks)), part, 10, seed):
        prompt = text.split("=")[0]
        assert text == known.solution(prompt)
        names = re.findall(r"[a-z]+(?=\()", prompt)
        assert set(names) <= tasks
        assert set(names[1:]) <= {"product", "coset"}, "what comes to no element is no argument"
        parts = {
            int(held_out.part(np.array([place[images] for images in elements])))
            for elements in known.argument_lists(text)
            if len(elements) == settings.max_arguments
        }
        assert max(parts, default=0) == part


def test_mixes_without_elements_as_results_are_flat_at_any_depth() -> None:
    """No operation of this mix can be an argument of another."""
    settings = TaskSettings(group="S3", held_out_fraction=0.2, train_examples=200)
    dataset = make_dataset(settings, Mix.parse("sign+order"), 0)
    assert dataset.mixed is None
    assert spelt(settings.vocabulary(), dataset.tokens).count("=") == 200
    assert len(dataset.test["sign"].answers) == 22, "every held-out tuple once"


def test_inner_operations_follow_their_shares_among_nestable_operations() -> None:
    settings = TaskSettings(group="S4", nesting=0.5, subgroup="D4", train_examples=20_000)
    dataset = make_dataset(settings, Mix.parse("product+coset:3+sign:4"), 0)
    prompts = re.findall(r"(?:^|<eos>)([^=]+)=", spelt(settings.vocabulary(), dataset.tokens))
    names = [re.findall(r"[a-z]+(?=\()", prompt) for prompt in prompts]
    outer = [inside[0] for inside in names]
    inner = [name for inside in names for name in inside[1:]]
    assert [outer.count(name) / len(outer) for name in ("product", "coset", "sign")] == pytest.approx(
        [1 / 8, 3 / 8, 4 / 8], abs=0.015
    )
    assert inner.count("coset") / len(inner) == pytest.approx(3 / 4, abs=0.015)
    assert "sign" not in inner
    assert dataset.nodes == {name: outer.count(name) + inner.count(name) for name in ("coset", "product", "sign")}
