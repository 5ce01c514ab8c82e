"""GUARD's step as one function of machine code, which numba makes: for a CPU.

`step.guard_step` is about a hundred calls of PyTorch. In a model of 3 million parameters they take a tenth
of the time; this is one call. The formulas are those of `equations`, `algorithm1` and
`released`, which explain them, with a row's numbers in place of tensors. Each row is computed by
itself, so its bits are the same in any batch. They are not `guard_step`'s bits: the probabilities of the
vocabulary are added in another order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from guard_eval.decoding.entropy import CLAMP, SMOOTHING, WINSORIZED
from guard_eval.decoding.guard import equations, released
from guard_eval.decoding.guard.equations import K_MIN, K_RANGE
from guard_eval.decoding.guard.step import (
    ENTROPY,
    LOG_ALPHA,
    OVERALL,
    TOTAL,
    GuardChooser,
    GuardStep,
    K,
    Q,
)
from guard_eval.errors import MissingExtraError

try:
    from numba import njit, types
except ModuleNotFoundError as error:
    raise MissingExtraError("compile", "numba") from error

Function = TypeVar("Function", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Ids = NDArray[np.int64]

_FORMULATIONS = ("equations", "algorithm1", "released")
_AGGREGATIONS = ("median", "mean", "winsorized")
_MAPPINGS = ("arctanh", "log")


class _Settings(NamedTuple):
    """GUARD's settings in numbers, the last three as places in the tuples above."""

    window: int
    decay: float
    formulation: int
    aggregation: int
    mapping: int


class _Numbers(NamedTuple):
    """k_t, ln α_t and q of a row."""

    k: int
    log_alpha: float
    q: float


def _compile(signature: Any = None, **options: Any) -> Callable[[Function], Function]:  # noqa: ANN401 (numba's)
    """Return what compiles a function, without Python's lock, so that threads may share a batch.

    The machine code is kept until this file changes, and with it the constants of other modules.
    """

    def decorate(function: Function) -> Function:
        kinds: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}
        made: Function
        try:
            made = njit(signature, cache=True, **kinds)(function)
        except RuntimeError:  # no folder may be written to keep the machine code in
            made = njit(signature, **kinds)(function)
        return made

    return decorate


_scalar = _compile()
# No number is NaN: `batch.Rows.check` has put zeros in such rows.
_float = _compile(fastmath={"contract", "nsz", "nnan"})
# And sums may be added in any order.
_vector = _compile(fastmath={"contract", "nsz", "nnan", "reassoc"})


# Over the vocabulary: float32, in loops over places, which the compiler makes vectors of.

_ZERO, _ONE, _TWO, _HALF = (np.float32(x) for x in (0, 1, 2, 0.5))
_LN_2, _LOG2_E = np.float32(math.log(2)), np.float32(1 / math.log(2))
_LN_2_ABOVE, _LN_2_BELOW = np.float32(355 / 512), np.float32(math.log(2) - 355 / 512)
_E3, _E4, _E5, _E6, _E7 = (np.float32(1 / math.factorial(n)) for n in range(3, 8))
_L3, _L5, _L7, _L9 = (np.float32(1 / n) for n in range(3, 10, 2))

_INFINITE = np.float32(math.inf)
_LEAST = np.float32(-87)
"""exp of less is no normal float32; beside a token with 1, one with 1e-38 counts nothing."""

_BLOCK = 4096
"""So many numbers are added in float32 before float64 takes their sum."""

_WIDTH = 32
"""So many logits are compared at once; most such groups hold no candidate."""


@_float
def exp(x: np.float32) -> np.float32:
    """Return e^x, −87 ≤ x ≤ 0: 2^n times the series of e^r, |r| ≤ ln 2 / 2; its next term is 5e-9."""
    n = np.floor(x * _LOG2_E + _HALF)
    r = x - n * _LN_2_ABOVE - n * _LN_2_BELOW
    series = _ONE + r * (_ONE + r * (_HALF + r * (_E3 + r * (_E4 + r * (_E5 + r * (_E6 + r * _E7))))))
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.float32(series * power)


@_float
def log(x: np.float32) -> np.float32:
    """Return ln x, x > 0 and normal: n ln 2 and the series of 2 artanh((m − 1) / (m + 1)), ¾ ≤ m < 1½."""
    bits = np.float32(x).view(np.int32)
    n = np.int32((bits - np.int32(0x3F400000)) >> np.int32(23))
    m = np.int32(bits - np.int32(n << np.int32(23))).view(np.float32)
    s = (m - _ONE) / (m + _ONE)
    square = s * s
    series = s * (_ONE + square * (_L3 + square * (_L5 + square * (_L7 + square * _L9))))
    return np.float32(np.float32(n) * _LN_2 + _TWO * series)


@_vector
def _masses(row: Logits, best: np.float32) -> tuple[float, float]:
    """Return Σ exp(x − m) and Σ exp(x − m)(x − m), m the largest logit, `best`."""
    mass = moment = np.float64(0)
    for start in range(0, len(row), _BLOCK):
        weights = weighted = _ZERO
        for place in range(start, min(start + _BLOCK, len(row))):
            shifted = max(row[place] - best, _LEAST)
            weight = exp(shifted)
            weights += weight
            weighted += weight * shifted
        mass += weights
        moment += weighted
    return mass, moment


@_vector
def _smoothed_entropy(row: Logits, best: np.float32, mass: float) -> float:
    """Return −Σ p ln(p + 1e-5)."""
    scale, smoothing, total = np.float32(1 / mass), np.float32(SMOOTHING), np.float64(0)
    for start in range(0, len(row), _BLOCK):
        part = _ZERO
        for place in range(start, min(start + _BLOCK, len(row))):
            p = exp(max(row[place] - best, _LEAST)) * scale
            part += p * log(p + smoothing)
        total += part
    return -total


@_vector
def _reached_by(n: int, row: Logits) -> np.float32:
    """Return what at least `n` logits reach: the greatest of `n` of the parts that every 32nd logit makes."""
    if n > _WIDTH or len(row) < _WIDTH:
        return -_INFINITE
    greatest = row[:_WIDTH].copy()
    for start in range(_WIDTH, len(row) - _WIDTH + 1, _WIDTH):
        for part in range(_WIDTH):
            greatest[part] = max(greatest[part], row[start + part])
    least = _INFINITE
    for one in greatest:
        greater = np.int32(0)
        for part in range(_WIDTH):
            greater += np.int32(greatest[part] > one)
        least = min(least, one if greater < n else least)
    return least


@_vector
def _any_reaches(least: np.float32, row: Logits, start: int, stop: int) -> bool:
    found = False
    for place in range(start, stop):
        found |= row[place] >= least
    return found


@_scalar
def _find_candidates(row: Logits, values: Logits, ids: Ids) -> None:
    """Fill in the largest logits, in order, and their ids; of equal ones the smaller id is first."""
    least, found = _reached_by(len(ids), row), 0
    for start in range(0, len(row), _WIDTH):
        stop = min(start + _WIDTH, len(row))
        if not _any_reaches(least, row, start, stop):
            continue
        for token in range(start, stop):
            x = row[token]
            if x < least:
                continue
            if found == len(ids):
                if x <= values[-1]:
                    continue
                found -= 1
            place = found
            while place > 0 and values[place - 1] < x:
                values[place], ids[place] = values[place - 1], ids[place - 1]
                place -= 1
            values[place], ids[place] = x, token
            found += 1


# A row's numbers: float64.


@_scalar
def _local(entropies: Floats, aggregation: int) -> float:
    """Return the median, the mean or the winsorized mean: `entropy.aggregate`."""
    if aggregation == 1:
        return float(entropies.mean())
    ordered, n = np.sort(entropies), len(entropies)
    if aggregation == 0:
        return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    position = WINSORIZED * (n - 1)
    below = int(position)
    above, share = min(below + 1, n - 1), position - below
    low = ordered[below] + share * (ordered[above] - ordered[below])
    high = ordered[n - 1 - below] + share * (ordered[n - 1 - above] - ordered[n - 1 - below])
    return float(np.maximum(np.minimum(ordered, high), low).mean())


@_scalar
def _released_local(entropies: Floats, aggregation: int) -> float:
    """Return the same, but the lower of the middle two where the median is of an even count."""
    if aggregation == 0:
        return float(np.sort(entropies)[(len(entropies) - 1) // 2])
    return _local(entropies, aggregation)


@_scalar
def _delta(q: float, apart: float, log_size: float, settings: _Settings) -> float:
    """Return δ of a difference of entropies: `equations.deltas`."""
    x = apart / log_size
    if settings.mapping == 1:
        return q * math.copysign(math.log1p(abs(x)), x)
    edge = released.CLAMP if settings.formulation == 2 else CLAMP
    return q * math.atanh(min(max(x, -edge), edge))


@_scalar
def _weight(local: float, overall: float, epsilon: float) -> float:
    """Return λ_k of δ_loc and δ_glob."""
    return abs(local) / (abs(local) + abs(overall) + epsilon)


@_scalar
def _number(exponent: float) -> float:
    """Return k_t, before it is made a whole number."""
    return K_RANGE / (1 + math.exp(-exponent)) + K_MIN


@_scalar
def _log_logistic(exponent: float) -> float:
    """Return the logarithm of an exponent's logistic function: ln α_t."""
    return min(exponent, 0.0) - math.log1p(math.exp(-abs(exponent)))


@_scalar
def _equations(recent: Floats, overall: float, log_size: float, settings: _Settings) -> _Numbers:
    """Return k_t, ln α_t and q of H_{t−w} … H_t, as far as they exist: `equations.adapt`."""
    entropy, epsilon = recent[-1], equations.EPSILON
    before = local = entropy
    if len(recent) > 1:
        before, local = recent[-2], _local(recent[:-1], settings.aggregation)
    else:
        overall = entropy
    q = 1 + abs(entropy - before) / (before + epsilon) + abs(local - overall) / (local + epsilon)
    near = _delta(q, entropy - local, log_size, settings)
    far = _delta(q, local - overall, log_size, settings)
    weight = _weight(near, far, epsilon)
    k = math.floor(_number(far + weight * (near - far)))
    near = _delta(q, entropy - local, math.log(k), settings)
    far = _delta(q, local - overall, math.log(k), settings)
    return _Numbers(k, _log_logistic(far + weight * (near - far)), q)


@_scalar
def _algorithm1(recent: Floats, overall: float, log_size: float, settings: _Settings) -> _Numbers:
    """Return k_t, ln α_t and q: `algorithm1.adapt`."""
    entropy, epsilon = recent[-1], equations.EPSILON
    if len(recent) < settings.window:
        q, near = 1.0, 0.0
        far = _delta(q, entropy - _local(recent, settings.aggregation), log_size, settings)
    else:
        before = recent[max(0, len(recent) - 2)]
        local = _local(recent[-settings.window :], settings.aggregation)
        q = 1 + abs(entropy - before) / (before + epsilon) + abs(local - overall) / (overall + epsilon)
        near = _delta(q, entropy - local, log_size, settings)
        far = _delta(q, local - overall, log_size, settings)
    exponent = far + _weight(near, far, epsilon) * (near - far)
    k = math.floor(_number(exponent))
    return _Numbers(k, _log_logistic(exponent * math.log(k)), q)


@_scalar
def _released(recent: Floats, overall: float, log_size: float, settings: _Settings) -> _Numbers:
    """Return k_t, ln α_t and q: `released.adapt`."""
    entropy, window, epsilon = recent[-1], settings.window, released.EPSILON
    before = recent[max(0, len(recent) - 2)]
    local, shorter = _released_local(recent[-window:], settings.aggregation), overall
    if len(recent) >= window:
        shorter = _released_local(recent[1 - window :], settings.aggregation)
    change = abs(entropy - before) / (before + epsilon)
    difference = abs(shorter - overall) / (shorter + epsilon)
    q = 0.9 + 0.1 * (1 + min(max(change, 0), 1) + min(max(difference, 0), 1))
    near = _delta(q, entropy - local, log_size, settings)
    far = _delta(q, shorter - overall, log_size, settings)
    k = _number(far + _weight(near, far, epsilon) * (near - far))
    near = _delta(q, entropy - local, math.log(k + epsilon), settings)
    far = _delta(q, shorter - overall, math.log(k + epsilon), settings)
    return _Numbers(math.floor(k), _log_logistic(far + _weight(near, far, epsilon) * (near - far)), q)


@_scalar
def _adapted(recent: Floats, overall: float, log_size: float, settings: _Settings) -> _Numbers:
    """Return k_t, ln α_t and q of H_{t−w} … H_t, as far as they exist, of H_glob,t and ln|V|."""
    if settings.formulation == 0:
        return _equations(recent, overall, log_size, settings)
    if settings.formulation == 1:
        return _algorithm1(recent, overall, log_size, settings)
    return _released(recent, overall, log_size, settings)


@_scalar
def _penalise(scores: Floats, ids: Ids, prompt: Ids, text: Ids, log_alpha: float) -> bool:
    """Add count · ln α_t to each ln p of `scores`; return whether in float32 any p · α_t^count is above 0."""
    anything = False
    for place in range(len(scores)):
        count = np.sum(prompt == ids[place]) + np.sum(text == ids[place])
        penalty = count * log_alpha
        product = np.float32(math.exp(scores[place])) * np.float32(math.exp(penalty))
        anything = anything or bool(product > 0)
        scores[place] += penalty
    return anything


@_scalar
def _best(scores: Floats, ids: Ids) -> int:
    """Return the index of the best score, of equal ones that of the smallest id."""
    best = 0
    for place in range(1, len(scores)):
        tie = scores[place] == scores[best] and ids[place] < ids[best]
        if tie or scores[place] > scores[best]:
            best = place
    return best


_SETTINGS = types.NamedTuple(  # type: ignore[no-untyped-call]
    [types.int64, types.float64, types.int64, types.int64, types.int64], _Settings
)
_SIGNATURE = types.void(
    types.Array(types.float32, 2, "C"),
    types.Array(types.float64, 3, "A"),
    types.Array(types.float64, 1, "C"),
    types.int64,
    types.Array(types.int64, 2, "A"),
    types.Array(types.int64, 2, "A"),
    _SETTINGS,
    types.Array(types.int64, 2, "C"),
    types.Array(types.float64, 2, "C"),
    types.Array(types.int64, 1, "C"),
    types.int64,
    types.int64,
)
"""Given beforehand, so that tensors of all strides share one machine code."""


@_compile(_SIGNATURE)
def _step(  # noqa: PLR0917 (numba has no other arguments)
    logits: Logits,
    lines: Floats,
    weights: Floats,
    step: int,
    prompts: Ids,
    history: Ids,
    settings: _Settings,
    ids: Ids,
    scores: Floats,
    best: Ids,
    start: int,
    stop: int,
) -> None:
    """Do a step 0, 1, … of the rows from `start` to `stop`.

    Reads the `lines` and `weights` of a `step.GuardState`, and writes the line after `step`; fills in the
    `ids`, `scores` and `best` of a `step.GuardStep`.
    """
    log_size = math.log(logits.shape[1])
    values = np.empty(ids.shape[1], np.float32)
    first = max(1, step + 1 - settings.window)
    recent = np.empty(step + 2 - first)
    for row in range(start, stop):
        _find_candidates(logits[row], values, ids[row])
        mass, moment = _masses(logits[row], values[0])
        log_z = math.log(mass)
        entropy = log_z - moment / mass
        if settings.formulation == 2:
            entropy = _smoothed_entropy(logits[row], values[0], mass)
        recent[:-1], recent[-1] = lines[first : step + 1, ENTROPY, row], entropy
        total = entropy + settings.decay * lines[step, TOTAL, row]
        overall = total / weights[step]
        now = _adapted(recent, overall, log_size, settings)
        log_p = values - (log_z + values[0])
        scores[row] = -np.inf
        allowed = scores[row, : now.k]
        allowed[:] = log_p[: now.k]
        anything = _penalise(allowed, ids[row], prompts[row], history[row, :step], now.log_alpha)
        if settings.formulation == 2 and not anything:
            allowed[:] = log_p[: now.k]
        best[row] = _best(allowed, ids[row])
        line = lines[step + 1, :, row]
        line[ENTROPY], line[TOTAL], line[OVERALL] = entropy, total, overall
        line[K], line[LOG_ALPHA], line[Q] = now.k, now.log_alpha, now.q


_WORTH_A_THREAD = 1 << 18
"""So many logits take some 300 µs; to wake a thread takes 50."""


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="guard-step")


class FusedGuardChooser(GuardChooser):
    """GUARD for one batch on a CPU, a step in one call; the first ever takes some seconds to compile."""

    def step(self, logits: Tensor, step: int | Tensor, history: Tensor) -> GuardStep:
        """See `GuardChooser`."""
        if isinstance(step, Tensor):
            return super().step(logits, step, history)
        strategy, state, (rows, vocabulary) = self._strategy, self._state, logits.shape
        n = min(K_MIN + K_RANGE, vocabulary)
        made = GuardStep(
            torch.empty(rows, n, dtype=torch.long),
            torch.empty(rows, n, dtype=torch.float64),
            torch.empty(rows, dtype=torch.long),
            state.lines[step + 1],
        )
        run = functools.partial(
            _step,
            logits.float().contiguous().numpy(),
            state.lines.numpy(),
            state.weights.numpy(),
            step,
            (history[:, :0] if self._prompts is None else self._prompts).numpy(),
            history.numpy(),
            _Settings(
                strategy.window,
                strategy.decay,
                _FORMULATIONS.index(strategy.formulation),
                _AGGREGATIONS.index(strategy.aggregation),
                _MAPPINGS.index(strategy.mapping),
            ),
            made.ids.numpy(),
            made.scores.numpy(),
            made.best.numpy(),
        )
        shares = min(rows, torch.get_num_threads(), logits.numel() // _WORTH_A_THREAD)
        if shares < 2:
            run(0, rows)
        else:
            bounds = [rows * share // shares for share in range(shares + 1)]
            list(_threads().map(run, bounds[:-1], bounds[1:]))
        state.done = max(state.done, step + 1)
        return made
