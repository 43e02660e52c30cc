"""Models on permutations: answers of several tokens are scored whole, and a small model learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from trainables.base import Mix, Outcome, RunConfig
from trainables.tasks.permutations import Permutations, PermutationSettings, TaskSettings
from trainables.transformer.architecture import ModelSettings
from trainables.transformer.generation import accuracies
from trainables.transformer.initialisation import InitSettings
from trainables.transformer.optimizer import TrainingSettings


def test_an_answer_in_several_tokens_is_right_as_a_whole() -> None:
    """A model that knows every solution, but errs in one image of every third answer: the first, the second, ..."""
    task = TaskSettings(group="S3", depth=1, held_out_fraction=0.2, elements="images", train_examples=100)
    vocabulary = task.vocabulary()
    solutions = task.make_dataset(Mix.parse("product"), 0).test["product"]
    written = torch.from_numpy(solutions.tokens.astype(np.int64))
    wrong = np.arange(len(written)) % 3 == 0
    for text in np.flatnonzero(wrong):
        place = int(solutions.lengths[text]) - 2 - text // 3 % 3
        written[text, place] = (written[text, place] + 1) % 3

    def model(tokens: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*tokens.shape, len(vocabulary))
        for row, prompt in enumerate(tokens[0]):
            known = next(
                text
                for text, length in enumerate(solutions.prompt_lengths)
                if prompt[:length].equal(written[text, :length])
            )
            logits[0, row].scatter_(1, written[known, 1 : tokens.shape[2] + 1].unsqueeze(1), 1.0)
        return logits

    scores = accuracies(model, [[solutions]], eos=vocabulary.eos, equals=vocabulary.equals, device=torch.device("cpu"))
    assert scores == [[1 - wrong.mean()]]


@pytest.mark.slow
def test_a_small_model_learns_products_it_has_never_seen(data_cache: Path) -> None:
    """Half of them, where the best constant answer is right for a fifth: a short training, not a good one."""
    training = TrainingSettings(
        steps=1500,
        learning_rate=3e-3,
        learning_rate_end=3e-5,
        schedule="cosine",
        warmup_steps=50,
        weight_decay=0.1,
        beta2=0.98,
        loss="answer",
        windows="expression",
        evaluate_every=250,
        stop_when_solved=True,
    )
    task = TaskSettings(group="S3", depth=1, nesting=0.0, held_out_fraction=0.2, train_examples=20_000)
    settings = PermutationSettings(task, ModelSettings(block=20, init=InitSettings(std=0.2)), training)
    run = RunConfig(Mix.parse("product"), 24, 100, settings)
    learner = Permutations(settings).learner([run], device="cpu", cache=data_cache)
    ended: list[Outcome] = []
    while reports := learner.advance():
        ended += [report.outcome for report in reports if report.outcome is not None]
    assert ended[0].curve[-1].loss < 0.1
    assert ended[0].accuracy["product"] > ended[0].floor["product"] + 0.15
