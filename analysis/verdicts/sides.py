"""Find the method on each side, and the method that a word such as A or "Response 1" means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
    is_name_of_aggregate,
    means_no_verdict,
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
    format_set_options,
    format_word_setting,
    names_side,
    simplify_word,
)
from guard_eval.errors import StudyError
from guard_eval.files.headings import simplify_heading, split_heading_words
from guard_eval.records import TIE
from guard_eval.reporting.words import join_first_parts, join_with_and

_ABOUT_SIDES = re.compile(
    r".*(order|position|place|first|second|left|right|side|pos|swap|flip|revers|switch|random|shuffl|presented"
    r"|displayed|shown|invert|mirror|permut|counterbal|arrang|mapping).*"
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
_SWAPS = re.compile(r".*(swap|flip|revers|switch|invert|mirror|backward|counterbal|tauscht|inverti).*")
_ODD_TIE = re.compile(r".*(bad|inconsistent).*", re.IGNORECASE)
"""Ties that the reader is told about: both texts are bad, or a judge contradicted itself."""
_WINNING = frozenset((*HEADINGS["marking"], *HEADINGS["names"]["verdict"], "verdict", "best"))
"""Words in the headings of a column that names the winner."""
_NONE = re.compile(r"(no|none|nothing)\b", re.IGNORECASE)
"""The beginning of methods' names that may also mean that there is no verdict."""
_SIDE_OR_METHOD = (
    "the verdict {verdict!r} on {where} may name a side, or the method {name!r}; rename the method"
)
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
    has_other_subject = not set(HEADINGS["no_sides"]).isdisjoint(split_heading_words(heading))
    return not has_other_subject and _ABOUT_SIDES.fullmatch(simplify_heading(heading)) is not None


def _parse_first_method(heading: str, cell: str, a: str, b: str) -> int | None:
    """Return the method that was shown first according to a cell: `A` or `B`, or None if unknown."""
    word = cell.strip().casefold()
    for pattern, first, second in ((_NAMES_FIRST, A, B), (_NAMES_SECOND, B, A)):
        if pattern.fullmatch(heading):
            return {"a": first, "b": second, a: first, b: second}.get(
                cell, {"a": first, "b": second}.get(word)
            )
    letters = "".join(filter(str.isalpha, word))
    if _ORDER.fullmatch(heading) and letters in {"ab", "ba"}:
        return A if letters == "ab" else B
    for letter, method, side in (("[a1]", a, A), ("[b2]", b, B)):
        name = f"({_NOUN})?{letter}|{re.escape(simplify_heading(method))}"
        if word in _PLACES and re.fullmatch(_PLACE.format(name), heading):
            return side * _PLACES[word]
        if word in YES | NO and re.fullmatch(_IS_FIRST.format(name), heading):
            return -side if word in NO else side
    return None


def read_sides(table: Table, name: str) -> Numbers:
    """Read from a column the method shown first in each row: `A`, `B`, or 0 if the cell does not say this."""
    heading = simplify_heading(name)
    if not is_heading_about_sides(name):
        return np.zeros(len(table.frame), dtype=np.int64)
    numbers, rows = table.find_distinct_rows(name, *METHODS)
    sides = [_parse_first_method(heading, *map(str, row)) or 0 for row in rows]
    return np.array(sides, dtype=np.int64)[numbers]


def read_first_method(table: Table, name: str) -> Numbers | None:
    """Read from a column the method shown first in each row, `A` or `B`; None if it does not say this."""
    sides = read_sides(table, name)
    return sides if (sides != 0).all() else None


def replace_words_by_winners(table: Table) -> None:
    """Replace each word for a verdict, such as A, by the preferred method. Count dropped strengths (A>>B).

    Raises:
        StudyError: A word can mean either method.
    """
    verdict = table.get_cells("verdict").str.strip()
    a, b = map(table.get_cells, METHODS)
    meanings = _interpret_verdict_words(table)
    words = pd.DataFrame(meanings.values(), pd.Index(meanings), Word._fields)
    words = words.reindex(verdict).set_axis(verdict.index)
    is_named = (verdict == a) | (verdict == b) | (verdict == TIE)
    all_kinds = words["kind"].fillna("")
    word_kinds = all_kinds.mask(is_named, "")
    names = verdict.replace(dict(table.declared.words))
    is_missing = names.isin(list(filter(means_no_verdict, names.dropna().unique())))
    names = names.mask(is_missing & (names != a) & (names != b))
    candidates = [name for name in ("shown_first", *table.columns_without_role) if table.has_columns(name)]
    first_methods = {
        name: first for name in candidates if (first := read_first_method(table, name)) is not None
    }
    if not first_methods and not table.has_columns(*SHOWN):
        _refuse_incomplete_sides(table, candidates, word_kinds)
    _refuse_methods_named_like_sides(table, word_kinds)
    _refuse_lone_letter(table, word_kinds)
    _refuse_methods_named_like_no_verdict(table, word_kinds, is_named & (verdict != TIE))
    columns, first = _find_methods_on_first_side(table, word_kinds, first_methods)
    sides = words["side"].fillna(TIED).to_numpy(np.int64)
    # In a study's own table a verdict is a method's name, whatever the method is called.
    if not all(table.get_heading(name) == name for name in (*REQUIRED, "rater_kind", "presentation")):
        _refuse_ambiguous_side_names(table, all_kinds.where(is_named, ""), first_methods, sides)
    sides = sides * first
    winners = np.select([word_kinds == "", sides == A, sides == B], [names, a, b], TIE)
    _refuse_changed_sides(table, word_kinds, first_methods, first, winners)
    _refuse_declared_sides(table, word_kinds, first_methods, winners)
    if not columns:
        raise StudyError(_write_question_about_sides(table, word_kinds))
    if not (first_methods or table.has_columns(*SHOWN) or table.get_heading("sides")):
        table.side_options = _format_side_settings(table, word_kinds)
    _record_word_meanings(table, word_kinds, columns, int((words["strength"].eq(True) & ~is_named).sum()))
    table.set_frame(table.frame.assign(verdict=winners))
    _add_shown_first_column(table, word_kinds, first_methods)


def _interpret_verdict_words(table: Table) -> dict[str, Word]:
    """Return the meaning of each word for a verdict: the declared meaning, or the common meaning.

    The heading of a column of methods means the method in this column. Another word may be a method's name.
    """
    texts = table.get_cells("verdict").str.strip().dropna().unique()
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
    declared = {text: sides.get(value, Word(TIED, "")) for text, value in table.declared.words.items()}
    meanings = dict.fromkeys(texts, Word(TIED, "")) | common | named | declared
    return {text: meanings[text] for text in texts}


def _refuse_incomplete_sides(table: Table, names: Sequence[str], word_kinds: pd.Series) -> None:
    """Refuse a column that says only in some rows which text was first, if verdicts name sides."""
    sided = word_kinds.isin(["letter", "place"])
    for name in names:
        sides = read_sides(table, name)
        if (sides[sided] != 0).any():
            refuse_wrong_rows(
                table.frame.assign(cell=table.get_cells(name).fillna("")),
                sided & (sides == 0),
                "the column {name!r} says which method was first, but not on {where}, where it has {cell!r}. "
                "Correct the column, since the verdicts name sides",
                name=name,
            )


def _refuse_methods_named_like_sides(table: Table, word_kinds: pd.Series) -> None:
    """Refuse words for sides that can also be the name of a method, such as A and System A.

    With the columns left and right, a method may be called A.
    """
    is_clear = table.has_columns(*SHOWN) and set(word_kinds) <= {"", "place", "tie"}
    is_word = ~word_kinds.isin(["", "declared"])
    verdict = table.get_cells("verdict").str.strip()
    methods = pd.concat([table.get_cells(name)[is_word] for name in METHODS]).dropna().unique()
    for name in methods:
        meaning = find_word_meaning(name)
        if meaning is None or (is_clear and meaning.kind == "letter"):
            continue
        is_side = simplify_word(name) in {"a", "b"} or meaning.kind == "tie"
        alike = [word for word in verdict[is_word].unique() if is_side or _name_sides_alike(word, name)]
        is_doubtful = is_word & verdict.isin(alike)
        refuse_wrong_rows(table.get_texts("verdict"), is_doubtful, _SIDE_OR_METHOD, name=name)


def _name_sides_alike(word: str, name: str) -> bool:
    """Return whether both texts name sides with letters, both with numbers, or both with left or first."""
    texts = [simplify_word(text) for text in (word, name)]
    return any(all(re.search(pattern, text) for text in texts) for pattern in _NAMES_OF_SIDES)


def _refuse_lone_letter(table: Table, word_kinds: pd.Series) -> None:
    """Refuse the verdict B without the verdict A beside other words: B may mean both."""
    verdict = table.get_cells("verdict").str.strip()
    letters = verdict[word_kinds == "letter"]
    is_bare = letters.map(simplify_word).isin(["a", "b"])
    meanings = _interpret_verdict_words(table)
    beside = verdict[word_kinds.isin(["", "declared"])].dropna().unique()
    others = [text for text in beside if not means_no_verdict(text) and meanings[text].kind != "tie"]
    if others and is_bare.any() and len({meanings[text].side for text in letters}) == 1:
        word = letters[is_bare].iloc[0]
        explained = {*table.list_values(*METHODS), *table.declared.words}
        unknown = [text for text in others if text not in explained and not meanings[text].kind]
        raise StudyError(
            f"the verdict {word!r} may name a side or mean something else, such as both, because other "
            f"verdicts are {join_with_and(list(map(repr, others[:3])))}. Declare its meaning: "
            f"{format_set_options(*map(format_word_setting, [word, *unknown]))} ({MEANINGS})"
        )


def _refuse_methods_named_like_no_verdict(table: Table, word_kinds: pd.Series, is_method: pd.Series) -> None:
    """Refuse the verdict "none" if a method is called none, and other verdicts name sides."""
    verdict = table.get_cells("verdict").str.strip()
    names = [name for name in verdict.unique() if means_no_verdict(str(name)) or _NONE.match(str(name))]
    is_method &= verdict.isin(names) & ~verdict.isin(table.declared.words)
    sided = verdict[word_kinds.isin(["letter", "place", "column"])]
    if is_method.any() and not sided.empty:
        name = verdict[is_method].iloc[0]
        options = [format_set_options(format_word_setting(name, value)) for value in (name, "tie", "")]
        refuse_wrong_rows(
            table.frame,
            is_method & (verdict == name),
            "the verdict {name!r} on {where} is the name of a method, and other verdicts are sides such as "
            "{side!r}. If it means this method, write {method}. If it is a tie, write {tie}. If it is no "
            "verdict, write {missing}",
            name=name,
            side=sided.iloc[0],
            method=options[0],
            tie=options[1],
            missing=options[2],
        )


def _refuse_ambiguous_side_names(
    table: Table, word_kinds: pd.Series, first_methods: Mapping[str, Numbers], sides: Numbers
) -> None:
    """Refuse verdicts such as A if the method named A is not the method on side A."""
    sided = word_kinds.isin(_SIDED)
    if sided.any():
        _, first = _find_methods_on_first_side(table, word_kinds.where(sided, ""), first_methods)
        verdict, a, b = map(table.get_cells, ("verdict", *METHODS))
        differs = sided & (np.where(sides * first == A, a, b) != verdict.str.strip())
        refuse_wrong_rows(table.get_texts("verdict"), differs, _SIDE_OR_METHOD, name=verdict[sided].iloc[0])


def _find_methods_on_first_side(
    table: Table, word_kinds: pd.Series, first_methods: Mapping[str, Numbers]
) -> tuple[Sequence[str], Numbers]:
    """Return the columns that give words their meaning, and the method on the first side in each row.

    The first side is a place or a letter. Without columns left and right, the letter A means method_a.

    Raises:
        StudyError: The columns of sides do not fit the methods.
    """
    if table.has_columns(*SHOWN):
        return SHOWN, np.where(
            word_kinds.isin(["letter", "place", "declared"]), _read_left_method(table, word_kinds), A
        )
    is_place = word_kinds == "place"
    columns: Sequence[str] = list(first_methods) if is_place.any() else METHODS
    if table.get_heading("methods", "a column") == "" and word_kinds.isin(_SIDED).any():
        columns = ()  # only words of the user name the methods, so neither of them is A
    return columns, np.where(is_place, next(iter(first_methods.values()), A), A)


def _write_question_about_sides(table: Table, word_kinds: pd.Series) -> str:
    """Write the message that asks which method was on a side such as left or A."""
    are_declared = not table.get_heading("methods", "a column")
    words = table.get_cells("verdict")[word_kinds.isin(_SIDED if are_declared else ["place"])].unique()
    remedy = f"If the first was always method_a: {_format_side_settings(table, word_kinds)}"
    if are_declared:
        offers = [format_word_setting(text, "METHOD") for text in words]
        remedy = f"If the sides never changed: {format_set_options(*offers)}"
    return (
        f"the verdicts {join_with_and(list(map(repr, words)))} name sides, and no column says which method "
        f"was on which side. Add a column shown_first, or left and right, with the methods. {remedy}"
    )


def _format_side_settings(table: Table, word_kinds: pd.Series) -> str:
    """Write the options that declare each word for a side as method_a or method_b."""
    words = table.get_cells("verdict")[word_kinds.isin(["letter", "place"])].unique()
    meanings = _interpret_verdict_words(table)
    sides = ["a" if meanings[text.strip()].side == A else "b" for text in words]
    sides = [
        "METHOD" if text in table.declared.words else side for text, side in zip(words, sides, strict=True)
    ]
    return format_set_options(*map(format_word_setting, words, sides))


def _read_left_method(table: Table, word_kinds: pd.Series) -> Numbers:
    """Return the method on the left in each row, `A` or `B`.

    Raises:
        StudyError: The methods on the sides are not the row's methods, or a word may mean a column or a side.
    """
    texts = table.get_texts("verdict")
    a, b, on_left, on_right = map(table.get_cells, (*METHODS, *SHOWN))
    is_same = ((on_left == a) & (on_right == b)) | ((on_left == b) & (on_right == a))
    refuse_wrong_rows(
        texts,
        (word_kinds != "") & a.notna() & b.notna() & ~is_same,
        "left and right are not the row's methods on {where}; write the same two methods in both",
    )
    refuse_wrong_rows(
        texts,
        (word_kinds == "column") & (on_left != a),
        "the verdict {verdict!r} on {where} may mean a column or a side; write the preferred method",
    )
    return np.where(on_left == a, A, B)


def _refuse_changed_sides(
    table: Table,
    word_kinds: pd.Series,
    first_methods: Mapping[str, Numbers],
    first: Numbers,
    winners: NDArray[np.object_],
) -> None:
    """Refuse verdicts that name sides, if a column says, or may say, that the methods changed sides."""
    sided = word_kinds.isin(["letter", "place"])
    if table.has_columns(*SHOWN):
        orders = set(zip(*(table.get_cells(name)[sided] for name in SHOWN), strict=True))
        if len(orders) == sided.sum() or any(order[::-1] in orders for order in orders):
            return
    if table.get_heading("sides"):  # the format of the file says where the methods stood
        return
    others = [name for name in table.columns_without_role if not is_name_of_aggregate(name)]
    others = [name for name in others if not names_worse_text(name)]
    others += filter(table.has_columns, ["presentation"])
    for name in dict.fromkeys([*first_methods, *others]):
        if name in first_methods:
            changed = sided & (first_methods[name] != first)
        else:
            changed = _mark_possible_swaps(table, name, sided, winners)
        if _SWAPS.fullmatch(simplify_heading(name)):
            changed = changed | _mark_possible_swaps(table, name, word_kinds == "column", winners)
        refuse_wrong_rows(
            table.frame,
            changed,
            "the verdict on {where} is a side, and the column {name!r} may say that sides changed there; "
            "write the preferred method, or add columns left and right with the methods as shown. If sides "
            "never changed: {options}",
            name=table.get_heading(name, name),
            options=_format_side_settings(table, word_kinds),
        )


def _refuse_declared_sides(
    table: Table,
    word_kinds: pd.Series,
    first_methods: Mapping[str, Numbers],
    winners: NDArray[np.object_],
) -> None:
    """Refuse a word such as 1, declared as method_a, if a column says that the methods changed sides."""
    verdict = table.get_cells("verdict").str.strip()
    is_declared = (word_kinds == "declared") & ~verdict.isin(find_word_meanings(verdict.dropna().unique()))
    if table.has_columns(*SHOWN) or not is_declared.any():
        return
    words = verdict[is_declared].unique()
    is_first = [table.declared.words[word] == "a" for word in words]
    places = [
        format_word_setting(word, "first" if a else "second") for word, a in zip(words, is_first, strict=True)
    ]
    methods = [format_word_setting(word, "METHOD") for word in words]
    swaps = [name for name in table.columns_without_role if _SWAPS.fullmatch(simplify_heading(name))]
    for name in dict.fromkeys([*first_methods, *swaps]):
        if name in first_methods:
            changed = is_declared & (first_methods[name] != A)
            remedy = f"If they name the text shown first or second, write {format_set_options(*places)}"
        else:
            changed = _mark_possible_swaps(table, name, is_declared, winners)
            remedy = (
                "If they name the text shown first or second, add columns left and right with the methods"
            )
        refuse_wrong_rows(
            table.frame,
            changed,
            "the verdicts {words} are declared as a and b, and the column {name!r} may say that the methods "
            "changed sides on {where}. {remedy}. If they name methods, write {methods}",
            words=join_with_and(list(map(repr, words))),
            name=table.get_heading(name, name),
            remedy=remedy,
            methods=format_set_options(*methods),
        )


def _mark_possible_swaps(
    table: Table, name: str, sided: pd.Series, winners: NDArray[np.object_]
) -> pd.Series:
    """Mark the rows in which an unclear column may say that the texts changed sides.

    If the column names methods, rows that name method_a are not marked, and no row is marked if the column
    always names the winner and its heading says so. (A column with the method at A names all winners, too, if
    one method always wins.) Without methods, rows are marked only if the column has at most two values, and
    if the heading is about sides or the values are orders, such as A and B, or AB and BA. Rows with "no" are
    not marked.
    """
    heading = table.get_heading(name, name)
    is_about = is_heading_about_sides(heading) or _says_which_method_is_a(table, heading)
    first = _find_methods_named_in_cells(table, name)
    words = table.get_cells(name).fillna("").str.strip().str.casefold()
    # One empty or unknown cell must not hide what the other cells say.
    filled = sided & (words != "") & ~words.map(means_no_verdict)
    if filled.any() and (first[filled] != 0).all():
        names_winner = (table.get_cells(name) == winners)[filled].all()
        is_winner = names_winner and not _WINNING.isdisjoint(split_heading_words(heading))
        may_name_first: pd.Series = filled & (first != A)
        return may_name_first & (is_about or not is_winner)
    values = {"no" if word in NO else "yes" if word in YES else word for word in words[filled].unique()}
    orders = {"".join(filter(str.isalnum, text)) for text in values}
    letters = {tuple(sorted(order)) for order in orders}
    is_order = orders <= {"ab", "ba"} or len(letters) < len(orders) or any(map(_SWAPS.fullmatch, values))
    if orders <= {"a", "b"} and table.has_columns("rater"):  # a rater's group says nothing about sides
        is_order = not table.is_determined_by(name, ["rater"])
    is_order &= 2 * filled.sum() > sided.sum()  # the right answers of a few check questions are no order
    may_say = len(values) <= 2 and (is_order or is_about)
    return sided & ~words.isin(_STRAIGHT) & may_say


def _says_which_method_is_a(table: Table, heading: str) -> bool:
    """Return whether a heading says with "is" which method was A or B, such as alpha_is_A or is_A_alpha."""
    words = split_heading_words(heading)
    methods = "|".join(map(re.escape, map(simplify_heading, table.list_values(*METHODS))))
    subject = rf"(is|was|shown|as|the|which|{_NOUN}|{methods})*"
    return {"is", "was"} & set(words) != set() and bool(
        re.fullmatch(rf"{subject}[ab]{subject}", "".join(words))
    )


def _find_methods_named_in_cells(table: Table, name: str) -> Numbers:
    """Return the method that each cell names, `A` or `B`; 0 if a cell names neither or both.

    A cell may hold more than the name, such as A=gpt or gpt/1.txt.
    """
    numbers, rows = table.find_distinct_rows(name, *METHODS)
    sides = []
    for cell, *methods in rows:
        named = [_contains_whole_word(str(cell), str(method)) for method in methods]
        sides.append(A * named[0] + B * named[1])
    return np.array(sides, dtype=np.int64)[numbers]


def _contains_whole_word(text: str, word: str) -> bool:
    """Return whether a text contains a whole word, with no letter or digit directly before or after."""
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) is not None


def _record_word_meanings(table: Table, word_kinds: pd.Series, columns: Sequence[str], strong: int) -> None:
    """Record how the words for verdicts were read, and how many verdicts lost their strength (A>>B)."""
    words = sorted(map(repr, table.get_cells("verdict")[word_kinds != ""].unique()))
    if words:
        how = "read as ties" if set(word_kinds) <= {"", "tie"} else f"read by {join_with_and(columns)}"
        table.use_columns("_words", [join_first_parts(words, _LISTED)], how)
    for word, count in table.get_cells("verdict")[word_kinds == "tie"].value_counts().items():
        if _ODD_TIE.fullmatch(str(word)):
            table.notes.append(f"{count} of {word!r} count as ties")
    if strong:
        table.notes.append(f"the strength of {strong} verdicts, such as A>>B, is dropped")


def _add_shown_first_column(
    table: Table, word_kinds: pd.Series, first_methods: Mapping[str, Numbers]
) -> None:
    """Add the column shown_first if the table says which method each rater saw first."""
    if table.has_columns("shown_first"):
        return
    if table.has_columns(*SHOWN):
        table.set_frame(table.frame.assign(shown_first=table.frame["left"]))
    elif first_methods and not (word_kinds == "letter").any():
        first, *others = first_methods.values()
        if all((other == first).all() for other in others):
            a, b = map(table.get_cells, METHODS)
            table.use_columns(
                "sides",
                list(first_methods),
                "it says which text was first",
                shown_first=a.where(first == A, b),
            )
