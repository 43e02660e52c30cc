"""Generation with drafts writes the same texts as token-by-token greedy generation and scores them correctly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.trainables.test_gpu_step import WAITS
from trainables.base import Mix
from trainables.tasks.listops import TaskSettings
from trainables.tasks.texts import make_dataset
from trainables.transformer import generation
from trainables.transformer.architecture import ModelSettings, layout_of
from trainables.transformer.datasets import Examples
from trainables.transformer.initialization import InitSettings
from trainables.transformer.model import Past, forward, initialize

TASK = TaskSettings(
    modulus=6, depth=2, held_out_fraction=0.2, train_examples=100, test_examples=12, validation_examples=12
)
WORDS = TASK.vocabulary()
WAYS = [generation.write_by_drafts, generation.write_by_steps]


@pytest.fixture(scope="module")
def questions() -> list[list[Examples]]:
    """Two stack rows: one with two sets, one with a single set."""
    joint = make_dataset(TASK, Mix.parse("add+max"), 0)
    alone = make_dataset(TASK, Mix.parse("add"), 1)
    return [list(joint.test.values()), list(alone.test.values())]


def untrained(seed: int) -> generation.ForwardWithPast:
    """Return two models with large random weights, which write different nonsense."""
    settings = ModelSettings(block=60, init=InitSettings(std=0.7))
    layout = layout_of(settings, 16, len(WORDS))
    flat = torch.stack([initialize(settings, layout, torch.Generator().manual_seed(seed + i)) for i in range(2)])
    return lambda tokens, past=None: forward(settings, layout.views(flat), tokens, past=past)


def naive(
    model: generation.Forward, row: int, examples: Examples, width: int, noise_MTV: torch.Tensor | None = None
) -> list[list[int]]:
    """Write token by token, all expressions side by side; texts end with <eos> or at ``width`` tokens. Each token is
    the most likely one, after adding noise if given."""
    texts = [[int(t) for t in text[:n]] for text, n in zip(examples.tokens, examples.prompt_lengths, strict=True)]
    while growing := [text for text in texts if len(text) < width and text[-1] != WORDS.eos]:
        longest = max(map(len, growing))
        # Tokens do not depend on later ones.
        padded = torch.tensor([text + [0] * (longest - len(text)) for text in growing])
        logits = model(torch.stack([padded, padded]))[row]
        for place, text in enumerate(growing):
            chances = logits[place, len(text) - 1].double()
            if noise_MTV is not None:
                chances += noise_MTV[next(i for i, other in enumerate(texts) if other is text), len(text) - 1]
            text.append(int(chances.argmax()))
    return texts


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize(("tokens_a_pass", "keys"), [(65_536, None), (200, (1, -7))])
def test_drafts_do_not_change_the_texts(
    questions: list[list[Examples]],
    tokens_a_pass: int,
    keys: tuple[int, int] | None,
    write: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generation, "FEW_TOKENS", 0)
    monkeypatch.setattr(generation, "SINGLE_TOKENS", 1)
    model = untrained(0)
    with torch.no_grad():
        tokens, begin = map(torch.from_numpy, generation.lay_out(questions, WORDS.eos))
        write(model, tokens, begin, WORDS.eos, keys, tokens_a_pass)
        _, height, width = tokens.shape
        for row, sets in enumerate(questions):
            first, noise = 0, None
            if keys is not None:
                places = torch.arange(height).unsqueeze(0)
                noise = generation.gumbel(torch.tensor(keys[row : row + 1]), places, range(width - 1), len(WORDS))[0]
            for examples in sets:
                mine = None if noise is None else noise[first:]
                for place, expected in enumerate(naive(model, row, examples, width, mine)):
                    assert tokens[row, first + place, : len(expected)].tolist() == expected
                first += len(examples.answers)


def written(texts: torch.Tensor) -> generation.Write:
    """Return a function that writes these texts [S, M, W] regardless of the model."""

    def write(tokens: torch.Tensor, begin: torch.Tensor, end: int, keys: Sequence[int] | None) -> None:
        tokens[:, : texts.shape[1]] = texts[..., : tokens.shape[2]]

    return write


def test_the_last_value_of_a_text_determines_its_score(questions: list[list[Examples]]) -> None:
    solutions = questions[1][0]
    wrong = np.arange(len(solutions.answers)) % 3 == 0
    texts = solutions.tokens.astype(np.int64)
    texts[wrong, solutions.lengths[wrong] - 2] = (solutions.answers[wrong] + 1) % 6
    write = written(torch.from_numpy(texts).unsqueeze(0))
    scores = generation.accuracies(write, [[solutions]], WORDS, torch.device("cpu"))
    assert scores == [[pytest.approx(1 - wrong.mean())]]


def test_the_longest_text_of_each_set_limits_its_texts(questions: list[list[Examples]]) -> None:
    """A model that repeats the prompt gives the right answer too late, whatever other sets are in the stack."""
    [solutions, _], [longer] = questions
    flat = solutions.lengths == solutions.lengths.min()
    short = Examples(*(getattr(solutions, name)[flat] for name in ("tokens", "prompt_lengths", "lengths", "answers")))
    short = replace(short, tokens=short.tokens[:, : short.lengths.max()])
    texts = torch.full((len(short.tokens), longer.tokens.shape[1]), WORDS.eos)
    for text, row, begin in zip(texts, short.tokens, short.prompt_lengths, strict=True):
        repeated = [*row[:begin], *row[:begin], *row[begin : begin + 1]]
        text[: len(repeated)] = torch.tensor(repeated)
    for others in ([], [[longer]]):
        scores = generation.accuracies(written(texts.unsqueeze(0)), [[short], *others], WORDS, torch.device("cpu"))
        assert scores[0] == [0.0]


@pytest.mark.parametrize("write", WAYS)
def test_a_perfect_model_needs_one_pass(questions: list[list[Examples]], write: Callable[..., None]) -> None:
    passes = 0
    solutions = questions[1][0]
    table = torch.from_numpy(solutions.tokens.astype(np.int64))

    def model(tokens: torch.Tensor, past: Past | None = None) -> torch.Tensor:
        nonlocal passes
        passes += 1
        return torch.nn.functional.one_hot(table[:, 1 : tokens.shape[2] + 1], len(WORDS)).float().unsqueeze(0)

    scores = generation.accuracies(partial(write, model), [[solutions]], WORDS, torch.device("cpu"))
    assert scores == [[1.0]]
    assert passes == 1


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that make the host wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.count += func.name() in WAITS
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("keys", [None, (1, -7)])
def test_mistakes_of_many_texts_cost_no_waits_no_further_passes_and_no_noise_for_questions(
    questions: list[list[Examples]], keys: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text goes through the model once as a draft and once token by token, however many mistakes it has."""
    tokens, begin = map(torch.from_numpy, generation.lay_out(questions, WORDS.eos))
    first, model, gumbel = int(begin.min()), untrained(0), generation.gumbel
    passed, drawn = [], []

    def counted(texts: torch.Tensor, past: Past | None = None) -> torch.Tensor:
        passed.append(texts.shape[1:].numel())
        return model(texts, past)

    def noise(*given: Any) -> torch.Tensor:
        drawn.append(given[2])
        return gumbel(*given)

    monkeypatch.setattr(generation, "gumbel", noise)
    monkeypatch.setattr(generation, "FEW_TOKENS", 0)
    with torch.no_grad(), Waits() as waits:
        generation.write_by_steps(counted, tokens, begin, WORDS.eos, keys)
    _, height, width = tokens.shape
    assert waits.count == 4  # Two numbers, twice.
    steps = len(passed) - 2  # Besides the drafts and the beginnings.
    assert 0 < steps < width - first
    assert sum(passed) <= 2 * height * (width - 1)
    places = [range(first - 1, width - 1), *(range(place, place + 1) for place in range(width - 1 - steps, width - 1))]
    assert drawn == ([] if keys is None else places)
    generation.write_by_steps(counted, tokens, begin, WORDS.eos, keys)
    assert len(passed) == 2 + steps, "nothing was left to write"


def test_a_few_texts_are_finished_in_a_pass_for_each_mistake(questions: list[list[Examples]]) -> None:
    """A model that errs once in each text needs two passes, not one for each token."""
    solutions = questions[1][0]
    choices = torch.from_numpy(solutions.tokens.astype(np.int64))[:, 1:]
    first = (torch.arange(len(choices)), torch.from_numpy(solutions.prompt_lengths) - 1)
    choices[first] = torch.where(choices[first] == 0, 1, 0)
    passes = []

    def model(tokens: torch.Tensor, past: Past | None = None) -> torch.Tensor:
        passes.append(tokens.shape[2])
        return torch.nn.functional.one_hot(choices, len(WORDS)).float().unsqueeze(0)

    generation.accuracies(partial(generation.write_by_steps, model), [[solutions]], WORDS, torch.device("cpu"))
    assert passes == [choices.shape[1]] * 2


def test_noise_gives_samples_of_the_softmax() -> None:
    """Tokens are drawn with the model's own probabilities, independently at each place."""
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0, -9.0], dtype=torch.float64)
    places = torch.arange(4_000).unsqueeze(0)
    drawn = (generation.gumbel(torch.tensor([11]), places, range(10), 5)[0] + logits).argmax(dim=-1)
    shares = torch.bincount(drawn.flatten(), minlength=5) / drawn.numel()
    torch.testing.assert_close(shares.double(), logits.softmax(dim=0), rtol=0, atol=0.01)
    same = (drawn[:, :-1] == drawn[:, 1:]).double().mean()
    assert float(same) == pytest.approx(float(logits.softmax(dim=0).square().sum()), abs=0.01)
    other = (generation.gumbel(torch.tensor([12]), places, range(10), 5)[0] + logits).argmax(dim=-1)
    assert float((drawn == other).double().mean()) == pytest.approx(float(same), abs=0.02)
