"""Find the pair and the rater of each row, and the prompt that several pairs share.

The number of prompts is the number of independent units, so a wrong guess must not increase this number. If
several columns can name the prompt, the one with the fewest values is used. An uncertain column is refused.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import combinations, filterfalse
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.files import VerdictFormat
from analysis.verdicts.sides import read_sides
from analysis.verdicts.table import (
    FEWEST_ROWS,
    GROUPS,
    HEADINGS,
    ITEMS,
    METHODS,
    STORED,
    UNKNOWN_RATER,
    Table,
    format_column_options,
    format_line_numbers,
    is_called,
    is_metadata_heading,
    is_name_of_aggregate,
    refuse_wrong_rows,
)
from analysis.verdicts.words import format_set_options, is_model_name
from guard_eval.errors import StudyError
from guard_eval.files.headings import differ_only_in_side, simplify_heading
from guard_eval.reporting.words import join_with_and

NO_PAIR = "each row is a pair of its own: nothing names what was compared"
DECLARED_PAIR = "declared: each row is a pair of its own"
FEWEST_WORDS = 3
"""A cell with at least this number of words is a text."""
MAX_OPPOSITE = 0.1
"""If all pairs were shown twice, a larger share of opposite verdicts may mean that sides changed."""
MAX_OFFERS = 3
"""The largest number of columns that an error message suggests."""
FEWEST_DISTINCT = 0.9
"""The smallest share of a rater's rows that must differ in the columns that may name items together."""
MOST_PARTS = 8
"""The largest number of columns of which three are tried together as the name of an item."""
_ORDERS = ("method_a", "shown_first")
"""The columns that tell apart two showings of a pair in both orders of the methods."""


class ItemColumns(NamedTuple):
    """The columns that name the pair and the prompt of each row.

    Attributes:
        pair: The columns whose cells together name the pair; none if each row is a separate pair.
        prompt: The column that names the prompt; empty if there is none.
        why: The reason for this choice of columns.
    """

    pair: tuple[str, ...] = ()
    prompt: str = ""
    why: str = NO_PAIR

    def count_pairs(self, table: Table) -> int:
        """Return the number of pairs."""
        return table.count_distinct_rows(*self.pair) if self.pair else table.size


def add_pair_and_prompt_columns(
    table: Table, verdict_columns: Sequence[str], form: VerdictFormat | None
) -> None:
    """Add the pair to each row, and the prompt if a column names prompts.

    Args:
        table: A table whose methods are known.
        verdict_columns: The columns of verdicts, if the table is wide.
        form: The format of another program's file. Its columns are known, except for the data of tasks.

    Raises:
        StudyError: It is not clear whether a column names the pair or the prompt.
    """
    is_program = form is not None
    items = find_item_columns(table, verdict_columns, form)
    name = next(iter(items.pair), "")
    if name and not is_program:
        refuse_wrong_rows(
            table.frame,
            table.find_empty_cells(name),
            "{name} is empty on {where}, and names what was compared; fill in every cell, or write --set "
            "columns.pair_id= if each row is a separate pair",
            name=name,
        )
    # One column may name both the prompt and, with the methods, the pair.
    prompt = table.frame[items.prompt] if items.prompt else None
    if name != "pair_id":
        pairs = _make_pair_ids(table, items.pair)
        table.use_columns("pair_id", items.pair[:1], items.why, pair_id=pairs)
    if items.prompt not in {"", "prompt_id"}:
        why = "pairs with the same cell share a prompt"
        table.use_columns("prompt_id", [items.prompt], why, prompt_id=prompt)
    if name and not is_program and "pair_id" not in table.declared_columns:
        _refuse_ids_that_restart_in_groups(table, name)
    if "prompt_id" not in table and not is_program and "prompt_id" not in table.declared_columns:
        _refuse_prompts_that_differ_within_pairs(table)
    datasets = table.find_common_headings("dataset")
    datasets = [name for name in datasets if table.is_determined_by(name, "pair_id")]
    if datasets and "dataset" not in table:
        table.use_columns("dataset", datasets[:1], "its name", dataset=table.frame[datasets[0]])


def _make_pair_ids(table: Table, columns: Sequence[str]) -> pd.Series | NDArray[Any]:
    """Return the pair's id of each row: the cell of one column, a cell and the methods, or a row number."""
    if not columns:
        return np.arange(1, table.size + 1)
    if len(columns) == 1:
        return table.frame[columns[0]]
    numbers, rows = table.find_distinct_rows(*columns)
    ids = [f"{cell}: {', '.join(sorted(map(str, methods)))}" for cell, *methods in rows]
    return np.array(ids, dtype=object)[numbers]


def _refuse_prompts_that_differ_within_pairs(table: Table) -> None:
    """Refuse a column of prompts that is empty or has another cell in some rows of a pair.

    Raises:
        StudyError: A column of prompts would be the unit without these cells.
    """
    keys = ["pair_id", *table.list_existing("rater", "criterion")]
    for name in table.find_headings(HEADINGS["prompt"]):
        if not table.is_determined_by(name, *keys):
            continue  # it tells the verdicts of one rater on a pair apart, and is asked about later
        cells = table[name]
        counts = cells.groupby(table.number_rows("pair_id")).transform("nunique")
        is_shared = counts.max() > 1 or cells.nunique() < table.count_distinct_rows("pair_id")
        is_wrong = is_shared & ((counts > 1) | (cells.isna() & (counts > 0)))
        refuse_wrong_rows(
            table.frame,
            is_wrong,
            "the pair {pair_id!r} has more than one {heading}, or an empty one ({where}). Write one in all "
            "its rows. If {heading} is no prompt, write --set columns.prompt_id=",
            heading=name,
        )


def _refuse_ids_that_restart_in_groups(table: Table, heading: str) -> None:
    """Refuse pair ids that occur in several groups, such as languages: each group may number from 1 again.

    Args:
        table: A table with pairs.
        heading: The heading of the ids.
    """
    headings = table.find_headings([*HEADINGS["collections"], *HEADINGS["works"]])
    for name in filter(table.is_filled, headings):
        _, rows = table.find_distinct_rows("pair_id", name)
        [(pair, count)] = Counter(pair for pair, _ in rows).most_common(1)
        if count > 1:
            joined = format_column_options("pair_id", f"{name},{heading}")
            remedy = f"If ids begin again in each {name}, write {joined}"
            if name != "dataset":
                remedy += f". If they do not, write {format_column_options('pair_id', heading)}"
            raise StudyError(f"{heading} {pair!r} has {count} values of {name}. {remedy}")


def find_item_columns(
    table: Table, verdict_columns: Sequence[str], form: VerdictFormat | None
) -> ItemColumns:
    """Find the columns that name the pair and the prompt of each row; see `add_pair_and_prompt_columns`."""
    is_program = form is not None
    free = [
        name
        for name in (*table.columns_without_role, *table.list_existing("presentation"))
        if name not in verdict_columns
        and table.list_values(name)
        and not table.has_only_verdicts(name)
        and not read_sides(table, name).any()  # the column says which method was first
    ]
    free = [*_join_texts_of_both_sides(table, [] if is_program else free), *free]
    named = _list_columns_with_headings_of_items(table, free, is_program=is_program)
    if "pair_id" in table:
        items = _use_pair_column(table, "pair_id", named, "its name")
    elif "pair_id" in table.declared_columns:
        items = ItemColumns(why=DECLARED_PAIR)
    else:
        items = _find_items_by_heading(table, named, free)
    is_declared = "prompt_id" in table.declared_columns
    if "prompt_id" in table:
        coarser = [name for name in named if table.groups_rows_more_coarsely(name, "prompt_id")]
        coarser = [] if is_declared else list(filter(table.is_varying, coarser))
        items = items._replace(prompt=min(coarser, key=table.count_distinct_rows, default="prompt_id"))
        # Ids that differ in every pair group none, so another column may be the prompt.
        if items.prompt != "prompt_id" or table.count_distinct_rows("prompt_id") < items.count_pairs(table):
            return items
    if table.joined and not is_declared and not differ_only_in_side(*table.joined[:2]):
        return items._replace(prompt=_find_prompt_in_joined_columns(table))
    is_unsure = items.prompt in {"", "prompt_id"} and not is_declared
    if is_unsure and (form is None or form.asks):
        return _use_or_refuse_possible_item(table, items, free)
    return items


def _list_columns_with_headings_of_items(table: Table, free: Sequence[str], *, is_program: bool) -> list[str]:
    """Return the columns with headings of pairs or prompts, preferably those that vary and are filled."""
    named = [
        name
        for name in table.find_headings(ITEMS)
        if name not in table.joined and (name in {*free, "prompt_id"} or not table.list_values(name))
    ]
    prompts = list(filter(table.is_filled, table.find_headings(HEADINGS["prompt"])))
    if is_program or any(map(table.is_varying, prompts)):
        prompts = []  # if another prompt column varies, a constant one is an instruction
    varying = [name for name in named if table.is_varying(name) or name in prompts]
    named = varying if varying or is_program else named
    filled = list(filter(table.is_filled, named))
    return filled if any(map(table.has_repeats, filled)) else named


def _join_texts_of_both_sides(table: Table, free: Sequence[str]) -> list[str]:
    """Join the first two columns such as text_a and text_b whose cells together name the pair.

    An id that no rater has judged twice names the pair better. A short text is in few pairs. A score or a
    setting of the texts is in more couples, or says nothing but methods.
    """
    ids = filter(table.has_repeats, table.find_headings([*ITEMS, "pairid"]))
    if table.joined or any(map(table.is_judged_once, ids)):
        return []
    methods = len(set(table.list_values(*METHODS)))
    for couple in combinations(free, 2):
        if differ_only_in_side(*couple):
            count = table.join_cells(*couple).nunique()
            cells = set(table.list_values(*couple))
            are_in_few = 2 * count <= max(2, methods - 1) * len(cells)
            are_long = all(len(cell.split()) >= FEWEST_WORDS for cell in cells)
            if table.count_pairs() < count < table.size and (are_in_few or are_long):
                table.join_columns(",".join(couple))
                return [",".join(couple)]
    return []


def _find_items_by_heading(table: Table, named: Sequence[str], free: Sequence[str]) -> ItemColumns:
    """Find the columns that name the pair by their headings: a pair's id, or a prompt and two methods.

    If a rater has judged a prompt more than once, a `free` column with any heading may name its pairs.
    """
    repeated = list(filter(table.has_repeats, named))
    numbers = list(filterfalse(table.has_repeats, named))
    # An id or a prompt that differs in every row tells pairs apart that share a prompt.
    texts = [name for name in numbers if is_called(name, "prompt")]
    if not repeated:
        why = "it differs in every row" if numbers else NO_PAIR
        return ItemColumns(tuple(numbers[:1]), next(iter(texts), ""), why)
    finest = max(repeated, key=table.count_distinct_rows)
    for other in repeated:
        if not table.is_determined_by(other, finest):
            offers = format_column_options("pair_id", f"{other},{finest}", finest, other)
            raise StudyError(
                f"rows with the same {finest} differ in {other}. Say what names the pair: {offers}. If "
                f"{other} is what raters were asked, write {format_column_options('criterion', other)}"
            )
    has_raters = "rater" in table or "criterion" in table
    if texts or (numbers and has_raters and not table.is_judged_once(finest)):
        return _use_pair_column(table, [*texts, *numbers][0], repeated, "it differs in every row")
    has_own_methods = table.count_distinct_rows(finest) == table.count_pairs(finest)
    if has_own_methods and not is_called(finest, "prompt"):
        return _use_pair_column(table, finest, [name for name in repeated if name != finest], "it repeats")
    for name in free:
        if name not in named and _names_pairs_of_prompt(table, name, finest):
            return _use_pair_column(table, name, repeated, "no rater judged it twice, and it has one prompt")
    return ItemColumns(
        pair=(finest, *METHODS),
        prompt=min(repeated, key=table.count_distinct_rows),
        why="rows with the same cell and methods are a pair",
    )


def _names_pairs_of_prompt(table: Table, name: str, prompt: str) -> bool:
    """Return whether a column's cells are the pairs of a prompt: raters share them, and judge each once."""
    if is_metadata_heading(name) or "presentation" in table or "rater" not in table:
        return False
    is_shared = table.is_filled(name) and table.has_repeats(name)
    is_nested = table.is_determined_by(prompt, name)
    return is_shared and is_nested and table.is_judged_once(name) and not table.is_judged_once(prompt)


def _find_prompt_in_joined_columns(table: Table) -> str:
    """Return the column of the prompt if the user has declared that several columns together name the pair.

    The declared columns, up to the first column with a prompt's heading, together name the prompt.

    Raises:
        StudyError: Several pairs have the same cell in a part of the pair's name, which may be their prompt.
    """
    parts = list(table.joined)
    for number, name in enumerate(parts[:-1], start=1):
        if is_called(name, "prompt", "prompt_ids"):
            heading = ",".join(parts[:number])
            if number > 1:
                table.join_columns(heading)
            return heading
    parts = [name for name in parts if simplify_heading(name) not in GROUPS]
    pairs = table.count_distinct_rows(*table.joined)
    shared = [name for name in parts if table.count_distinct_rows(name) < pairs]
    if len(parts) > 1 and shared:
        # Numbers count the items of a text. Names may be the text that the items share.
        names = [name for name in shared if not all(map(str.isdecimal, table.list_values(name)))]
        raise StudyError(_describe_shared_cells(names or shared))
    return ""


def _describe_shared_cells(names: Sequence[str]) -> str:
    """Ask whether pairs with the same cell in one of these columns share a prompt."""
    return (
        f"several pairs have the same {join_with_and(map(repr, names[:MAX_OFFERS]))}. If they share a "
        "prompt, they are not independent: write "
        f"{format_column_options('prompt_id', *names[:MAX_OFFERS])}. If they do not, write "
        "--set columns.prompt_id="
    )


def _use_pair_column(table: Table, pair: str, others: Sequence[str], why: str) -> ItemColumns:
    """Use a column as the pair's id. Another column names the prompt if all rows of a pair have one value.

    A column with another value for each pair is the prompt only if its heading says so: it may count rows.
    """
    prompts = [
        name
        for name in others
        if table.groups_rows_more_coarsely(name, pair)
        or (is_called(name, "prompt", "prompt_ids") and table.is_determined_by(name, pair))
    ]
    return ItemColumns((pair,), min(prompts, key=table.count_distinct_rows, default=""), why)


def _may_column_name_item(table: Table, name: str, items: ItemColumns, *, is_named: bool) -> bool:
    """Return whether a column with an unknown heading can name a pair or a prompt.

    The values of the column must repeat, and a pair must have only one value. A group, such as a language,
    can be an item only if no rater has judged the group twice. If another column names the pair, a property
    of the raters or of the comparisons is not an item.
    """
    is_repeated = table[name].dropna().duplicated(keep=False)
    if is_metadata_heading(name) or not table.is_varying(name) or not is_repeated.any():
        return False
    # In a measurement, some values occur only once.
    if not is_repeated.all() and table.has_decimals(name):
        return False
    if items.pair and not table.groups_rows_more_coarsely(name, *items.pair):
        return False
    described = [["dataset"], ["criterion"], *([METHODS] if is_named else [])]
    if is_named or table.is_judged_once():
        described.append(["rater"])
    if any(table.is_property_of(name, *keys) for keys in described if set(keys) <= set(table.names)):
        return False
    has_raters = "rater" in table or "criterion" in table
    if has_raters and table.is_judged_once(name):
        return True
    values = table.list_values(name)
    are_prompts = len(values) > 2 or all(len(text.split()) >= FEWEST_WORDS for text in values)
    return are_prompts and simplify_heading(name) not in GROUPS


def _may_column_group_rows(table: Table, name: str) -> bool:
    """Return whether rows with the same value in a column may be one item, whatever the column's heading is.

    There are two cases. Each rater has judged each value once, and the column is constant or needed to tell
    a rater's verdicts apart. Or only the first row of each item has a value, as with merged cells.
    """
    rows = table.size
    count = table.count_distinct_rows(name)
    is_filled = table[name].notna()
    if is_filled.iloc[0] and 1 < 2 * is_filled.sum() <= rows:
        return True
    is_judged_once = "rater" in table and table.is_judged_once(name)
    return is_judged_once and 2 * count <= rows and (count == 1 or not table.is_judged_once())


def _find_columns_that_group_rows(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    """Return columns whose cells together recur over raters, but hardly ever for one rater.

    Rows with the same cells may be one item, such as the second trial of the first block, or a genre in one
    language. The headings do not count, because no column names the item otherwise. Couples of columns are
    tried, then three of the first columns, and then all columns together.
    """
    if "rater" not in table:
        return ()
    shared = [
        name
        for name in names
        if 1 < 2 * table.count_distinct_rows(name) <= table.count_distinct_rows(name, "rater")
    ]
    if len(shared) < 2:
        return ()
    groups = [*combinations(shared, 2), *combinations(shared[:MOST_PARTS], 3), tuple(shared)]
    keys = [*METHODS, *table.list_existing("rater", "criterion")]
    for group in groups:
        is_recurring = 2 * table.count_distinct_rows(*group) <= table.size
        # A row that is in the table twice must not hide an item.
        if is_recurring and table.count_distinct_rows(*group, *keys) >= FEWEST_DISTINCT * table.size:
            return group
    return ()


def _use_or_refuse_possible_item(table: Table, items: ItemColumns, free: Sequence[str]) -> ItemColumns:
    """Refuse a table if columns with unknown headings may name the pair or the prompt.

    If only one column may name the pair, and no known column does, this column is used. A wrong guess can
    only make the result less certain.
    """
    explained = {*items.pair, *table.joined, *(table.declared.groups if items.pair else ())}
    is_own_pair = items.pair == ("pair_id",) or "pair_id" in table.declared_columns
    is_row = items.count_pairs(table) == table.size and not is_own_pair
    is_named = not all(is_called(name, "row_numbers") for name in items.pair)
    free = [name for name in free if name not in explained]
    marks = list(filter(table.is_boolean, free))
    free = _list_groupings_without_known_meaning(table, items, free)
    likely = [name for name in free if _may_column_name_item(table, name, items, is_named=is_named)]
    groups_rows = is_row and not is_named
    unknown = [n for n in free if n in likely or (groups_rows and _may_column_group_rows(table, n))]
    # The lists of a JSON document without ids may have the same items, or be copies.
    has_pair = items.pair or is_own_pair
    if "key" in free and "key" not in unknown and not has_pair and table.has_repeats("key"):
        unknown += ["key"]
    unknown = list(filter(table.is_varying, unknown)) or unknown
    pair_columns = _find_possible_pair_columns(table, unknown, free)
    if groups_rows and not pair_columns:
        together = _find_columns_that_group_rows(table, [*free, *marks, *table.list_existing("slot")])
        unknown = unknown or list(together)
        pair_columns = [",".join(together)] if together else []
    if not unknown:
        return items
    if not is_row:
        raise StudyError(_describe_shared_cells(unknown))
    is_alone = groups_rows and "rater" in table and pair_columns == unknown == likely[:1]
    if is_alone and simplify_heading(unknown[0]) not in GROUPS:
        return _find_items_by_heading(table, likely, ())
    listed = join_with_and(map(repr, unknown[:MAX_OFFERS]))
    offers = format_column_options("pair_id", *(pair_columns[:MAX_OFFERS] or ["HEADING,HEADING"]))
    raise StudyError(
        f"several rows have the same {listed}, and nothing says whether they are about the same texts. If a "
        f"column names the pair, or several do together, write {offers}. If each row is a separate pair, "
        "write --set columns.pair_id="
    )


def _list_groupings_without_known_meaning(table: Table, items: ItemColumns, free: Sequence[str]) -> list[str]:
    """Return the columns that may name items. Of columns that group the rows equally, the first is enough."""
    names = list(filterfalse(table.is_boolean, free))
    names = list(filterfalse(table.has_heading_of_other_side, names))
    if any(is_called(name, "prompt_ids") for name in items.pair):
        names = [name for name in names if not is_called(name, "collections", "groups", "attributes")]
    return table.list_groupings(names)


def _find_possible_pair_columns(table: Table, names: Sequence[str], free: Sequence[str]) -> list[str]:
    """Return the columns, or else the couples of columns, of which no rater has judged a value twice.

    The headings of a couple are separated by a comma.

    Args:
        table: The table.
        names: The columns that may name the pair, alone or as a part of a couple.
        free: More columns, which may be the other part of a couple.
    """
    if "rater" not in table:
        return list(names)
    ordered = sorted(filterfalse(is_metadata_heading, free), key=table.count_distinct_rows)
    once = list(filter(table.is_judged_once, names))
    couples = [couple for couple in combinations(ordered, 2) if not set(couple).isdisjoint(names)]
    if once:  # an id may begin again in each value of another column that may name the pair
        couples = [
            (name, other)
            for name, other in couples
            if {name, other} <= set(names) and (name in once) != (other in once)
            if table.count_distinct_rows(name, other) > max(map(table.count_distinct_rows, (name, other)))
        ]
    return once + [",".join(couple) for couple in couples if table.is_judged_once(*couple)]


def recognise_model_judges(table: Table) -> None:
    """Set `rater_kind` to models if the raters' heading begins with "judge" and all are names of models."""
    heading = table.get_heading("rater")
    is_judge = simplify_heading(heading).startswith("judge")
    if is_judge and not table.has_rater_kinds and all(map(is_model_name, table.list_values("rater"))):
        table.use_columns("rater_kind", (heading,), "judges with names of models", rater_kind="model")


def assign_raters(table: Table) -> None:
    """Find the rater of each verdict, and the verdicts of repeated showings of a pair.

    Raises:
        StudyError: A pair has several verdicts, and the table does not say who gave them.
    """
    keys = ["pair_id", "criterion"]
    if "rater" in table:
        message = "{heading} is empty on {where}; name the rater in every row"
        is_empty = table.find_empty_cells("rater")
        refuse_wrong_rows(table.frame, is_empty, message, heading=table.get_heading("rater", "rater"))
        aggregates = list(filter(is_name_of_aggregate, table.list_values("rater")))
        if 0 < len(aggregates) < len(table.list_values("rater")):
            is_left_out = table["rater"].isin(aggregates)
            table.leave_out_rows(is_left_out, f"the raters' verdicts together ({join_with_and(aggregates)})")
        _refuse_row_numbers_as_raters(table, keys)
        _use_repeated_verdicts_as_showings(table, [*keys, "rater"])
    elif "rater" in table.declared_columns:
        raters = name_unknown_raters(pd.Series(table.number_pairs(*keys)))
        why = "declared: each verdict on a pair is by another, unnamed rater"
        table.use_columns("rater", (), why, rater=raters)
    else:
        _use_repeated_verdicts_as_showings(table, keys)
        why = f"the table has none: all verdicts are by {UNKNOWN_RATER!r}"
        table.use_columns("rater", (), why, rater=UNKNOWN_RATER)


def refuse_showings_with_changed_sides(table: Table) -> None:
    """Refuse letters if raters contradict themselves: the methods may have changed sides between showings.

    Raises:
        StudyError: All pairs were shown twice, and more than a tenth of the verdicts are opposite; or some
            pairs were, and most verdicts are opposite.
    """
    are_unnamed = table.declared_columns.get("rater") == ""
    if are_unnamed or not table.side_options or "presentation" not in table:
        return
    a, b, verdict = (table[name] for name in (*METHODS, "verdict"))
    sides = pd.Series((verdict == a).to_numpy(int) - (verdict == b).to_numpy(int))
    showings = sides.groupby(table.number_rows("pair_id", "criterion", "rater", *METHODS))
    is_twice = showings.size() == 2
    products = showings.prod()[is_twice].to_numpy(int)
    opposite, count = np.count_nonzero(products < 0), np.count_nonzero(products)
    are_many = 2 * opposite > count and opposite >= FEWEST_ROWS
    if are_many or (is_twice.all() and opposite > MAX_OPPOSITE * count):
        raise StudyError(
            f"both showings of a pair have opposite verdicts in {opposite} of {count} cases, so the methods "
            "may have changed sides. Write columns left and right, or the preferred method as the verdict. "
            f"If sides never changed, declare what the words mean: {table.side_options}"
        )


def name_unknown_raters(pairs: pd.Series) -> list[str]:
    """Name the rater of each verdict `unknown rater 1`, `unknown rater 2`, …, counted within each pair."""
    return [f"{UNKNOWN_RATER} {number + 1}" for number in pairs.groupby(pairs).cumcount()]


def _refuse_row_numbers_as_raters(table: Table, keys: Sequence[str]) -> None:
    """Refuse a column of raters that differs in every row, if another column may also be the rater.

    A `response_id` is often a row number, so it is refused without another column, too.
    """
    heading = table.get_heading("rater", "rater")
    are_rows = not table.has_repeats("rater") and table.has_repeats("pair_id")
    if not are_rows or "rater" in table.declared_columns:
        return
    others = [
        name
        for name in filterfalse(is_metadata_heading, filter(table.is_filled, table.columns_without_role))
        if name not in STORED and 1 < table.count_distinct_rows(name) <= table.size / 2
    ]
    others = [name for name in others if table.separates_verdicts(*keys, name)]
    if others or simplify_heading(heading) == "responseid":
        raise StudyError(
            f"{heading} differs in every row, so it may not name the rater. Say which column does, or none "
            f"if the raters were not recorded: {format_column_options('rater', *others[:1], heading, '')}"
        )


def _use_repeated_verdicts_as_showings(table: Table, keys: Sequence[str]) -> None:
    """Treat several verdicts by one rater on a pair as separate showings, if the rows tell showings apart.

    Raises:
        StudyError: Neither a known column nor the order of the methods distinguishes the verdicts.
    """
    keys = [*keys, *table.list_existing("presentation")]
    separates_verdicts = partial(table.separates_verdicts, *keys)
    # Ids that repeat in several datasets are refused later.
    if separates_verdicts() or ("dataset" in table and separates_verdicts("dataset")):
        return
    first = table["method_a"] + " first"
    if "presentation" in table:
        separating = list(filter(separates_verdicts, table.list_existing(*_ORDERS)))
        if not separating:
            raise StudyError(_describe_repeated_verdicts(table, keys))
        both = table["presentation"] + ", " + table[separating[0]] + " first"
        table.set_frame(table.frame.assign(presentation=both))
        return
    named = table.find_common_headings("presentation")
    free = [name for name in table.columns_without_role if name not in named and table.is_varying(name)]
    others = filterfalse(table.has_only_lists, filterfalse(is_metadata_heading, free))
    may_have_rater = "rater" not in table and any(map(separates_verdicts, others))
    named = list(filter(separates_verdicts, named))
    if named and not may_have_rater:
        why = "it tells apart the showings of a pair"
        table.use_columns("presentation", named[:1], why, presentation=table.frame[named[0]])
    elif separates_verdicts("method_a"):
        table.use_columns("presentation", (), "a rater judged both orders of the methods", presentation=first)
    elif "shown_first" in table and separates_verdicts("shown_first"):
        why = "a rater saw the methods in both orders"
        table.use_columns("presentation", (), why, presentation=table.frame["shown_first"])
    else:
        raise StudyError(_describe_repeated_verdicts(table, keys))


def _describe_repeated_verdicts(table: Table, keys: Sequence[str]) -> str:
    """Write the message that asks the user to declare why pairs have verdicts that are equal in `keys`."""
    repeated = pd.Series(table.number_pairs(*keys)).duplicated(keep=False).to_numpy()
    who = "pairs have several verdicts, and no column is known to name the rater"
    if "rater" in table:
        rater, pair = table.get_texts("rater", "pair_id").iloc[repeated.argmax()]
        who = f"rater {rater!r} judged pair {pair!r} more than once"
    remedies = []
    if settings := _list_settings_that_separate_verdicts(table, keys):
        remedies.append(
            "If a column names the rater, what was asked (criterion), another showing of the same texts "
            f"(presentation), or other texts (pair_id), write {format_set_options(*settings, join=' or ')}"
        )
    heading = table.get_heading("pair_id")
    has_texts = any(map(table.has_heading_of_other_side, table.columns_without_role))
    is_prompt = is_called(heading, "prompt") and not remedies
    if heading and not table.joined and (has_texts or is_prompt):
        options = format_set_options("columns.pair_id=", f"columns.prompt_id={heading}")
        remedies.append(f"If each row has other texts, write {options}")
    if "rater" not in table:
        remedies.append("If the raters were not recorded, write --set columns.rater=")
    where = format_line_numbers(repeated, table.frame.index)
    remedies.append("Otherwise keep the current verdict" if remedies else "Keep the current verdict")
    return f"{who} ({where}). {'. '.join(remedies)}"


def _list_settings_that_separate_verdicts(table: Table, keys: Sequence[str]) -> list[str]:
    """Return the settings of columns that may tell apart verdicts, which are equal in `keys`."""
    roles = ["rater"]
    if "rater" in table:
        # A person who belongs to the item, such as the author of the prompt, is no rater.
        is_author = table.is_varying("rater") and table.is_determined_by("rater", "pair_id")
        is_same_person = table.is_survey and not table.is_varying("rater")
        if not (is_author or is_same_person):
            roles = [role for role in ("criterion", "presentation") if not table.get_heading(role)]
    orders = table.list_existing(*_ORDERS)

    def separates_verdicts_and_orders(*names: str) -> bool:
        return any(table.separates_verdicts(*keys, *names, order) for order in orders)

    names = [
        name
        for name in filter(table.has_repeats, filterfalse(table.has_only_lists, table.columns_without_role))
        if table.is_varying(name) and not table.has_only_verdicts(name) and not table.has_decimals(name)
    ]
    turns = [name for name in names if is_called(name, "turns")]
    items = table.find_headings(ITEMS)
    # A column that crosses the pairs may be the pair instead, such as a question beside an id of two models.
    pairs = [
        name
        for name in filterfalse(is_metadata_heading, names)
        if table.is_judged_once(name) and not table.is_determined_by("pair_id", name)
        if table[name].duplicated(keep=False).all() and not table.has_heading_of_other_side(name)
    ]
    pairs = [] if table.is_survey else pairs
    ids = [name for name in names if name not in turns]
    ids = [name for name in ids if not is_metadata_heading(name) or simplify_heading(name) == "seed"]
    # An id that belongs to one pair and one rater is of a showing, and not of other texts.
    showings = [
        name
        for name in ids
        if "rater" in table
        and table.is_determined_by("pair_id", name)
        and table.is_determined_by("rater", name)
    ]
    ids = [name for name in ids if name not in showings]
    groups = [*zip(ids), *combinations((*ids, *showings), 2)]
    parts = next((group for group in groups if separates_verdicts_and_orders(*group)), ())
    settings: list[str] = []
    # If two columns are needed, each is declared on its own, and then the other one is asked about.
    for name in list(filter(separates_verdicts_and_orders, names)) or parts:
        kinds = roles
        if name in turns:
            kinds = ["criterion"]
        elif name in items and not table.is_survey:
            kinds = ["pair_id"]
        if name not in ids and name not in turns:
            kinds = [role for role in kinds if role == "presentation"]
        settings += [f"columns.{role}={name}" for role in kinds]
    settings += [f"columns.pair_id={name}" for name in pairs if name not in items]
    heading = table.get_heading("pair_id")
    if heading and parts and set(parts) <= set(ids) and not table.is_survey and not pairs:
        is_prompt = is_called(heading, "prompt")
        item = table.get_heading(heading, heading)
        settings.append(f"columns.pair_id={','.join([item, *parts] if is_prompt else [*parts, item])}")
    return settings
