"""Scoring by generation, greedy or sampled, for a whole stack at once.

Generation is exact but does not go token by token: the worked solution serves as a draft. One forward pass gives the
model's choice at every position. Up to and including the first difference from the draft, these choices are the text of
greedy generation. There the choice replaces the draft, and the next pass continues from it. A model that knows the task
needs one pass; any other model needs one for each wrong token (speculative decoding: Leviathan, Kalman and Matias, ICML
2023, with a free draft).

Sampling at temperature 1 adds noise to the logits: the largest logit plus Gumbel noise is a sample of their softmax
(Gumbel 1954; Maddison, Tarlow and Minka, NeurIPS 2014). The noise of a token depends only on its place, so drafts,
passes and other runs of the stack do not change it.

Shape suffixes: S stack, M expressions, W tokens of the longest expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.tasks.datasets import Examples
from trainables.tasks.vocabulary import ExpressionVocabulary
from trainables.transformer.architecture import ModelSettings, parameter_shapes
from trainables.transformer.model import Change, forward
from trainables.transformer.random_bits import GOLDEN, scramble

Forward = Callable[[Tensor], Tensor]
"""``tokens [S, M, T] -> logits [S, M, T, V]``: every model of the stack on its own expressions."""
Write = Callable[[Tensor, Tensor, int], None]
"""``(tokens [S, M, W], position [S, M], eos)``: write every text greedily, in place, from its position on."""

TOKENS_A_PASS = 65_536
"""Maximum number of tokens in a forward pass, unless a training step has more: about 0.8 GB at a width of 256."""


@dataclass
class _Texts:
    """Texts that are being written.

    ``tokens`` [S, M, W] are drafts, final before ``position`` [S, M]; ``done`` [S, M]. ``keys`` [S] seed the noise, or
    are None for greedy texts.
    """

    tokens: Tensor
    position: Tensor
    done: Tensor
    keys: Tensor | None = None


def accuracies(
    forward: Forward,
    questions: Sequence[Sequence[Examples]],
    vocabulary: ExpressionVocabulary,
    device: torch.device,
    training_tokens: int = 0,
    keys: Sequence[int] | None = None,
    write: Write | None = None,
) -> list[list[float]]:
    """Return the share of right answers of every model of the stack on each of its sets of expressions.

    An expression is right if '=', its answer and the first ``<eos>`` end its text. It is wrong if it is longer than the
    longest solution of its set.

    Args:
        questions: The sets of expressions of each stack row; rows may have different numbers of sets.
        training_tokens: Tokens of the stack's training step. A forward pass may have as many: without a backward pass
            they fit any device that trains the stack.
        keys: Signed 64-bit seeds, one for each stack row, to sample texts at temperature 1; None for greedy texts.
        write: Writes greedy texts instead of these passes.
    """
    texts = _lay_out(questions, vocabulary.eos, device)
    if keys is not None:
        texts.keys = torch.tensor(keys, dtype=torch.int64, device=device)
    elif write is not None:
        write(texts.tokens, texts.position, vocabulary.eos)
        texts.done.fill_(True)
    while not bool(texts.done.all()):
        _extend(forward, texts, vocabulary.eos, max(TOKENS_A_PASS, training_tokens))
    written_SMW = texts.tokens.cpu().numpy()
    return [_score(written_SMW[row], sets, vocabulary) for row, sets in enumerate(questions)]


def _lay_out(questions: Sequence[Sequence[Examples]], eos: int, device: torch.device) -> _Texts:
    """Concatenate the sets of each row, and pad rows to the same height with texts that are done."""
    height = max(sum(len(one.answers) for one in sets) for sets in questions)
    width = max(one.tokens.shape[1] for sets in questions for one in sets)
    tokens = np.full((len(questions), height, width), eos, dtype=np.int64)
    position = np.full((len(questions), height), width, dtype=np.int64)
    for row, sets in enumerate(questions):
        first = 0
        for one in sets:
            last = first + len(one.answers)
            tokens[row, first:last, : one.tokens.shape[1]] = one.tokens
            position[row, first:last] = one.prompt_lengths
            first = last
    done = position == width
    return _Texts(*(torch.from_numpy(array).to(device) for array in (tokens, position, done)))


def _extend(forward: Forward, texts: _Texts, eos: int, most_tokens: int) -> None:
    """Run a pass over unfinished texts; accept each draft up to its first wrong token, and correct that token."""
    stack, _, width = texts.tokens.shape
    unfinished = int((~texts.done).sum(dim=1).max())
    count = min(unfinished, max(1, most_tokens // width // stack))
    chosen_SK = texts.done.to(torch.uint8).argsort(dim=1, stable=True)[:, :count]
    draft_SKW = texts.tokens.gather(1, chosen_SK.unsqueeze(-1).expand(-1, -1, width))
    start_SK = texts.position.gather(1, chosen_SK)
    was_done_SK = texts.done.gather(1, chosen_SK)

    own_SKW = draft_SKW.clone()
    logits_SKWV = forward(draft_SKW[..., :-1])
    if texts.keys is not None:
        logits_SKWV = logits_SKWV.double() + gumbel(texts.keys, chosen_SK, *logits_SKWV.shape[2:])
    own_SKW[..., 1:] = logits_SKWV.argmax(dim=-1)
    index_W = torch.arange(width, device=draft_SKW.device)
    fresh_SKW = index_W >= start_SK.unsqueeze(-1)
    differs_SKW = (own_SKW != draft_SKW) & fresh_SKW
    last_SK = torch.where(differs_SKW, index_W, width - 1).amin(dim=-1)
    here_SKW = index_W == last_SK.unsqueeze(-1)
    corrected_SKW = torch.where(here_SKW & ~was_done_SK.unsqueeze(-1), own_SKW, draft_SKW)
    ended_SK = ((corrected_SKW == eos) & fresh_SKW & (index_W <= last_SK.unsqueeze(-1))).any(dim=-1)
    done_SK = was_done_SK | ended_SK | (last_SK == width - 1)

    texts.tokens.scatter_(1, chosen_SK.unsqueeze(-1).expand(-1, -1, width), corrected_SKW)
    texts.position.scatter_(1, chosen_SK, last_SK + 1)
    texts.done.scatter_(1, chosen_SK, done_SK)


def gumbel(key_S: Tensor, text_SK: Tensor, positions: int, vocabulary: int) -> Tensor:
    """Return standard Gumbel noise [S, K, T, V], float64: a hash of row key, text number, position and token."""
    word_SKTV = key_S.view(-1, 1, 1, 1)
    position_T1 = torch.arange(positions, device=key_S.device).unsqueeze(1)
    token_V = torch.arange(vocabulary, device=key_S.device)
    for counted in (text_SK[..., None, None], position_T1, token_V):
        word_SKTV = scramble(word_SKTV + (counted + 1) * GOLDEN)
    uniform_SKTV = ((word_SKTV >> 11 & (1 << 53) - 1).double() + 0.5) * 2.0**-53
    return -(-uniform_SKTV.log()).log()


def _score(text_MW: NDArray[np.int64], sets: Sequence[Examples], vocabulary: ExpressionVocabulary) -> list[float]:
    shares, first = [], 0
    for one in sets:
        count = len(one.answers)
        written = text_MW[first : first + count, : one.tokens.shape[1]]
        ends = (written == vocabulary.eos) & (np.arange(written.shape[1]) >= one.prompt_lengths[:, None])
        end = np.where(ends.any(axis=1), ends.argmax(axis=1), 0)
        shares.append(float(_end_alike(written, end, one, vocabulary.equals).mean()))
        first += count
    return shares


def _end_alike(text_MW: NDArray[np.int64], end_M: NDArray[np.int64], one: Examples, equals: int) -> NDArray[np.bool_]:
    """Return True for each text that equals its solution from the last '=' to ``end_M``, the text's ``<eos>``."""
    rows = np.arange(len(text_MW))
    alike, in_answer = np.ones(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_)
    back = 0
    while in_answer.any():
        back += 1
        right = one.tokens[rows, one.lengths - 1 - back]
        written = text_MW[rows, np.maximum(end_M - back, 0)]
        alike &= (written == right) | ~in_answer
        in_answer &= right != equals
    return alike


class TrainedTransformer:
    """One model on the CPU, in float32.

    ``parameters`` are its weights by name, without a stack axis; ``vocabulary`` is its number of tokens.

    Raises:
        ValueError: The weights do not fit a model of these settings and width.
    """

    def __init__(
        self, settings: ModelSettings, n_embed: int, vocabulary: int, weights: Mapping[str, NDArray[Any]]
    ) -> None:
        wanted = parameter_shapes(settings, n_embed, vocabulary)
        given = {name: weight.shape for name, weight in weights.items()}
        if differing := sorted(name for name in wanted | given if wanted.get(name) != given.get(name)):
            name = differing[0]
            raise ValueError(
                f"the weights belong to another model: {name!r} has shape {given.get(name)}, not {wanted.get(name)}"
                + (f", and {len(differing) - 1} more differ" if len(differing) > 1 else "")
            )
        self.settings = settings
        self.vocabulary = vocabulary
        self.parameters = {name: torch.from_numpy(np.array(weights[name], np.float32)) for name in wanted}

    def logits(self, tokens_BT: Tensor, change: Change | None = None, **parameters: Tensor) -> Tensor:
        """Return the logits [B, T, V] for token ids [B, T].

        ``change`` replaces updates of sublayers, and ``parameters`` some of the model's parameters.

        Raises:
            ValueError: T is larger than the model's ``block``.
        """
        if tokens_BT.shape[1] > self.settings.block:
            raise ValueError(f"{tokens_BT.shape[1]} tokens do not fit the model's block of {self.settings.block}")
        stacked = {name: parameter.unsqueeze(0) for name, parameter in {**self.parameters, **parameters}.items()}
        with torch.no_grad():
            return forward(self.settings, stacked, tokens_BT.long().unsqueeze(0), change)[0]
