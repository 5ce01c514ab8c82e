"""Find the verdicts of a table: one column, a column for each winner, counts of wins, or a wide table."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, filterfalse

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from analysis.verdicts.files import MAX_ROWS
from analysis.verdicts.methods import explain_how_to_declare_methods
from analysis.verdicts.reading import WIDE
from analysis.verdicts.sides import read_sides
from analysis.verdicts.table import (
    FEWEST_ROWS,
    HEADINGS,
    HEADS,
    METHODS,
    NO,
    UNKNOWN_RATER,
    YES,
    Table,
    convert_to_texts,
    format_column_options,
    has_word,
    is_called,
    is_metadata_heading,
    is_name_of_aggregate,
    mark_cells,
    means_no_verdict,
    name_yes_or_no,
    names_worse_text,
)
from analysis.verdicts.words import (
    NUMBER,
    TIED,
    A,
    B,
    find_word_meaning,
    find_word_meanings,
    format_set_options,
    format_word_setting,
    is_model_name,
    is_tie,
    names_side,
    offer_word_settings,
)
from guard_eval.errors import StudyError
from guard_eval.files.headings import differ_only_in_side, simplify_heading, split_heading_words
from guard_eval.records import TIE
from guard_eval.reporting.words import count_in_words, join_with_and

MOSTLY = 0.9
"""In a column of verdicts at least this share of the filled cells names a method, a side or a tie."""
MOSTLY_KNOWN = 0.5
"""A column of a survey with at least this share of verdicts is a question about a pair."""
MAX_WORDS = 50
"""A column with more than this number of different words, besides methods, has texts and not verdicts."""

_CHANCE = 0.01
"""Two columns contradict each other if a sign test of opposite against equal sides has a smaller p."""
MOST_ALONE = 3
"""Of at most this number of columns of verdicts, one alone may be the verdict, and others a copy or a key."""
MAX_OUTCOMES = 3
"""The largest number of different cells in a column that marks ties, or rows that do not count."""
_PEOPLE = frozenset({"human", "humans", "person", "people"})
_MEANINGS = {"criterion": "criteria", "rater": "raters"}
"""What the headings of several columns of verdicts may mean."""
_RATER = re.compile(
    r"(?P<rater>(rater|annotator|judge|coder|evaluator|worker|participant|labell?er|expert)[\W_]*\d*)"
    r"([\W_]*(?P<criterion>.*))?",
    re.IGNORECASE,
)
"""A heading that names one rater, or one rater and one criterion."""


def find_verdicts(table: Table) -> list[str]:
    """Find the verdicts and use their columns. Return the columns of verdicts if the table is wide.

    Raises:
        StudyError: More than one column can be the verdict.
    """
    columns = [name for name in table.columns_without_role if _is_verdict_column(table, name)]
    columns = list(filterfalse(is_name_of_aggregate, columns)) or columns
    if HEADS in table.declared_columns:
        items = set() if table.items is None else set(table.items.index)
        return [name for name in columns if name in items] or columns
    if "verdict" not in table:
        named = _list_columns_named_verdict(table, columns)
        if named:
            are_same = all(_do_columns_have_same_verdicts(table, named[0], name) for name in named[1:])
            table.choose_column("verdict", named, are_same=are_same)
            table.unused += named[1:]
            table.set_frame(table.frame.drop(columns=named[1:]))
            further = [name for name in columns if name not in named and not names_worse_text(name)]
            _refuse_further_verdict_columns(table, further)
        elif not _use_columns_that_mark_winners(table) and columns:
            is_rater = _RATER.fullmatch(columns[0]) is not None
            if len(columns) > 1 or is_rater or ("criterion" in table) != ("rater" in table):
                return columns
            table.use_columns("verdict", columns, "its cells are verdicts", verdict=table.frame[columns[0]])
    _refuse_scores_as_verdicts(table)
    _use_tie_columns(table)
    return []


def _list_columns_named_verdict(table: Table, columns: Sequence[str]) -> Sequence[str]:
    """Return the columns with a heading of verdicts; if words are declared, only those with these words.

    Args:
        table: The table.
        columns: The columns of verdicts according to their cells.
    """
    named = table.find_common_headings("verdict")
    words = set(table.declared_words)

    def has_declared_word(name: str) -> bool:
        return not words.isdisjoint(map(str.strip, table.list_values(name)))

    if any(map(has_declared_word, [*columns, *named])):
        named = list(filter(has_declared_word, named))
    if not named:
        _refuse_columns_of_worse_texts(table, columns)
        if set(columns) <= set(table.find_headings(HEADINGS["answers"])):
            return columns
    return named


def _refuse_columns_of_worse_texts(table: Table, names: Sequence[str]) -> None:
    """Refuse a column of verdicts whose heading says that it names the worse text."""
    for name in filter(names_worse_text, names):
        option = format_column_options("verdict", name)
        words = offer_word_settings(filterfalse(means_no_verdict, table.list_values(name)))
        instead = ""
        for other in list(filterfalse(names_worse_text, names))[:1]:
            instead = f"To read {other!r} instead, write {format_column_options('verdict', other)}. "
        raise StudyError(
            f"{name!r} seems to name the worse text. {instead}If it does, declare the better one for each "
            f"word: {option} {words}. If it names the better text, write {option}"
        )


def _refuse_further_verdict_columns(table: Table, names: Sequence[str]) -> None:
    """Refuse other columns that name both sides, because they may hold verdicts on further criteria."""
    names = [name for name in names if len(list(filter(names_side, table.list_values(name)))) > 1]
    names = list(filterfalse(partial(_do_columns_have_same_verdicts, table, "verdict"), names))
    heading = table.get_heading("verdict")
    if names:
        _refuse_verdicts_on_two_orders(table, ["verdict", *names])
        remedies = [
            f"If all are {what}, write --set columns.headings={role}. "
            for role, what in _MEANINGS.items()
            if role not in table
        ]
        raise StudyError(
            f"{join_with_and(names)} may hold verdicts, too, beside {heading}. {''.join(remedies)}If "
            f"{names[0]} says which text was A or on the left, name the methods as shown in columns left and "
            "right, or the winner by its name. Otherwise write "
            f"{format_column_options('verdict', heading, *names)}"
        )


def _name_sides_in_cells(table: Table, name: str) -> pd.Series:
    """Return the side (`A`, `TIED` or `B`) that each cell of a column names. Other cells stay texts."""
    texts = table.list_values(name)
    words = find_word_meanings(texts)
    sides = {text: words[text].side if text in words else text for text in texts}
    return table[name].map(sides).astype(object)


def _refuse_scores_as_verdicts(table: Table) -> None:
    """Refuse ranks or scores of both texts as verdicts, because one column cannot say which text is better.

    Raises:
        StudyError: The verdict is one of two columns of ranks or scores, or a table without a verdict has two
            columns of numbers.
    """
    heading = table.get_heading("verdict")
    if "verdict" in table:
        is_score = has_word(heading, "measures")
        couples = [(heading, name) for name in table.columns_without_role if is_score]
    else:
        names = table.columns_without_role
        names = [
            name
            for name in names
            if all(map(NUMBER.fullmatch, table.list_values(name))) and not _RATER.fullmatch(name)
        ]
        couples = [both for both in combinations(names, 2) if not all(map(table.is_boolean, both))]
    for first, second in couples:
        if differ_only_in_side(first, second):
            raise StudyError(
                f"no column has verdicts: {first} and {second} have a number for each text. Write a column "
                "verdict with the better method, or tie"
            )


def _do_columns_have_same_verdicts(table: Table, *names: str) -> bool:
    """Return whether two columns have the same verdict in every row, even if their words differ."""
    if not table.has_methods:
        return False
    verdicts = []
    for name in names:
        sides = _name_sides_in_cells(table, name)
        for method, side in zip(METHODS, (A, B), strict=True):
            sides = sides.mask(table[name] == table[method], side)
        verdicts.append(sides.fillna(""))
    return bool((verdicts[0] == verdicts[1]).all())


def _find_meanings_of_mark_columns(table: Table) -> dict[str, str]:
    """Return the verdict that each column of marks or counts means: A for `winner_model_a`, B for `B_wins`.

    A number in a heading means a method if the columns of methods have numbers, too; otherwise a place.
    """
    ignored = {*HEADINGS["counting"], *HEADINGS["marking"], *HEADINGS["ignored"]}
    noun = "model" if "1" in table.get_heading("method_a") else "response"
    words = {}
    for name in table.columns_without_role:
        if any(map(find_word_meaning, table.list_values(name))):
            continue
        parts = split_heading_words(name)
        text = " ".join(token for token in parts if token not in ignored)
        tie = next(filter(is_tie, (text, " ".join(parts[1:]), " ".join(parts))), "")
        word = tie or (f"{noun} {text}" if text in {"1", "2"} else text)
        is_mark = has_word(name, "counting") or (has_word(name, "marking") and table.is_boolean(name))
        is_number = table.is_boolean(name) or all(map(str.isdecimal, table.list_values(name)))
        if name in table.declared_words and is_number:
            words[name] = name
        elif tie or (is_mark and names_side(word)):
            words[name] = word
    return words


def _use_columns_that_mark_winners(table: Table) -> bool:
    """Use columns that mark or count wins, such as winner_model_a, A_wins or win1. Return whether they exist.

    If there are only two columns, a row of zeros is a tie.

    Raises:
        StudyError: A column has an unknown third answer, a row has several marks, or a mark is not a number.
    """
    words = _find_meanings_of_mark_columns(table)
    meanings = map(find_word_meaning, words.values())
    if sorted(word.side for word in meanings if word and word.side != TIED) != [B, A]:
        return False
    marks = pd.DataFrame({name: _read_counts(table, name) for name in words})
    total = marks.sum(axis=1)
    _refuse_third_answers(table, list(words), total)
    if total.max() > 1:
        _expand_counted_wins(table, marks, words)
        return True
    is_tied = (total == 0) & marks.notna().any(axis=1) & (len(words) == 2)
    if is_tied.any():
        listed = join_with_and(words)
        table.notes.append(f"{is_tied.sum()} rows in which none of {listed} is 1 are read as ties")
    winner = marks.fillna(0).idxmax(axis=1).map(words)
    verdict = winner.where(total > 0).mask(is_tied, TIE)
    table.use_columns("verdict", list(words), "one of them is 1 in each row", verdict=verdict)
    return True


def _refuse_third_answers(table: Table, names: Sequence[str], total: pd.Series) -> None:
    """Refuse a further column of marks in rows without a winner: these rows may be ties, or no verdicts."""
    for name in filter(table.is_boolean, table.columns_without_role):
        further = total if name in names else total.where(total > 0, _read_counts(table, name))
        first_words = {tuple(split_heading_words(heading)[:-1][:1]) for heading in (name, *names)}
        is_same_question = len(first_words) == 1 and first_words != {()}
        if further.sum() > total.sum() and ((further > 0).all() or is_same_question):
            raise StudyError(_describe_third_answer(name, names))


def _refuse_third_counts(table: Table, names: Sequence[str], total: pd.Series) -> None:
    """Refuse a further column of counts, such as votes_none: it may count ties, or verdicts that are missing.

    The heading is about votes or ties, or the votes of all rows are equally many only with this column. A
    column such as total may count all verdicts, of which some are no wins.
    """
    for name in table.columns_without_role:
        counts = pd.to_numeric(table[name].fillna("0"), errors="coerce")
        if name in names or not (counts.between(0, MAX_ROWS) & (counts % 1 == 0)).all():
            continue
        is_named = has_word(name, "counting") or is_tie(" ".join(split_heading_words(name)))
        is_rest = len(total) >= FEWEST_ROWS and total.nunique() > 1 == (total + counts).nunique()
        if is_called(name, "votes", "totals") and (counts >= total).all() and (counts > total).any():
            raise StudyError(
                f"{name} is larger than the sum of {join_with_and(names)}. Remove {name}; if the rest are "
                "ties, add a column ties with their numbers"
            )
        if (is_named or is_rest) and (counts != total).any():
            raise StudyError(_describe_third_answer(name, names))


def _describe_third_answer(name: str, names: Sequence[str]) -> str:
    """Ask what a further column beside two columns of marks or counts means."""
    tie, no_verdict = (format_set_options(format_word_setting(name, word)) for word in ("tie", ""))
    return (
        f"{name} may be a third answer beside {join_with_and(names)}. If it is a tie, write {tie}. If it is "
        f"no verdict, write {no_verdict}. If it is neither, remove it"
    )


def _expand_counted_wins(table: Table, marks: pd.DataFrame, names: Mapping[str, str]) -> None:
    """Turn counts of wins into rows, one row for each win.

    Each row is an item, and each win in the row is the verdict of another rater. The user can declare that
    the table has no pairs. Then each win is the verdict on a separate pair.

    Raises:
        StudyError: The columns do not hold counts, or count too many wins, or another column counts, too.
    """
    listed = join_with_and(names)
    declared = table.declared_words
    are_counts = all(
        has_word(name, "counting") or is_tie(word) or name in declared for name, word in names.items()
    )
    if not table.has_methods or not are_counts:
        raise StudyError(f"more than one of {listed} is 1 in a row; mark one winner in each row")
    _refuse_third_counts(table, list(names), marks.sum(axis=1))
    if (total := marks.sum().sum()) > MAX_ROWS:
        raise StudyError(f"{listed} count {total:,.0f} wins, more than {MAX_ROWS:,}; correct them")
    counts = marks.fillna(0).to_numpy(dtype=np.int64).ravel()
    row, column = np.divmod(np.repeat(np.arange(marks.size), counts), len(names))
    new: dict[str, object] = {}
    meaning_of_win = "of a separate pair, as declared"
    if table.declared_columns.get("pair_id") != "":
        numbers = pd.Series(row).groupby(row).cumcount() + 1
        new = {"pair_id": row + 1, "rater": [f"{UNKNOWN_RATER} {number}" for number in numbers]}
        meaning_of_win = (
            "by another, unnamed rater of the row's pair. If each win is of a separate pair, write --set "
            "columns.pair_id="
        )
    new = {name: cells for name, cells in new.items() if name not in table}
    table.set_frame(table.frame.iloc[row])
    why = f"they count wins, and each win is {meaning_of_win}"
    table.use_columns("verdict", list(names), why, verdict=np.array(list(names.values()))[column], **new)


def _read_counts(table: Table, name: str) -> pd.Series:
    """Convert the cells of a column to whole numbers. No becomes 0, yes 1, and an empty cell NaN."""
    texts = table[name].str.strip().str.casefold()
    numbers = pd.to_numeric(texts.mask(texts.isin(YES), "1").mask(texts.isin(NO), "0"), errors="coerce")
    if (texts.notna() & ~((numbers >= 0) & (numbers % 1 == 0))).any():
        raise StudyError(f"the column {name} counts wins, but a cell is not a whole number; write 0, 1, 2, …")
    return numbers


def _use_tie_columns(table: Table) -> None:
    """Read ties from a column such as both_equal, or from a column `result` with the cells win and tie.

    The heading must be about ties or results, because other columns may hold words such as neutral. Or the
    column has the same verdicts in other words.

    Raises:
        StudyError: A column may mark ties, but its cells are not clear.
    """
    if "verdict" not in table:
        return
    has_ties = any(map(is_tie, table.list_values("verdict")))
    is_empty = table.find_empty_cells("verdict")
    for name in table.columns_without_role:
        # Another column of the same verdicts says tie or skip in those rows in which this one is empty.
        cells = table.get_texts(name)[name]
        is_tied = mark_cells(cells, is_tie)
        is_skipped = mark_cells(cells, means_no_verdict)
        is_sided = mark_cells(cells, names_side)
        are_same = ((is_tied | is_skipped) == is_empty).all() and (is_sided == ~is_empty).all()
        if is_tied.sum() >= FEWEST_ROWS and are_same and not is_name_of_aggregate(name):
            verdict = table["verdict"].mask(is_tied, TIE)
            table.use_columns("verdict", [name], f"{is_tied.sum()} ties are only here", verdict=verdict)
            return
        tied = _list_cells_that_mean_tie(table, name, has_ties=has_ties)
        if tied is not None:
            verdict = table["verdict"].mask(cells.isin(tied), TIE)
            table.use_columns("verdict", [name], "it marks ties", verdict=verdict)


def _list_cells_that_mean_tie(table: Table, name: str, *, has_ties: bool) -> list[str] | None:
    """Return the cells that mean a tie if a column is about ties or results by its heading, else None.

    Args:
        table: The table.
        name: The heading of the column.
        has_ties: Whether the column of verdicts has ties, too.
    """
    cells = table.list_values(name)
    parts = [word for word in split_heading_words(name) if word not in HEADINGS["ignored"]]
    heading = " ".join(parts)
    is_flag = is_tie(heading) and not set(parts) <= set(HEADINGS["no_ties"])
    if len(cells) > MAX_OUTCOMES:
        return None
    if is_flag and table.is_boolean(name):
        return [text for text in cells if name_yes_or_no(text) == "yes"]
    tied = [text for text in cells if is_tie(text) or text in HEADINGS["halves"]]
    is_outcome = tied and heading in HEADINGS["outcomes"]
    if has_ties or not (is_flag or is_outcome) or any(map(names_side, cells)):
        return None
    if not tied:
        raise StudyError(
            f"{name} may say which verdicts are ties. If so, write 1 for a tie, else 0. If not, remove it"
        )
    return tied


def _is_verdict_column(table: Table, name: str) -> bool:
    """Return whether most filled cells of a column are verdicts, and the column is about nothing else."""
    methods = set(table.list_values(*METHODS))
    cells = table.get_texts(name)[name].dropna()
    cells = cells[~mark_cells(cells, means_no_verdict)]
    texts = set(cells.unique())
    is_other = is_metadata_heading(name) or is_called(name, "no_verdicts")
    if is_other or not texts or len(texts - methods) > MAX_WORDS:
        return False
    # Two unknown names beside ties are methods.
    are_methods = not methods and TIE in texts and len(texts) <= 3
    words = {*methods, *table.declared_words, *map(table.get_heading, METHODS)}
    is_verdict = mark_cells(cells, lambda text: text.strip() in words or find_word_meaning(text))
    if not are_methods and is_verdict.sum() < MOSTLY * len(cells):
        return False
    if "rater" in table and table.is_varying(name) and table.is_property_of(name, "rater"):
        return False
    return not methods or not read_sides(table, name).all()


def melt_wide_table(table: Table, names: Sequence[str]) -> None:
    """Turn a wide table into a long one, with one verdict in each row.

    Args:
        table: The table.
        names: The columns of verdicts.

    Raises:
        StudyError: The meaning of a heading is not clear.
    """
    if not names:
        raise StudyError(explain_missing_verdict_columns(table))
    raters = find_rater_columns_of_slots(table, names)
    split = {} if raters else _split_headings_into_roles(table, names)
    if taken := [name for name in ("verdict", *split) if name in table]:
        raise StudyError(
            f"columns.headings={taken[0]}: the table has a column {taken[0]}, too; remove this column, or "
            "the setting"
        )
    _refuse_sides_beside_methods(table, names)
    _refuse_doubtful_questions(table, names)
    _note_columns_that_are_not_read(table, names)
    other_columns = [name for name in table.names if name not in names]
    long = table.frame.melt(
        other_columns, list(names), var_name="_heading", value_name="verdict", ignore_index=False
    )
    long["verdict"] = convert_to_texts(long["verdict"])
    for role, values in split.items():
        long[role] = long["_heading"].map(dict(zip(names, values, strict=True)))
    for name, rater in zip(names, raters, strict=False):
        is_slot = long["_heading"] == name
        long.loc[is_slot, "rater"] = long.loc[is_slot, rater].astype(object)
    is_empty = long["verdict"].isna()
    if is_empty.any():
        table.notes.append(f"{is_empty.sum()} empty cells of a wide table are read as missing verdicts")
    table.set_frame(long[~is_empty].drop(columns="_heading"))
    for role in split:
        table.use_columns(role, names, WIDE)
    if raters:
        table.use_columns("rater", raters, "they name the rater of each column of verdicts")
    if "rater" in split and not table.has_rater_kinds and any(map(_find_kind_in_heading, names)):
        kinds = table["rater"].map(_find_kind_in_heading)
        table.use_columns("rater_kind", names, "headings that name a model or people", rater_kind=kinds)


def explain_missing_verdict_columns(table: Table) -> str:
    """Write a message that explains how to declare the words of a wide table without known words."""
    words = offer_word_settings(list_unknown_words(table) or ["WORD"])
    message = f"no column has verdicts under its heading. Declare what the words mean: {words}"
    if table.has_methods or table.items is not None:
        return message
    return f"{message}. {explain_how_to_declare_methods(table, table.columns_without_role)}"


def _list_words_without_numbers(heading: str) -> list[str]:
    """Return the words of a heading. Headings of the same questions about other texts have the same words."""
    return [word for word in split_heading_words(heading) if not word.isdecimal()]


def _refuse_doubtful_questions(table: Table, names: Sequence[str]) -> None:
    """Refuse a survey if a question may be about no pair."""
    forms = list(map(_list_words_without_numbers, names))
    common = max(forms, key=forms.count)
    count = forms.count(common)
    unlike = [name for name, form in zip(names, forms, strict=True) if form != common]
    if table.is_survey and table.items is None and unlike and count >= max(FEWEST_ROWS, len(unlike) + 1):
        raise StudyError(
            f"the heading {unlike[0]!r} is unlike those of the other questions. If it compares no texts, "
            "remove the column. If it does, give a second file with the columns item, A and B and the "
            "methods in them"
        )
    _refuse_doubtful_words(table, names, common if table.is_survey and count >= FEWEST_ROWS else None)


def _refuse_doubtful_words(table: Table, names: Sequence[str], common: list[str] | None) -> None:
    """Refuse a wide table if a column may hold verdicts, because some of its cells have no meaning.

    Args:
        table: The table.
        names: The columns of verdicts.
        common: The words in the headings of the questions in a survey, else None.
    """
    for name in filterfalse(is_metadata_heading, table.columns_without_role):
        if name in names or (table.items is not None and not table.items.isin([name]).any(axis=None)):
            continue
        answers = table[name].dropna()
        answers = answers[~mark_cells(answers, means_no_verdict)]
        is_known = mark_cells(answers, find_word_meaning) | answers.isin(table.declared_words)
        words = list(answers[~is_known].unique()[:MAX_WORDS])
        if table.is_survey:
            is_like = _list_words_without_numbers(name) == common
            is_doubtful = is_known.mean() >= MOSTLY_KNOWN or (is_like and is_known.any())
        else:
            # One word beside those of both sides may be a tie.
            has_sides = len(list(filter(names_side, answers.unique()))) > 1
            keys = [role for role in ("rater", "pair_id") if role in table]
            keys = [role for role in keys if 2 * table.count_distinct_rows(role) <= table.size]
            is_property = any(table.is_determined_by(name, role) for role in keys)
            is_doubtful = has_sides and len(words) == 1 and not is_property
        if words and is_doubtful:
            raise StudyError(
                f"{name!r} has other words beside verdicts. Declare what they mean: "
                f"{offer_word_settings(words)}. If {name!r} compares no texts, remove the column"
            )


def _note_columns_that_are_not_read(table: Table, names: Sequence[str]) -> None:
    """Add a note about each other column that holds some verdicts."""
    for name in table.columns_without_role:
        cells = table[name].dropna()
        count = mark_cells(cells, find_word_meaning).sum()
        if name in names or is_name_of_aggregate(name) or not count:
            continue
        table.notes.append(f"{name!r} is not read, although {count} of its {len(cells)} cells are verdicts")


def find_rater_columns_of_slots(table: Table, names: Sequence[str]) -> list[str]:
    """Return the columns that name the rater of each column of verdicts, such as rater1 beside label1.

    Args:
        table: A table without a column of raters.
        names: The columns of verdicts, each with a number in its heading.
    """
    if "rater" in table or len(names) < 2:
        return []
    others = [name for name in table.columns_without_role if name not in names and _RATER.match(name)]
    by_number = {tuple(re.findall(r"\d+", name)): name for name in others}
    numbers = [tuple(re.findall(r"\d+", name)) for name in names]
    has_all = len(others) == len(by_number) and sorted(numbers) == sorted(by_number) and all(numbers)
    return [by_number[number] for number in numbers] if has_all else []


def _find_kind_in_heading(heading: str) -> str | None:
    """Return the kind of rater that a heading names: a model, such as gpt-4o, or people; else None."""
    if not _PEOPLE.isdisjoint(split_heading_words(heading)):
        return "person"
    return "model" if is_model_name(heading) and simplify_heading(heading) != "judge" else None


def list_unknown_words(table: Table) -> list[str]:
    """Return the few unknown words in columns of raters, or beside words for sides (a second header row)."""
    unknown: dict[str, None] = {}
    for name in table.columns_without_role:
        texts = list(filterfalse(means_no_verdict, table.list_values(name)))
        others = [text for text in texts if not find_word_meaning(text) and text not in table.declared_words]
        are_codes = _RATER.fullmatch(name) and len(others) <= MAX_WORDS
        if are_codes or (len(others) < len(texts) and len(others) <= MAX_OUTCOMES):
            unknown |= dict.fromkeys(others)
    return list(unknown)


def _split_headings_into_roles(table: Table, names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Split the headings of a wide table into roles, such as rater or criterion, and their values.

    Raises:
        StudyError: The role of the headings is not clear.
    """
    if HEADS in table.declared_columns:
        if _do_headings_form_grid(names):
            raise StudyError(
                f"the headings {names[0]!r}, {names[1]!r}, … combine two things, such as questions and "
                "criteria; write a row for each cell, with columns pair_id, criterion, rater and verdict"
            )
        return {table.declared_columns[HEADS]: names}
    matches = [match for name in names if (match := _RATER.fullmatch(name))]
    missing = [name for name in _MEANINGS if name not in table]
    if len(matches) == len(names) and "rater" in missing:
        raters = [match["rater"].strip(" _") for match in matches]
        criteria = [match["criterion"] or "" for match in matches]
        if len({match["rater"] for match in matches}) == 1 or not all(criteria):
            return {"rater": names}
        # A word for a verdict, such as choice in rater1_choice, is not a criterion.
        words_for_verdicts = {"verdict", *HEADINGS["names"]["verdict"]}
        if words_for_verdicts.issuperset(map(simplify_heading, criteria)):
            return {"rater": raters}
        return {"rater": raters, "criterion": criteria}
    if len(missing) == 1 and table.has_methods:
        _refuse_verdicts_on_two_orders(table, names)
        return {missing[0]: names}
    raise StudyError(_explain_how_to_declare_headings(table, names))


def _refuse_verdicts_on_two_orders(table: Table, names: Sequence[str]) -> None:
    """Refuse columns that may be verdicts on two orders of the methods, such as winner_ab and winner_ba.

    Raises:
        StudyError: Two headings differ only in a word for a side, a heading has a word for an order, or the
            sides in two columns contradict each other.
    """
    for couple in combinations(names, 2):
        first, second = (table.get_heading(name, name) for name in couple)
        has_order = has_word(first, "orders") or has_word(second, "orders")
        is_named = has_order or differ_only_in_side(first, second)
        if is_named or _do_columns_contradict(table, *couple):
            raise StudyError(
                f"{first} and {second} may be verdicts on two orders of the methods. Write a row for each "
                "order, with the methods' names or a column shown_first. If the headings are criteria or "
                "raters, write --set columns.headings=criterion or --set columns.headings=rater. To read one "
                f"column, write {format_column_options('verdict', *(table.get_heading(n, n) for n in names))}"
            )


def _do_columns_contradict(table: Table, first: str, second: str) -> bool:
    """Return whether two columns name opposite sides in significantly more rows than the same side."""
    sides, others = (_name_sides_in_cells(table, name) for name in (first, second))
    is_clear = sides.isin([A, B]) & others.isin([A, B])
    count = int(is_clear.sum())
    contradictions = int((is_clear & (sides != others)).sum())
    return count > 0 and binomtest(contradictions, count, alternative="greater").pvalue < _CHANCE


def _do_headings_form_grid(names: Sequence[str]) -> bool:
    """Return whether the headings combine each of several beginnings with each of several endings.

    >>> _do_headings_form_grid(["Q1 [wit]", "Q1 [style]", "Q2 [wit]", "Q2 [style]"])
    True
    >>> _do_headings_form_grid(["Q1", "Q2", "Q3"])
    False
    """
    parts = [re.findall(r"[^\W\d_]+|\d+", name) for name in names]
    longest = max(map(len, parts))
    for cut in (*range(1, longest), *range(1 - longest, 0)):
        starts = {tuple(words[:cut]) for words in parts}
        ends = {tuple(words[cut:]) for words in parts}
        if min(len(starts), len(ends)) > 1 and len(starts) * len(ends) == len(names):
            return True
    return False


def _refuse_sides_beside_methods(table: Table, names: Sequence[str]) -> None:
    """Refuse a column of sides beside a column of methods, which may be verdicts or name the first text."""
    cells = {name: table.list_values(name) for name in names}
    sided = [name for name, texts in cells.items() if any(map(names_side, texts))]
    named = [name for name, texts in cells.items() if texts and not any(map(find_word_meaning, texts))]
    if sided and named and not table.declared_words:
        raise StudyError(
            f"the column {sided[0]!r} has sides, and {named[0]!r} has methods. If {named[0]!r} says which "
            "text was first, call it shown_first. If both hold verdicts, write methods in both"
        )


def _explain_how_to_declare_headings(table: Table, names: Sequence[str]) -> str:
    """Write a message that explains how to declare the headings of a wide table, such as a survey."""
    listed = f"{join_with_and(map(repr, names[:3]))}{', …' if names[3:] else ''}"
    columns = count_in_words(len(names), "column")
    start = f"verdicts are in {columns} ({listed}), and nothing says what their headings are"
    roles = [role for role in _MEANINGS if role not in table]
    heads = format_set_options(*(f"columns.headings={role}" for role in (*roles, "pair_id")), join=" or ")
    if len(names) <= MOST_ALONE:
        which = "only one" if names[1:] else "it"
        heads += f", or if {which} has the verdicts: {format_column_options('verdict', *names)}"
    if table.has_methods:
        return f"{start}: {heads}"
    sides = filter(names_side, dict.fromkeys(table.list_values(*names)))
    parts = ["columns.headings=pair_id", f"columns.rater={table.get_heading('rater', 'HEADING')}"]
    survey = format_set_options(*parts, *(format_word_setting(word, "METHOD") for word in sides))
    return (
        f"{start} ({heads}), or which methods were compared. {explain_how_to_declare_methods(table, names)}. "
        f"In a survey with a row for each person and a column for each question write: {survey}. If the "
        "methods changed sides, give a second file with the columns item, A and B in place of METHOD"
    )
