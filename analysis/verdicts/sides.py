"""Find the method on each side, and the method that a word such as A or "Response 1" means."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import filterfalse

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.table import (
    HEADINGS,
    METHODS,
    NO,
    REQUIRED,
    SHOWN,
    YES,
    Numbers,
    Table,
    has_word,
    is_name_of_aggregate,
    mark_cells,
    means_no_verdict,
    name_yes_or_no,
    names_worse_text,
    refuse_wrong_rows,
)
from analysis.verdicts.words import (
    MEANINGS,
    TIED,
    A,
    B,
    Word,
    find_word_meaning,
    find_word_meanings,
    names_side,
    offer_word_settings,
    simplify_word,
)
from guard_eval.errors import StudyError
from guard_eval.files.headings import differ_only_in_side, simplify_heading, split_heading_words
from guard_eval.records import TIE
from guard_eval.reporting.words import join_first_parts, join_with_and

_ABOUT_SIDES = re.compile(
    r".*(order|position|place|first|second|left|right|side|pos|swap|flip|revers|switch|random|shuffl|presented"
    r"|displayed|shown|invert|mirror|permut|counterbal|arrang|mapping|reihenfolge|seite|links|rechts|tausch"
    r"|ordre|orden|lado|c[oô]t[eé]|gauche|droite|izquierd|derech|顺序|位置|交换|左|右).*"
)
"""Headings of columns that may give the side of a text. Headings with a word of `no_sides` are excluded."""
_SHOWN = "shown|presented|displayed|seen"
_NAMES_SIDE = (
    rf"(is)?({_SHOWN})?({{0}})({_SHOWN})?(model|method|system|strategy|response|text|name)*"
    rf"|(model|method|system|strategy)({_SHOWN}|on)*({{0}})"
)
_NAMES_FIRST = re.compile(_NAMES_SIDE.format("first|left"))
_NAMES_SECOND = re.compile(_NAMES_SIDE.format("second|right"))
"""Headings of a column that names the method shown first, or second."""
_ORDER = re.compile(r".*(order|sides|positions|layout)")
_NOUN = "method|model|system|strategy|response|text|option|answer"
_PLACE = r"({0})s?(position|place|side|pos|order)|(position|place|side|pos)(of)?({0})"
_IS_FIRST = r"(is)?({0})(is|was|on|shown|the|presented|displayed)*(left|first)"
_PLACES = {"1": A, "first": A, "left": A, "2": B, "second": B, "right": B}
_STRAIGHT = NO | {"none", "nan", "original", ""}
"""Cells of a column about swapped sides that mean "not swapped"."""
_SWAPS = re.compile(
    r".*(swap|flip|revers|switch|invert|mirror|backward|counterbal|tauscht|inverti).*|invers(e|é|ed)e?s?"
)
_ODD_TIE = re.compile(r".*(bad|inconsistent).*", re.IGNORECASE)
"""Ties that the reader is told about: both texts are bad, or a judge contradicted itself."""
_WINNING = frozenset((*HEADINGS["marking"], *HEADINGS["names"]["verdict"], "verdict", "best"))
"""Words in the headings of a column that names the winner."""
_NONE = re.compile(r"(no|none|nothing)\b", re.IGNORECASE)
"""The beginning of methods' names that may also mean that there is no verdict."""
_NAMES_OF_SIDES = (r"(?<![a-z])[ab]\b", r"\d", r"left|right", r"first|second")
"""Patterns of words and methods that name a side in the same way."""
_SIDED = ("letter", "place", "column", "declared")
"""The kinds of words that name one of the two texts."""
_LISTED = 12
"""The largest number of words for verdicts that a list names."""


def is_heading_about_sides(heading: str) -> bool:
    """Return whether a column with this heading may give the side of a text.

    >>> is_heading_about_sides("aisleft"), is_heading_about_sides("Duration (in seconds)")
    (True, False)
    """
    return not has_word(heading, "no_sides") and _ABOUT_SIDES.fullmatch(simplify_heading(heading)) is not None


def _parse_first_method(heading: str, cell: str, a: str, b: str) -> int:
    """Return the method that was shown first according to a cell: `A` or `B`, or 0 if unknown."""
    word = cell.strip().casefold()
    named = {"a": A, "b": B, a: A, b: B}
    for pattern, side in ((_NAMES_FIRST, A), (_NAMES_SECOND, B)):
        if pattern.fullmatch(heading):
            return side * named.get(cell, named.get(word, 0))
    letters = "".join(filter(str.isalpha, word))
    if _ORDER.fullmatch(heading) and letters in {"ab", "ba"}:
        return A if letters == "ab" else B
    for letter, method, side in (("[a1]", a, A), ("[b2]", b, B)):
        name = f"({_NOUN})?{letter}|{simplify_heading(method)}"
        if word in _PLACES and re.fullmatch(_PLACE.format(name), heading):
            return side * _PLACES[word]
        if word in YES | NO and re.fullmatch(_IS_FIRST.format(name), heading):
            return side * (B if word in NO else A)
    return 0


def read_sides(table: Table, name: str) -> Numbers:
    """Read from a column the method shown first in each row: `A`, `B`, or 0 if the cell does not say this."""
    heading = simplify_heading(name)
    if not is_heading_about_sides(name):
        return np.zeros(table.size, dtype=np.int64)
    numbers, rows = table.find_distinct_rows(name, *METHODS)
    sides = [_parse_first_method(heading, *map(str, row)) for row in rows]
    return np.array(sides, dtype=np.int64)[numbers]


def replace_words_by_winners(table: Table) -> None:
    """Replace each word for a verdict, such as A, by the preferred method. Count dropped strengths (A>>B).

    Raises:
        StudyError: A word can mean either method.
    """
    words = _read_words(table)
    is_sided = words["is_sided"]
    candidates = (*table.list_existing("shown_first"), *table.columns_without_role)
    all_sides = {name: read_sides(table, name) for name in candidates}
    side_columns = {name: sides for name, sides in all_sides.items() if sides.any()}
    certain = {name: sides for name, sides in side_columns.items() if sides.all()}
    if not certain and not table.shows_sides:
        _refuse_incomplete_sides(table, side_columns, is_sided)
    first = np.full(len(words), A)
    if table.shows_sides:
        first = np.where(words["meaning"].isin(["letter", "place", "declared"]), _read_left(table, words), A)
    elif certain:
        first = np.where(words["meaning"] == "place", next(iter(certain.values())), A)
    sides = words["side"] * first
    by_side = np.select([sides == A, sides == B], [words["a"], words["b"]], TIE)
    _refuse_ambiguous_words(table, words, by_side)
    names = words["verdict"].replace(dict(table.declared_words))
    is_method = (names == words["a"]) | (names == words["b"])
    names = names.mask(mark_cells(names, means_no_verdict) & ~is_method)
    words["winner"] = np.where(words["kind"] == "", names, by_side)
    _refuse_changed_sides(table, words, side_columns, first)
    are_known = table.shows_sides or certain
    columns = _find_columns_of_first_side(table, words, list(certain))
    if is_sided.any() and not are_known and not table.get_heading("sides"):
        table.side_options = offer_word_settings(words["verdict"][is_sided])
    _record_word_meanings(table, words, columns)
    table.set_frame(table.frame.assign(verdict=words["winner"]))
    if are_known and "shown_first" not in table:
        _add_shown_first_column(table, words, certain)


def _read_words(table: Table) -> pd.DataFrame:
    """Return the word of each row, its meaning (`Word`), and the row's methods `a` and `b`.

    The kind of a word that is the name of one of the row's methods is empty, unless the word `is_declared`;
    `meaning` is its other kind. A letter, a place or a heading in another spelling `is_sided`: A, left.
    """
    verdict = table["verdict"].str.strip()
    a, b = (table[name] for name in METHODS)
    meanings = _interpret_words(table, list(verdict.dropna().unique()))
    words = pd.DataFrame(meanings.values(), pd.Index(meanings), Word._fields).reindex(verdict)
    words = words.set_axis(verdict.index).assign(verdict=verdict, a=a, b=b)
    words["side"] = words["side"].fillna(TIED).astype(int)
    words["meaning"] = words["kind"].fillna("")
    words["is_declared"] = verdict.isin(table.declared_words)
    words["is_name"] = ((verdict == a) | (verdict == b)) & ~words["is_declared"]
    words["kind"] = words["meaning"].mask(words["is_name"] | (verdict == TIE), "")
    # With the column model_a, the word "Model A" may be what raters saw.
    headings = [table.get_heading(name) for name in METHODS]
    seen = [
        word
        for word in meanings
        if word not in headings and simplify_heading(word) in map(simplify_heading, headings)
    ]
    is_seen = (words["kind"] == "column") & verdict.isin(seen)
    words["is_sided"] = words["kind"].isin(["letter", "place"]) | is_seen
    return words


def _refuse_incomplete_sides(table: Table, side_columns: Mapping[str, Numbers], sided: pd.Series) -> None:
    """Refuse a column that says only in some rows which text was first, if verdicts name sides."""
    for name, sides in side_columns.items():
        if (sides[sided] != 0).any():
            refuse_wrong_rows(
                table.frame.assign(cell=table[name].fillna("")),
                sided & (sides == 0),
                "the column {name!r} says which method was first, but not on {where}, where it has {cell!r}. "
                "Correct the column, since the verdicts name sides",
                name=name,
            )


def _interpret_words(table: Table, texts: Sequence[str]) -> dict[str, Word]:
    """Return the meaning of each word for a verdict: the declared meaning, or the common meaning.

    The heading of a column of methods means the method in this column. Another word may be a method's name.
    """
    headings = [table.get_heading(name) for name in METHODS]
    common = find_word_meanings(texts, headings)
    # The heading A or left alone may be another side than that of the verdict.
    columns = {
        simplify_heading(name): Word(side, "column")
        for name, side in zip(headings, (A, B), strict=True)
        if name and (not names_side(name) or len(split_heading_words(name)) > 1)
    }
    named = {text: columns[key] for text in texts if (key := simplify_heading(text)) in columns}
    # With the columns model_1 and model_2, the words model_0 and model_1 are numbers and not headings.
    if not named.keys() >= {text for text, word in common.items() if word.kind == "column"}:
        named = {}
    sides = {"a": Word(A, "declared"), "b": Word(B, "declared")}
    if not {"first", "second"}.intersection(table.list_values(*METHODS)):
        sides |= {"first": Word(A, "place"), "second": Word(B, "place")}
    declared = {text: sides.get(value, Word(TIED, "")) for text, value in table.declared_words.items()}
    meanings = dict.fromkeys(texts, Word(TIED, "")) | common | named | declared
    return {text: meanings[text] for text in texts}


def _refuse_ambiguous_words(table: Table, words: pd.DataFrame, by_side: NDArray[np.object_]) -> None:
    """Refuse a word that may name a side, and also a method, a tie or no verdict.

    Args:
        table: A table with verdicts.
        words: The words of the rows (`_read_words`).
        by_side: The winner of each row if the word names a side.
    """
    verdict, kind, meaning = words["verdict"], words["kind"], words["meaning"]
    is_name = words["is_name"]
    is_word = (kind != "") & ~words["is_declared"]
    is_missing = verdict.isna() | mark_cells(verdict, means_no_verdict)
    unknown = verdict[(meaning == "") & ~is_name & ~words["is_declared"] & ~is_missing]
    doubts = pd.Series("", words.index)
    # In a study's own table a verdict is a method's name, whatever the method is called.
    if not all(table.get_heading(name) == name for name in (*REQUIRED, "rater_kind", "presentation")):
        is_other = meaning.isin(_SIDED) & (kind == "") & (by_side != verdict)
        for name in verdict[is_other].unique():
            doubts[is_other & (verdict == name)] = f"a side, or the method {name!r}"
    if kind.isin(["letter", "place", "column"]).any():
        is_nothing = mark_cells(verdict, lambda word: means_no_verdict(word) or bool(_NONE.match(word)))
        is_other = is_nothing | (meaning == "tie")
        doubts[is_name & is_other] = "a method, a tie or no verdict"
    methods = pd.concat([words.loc[is_word, side] for side in "ab"]).dropna().unique()
    for name in filter(find_word_meaning, methods):
        is_alike = mark_cells(verdict, partial(_name_sides_alike, name))
        doubts[is_word & is_alike] = f"a side, or the method {name!r}"
    beside = kind.isin(["", "declared"]) & ~is_missing & (meaning != "tie")
    is_letter = (kind == "letter") & mark_cells(verdict, lambda word: simplify_word(word) in {"a", "b"})
    if beside.any() and len(set(words["side"][kind == "letter"])) == 1:
        doubts[is_letter] = "a side, or something else, such as both"
    refuse_wrong_rows(
        words.assign(doubt=doubts),
        doubts != "",
        "the verdict {verdict!r} on {where} may name {doubt}. Declare what it means: {options}",
        options=offer_word_settings([*verdict[doubts != ""], *unknown]),
    )


def _name_sides_alike(word: str, name: str) -> bool:
    """Return whether both texts name sides with letters, both with numbers, or both with left or first."""
    texts = [simplify_word(text) for text in (word, name)]
    return any(all(re.search(pattern, text) for text in texts) for pattern in _NAMES_OF_SIDES)


def _find_columns_of_first_side(table: Table, words: pd.DataFrame, certain: Sequence[str]) -> Sequence[str]:
    """Return the columns that say which method was on a side.

    Raises:
        StudyError: Verdicts name sides, and no column says this.
    """
    if table.shows_sides:
        return SHOWN
    # If only words of the user name the methods, neither method is A.
    are_declared = not table.get_heading("methods", "a column")
    sided = words["kind"].isin(_SIDED if are_declared else ["place"])
    if not sided.any():
        return METHODS
    if certain and not are_declared:
        return certain
    names = words["verdict"][sided].unique()
    raise StudyError(
        f"the verdicts {join_with_and(map(repr, names))} name sides, and no column says which method "
        "was on which side. Add a column shown_first, or left and right, with the methods. If the sides "
        f"never changed, declare what they mean: {offer_word_settings(names)}"
    )


def _read_left(table: Table, words: pd.DataFrame) -> Numbers:
    """Return the method on the left in each row, `A` or `B`.

    Raises:
        StudyError: The methods on the sides are not the row's methods, or a word may mean a column or a side.
    """
    a, b, on_left, on_right = words["a"], words["b"], *(table[name] for name in SHOWN)
    is_same = ((on_left == a) & (on_right == b)) | ((on_left == b) & (on_right == a))
    refuse_wrong_rows(
        words,
        (words["kind"] != "") & a.notna() & b.notna() & ~is_same,
        "left and right are not the row's methods on {where}; write the same two methods in both",
    )
    refuse_wrong_rows(
        words,
        (words["kind"] == "column") & (on_left != a),
        "the verdict {verdict!r} on {where} may mean a column or a side; write the preferred method",
    )
    return np.where(on_left == a, A, B)


def _refuse_changed_sides(
    table: Table, words: pd.DataFrame, side_columns: Mapping[str, Numbers], first: Numbers
) -> None:
    """Refuse verdicts that name sides, if a column says, or may say, that the methods changed sides.

    Words that the user has declared as method_a and method_b are sides only beside a clear column.
    """
    kind = words["kind"]
    sided = words["is_sided"]
    is_declared = (kind == "declared") & ~words["verdict"].isin(
        find_word_meanings(table.list_values("verdict"))
    )
    if table.shows_sides:
        is_declared[:] = False
        orders = set(zip(*(table[name][sided] for name in SHOWN), strict=True))
        if len(orders) == sided.sum() or any(order[::-1] in orders for order in orders):
            return
    if table.get_heading("sides"):  # the format of the file says where the methods stood
        return
    others = filterfalse(is_name_of_aggregate, filterfalse(names_worse_text, table.columns_without_role))
    for name in dict.fromkeys([*side_columns, *others, *table.list_existing("presentation")]):
        is_swap = _SWAPS.fullmatch(simplify_heading(name)) is not None
        if name in side_columns:
            changed = (sided | is_declared) & (side_columns[name] != first)
        else:
            changed = _mark_possible_swaps(table, name, sided | (is_declared & is_swap), words)
        if is_swap:
            changed |= _mark_possible_swaps(table, name, kind == "column", words)
        # Words that are declared as a and b already would be refused again.
        meanings = MEANINGS
        if is_declared.any():
            meanings = "a method, first or second" if name in side_columns else "a method"
        refuse_wrong_rows(
            table.frame,
            changed,
            "the verdict on {where} is a side, and the column {name!r} may say that sides changed there. "
            "Write the preferred method, or add columns left and right with the methods as shown. If sides "
            "never changed, or the column says which text was first, declare what the words mean: {options}",
            name=table.get_heading(name, name),
            options=offer_word_settings(words["verdict"][kind.isin(_SIDED)], meanings),
        )


def _mark_possible_swaps(table: Table, name: str, sided: pd.Series, words: pd.DataFrame) -> pd.Series:
    """Mark the rows in which an unclear column may say that the texts changed sides.

    If the column names methods, rows that name method_a are not marked, and no row is marked if the column
    always names the winner and its heading says so. (A column with the method at A names all winners, too, if
    one method always wins.) Without methods, rows are marked only if the column has at most two values, and
    if the heading is about sides or the values are orders, such as A and B, or AB and BA. Rows with "no" are
    not marked.
    """
    heading = table.get_heading(name, name)
    is_swap = _SWAPS.fullmatch(simplify_heading(heading)) is not None
    is_about = is_swap or is_heading_about_sides(heading) or _says_which_method_is_a(table, heading)
    first = _find_methods_named_in_cells(table, name)
    cells = table[name].fillna("").str.strip().str.casefold()
    # One empty or unknown cell must not hide what the other cells say.
    filled = sided & ~mark_cells(cells, means_no_verdict)
    texts = list(cells[filled].unique())
    # Such as alpha_left and alpha_right. Names with numbers, such as alpha v1 and alpha v2, tell no place.
    tells_place = len(texts) == 2 and differ_only_in_side(*(re.sub(r"\d", "", text) for text in texts))
    names_methods = (first[filled] != 0).all()
    if texts and names_methods and not tells_place:
        names_winner = (table[name] == words["winner"])[filled].all()
        is_winner = names_winner and not _WINNING.isdisjoint(split_heading_words(heading))
        may_name_first: pd.Series = filled & (first != A)
        return may_name_first & (is_about or not is_winner)
    values = set(map(name_yes_or_no, texts))
    orders = {"".join(filter(str.isalnum, text)) for text in values}
    letters = {tuple(sorted(order)) for order in orders}
    is_order = orders <= {"ab", "ba"} or len(letters) < len(orders) or any(map(_SWAPS.fullmatch, values))
    if orders <= {"a", "b"} and "rater" in table:  # a rater's group says nothing about sides
        is_order = not table.is_determined_by(name, "rater")
    is_order |= tells_place and names_methods
    is_order &= 2 * filled.sum() > sided.sum()  # the right answers of a few check questions are no order
    may_say = len(values) <= 2 and not table.has_decimals(name) and (is_order or is_about)
    return sided & ~cells.isin(_STRAIGHT) & may_say


def _says_which_method_is_a(table: Table, heading: str) -> bool:
    """Return whether a heading says with "is" which method was A or B, such as alpha_is_A or is_A_alpha."""
    words = split_heading_words(heading)
    methods = "|".join(map(simplify_heading, table.list_values(*METHODS)))
    subject = rf"(is|was|shown|as|the|which|{_NOUN}|{methods})*"
    has_is = not {"is", "was"}.isdisjoint(words)
    return has_is and re.fullmatch(rf"{subject}[ab]{subject}", "".join(words)) is not None


def _find_methods_named_in_cells(table: Table, name: str) -> Numbers:
    """Return the method that each cell names, `A` or `B`; 0 if a cell names neither or both.

    A cell may hold more than the name, such as A=gpt or gpt/1.txt.
    """
    numbers, rows = table.find_distinct_rows(name, *METHODS)
    sides = []
    for cell, *methods in rows:
        patterns = [rf"(?<![^\W_]){re.escape(str(method))}(?![^\W_])" for method in methods]
        is_a, is_b = (re.search(pattern, str(cell)) is not None for pattern in patterns)
        sides.append(A * is_a + B * is_b)
    return np.array(sides, dtype=np.int64)[numbers]


def _record_word_meanings(table: Table, words: pd.DataFrame, columns: Sequence[str]) -> None:
    """Record how the words for verdicts were read, and how many verdicts lost their strength (A>>B)."""
    used = words[words["kind"] != ""]
    if not used.empty:
        how = "read as ties" if set(used["kind"]) == {"tie"} else f"read by {join_with_and(columns)}"
        listed = sorted(map(repr, used["verdict"].unique()))
        table.use_columns("_words", [join_first_parts(listed, _LISTED)], how)
    for word, count in used["verdict"][used["kind"] == "tie"].value_counts().items():
        if _ODD_TIE.fullmatch(str(word)):
            table.notes.append(f"{count} of {word!r} count as ties")
    if strong := used["strength"].eq(other=True).sum():
        table.notes.append(f"the strength of {strong} verdicts, such as A>>B, is dropped")


def _add_shown_first_column(table: Table, words: pd.DataFrame, certain: Mapping[str, Numbers]) -> None:
    """Add the column shown_first if the table says which method each rater saw first."""
    if table.shows_sides:
        table.set_frame(table.frame.assign(shown_first=table.frame["left"]))
    elif certain and not (words["kind"] == "letter").any():
        first, *others = certain.values()
        if all((other == first).all() for other in others):
            method = words["a"].where(first == A, words["b"])
            table.use_columns("sides", list(certain), "it says which text was first", shown_first=method)
