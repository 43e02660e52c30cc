"""Models on permutations: answers of several tokens are scored whole, and a small model learns."""

from __future__ import annotations

import numpy as np
import torch

from trainables.base import Mix
from trainables.generation import accuracies
from trainables.permutations.settings import TaskSettings


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
