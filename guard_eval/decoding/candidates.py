"""The most likely tokens in a total order: the higher score first, of equal scores the smaller token id.

Equal logits are common: in bfloat16 nearly every step has some, and `torch.topk` leaves their order open.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def top_candidates(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the `n` largest logits and their token ids, `[B, n]` each, in order.

    Each of the n best tokens lies in one of the n chunks of neighbouring tokens with the best maxima, so two
    small searches do. Of chunks with equal maxima the first one's maximum has the smaller id.

    Args:
        logits: `[B, V]`, float32.
        n: How many; V if the vocabulary is smaller.
    """
    vocabulary = logits.shape[1]
    n = min(n, vocabulary)
    width = 1 << max(5, round(math.log2(vocabulary / n) / 2))  # both searches are about equally long
    chunks = -(-vocabulary // width)
    if n >= chunks:
        ids = _order(logits, torch.arange(vocabulary, device=logits.device), n)
        return logits.gather(1, ids), ids
    rest = chunks * width - vocabulary
    padded = torch.nn.functional.pad(logits, (0, rest), value=-torch.inf) if rest else logits.contiguous()
    best = _order(padded.view(-1, chunks, width).amax(-1), torch.arange(chunks, device=logits.device), n)
    ids = (best[:, :, None] * width + torch.arange(width, device=logits.device)).flatten(1)
    values = padded.gather(1, ids)
    order = _order(values, ids, n)
    return values.gather(1, order), ids.gather(1, order)


def smallest_best(scores: Tensor, ids: Tensor) -> Tensor:
    """Return the index of each row's best score, `[B]`; of equal scores that of the smallest token id.

    Args:
        scores: `[B, n]`.
        ids: Token ids `[B, n]`, distinct in each row.
    """
    best = scores == scores.amax(-1, keepdim=True)
    return torch.where(best, ids, torch.iinfo(ids.dtype).max).argmin(-1)


def _order(values: Tensor, ids: Tensor, n: int) -> Tensor:
    """Return the indices of the n largest `values` `[B, m]`; of equal ones those with smaller `ids` first."""
    bits = (values + 0.0).view(torch.int32)  # adding zero turns -0.0 into 0.0
    ordered = bits ^ ((bits >> 31) & torch.iinfo(torch.int32).max)
    return torch.topk((ordered.long() << 32) - ids, n).indices  # no two keys of a row are equal
