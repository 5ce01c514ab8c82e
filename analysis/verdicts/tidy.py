"""Make any table of verdicts tidy: find the columns, write one verdict in each row, and name the methods."""

import re
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts.files import LEFT_OUT, MAX_COLUMNS, NESTED, VerdictFormat
from analysis.verdicts.items import (
    add_pair_and_prompt_columns,
    assign_raters,
    recognise_model_judges,
    refuse_showings_with_changed_sides,
)
from analysis.verdicts.methods import (
    explain_how_to_declare_methods,
    find_methods,
    names_author_of_each_text,
    refuse_methods_of_several_settings,
    refuse_sides_as_methods,
    refuse_texts_as_methods,
)
from analysis.verdicts.reading import READING, UNKNOWN_RATERS, Role, get_reading, join_readings
from analysis.verdicts.shapes import (
    MAX_OUTCOMES,
    explain_missing_verdict_columns,
    find_rater_columns_of_slots,
    find_verdicts,
    list_unknown_words,
    melt_wide_table,
)
from analysis.verdicts.sides import is_heading_about_sides, replace_words_by_winners
from analysis.verdicts.table import (
    EXCLUDED,
    GROUPS,
    HEADINGS,
    HEADS,
    ITEMS,
    KNOWN,
    METHODS,
    NO,
    SHOWN,
    Declarations,
    Table,
    format_column_options,
    has_word,
    is_called,
    is_mark,
    is_metadata_heading,
    is_name_of_aggregate,
    mark_cells,
    name_yes_or_no,
    refuse_wrong_rows,
)
from analysis.verdicts.words import NUMBER, find_word_meaning, names_side, offer_word_settings, simplify_word
from guard_eval.errors import StudyError, suggest_nearest_word
from guard_eval.files.headings import get_last_part, prefer_plain_headings, simplify_heading
from guard_eval.reporting.words import join_first_parts, join_with_and

WORDS = "words"
"""The key in a table's `attrs` that lists the words for verdicts, if the user has declared words."""
_KINDS = ("pair_id", "rater", "criterion")
_INDEX = {"", "unnamed0", "rownames"}
_EXCLUSION = re.compile(HEADINGS["exclusion_words"], re.IGNORECASE)
_BAD_ROW = re.compile(f"{HEADINGS['bad_rows']}|{HEADINGS['exclusion_words']}", re.IGNORECASE)
_CHECK = re.compile(
    r"(practi[cs]e|tutorial|training|warm[\W_]*up|catch|honeypot|gold|golden|((attention|quality|manipulation|sanity)"
    r"[\W_]*)?check)([\W_]*(trial|question|item|pair))?[\W_]*\d*",
    re.IGNORECASE,
)
"""Names of items and criteria that are for practice, or that check the rater."""
_NO_REASON = NO | {"", "none", "na", "n/a", "nan", "null"}
_OWN = {simplify_heading(name): name for name in (*KNOWN, EXCLUDED)}
_NESTABLE = {"filter", "pair_id", "prompt_id"}
"""The roles of columns that may hold lists and objects."""
_DEFAULTS = {"dataset": "all", "criterion": "overall"}
"""Optional columns, and their value if a table lacks the column."""


def make_tidy(
    frame: pd.DataFrame,
    declared: Declarations,
    items: pd.DataFrame | None = None,
    form: VerdictFormat | None = None,
) -> pd.DataFrame:
    """Return a table with one verdict in each row and standard columns. `attrs` says how it was read.

    Args:
        frame: The table.
        declared: The user's declarations about it.
        items: The rows of a file of items, by their ids.
        form: The format of another program's file. Its columns are known and not guessed.

    Raises:
        StudyError: The meaning of a column or a word is not clear. The message names the setting that
            declares the meaning.
    """
    table = _convert_frame_to_table(frame, declared, items)
    _rename_to_standard_columns(table)
    _leave_out_index_column(table)
    if form is not None:
        table.roles = [Role(role, column, "the format") for role, column in form.fields.items()]
    _leave_out_invalid_votes(table)
    find_methods(table)
    _leave_out_invalid_votes(table)  # a file of items may mark items
    for role in ("rater", "criterion"):
        _use_column_with_common_heading(table, role)
    recognise_model_judges(table)
    if form is not None and form.asks:
        _leave_out_other_questions(table)
    refuse_texts_as_methods(table)
    refuse_methods_of_several_settings(table)
    words = _list_words(table) if declared.words else []
    wide = find_verdicts(table)
    if table.is_survey:
        melt_wide_table(table, wide)
        find_methods(table)
        _leave_out_invalid_votes(table)
        wide = []
    _leave_out_rows_of_other_screens(table)
    _refuse_unclear_exclusion_columns(table, wide)
    if table.has_methods and (wide or "verdict" in table):
        if form is None:
            _refuse_counted_votes(table)
        add_pair_and_prompt_columns(table, [*wide, *find_rater_columns_of_slots(table, wide)], form)
        _refuse_possible_check_questions(table, wide)
    if wide or (HEADS in declared.columns and not table.is_survey):
        melt_wide_table(table, wide)
    _refuse_nested_cells(table, frame.attrs.get(NESTED, {}))
    if table.has_methods and "verdict" in table:
        _refuse_names_of_checks(table)
        _complete_rows(table)
    _refuse_incomplete_table(table, is_program=form is not None)
    reading = join_readings([get_reading(frame), table.make_reading()])
    table.frame.attrs = {**frame.attrs, READING: reading, WORDS: words}
    return table.frame


def _convert_frame_to_table(frame: pd.DataFrame, declared: Declarations, items: pd.DataFrame | None) -> Table:
    """Convert a data frame to a `Table`. Refuse a MultiIndex and equal headings."""
    if isinstance(frame.columns, pd.MultiIndex) or isinstance(frame.index, pd.MultiIndex):
        raise StudyError(
            "the table has several header rows or index columns (a MultiIndex); give it one header row: "
            "frame.stack(), frame.reset_index(), or join the parts of each heading"
        )
    names = [str(name).strip() for name in frame.columns]
    if len(names) > MAX_COLUMNS:
        raise StudyError(
            f"the table has more than {MAX_COLUMNS:,} columns; remove columns that are not needed"
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise StudyError(f"the table has the column {twice[0]!r} twice; keep one")
    table = Table(frame.set_axis(names, axis=1), declared, items)
    are_headings = [cells == name for name, cells in table.get_texts(*names).items()]
    if are_headings:
        message = (
            "the header is repeated on {where}. Remove the repeated header, name the files separately, or "
            "write headings if there are none"
        )
        refuse_wrong_rows(table.frame, np.logical_and.reduce(are_headings), message)
    return table


def _rename_to_standard_columns(table: Table) -> None:
    """Give columns their standard names, as declared or if a heading differs only in case, spaces and signs.

    Raises:
        StudyError: A declared column is unknown or missing, or two columns have the same name.
    """
    declared = _read_declared_headings(table)
    headings = {name: heading for name, heading in declared.items() if heading}
    name_of = {heading: name for name, heading in headings.items()}
    if len(name_of) < len(headings):
        raise StudyError(
            f"the setting columns has a heading twice: {', '.join(headings.values())}; write each once"
        )
    for heading in prefer_plain_headings(table.names):
        name = heading if heading in SHOWN else _OWN.get(simplify_heading(heading), "")
        rivals = filter(table.is_varying, table.find_headings(HEADINGS["names"].get(name, ())))
        if heading in name_of or not name or (get_last_part(heading) != heading and any(rivals)):
            continue
        if name in declared:  # another column is declared to be it, or none
            table.set_frame(table.frame.drop(columns=heading))
        elif name in headings:
            raise StudyError(f"the columns {headings[name]} and {heading} are both {name}; keep one of them")
        else:
            headings[name] = heading
            name_of[heading] = name
    table.set_frame(table.frame.rename(columns=name_of))
    for name, heading in headings.items():
        if name not in {*SHOWN, EXCLUDED}:
            table.record_role(name, heading, "declared" if name in declared else "its name")


def _read_declared_headings(table: Table) -> Mapping[str, str]:
    """Return the declared headings by the standard names of the columns."""
    declared = dict(table.declared_columns)
    heads = declared.pop(HEADS, _KINDS[0])
    if heads not in _KINDS:
        raise StudyError(f"columns.headings={heads} is unknown; write {join_with_and(_KINDS)}")
    excluded = [(EXCLUDED, name) for name in _list_declared_exclusion_columns(table)]
    declared.pop(EXCLUDED, None)
    for name, heading in [*declared.items(), *excluded]:
        start = f"columns.{name}"
        if name not in {*KNOWN, *SHOWN, EXCLUDED}:
            names = sorted({*KNOWN, EXCLUDED})
            raise StudyError(f"{start}: there is no such column; {suggest_nearest_word(name, names)}")
        parts = map(str.strip, heading.split(","))
        if name in {"pair_id", "prompt_id"} and "," in heading and set(parts) <= set(table.names):
            table.join_columns(heading)
        elif heading and table.items is not None and heading in table.items:
            if name != EXCLUDED:
                table.items = table.items.rename(columns={heading: name})
        elif heading and heading not in table:
            raise StudyError(
                f"{start}={heading}: there is no such heading; {suggest_nearest_word(heading, table.names)}"
            )
    return declared


def _list_words(table: Table) -> list[str]:
    """Return the texts in all columns that can hold verdicts, and the headings, which can mark verdicts."""
    columns = [*table.columns_without_role, *table.list_existing("verdict")]
    return [*table.names, *(text.strip() for text in table.list_values(*columns))]


def _leave_out_index_column(table: Table) -> None:
    """Leave out a first column in which a program numbered the rows.

    Raises:
        StudyError: Another column has no name.
    """
    for first in table.names[:1]:
        if simplify_heading(first) in _INDEX and not table.has_repeats(first):
            table.unused.append(f"{first or 'a column without a name'} (an index)")
            table.set_frame(table.frame.drop(columns=first))
    if "" in table:
        raise StudyError("column 1 has no name in the header; name it, or remove it")


def _use_column_with_common_heading(table: Table, role: str) -> None:
    """Use a column for a role if its heading is a common name of the role.

    Raises:
        StudyError: Two different columns can have the role.
    """
    named = table.find_common_headings(role)
    if role == "rater" and role not in table.declared_columns and _may_hold_verdicts(table, "rater"):
        raise StudyError("the cells of 'rater' are verdicts, such as A, and not names; rename the column")
    if role == "criterion":  # numbers are ratings, and words such as A and methods are verdicts
        cells = {name: table.list_values(name) for name in named}
        named = [
            name
            for name, texts in cells.items()
            if not all(map(NUMBER.fullmatch, texts))
            and not (any(map(find_word_meaning, texts)) or table.has_only_verdicts(name))
        ]
    else:
        named = [name for name in named if not _may_hold_verdicts(table, name)]
    varying = list(filter(table.is_varying, named))
    if role == "rater":  # beside a column that repeats, one that never does has numbers of rows
        varying = list(filter(table.has_repeats, varying)) or varying
        varying = list(filterfalse(table.is_boolean, varying)) or varying  # such as "Student: yes"
    if named and role not in table and role not in table.declared_columns:
        # If each column has only one value, nothing says which column has the role.
        table.choose_column(role, varying or named, are_same=len(table.list_groupings(varying)) == 1)


def _may_hold_verdicts(table: Table, name: str) -> bool:
    """Return whether a column with the heading of raters holds verdicts, because all cells are such words.

    Raters may be called A and B if another column names what each of them judged once.
    """
    meanings = list(map(find_word_meaning, table.list_values(name)))  # none if there is no such column
    if not meanings or not all(meanings):
        return False
    others = filter(table.has_repeats, table.names)
    is_crossed = any(table.count_distinct_rows(other, name) == table.size for other in others)
    are_letters = all(word and word.kind == "letter" for word in meanings)
    return not (are_letters and (is_crossed or len(meanings) == 1))


def _leave_out_invalid_votes(table: Table) -> None:
    """Leave out votes that were not blind, rejected answers, and rows without a real answer."""
    for why in table.list_values(LEFT_OUT):
        table.leave_out_rows(table[LEFT_OUT] == why, why)
    table.set_frame(table.frame.drop(columns=LEFT_OUT, errors="ignore"))
    for name in table.list_existing(*_list_declared_exclusion_columns(table)):
        cells = _find_exclusion_words(table, name) or list(filter(_is_reason, table.list_values(name)))
        table.record_role("filter", name, "declared")
        table.leave_out_rows(table[name].isin(cells), f"declared by the column {name}")
        table.set_frame(table.frame.drop(columns=name))
    for rule in HEADINGS["left_out"]:
        for name in table.columns_without_role:
            cells = _find_cells_that_exclude_rows(table, name, rule)
            if cells and table[name].isin(cells).any():
                table.record_role("filter", name, f"it says what is left out: {rule['why']}")
                table.leave_out_rows(table[name].isin(cells), rule["why"])


def _list_declared_exclusion_columns(table: Table) -> list[str]:
    """Return the headings in `columns.excluded`, which are separated by commas."""
    heading = table.declared_columns.get(EXCLUDED, "")
    names = [heading] if heading in table else map(str.strip, heading.split(","))
    return list(filter(None, names))


def _find_cells_that_exclude_rows(table: Table, name: str, rule: Mapping[str, str]) -> list[Any]:
    """Return the cells of a column that exclude a row, by a rule of headings.toml: texts, or NaN."""
    texts = table.list_values(name)
    headings = map(simplify_heading, {name, get_last_part(name)})
    if not texts or not any(map(re.compile(rule["heading"]).fullmatch, headings)):
        return []
    is_possible = re.compile(rule.get("cells", ".*"), re.IGNORECASE | re.DOTALL).fullmatch
    is_meant = re.compile(rule["cell"], re.IGNORECASE).fullmatch
    is_typical = re.compile(rule.get("needs", ""), re.IGNORECASE).match
    if not all(map(is_possible, texts)) or not any(map(is_typical, texts)):
        return []
    meanings = {text: name_yes_or_no(text) for text in texts}
    words = [text for text, meaning in meanings.items() if meaning not in {"yes", "no"}]
    if (
        rule["cell"] in {"yes", "no"}
        and len(words) == len(texts) == 2
        and EXCLUDED not in table.declared_columns
    ):
        raise StudyError(
            f"{name!r} says which rows do not count, but {words[0]!r} and {words[1]!r} are no known words "
            "for yes and no; write yes and no. If all rows count, write --set columns.excluded="
        )
    excluded: list[Any] = [text for text, meaning in meanings.items() if is_meant(meaning)]
    return [*excluded, np.nan] if is_meant("") else excluded


def _refuse_unclear_exclusion_columns(table: Table, wide: Sequence[str]) -> None:
    """Refuse columns that may say which rows do not count, if no rule of headings.toml reads them.

    Raises:
        StudyError: A column's cells, or its heading and its cells, may mean this.
    """
    filters = {role.column for role in table.roles if role.role == "filter"}
    columns = [name for name in table.columns_without_role if name not in {*filters, *wide}]
    names = [name for name in columns if _find_exclusion_words(table, name)]
    if names and EXCLUDED not in table.declared_columns:
        words = [word for name in names for word in _find_exclusion_words(table, name)]
        opposite = ""
        if any(map(table.is_boolean, names)):
            opposite = (
                "If rows with no or an empty cell do not count, call the column 'valid' and write no in its "
                "empty cells. "
            )
        raise StudyError(
            f"{join_with_and(map(repr, names))} may say which rows do not count. If rows with "
            f"{join_first_parts(map(repr, words), 3)} do not count, write "
            f"{format_column_options(EXCLUDED, ','.join(names))}. {opposite}If all rows count, write --set "
            "columns.excluded="
        )


def _find_exclusion_words(table: Table, name: str) -> list[str]:
    """Return the cells of a column that may mean that a row does not count: yes, a reason, or failed."""
    texts = table.list_values(name)
    heading = simplify_heading(get_last_part(name))
    is_about_rows = re.fullmatch(HEADINGS["may_leave_out"], heading) is not None
    if table.is_boolean(name):
        marks = [text for text in texts if name_yes_or_no(text) == "yes"]
        says_both = 0 < len(marks) < len(texts) or not table.is_filled(name)
        return marks if says_both and is_about_rows else []
    if re.fullmatch(HEADINGS["reasons_to_leave_out"], heading):
        return [] if table.is_filled(name) else list(filter(_is_reason, texts))
    pattern = _BAD_ROW if is_about_rows else _EXCLUSION
    words = [text for text in texts if pattern.fullmatch(text.strip())]
    others = [text for text in texts if text not in words]
    are_verdicts = any(map(find_word_meaning, others)) or set(others) & set(table.list_values(*METHODS))
    is_constant = not others and table.is_filled(name)
    return [] if len(texts) > MAX_OUTCOMES or is_constant or are_verdicts else words


def _is_reason(text: str) -> bool:
    """Return whether a cell gives a reason, or says yes."""
    return simplify_word(text) not in _NO_REASON


def _refuse_names_of_checks(table: Table) -> None:
    """Refuse a pair or a criterion among others that is called practice, attention check or the like."""
    for role in table.list_existing("pair_id", "criterion"):
        texts = table.list_values(role)
        checks = [
            text
            for text in texts
            if _CHECK.fullmatch(text.split(":")[0].strip())
            or (role == "pair_id" and not re.search(r"\d", text) and is_name_of_aggregate(text))
        ]
        if checks and len(checks) < len(texts) and EXCLUDED not in table.declared_columns:
            raise StudyError(
                f"{join_first_parts(map(repr, checks), 3)} may be for practice, check the rater, or "
                "sum up other rows. If so, remove the rows. If they count, write --set columns.excluded="
            )


def _refuse_possible_check_questions(table: Table, wide: Sequence[str]) -> None:
    """Refuse a column that is filled for few pairs only: the right answers, or whether an answer was right.

    In a wide table, the column may also be a criterion, or a rater who has judged few pairs. Only if a pair
    has several raters, who all have a cell there or none, it is asked about.

    Raises:
        StudyError: Some pairs may be check questions.
    """
    is_repeated = "rater" in table and table.has_repeats("pair_id")
    for name in table.columns_without_role if EXCLUDED not in table.declared_columns else ():
        is_summary = is_name_of_aggregate(name) and "gold" not in simplify_heading(name)
        is_side = is_heading_about_sides(name) and "answer" not in name.casefold()
        is_right = table.is_boolean(name) and not table.is_determined_by(name, "pair_id")
        is_answer = is_right or table.has_only_verdicts(name, table.declared_words)
        if is_summary or is_side or not is_answer or (name in wide and not is_repeated):
            continue
        cells = table[name]
        is_filled = cells.notna() if is_right else mark_cells(cells, is_mark)
        count = is_filled.sum()
        shares = is_filled.groupby(table.number_rows("pair_id")).mean()
        if 0 < 2 * count <= table.size and shares.isin([0, 1]).all():
            remedy = "remove them" if is_right else f"write {format_column_options(EXCLUDED, name)}"
            raise StudyError(
                f"the column {name!r} is filled in {count} of {table.size} rows. These rows may be "
                f"check questions with a right answer. If they do not count, {remedy}. If they count, write "
                "--set columns.excluded="
            )


def _leave_out_rows_of_other_screens(table: Table) -> None:
    """Leave out rows with neither methods nor a verdict, such as instructions in an experiment's file."""
    if table.has_methods and "verdict" in table:
        is_other = table.get_texts("verdict", *METHODS).isna().all(axis=1)
        table.leave_out_rows(is_other, "no verdict")


def _refuse_counted_votes(table: Table) -> None:
    """Refuse a table in which one row means several votes.

    A column counts votes if its heading says so. A column of numbers may also count votes if the table does
    not name the raters, and each outcome of an item has only one row.

    Raises:
        StudyError: A column counts votes.
    """
    items = table.find_headings([*ITEMS, *GROUPS, "pairid"])
    repeated = filter(table.has_repeats, items)
    keys = [*METHODS, *table.list_existing("criterion", "dataset", "rater"), *repeated]
    outcomes = table.count_distinct_rows(*keys, *table.list_existing("verdict"))
    # In a survey, a row is a person. Of several outcomes of an item, each has one row.
    may_count = "rater" not in table and not table.is_survey
    are_outcomes = may_count and table.count_distinct_rows(*keys) < outcomes == table.size
    for name in table.columns_without_role:
        cells = table.list_values(name)
        is_number = all(map(str.isdecimal, cells)) and bool(set(cells) - {"0", "1"})
        is_count = is_called(name, "votes")
        is_count |= are_outcomes and name not in items and not is_metadata_heading(name)
        if is_number and is_count:
            raise StudyError(
                f"{name} may be the number of votes of each row; write a row for each vote, with its rater "
                "if that is known, or remove the column"
            )


def _complete_rows(table: Table) -> None:
    """Replace words by methods, leave out other answers, and fill in missing columns."""
    a, b = (table[name] for name in METHODS)
    table.leave_out_rows(a == b, "a method compared with itself")
    replace_words_by_winners(table)
    a, b = (table[name] for name in METHODS)
    is_named = a.notna() & b.notna()  # a row without a method is refused later
    table.leave_out_rows(table.frame["verdict"].isna() & is_named, "no verdict")
    if "pair_id" not in table:
        return
    for role, value in _DEFAULTS.items():
        if role not in table:
            table.use_columns(role, (), f"the table has none: it is called {value!r}", **{role: value})
    assign_raters(table)
    if not table.has_rater_kinds:
        table.record_role("rater_kind", "", UNKNOWN_RATERS)
    refuse_showings_with_changed_sides(table)


def _leave_out_other_questions(table: Table) -> None:
    """Leave out questions without any verdict among the answers: they ask for comments or ratings.

    Raises:
        StudyError: No answer is a verdict, or answers name sides and a method has the name of a side.
    """
    if not (table.has_methods and "verdict" in table and "criterion" in table):
        return
    refuse_sides_as_methods(table)
    verdict, a, b = (table[name] for name in ("verdict", *METHODS))
    criterion = table["criterion"]
    is_verdict = (verdict == a) | (verdict == b) | mark_cells(verdict, find_word_meaning)
    criteria_with_verdicts = set(criterion[is_verdict])
    if not criteria_with_verdicts:
        raise StudyError("no answer is a verdict; write the methods, A, B, left, right or tie")
    if other := sorted(set(criterion.dropna()) - criteria_with_verdicts):
        table.unused += other
        table.notes.append(f"not read, since no answer is a verdict: {join_with_and(map(repr, other))}")
        table.set_frame(table.frame[criterion.isin(criteria_with_verdicts)])


def _refuse_nested_cells(table: Table, places: Mapping[str, str]) -> None:
    """Refuse a list or an object in a column that is read. In an id or a prompt, it is read as JSON text.

    Args:
        table: The table.
        places: For each column with lists or objects, the place of the first one.
    """
    used = {name for role in table.roles if role.role not in _NESTABLE for name in role.column.split(", ")}
    for name in filter((used | (KNOWN - _NESTABLE)).__contains__, places):
        raise StudyError(
            f"{places[name]}: {name} is a list or an object, and a cell of a table is a text or a number; "
            "write each value in a column, or see the formats that guard-eval reads: docs/formats.md"
        )


def _refuse_incomplete_table(table: Table, *, is_program: bool) -> None:
    """Refuse a table without methods or without verdicts."""
    if table.has_methods and "verdict" in table:
        return
    if table.has_methods:
        sided = [
            n for n in table.columns_without_role if len(set(filter(names_side, table.list_values(n)))) > 1
        ]
        if sided:
            offers = format_column_options("verdict", *sided)
            heads = ", or if all do: --set columns.headings=rater or --set columns.headings=criterion"
            raise StudyError(
                f"no column has verdicts under a common heading. If one does, write {offers}"
                f"{heads if len(sided) > 1 else ''}"
            )
        if list_unknown_words(table):
            raise StudyError(explain_missing_verdict_columns(table))
        raise StudyError(
            "no column has verdicts. Say which one does, and what its words mean: --set "
            f"columns.verdict=HEADING {offer_word_settings(['WORD'])}"
        )
    if table.items is not None:
        ids = join_with_and([*map(repr, table.items.index[:2]), "…"])
        raise StudyError(
            f"no column has only ids from the file with the methods ({ids}); write the same ids in both "
            "files. If ids are headings, as in a survey with a row for each person, write "
            "--set columns.headings=pair_id --set columns.rater=HEADING"
        )
    if is_program:
        raise StudyError(
            "nothing says which methods were compared; add the fields method_a and method_b (and left and "
            "right, where sides changed) to the items, or give a file that has them by id"
        )
    rated = [name for name in table.columns_without_role if has_word(name, "measures")]
    says = "rate"
    if not rated:
        rated = [name for name in table.columns_without_role if names_author_of_each_text(table, name)]
        says = "name the author of"
    if rated and "verdict" not in table:
        raise StudyError(
            f"{join_with_and(rated)} may {says} one text in each row, and a verdict compares two. Write a "
            "row for each two methods of an item and a rater, with the better one as the verdict, or tie"
        )
    raise StudyError(
        f"nothing says which methods were compared. {explain_how_to_declare_methods(table, ['verdict'])}. Or "
        "give a second file with the columns item, A and B and the methods in them, and name both files"
    )
