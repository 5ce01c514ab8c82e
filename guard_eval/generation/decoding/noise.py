"""Random numbers that depend on the study's seed, the prompt, the strategy, the step and the token alone.

No generator is advanced: each number is computed from its coordinates (SplitMix64; Steele, Lea and Flood
2014), so that a prompt meets the same numbers in any batch, at any place in it, and on any device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from guard_eval.records import content_id

_BITS = 52
"""Bits of a uniform number; with one more, (2^53 − ½) / 2^53 would round to 1."""
_BLOCK = 1 << 15
"""Numbers that are computed together on a CPU; of more, the memory would be got from the system each time."""


def _signed(number: int) -> int:
    """Return `number` modulo 2^64 as the int64 with the same bits."""
    return (number + 2**63) % 2**64 - 2**63


_GAMMA = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def row_key(seed: int, prompt_id: str, strategy: str, run: int = 1) -> int:
    """Return 64 bits, as a signed number, that seed all draws for a prompt, a strategy and a run."""
    further = [] if run == 1 else [run]
    return _signed(int(content_id("noise", seed, prompt_id, strategy, *further), 16))


def advance_keys(keys: Tensor, steps: Tensor) -> Tensor:
    """Return keys that at step 0 give the numbers of `keys` at `steps`, `[B]` each, for rows out of step."""
    return keys + steps * _GAMMA


def uniform(keys: Tensor, step: int, ids: Tensor) -> Tensor:
    """Return uniform numbers in (0, 1), the ends excluded.

    Args:
        keys: A `row_key` each, `[B]`, int64.
        step: 0, 1, ….
        ids: Token ids, `[B, n]`, int64.

    Returns:
        `[B, n]`, float64, 52 random bits each.
    """
    return to_unit(split_mix(_mix(keys + _signed((step + 1) * _GAMMA)), ids))


def to_unit(bits: Tensor) -> Tensor:
    """Return the upper 52 bits of int64 `bits` as the middles of 2^52 equal parts of (0, 1), float64."""
    # Doubled before ½ is added: torch would make int64 + 0.5 a float32, where the largest number is 1.
    return _shift(bits, 64 - _BITS).double().add_(0.5).mul_(2.0**-_BITS)


def gumbel(keys: Tensor, step: int, ids: Tensor) -> Tensor:
    """Return standard Gumbel noise −ln(−ln u), `[B, n]`, float64; arguments as in `uniform`."""
    return uniform(keys, step, ids).log_().neg_().log_().neg_()


def split_mix(seeds: Tensor, index: Tensor) -> Tensor:
    """Return the `index`-th number (0, 1, …; `[B, n]`) of each seed's (`[B]`) SplitMix64 stream: `[B, n]`."""
    return _mix(seeds[:, None] + (index + 1) * _GAMMA)


def _mix(z: Tensor) -> Tensor:
    """Return the bits of `z`, which is changed, mixed; int64 arithmetic wraps around, as it should here."""
    # In place: memory for each of these steps would take longer than its arithmetic.
    z ^= _shift(z, 30)
    z *= _MIX_1
    z ^= _shift(z, 27)
    z *= _MIX_2
    z ^= _shift(z, 31)
    return z


def _shift(z: Tensor, bits: int) -> Tensor:
    """Return `z` shifted right with zeros coming in; torch's own shift repeats the sign."""
    return (z >> bits).bitwise_and_(torch.iinfo(torch.int64).max >> (bits - 1))


def draw(log_weights: Tensor, keys: Tensor, step: int) -> Tensor:
    """Return one token per row, `[B]`, with probability proportional to its weight (the Gumbel-max method).

    Args:
        log_weights: `[B, V]`, up to a constant; −inf is never drawn, and at least one is finite.
        keys: A `row_key` each, `[B]`.
        step: 0, 1, ….
    """
    if log_weights.device.type != "cpu":  # a GPU would have to tell the host how many tokens are kept
        return _draw_of_all(log_weights, keys, step)
    possible = log_weights > -torch.inf
    if 3 * int(possible.sum()) > possible.numel():  # to gather them would take longer than their noise
        size = max(1, _BLOCK // log_weights.shape[1])
        blocks = zip(torch.split(log_weights, size), torch.split(keys, size), strict=True)
        return torch.cat([_draw_of_all(*block, step) for block in blocks])
    rows, ids = possible.nonzero(as_tuple=True)
    scores = gumbel(keys[rows], step, ids[:, None])[:, 0].add_(log_weights[rows, ids])
    counts = torch.bincount(rows, minlength=len(keys))
    starts = counts.cumsum(0) - counts
    table = scores.new_full((len(keys), int(counts.max())), -torch.inf)
    table[rows, torch.arange(len(rows)) - starts[rows]] = scores
    return ids[starts + table.argmax(-1)]


def _draw_of_all(log_weights: Tensor, keys: Tensor, step: int) -> Tensor:
    """Return `draw` with noise for every token."""
    ids = torch.arange(log_weights.shape[1], device=keys.device).expand(len(keys), -1)
    return gumbel(keys, step, ids).add_(log_weights).argmax(-1)
