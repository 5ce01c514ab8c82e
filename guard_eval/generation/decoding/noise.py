"""Random numbers that depend only on the study's seed, the prompt, the strategy, the step and the token.

No generator has a state: each number is computed from these five (SplitMix64; Steele, Lea and Flood 2014). So
a prompt gets the same numbers in any batch, at any position of the batch, and on any device.
"""

import torch
from torch import Tensor

from guard_eval.records import make_content_id

_BITS = 52
"""The number of random bits of a uniform number. With 53 bits, (2^53 − ½) / 2^53 would round to 1."""
_BLOCK = 1 << 15
"""The number of random values that a CPU computes at once. Larger blocks would allocate memory each time."""


def _to_int64(number: int) -> int:
    """Return the int64 that has the same bits as `number` modulo 2^64."""
    return (number + 2**63) % 2**64 - 2**63


_GAMMA = _to_int64(0x9E3779B97F4A7C15)
_MIX_1 = _to_int64(0xBF58476D1CE4E5B9)
_MIX_2 = _to_int64(0x94D049BB133111EB)


def make_row_key(seed: int, prompt_id: str, strategy: str, run: int = 1) -> int:
    """Return the signed 64-bit key that seeds all random draws for a prompt, a strategy and a run."""
    further = [] if run == 1 else [run]
    return _to_int64(int(make_content_id("noise", seed, prompt_id, strategy, *further), 16))


def advance_keys(keys: Tensor, steps: Tensor) -> Tensor:
    """Return keys whose random numbers at step 0 are those of `keys` at `steps`, `[B]` each.

    With the new keys, rows at different steps can be computed together, as if all were at step 0.
    """
    return keys + steps * _GAMMA


def draw_uniform_numbers(keys: Tensor, step: int, ids: Tensor) -> Tensor:
    """Return uniform random numbers between 0 and 1, without 0 and 1.

    Args:
        keys: The `make_row_key` of each row, `[B]`, int64.
        step: The step 0, 1, ….
        ids: The token ids, `[B, n]`, int64.

    Returns:
        The numbers, `[B, n]`, float64, with 52 random bits each.
    """
    step_seeds = _mix_bits(keys + _to_int64((step + 1) * _GAMMA))
    return map_to_unit_interval(compute_splitmix64_numbers(step_seeds, ids))


def map_to_unit_interval(bits: Tensor) -> Tensor:
    """Map int64 `bits` to the midpoints of 2^52 equal parts of (0, 1), float64, by their upper 52 bits."""
    # Convert to float64 first: in torch, int64 + 0.5 is float32, and the largest result would round to 1.
    return _shift_right(bits, 64 - _BITS).double().add_(0.5).mul_(2.0**-_BITS)


def draw_gumbel_noise(keys: Tensor, step: int, ids: Tensor) -> Tensor:
    """Return standard Gumbel noise −ln(−ln u), `[B, n]`, float64. Arguments: see `draw_uniform_numbers`."""
    return draw_uniform_numbers(keys, step, ids).log_().neg_().log_().neg_()


def compute_splitmix64_numbers(seeds: Tensor, index: Tensor) -> Tensor:
    """Return the SplitMix64 numbers of the seeds `[B]` at the positions `index` `[B, n]`, as `[B, n]`."""
    return _mix_bits(seeds[:, None] + (index + 1) * _GAMMA)


def _mix_bits(z: Tensor) -> Tensor:
    """Mix the bits of `z` in place, and return `z`. int64 arithmetic wraps around, as SplitMix64 needs."""
    # The operations are in place, because allocating memory would take longer than the arithmetic.
    z ^= _shift_right(z, 30)
    z *= _MIX_1
    z ^= _shift_right(z, 27)
    z *= _MIX_2
    z ^= _shift_right(z, 31)
    return z


def _shift_right(z: Tensor, bits: int) -> Tensor:
    """Shift `z` to the right, and fill with zeros. Torch's `>>` would repeat the sign bit."""
    return (z >> bits).bitwise_and_(torch.iinfo(torch.int64).max >> (bits - 1))


def draw_tokens(log_weights: Tensor, keys: Tensor, step: int) -> Tensor:
    """Draw one token per row, `[B]`, with probabilities in proportion to the weights (Gumbel-max method).

    Args:
        log_weights: The logarithms of the weights, up to a constant, `[B, V]`. A token with −inf is never
            drawn. Each row has at least one finite number.
        keys: The `make_row_key` of each row, `[B]`.
        step: The step 0, 1, ….
    """
    if log_weights.device.type != "cpu":  # the host would wait for the number of possible tokens
        return _draw_with_noise_for_every_token(log_weights, keys, step)
    possible = log_weights > -torch.inf
    are_many = 3 * int(possible.sum()) > possible.numel()
    if are_many:  # selecting the possible tokens would take longer than noise for all
        size = max(1, _BLOCK // log_weights.shape[1])
        blocks = zip(torch.split(log_weights, size), torch.split(keys, size), strict=True)
        return torch.cat([_draw_with_noise_for_every_token(*block, step) for block in blocks])
    rows, ids = possible.nonzero(as_tuple=True)
    scores = draw_gumbel_noise(keys[rows], step, ids[:, None])[:, 0].add_(log_weights[rows, ids])
    # A table of scores, with one row per text.
    counts = torch.bincount(rows, minlength=len(keys))
    starts = counts.cumsum(0) - counts
    columns = torch.arange(len(rows)) - starts[rows]
    table = scores.new_full((len(keys), int(counts.max())), -torch.inf)
    table[rows, columns] = scores
    return ids[starts + table.argmax(-1)]


def _draw_with_noise_for_every_token(log_weights: Tensor, keys: Tensor, step: int) -> Tensor:
    """Draw one token per row as in `draw_tokens`, by computing random noise for every token."""
    ids = torch.arange(log_weights.shape[1], device=keys.device).expand(len(keys), -1)
    return draw_gumbel_noise(keys, step, ids).add_(log_weights).argmax(-1)
