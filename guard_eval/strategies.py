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
from typing import Annotated, Literal, cast, get_args, get_origin, get_type_hints

from guard_eval.errors import StudyError

Formulation = Literal["equations", "algorithm1", "released"]
Aggregation = Literal["median", "mean", "winsorized"]
Mapping = Literal["arctanh", "log"]
Selection = Literal["argmax", "sample"]
AmateurPrompt = Literal["last", "whole"]


@dataclass(frozen=True)
class _Within:
    """The limits of a parameter: `low`, itself excluded where `above`, to `high`; always finite."""

    low: float
    high: float = math.inf
    above: bool = False

    def check(self, owner: str, name: str, value: float) -> None:
        if self.low <= value <= self.high and math.isfinite(value) and not (self.above and value == self.low):
            return
        allowed = f"{'above' if self.above else 'at least'} {self.low:g}" + (
            " and finite" if self.high == math.inf else f" and at most {self.high:g}"
        )
        shown = repr(value) if isinstance(value, int) else f"{value:g}"
        raise StudyError(f"{owner}: {name} = {shown} is out of range; it must be {allowed}")


_AtLeastOne = Annotated[int, _Within(1)]
_Positive = Annotated[float, _Within(0, above=True)]
_Share = Annotated[float, _Within(0, 1)]
_PositiveShare = Annotated[float, _Within(0, 1, above=True)]


class _Signed:
    """What all strategies have in common: a signature, and limits that are written in their annotations."""

    def __str__(self) -> str:
        return signature(cast("Strategy", self))

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            if get_origin(kind) is Annotated:
                kind.__metadata__[0].check(owner, name, value)
            elif value not in get_args(kind):
                nearest = _nearest(str(value), list(get_args(kind)))
                raise StudyError(f"{owner}: {name} = {value!r} is unknown: {nearest}")


@dataclass(frozen=True, kw_only=True)
class Greedy(_Signed):
    """The most likely token at every step; ties go to the smallest token id."""


@dataclass(frozen=True, kw_only=True)
class BeamSearch(_Signed):
    """The continuation of the highest probability that a search with so many `beams` finds."""

    beams: _AtLeastOne = 5


@dataclass(frozen=True, kw_only=True)
class Temperature(_Signed):
    """Sampling from the distribution sharpened by `tau`: softmax(logits / τ)."""

    tau: _Positive = 0.9


@dataclass(frozen=True, kw_only=True)
class TopK(_Signed):
    """Sampling from the `k` most likely tokens."""

    k: _AtLeastOne = 50
    temperature: _Positive = 1.0


@dataclass(frozen=True, kw_only=True)
class TopP(_Signed):
    """Sampling from the smallest set of most likely tokens whose probability reaches `p`."""

    p: _PositiveShare = 0.95
    temperature: _Positive = 1.0


@dataclass(frozen=True, kw_only=True)
class Typical(_Signed):
    """Sampling from the smallest set of probability `tau` whose ln p lies nearest to its expectation, −H."""

    tau: _PositiveShare = 0.2
    temperature: _Positive = 1.0


@dataclass(frozen=True, kw_only=True)
class MinP(_Signed):
    """Sampling from the tokens at least `p` times as likely as the most likely one."""

    p: _Share = 0.1
    temperature: _Positive = 1.0


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

    alpha: _PositiveShare = 0.1
    amateur_tau: _Positive = 0.5
    beams: _AtLeastOne = 5
    amateur_prompt: AmateurPrompt = "last"


@dataclass(frozen=True, kw_only=True)
class AdaptiveDecoding(_Signed):
    """Sampling from the likeliest tokens, as long as each adds more than `epsilon` to the confidence."""

    epsilon: _Share = 0.001


@dataclass(frozen=True, kw_only=True)
class ContrastiveSearch(_Signed):
    """Of the `k` most likely tokens v the one with the highest (1 − α) p(v) − α max_j cos(h_v, h_j)."""

    k: _AtLeastOne = 10
    alpha: _Share = 0.6


@dataclass(frozen=True, kw_only=True)
class AdaptiveContrastiveSearch(_Signed):
    """Contrastive search whose k and α follow the step's entropy; `q` scales how strongly."""

    q: _Positive = 1.0


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
    known = get_type_hints(kind)
    arguments: dict[str, object] = {}
    for key, value in given:
        parameter = _SPELLINGS.get(key, key) if _SPELLINGS.get(key) in known else key
        if parameter not in known:
            raise StudyError(f"strategy {name!r} has no parameter {key!r}: {_nearest(key, list(known))}")
        if parameter in arguments:
            raise StudyError(f"strategy {text!r} gives {parameter} twice; keep one of them")
        arguments[parameter] = _cast(name, key, value, known[parameter])
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


def _cast(name: str, key: str, value: object, kind: type) -> object:
    """Return `value` as a parameter's `kind`: int, float, or a choice of words."""
    taken = {int: int, float: int | float}.get(kind, str)
    if isinstance(value, taken) and not isinstance(value, bool):
        try:
            return float(value) if kind is float else value
        except OverflowError:
            return math.inf
    wanted = {int: "a whole number", float: "a number"}.get(kind, "a word")
    raise StudyError(f"strategy {name!r}: {key} = {value!r} must be {wanted}")


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose from: {', '.join(known)}" if known else "it takes none"
