"""Format numbers and names in the same way in every table and sentence."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import NOTHING

if TYPE_CHECKING:
    from guard_eval.estimate import Estimate

RATERS = {
    "person": "people",
    "unknown": "raters of unknown kind",
    "model": "model judges",
    "simulated": "SIMULATED raters",
    "simulated_model": "SIMULATED judges",
}
NO_WIDTH = 1e-9
"""An interval that is narrower than this is left out, because the verdicts do not vary."""
NO_P = "none"
"""The word that is printed if the test cannot give a small p."""

KIND_PLACE = {kind: index for index, kind in enumerate(RATERS)}
"""The position of each kind of raters in every list: people are first."""


def format_rater_kind(kind: str, judge: str = "") -> str:
    """Return the name of the raters (people, or one judge), marked if the verdicts are simulated.

    >>> format_rater_kind("person"), format_rater_kind("model", "gpt")
    ('people', 'gpt')
    >>> format_rater_kind("simulated_model", "gpt")
    'gpt (SIMULATED)'
    """
    if not judge:
        return RATERS[kind]
    return judge if kind not in SIMULATED or "SIMULATED" in judge else f"{judge} (SIMULATED)"


def format_percent(share: float | None, decimals: int = 1) -> str:
    """Return a share as a percentage. Without decimals, only 0, ½ and 1 print as 0 %, 50 % and 100 %.

    >>> format_percent(0.5791) == "57.9\u00a0%", format_percent(0.5, 0) == "50\u00a0%"
    (True, True)
    >>> format_percent(0.5025, 0) == "50.2\u00a0%", format_percent(0.004, 0) == "0.4\u00a0%"
    (True, True)
    """
    if share is None:
        return NOTHING
    percent = 100 * share
    if decimals == 0 and round(percent) in {0, 50, 100} and abs(percent - round(percent)) > 1e-9:
        decimals = 1
    return f"{percent:.{decimals}f}\u00a0%"


def format_number(value: float | None, decimals: int = 2, *, scale: float = 1, sign: str = "") -> str:
    """Return `scale` times a number, with a typographic minus sign. With `sign="+"`, also write a plus sign.

    >>> format_number(-0.034), format_number(-0.001), format_number(0.75, 1), format_number(None)
    ('−0.03', '0.00', '0.8', '–')
    """
    if value is None:
        return NOTHING
    text = f"{scale * value:{sign}.{decimals}f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def format_limits(interval: "Estimate", decimals: int = 2, *, scale: float = 1) -> str:
    """Return the limits of an interval, each times `scale`. For shares, use `format_share_limits`.

    >>> from types import SimpleNamespace
    >>> format_limits(SimpleNamespace(low=-0.5, high=0.25))
    '−0.50 to 0.25'
    """
    if interval.low is None or interval.high is None:
        return NOTHING
    low, high = (format_number(limit, decimals, scale=scale) for limit in (interval.low, interval.high))
    return f"{low} to {high}"


def format_share_limits(share: "Estimate", decimals: int = 1) -> str:
    """Return the limits of a share in percent. An interval of width zero is left out."""
    if share.low is None or share.high is None or share.high - share.low < NO_WIDTH:
        return NOTHING
    return format_limits(share, decimals, scale=100)


def format_p(value: float | None) -> str:
    """Return a p-value as papers print it: two or three digits, no exponent, never 0 or 1.

    A p that would print as .050 has a fourth digit. CSV and JSON have p unrounded.

    >>> format_p(0.0181888), format_p(0.96), format_p(0.04996), format_p(None)
    ('.018', '.96', '.0500', 'no test')
    >>> format_p(2.874966592398616e-06) == "<\u00a0.001", format_p(1.0) == ">\u00a0.99"
    (True, True)
    """
    if value is None:
        return "no test"
    if value < 0.001:
        return "<\u00a0.001"
    if value > 0.99:
        return ">\u00a0.99"
    digits = 2 if value >= 0.0995 else 3
    if f"{value:.3f}" == "0.050":
        digits = 4
    return f"{value:.{digits}f}".removeprefix("0")


def format_error_rate(value: float) -> str:
    """Return an error rate in the style of p-values.

    >>> format_error_rate(0.05)
    '.05'
    """
    return f"{value:g}".removeprefix("0")


def format_p_in_sentence(value: float | None) -> str:
    """Return the p-value worded for a sentence.

    >>> format_p_in_sentence(0.018) == "p\u00a0=\u00a0.018"
    True
    >>> format_p_in_sentence(0.999) == "p\u00a0>\u00a0.99"
    True
    """
    text = format_p(value)
    if value is None:
        return text
    return f"p\u00a0{text}" if text[0] in "<>" else f"p\u00a0=\u00a0{text}"


def separate_thousands(value: object) -> object:
    """Return a whole number with commas between the thousands, or any other value unchanged.

    >>> separate_thousands(1000000), separate_thousands("007")
    ('1,000,000', '007')
    """
    return f"{value:,}" if type(value) is int else value


def count_in_words(count: int, word: str) -> str:
    """Return a count and a word, with an s if the count is not one.

    >>> count_in_words(1, "rater") == "1\u00a0rater", count_in_words(4000, "rater") == "4,000\u00a0raters"
    (True, True)
    """
    return f"{count:,}\u00a0{word}{'' if count == 1 else 's'}"


def join_with_and(parts: Iterable[str]) -> str:
    """Join `parts` as in a sentence.

    >>> join_with_and(["a", "b", "c"]), join_with_and(["a"])
    ('a, b and c', 'a')
    """
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def join_first_parts(parts: Iterable[str], limit: int, *, join: str = "") -> str:
    """Join the first `limit` parts as a list, and add the number of the others.

    >>> join_first_parts(["a", "b", "c"], 3), join_first_parts(["a", "b", "c", "d"], 2)
    ('a, b and c', 'a, b and 2 more')
    """
    listed = list(parts)
    if len(listed) <= limit:
        return join.join(listed) if join else join_with_and(listed)
    return f"{(join or ', ').join(listed[:limit])} and {len(listed) - limit} more"


def join_distinct_names(methods: Iterable[str]) -> str:
    """Return the distinct names of tests or intervals as a list. A name may contain a comma.

    >>> join_distinct_names(["b, c", "a", "a"])
    'a; b, c'
    """
    return "; ".join(sorted(set(methods)))


def to_sentence(text: str) -> str:
    """Return a remark with a capital letter and a full stop.

    >>> to_sentence("too few pairs")
    'Too few pairs.'
    """
    return f"{capitalise(text)}."


def replace_underscores(name: str) -> str:
    """Return an identifier as words.

    >>> replace_underscores("story_development")
    'story development'
    """
    return name.replace("_", " ")


_TITLES: ContextVar[Mapping[str, str]] = ContextVar("titles", default=MappingProxyType({}))


@contextmanager
def use_criterion_titles(titles: Mapping[str, str]) -> Iterator[None]:
    """Make `find_criterion_title` use the study's own titles of criteria inside the block."""
    token = _TITLES.set(titles)
    try:
        yield
    finally:
        _TITLES.reset(token)


def find_criterion_title(name: str) -> str:
    """Return a criterion's name for readers: the study's title of the criterion, or the words of the name.

    >>> with use_criterion_titles({"toxicity": "Toxicity"}):
    ...     find_criterion_title("toxicity"), find_criterion_title("story_development")
    ('Toxicity', 'story development')
    """
    return _TITLES.get().get(name) or replace_underscores(name)


def capitalise(text: str) -> str:
    """Return a text with a capital first letter.

    >>> capitalise("use of DNA")
    'Use of DNA'
    """
    return text[:1].upper() + text[1:]
