"""The meanings of the words for verdicts that raters and programs use."""

import json
import re
import shlex
from collections.abc import Iterable
from typing import Literal, NamedTuple

from guard_eval.lookalike import make_visible_form

A, TIED, B = 1, 0, -1
"""The sides that a verdict can name: the first text, neither text, and the second text.

A side multiplied by `B` is the other side.
"""
Kind = Literal["", "tie", "letter", "place", "column", "declared"]
"""What a word names: a tie, a letter, a place, the column of a method, or a side that the user has declared.
Empty for a possible method."""

SYSTEM_NOUNS = (
    "method|model|system|sys|strategy|generator|player|engine|policy|agent|bot|llm"
    "|modell|verfahren|methode|mod[eè]le|syst[eè]me|m[eé]thode|modelo|sistema|m[eé]todo|模型|系统|方法"
)
"""The nouns that mean a system, in lower case, as a part of regular expressions."""
_TEXTS = (
    "response|text|option|answer|output|assistant|side|continuation|story|summary|translation|candidate"
    "|version|completion|generation|choice|passage|essay|reply|sample|item|one|image|picture|photo|clip|audio"
    "|video|voice|recording|antwort|fassung|r[eé]ponse|texte|respuesta|texto|opci[oó]n|回答|答案"
)
_STRONG = "much|far|significantly|strongly|clearly|definitely|considerably|substantially|way|very much|a lot"
_WEAK = "slightly|a little|a bit|little|bit|somewhat|marginally|barely|weakly|mildly|moderately"
_DEGREE = f"(?P<degree{{}}>{_STRONG}|{_WEAK})"
_SIGN = re.compile(r"([a-z ]*?)([ab12]) ?(=+|>+|<+) ?\1([ab12])")
_PREFERENCE = re.compile(
    rf"(i )?({_DEGREE.format(1)} )?(prefer(s|red|ring)? )?(the )?((?P<noun>{SYSTEM_NOUNS}|{_TEXTS}) ?)?"
    rf"(?P<side>a|b|0|1|2|left|right|first|second)( (?P<after>{SYSTEM_NOUNS}|{_TEXTS}))?"
    rf"( is| was| ist| war| est| es)?( {_DEGREE.format(2)})?"
    r"( (the )?(better|preferred|best|wins?|won|winner|stronger|favou?red|besser|meilleure?|mejor|更好))?"
    rf"( {_DEGREE.format(3)})?( than .*)?"
)
_SAME = "same|equal(ly)?|similar|comparable|equivalent|identical|gleich( gut)?|ebenbürtig|igual(es)?|pareils?"
_TIE = re.compile(
    rf"(it is |its |it's )?(a )?(tie|tied|ties|draws?|both|neither|neutral|no winner"
    rf"|(about |roughly |nearly |almost )?(the )?({_SAME})( in)?( quality| good| bad| preference)?"
    rf"|(they |they're |both )?(are |were )?(about |equally )(the )?({_SAME}|good|bad)"
    rf"|(they |both )(are |were )(the )?({_SAME})|="
    r"|both ?(texts? |responses? |options? |answers? )?(are |were )?(equally )?(good|bad|fine|acceptable)"
    r"|neither( (is|was))?( better| good| wins)?|no( clear)? ?(preference|difference)"
    r"|undecided|unentschieden|[eé]galit[eé]|empate|平局|平手|一样好?"
    r"|tie both ?bad|tie both ?good|tie inconsistent|both equal)"
)
_MODEL = re.compile(
    r"(?<![a-z])(gpt|chatgpt|claude|llama|gemini|gemma|qwen|mi[sx]tral|deepseek|command-[ar]|grok|llm|phi-?\d"
    r"|vicuna|sonnet|opus|haiku|pandalm|judgelm|prometheus|glm|kimi-k\d|nova-(pro|lite|micro|premier)"
    r"|o[134](-mini|-preview|-pro)?$|(ai|model|llm)[-_ ]?judge)(?![a-z])|^judge$|^[\w.-]{2,}/[\w.-]{3,}$"
    r"|[-_ ]\d+(\.\d+)?b$|^(ai|bot|machine|model|reward[-_ ]model)$"
)
"""A pattern of model names, for use after `make_visible_form`. Names on the Hub have a slash."""
_ARTICLE = re.compile(r"[Aa] (bit|little|lot)\b.*|a (better|preferred|best|winner|stronger|favou?red)\b.*")
"""Phrases in which "A" is an article and not a text, such as a little better."""
NUMBER = re.compile(r"[+-]?[\d.,]+%?")
_ZERO = re.compile(r"(?<!\d)0(?!\d)")
_ONE = re.compile(r"(?<!\d)1(?!\d)")
_DROPPED = re.compile(r'[\s_\-.,!()\[\]*:"]+')

MEANINGS = (
    "a, b, tie, a method, first or second for the text shown first or second, or nothing for no verdict"
)
"""What the user can declare as the meaning of a word for verdicts."""


class Word(NamedTuple):
    """The meaning of a word for a pair.

    Attributes:
        side: `A`, `TIED` or `B`.
        kind: What the word names; empty if the word may be a method.
        strength: Whether the word means that a text is much better.
    """

    side: int
    kind: Kind
    strength: bool = False


def simplify_word(word: str) -> str:
    """Return a word in lower case, without the signs that do not change the meaning."""
    return _DROPPED.sub(" ", word.casefold()).strip()


def find_word_meaning(word: str) -> Word | None:
    """Return the meaning of a common word, or None. A number alone has no meaning, because it is ambiguous.

    >>> find_word_meaning("B is much better"), find_word_meaning("tie (bothbad)")
    (Word(side=-1, kind='letter', strength=True), Word(side=0, kind='tie', strength=False))
    >>> find_word_meaning("[[A>>B]]"), find_word_meaning("Response 2").kind
    (Word(side=1, kind='letter', strength=True), 'place')
    >>> find_word_meaning("1"), find_word_meaning("C")
    (None, None)
    """
    text = simplify_word(word)
    if _TIE.fullmatch(text) or word.strip().casefold() == "[[c]]":
        return Word(TIED, "tie")
    if match := _SIGN.fullmatch(text):
        return _read_comparison_sign(*match.groups()[1:])
    match = _PREFERENCE.fullmatch(text)
    if match is None or text.isdecimal() or _ARTICLE.fullmatch(word.strip()):
        return None
    side = match["side"]
    noun = match["noun"] or match["after"] or ""
    degrees = {match[f"degree{number}"] for number in (1, 2, 3)} - {None}
    is_strong = any(re.fullmatch(_STRONG, degree) for degree in degrees)
    kind: Kind = "letter" if side in {"a", "b"} else "place"
    if re.fullmatch(SYSTEM_NOUNS, noun) and side in {"a", "b", "0", "1", "2"}:
        kind = "column"
    return Word(A if side in {"a", "0", "1", "left", "first"} else B, kind, is_strong)


def find_word_meanings(words: Iterable[str], headings: Iterable[str] = ()) -> dict[str, Word]:
    """Return the meanings of the common words in a column. If numbers begin with 0, 1 means the second text.

    Args:
        words: The different words in the column.
        headings: Headings of the methods, which may also show that numbers begin with 0.

    >>> {word: meaning.side for word, meaning in find_word_meanings(["text 0", "text 1"]).items()}
    {'text 0': 1, 'text 1': -1}
    """
    texts = list(words)
    begins_with_zero = any(_ZERO.search(text) and names_side(text) for text in (*texts, *headings))
    plain = {text: _ONE.sub("2", text) if begins_with_zero else text for text in texts}
    return {text: meaning for text in texts if (meaning := find_word_meaning(plain[text]))}


def _read_comparison_sign(first: str, sign: str, second: str) -> Word | None:
    """Return the meaning of A>B, A>>B, A=B, A<B and similar words."""
    if first == second or {first, second} not in ({"a", "b"}, {"1", "2"}):
        return None
    if sign[0] == "=":
        return Word(TIED, "tie")
    is_first = (first in {"a", "1"}) == (sign[0] == ">")
    kind: Kind = "letter" if first in {"a", "b"} else "place"
    return Word(A if is_first else B, kind, len(sign) > 1)


def is_tie(word: str) -> bool:
    """Return whether a word means a tie."""
    outcome = find_word_meaning(word)
    return outcome is not None and outcome.side == TIED


def names_side(word: str) -> bool:
    """Return whether a word, such as left or A, names one of the two texts."""
    outcome = find_word_meaning(word)
    return outcome is not None and outcome.side != TIED


def format_word_setting(word: str, value: str = "SIDE") -> str:
    """Return the setting that declares the meaning of a word: `verdicts."left one"=SIDE`."""
    return f"verdicts.{json.dumps(word, ensure_ascii=False)}={value}"


def format_set_options(*settings: str, join: str = " ") -> str:
    """Return settings as options of the command line.

    >>> format_set_options("columns.rater=Who", "columns.item=Item No", join=" or ")
    "--set columns.rater=Who or --set 'columns.item=Item No'"
    """
    return join.join(f"--set {shlex.quote(setting)}" for setting in settings)


def offer_word_settings(words: Iterable[str], meanings: str = MEANINGS) -> str:
    """Write the options that declare words for verdicts, and the possible meanings."""
    return f"{format_set_options(*map(format_word_setting, sorted(set(words))))} ({meanings})"


def is_model_name(name: str) -> bool:
    """Return whether a rater has a name that language models have and people do not have."""
    return _MODEL.search(make_visible_form(name)) is not None
