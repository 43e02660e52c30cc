"""Scoring by generation, greedy or sampled, for a whole stack at once.

The worked solution serves as a free draft (speculative decoding: Leviathan, Kalman and Matias, ICML 2023). One forward
pass gives the model's choice at every position. Up to and including the first difference from the draft, these choices
are the text of greedy generation. A model that knows the task needs one pass. Any other model needs one pass for each
wrong token, or continues token by token (:func:`write_by_steps`). The latter is for a GPU: after each pass, the CPU
must wait for the GPU to see the mistakes.

Sampling at temperature 1 adds noise to the logits: the largest logit plus Gumbel noise is a sample of their softmax
(Gumbel 1954; Maddison, Tarlow and Minka, NeurIPS 2014). The noise of a token depends only on its run, text and
position, so drafts, passes and other runs of the stack do not change it.

Shape suffixes: S stack, M expressions, K expressions of a pass, W tokens of the longest expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.transformer.architecture import ModelSettings, parameter_shapes
from trainables.transformer.datasets import Examples
from trainables.transformer.model import Observe, Past, forward
from trainables.transformer.training_windows import GOLDEN, scramble
from trainables.transformer.vocabulary import ExpressionVocabulary

Forward = Callable[[Tensor], Tensor]
"""``tokens [S, M, T] -> logits [S, M, T, V]``: every model of the stack on its own expressions."""


class ForwardWithPast(Protocol):
    """A :data:`Forward` that can also continue earlier tokens."""

    def __call__(self, tokens_SMT: Tensor, past: Past | None = None, /) -> Tensor:
        """Return the logits of tokens that continue ``past`` (:func:`trainables.transformer.model.forward`)."""


Write = Callable[[Tensor, Tensor, int, Sequence[int] | None], None]
"""Function that writes texts in place: ``(tokens, begin, end, keys)``, the arguments of :func:`write_by_drafts`."""

TOKENS_A_PASS = 65_536
"""Maximum number of tokens in a forward pass, unless a training step has more: about 0.8 GB at a width of 256."""
SINGLE_TOKENS = 8
"""Factor of the maximum number of tokens for texts that are written token by token. A GPU needs about as long for a
short pass over many texts as over few texts. Keys and values of a token take less memory than a pass over it."""
FEW_TOKENS = 16_384
"""Number of tokens up to which launches take most of the time of a pass. Such a pass is as fast as a pass over one
token of each text. This is a guess: these passes were not timed on a GPU."""


def accuracies(
    write: Write,
    questions: Sequence[Sequence[Examples]],
    vocabulary: ExpressionVocabulary,
    device: torch.device,
    keys: Sequence[int] | None = None,
) -> list[list[float]]:
    """Return the share of right answers of every model of the stack on each of its sets of expressions.

    An expression is right if '=', its answer and the first ``<eos>`` end its text. It is wrong if it is longer than the
    longest solution of its set.

    Args:
        write: Function that writes the texts.
        questions: Sets of expressions for each row of the stack. Rows may have different numbers of sets.
        vocabulary: Tokens of the texts.
        device: Device of the models.
        keys: Signed 64-bit seeds, one for each row, to sample texts at temperature 1. None for greedy texts.
    """
    tokens_SMW, begin_SM = (torch.from_numpy(array).to(device) for array in lay_out(questions, vocabulary.eos))
    write(tokens_SMW, begin_SM, vocabulary.eos, keys)
    shares = []
    for written_MW, sets in zip(tokens_SMW.cpu().numpy(), questions, strict=True):
        texts = np.split(written_MW, np.cumsum([len(examples.answers) for examples in sets]))
        shares.append([_score(text_MW, examples, vocabulary) for text_MW, examples in zip(texts, sets, strict=False)])
    return shares


def lay_out(questions: Sequence[Sequence[Examples]], eos: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the solutions [S, M, W] of each row's sets, padded with ``eos``, and the first positions to write [S, M].

    For texts that only pad M, the first position is W, so nothing is written.
    """
    height = max(sum(len(examples.answers) for examples in sets) for sets in questions)
    width = max(examples.tokens.shape[1] for sets in questions for examples in sets)
    tokens = np.full((len(questions), height, width), eos, dtype=np.int64)
    begin = np.full((len(questions), height), width, dtype=np.int64)
    for row, sets in enumerate(questions):
        first = 0
        for examples in sets:
            last = first + len(examples.answers)
            tokens[row, first:last, : examples.tokens.shape[1]] = examples.tokens
            begin[row, first:last] = examples.prompt_lengths
            first = last
    return tokens, begin


def write_by_drafts(
    forward: Forward,
    tokens_SMW: Tensor,
    begin_SM: Tensor,
    end: int,
    keys: Sequence[int] | None = None,
    most_tokens: int = TOKENS_A_PASS,
) -> None:
    """Write every model's texts in place, each up to its first ``end``.

    The tokens from ``begin_SM`` on are a draft. A pass over at most ``most_tokens`` tokens of unfinished texts accepts
    each draft up to its first wrong token, and corrects that token. ``begin_SM`` changes. For ``keys``, see
    :func:`accuracies`.
    """
    texts = _Texts(tokens_SMW, begin_SM, end, keys)
    while parts := texts.unfinished(most_tokens):
        texts.accept(forward, parts[0])


def write_by_steps(
    forward: ForwardWithPast,
    tokens_SMW: Tensor,
    begin_SM: Tensor,
    end: int,
    keys: Sequence[int] | None = None,
    most_tokens: int = TOKENS_A_PASS,
) -> None:
    """Write the same texts as :func:`write_by_drafts`, without one forward pass and one device wait per wrong token.

    Each draft is accepted up to its first wrong token, once. The unfinished texts are then written token by token, side
    by side, and keys and values are kept.
    """
    texts = _Texts(tokens_SMW, begin_SM, end, keys)
    for part_SK in texts.unfinished(most_tokens):
        texts.accept(forward, part_SK)
    parts = texts.unfinished(SINGLE_TOKENS * most_tokens)
    # A few texts are finished by drafts: they have at most as many mistakes as tokens, and their passes are as short.
    if sum(part_SK.numel() for part_SK in parts) * tokens_SMW.shape[2] <= FEW_TOKENS:
        write_by_drafts(forward, tokens_SMW, begin_SM, end, keys, most_tokens)
        return
    for part_SK in parts:
        texts.write(forward, part_SK)


class _Texts:
    """The texts of a stack while they are written."""

    def __init__(self, tokens_SMW: Tensor, begin_SM: Tensor, end: int, keys: Sequence[int] | None) -> None:
        self._tokens_SMW = tokens_SMW
        self._begin_SM = begin_SM
        self._end = end
        device = tokens_SMW.device
        self._key_S = None if keys is None else torch.tensor(keys, dtype=torch.int64, device=device)
        self._width = tokens_SMW.shape[2]
        self._position_W = torch.arange(self._width, device=device)
        self._first = 1
        """First position at which a text is unfinished. The tokens before it are final."""

    def unfinished(self, most_tokens: int) -> Sequence[Tensor]:
        """Wait for the device, and return the indices of the unfinished texts of each model, in parts [S, K] of at most
        ``most_tokens`` tokens.

        If a model has fewer unfinished texts than another model, finished texts fill its rows.
        """
        at_once = max(1, most_tokens // self._width // len(self._tokens_SMW))
        is_finished_SM = self._begin_SM == self._width
        count = int((~is_finished_SM).sum(dim=1).max())
        self._first = max(1, int(self._begin_SM.min()))
        # Unfinished texts first. Finished texts at the end of a row do not change when they are written again.
        order_SM = is_finished_SM.to(torch.uint8).argsort(dim=1, stable=True)
        return torch.split(order_SM[:, :count], at_once, dim=1) if count else ()

    def accept(self, forward: Forward, chosen_SK: Tensor) -> None:
        """Accept the drafts of some texts up to their first wrong tokens, and correct these tokens."""
        where_SKW, draft_SKW, begin_SK = self._take(chosen_SK)
        # Tokens before the beginning of a draft are the prompt or were accepted already.
        fresh_SKW = self._position_W >= begin_SK.unsqueeze(-1)
        logits_SKTV = forward(draft_SKW[..., :-1])[:, :, self._first - 1 :]
        own_SKW = torch.cat((draft_SKW[..., : self._first], self._own(logits_SKTV, chosen_SK, self._first - 1)), dim=-1)
        wrong_SKW = (own_SKW != draft_SKW) & fresh_SKW
        # The first wrong token, or the last token of a draft without mistakes. Later choices depend on wrong tokens.
        last_SK1 = torch.where(wrong_SKW, self._position_W, self._width - 1).amin(dim=-1, keepdim=True)
        corrected_SKW = torch.where((self._position_W == last_SK1) & fresh_SKW, own_SKW, draft_SKW)
        ended_SK = ((corrected_SKW == self._end) & fresh_SKW & (self._position_W <= last_SK1)).any(dim=-1)
        self._tokens_SMW.scatter_(1, where_SKW, corrected_SKW)
        self._begin_SM.scatter_(1, chosen_SK, torch.where(ended_SK, self._width, last_SK1.squeeze(-1) + 1))

    def write(self, forward: ForwardWithPast, chosen_SK: Tensor) -> None:
        """Write some texts token by token, side by side. A text keeps its tokens before its beginning."""
        where_SKW, text_SKW, begin_SK = self._take(chosen_SK)
        past = Past(self._width)
        if self._first > 1:
            forward(text_SKW[..., : self._first - 1], past)
        # No test for an early end: it would wait for the device at every token.
        for position in range(self._first, self._width):
            logits_SK1V = forward(text_SKW[..., position - 1 : position], past)
            own_SK = self._own(logits_SK1V, chosen_SK, position - 1).squeeze(-1)
            is_fresh_SK = begin_SK <= position
            text_SKW[..., position] = torch.where(is_fresh_SK, own_SK, text_SKW[..., position])
            begin_SK = torch.where(is_fresh_SK & (own_SK == self._end), self._width, begin_SK)
        self._tokens_SMW.scatter_(1, where_SKW, text_SKW)
        self._begin_SM.scatter_(1, chosen_SK, self._width)

    def _take(self, chosen_SK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the indices of some texts in ``tokens_SMW``, their tokens, and the positions where their drafts
        begin."""
        where_SKW = chosen_SK.unsqueeze(-1).expand(-1, -1, self._width)
        return where_SKW, self._tokens_SMW.gather(1, where_SKW), self._begin_SM.gather(1, chosen_SK)

    def _own(self, logits_SKTV: Tensor, chosen_SK: Tensor, first: int) -> Tensor:
        """Return the models' own next tokens [S, K, T], given the logits from position ``first`` on."""
        if self._key_S is not None:
            positions = range(first, first + logits_SKTV.shape[2])
            # The largest noisy logit is a sample of the softmax (head of this module).
            logits_SKTV = logits_SKTV.double() + gumbel(self._key_S, chosen_SK, positions, logits_SKTV.shape[3])
        return logits_SKTV.argmax(dim=-1)


def gumbel(key_S: Tensor, text_SK: Tensor, positions: range, vocabulary: int) -> Tensor:
    """Return standard Gumbel noise [S, K, T, V], float64: a hash of row key, text number, position and token."""
    word_SKTV = key_S.view(-1, 1, 1, 1)
    position_T1 = torch.arange(positions.start, positions.stop, device=key_S.device).unsqueeze(1)
    token_V = torch.arange(vocabulary, device=key_S.device)
    for counted in (text_SK[..., None, None], position_T1, token_V):
        word_SKTV = scramble(word_SKTV + (counted + 1) * GOLDEN)
    uniform_SKTV = ((word_SKTV >> 11 & (1 << 53) - 1).double() + 0.5) * 2.0**-53
    return -(-uniform_SKTV.log()).log()


def _score(text_MW: NDArray[np.int64], examples: Examples, vocabulary: ExpressionVocabulary) -> float:
    """Return the share of texts that equal their solutions from the last '=' to ``<eos>``."""
    text_MW = text_MW[:, : examples.tokens.shape[1]]
    position_W = np.arange(text_MW.shape[1])
    ends_MW = (text_MW == vocabulary.eos) & (position_W >= examples.prompt_lengths[:, None])
    end_M = np.where(ends_MW.any(axis=1), ends_MW.argmax(axis=1), 0)
    # Both are read backward from <eos>, because a text may reach its answer in another number of steps.
    written_MW, right_MW = (
        np.take_along_axis(tokens, np.maximum(end[:, None] - position_W[1:], 0), axis=1)
        for tokens, end in ((text_MW, end_M), (examples.tokens, examples.lengths - 1))
    )
    is_equals_MW = right_MW == vocabulary.equals
    before_MW = np.cumsum(is_equals_MW, axis=1) - is_equals_MW > 0
    return float(((written_MW == right_MW) | before_MW).all(axis=1).mean())


class TrainedTransformer:
    """One model on the CPU, in float32, with its parameters by name, without a stack axis.

    Raises ``ValueError`` if the weights do not fit a model of these settings, width and number of tokens.
    """

    def __init__(
        self, settings: ModelSettings, n_embed: int, vocabulary: int, weights: Mapping[str, NDArray[Any]]
    ) -> None:
        wanted = parameter_shapes(settings, n_embed, vocabulary)
        if {name: weight.shape for name, weight in weights.items()} != wanted:
            raise ValueError("the weights belong to a model of another shape")
        self.settings = settings
        self.vocabulary = vocabulary
        self.parameters = {name: torch.from_numpy(np.array(weights[name], np.float32)) for name in wanted}

    def logits(self, tokens_BT: Tensor, observe: Observe | None = None, **parameters: Tensor) -> Tensor:
        """Return the logits [B, T, V] for token ids [B, T], T <= ``block``.

        ``observe`` gets the updates of sublayers. ``parameters`` replace some of the model's parameters.
        """
        stacked = {name: parameter.unsqueeze(0) for name, parameter in {**self.parameters, **parameters}.items()}
        with torch.no_grad():
            return forward(self.settings, stacked, tokens_BT.long().unsqueeze(0), observe)[0]
