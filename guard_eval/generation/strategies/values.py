"""The strategies as frozen dataclasses, their signatures, and the functions of a step, without torch.

Functions are registered for the class of a strategy. Most strategies have only `apply_step`. A strategy that
remembers numbers from step to step also has `initial_state`, and `update_state` can change these numbers when
the token is chosen. Built-in strategies have their functions in `guard_eval.generation.decoding`, and users'
own strategies have them in the user's file (docs/own_strategy.md).
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from dataclasses import Field as DataclassField
from functools import cache, singledispatch
from typing import Annotated, Any, ClassVar, Literal, cast, dataclass_transform, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from guard_eval.errors import StudyError, suggest_nearest_word

_Tensor = Any
"""The type of PyTorch's tensors. This module works without PyTorch."""
Formulation = Literal["equations", "algorithm1", "released"]
Aggregation = Literal["median", "mean", "winsorized"]
Mapping = Literal["arctanh", "log"]

_AtLeastOne = Annotated[int, Field(ge=1, le=1_000_000)]
_Beams = Annotated[int, Field(ge=1, le=1000)]
_Bits = Annotated[float, Field(gt=0, le=100)]
_Factor = Annotated[float, Field(ge=0.01, le=100)]
_Positive = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_PositiveShare = Annotated[float, Field(gt=0, le=1)]
_OpenShare = Annotated[float, Field(gt=0, lt=1)]
_NotNegative = Annotated[float, Field(ge=0)]
_Finite = Annotated[float, Field(ge=-100, le=100)]
_Word = Annotated[str, Field(pattern="^[A-Za-z0-9_]{1,40}$")]
"""A word as a parameter in a signature, of characters that are allowed in file names."""


STRATEGIES: dict[str, type[_StrategyBase]] = {}
"""The strategies by their names in signatures."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _StrategyBase:
    """The base class of all strategies, with a signature and checks of the parameters' types and ranges.

    A built-in strategy becomes a frozen dataclass and an entry of `STRATEGIES`.

    Attributes:
        draws: Whether the strategy draws tokens at random.
        source: The publication that describes the strategy.
    """

    draws: ClassVar[bool] = False
    source: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, DataclassField[object]]]

    def __init_subclass__(cls, *, name: str = "", source: str = "") -> None:
        if name:
            dataclass(frozen=True, kw_only=True)(cls)  # this changes the class in place
            STRATEGIES[name] = cls
            cls.source = source

    def __str__(self) -> str:
        return signature(cast("Strategy", self))

    def __add__(self, other: Step | Chain) -> Chain:
        """Join this strategy and another strategy to a chain of steps.

        Raises:
            StudyError: One of the strategies chooses the token itself, so it cannot be a step.
        """
        if not isinstance(other, _StrategyBase):
            return NotImplemented
        return Chain(steps=(*list_strategy_steps(self), *list_strategy_steps(other)))

    def __post_init__(self) -> None:
        checks = _make_parameter_checks(cast("Any", type(self)))
        for field in fields(self):
            argument = convert_numpy_number(getattr(self, field.name))
            try:
                value = checks[field.name].validate_python(argument)
            except ValidationError as error:
                first = error.errors()[0]
                reason = first["msg"].replace("Input should be", "must be")
                reason = reason.replace("valid integer", "whole number")
                if field.default is not MISSING:
                    reason += f"; the default is {_format_parameter_value(field.default)}"
                if first["type"] == "literal_error":
                    words = re.findall(r"'(.+?)'", first["ctx"]["expected"])
                    reason = f"is unknown: {suggest_nearest_word(str(argument), words)}"
                named = f"{get_strategy_name(type(self))}: {field.name} = {argument!r:.60}"
                raise StudyError(f"{named} {reason}") from error
            if value == 0 and isinstance(value, float):
                value = 0.0  # −0 would give the same strategy another signature
            object.__setattr__(self, field.name, value)


@cache
def _make_parameter_checks(strategy_class: type[Any]) -> dict[str, TypeAdapter[object]]:
    config = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    hints = get_type_hints(strategy_class, include_extras=True)
    hints = {name: _Word if hint is str else hint for name, hint in hints.items()}
    return {field.name: TypeAdapter(hints[field.name], config=config) for field in fields(strategy_class)}


class Step(_StrategyBase):
    """A strategy that changes or cuts the logits of a step. Another step can follow in a chain.

    Users' own strategies are subclasses of `Sampler` or `Penalty` (docs/own_strategy.md). The name in
    signatures is the class name in lower case with underscores: `TopA` is `top_a`.
    """


class Sampler(Step):
    """A strategy that removes tokens from a step's distribution and draws one of the remaining tokens."""

    draws: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Truncation(Sampler):
    """A sampler that divides the logits by a temperature before it removes tokens."""

    temperature: _Positive = 1.0


class Penalty(Step):
    """A strategy that changes logits according to the tokens so far."""


@dataclass(frozen=True, kw_only=True)
class RecordedStrategy(Step):
    """A stand-in for a user's own strategy whose file is not loaded.

    Commands that write no texts, such as `report`, work with this object.

    Attributes:
        text: The signature.
        drawn: Whether the strategy draws tokens at random.
        digest: The hash of the strategy's source code.
    """

    text: Annotated[str, Field(pattern=r"^[\w(][\w ()=.,+-]{0,199}$")]
    drawn: bool
    digest: Annotated[str, Field(pattern="^[0-9a-f+]{16,200}$")]


class Greedy(_StrategyBase, name="greedy", source="the likeliest token"):
    """Choice of the most likely token, argmax p(v | x_<t), at every step. The smallest id wins a tie."""


class BeamSearch(_StrategyBase, name="beam", source="Freitag and Al-Onaizan 2017, arXiv 1702.01806"):
    """The continuation y with the highest Σ ln p(y_t | x, y_<t) / |y|^length_penalty in a beam search.

    Attributes:
        beams: The number of hypotheses that are kept at each step.
        length_penalty: With 0, the score is the plain sum, which prefers short texts. A value above 1 prefers
            long texts.
    """

    beams: _Beams = 5
    length_penalty: Annotated[float, Field(ge=-5, le=5)] = 1.0


class Temperature(Sampler, name="temperature", source="Ackley, Hinton and Sejnowski 1985"):
    """Sampling from p(v) ∝ exp(l_v / τ), with the logits l and the temperature τ = `tau`."""

    tau: _Positive = 0.9


class TopK(Truncation, name="top_k", source="Fan, Lewis and Dauphin 2018, arXiv 1805.04833"):
    """Sampling from the `k` most likely tokens."""

    k: _AtLeastOne = 50


class TopP(Truncation, name="top_p", source="Holtzman et al. 2020, arXiv 1904.09751"):
    """Sampling from the smallest set of most likely tokens with Σ p(v) ≥ `p`."""

    p: _PositiveShare = 0.95


class Typical(Truncation, name="typical", source="Meister et al. 2023, arXiv 2202.00666"):
    """Sampling from the first tokens by |H + ln p(v)|, smallest first, until Σ p(v) ≥ `tau`."""

    tau: _PositiveShare = 0.2


class MinP(Truncation, name="min_p", source="Nguyen et al. 2025, arXiv 2407.01082"):
    """Sampling from the tokens with p(v) ≥ `p` · max p."""

    p: _Share = 0.1


class EpsilonSampling(Truncation, name="epsilon", source="Hewitt, Manning and Liang 2022, arXiv 2210.15191"):
    """Sampling from the tokens with p(v) ≥ `epsilon`."""

    epsilon: _OpenShare = 0.0009


class EtaSampling(Truncation, name="eta", source="Hewitt, Manning and Liang 2022, arXiv 2210.15191"):
    """Sampling from the tokens with p(v) ≥ min(ε, √ε exp(−H)). A high entropy H lowers this limit."""

    epsilon: _OpenShare = 0.0009


class TopNSigma(Truncation, name="top_n_sigma", source="Tang et al. 2024, arXiv 2411.07641"):
    """Sampling from the tokens with l_v ≥ max l − nσ, where σ is the standard deviation of the logits l."""

    n: _Positive = 1.0


class PLess(Truncation, name="p_less", source="Tan, Wu and Howard 2025, arXiv 2509.23234"):
    """Sampling from the tokens with p(v) ≥ Σ p², which is the probability that two draws are equal."""


class Mirostat(Truncation, name="mirostat", source="Basu et al. 2021, arXiv 2007.14966"):
    """Sampling from the k most likely tokens, where k follows from the surprise μ by Zipf's law.

    S = −log2 p(v) is the surprise of the drawn token. μ begins at 2τ, and each step changes μ to
    μ − η (S − τ).

    Attributes:
        tau: τ, the target surprise, in bits.
        eta: η, the share of a step's error that corrects the next step.
    """

    tau: _Bits = 3.0
    eta: _Bits = 1.0


class RepetitionPenalty(Penalty, name="repetition_penalty", source="Keskar et al. 2019, arXiv 1909.05858"):
    """Division of positive logits of tokens in the prompt or text by θ, the `penalty`.

    Negative logits are multiplied by θ.
    """

    penalty: _Factor = 1.2


class FrequencyPenalty(Penalty, name="frequency_penalty", source="OpenAI's API"):
    """Subtract α c_v from a token's logit: α is the `penalty`, and the text has the token c_v times."""

    penalty: _Finite = 0.5


class PresencePenalty(Penalty, name="presence_penalty", source="OpenAI's API"):
    """Subtract α, the `penalty`, from the logits of all tokens in the text."""

    penalty: _Finite = 0.5


class NoRepeatNgram(
    Penalty, name="no_repeat_ngram", source="Paulus, Xiong and Socher 2018, arXiv 1705.04304"
):
    """Mask tokens that would repeat a sequence of `n` tokens of the prompt or the text."""

    n: _AtLeastOne = 3


class Dry(Penalty, name="dry", source="p-e-w 2024, text-generation-webui, pull request 5677"):
    """Subtract multiplier · base^(n − allowed_length) from the logit of a token that would repeat a sequence.

    n is the length of the repeated sequence before the token.

    Attributes:
        multiplier: The penalty for n = allowed_length.
        base: The factor by which the penalty grows with each further token.
        allowed_length: The smallest n that has a penalty.
    """

    multiplier: _NotNegative = 0.8
    base: Annotated[float, Field(ge=1)] = 1.75
    allowed_length: _AtLeastOne = 2


class ContrastiveDecoding(
    _StrategyBase, name="contrastive_decoding", source="Li et al. 2023, arXiv 2210.15097; needs model.amateur"
):
    """Beam search by ln p(v) − ln p_amateur(v) over the tokens with p(v) ≥ α max p.

    p is the distribution of the model, and p_amateur the distribution of a smaller model, the amateur.

    Attributes:
        alpha: α. Only tokens with p(v) ≥ α max p can be chosen.
        amateur_tau: The amateur's temperature.
        beams: The number of beams.
        amateur_prompt: The part of the prompt that the amateur sees: the `last` token, as in the main setting
            of the method's authors (Li et al. 2023, section 3.4; `--ignore_prefix yes` of their program), or
            the `whole` prompt. Both models see the text after the prompt.
    """

    alpha: _PositiveShare = 0.1
    amateur_tau: _Factor = 0.5
    beams: _Beams = 5
    amateur_prompt: Literal["last", "whole"] = "last"


class AdaptiveDecoding(Sampler, name="adaptive", source="Zhu et al. 2024, arXiv 2402.18223"):
    """Sampling from the most likely tokens, as long as each adds ΔConf_k > ε to the confidence.

    ΔConf_k = [p_k ln p_k + R_k ln(R_k / (V − k)) − R_{k−1} ln(R_{k−1} / (V − k + 1))] / ln V, with
    p_1 ≥ p_2 ≥ … and R_k = 1 − Σ_{i≤k} p_i.
    """

    epsilon: _Share = 0.001


class ContrastiveSearch(_StrategyBase, name="contrastive", source="Su et al. 2022, arXiv 2202.06417"):
    """Choice of the token with the largest (1 − α) p(v) − α max_j cos(h_v, h_j) of the `k` likeliest."""

    k: _AtLeastOne = 10
    alpha: _Share = 0.6


class AdaptiveContrastiveSearch(
    _StrategyBase, name="acs", source="Garces Arias et al. 2024, arXiv 2407.18698"
):
    """Contrastive search whose k and α depend on the step's entropy H_t. `q` scales this effect.

    k_t = 10 σ(q arctanh((H_t − med H_<t) / ln V)) + 5, rounded, where σ is the sigmoid, and
    α_t = σ(q arctanh((H_t^k − med H_<t^k) / ln k_t)), where H_t^k is the entropy of the k_t likeliest tokens
    after their probabilities are renormalised.
    """

    q: _Positive = 1.0


class Guard(_StrategyBase, name="guard", source="the paper"):
    """Glocal uncertainty-aware robust decoding: k_t and α_t from entropies, and a count penalty.

    GUARD chooses the token with the highest p(v | x_<t) α_t^(count of v) (`eq:acs`) of the k_t most likely
    tokens. k_t = 10 σ(λ_k δ_loc + (1 − λ_k) δ_glob) + 5 (`eq:kt`), rounded down, where σ is the sigmoid. With
    the local median med, δ_loc = q arctanh((H_t − med) / ln V) (`eq:deltaloc`) and
    δ_glob = q arctanh((med − H_glob,t) / ln V) (`eq:deltaglob`). α_t is σ of the same sum, with ln k_t in
    place of ln V (`eq:alphat`). `decoding/guard/equations.py` has q and λ_k.

    Attributes:
        window: w of `eq:deltaloc`: the number of steps in the local median.
        decay: λ of `eq:hglob`: the factor by which an entropy's weight falls at each step.
        formulation: The paper's equations, the paper's Algorithm 1 (`app:C`), or the authors' released
            program. `docs/adr/0004-guard-formulations.md` lists the differences.
        aggregation: The function in place of med (`tab:median_selection`): the median, the mean, or the
            winsorized mean, which replaces a tenth of the values at each end by a quantile.
        mapping: The function in place of arctanh: arctanh, or sign(x) · ln(1 + |x|).
        select: Take the best of the penalised candidates, or draw a candidate.
    """

    window: _AtLeastOne = 7
    decay: _PositiveShare = 0.95
    formulation: Formulation = "equations"
    aggregation: Aggregation = "median"
    mapping: Mapping = "arctanh"
    select: Literal["argmax", "sample"] = "argmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.formulation == "released" and self.window == 1:
            raise StudyError(
                "Guard: window = 1 is too small for formulation = 'released', because the second window is "
                "one step shorter and would be empty; write a window of at least 2"
            )


@singledispatch
def apply_step(strategy: object, logits: _Tensor, context: object) -> _Tensor:  # noqa: ARG001
    """Apply a strategy's step, and return the new logits, `[B, V]`, float32. −inf marks a removed token.

    Args:
        strategy: The strategy. Its class selects the registered function.
        logits: The logits before the step, `[B, V]`, float32, with at least one finite number in each row.
        context: The tokens so far, random keys, step and state: `decoding.Context`. The function may change
            the state in place.
    """
    name = type(strategy).__name__
    raise StudyError(
        f"no function is registered for the strategy {name}; write @apply_step.register above a function "
        f"(strategy: {name}, logits, context), as in docs/own_strategy.md"
    )


@singledispatch
def initial_state(strategy: object) -> list[float]:  # noqa: ARG001 (the default)
    """Return the state of a text before the first step: the S numbers that the strategy remembers."""
    return []


@singledispatch
def update_state(strategy: object, state: _Tensor, logits: _Tensor, tokens: _Tensor) -> None:
    """Update a strategy's state `[B, S]` in place after the tokens `[B]` are chosen.

    `logits` `[B, V]` are the strategy's input at this step.
    """


@singledispatch
def list_trace_values(strategy: object, state_before: _Tensor, state_after: _Tensor) -> dict[str, _Tensor]:  # noqa: ARG001
    """Return the values that a strategy adapted at a step, by name, `[B]` each.

    `state_before` and `state_after` are the states `[B, S]` before and after the step.
    """
    name = type(strategy).__name__
    return {f"{name}.{number + 1}": state_before[:, number] for number in range(state_before.shape[1])}


def convert_numpy_number(value: Any) -> object:  # noqa: ANN401 (a value from the user)
    """Convert a NumPy number to a Python number. Return other values unchanged."""
    return value.item() if getattr(value, "shape", None) == () else value


def is_stochastic(strategy: Strategy) -> bool:
    """Return whether a strategy draws tokens at random, so that a second run can write another text."""
    if isinstance(strategy, Guard):
        return strategy.select == "sample"
    if isinstance(strategy, RecordedStrategy):
        return strategy.drawn
    steps = list_strategy_steps(strategy)
    has_one_candidate = any(isinstance(step, TopK) and step.k == 1 for step in steps)
    return any(step.draws for step in steps) and not has_one_candidate


_LONGEST_CHAIN = 200


@dataclass(frozen=True)
class Chain(_StrategyBase):
    """A sequence of steps. Each step changes the output of the step before.

    The token is drawn from the last output. If no step draws, the most likely token is taken.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for step in self.steps:
            if not isinstance(step, Step):
                raise StudyError(
                    f"{step} cannot be combined with +, because it chooses the token itself; use it alone"
                )
        if len(signature(self)) > _LONGEST_CHAIN:  # signatures are file names
            raise StudyError(
                f"the strategy {str(self)[:60]!r}… has {len(str(self))} characters, but file names "
                f"allow only {_LONGEST_CHAIN}; leave out steps or digits"
            )


def list_strategy_steps(strategy: object) -> tuple[Step, ...]:
    """Return the steps of a chain, or only the strategy if it is not a chain."""
    return strategy.steps if isinstance(strategy, Chain) else (cast("Step", strategy),)


LogitStrategy = Greedy | Step | Chain | Guard
"""The strategies that need only the model's logits at each step."""
Strategy = LogitStrategy | BeamSearch | ContrastiveDecoding | ContrastiveSearch | AdaptiveContrastiveSearch


def signature(strategy: Strategy) -> str:
    """Return a strategy's name with parameters, such as `top_k(k=50)`. `parse` converts the text back.

    As in the paper's tables, a strategy that needs tuning always shows its parameters. Parameters with a
    neutral default (GUARD's, a temperature, a length penalty) are shown only if they are changed.

    >>> signature(TopK(k=50)), signature(Guard()), signature(Guard(window=4, formulation="released"))
    ('top_k(k=50)', 'guard', 'guard(window=4, formulation=released)')
    """
    if isinstance(strategy, RecordedStrategy):
        return strategy.text
    if isinstance(strategy, Chain):
        return " + ".join(map(signature, strategy.steps))
    neutral = {"temperature", "length_penalty"}
    parameters = []
    for field in sorted(fields(strategy), key=lambda field: field.name in neutral):
        value = getattr(strategy, field.name)
        hidden = isinstance(strategy, Guard) or field.name in neutral
        if not (hidden and value == field.default):
            parameters.append(f"{field.name}={_format_parameter_value(value)}")
    name = get_strategy_name(type(strategy))
    return f"{name}({', '.join(parameters)})" if parameters else name


def get_strategy_name(strategy_class: type) -> str:
    """Return a strategy class's name in signatures, such as `top_k` for `TopK`."""
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", strategy_class.__name__).lower()
    return next((name for name, built_in in STRATEGIES.items() if built_in is strategy_class), snake_case)


def is_user_defined(strategy: object) -> bool:
    """Return whether a user's file or program defines the strategy."""
    return type(strategy) not in STRATEGIES.values()


def _format_parameter_value(value: float | str) -> str:
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
