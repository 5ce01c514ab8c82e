"""Find names that look the same to a reader, and names in texts."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain

_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | set(map(chr, range(0xFE00, 0xFE10)))
"""Invisible characters in Unicode, other than control and format characters."""


def make_visible_form(text: str, *, keep_case: bool = False) -> str:
    r"""Return the visible form of a name: two names with the same form count as equal.

    Case (unless `keep_case` is true), white space, Unicode form and invisible characters are ignored.

    >>> make_visible_form(" Bob\u200b "), make_visible_form("\uff22\uff4f\uff42")
    ('bob', 'bob')
    >>> make_visible_form("Bob  B", keep_case=True)
    'Bob B'
    """
    visible = text
    if not (text.isascii() and text.isprintable()):  # such a text has no other form, and is common
        visible = unicodedata.normalize("NFKC", text)
        visible = "".join(item for item in visible if item.isspace() or not is_invisible(item))
    return " ".join((visible if keep_case else unicodedata.normalize("NFKC", visible.casefold())).split())


def is_invisible(character: str) -> bool:
    """Return whether a character is invisible. Control characters that are white space count as invisible."""
    return unicodedata.category(character) in {"Cc", "Cf"} or character in _FILLERS


# By script: Cyrillic, Greek, Armenian, Cherokee, small capitals and other Latin letters, punctuation.
_LETTERS = {
    "АВЕЅZІЈКМНОРСТХУҮԌԚԜаеорсухіјѕһԁԛԝѵүӏӀгпктмв": "ABESZIJKMHOPCTXYYGQWaeopcyxijshdqwvyllrnktmb",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαβγειηκνορτυωχ": "ABEZHIKMNOPTYXabyeinkvoptuwx",
    "ՕՏՍԼօոսհյցզ": "OSULonuhjgq",
    "ᎪᏴᏟᎬᎻᎫᏦᏞᎷᏀᏢᏒᏚᎢᏙᎳᏃ": "ABCEHJKLMGPRSTVWZ",
    "ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢıɑɡ": "ABCDEGHIJKLMNOPRSTUVWYZiag",
    "‐‑‒–—―−’‘ʼ′`": "-------'''''",
}
LATIN_SHAPES = str.maketrans("".join(_LETTERS), "".join(_LETTERS.values()))
"""Replacements of letters and signs by Latin letters and signs of the same shape, for `str.translate`."""
_STROKES = str.maketrans("0Il|", "o111")
"""Replacements of 0, I, l and |, which look like other characters. The case of letters matters here."""


def are_lookalikes(first: str, second: str) -> bool:
    """Return whether two names look the same, in any script.

    >>> are_lookalikes("Ada", "\u0410d\u0430"), are_lookalikes("Bill", "BiII"), are_lookalikes("Ada", "Ida")
    (True, True, False)
    """
    return make_visible_form(first) == make_visible_form(second) or _replace_lookalikes(
        first
    ) == _replace_lookalikes(second)


@cache
def _replace_lookalikes(name: str) -> str:
    """Replace letters of other scripts in a name by Latin letters that look the same."""
    letters = (
        unicodedata.normalize("NFD", make_visible_form(name, keep_case=True))
        .translate(LATIN_SHAPES)
        .translate(_STROKES)
    )
    return unicodedata.normalize("NFC", letters.casefold())


_MODEL = re.compile(
    r"(chat)?(gpt|claude|llama|gemini|gemma|qwen|qwq|mi[sx]tral|deepseek|grok|phi|kimi|glm|olmo)"
    r"[-_. :/]?(v?\d|[a-z]+[-_. ]\d).*|o\d(-(mini|preview|pro).*)?"
    r"|(gpt|chatgpt|llm)|[\w.-]{2,}/(?=.*[\d_-])[\w.-]{3,}"
)


def is_model_name(name: str) -> bool:
    """Return whether a name belongs to a language model, such as gpt-4. "Claude" may also be a person.

    >>> [is_model_name(name) for name in ("GPT-4", "claude-sonnet-4", "Llama 70b", "meta/chat-7b", "o3")]
    [True, True, True, True, True]
    >>> [is_model_name(name) for name in ("Claude", "P-3", "mary/jane")]
    [False, False, False]
    """
    return _MODEL.fullmatch(make_visible_form(name)) is not None


_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Characters of Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer: no spaces surround a name."""
_SPACED_LETTER = rf"[^\W{_UNSPACED}]"


def is_written_without_spaces(name: str) -> bool:
    """Return whether a name can stand inside a longer word, because its script puts no spaces around names.

    >>> is_written_without_spaces("王芳"), is_written_without_spaces("Ann")
    (True, False)
    """
    return len(name) > 1 and re.search(f"[{_UNSPACED}]", name) is not None


def make_name_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of names, but not inside longer words of scripts with spaces between words.

    Case and white space do not matter. The searched text must have the Unicode form NFC.

    >>> [bool(make_name_pattern(["gpt"]).search(text)) for text in ("GPT:", "由gpt写", "gpts")]
    [True, True, False]
    """
    forms = {unicodedata.normalize("NFC", form) for name in names for form in (name, name.casefold())}
    words = [r"\s+".join(map(re.escape, form.split())) for form in sorted(forms, key=len, reverse=True)]
    begin = rf"(?:(?<!{_SPACED_LETTER})|(?=[{_UNSPACED}]))"
    end = rf"(?:(?!{_SPACED_LETTER})|(?<=[{_UNSPACED}]))"
    return re.compile(f"{begin}(?:{'|'.join(words)}){end}", re.IGNORECASE)


def replace_whole_names(text: str, names: Sequence[str], replacement: str) -> str:
    """Replace names in a text; see `make_name_pattern`. A text without these names is returned unchanged.

    >>> replace_whole_names("ANN, Anna, 我和王芳聊过", ["Ann", "王芳"], "X")
    'X, Anna, 我和X聊过'
    """
    if not names:
        return text
    changed, count = make_name_pattern(names).subn(replacement, unicodedata.normalize("NFC", text))
    return changed if count else text


FEWEST_LETTERS = 3
"""A word of a longer name identifies a person only if it has at least this number of letters."""
_WORD = re.compile(r"[^\W\d_]+|\d+")
_PLAIN = str.maketrans({"ø": "o", "œ": "o", "æ": "a", "ł": "l", "đ": "d", "ı": "i"})


def find_names_in_text(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that a text contains in any spelling. Of a longer name, one word is enough.

    A word that several names share, such as "rater" in "rater 1", identifies nobody.

    >>> find_names_in_text("as ueberall_2 says", ["Quentin Überall", "Li"])
    ['Überall']
    >>> find_names_in_text("LI, rater", ["Li", "rater 1", "rater 2"])
    ['Li']
    >>> find_names_in_text("我和王芳聊过", ["王芳"])
    ['王芳']
    """
    people = list(names)
    words = split_into_simple_words(text)
    spaced = f" {' '.join(words)} "
    wholes = [
        name
        for name in people
        if f" {' '.join(split_into_simple_words(name))} " in spaced
        or (is_written_without_spaces(name) and replace_whole_names(text, [name], "") != text)
    ]
    single = _find_single_words([name for name in people if name not in wholes])
    return [*wholes, *(word for simple, word in single.items() if simple in words)]


def hide_names_in_text(text: str, names: Iterable[str]) -> str:
    """Replace each word of a name in a text by "…" (see `find_names_in_text`).

    >>> hide_names_in_text("QUENTIN asked rater 2", ["Quentin Überall", "rater 1", "rater 2"])
    '… asked rater 2'
    >>> hide_names_in_text("王芳さんと Li, Liam", ["王芳", "Li"])
    '…さんと …, Liam'
    """
    names = list(names)
    hidden = _find_single_words(names)
    text = replace_whole_names(text, list(filter(is_written_without_spaces, names)), "…")
    return _WORD.sub(lambda word: "…" if simplify_spelling(word[0]) in hidden else word[0], text)


def split_into_simple_words(text: str) -> list[str]:
    """Return the words and numbers of a text in their simplified spelling."""
    return [simplify_spelling(word) for word in _WORD.findall(text)]


def _find_single_words(names: Iterable[str]) -> dict[str, str]:
    """Return the words that identify one of the people, by their simplified spelling."""
    words = [{*re.split(r"[\W_]+", name)} for name in names]
    simple = [{simplify_spelling(word): word for word in of_name} for of_name in words]
    counts = Counter(chain(*simple))
    return {
        key: word
        for of_name in simple
        for key, word in of_name.items()
        if counts[key] == 1 and word.isalpha() and (len(word) >= FEWEST_LETTERS or len(of_name) == 1)
    }


def simplify_spelling(word: str) -> str:
    """Return a word without case, accents and the e of ae, oe and ue.

    >>> simplify_spelling("Überall"), simplify_spelling("UEBERALL"), simplify_spelling("Müßig")
    ('uberall', 'uberall', 'mussig')
    """
    letters = unicodedata.normalize("NFKD", word.casefold()).translate(_PLAIN)
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub("([aou])e", r"\1", plain)
