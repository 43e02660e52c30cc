"""The whole model on one page: a small decoder-only transformer with a leading stack axis.

S models of one shape are trained as one: every parameter has S as its first axis, and every matrix product is batched
over it. A stack therefore needs far fewer kernel launches than S models, and models do not affect each other. A single
model is a stack of 1.

``n_layer`` pre-norm blocks are applied ``n_recurrence`` times with shared weights (arXiv 2505.18369, section 3: one
block, four times). A block is x + attention(norm x), then x + feed_forward(norm x). With ``parallel``, both read the
same stream: x + attention(norm x) + feed_forward(norm x). With ``bias``, linear maps and norms have biases. Position
embeddings are learned.

Shape suffixes: S stack, B rows (in attention, of all models), T positions, W positions of keys, N = B*T, C n_embed,
H heads, D = C/H, X = rows x heads, F feed-forward width, V vocabulary, P parameters of one model (padded).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from trainables.transformer.architecture import BIAS, GAIN, Layout, ModelSettings

LARGEST_ONE_HOT = 256
"""Largest vocabulary for which a GPU looks up embeddings by a matrix product."""
SHORT_ROW = 32
"""Longest row for which a CPU computes attention by matrix products."""
MOST_ROWS = 65_535
"""Maximum number of rows: attention kernels count them along a grid dimension of CUDA."""
ROWS_OF_A_PART = 384
"""Minimum number of rows on a GPU for a part with a separate product (:func:`_product`)."""
Sublayer = Literal["attention", "feed_forward"]
Observe = Callable[[Sublayer, int, Tensor], None]
"""Function that gets the sublayer, application (from 0) and update [S, B, T, C] of each addition to the stream."""


def initialize(settings: ModelSettings, layout: Layout, generator: torch.Generator) -> Tensor:
    """Return one model's flat parameter vector [P]: weights by ``settings.init``, gains 1, biases and padding 0."""
    flat = torch.zeros(1, layout.width)
    for name, view in layout.views(flat).items():
        if name.endswith(GAIN):
            view.fill_(1.0)
        elif not name.endswith(BIAS):
            deviation = settings.init.deviation(name, layout.shapes[name], settings.additions)
            view.normal_(0.0, deviation, generator=generator)
    return flat[0]


def _norm(x_SNC: Tensor, width: int) -> Tensor:
    """Normalize the first ``width`` columns, without gains. The other columns are padding and stay zero."""
    normed_SNC = functional.layer_norm(x_SNC[..., :width], (width,))
    return functional.pad(normed_SNC, (0, x_SNC.shape[-1] - width)) if x_SNC.shape[-1] > width else normed_SNC


def _after_norm(
    parameters: Mapping[str, Tensor], norm: str, name: str, matrix_SCK: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return the matrix [S, C, K] and bias [S, 1, K] of the map ``name`` with the gain g and bias b of the preceding
    norm folded in.

    (n g + b) W + c = n (g W) + (b W + c): two small products per step instead of passes over every token.
    """
    gain_SC = parameters[norm]
    padding = matrix_SCK.shape[1] - gain_SC.shape[1]
    folded_SCK = functional.pad(gain_SC, (0, padding)).unsqueeze(-1) * matrix_SCK
    if f"{norm}_{BIAS}" not in parameters:
        return folded_SCK, None
    shift_S1C = functional.pad(parameters[f"{norm}_{BIAS}"], (0, padding)).unsqueeze(1)
    return folded_SCK, torch.baddbmm(parameters[f"{name}_{BIAS}"].unsqueeze(1), shift_S1C, matrix_SCK)


def _parts(stack: int, rows: int, *, on_gpu: bool) -> int:
    """Return the number of parts in which to add up the gradients of a stack's matrices.

    A matrix's gradient is a sum over all rows. cuBLAS splits that sum between multiprocessors for one matrix, but not
    for a batch of matrices. On an H100, 8,192 rows and 4 matrices of 32 x 32 took 143 us, and 16 us in 16 parts.
    """
    if not on_gpu or stack == 1:
        return 1
    return next(parts for parts in range(max(1, rows // ROWS_OF_A_PART), 0, -1) if rows % parts == 0)


def _product(x_SNC: Tensor, matrix_SCK: Tensor, added: Tensor | None) -> Tensor:
    """Return the rows of a stack times its matrices [S, N, K], plus ``added`` [S, N or 1, K] if given."""
    stack, rows, _ = x_SNC.shape
    parts = _parts(stack, rows, on_gpu=x_SNC.is_cuda)
    if parts > 1:
        product: Tensor = _ProductInParts.apply(x_SNC, matrix_SCK, added, parts)  # type: ignore[no-untyped-call]
        return product
    return torch.bmm(x_SNC, matrix_SCK) if added is None else torch.baddbmm(added, x_SNC, matrix_SCK)


class _ProductInParts(torch.autograd.Function):
    """A :func:`_product` that adds up the gradient of each matrix in parts of the rows. Everything else is computed at
    once."""

    @staticmethod
    def forward(context: Any, x_SNC: Tensor, matrix_SCK: Tensor, added: Tensor | None, parts: int) -> Tensor:
        context.save_for_backward(x_SNC, matrix_SCK)
        context.parts = parts
        context.added_rows = 0 if added is None else added.shape[1]
        return torch.bmm(x_SNC, matrix_SCK) if added is None else torch.baddbmm(added, x_SNC, matrix_SCK)

    @staticmethod
    def backward(context: Any, gradient_SNK: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x_SNC, matrix_SCK = context.saved_tensors
        of_x, of_matrix, of_added, _ = context.needs_input_grad
        stack, rows, width = x_SNC.shape
        parts = context.parts
        x_gradient = torch.bmm(gradient_SNK, matrix_SCK.transpose(1, 2)) if of_x else None
        matrix_gradient = added_gradient = None
        if of_matrix:
            x = x_SNC.reshape(stack * parts, rows // parts, width)
            gradient = gradient_SNK.reshape(stack * parts, rows // parts, -1)
            matrix_gradient = torch.bmm(x.transpose(1, 2), gradient).view(stack, parts, width, -1).sum(dim=1)
        if of_added:
            is_bias = context.added_rows == 1
            added_gradient = gradient_SNK.sum(dim=1, keepdim=True) if is_bias else gradient_SNK
        return x_gradient, matrix_gradient, added_gradient, None


def _embed(table_SVC: Tensor, tokens_SN: Tensor) -> Tensor:
    """Look up tokens in each model's own table: [S, V, C], [S, N] -> [S, N, C]."""
    stack, vocabulary, width = table_SVC.shape
    if table_SVC.is_cuda and vocabulary <= LARGEST_ONE_HOT:
        return _embed_by_product(table_SVC, tokens_SN)
    first_S1 = torch.arange(stack, device=tokens_SN.device).unsqueeze(1) * vocabulary
    return functional.embedding(tokens_SN + first_S1, table_SVC.reshape(stack * vocabulary, width))


def _embed_by_product(table_SVC: Tensor, tokens_SN: Tensor) -> Tensor:
    """Look up tokens by a product with one-hot rows.

    On a GPU the gradient of a look-up is a sum in no fixed order, in the table's precision. The gradient of a product
    is repeatable and summed in float32.
    """
    vocabulary = table_SVC.shape[1]
    more = -vocabulary % 8  # Pad the inner width for tensor cores.
    chosen_SNV = tokens_SN.unsqueeze(-1) == torch.arange(vocabulary + more, device=tokens_SN.device)
    return _product(chosen_SNV.to(table_SVC.dtype), functional.pad(table_SVC, (0, 0, 0, more)), None)


class Past:
    """Keys and values of earlier positions, by application of a layer. A pass that continues them computes only new
    positions.

    ``positions`` is their number, and ``most`` the maximum.
    """

    def __init__(self, most: int) -> None:
        self.positions = 0
        self._most = most
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, application: int, *new_BHTD: Tensor) -> Iterable[Tensor]:
        """Keep the keys and values of a pass, and return the keys and values of all positions so far."""
        if application not in self._kept:
            keys, values = (new.new_empty(*new.shape[:2], self._most, new.shape[3]) for new in new_BHTD)
            self._kept[application] = keys, values
        last = self.positions + new_BHTD[0].shape[2]
        for kept_BHWD, new in zip(self._kept[application], new_BHTD, strict=True):
            kept_BHWD[:, :, self.positions : last] = new
        return (kept_BHWD[:, :, :last] for kept_BHWD in self._kept[application])


Extend = Callable[[Tensor, Tensor], Iterable[Tensor]]
"""Function that adds the keys and values of earlier positions before the keys and values of a pass."""


def attention(qkv_SNK: Tensor, rows: int, n_head: int, scale: float, extend: Extend | None = None) -> Tensor:
    """Apply causal attention within each row: [S, N, 3C] -> [S, N, C]. A pass that continues earlier positions has one
    position in each row."""
    stack, tokens, width3 = qkv_SNK.shape
    # Split q, k and v first: compiled with a dynamic stack axis, one kernel per block then writes the whole gradient.
    q_BHTD, k_BHTD, v_BHTD = (
        part_SNC.view(stack, rows, tokens // rows, n_head, -1).flatten(0, 1).transpose(1, 2)
        for part_SNC in qkv_SNK.chunk(3, dim=-1)
    )
    if extend is not None:
        k_BHTD, v_BHTD = extend(k_BHTD, v_BHTD)
    by_products = qkv_SNK.is_cpu and k_BHTD.shape[2] <= SHORT_ROW
    mixed_BHTD = (_mix_by_products if by_products else _mix_by_kernel)(q_BHTD, k_BHTD, v_BHTD, scale)
    return mixed_BHTD.transpose(1, 2).reshape(stack, tokens, width3 // 3)


def _mix_by_kernel(q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, scale: float) -> Tensor:
    if len(q_BHTD) > MOST_ROWS:
        halves = zip(*(part_BHTD.chunk(2) for part_BHTD in (q_BHTD, k_BHTD, v_BHTD)), strict=True)
        return torch.cat([_mix_by_kernel(q, k, v, scale) for q, k, v in halves])
    hides = q_BHTD.shape[2] > 1  # A last position alone sees all others.
    return functional.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD, is_causal=hides, scale=scale)


def _mix_by_products(q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, scale: float) -> Tensor:
    """Use matrix products, which are faster for short rows because these do not fill the blocks of torch's kernel."""
    batch, heads, positions, _ = q_BHTD.shape
    q_XTD, k_XTD, v_XTD = (part.flatten(0, 1) for part in (q_BHTD, k_BHTD, v_BHTD))
    keys = k_XTD.shape[1]
    future_TW = q_XTD.new_full((positions, keys), -math.inf).triu(1 + keys - positions)
    score_XTW = torch.baddbmm(future_TW, q_XTD, k_XTD.transpose(1, 2), alpha=scale)
    return torch.bmm(score_XTW.softmax(dim=-1), v_XTD).view(batch, heads, positions, -1)


def forward(
    settings: ModelSettings,
    parameters: Mapping[str, Tensor],
    tokens_SBT: Tensor,
    observe: Observe | None = None,
    past: Past | None = None,
) -> Tensor:
    """Return the logits [S, B, T, V] of a stack of models on their own rows of tokens, T <= block.

    If ``parameters`` are padded (gpu_step.py), C, D, F and the head's V are wider than in the model.

    Args:
        settings: Architecture of the models.
        parameters: Parameters of the stack, by name.
        tokens_SBT: Token ids.
        observe: Function that gets the updates that sublayers write to the residual stream, for probes.
        past: Earlier positions, which the tokens continue and then join. T must be 1, unless the tokens are the first.
    """
    stack, rows, positions = tokens_SBT.shape
    begin = 0 if past is None else past.positions
    assert not begin or positions == 1, "attention only masks passes from the first position on"
    p = parameters
    vocabulary = p["token"].shape[1]
    n_embed = p["final_norm"].shape[1]
    x_SNC = _embed(p["token"], tokens_SBT.reshape(stack, rows * positions))
    position_S1TC = p["position"][:, None, begin : begin + positions]
    x_SNC = (x_SNC.view(stack, rows, positions, -1) + position_S1TC).view_as(x_SNC)
    scale = 1 / math.sqrt(n_embed // settings.n_head)
    activation = functional.relu if settings.activation == "relu" else functional.gelu
    layers = range(settings.n_layer)
    into_attention = [_after_norm(p, f"{i}.attention_norm", f"{i}.qkv", p[f"{i}.qkv"]) for i in layers]
    into_hidden = [
        _after_norm(p, f"{i}.feed_forward_norm", f"{i}.feed_forward_in", p[f"{i}.feed_forward_in"]) for i in layers
    ]

    def add(stream_SNC: Tensor, x_SNK: Tensor, sublayer: Sublayer, application: int, name: str) -> Tensor:
        onto_SNC = stream_SNC if observe is None else torch.zeros_like(stream_SNC)
        if f"{name}_{BIAS}" in p:
            onto_SNC = onto_SNC + p[f"{name}_{BIAS}"].unsqueeze(1)
        sum_SNC = _product(x_SNK, p[name], onto_SNC)
        if observe is None:
            return sum_SNC
        observe(sublayer, application, sum_SNC.view(stack, rows, positions, -1))
        return stream_SNC + sum_SNC

    for application, layer in enumerate(settings.n_recurrence * list(layers)):
        normed_SNC = _norm(x_SNC, n_embed)
        extend = None if past is None else partial(past.extend, application)
        mixed_SNC = attention(_product(normed_SNC, *into_attention[layer]), rows, settings.n_head, scale, extend)
        x_SNC = add(x_SNC, mixed_SNC, "attention", application, f"{layer}.attention_out")
        if not settings.parallel:
            normed_SNC = _norm(x_SNC, n_embed)
        hidden_SNF = activation(_product(normed_SNC, *into_hidden[layer]))
        x_SNC = add(x_SNC, hidden_SNF, "feed_forward", application, f"{layer}.feed_forward_out")
    head = _after_norm(p, "final_norm", "head", p["token"].transpose(1, 2) if settings.tied else p["head"])
    if past is not None:
        past.positions += positions
    logits_SNV = _product(_norm(x_SNC, n_embed), *head)[..., :vocabulary]
    return logits_SNV.reshape(stack, rows, positions, -1)
