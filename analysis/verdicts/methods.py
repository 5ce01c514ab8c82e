"""Find the two methods that each row of a table compares."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, filterfalse, product
from statistics import multimode

import pandas as pd

from analysis.verdicts.table import (
    FEWEST_ROWS,
    HEADINGS,
    ITEMS,
    METHODS,
    NO,
    SHOWN,
    Table,
    has_word,
    means_no_verdict,
    name_yes_or_no,
    names_worse_text,
    refuse_wrong_rows,
)
from analysis.verdicts.words import (
    NUMBER,
    SYSTEM_NOUNS,
    find_word_meaning,
    format_set_options,
    format_word_setting,
    is_tie,
)
from guard_eval.errors import StudyError
from guard_eval.files.headings import (
    differ_only_in_side,
    prefer_plain_headings,
    simplify_heading,
    split_heading_words,
)
from guard_eval.records import TIE
from guard_eval.reporting.words import join_first_parts, join_with_and

MOSTLY_ONCE = 0.8
"""Supposed names of methods are texts if at least this share is too long or in only one pair of methods."""
MOSTLY_IDS = 0.5
"""A column names items of another file if more than this share of its different cells are their ids."""
FEWEST_COUPLES = 4
"""With fewer pairs of methods, names that occur in only one pair are still names and not texts."""
LONGEST_NAME, MOST_WORDS = 80, 10
"""The largest number of characters and of words in the name of a method. Longer cells are texts."""

Couple = tuple[str, str]
SYSTEMS = f"(?:{SYSTEM_NOUNS})"
TEXTS = "(?:response|text|option|output|answer|assistant|completion)"
"""A regular expression of nouns in headings that mean a text. `SYSTEMS` has the nouns that mean a system."""
_COUPLE = (
    r"(?:name)?{0}(?:name|id)?(a|0|1|left)(?:name|id)?"
    r"|(left|first){0}(?:name)?|(a|left)|[a-z]*?(a|0|1|left){0}(?:name|id)?"
)
"""A heading of the first of two methods or texts. The only group that matches is the side."""
_SECOND = {"a": "b", "0": "1", "1": "2", "left": "right", "first": "second"}
_WINNER = re.compile(rf"({SYSTEMS}|name|id)*({'|'.join(HEADINGS['marking'])})({SYSTEMS}|name|id)*")
_THIRD = {"a": "c", "0": "2", "1": "3", "left": "center"}


def find_methods(table: Table) -> None:
    """Find the two methods of each row and call their columns method_a and method_b.

    Raises:
        StudyError: Several columns can be the methods.
    """
    for nouns in (SYSTEMS, "rank"):
        find_method_headings(table.names, nouns)  # refuses three methods, whatever their columns are called
    is_joined = bool(table.get_heading("methods"))
    are_named = table.has_methods or find_method_headings(table.names, SYSTEMS)
    if table.items is not None and are_named and not is_joined:
        _join_items_with_same_methods(table, table.items)
    if table.has_methods:
        return
    if lone := [name for name in METHODS if name in table]:
        [missing] = set(METHODS).difference(lone)
        raise StudyError(
            f"the table has {lone[0]} but no {missing}; say which column is: --set columns.{missing}=HEADING"
        )
    named = _list_declared_methods(table)
    if _use_method_columns(table, SYSTEMS):
        return
    if table.is_survey and "pair_id" not in table:
        return  # the methods are searched again when each pair has a row
    if table.items is not None:
        _join_items(table, table.items)
    elif _use_winner_and_loser_columns(table):
        return
    elif len(named) == 2:
        table.use_columns(
            "methods", (), f"declared: {join_with_and(named)}", method_a=named[0], method_b=named[1]
        )
    else:
        _use_method_columns(table, TEXTS)


def _list_declared_methods(table: Table) -> list[str]:
    """Return the methods that the user has declared as the meanings of words."""
    return sorted(set(table.declared_words.values()) - {"a", "b", "first", "second", TIE, ""})


def explain_how_to_declare_methods(table: Table, columns: Sequence[str]) -> str:
    """Write how to declare the methods, with the headings and the names in cells that may be the methods.

    Args:
        table: A table without methods.
        columns: The columns whose cells may name the methods.
    """
    vocabularies = [set(map(simplify_heading, table.list_values(name))) for name in table.names]
    headings, say, names = ("HEADING", "HEADING"), "Say which columns do:", None
    candidates = _list_couples_of_name_columns(table)
    for couple in [*combinations(table.columns_without_role, 2), *candidates]:
        are_named = any(words.issuperset(map(simplify_heading, couple)) for words in vocabularies)
        is_likely = are_named or differ_only_in_side(*couple) or couple in candidates
        if is_likely and _may_hold_methods(table, *couple):
            headings, say = couple, "If two columns do, write"
            names = couple if are_named else None
            break
    settings = (f"columns.{name}={heading}" for name, heading in zip(METHODS, headings, strict=True))
    offer = f"{say} {format_set_options(*settings)}"
    if len(declared := _list_declared_methods(table)) > len(METHODS):
        return f"{offer}. {len(declared)} methods are declared, and nothing says which two a row compares"
    for sources in (columns, table.columns_without_role):
        names = names or _find_methods_in_cells(table, sources)
    if names and set(names) <= set(table.list_values(*headings)):
        return offer  # as words, these names would make verdicts of the columns of methods
    if not names:
        option = format_word_setting("NAME", "NAME")
        return f"{offer}. If only cells name the methods, declare both names: {format_set_options(option)}"
    options = format_set_options(*(format_word_setting(name, name) for name in names))
    return f"{offer}. If {names[0]!r} and {names[1]!r} are the methods, write {options}"


def _list_couples_of_name_columns(table: Table) -> list[Couple]:
    """Return couples of columns that share names, or whose names a third column has, too, as the winners."""
    columns = {name: set(table.list_values(name)) for name in table.columns_without_role}
    columns = {name: texts for name, texts in columns.items() if not any(map(find_word_meaning, texts))}
    couples = []
    for name, other in combinations(columns, 2):
        both = columns[name] | columns[other]
        winners = [text for text in columns if text not in {name, other} and both <= columns[text]]
        if len(both) > 1 and (winners or not columns[name].isdisjoint(columns[other])):
            couples.append((name, other))
    return couples


def names_author_of_each_text(table: Table, name: str) -> bool:
    """Return whether a column may name the method that wrote a row's only text, because the rows rate texts.

    In each item each method has the same number of rows, but verdicts differ between items.
    """
    names = table.list_values(name)
    is_other = any(map(find_word_meaning, names)) or any(map(NUMBER.fullmatch, names))
    if is_other or len(names) < 2 or len(names) * FEWEST_ROWS > table.size:
        return False
    items = [other for other in table.find_headings(ITEMS) if other != name and table.is_filled(other)]
    for item in items:
        counts = pd.crosstab(table[item], table[name])
        if len(counts) >= FEWEST_ROWS and counts.to_numpy().all() and len(counts.drop_duplicates()) == 1:
            return True
    return False


def _may_hold_methods(table: Table, first: str, second: str) -> bool:
    """Return whether the cells of two columns can be names of methods, not texts, marks or verdicts.

    Names repeat, or the same name is in both columns, but never in one row.
    """
    names, others = (set(table.list_values(name)) for name in (first, second))
    both = names | others
    is_mark = table.is_boolean(first) and not NO.isdisjoint(map(str.casefold, both))
    is_other = is_mark or all(map(NUMBER.fullmatch, both)) or any(map(find_word_meaning, both))
    are_different = not (table[first] == table[second]).any()
    repeat = not names.isdisjoint(others) or len(both) * FEWEST_ROWS <= table.size
    return bool(names and others) and are_different and repeat and not is_other


def _find_methods_in_cells(table: Table, columns: Sequence[str]) -> Couple | None:
    """Return the two names in all columns together, or the two names that most columns have.

    Columns that name prompts, pairs or raters do not count.
    """
    named = {*ITEMS, *HEADINGS["names"]["rater"]}
    columns = [name for name in columns if simplify_heading(name) not in named]
    columns = list(filterfalse(table.has_only_lists, columns))
    sources = [columns, *([name] for name in columns)]
    couples = filter(None, (_find_two_method_names(table, source) for source in sources))
    most_frequent = multimode(couples)
    return most_frequent[0] if len(most_frequent) == 1 else None


def _find_two_method_names(table: Table, columns: Sequence[str]) -> Couple | None:
    """Return the names in these columns, without ties, if there are exactly two."""
    cells = map(str.strip, filterfalse(means_no_verdict, table.list_values(*columns)))
    names = sorted({text for text in filterfalse(find_word_meaning, cells) if len(text) <= LONGEST_NAME})
    if len(names) != 2 or any(map(NUMBER.fullmatch, names)) or differ_only_in_side(*names):
        return None
    if {"yes", "no"}.issuperset(map(name_yes_or_no, names)):
        return None
    return names[0], names[1]


def find_method_headings(headings: Sequence[str], nouns: str) -> list[tuple[Couple, bool]]:
    """Return couples of headings that can mean two methods, and whether they mean the left and right side.

    >>> find_method_headings(["model_a", "model_b", "left", "right"], "model")
    [(('model_a', 'model_b'), False), (('left', 'right'), True)]

    Raises:
        StudyError: There is a heading of a third method.
    """
    names = prefer_plain_headings(headings)
    count = Counter(map(simplify_heading, names))  # inputs.model_a and outputs.model_a may differ
    plain = {key: name for name in names if count[key := simplify_heading(name)] == 1}
    matches = filter(None, (re.fullmatch(_COUPLE.format(nouns), text) for text in plain))
    couples = []
    for match in matches:
        begin, end = match.span(match.lastindex or 0)
        side = match.string[begin:end]
        pattern = match.string[:begin] + "{}" + match.string[end:]
        first = plain[match.string]
        second = plain.get(pattern.format(_SECOND[side]))
        third = plain.get(pattern.format(_THIRD.get(side)))
        if third is not None:
            raise StudyError(
                f"{first} and {third} are two of three or more options, but a verdict compares two; write a "
                "row for each two options, with the better one"
            )
        if second is not None:
            couples.append(((first, second), side in {"left", "first"}))
    return couples


def _use_method_columns(table: Table, nouns: str) -> bool:
    """Find the two columns of methods. If columns name only the methods on the left and right, use these."""
    couples = find_method_headings(table.names, nouns)
    # Columns with more values, such as A and B beside model_a and model_b, hold the texts.
    couples.sort(key=lambda couple: table.count_distinct_rows(*couple[0]))
    named = [couple for couple, is_shown in couples if not is_shown]
    if len({table.count_distinct_rows(*couple) for couple in named}) == len(named):
        named = [couple for couple in named if couple == named[0] or len(couple[0]) > 1]
    candidates = named or [couple for couple, _ in couples]
    if len({tuple(table.number_rows(*couple)) for couple in candidates}) > 1:
        listed = join_with_and(" and ".join(couple) for couple in candidates)
        raise StudyError(f"the methods could be {listed}; rename the right ones to method_a and method_b")
    if named:
        for heading, name in zip(named[0], METHODS, strict=True):
            table.use_columns(name, [heading], "its name", **{name: table.frame[heading]})
    elif candidates:
        on_left, on_right = (table.frame[heading] for heading in candidates[0])
        sides = {"left": on_left, "right": on_right, "method_a": on_left, "method_b": on_right}
        table.use_columns("methods", candidates[0], "the sides as shown", **sides)
    return bool(candidates)


def _use_winner_and_loser_columns(table: Table) -> bool:
    """Use columns of a winner and a loser: sort both methods by name, and use the winner as the verdict."""
    winners = [name for name in table.names if _WINNER.fullmatch(simplify_heading(name))]
    losers = filter(names_worse_text, table.names)
    couples = [couple for couple in product(winners, losers) if differ_only_in_side(*couple)]
    if not couples:
        return False
    columns = max(couples, key=lambda couple: len(couple[0]))
    won, lost = (table[name] for name in columns)
    tied = list(filter(is_tie, table.list_values(*columns)))
    refuse_wrong_rows(
        table.frame,
        won.isin(tied) | lost.isin(tied),
        "{heading} is a tie on {where}, so nothing says which methods tied; write columns "
        "method_a, method_b and verdict",
        heading=columns[0],
    )
    is_first = won.fillna("") < lost.fillna("")
    why = "the first won against the second"
    methods = {"method_a": won.where(is_first, lost), "method_b": lost.where(is_first, won)}
    table.record_role("methods", ", ".join(columns), why)
    are_equal = _mark_equal_ratings(table)
    table.use_columns("verdict", columns, why, verdict=won.mask(are_equal, TIE), **methods)
    if are_equal.any():
        table.notes.append(f"{are_equal.sum()} rows with equal ratings of both texts are read as ties")
    return True


def _mark_equal_ratings(table: Table) -> pd.Series:
    """Mark the rows in which two columns of ratings, such as chosen_rating and rejected_rating, are equal."""
    are_equal = pd.Series(data=False, index=table.frame.index)
    ratings = [name for name in table.columns_without_role if has_word(name, "measures")]
    for name, other in combinations(ratings, 2):
        if differ_only_in_side(name, other):
            gains = pd.to_numeric(table[name], errors="coerce") - pd.to_numeric(table[other], errors="coerce")
            # Ratings that contradict the winner in a row are no ratings of the winner and the loser.
            is_consistent = (gains > 0).any() and not (gains < 0).any()
            if is_consistent or any(map(names_worse_text, (name, other))):
                are_equal |= table[name] == table[other]
    for name in table.columns_without_role:
        if "margin" in split_heading_words(name):
            are_equal |= pd.to_numeric(table[name], errors="coerce") == 0
    return are_equal


def _join_items_with_same_methods(table: Table, items: pd.DataFrame) -> None:
    """Add the columns of a file of items to a table if both name the methods.

    Raises:
        StudyError: The two files do not name the same methods in the same order.
    """
    if not table.has_methods:
        _use_method_columns(table, SYSTEMS)
    methods = table.get_texts(*METHODS).astype(object)
    table.set_frame(table.frame.drop(columns=list(METHODS)))
    _join_items(table, items)
    if not table.has_methods or not methods.equals(table.get_texts(*METHODS).astype(object)):
        raise StudyError(
            "these rows have methods, and another file has other methods for the same items. Remove the "
            "methods from the file that does not say which method was A and which was B"
        )


def _join_items(table: Table, items: pd.DataFrame) -> None:
    """Add the columns of a file of items to each row."""

    def share_of_ids(name: str) -> float:
        texts = table.list_values(name)
        return len(set(items.index).intersection(texts)) / max(1, len(texts))

    names = [*table.columns_without_role, *table.list_existing("pair_id")]
    name = max(names, key=share_of_ids, default="")
    if share_of_ids(name) <= MOSTLY_IDS:
        return
    ids = table[name].fillna("")
    if unknown := sorted(set(ids) - set(items.index)):
        ids_in_file = join_first_parts(sorted(map(repr, items.index)), 3, join=", ")
        raise StudyError(
            f"no item has the id {unknown[0]!r}; add the item to the file with the methods, which has "
            f"{ids_in_file}"
        )
    new = items.drop(columns=table.names, errors="ignore").loc[ids].set_axis(ids.index)
    table.use_columns("methods", [name], "another file names the methods of each", **new)
    refuse_sides_as_methods(table)


def refuse_sides_as_methods(table: Table) -> None:
    """Refuse methods with the name of a side, such as left, if the answers name sides.

    Raises:
        StudyError: A method has the name of a side.
    """
    if called := list(filter(find_word_meaning, table.list_values(*METHODS))):
        raise StudyError(
            f"the method {called[0]!r} has the name of a side or a tie (A, left, tie); rename it"
        )


def refuse_texts_as_methods(table: Table) -> None:
    """Refuse texts in place of methods' names: long cells, or cells that hardly ever repeat.

    Raises:
        StudyError: The methods are texts.
    """
    if not table.has_methods or "method_a" in table.declared_columns:
        return
    _, couples = table.find_distinct_rows(*METHODS)
    counts = Counter(text for couple in couples for text in couple if text)
    once = sum(count == 1 for count in counts.values())
    long = sum(len(text) > LONGEST_NAME or len(text.split()) > MOST_WORDS for text in counts)
    is_seen_once = "rater" not in table or table.is_judged_once()
    are_items = len(couples) >= FEWEST_COUPLES and is_seen_once and once >= MOSTLY_ONCE * len(counts)
    if are_items or long >= max(1, MOSTLY_ONCE * len(counts)):
        headings = [role.column for role in table.roles if role.role in {*METHODS, "methods"}]
        why = f"{once} of {len(counts)} occur in one pair" if are_items else "they are long"
        raise StudyError(
            f"{' and '.join(headings) or 'method_a and method_b'}: nearly every cell differs, so these are "
            f"texts ({why}); add columns method_a and method_b with the names of the methods. If these are "
            "names: --set columns.method_a=HEADING --set columns.method_b=HEADING"
        )


def refuse_methods_of_several_settings(table: Table) -> None:
    """Refuse a method that has several settings, in columns such as decoding_a and decoding_b.

    Raises:
        StudyError: A method has several settings, so its name may mean several methods.
    """
    columns = sorted(name for name in table.columns_without_role if has_word(name, "settings"))
    for name, other in combinations(columns, 2) if table.has_methods else ():
        is_condition = table[name].equals(table[other])
        if is_condition or not differ_only_in_side(name, other):
            continue
        is_by_side = table.shows_sides and "left" in split_heading_words(name)
        couples = zip(SHOWN if is_by_side else METHODS, (name, other), strict=True)
        cells = (table.get_texts(*couple).astype(object).fillna("none") for couple in couples)
        rows = [couple.set_axis(["method", "setting"], axis=1) for couple in cells]
        settings = pd.concat(rows).groupby("method")["setting"].unique()
        divided = str(settings.str.len().idxmax())
        # A setting repeats. A text, or a measurement of a text, hardly ever does.
        if 1 < len(settings[divided]) <= table.size / 2:
            first, second, *_ = sorted(settings[divided])
            raise StudyError(
                f"the method {divided!r} has the {name} {first!r} and {second!r}, so it may be several "
                f"methods. Write the method and its setting in one column, such as '{divided} ({first})', or "
                f"remove {name} and {other}"
            )
