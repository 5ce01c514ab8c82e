"""The decoding strategies as values: a frozen dataclass each, named everywhere by its signature. No torch.

| name | class | parameters and defaults | source |
|---|---|---|---|
| `greedy` | `Greedy` | | argmax |
| `temperature` | `Temperature` | `tau=0.9` | Ackley et al. 1985 |
| `top_k` | `TopK` | `k=50` | Fan et al. 2018 |
| `top_p` | `TopP` | `p=0.95` | Holtzman et al. 2020 |
| `contrastive` | `ContrastiveSearch` | `k=10, alpha=0.6` | Su et al. 2022 |
| `acs` | `AdaptiveContrastiveSearch` | `q=1` | Garces Arias et al. 2024 |
| `guard` | `Guard` | `window=7, decay=0.95` | the paper, `eq:hglob` to `eq:alphat` |

The defaults are those of the paper's main table (`tab:ablation_resultglacs`).
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass, fields
from typing import cast

from guard_eval.errors import StudyError


def _within(
    strategy: object, name: str, *, low: float, high: float = float("inf"), low_open: bool = False
) -> None:
    value = getattr(strategy, name)
    if low <= value <= high and not (low_open and value == low):
        return
    allowed = f"{'above' if low_open else 'at least'} {low:g}" + (
        "" if high == float("inf") else f" and at most {high:g}"
    )
    raise StudyError(f"{type(strategy).__name__}: {name} = {value:g} is out of range; it must be {allowed}")


class _Signed:
    def __str__(self) -> str:
        return signature(cast("Strategy", self))


@dataclass(frozen=True, kw_only=True)
class Greedy(_Signed):
    """The most likely token at every step; ties go to the smallest token id."""


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

    def __post_init__(self) -> None:
        _within(self, "k", low=1)


@dataclass(frozen=True, kw_only=True)
class TopP(_Signed):
    """Sampling from the smallest set of most likely tokens whose probability reaches `p`."""

    p: float = 0.95

    def __post_init__(self) -> None:
        _within(self, "p", low=0, high=1, low_open=True)


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
    """

    window: int = 7
    decay: float = 0.95

    def __post_init__(self) -> None:
        _within(self, "window", low=1)
        _within(self, "decay", low=0, high=1, low_open=True)


Strategy = Greedy | Temperature | TopK | TopP | ContrastiveSearch | AdaptiveContrastiveSearch | Guard

STRATEGIES: dict[str, type[Strategy]] = {
    "greedy": Greedy,
    "temperature": Temperature,
    "top_k": TopK,
    "top_p": TopP,
    "contrastive": ContrastiveSearch,
    "acs": AdaptiveContrastiveSearch,
    "guard": Guard,
}

_NAMES: dict[type, str] = {kind: name for name, kind in STRATEGIES.items()}


def signature(strategy: Strategy) -> str:
    """Return the string that names the strategy in files, tables and legends; `parse` reads it back.

    As in the paper's tables a strategy that has to be tuned always shows its parameters. GUARD, whose point
    is that it need not be, shows only those that differ from their defaults.

    >>> signature(TopK(k=50)), signature(Guard()), signature(Guard(window=4))
    ('top_k(k=50)', 'guard', 'guard(window=4)')
    """
    shown = []
    for field in fields(strategy):
        value = getattr(strategy, field.name)
        if not (isinstance(strategy, Guard) and value == field.default):
            shown.append(f"{field.name}={value:g}" if isinstance(value, float) else f"{field.name}={value}")
    name = _NAMES[type(strategy)]
    return f"{name}({', '.join(shown)})" if shown else name


def parse(text: str) -> Strategy:
    """Read a strategy from its name or signature; parameters left out take their defaults.

    >>> parse("top_k(k=20)")
    TopK(k=20)
    >>> str(parse("contrastive"))
    'contrastive(k=10, alpha=0.6)'

    Raises:
        StudyError: An unknown name or parameter (the message offers the nearest), or a value out of range.
    """
    name, given = _split(text)
    if name not in STRATEGIES:
        raise StudyError(f"unknown strategy {name!r}: {_nearest(name, list(STRATEGIES))}")
    kind = STRATEGIES[name]
    known = {field.name: field for field in fields(kind)}
    arguments: dict[str, object] = {}
    for key, value in given.items():
        if key not in known:
            raise StudyError(f"strategy {name!r} has no parameter {key!r}: {_nearest(key, list(known))}")
        arguments[key] = _cast(name, key, value, known[key].type)
    return kind(**arguments)  # type: ignore[arg-type]


def _split(text: str) -> tuple[str, dict[str, object]]:
    usage = "write it as name or name(parameter=value, …), for example top_k(k=50)"
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise StudyError(f"cannot read the strategy {text!r}: {usage}") from error
    if isinstance(tree, ast.Name):
        return tree.id, {}
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)) or tree.args:
        raise StudyError(f"cannot read the strategy {text!r}: {usage}")
    given: dict[str, object] = {}
    for keyword in tree.keywords:
        try:
            given[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except ValueError as error:
            raise StudyError(f"cannot read {keyword.arg!r} in the strategy {text!r}: {usage}") from error
    return tree.func.id, given


def _cast(name: str, key: str, value: object, kind: object) -> object:
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    wanted = "a whole number" if kind == "int" else "a number"
    raise StudyError(f"strategy {name!r}: {key} = {value!r} must be {wanted}")


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose from: {', '.join(known)}" if known else "it takes none"
