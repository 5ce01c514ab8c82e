"""Find the method on each side, and the method that a word such as A or "Response 1" means."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.layout import METHODS, SHOWN, Numbers, refuse
from analysis.verdicts.table import NO, YES, Table, is_missing_word, plain_heading
from analysis.verdicts.words import TIED, A, B, Word, meaning
from guard_eval.errors import StudyError
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

ABOUT_SIDES = re.compile(
    r".*(order|position|place|first|second|left|right|side|pos|swap|flip|revers|switch|random|shuffl|presented"
    r"|displayed|shown|invert|mirror|permut|counterbal|arrang).*"
)
"""Headings of columns that may give the side of a text."""
_NAMES_FIRST = re.compile(
    r"(is)?(shown|presented|displayed|seen)?(first|left)(shown|presented|displayed|seen)?(model|method|system"
    r"|strategy|response|text|name)*|(model|method|system|strategy)(shown|on|presented|displayed)*(first|left)"
)
"""Headings of a column that names the method shown first."""
_ORDER = re.compile(r".*(order|sides|positions|layout)")
_NOUN = "(method|model|system|strategy|response|text|option|answer)?"
_PLACE = r"({0})s?(position|place|side|pos|order)|(position|place|side|pos)(of)?({0})"
_IS_FIRST = r"(is)?({0})(is|was|on|shown|the|presented|displayed)*(left|first)"
_PLACES = {"1": A, "first": A, "left": A, "2": B, "second": B, "right": B}
_STRAIGHT = NO | {"none", "nan", "original", ""}
"""Cells that mean that sides did not change."""
_SWAPS = re.compile(r".*(swap|flip|revers|switch|invert|mirror).*")
_ODD_TIE = re.compile(r".*(bad|inconsistent).*", re.IGNORECASE)
"""Ties of which a reader is told: both texts are bad, or a judge contradicted itself."""
_LISTED = 12
"""Words that are listed."""


def _parse_first_side(heading: str, cell: str, a: str, b: str) -> int | None:
    """Return the method that was shown first according to a cell: `A` or `B`; None if it does not say."""
    word = cell.strip().casefold()
    if _NAMES_FIRST.fullmatch(heading):
        return {"a": A, "b": B, a: A, b: B}.get(cell, {"a": A, "b": B}.get(word))
    letters = "".join(filter(str.isalpha, word))
    if _ORDER.fullmatch(heading) and letters in {"ab", "ba"}:
        return A if letters == "ab" else B
    for letter, method, side in (("[a1]", a, A), ("[b2]", b, B)):
        name = f"{_NOUN}{letter}|{re.escape(plain_heading(method))}"
        if word in _PLACES and re.fullmatch(_PLACE.format(name), heading):
            return side * _PLACES[word]
        if word in YES | NO and re.fullmatch(_IS_FIRST.format(name), heading):
            return -side if word in NO else side
    return None


def read_first(table: Table, name: str) -> Numbers | None:
    """Return the method that was shown first in each row, `A` or `B`; None if the column does not say it."""
    heading = plain_heading(name)
    if not ABOUT_SIDES.fullmatch(heading) or not table.is_filled(name):
        return None
    numbers, rows = table.rows(name, *METHODS)
    sides = [_parse_first_side(heading, *map(str, row)) for row in rows]
    return None if None in sides else np.array(sides, dtype=np.int64)[numbers]


def name_winners(table: Table) -> None:
    """Replace the words of a table's verdicts by methods, and count the strength that is dropped.

    Raises:
        StudyError: A word can mean either method.
    """
    verdict = table.cells("verdict").str.strip()
    a, b = map(table.cells, METHODS)
    texts = set(verdict.dropna())
    words = {text: word for text in texts if (word := _word(table, text))}
    names = verdict.map({text: table.declared.words.get(text, text) for text in texts})
    is_named = (verdict == a) | (verdict == b) | (verdict == TIE)
    kinds = verdict.map({text: word.kind for text, word in words.items()}).astype(object)
    kinds = kinds.mask(is_named, "").fillna("")
    sides = verdict.map({text: word.side for text, word in words.items()}).fillna(TIED).to_numpy(np.int64)
    strong = verdict.isin([text for text, word in words.items() if word.strength]) & ~is_named
    is_missing = names.isin(list(filter(is_missing_word, names.dropna().unique())))
    names = names.mask(is_missing & (names != a) & (names != b))

    def winners(sides: NDArray[np.integer]) -> NDArray[np.object_]:
        return np.select([kinds == "", sides == A, sides == B], [names, a, b], TIE)

    candidates = [name for name in ("shown_first", *table.free) if table.has(name)]
    firsts = {name: first for name in candidates if (first := read_first(table, name)) is not None}
    _refuse_methods_called_as_sides(table, kinds)
    columns: Sequence[str] = METHODS
    turned = kinds == "place"
    if table.has(*SHOWN):
        columns = SHOWN
        first = _first_by_sides(table, kinds)
        turned |= kinds == "letter"
        sides = np.where(turned, sides * first, sides)
        _refuse_fixed_sides(table, turned, winners(sides))
    else:
        _refuse_changed_sides(table, kinds, firsts, winners(sides))
        if turned.any():
            columns = list(firsts)
            first = _first_by_columns(table, turned, firsts)
            sides = np.where(turned, sides * first, sides)
    _explain(table, kinds, columns, int(strong.sum()))
    table.set_frame(table.frame.assign(verdict=winners(sides)))
    _use_first(table, kinds, firsts)


def _word(table: Table, text: str) -> Word | None:
    """Return the meaning of a verdict: declared, or of a common word."""
    if text in table.declared.words:
        return {"a": Word(A, "letter"), "b": Word(B, "letter")}.get(table.declared.words[text])
    return meaning(text)


def _refuse_methods_called_as_sides(table: Table, kinds: pd.Series) -> None:
    """Refuse words for sides if a method has the name of a side. With left and right it may be called A."""
    is_clear = table.has(*SHOWN) and set(kinds) <= {"", "place", "tie"}
    methods = pd.concat([table.cells(name)[kinds != ""] for name in METHODS]).dropna().unique()
    for name in methods:
        word = meaning(name)
        if word and not (is_clear and word.kind == "letter"):
            message = (
                "the verdict {verdict!r} on {where} may name a side, or the method {name!r}; rename that"
            )
            refuse(table.texts("verdict"), kinds != "", message, name=name)


def _first_by_sides(table: Table, kinds: pd.Series) -> Numbers:
    """Return the method on the left in each row, `A` or `B`.

    Raises:
        StudyError: In a row with a word the sides are not the methods, or it may name a column or a side.
    """
    texts = table.texts("verdict")
    a, b, on_left, on_right = map(table.cells, (*METHODS, *SHOWN))
    is_same = ((on_left == a) & (on_right == b)) | ((on_left == b) & (on_right == a))
    refuse(
        texts,
        (kinds != "") & a.notna() & b.notna() & ~is_same,
        "left and right are not the row's methods on {where}; name the same",
    )
    refuse(
        texts,
        (kinds == "column") & (on_left != a),
        "the verdict {verdict!r} on {where} may be the column's method, or that of the side; write methods",
    )
    return np.where(on_left == a, A, B)


def _first_by_columns(table: Table, sided: pd.Series, firsts: Mapping[str, Numbers]) -> Numbers:
    """Return the method in the first place in each row, `A` or `B`, for verdicts that name places.

    Raises:
        StudyError: Nothing says it, or two columns contradict each other.
    """
    if not firsts:
        words = table.cells("verdict")[sided].unique()
        letters = ["a" if (word := meaning(text)) and word.side == A else "b" for text in words]
        offers = [f'verdicts."{text}"={letter}' for text, letter in zip(words, letters, strict=True)]
        raise StudyError(
            f"the verdicts {and_list(list(map(repr, words)))} name places, and no column says which method "
            "stood where. Add a column shown_first, or left and right, with the methods. If the first was "
            f"always method_a: {' '.join(f'--set {shlex.quote(offer)}' for offer in offers)}"
        )
    (name, first), *others = firsts.items()
    for other, sides in others:
        refuse(
            table.frame,
            sided & (first != sides),
            "the columns {name!r} and {other!r} contradict each other on who was first ({where}); remove the "
            "one that is wrong",
            name=name,
            other=other,
        )
    return first


def _refuse_changed_sides(
    table: Table, kinds: pd.Series, firsts: Mapping[str, Numbers], winners: NDArray[np.object_]
) -> None:
    """Refuse verdicts that name sides if a column says, or may say, that texts changed sides."""
    sided = kinds.isin(["letter", "place"])
    for name in dict.fromkeys([*firsts, *table.free]):
        if name in firsts:
            changed = (kinds == "letter") & (firsts[name] == B)
        else:
            changed = _may_have_changed(table, name, sided, winners)
        if _SWAPS.fullmatch(plain_heading(name)):
            changed = changed | _may_have_changed(table, name, kinds == "column", winners)
        refuse(
            table.frame,
            changed,
            "the verdict on {where} is a side, and the column {name!r} may say that sides changed there; "
            "write the methods' names, or columns left and right with the methods as shown",
            name=name,
        )


def _refuse_fixed_sides(table: Table, sided: pd.Series, winners: NDArray[np.object_]) -> None:
    """Refuse constant columns left and right if another column may say that sides changed."""
    on_left, on_right = (table.cells(name)[sided] for name in SHOWN)
    orders = set(zip(on_left, on_right, strict=True))
    is_repeated = len(orders) < len(on_left)
    is_fixed = is_repeated and not any((second, first) in orders for first, second in orders)
    if not is_fixed:
        return
    for name in table.free:
        refuse(
            table.frame,
            _may_have_changed(table, name, sided, winners),
            "left and right never change, but the column {name!r} may say that sides changed on {where}; "
            "write in left and right the methods as shown, or remove that column",
            name=name,
        )


def _may_have_changed(table: Table, name: str, sided: pd.Series, winners: NDArray[np.object_]) -> pd.Series:
    """Return the rows in which texts may have changed sides according to a column that is not clear.

    There are three cases. The heading is about sides, and the column has one or two values other than "no".
    The two values are the same letters in another order, such as AB and BA. Or the column names one method of
    each row, and neither always the first nor always the winner.
    """
    cells, a, b = map(table.cells, (name, *METHODS))
    names_method = (cells == a) | (cells == b)
    if names_method[sided].all():
        is_winner = (cells == winners)[sided].all()
        return sided & (cells != a) & (not is_winner)
    words = cells.fillna("").str.strip().str.casefold()
    values = set(words[sided])
    orders = {"".join(filter(str.isalnum, text)) for text in values}
    letters = {tuple(sorted(order)) for order in orders}
    is_order = orders <= {"ab", "ba"} or len(letters) < len(orders)
    is_about_sides = ABOUT_SIDES.fullmatch(plain_heading(name)) is not None
    may_say = len(values) <= 2 and (is_order or is_about_sides)
    return sided & ~words.isin(_STRAIGHT) & may_say


def _explain(table: Table, kinds: pd.Series, columns: Sequence[str], strong: int) -> None:
    """Record the columns that gave words a meaning, and the number of verdicts that lost their strength."""
    words = sorted(map(repr, table.cells("verdict")[kinds != ""].unique()))
    if words:
        more = f" and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
        how = "read as ties" if set(kinds) <= {"", "tie"} else f"read by {and_list(columns)}"
        table.use("_words", [and_list(words[:_LISTED]) + more], how)
    for word, count in table.cells("verdict")[kinds == "tie"].value_counts().items():
        if _ODD_TIE.fullmatch(str(word)):
            table.notes.append(f"{count} of {word!r} count as ties")
    if strong:
        table.notes.append(f"the strength of {strong} verdicts, such as A>>B, is dropped")


def _use_first(table: Table, kinds: pd.Series, firsts: Mapping[str, Numbers]) -> None:
    """Add the column shown_first if the table has this information."""
    if table.has("shown_first"):
        return
    if table.has(*SHOWN):
        table.set_frame(table.frame.assign(shown_first=table.frame["left"]))
    elif firsts and not (kinds == "letter").any():
        first, *others = firsts.values()
        if all((other == first).all() for other in others):
            a, b = map(table.cells, METHODS)
            table.use(
                "sides", list(firsts), "it says which text was first", shown_first=a.where(first == A, b)
            )
