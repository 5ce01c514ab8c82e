"""The most likely tokens in a total order: the higher score first, of equal scores the smaller token id.

Equal logits are no rarity: in bfloat16 nearly every step has some, and `torch.topk` leaves their order open.
"""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 128
_ID_BITS = 32


def top_candidates(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the `n` largest logits and their token ids, in order.

    Args:
        logits: `[B, V]`, float32.
        n: How many; V where the vocabulary is smaller.

    Returns:
        Logits `[B, n]` and ids `[B, n]`. Nothing is copied to the host.
    """
    rows, vocabulary = logits.shape
    n = min(n, vocabulary)
    chunks = -(-vocabulary // _CHUNK)
    if n >= chunks:
        return _top(logits, torch.arange(vocabulary, device=logits.device).expand(rows, -1), n)
    # Each of the n best tokens lies in one of the n chunks with the best maxima, so two small searches do.
    # Chunks hold neighbouring ids: of chunks with equal maxima, the first one's maximum has the smaller id.
    padded = torch.nn.functional.pad(logits, (0, chunks * _CHUNK - vocabulary), value=-torch.inf)
    chunked = padded.view(rows, chunks, _CHUNK)
    numbers = torch.arange(chunks, device=logits.device).expand(rows, -1)
    _, best = _top(chunked.amax(-1), numbers, n)
    inside = torch.arange(_CHUNK, device=logits.device)
    values = chunked.gather(1, best[:, :, None].expand(-1, -1, _CHUNK))
    return _top(values.flatten(1), (best[:, :, None] * _CHUNK + inside).flatten(1), n)


def smallest_best(scores: Tensor, ids: Tensor) -> Tensor:
    """Return the index of each row's best score; of equal scores that of the smallest token id.

    Args:
        scores: `[B, n]`.
        ids: Token ids `[B, n]`, distinct in each row.

    Returns:
        Indices into the second dimension, `[B]`.
    """
    best = scores == scores.amax(-1, keepdim=True)
    return torch.where(best, ids, torch.iinfo(ids.dtype).max).argmin(-1)


def _top(values: Tensor, ids: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n best of `values` `[B, m]` and their `ids` `[B, m]`, by a key that no two entries share."""
    bits = (values + 0.0).view(torch.int32)  # adding zero turns -0.0 into 0.0
    ordered = torch.where(bits < 0, bits ^ torch.iinfo(torch.int32).max, bits).long()
    index = torch.topk((ordered << _ID_BITS) - ids, n).indices
    return values.gather(1, index), ids.gather(1, index)
