"""Check a tidy table of verdicts before anything is counted.

Each check names the lines, the value and the remedy.
"""

import re
import unicodedata
from itertools import combinations
from typing import get_args

import numpy as np
import pandas as pd

from analysis.verdicts.items import FEWEST_WORDS
from analysis.verdicts.methods import TEXTS as TEXTS_OF_METHODS
from analysis.verdicts.reading import READING, Reading, get_reading, join_readings
from analysis.verdicts.table import (
    FEWEST_ROWS,
    KNOWN,
    MAX_NUMBERS,
    METHODS,
    NUMBERS,
    REQUIRED,
    STORED,
    TEXTS,
    Cells,
    add_line_numbers,
    convert_to_texts,
    find_distinct_rows,
    format_line_numbers,
    has_named_raters,
    is_metadata_heading,
    mark_cells,
    number_rows,
    refuse_wrong_rows,
    unify_categories,
)
from analysis.verdicts.words import format_set_options, is_model_name, offer_word_settings
from guard_eval.errors import StudyError
from guard_eval.files.headings import differ_only_in_side, simplify_heading
from guard_eval.lookalike import LATIN_SHAPES, make_visible_form
from guard_eval.records import TIE, RaterKind
from guard_eval.reporting.words import join_first_parts

UNKNOWN_KIND = "unknown"
"""The kind of a rater if neither the table nor the user says whether the rater is a person or a model."""
KINDS: tuple[str, ...] = (*get_args(RaterKind), UNKNOWN_KIND)

_KIND_NAMES = {"human": "person", "people": "person", "llm": "model"}
"""Other names of the kinds of raters."""
_IDS = frozenset({"pair_id", "prompt_id"})
_THINGS = (("dataset",), ("method_a", "method_b"), ("criterion",), ("rater",), ("pair_id",), ("prompt_id",))
"""The columns with names, grouped by what they name: `method_a` and `method_b` both name methods."""
_NUMBER = re.compile(r"0*(\d+)(\.0*(?!\d))?")
_ROUNDED = re.compile(r"\d(\.\d+)?[eE]\+\d+|\d\.\d+[eE]\d+")
_SIGNS = re.compile(r"(?<!\d)[\s_.,:/#'’()-]+|[\s_.,:/#'’()-]+(?!\d)")
"""The signs in names of raters that are not between two digits."""
_SHARED = 0.5
_FEWEST_ALIKE = 3
"""Different spellings are suspected only if at least this number of a rater's ids would become equal."""
_CROSSED = 1.5
"""Two columns name the pairs in other orders if they have at least this number of couples for each value."""
_PLAIN_NUMBER = re.compile(r"[\d.,]*")
_TEXT_OF_SIDE = re.compile(
    rf"{TEXTS_OF_METHODS}s?(a|b|0|1|2|left|right)|(left|right|first|second){TEXTS_OF_METHODS}"
)
"""Headings of the text on one side, such as response_a."""
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


def check_verdicts(frame: pd.DataFrame, *, rater_kind: RaterKind | None = None) -> pd.DataFrame:
    """Check a table of verdicts. Return a copy with categorical texts, numbers as float, and `rater_kind`.

    `shown_first` may name a method or say a/b for method_a/method_b; the copy names methods. In the copy,
    both methods of a comparison always have the same order (`unify_method_order`), and `attrs["reading"]` has
    warnings for the reader.

    Args:
        frame: A row per verdict.
        rater_kind: The kind of raters if the table does not give it. Default: unknown.

    Raises:
        StudyError: What is wrong, on which lines (of the CSV) or rows (from 1), and the remedy.
    """
    if missing := [name for name in REQUIRED if name not in frame.columns]:
        raise StudyError(
            f"the verdicts lack the column(s) {', '.join(missing)}; a table of verdicts has "
            f"{', '.join(REQUIRED)}. Say which of your headings they are: "
            f"{format_set_options(*(f'columns.{name}=HEADING' for name in missing))}"
        )
    if frame.empty:
        raise StudyError("there are no verdicts: the table has a header, but no rows")
    table = add_line_numbers(frame)
    if "rater_kind" not in table:
        table = table.assign(rater_kind=None)
    texts = {name: convert_to_texts(table[name]) for name in TEXTS if name in table}
    numbers = {name: _read_numbers(table[name]) for name in NUMBERS if name in table}
    table = table.assign(**texts, **numbers)
    for name in REQUIRED:
        refuse_wrong_rows(
            table, table[name].isna(), "{name} is empty on {where}; fill it in or remove the row", name=name
        )
    _refuse_lookalike_names(table)
    _refuse_ids_in_two_spellings(table)
    _refuse_ids_with_names_of_raters(table, get_reading(frame))
    table = unify_categories(table, [*METHODS, "verdict", "shown_first"])
    _check_methods_and_verdicts(table)
    if rater_kind is None:
        _refuse_unnamed_models(table)
    table = table.assign(rater_kind=_fill_rater_kinds(table, rater_kind))
    _refuse_ids_of_other_pairs(table, get_reading(frame))
    _refuse_contradictory_rows(table)
    _refuse_other_texts_under_one_id(table)
    if "shown_first" in table:
        table = table.assign(shown_first=_name_method_shown_first(table))
    table = unify_method_order(table)
    _refuse_repeated_verdicts(table)
    _refuse_missing_prompts(table)
    notes = _describe_mixed_rater_kinds(table, rater_kind)
    table.attrs = {READING: join_readings([get_reading(frame), Reading(notes=tuple(notes))])}
    return table


def unify_method_order(
    frame: pd.DataFrame, planned: tuple[tuple[str, str, str], ...] | None = None
) -> pd.DataFrame:
    """Put the methods of each comparison into one order. Return `frame` itself if nothing changes.

    The order comes from `planned`, or from the table if the table always has the same order. Otherwise it is
    alphabetical. If two methods change places, all columns NAME_a and NAME_b change places, too. Columns with
    the names of methods, such as the verdict, do not change.
    """
    planned_pairs = {(a, b) for a, b, _ in planned or ()}
    numbers, pairs = find_distinct_rows(frame, METHODS)
    seen = set(pairs)

    def must_swap_methods(pair: Cells) -> bool:
        other = pair[::-1]
        is_planned = other in planned_pairs or (other in seen and str(pair[0]) > str(pair[1]))
        return is_planned and pair not in planned_pairs

    turned = np.array(list(map(must_swap_methods, pairs)), dtype=bool)[numbers]
    if not turned.any():
        return frame
    stems = [name[:-1] for name in map(str, frame.columns) if name.endswith("_a")]
    stems = [stem for stem in stems if f"{stem}b" in frame]
    exchanged = {f"{stem}{old}": f"{stem}{new}" for stem in stems for old, new in ("ab", "ba")}
    table = pd.concat([frame[~turned], frame[turned].rename(columns=exchanged)])
    return table.iloc[np.argsort(np.argsort(turned, kind="stable"))]


def _refuse_lookalike_names(table: pd.DataFrame) -> None:
    """Refuse names that look alike, because they would count separately.

    Names look alike if they differ only in case, white space, Unicode form (NFC or NFD, full width),
    invisible characters, or letters of other scripts with a Latin shape. Ids of pairs and prompts without a
    blank may differ only in case, because programs write them. Raters and prompts also look alike if they
    are equal numbers, such as 1 and 1.0.
    """
    for names in _THINGS:
        seen: dict[str, str] = {}
        for name in (name for name in names if name in table):
            for text in table[name].dropna().unique():
                other = seen.setdefault(_make_comparable_form(text, name), text)
                if other != text:
                    where = format_line_numbers((table[name] == text).to_numpy(), table.index)
                    raise StudyError(
                        f"{name} is {other!a}, and {text!a} on {where}; these names look alike. If they mean "
                        "the same, write one of them in all rows. If not, rename one"
                    )


def _make_comparable_form(text: str, name: str) -> str:
    """Return the form in which a text of the column `name` is compared with others."""
    number = _NUMBER.fullmatch(text)
    if number and name in {"rater", "prompt_id"}:
        return number[1]
    if name in _IDS:
        return make_visible_form(text, keep_case=" " not in text.strip())
    return make_visible_form(text.translate(LATIN_SHAPES))


def _refuse_ids_in_two_spellings(table: pd.DataFrame) -> None:
    """Refuse ids that a spreadsheet has rounded, and ids that raters write in different ways.

    Two spellings are separate ids if one rater has both. Else numbers such as 1 and 1.0 are always refused.
    If case, signs or the ending of a file's name differ, most ids of a rater must have several spellings, of
    which no rater has two.
    """
    for name in sorted(_IDS.intersection(table)):
        texts = pd.Series(table[name].cat.categories, dtype=str)
        if texts.str.fullmatch("0|[1-9][0-9]*").all():  # such numbers have one spelling
            continue
        rounded = [text for text in texts.tolist() if any(map(_ROUNDED.fullmatch, text.split(", ")))]
        refuse_wrong_rows(
            table.assign(id=table[name]),
            table[name].isin(rounded),
            "{name} is {id!r} on {where}, a number that a spreadsheet has rounded; export the ids as text",
            name=name,
        )
        numbers = texts.str.replace(_NUMBER, r"\1", regex=True)
        plain = texts.str.casefold().str.replace(r"\.[a-z]\w{0,4}$|[\W_]", "", regex=True)
        if plain.str.isdecimal().any():
            plain = plain.str.replace(r"^[a-z]+(?=\d+$)", "", regex=True)
        for forms, fewest, share in ((numbers, 1, 0), (plain, _FEWEST_ALIKE, _SHARED)):
            alike = texts[forms.duplicated(keep=False)]
            if alike.empty:
                continue
            rows = table[[name, "rater"]].dropna().drop_duplicates()
            raters = rows[rows[name].isin(alike)].groupby(name, observed=True)["rater"].agg(set)
            couples: list[tuple[str, str]] = []
            for group in alike[alike.isin(raters.index)].groupby(forms).agg(list):
                compared = list(combinations(group, 2))
                apart = [couple for couple in compared if raters[couple[0]].isdisjoint(raters[couple[1]])]
                if forms is numbers or apart == compared:
                    couples += apart
            is_alike = rows[name].isin([text for couple in couples for text in couple])
            counts = is_alike.groupby(rows["rater"], observed=True).agg(["sum", "mean"])
            odd = set(counts.index[(counts["sum"] >= fewest) & (counts["mean"] >= share)])
            for first, other in couples:
                if odd & (raters[first] | raters[other]):
                    raise StudyError(
                        f"{name} is {first!r} for {min(raters[first])!r} and {other!r} for "
                        f"{min(raters[other])!r}, which may mean the same. If so, write one of them in all "
                        "rows. If not, write ids that differ more"
                    )


def _refuse_ids_with_names_of_raters(table: pd.DataFrame, reading: Reading) -> None:
    """Refuse ids that raters would share without their names in them: q1-ann and q1-bob."""
    rows = table[["pair_id", "rater"]].drop_duplicates()
    role = next((role for role in reading.roles if role.role == "pair_id" and role.column), None)
    if role is None or role.why == "declared" or rows["pair_id"].duplicated(keep=False).mean() > _SHARED:
        return
    rows = rows.astype(str)
    patterns = {
        rater: re.compile(rf"(?<![^\W_]){re.escape(rater)}(?![^\W_])", re.IGNORECASE)
        for rater in rows["rater"].unique()
    }
    rows["item"] = [patterns[rater].sub("", pair, count=1) for pair, rater in rows.itertuples(index=False)]
    is_shared = rows["item"].duplicated(keep=False)
    if is_shared.mean() > _SHARED and not rows.duplicated(["item", "rater"]).any():
        pair, rater, _ = rows[is_shared & (rows["item"] != rows["pair_id"])].iloc[0]
        raise StudyError(
            f"{role.column} {pair!r} seems to contain the rater {rater!r}, so that few raters share a "
            "pair. If so, write the same id for all raters. If not, write "
            f"{format_set_options(f'columns.pair_id={role.column}')}"
        )


def refuse_raters_in_two_spellings(table: pd.DataFrame) -> None:
    """Refuse raters who share no pair, if their names differ only in signs, accents or zeros: r 1 and r-01.

    Two raters of one pair are two people. A study's own raters are not checked, because the study has given
    them their names.
    """
    names = pd.Series(table["rater"].unique().astype(object))
    for raters in names.groupby(names.map(_simplify_rater_name)).agg(list):
        for rater, other in combinations(raters, 2):
            pairs, others = (set(table["pair_id"][table["rater"] == name]) for name in (rater, other))
            if pairs.isdisjoint(others):
                where = format_line_numbers((table["rater"] == other).to_numpy(), table.index)
                raise StudyError(
                    f"rater is {rater!r}, and {other!r} on {where}, and these two share no pair. If they are "
                    "the same rater, write one name in all rows. If not, write names that differ more"
                )


def _simplify_rater_name(name: str) -> str:
    """Return a rater's name without what one person may write or leave out.

    These are case, accents of Latin letters, signs except between digits, and zeros before a last number.
    """
    letters = unicodedata.normalize("NFKD", name.casefold())
    plain = _SIGNS.sub("", re.sub("[\u0300-\u036f]", "", letters))
    return re.sub(r"^(\D*?)0+(?=\d+$)", r"\1", plain) or name


def _check_methods_and_verdicts(table: pd.DataFrame) -> None:
    """Refuse a method compared with itself, a method called tie, and a verdict that names neither method."""
    a, b, verdict = table["method_a"], table["method_b"], table["verdict"]
    refuse_wrong_rows(
        table,
        a == b,
        "method_a and method_b are both {method_a!r} on {where}, a method compared with itself; name two "
        "different methods",
    )
    refuse_wrong_rows(
        table,
        (a == TIE) | (b == TIE),
        "a method is called 'tie' on {where}, but this word is the verdict for a tie; rename the method",
    )
    is_unknown = (verdict != a) & (verdict != b) & (verdict != TIE)
    refuse_wrong_rows(
        table,
        is_unknown,
        "the verdict {verdict!r} names no method of its pair on {where}; write {method_a!r}, {method_b!r} or "
        "'tie', or declare what it means: {offers}",
        offers=offer_word_settings(verdict[is_unknown]),
    )


def _refuse_unnamed_models(table: pd.DataFrame) -> None:
    """Refuse raters with the name of a model if the table does not say whether raters are models."""
    named = mark_cells(table["rater"], is_model_name) & table["rater_kind"].isna()
    names = sorted(table["rater"][named].unique())
    offer = ""
    for name in map(str, table.columns.difference([*KNOWN, *STORED])) if named.any() else ():
        kinds = set(table[name].astype(str).str.casefold())
        if len(kinds) > 1 and kinds <= {*KINDS, *_KIND_NAMES}:
            offer = (
                f"If {name} says what raters are, write {format_set_options(f'columns.rater_kind={name}')}. "
            )
    refuse_wrong_rows(
        table,
        named,
        "rater is {names} on {where}, which looks like the name of a model, and nothing says what it is; add "
        "a column rater_kind with {kinds} in every row. {offer}If all are models, write --set "
        "rater_kind=model",
        offer=offer,
        names=join_first_parts(map(repr, names), MAX_NUMBERS, join=", "),
        kinds=" or ".join(KINDS[:-1]),
    )


def _fill_rater_kinds(table: pd.DataFrame, declared: RaterKind | None) -> pd.Series:
    """Return the kind of rater of each row: the table's kind if given, otherwise `declared`, or unknown."""
    kinds = table["rater_kind"]
    named = {text: _KIND_NAMES.get(text.casefold(), text.casefold()) for text in kinds.cat.categories}
    kinds = kinds.astype(object).map(named).astype(object)
    refuse_wrong_rows(
        table,
        kinds.notna() & ~kinds.isin(KINDS),
        "rater_kind {rater_kind!r} is unknown on {where}; write one of: {kinds}",
        kinds=", ".join(KINDS),
    )
    if declared is None:
        return kinds.fillna(UNKNOWN_KIND).astype("category")
    refuse_wrong_rows(
        table,
        kinds.notna() & ~kinds.isin([declared, UNKNOWN_KIND]),
        "rater_kind is {rater_kind!r} on {where}, but {declared!r} is declared for all rows; remove the "
        "declaration, or correct the column",
        declared=declared,
    )
    return kinds.where(kinds == declared, declared).astype("category")


def _refuse_contradictory_rows(table: pd.DataFrame) -> None:
    """Refuse a pair with two datasets or two prompts, and a rater with two kinds."""
    for key, value, remedy in (
        ("pair_id", "dataset", "give each pair one dataset, or ids of its own to each dataset"),
        ("pair_id", "prompt_id", "give each pair one prompt"),
        ("rater", "rater_kind", "give each rater one kind; people and models are never counted together"),
    ):
        if value not in table:
            continue
        pairs = table[[key, value]].drop_duplicates()
        for name in pairs[key][pairs[key].duplicated()]:
            others = list(map(repr, pairs[value][pairs[key] == name].dropna()))
            where = format_line_numbers((table[key] == name).to_numpy(), table.index)
            raise StudyError(
                f"the {key} {name!r} has more than one {value} ({', '.join(others[:5])}; {where}); {remedy}"
            )


def _refuse_ids_of_other_pairs(table: pd.DataFrame, reading: Reading) -> None:
    """Refuse ids by which raters number their pairs in other orders, if another column names the pairs.

    Each rater has each value of the other column once, and other raters have the same values under other
    ids. If the user has declared the ids, only texts in columns such as text_a and text_b are checked.
    """
    is_declared = any(role.role == "pair_id" and role.why == "declared" for role in reading.roles)
    if not has_named_raters(table) or len(table) < FEWEST_ROWS * table["rater"].nunique():
        return
    names = [name for name in map(str, table.columns) if name not in STORED | KNOWN - {"prompt_id"}]
    for name in names:
        is_about_side = any(differ_only_in_side(name, other) for other in names)
        if is_metadata_heading(name) or (is_declared and not is_about_side):
            continue
        rows = table[["rater", "pair_id", name]].astype(object).dropna().astype(str).drop_duplicates()
        rows = rows.set_axis(["rater", "id", "name"], axis=1)
        if rows["name"].str.fullmatch(_PLAIN_NUMBER).all():
            continue  # it may count what the rater saw
        is_once = not rows.duplicated(["rater", "id"]).any() and not rows.duplicated(["rater", "name"]).any()
        couples = rows[["id", "name"]].drop_duplicates()
        largest = max(couples["id"].nunique(), couples["name"].nunique())
        if not is_once or len(couples) < _CROSSED * largest or len(rows) < _CROSSED * rows["name"].nunique():
            continue
        first = couples["id"].iloc[0]
        others = join_first_parts(map(repr, couples["name"][couples["id"] == first]), 3, join=", ")
        heading, column = (reading.find_column(role) or role for role in ("pair_id", name))
        by_name, by_id = (format_set_options(f"columns.pair_id={text}") for text in (column, heading))
        other = (
            "Otherwise write other ids for other texts"
            if is_about_side
            else f"If {heading} does, write {by_id}"
        )
        raise StudyError(
            f"{heading} {first!r} has several values of {column} ({others}), and each rater judged each of "
            f"them once. If {column} names the pair, write {by_name}. {other}"
        )


def _refuse_other_texts_under_one_id(table: pd.DataFrame) -> None:
    """Refuse a pair whose rows have different texts in columns such as response_a and response_b."""
    names = [name for name in map(str, table.columns) if _TEXT_OF_SIDE.fullmatch(simplify_heading(name))]
    if len(names) != 2 or not differ_only_in_side(*names):
        return
    texts = table[names].astype(object)
    is_text = texts.map(lambda cell: len(str(cell).split()) >= FEWEST_WORDS).all(axis=1)
    couples = [" / ".join(sorted(row)) for row in texts[is_text].itertuples(index=False)]
    pairs = pd.DataFrame({"pair": table.loc[is_text, "pair_id"], "texts": couples}).drop_duplicates()
    is_other = table["pair_id"].isin(pairs["pair"][pairs["pair"].duplicated()])
    refuse_wrong_rows(
        table,
        is_other,
        "the pair {pair_id!r} has several texts in {names} ({where}). Write other ids for other texts, such "
        "as news-1 and wiki-1. If each row is a separate pair, write --set columns.pair_id=",
        names=" and ".join(names),
    )


def _name_method_shown_first(table: pd.DataFrame) -> pd.Series:
    """Return the name of the method shown first in each row. `shown_first` may also say `a` or `b`."""
    first, a, b = table["shown_first"], table["method_a"], table["method_b"]
    is_unnamed = first.notna() & (first != a) & (first != b)
    letters = first.astype(object).str.lower()
    refuse_wrong_rows(
        table,
        is_unnamed & ~letters.isin(["a", "b"]),
        "shown_first {shown_first!r} names no method of its pair on {where}; write the method, a or b",
    )
    return first.mask(is_unnamed, a.where(letters == "a", b))


def _refuse_repeated_verdicts(table: pd.DataFrame) -> None:
    """Refuse two verdicts by one rater on one pair and criterion, unless the pair was shown twice."""
    names = ("pair_id", *METHODS, "rater", "criterion", "presentation")
    numbers = pd.Series(number_rows((table[name].array for name in names if name in table), len(table)))
    refuse_wrong_rows(
        table,
        numbers.duplicated(keep=False),
        "rater {rater!r} judged pair {pair_id!r} on {criterion!r} more than once ({where}); keep the current "
        "verdict, tell showings apart by a column 'presentation', or name several people in a column 'rater'",
    )


def _refuse_missing_prompts(table: pd.DataFrame) -> None:
    """Refuse rows without a prompt if other rows have one, because pairs may share the missing prompt."""
    if "prompt_id" in table and not table["prompt_id"].isna().all():
        refuse_wrong_rows(
            table,
            table["prompt_id"].isna(),
            "prompt_id is empty on {where}, and filled in other rows. Fill it in, because pairs of one "
            "prompt are not independent. If no pairs share a prompt, write --set columns.prompt_id=",
        )


def _describe_mixed_rater_kinds(table: pd.DataFrame, declared: RaterKind | None) -> list[str]:
    """Describe the raters if one kind is declared for all, but only some have the name of a model."""
    names = list(map(str, table["rater"].unique()))
    if declared is None or len(set(map(is_model_name, names))) < 2:
        return []
    return [
        f"all raters are declared as {declared}: {join_first_parts(sorted(names), MAX_NUMBERS, join=', ')}"
    ]


def _read_numbers(column: pd.Series) -> pd.Series:
    """Convert a column to numbers. An empty cell becomes NaN, and a comma is a decimal comma.

    Raises:
        StudyError: A cell is not a number, or every comma may also separate thousands, as in 1,500.
    """
    texts = pd.Series(convert_to_texts(column), column.index)
    cells = texts.cat.categories.str.strip()
    if not all(_THOUSANDS.fullmatch(cell) for cell in cells if "," in cell):
        cells = cells.str.replace(",", ".")
    values = pd.to_numeric(pd.Series(cells, texts.cat.categories), errors="coerce").replace(
        [np.inf, -np.inf], np.nan
    )
    numbers = texts.astype(object).map(values).astype(float)
    refuse_wrong_rows(
        pd.DataFrame({"cell": texts}),
        texts.notna() & numbers.isna(),
        "{name} is not a number ({cell!r}) on {where}; write it with a decimal point, or leave it empty",
        name=column.name,
    )
    return numbers
