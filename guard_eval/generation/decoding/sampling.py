"""Strategies that draw tokens. Each function returns logits with −inf for removed tokens.

A token whose logit is already −inf cannot be chosen. At least one token of each row stays. The sources are
next to the names in `strategies/values.py`.
"""

import math

import torch
from torch import Tensor

from guard_eval.generation.decoding.candidates import (
    keep_largest_logits,
    set_logits_and_mask_others,
    sort_logits,
)
from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.entropy import compute_log_normaliser, shannon_entropy
from guard_eval.generation.strategies import (
    AdaptiveDecoding,
    EpsilonSampling,
    EtaSampling,
    Greedy,
    MinP,
    Mirostat,
    PLess,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    apply_step,
    initial_state,
    list_trace_values,
    update_state,
)

ZIPF_TOKENS = 100
"""The number m of most likely tokens from which Mirostat estimates the exponent of Zipf's law."""


def divide_by_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Divide logits `[B, V]`, float32, by the temperature. A constant may be added to each row."""
    if temperature == 1:
        return logits
    # The largest logit becomes 0, so that its division cannot overflow. The divisor is clamped to numbers of
    # float32, because 0 / 0 and −inf / inf are NaN.
    limits = torch.finfo(torch.float32)
    divisor = min(max(temperature, limits.tiny), limits.max)
    return (logits - logits.amax(-1, keepdim=True)) / divisor


@apply_step.register
def apply_greedy(strategy: Greedy, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Return the logits unchanged, because the most likely token is taken afterwards."""
    return logits


@apply_step.register
def apply_temperature_sampling(strategy: Temperature, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Return the log-weights of softmax(logits / τ) over all tokens."""
    return divide_by_temperature(logits, strategy.tau)


@apply_step.register
def apply_top_k(strategy: TopK, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the k most likely tokens. Of equally likely tokens, smaller ids come first."""
    k = min(strategy.k, logits.shape[1])
    largest = logits.topk(k).values
    return keep_largest_logits(logits, largest, torch.full_like(largest[:, 0], k, dtype=torch.long))


@apply_step.register
def apply_top_p(strategy: TopP, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the smallest set of most likely tokens whose probability reaches p (section 3.1 of the paper).

    The token that reaches p is kept. Of equally likely tokens, smaller ids come first.
    """
    if strategy.p == 1:  # rounding must not remove a token
        return logits
    ordered = sort_logits(logits)
    p = ordered.softmax(-1)
    before = p.cumsum(-1, dtype=torch.float64) - p
    count = (before < strategy.p).sum(-1)
    return keep_largest_logits(logits, ordered, count)


@apply_step.register
def apply_typical_sampling(strategy: Typical, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens whose −ln p is nearest to the entropy, until their probability reaches τ.

    The token that reaches τ is kept. Of equally near tokens, smaller ids come first.
    """
    entropy, log_z = shannon_entropy(logits)
    log_p = logits.double() - log_z[:, None]
    distance = (log_p + entropy[:, None]).abs()  # infinite for a token that cannot be chosen
    ids = torch.sort(distance, dim=-1, stable=True).indices
    ordered = log_p.gather(1, ids)
    p = ordered.exp()
    before = p.cumsum(-1) - p
    removed = before >= strategy.tau * p.sum(-1, keepdim=True)
    return set_logits_and_mask_others(logits, ids, ordered.float().masked_fill(removed, -torch.inf))


@apply_step.register
def apply_min_p(strategy: MinP, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens that are at least p times as likely as the most likely token."""
    ratio_to_best = (logits - logits.amax(-1, keepdim=True)).exp()
    return logits.masked_fill(ratio_to_best < strategy.p, -torch.inf)


@apply_step.register
def apply_adaptive_decoding(strategy: AdaptiveDecoding, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens that add more than ε to the confidence, and always the most likely token."""
    values, ids = torch.sort(logits, dim=-1, descending=True, stable=True)
    admitted = compute_confidence_gains(values.double().softmax(-1)) > strategy.epsilon
    admitted[:, 0] = True
    return set_logits_and_mask_others(logits, ids, values.masked_fill(~admitted, -torch.inf))


def compute_confidence_gains(p: Tensor) -> Tensor:
    """Return ΔConf_k of adaptive decoding: the confidence that the k-th most likely token adds.

    The definition spreads R_k evenly over the V − k other tokens. The gain does not always fall with k: one
    token may add less than ε, and a later token more than ε.

    Args:
        p: Probabilities in descending order, `[B, V]`, float64.
    """
    vocabulary = p.shape[-1]
    # R_{k−1} and R_k are summed from the smallest p, because 1 − Σ p would lose digits of small results.
    r_before = p.flip(-1).cumsum(-1).flip(-1)
    r_after = torch.nn.functional.pad(r_before[:, 1:], (0, 1))
    others = torch.arange(vocabulary - 1, -1, -1, dtype=p.dtype, device=p.device)
    spread_before = torch.xlogy(r_before, r_before / (others + 1))
    spread_after = torch.xlogy(r_after, r_after / others.clamp(min=1))
    gain = torch.xlogy(p, p) + (spread_after - spread_before)
    return gain / math.log(vocabulary)


@apply_step.register(EpsilonSampling | EtaSampling | PLess)
def truncate_by_threshold(
    strategy: EpsilonSampling | EtaSampling | PLess,
    logits: Tensor,
    context: object,  # noqa: ARG001
) -> Tensor:
    """Keep the tokens with p ≥ ε, p ≥ η = min(ε, √ε · exp(−H)), or p ≥ Σ p², as the authors' programs do."""
    entropy, log_z = shannon_entropy(logits)
    log_p = logits.double() - log_z[:, None]
    if isinstance(strategy, PLess):
        best = logits.amax(-1)
        log_limit = compute_log_normaliser(2 * (logits - best[:, None])) - 2 * (log_z - best)
    else:
        log_limit = torch.full_like(entropy, math.log(strategy.epsilon))
        if isinstance(strategy, EtaSampling):
            log_limit = torch.minimum(log_limit, log_limit / 2 - entropy)
    return _mask_below_limit(logits, log_p, log_limit[:, None])


@apply_step.register
def apply_top_n_sigma(strategy: TopNSigma, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens with l ≥ M − nσ, where M is the largest logit and σ the standard deviation of logits.

    σ divides by the number of logits minus 1. Tokens with −inf do not count. This function follows the README
    of the authors' program. The program's `nsigma_truncate` also removes a token with exactly M − nσ.
    """
    exact = logits.double()
    possible = logits > -torch.inf
    count = possible.sum(-1, keepdim=True)
    mean = exact.masked_fill(~possible, 0).sum(-1, keepdim=True) / count
    squares = (exact - mean).square().masked_fill(~possible, 0).sum(-1, keepdim=True)
    sigma = (squares / (count - 1).clamp(min=1)).sqrt()
    bound = exact.amax(-1, keepdim=True) - strategy.n * sigma
    return _mask_below_limit(logits, exact, bound)


@apply_step.register
def apply_mirostat(_strategy: Mirostat, logits: Tensor, context: Context) -> Tensor:
    """Keep the k most likely tokens, where k gives μ bits of surprise by Zipf's law (Algorithm 1).

    The state is μ. s = Σ t_i b_i / Σ t_i² with t_i = ln((i + 1) / i) and b_i = ln(p_i / p_{i+1}) over the 100
    most likely tokens, and k = ((s − 1) 2^μ / (1 − V^(1 − s)))^(1/s), rounded, plus 1, as in the authors'
    program. That program uses 3001 tokens for s, and V = 50,000 for every model.
    """
    mu = context.state[:, 0]
    size = logits.shape[-1]
    ordered = sort_logits(logits)
    head = ordered[:, :ZIPF_TOKENS].double()
    index = torch.arange(1, head.shape[-1], dtype=torch.float64, device=logits.device)
    t = (1 / index).log1p()
    b = head[:, :-1] - head[:, 1:]
    finite = b.isfinite()
    products = (t * b.masked_fill(~finite, 0)).sum(-1)
    squares = (t.square() * finite).sum(-1)
    s = products / squares.clamp(min=1e-12)
    excess = s - 1
    log_v = math.log(size)
    # The ratio (s − 1) / (1 − V^(1 − s)) is positive. At s = 1 its limit is 1 / ln V.
    is_near_limit = excess.abs() < 1e-9
    safe = torch.where(is_near_limit, 1.0, excess)
    ratio = torch.where(is_near_limit, 1 / max(log_v, 1e-12), safe / -torch.expm1(-safe * log_v))
    log_k = (ratio.log() + mu * math.log(2)) / s.clamp(min=1e-6)
    rounded = log_k.clamp(max=math.log(2.0**40)).exp().round()
    k = rounded.clamp(max=size - 1).long() + 1
    return keep_largest_logits(logits, ordered, k)


@initial_state.register
def make_first_mirostat_state(strategy: Mirostat) -> list[float]:
    """Return Mirostat's state before the first step: μ = 2τ."""
    return [2 * strategy.tau]


@update_state.register
def update_mirostat_state(strategy: Mirostat, state: Tensor, logits: Tensor, tokens: Tensor) -> None:
    """Change μ to μ − η (S − τ), where S = −log2 p is the surprise of the drawn token.

    p is the probability in the whole vocabulary, as in the authors' program, not among the k tokens.
    """
    log_p = logits.gather(1, tokens[:, None])[:, 0].double() - compute_log_normaliser(logits)
    surprise = -log_p / math.log(2)
    state[:, 0] -= strategy.eta * (surprise - strategy.tau)


@list_trace_values.register
def trace_mirostat_step(strategy: Mirostat, state_before: Tensor, state_after: Tensor) -> dict[str, Tensor]:  # noqa: ARG001
    """Return the μ from which Mirostat chose k at a step, in bits, `[B]`."""
    return {"mu": state_before[:, 0]}


def _mask_below_limit(logits: Tensor, values: Tensor, limit: Tensor) -> Tensor:
    """Mask logits `[B, V]` whose `values` `[B, V]` are below `limit`. The largest logits always stay."""
    is_largest = logits == logits.amax(-1, keepdim=True)
    return logits.masked_fill((values < limit) & ~is_largest, -torch.inf)
