"""The strategies as frozen dataclasses, with the limits of their parameters, and their signatures."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from guard_eval.errors import StudyError, nearest

Formulation = Literal["equations", "algorithm1", "released"]
Aggregation = Literal["median", "mean", "winsorized"]
Mapping = Literal["arctanh", "log"]
Selection = Literal["argmax", "sample"]
AmateurPrompt = Literal["last", "whole"]
Breakers = Literal["none", "standard"]


@dataclass(frozen=True)
class _Within:
    """The limits of a parameter: `low` to `high`, excluded where `above` and `below`; always finite."""

    low: float
    high: float = math.inf
    above: bool = False
    below: bool = False

    def check(self, owner: str, name: str, value: float) -> None:
        inside = self.low <= value <= self.high and math.isfinite(value)
        if inside and not (self.above and value == self.low) and not (self.below and value == self.high):
            return
        upper = "below" if self.below else "at most"
        allowed = f"{'above' if self.above else 'at least'} {self.low:g}" + (
            " and finite" if self.high == math.inf else f" and {upper} {self.high:g}"
        )
        shown = repr(value) if isinstance(value, int) else f"{value:g}"
        raise StudyError(f"{owner}: {name} = {shown} is out of range; it must be {allowed}")


_AtLeastOne = Annotated[int, _Within(1)]
_Positive = Annotated[float, _Within(0, above=True)]
_Share = Annotated[float, _Within(0, 1)]
_PositiveShare = Annotated[float, _Within(0, 1, above=True)]
_OpenShare = Annotated[float, _Within(0, 1, above=True, below=True)]
_NotNegative = Annotated[float, _Within(0)]
_FromOne = Annotated[float, _Within(1)]
_Finite = Annotated[float, _Within(-100, 100)]
_WORD = re.compile(r"\w{1,40}", re.ASCII)


class _Signed:
    """What all strategies have in common: a signature, and parameters checked by their annotations."""

    draws: ClassVar[bool] = False

    def __str__(self) -> str:
        return signature(cast("Strategy", self))

    def __add__(self, other: Step | Chain) -> Chain:
        """Return a chain; only steps go into it.

        Raises:
            StudyError: This strategy or the other one chooses the token itself.
        """
        if not isinstance(other, _Signed):
            return NotImplemented
        return Chain(steps=(*steps_of(self), *steps_of(other)))

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(cast("Any", self)):
            value = _checked(type(self).__name__, field.name, hints[field.name], getattr(self, field.name))
            object.__setattr__(self, field.name, value)


def _checked(owner: str, name: str, kind: Any, value: Any) -> Any:  # noqa: ANN401 (whatever was given)
    """Return a parameter's value as its annotation says: int, float, a choice of words, or a word."""
    plain = kind.__origin__ if get_origin(kind) is Annotated else kind
    if plain in {int, float}:
        limits = kind.__metadata__[0] if plain is not kind else _Within(-math.inf)
        number = _number(plain, value)
        if number is None:
            what = "a whole number" if plain is int else "a number"
            raise StudyError(f"{owner}: {name} = {value!r:.60} must be {what}")
        limits.check(owner, name, number)
        return number
    if get_origin(kind) is Literal and value not in get_args(kind):
        choice = nearest(str(value), list(get_args(kind)))
        raise StudyError(f"{owner}: {name} = {value!r} is unknown: {choice}")
    if plain is str and not (isinstance(value, str) and _WORD.fullmatch(value)):  # part of a file's name
        raise StudyError(
            f"{owner}: {name} = {value!r} must be a word of at most 40 letters, digits and underscores"
        )
    return value


def _number(kind: type, value: Any) -> Any:  # noqa: ANN401
    """Return an int or float, of NumPy's numbers too; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral if kind is int else numbers.Real):
        return None
    try:
        return kind(value)
    except OverflowError:
        return math.inf


class Step(_Signed):
    """A strategy that changes or cuts the logits of a step, so that another can come after it.

    Users' own strategies derive from one of its two subclasses (docs/own_strategy.md). A subclass's name in
    signatures is its class name in lower case with underscores: `TopA` is `top_a`.
    """


class Sampler(Step):
    """A strategy that cuts a step's distribution and draws from what is left."""

    draws: ClassVar[bool] = True


class Penalty(Step):
    """A strategy that changes logits by the tokens so far."""


STRATEGIES: dict[str, type[Any]] = {}
"""The strategies by their names in signatures."""
SOURCES: dict[str, str] = {}
"""Who described each."""
_NAMES: dict[type, str] = {}

_Kind = TypeVar("_Kind", bound=type)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _strategy(name: str, source: str) -> Callable[[_Kind], _Kind]:
    """Make a class a frozen dataclass, and enter it under its name in signatures."""

    def entered(kind: _Kind) -> _Kind:
        dataclass(frozen=True, kw_only=True)(kind)  # it is changed in place
        STRATEGIES[name], SOURCES[name], _NAMES[kind] = kind, source, name
        return kind

    return entered


@_strategy("greedy", "the likeliest token")
class Greedy(_Signed):
    """The most likely token at every step, argmax p(v | x_<t); ties go to the smallest token id."""


@_strategy("beam", "Freitag and Al-Onaizan 2017, arXiv 1702.01806")
class BeamSearch(_Signed):
    """The continuation y of the highest Σ ln p(y_t | x, y_<t) / |y|^length_penalty that a search finds.

    Attributes:
        beams: How many hypotheses it follows.
        length_penalty: 0 leaves the sum, and prefers short texts; more than 1 prefers long ones.
    """

    beams: _AtLeastOne = 5
    length_penalty: _Finite = 1.0


@_strategy("temperature", "Ackley, Hinton and Sejnowski 1985")
class Temperature(Sampler):
    """Sampling from the distribution sharpened by `tau`: p(v) ∝ exp(l_v / τ) for logits l."""

    tau: _Positive = 0.9


@_strategy("top_k", "Fan, Lewis and Dauphin 2018, arXiv 1805.04833")
class TopK(Sampler):
    """Sampling from the `k` most likely tokens: the set V_k of k tokens with the largest Σ p(v)."""

    k: _AtLeastOne = 50
    temperature: _Positive = 1.0


@_strategy("top_p", "Holtzman et al. 2020, arXiv 1904.09751")
class TopP(Sampler):
    """Sampling from the smallest set of most likely tokens with Σ p(v) ≥ `p`."""

    p: _PositiveShare = 0.95
    temperature: _Positive = 1.0


@_strategy("typical", "Meister et al. 2023, arXiv 2202.00666")
class Typical(Sampler):
    """Sampling from the tokens of the smallest |H + ln p(v)|, as few as reach Σ p(v) ≥ `tau`."""

    tau: _PositiveShare = 0.2
    temperature: _Positive = 1.0


@_strategy("min_p", "Nguyen et al. 2025, arXiv 2407.01082")
class MinP(Sampler):
    """Sampling from the tokens with p(v) ≥ `p` · max p."""

    p: _Share = 0.1
    temperature: _Positive = 1.0


@_strategy("epsilon", "Hewitt, Manning and Liang 2022, arXiv 2210.15191")
class EpsilonSampling(Sampler):
    """Sampling from the tokens with p(v) ≥ `epsilon`."""

    epsilon: _OpenShare = 0.0009
    temperature: _Positive = 1.0


@_strategy("eta", "Hewitt, Manning and Liang 2022, arXiv 2210.15191")
class EtaSampling(Sampler):
    """Sampling from the tokens with p(v) ≥ min(ε, √ε exp(−H)): the flatter the distribution, the lower."""

    epsilon: _OpenShare = 0.0009
    temperature: _Positive = 1.0


@_strategy("top_n_sigma", "Tang et al. 2024, arXiv 2411.07641")
class TopNSigma(Sampler):
    """Sampling from the tokens with l_v ≥ max l − nσ, σ the standard deviation of the logits l."""

    n: _Positive = 1.0
    temperature: _Positive = 1.0


@_strategy("top_h", "Baghaei Potraghloo et al. 2025, arXiv 2509.02510")
class TopH(Sampler):
    """Sampling from the likeliest tokens, as long as Σ −p ln p over them is at most `alpha` · H."""

    alpha: _PositiveShare = 0.4
    temperature: _Positive = 1.0


@_strategy("p_less", "Tan, Wu and Howard 2025, arXiv 2509.23234")
class PLess(Sampler):
    """Sampling from the tokens with p(v) ≥ Σ p², the chance that two draws agree."""

    temperature: _Positive = 1.0


@_strategy("min_k", "Ding et al. 2026, arXiv 2604.11012")
class MinK(Sampler):
    """Sampling from the k tokens with the largest logits l_1 ≥ l_2 ≥ …, k = max(argmax_i w_i, ⌊τ / R⌋).

    R is their range, l_1 − l_V, and w_i = (l_i − l_{i+1}) / (i · R) is the steepness of the drop after the
    i-th. A temperature comes after.
    """

    tau: _NotNegative = 3.0
    temperature: _Positive = 1.0


@_strategy("xtc", "p-e-w 2024, text-generation-webui, pull request 6335")
class ExcludeTopChoices(Sampler):
    """Sampling without the tokens of p ≥ `threshold` but the least likely of them, in a share of the steps.

    Attributes:
        threshold: What a token must reach to be a choice.
        probability: The share of the steps in which choices are left out, drawn at each step.
        temperature: Comes before.
    """

    threshold: _Share = 0.1
    probability: _Share = 0.5
    temperature: _Positive = 1.0


@_strategy("mirostat", "Basu et al. 2021, arXiv 2007.14966")
class Mirostat(Sampler):
    """Sampling from the k likeliest tokens, k by Zipf's law for a surprise of μ: μ ← μ − η (S − τ).

    S = −log2 p(v) is the surprise of the token that was drawn; μ begins at 2τ.

    Attributes:
        tau: The target, in bits.
        eta: How much of a step's error corrects the next step.
        temperature: Comes before.
    """

    tau: _Positive = 3.0
    eta: _Positive = 1.0
    temperature: _Positive = 1.0


@_strategy("repetition_penalty", "Keskar et al. 2019, arXiv 1909.05858")
class RepetitionPenalty(Penalty):
    """l_v / θ for the logits of tokens in prompt or text, θ the `penalty`; l_v · θ if they are negative."""

    penalty: Annotated[float, _Within(0.01, 100)] = 1.2


@_strategy("frequency_penalty", "OpenAI's API")
class FrequencyPenalty(Penalty):
    """l_v − α c_v: take α, the `penalty`, from a logit for each of the c_v times that v was written."""

    penalty: _Finite = 0.5


@_strategy("presence_penalty", "OpenAI's API")
class PresencePenalty(Penalty):
    """l_v − α [c_v > 0]: take α, the `penalty`, from the logits of the tokens that were written."""

    penalty: _Finite = 0.5


@_strategy("no_repeat_ngram", "Paulus, Xiong and Socher 2018, arXiv 1705.04304")
class NoRepeatNgram(Penalty):
    """Leave out tokens that would end a sequence of `n` that prompt or text hold already."""

    n: _AtLeastOne = 3


@_strategy("dry", "p-e-w 2024, text-generation-webui, pull request 5677")
class Dry(Penalty):
    """Take multiplier · base^(n − allowed_length) from the logit of a token that would repeat a sequence.

    Attributes:
        multiplier: The penalty where the sequence before the token is as long as is allowed.
        base: By how much it grows with each token of the sequence.
        allowed_length: Of so many tokens before it, n, the repeated sequence must be at least.
        breakers: Which tokens no sequence reaches across: `none`, or the author's (`DRY_BREAKERS`).
    """

    multiplier: _NotNegative = 0.8
    base: _FromOne = 1.75
    allowed_length: _AtLeastOne = 2
    breakers: Breakers = "none"


DRY_BREAKERS = ("\n", ":", '"', "*")
"""Strings that end a sequence, in DRY's public definition."""


@_strategy("contrastive_decoding", "Li et al. 2023, arXiv 2210.15097; needs model.amateur")
class ContrastiveDecoding(_Signed):
    """Beam search by ln p(v) − ln p_amateur(v) over the tokens with p(v) ≥ α max p.

    p is the model's distribution, p_amateur that of a smaller one, the amateur.

    Attributes:
        alpha: Only tokens at least so many times as likely as the model's most likely one come into question.
        amateur_tau: The amateur's temperature.
        beams: How many beams.
        amateur_prompt: What the amateur sees of the prompt: its last token, as in its authors' main setting
            (Li et al. 2023, section 3.4; `--ignore_prefix yes` of their program), or the whole. What is
            written after the prompt both models see.
    """

    alpha: _PositiveShare = 0.1
    amateur_tau: _Positive = 0.5
    beams: _AtLeastOne = 5
    amateur_prompt: AmateurPrompt = "last"


@_strategy("adaptive", "Zhu et al. 2024, arXiv 2402.18223")
class AdaptiveDecoding(Sampler):
    """Sampling from the likeliest tokens that each add ΔConf_k > ε to the confidence.

    ΔConf_k = [p_k ln p_k + R_k ln(R_k / (V − k)) − R_{k−1} ln(R_{k−1} / (V − k + 1))] / ln V for
    p_1 ≥ p_2 ≥ … and R_k = 1 − Σ_{i≤k} p_i.
    """

    epsilon: _Share = 0.001


@_strategy("contrastive", "Su et al. 2022, arXiv 2202.06417")
class ContrastiveSearch(_Signed):
    """Of the `k` most likely tokens v the one with the highest (1 − α) p(v) − α max_j cos(h_v, h_j)."""

    k: _AtLeastOne = 10
    alpha: _Share = 0.6


@_strategy("acs", "Garces Arias et al. 2024, arXiv 2407.18698")
class AdaptiveContrastiveSearch(_Signed):
    """Contrastive search whose k and α follow the step's entropy H_t; `q` scales how strongly.

    k_t = 10 σ(q arctanh((H_t − med H_<t) / ln V)) + 5, rounded, with the sigmoid σ, and
    α_t = σ(q arctanh((H_t^k − med H_<t^k) / ln k_t)), H_t^k the entropy of the k_t likeliest, renormalised.
    """

    q: _Positive = 1.0


@_strategy("guard", "the paper")
class Guard(_Signed):
    """Glocal uncertainty-aware robust decoding: k_t and α_t from entropies, and a count penalty.

    Of the k_t likeliest tokens it takes that with the highest p(v | x_<t) α_t^(count of v) (`eq:acs`), with
    k_t = 10 σ(λ_k δ_loc + (1 − λ_k) δ_glob) + 5 (`eq:kt`), rounded down, the sigmoid σ, and the local median
    med: δ_loc = q arctanh((H_t − med) / ln V) (`eq:deltaloc`), δ_glob = q arctanh((med − H_glob,t) / ln V)
    (`eq:deltaglob`). α_t is σ of the same sum with ln k_t for ln V (`eq:alphat`). q and λ_k:
    `decoding/guard/equations.py`.

    Attributes:
        window: w of `eq:deltaloc`, in steps: how far back the local median looks.
        decay: λ of `eq:hglob`: the weight of an entropy one step older.
        formulation: Which of its three descriptions: the paper's equations, its Algorithm 1 (`app:C`), or the
            authors' released program. They differ; `docs/adr/0004-guard-formulations.md` says how.
        aggregation: What replaces med in every formulation (`tab:median_selection`): the median, the mean,
            or the mean with a tenth of the values at either end drawn in to their neighbours.
        mapping: What replaces arctanh: itself, or the logarithmic sign(x) · ln(1 + |x|).
        select: The best of the penalised candidates, or a draw from them, renormalised.
    """

    window: _AtLeastOne = 7
    decay: _PositiveShare = 0.95
    formulation: Formulation = "equations"
    aggregation: Aggregation = "median"
    mapping: Mapping = "arctanh"
    select: Selection = "argmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.formulation == "released" and self.window == 1:
            raise StudyError(
                "Guard: window = 1 does not go with formulation = 'released', whose other window is a step "
                "shorter and would be empty; it must be at least 2"
            )


def draws(strategy: Strategy) -> bool:
    """Return whether tokens are drawn, so that another run can write another text."""
    if isinstance(strategy, Guard):
        return strategy.select == "sample"
    steps = steps_of(strategy)
    return any(step.draws for step in steps) and not any(isinstance(s, TopK) and s.k == 1 for s in steps)


_LONGEST_CHAIN = 200


@dataclass(frozen=True)
class Chain(_Signed):
    """Steps one after the other: each sees the logits that the one before it leaves.

    The token is drawn from what the last one leaves, or the likeliest is taken if none of them draws.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for step in self.steps:
            if not isinstance(step, Step):
                raise StudyError(
                    f"{step} does not go with + : it chooses the token itself; of the others these do: "
                    + ", ".join(name for name, kind in STRATEGIES.items() if issubclass(kind, Step))
                )
        if len(self.steps) < 2:
            raise StudyError("a chain has two steps or more; write a single one by itself")
        if len(signature(self)) > _LONGEST_CHAIN:  # it is a file's name
            raise StudyError(
                f"the strategy {str(self)[:60]!r}… is {len(str(self))} characters long, and a file is named "
                f"by it; {_LONGEST_CHAIN} are possible: leave steps or digits out"
            )


def steps_of(strategy: Any) -> tuple[Any, ...]:  # noqa: ANN401 (also what turns out to be no step)
    """Return the steps of a chain, or the strategy as the only one."""
    return strategy.steps if isinstance(strategy, Chain) else (strategy,)


Strategy = (
    Greedy
    | BeamSearch
    | Step
    | ContrastiveDecoding
    | ContrastiveSearch
    | AdaptiveContrastiveSearch
    | Guard
    | Chain
)


def signature(strategy: Strategy) -> str:
    """Return the string that names the strategy in files, tables and legends; `parse` reads it back.

    As in the paper's tables a strategy that has to be tuned always shows its parameters. Settings with a
    neutral default (GUARD's, a temperature, a length penalty, breakers) are shown where they differ from it.

    >>> signature(TopK(k=50)), signature(Guard()), signature(Guard(window=4, formulation="released"))
    ('top_k(k=50)', 'guard', 'guard(window=4, formulation=released)')
    """
    if isinstance(strategy, Chain):
        return " + ".join(map(signature, strategy.steps))
    shown = []
    for field in fields(cast("Any", strategy)):
        value = getattr(strategy, field.name)
        neutral = isinstance(strategy, Guard) or field.name in {"temperature", "length_penalty", "breakers"}
        if not (neutral and value == field.default):
            shown.append(f"{field.name}={_shown(value)}")
    name = name_of(type(strategy))
    return f"{name}({', '.join(shown)})" if shown else name


def name_of(kind: type) -> str:
    """Return what a class of strategies is called in signatures."""
    return _NAMES.get(kind) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def is_own(strategy: object) -> bool:
    """Return whether a step is a user's own."""
    return type(strategy) not in _NAMES


def _shown(value: float | str) -> str:
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
