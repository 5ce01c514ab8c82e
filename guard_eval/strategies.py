"""The decoding strategies as values: a frozen dataclass each, named everywhere by its signature. No torch.

| name | class | parameters and defaults | source |
|---|---|---|---|
| `greedy` | `Greedy` | | argmax |
| `beam` | `BeamSearch` | `beams=5` | Freitag and Al-Onaizan 2017 |
| `temperature` | `Temperature` | `tau=0.9` | Ackley et al. 1985 |
| `top_k` | `TopK` | `k=50, temperature=1` | Fan et al. 2018 |
| `top_p` | `TopP` | `p=0.95, temperature=1` | Holtzman et al. 2020 |
| `typical` | `Typical` | `tau=0.2, temperature=1` | Meister et al. 2023 |
| `min_p` | `MinP` | `p=0.1, temperature=1` | Nguyen et al. 2025 |
| `contrastive_decoding` | `ContrastiveDecoding` | `alpha=0.1, amateur_tau=0.5, beams=5, …` | Li et al. 2023 |
| `adaptive` | `AdaptiveDecoding` | `epsilon=0.001` | Zhu et al. 2024 |
| `contrastive` | `ContrastiveSearch` | `k=10, alpha=0.6` | Su et al. 2022 |
| `acs` | `AdaptiveContrastiveSearch` | `q=1` | Garces Arias et al. 2024 |
| `guard` | `Guard` | `window=7, decay=0.95` and the settings below | the paper, `eq:hglob` to `eq:alphat` |

Contrastive decoding's `amateur_prompt=last` (or `whole`) says how much of the prompt the amateur sees.
GUARD's settings: `formulation=equations` (or `algorithm1`, `released`), `aggregation=median` (`mean`,
`winsorized`), `mapping=arctanh` (`log`), `select=argmax` (`sample`).

The defaults are those of the paper's tables where these state them; contrastive decoding's and adaptive
decoding's, which they do not state, are the methods' authors'. A temperature comes before the truncation.
"""

from __future__ import annotations

import ast
import difflib
import math
from dataclasses import dataclass, fields
from typing import Literal, cast, get_args

from guard_eval.errors import StudyError

Formulation = Literal["equations", "algorithm1", "released"]
Aggregation = Literal["median", "mean", "winsorized"]
Mapping = Literal["arctanh", "log"]
Selection = Literal["argmax", "sample"]
AmateurPrompt = Literal["last", "whole"]


def _within(
    strategy: object, name: str, *, low: float, high: float = math.inf, low_open: bool = False
) -> None:
    value = getattr(strategy, name)
    if low <= value <= high and math.isfinite(value) and not (low_open and value == low):
        return
    allowed = f"{'above' if low_open else 'at least'} {low:g}" + (
        " and finite" if high == math.inf else f" and at most {high:g}"
    )
    shown = repr(value) if isinstance(value, int) else f"{value:g}"
    raise StudyError(f"{type(strategy).__name__}: {name} = {shown} is out of range; it must be {allowed}")


def _one_of(strategy: object, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(strategy, name)
    if value not in choices:
        raise StudyError(
            f"{type(strategy).__name__}: {name} = {value!r} is unknown: {_nearest(str(value), list(choices))}"
        )


class _Signed:
    def __str__(self) -> str:
        return signature(cast("Strategy", self))


@dataclass(frozen=True, kw_only=True)
class Greedy(_Signed):
    """The most likely token at every step; ties go to the smallest token id."""


@dataclass(frozen=True, kw_only=True)
class BeamSearch(_Signed):
    """The continuation of the highest probability that a search with so many `beams` finds."""

    beams: int = 5

    def __post_init__(self) -> None:
        _within(self, "beams", low=1)


@dataclass(frozen=True, kw_only=True)
class Temperature(_Signed):
    """Sampling from the distribution sharpened by `tau`: softmax(logits / τ)."""

    tau: float = 0.9

    def __post_init__(self) -> None:
        _within(self, "tau", low=0, low_open=True)


@dataclass(frozen=True, kw_only=True)
class TopK(_Signed):
    """Sampling from the `k` most likely tokens."""

    k: int = 50
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _within(self, "k", low=1)
        _within(self, "temperature", low=0, low_open=True)


@dataclass(frozen=True, kw_only=True)
class TopP(_Signed):
    """Sampling from the smallest set of most likely tokens whose probability reaches `p`."""

    p: float = 0.95
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _within(self, "p", low=0, high=1, low_open=True)
        _within(self, "temperature", low=0, low_open=True)


@dataclass(frozen=True, kw_only=True)
class Typical(_Signed):
    """Sampling from the smallest set of probability `tau` whose ln p lies nearest to its expectation, −H."""

    tau: float = 0.2
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _within(self, "tau", low=0, high=1, low_open=True)
        _within(self, "temperature", low=0, low_open=True)


@dataclass(frozen=True, kw_only=True)
class MinP(_Signed):
    """Sampling from the tokens at least `p` times as likely as the most likely one."""

    p: float = 0.1
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _within(self, "p", low=0, high=1)
        _within(self, "temperature", low=0, low_open=True)


@dataclass(frozen=True, kw_only=True)
class ContrastiveDecoding(_Signed):
    """Beam search for what the model finds likelier than a smaller one, the amateur, does.

    Attributes:
        alpha: Only tokens at least so many times as likely as the model's most likely one come into question.
        amateur_tau: The amateur's temperature.
        beams: How many beams.
        amateur_prompt: What the amateur sees of the prompt: its last token, as in its authors' main setting
            (Li et al. 2023, section 3.4; `--ignore_prefix yes` of their program), or the whole. What is
            written after the prompt both models see.
    """

    alpha: float = 0.1
    amateur_tau: float = 0.5
    beams: int = 5
    amateur_prompt: AmateurPrompt = "last"

    def __post_init__(self) -> None:
        _within(self, "alpha", low=0, high=1, low_open=True)
        _within(self, "amateur_tau", low=0, low_open=True)
        _within(self, "beams", low=1)
        _one_of(self, "amateur_prompt", get_args(AmateurPrompt))


@dataclass(frozen=True, kw_only=True)
class AdaptiveDecoding(_Signed):
    """Sampling from the likeliest tokens, as long as each adds more than `epsilon` to the confidence."""

    epsilon: float = 0.001

    def __post_init__(self) -> None:
        _within(self, "epsilon", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class ContrastiveSearch(_Signed):
    """Of the `k` most likely tokens v the one with the highest (1 − α) p(v) − α max_j cos(h_v, h_j)."""

    k: int = 10
    alpha: float = 0.6

    def __post_init__(self) -> None:
        _within(self, "k", low=1)
        _within(self, "alpha", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class AdaptiveContrastiveSearch(_Signed):
    """Contrastive search whose k and α follow the step's entropy; `q` scales how strongly."""

    q: float = 1.0

    def __post_init__(self) -> None:
        _within(self, "q", low=0, low_open=True)


@dataclass(frozen=True, kw_only=True)
class Guard(_Signed):
    """Glocal uncertainty-aware robust decoding: k_t and α_t from entropies, and a count penalty.

    Attributes:
        window: w of `eq:deltaloc`, in steps: how far back the local median looks.
        decay: λ of `eq:hglob`: the weight of an entropy one step older.
        formulation: Which of its three descriptions: the paper's equations, its Algorithm 1 (`app:C`), or the
            authors' released program. They differ; `docs/adr/0004-guard-formulations.md` says how.
        aggregation: What stands for med in every formulation (`tab:median_selection`): the median, the mean,
            or the mean with a tenth of the values at either end drawn in to their neighbours.
        mapping: What stands for arctanh: itself, or the logarithmic sign(x) · ln(1 + |x|).
        select: The best of the penalised candidates, or a draw from them, renormalised.
    """

    window: int = 7
    decay: float = 0.95
    formulation: Formulation = "equations"
    aggregation: Aggregation = "median"
    mapping: Mapping = "arctanh"
    select: Selection = "argmax"

    def __post_init__(self) -> None:
        _within(self, "window", low=1)
        _within(self, "decay", low=0, high=1, low_open=True)
        _one_of(self, "formulation", get_args(Formulation))
        _one_of(self, "aggregation", get_args(Aggregation))
        _one_of(self, "mapping", get_args(Mapping))
        _one_of(self, "select", get_args(Selection))
        if self.formulation == "released" and self.window == 1:
            raise StudyError(
                "Guard: window = 1 does not go with formulation = 'released', whose other window is a step "
                "shorter and would be empty; it must be at least 2"
            )


Strategy = (
    Greedy
    | BeamSearch
    | Temperature
    | TopK
    | TopP
    | Typical
    | MinP
    | ContrastiveDecoding
    | AdaptiveDecoding
    | ContrastiveSearch
    | AdaptiveContrastiveSearch
    | Guard
)

STRATEGIES: dict[str, type[Strategy]] = {
    "greedy": Greedy,
    "beam": BeamSearch,
    "temperature": Temperature,
    "top_k": TopK,
    "top_p": TopP,
    "typical": Typical,
    "min_p": MinP,
    "contrastive_decoding": ContrastiveDecoding,
    "adaptive": AdaptiveDecoding,
    "contrastive": ContrastiveSearch,
    "acs": AdaptiveContrastiveSearch,
    "guard": Guard,
}

_SPELLINGS = {"B": "beams", "num_beams": "beams"}
"""Other names of parameters, the paper's and transformers'; they hold where a strategy has the parameter."""

_NAMES: dict[type, str] = {kind: name for name, kind in STRATEGIES.items()}


def signature(strategy: Strategy) -> str:
    """Return the string that names the strategy in files, tables and legends; `parse` reads it back.

    As in the paper's tables a strategy that has to be tuned always shows its parameters. Settings with a
    neutral default, GUARD's and the truncations' temperature, are shown where they differ from it.

    >>> signature(TopK(k=50)), signature(Guard()), signature(Guard(window=4, formulation="released"))
    ('top_k(k=50)', 'guard', 'guard(window=4, formulation=released)')
    """
    shown = []
    for field in fields(strategy):
        value = getattr(strategy, field.name)
        neutral = isinstance(strategy, Guard) or field.name == "temperature"
        if not (neutral and value == field.default):
            shown.append(f"{field.name}={_shown(value)}")
    name = _NAMES[type(strategy)]
    return f"{name}({', '.join(shown)})" if shown else name


def _shown(value: float | str) -> str:
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def parse(text: str) -> Strategy:
    """Read a strategy from its name or signature; parameters left out take their defaults.

    >>> parse("top_k(k=20)")
    TopK(k=20, temperature=1.0)
    >>> str(parse("contrastive")), str(parse("beam(B=3)"))
    ('contrastive(k=10, alpha=0.6)', 'beam(beams=3)')

    Raises:
        StudyError: An unknown name, parameter or word (the message offers the nearest), or a value out of
            range.
    """
    name, given = _split(text)
    if name not in STRATEGIES:
        raise StudyError(f"unknown strategy {name!r}: {_nearest(name, list(STRATEGIES))}")
    kind = STRATEGIES[name]
    known = {field.name: field for field in fields(kind)}
    arguments: dict[str, object] = {}
    for key, value in given:
        parameter = _SPELLINGS.get(key, key) if _SPELLINGS.get(key) in known else key
        if parameter not in known:
            raise StudyError(f"strategy {name!r} has no parameter {key!r}: {_nearest(key, list(known))}")
        if parameter in arguments:
            raise StudyError(f"strategy {text!r} gives {parameter} twice; keep one of them")
        arguments[parameter] = _cast(name, key, value, str(known[parameter].type))
    return kind(**arguments)  # type: ignore[arg-type]


_USAGE = "write it as name or name(parameter=value, …), for example top_k(k=50)"
_LONGEST = 500


def _split(text: str) -> tuple[str, list[tuple[str, object]]]:
    if len(text) > _LONGEST:
        raise StudyError(f"cannot read the strategy {text[:40]!r}…, {len(text)} characters long: {_USAGE}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise StudyError(f"cannot read the strategy {text!r}: {_USAGE}") from error
    if isinstance(tree, ast.Name):
        return tree.id, []
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)) or tree.args:
        raise StudyError(f"cannot read the strategy {text!r}: {_USAGE}")
    return tree.func.id, [(str(keyword.arg), _value(text, keyword)) for keyword in tree.keywords]


def _value(text: str, keyword: ast.keyword) -> object:
    if isinstance(keyword.value, ast.Name):
        return keyword.value.id
    try:
        return cast("object", ast.literal_eval(keyword.value))
    except (ValueError, TypeError, MemoryError, RecursionError) as error:
        raise StudyError(f"cannot read {keyword.arg!r} in the strategy {text!r}: {_USAGE}") from error


def _cast(name: str, key: str, value: object, kind: str) -> object:
    """Return `value` as `kind`, a field's annotation: int, float, or a choice of words."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "int" and number and isinstance(value, int):
        return value
    if kind == "float" and number:
        try:
            return float(cast("float", value))
        except OverflowError:
            return math.inf
    if kind not in {"int", "float"} and isinstance(value, str):
        return value
    wanted = {"int": "a whole number", "float": "a number"}.get(kind, "a word")
    raise StudyError(f"strategy {name!r}: {key} = {value!r} must be {wanted}")


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose from: {', '.join(known)}" if known else "it takes none"
