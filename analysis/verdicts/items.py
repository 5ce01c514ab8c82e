"""What each row compares: the pair, and the prompt that several pairs share.

The number of prompts is the number of independent units, so a wrong guess must not raise it. Of several
columns that can name the prompt, the one with the fewest values does; what is not certain is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.columns import HEADINGS, Columns, plain_heading
from analysis.verdicts.draft import METHODS, Declared
from analysis.verdicts.layout import number_rows, with_shared_texts
from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list

NO_PAIR = "each row is a pair of its own: nothing names what was compared"
MAX_OFFERS = 3
"""Columns that a refusal offers."""
FEWEST_ROWS = 3
"""Rows that a rater or a comparison has on average before a column can be said to describe it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Items:
    """What names the pair and the prompt of each row.

    Attributes:
        pair: The columns whose cells together name the pair; none if each row is a pair of its own.
        prompt: The column that names the prompt; empty if nothing does.
        why: Why these do.
    """

    pair: tuple[str, ...]
    prompt: str
    why: str


def find_items(columns: Columns, *, rated: Sequence[str], free: Sequence[str], declared: Declared) -> Items:
    """Return what names the pair and the prompt of each row.

    Args:
        columns: The table.
        rated: The columns of methods, rater and criterion, as far as there are any.
        free: The columns that have no other role.
        declared: What the user says of the table.

    Raises:
        StudyError: A column can name what was compared, and nothing says whether it does.
    """
    named = [
        name
        for name in columns.among([*HEADINGS["pair"], *HEADINGS["prompt"]])
        if name in free and columns.is_filled(name)
    ]
    named = [name for name in named if columns.count(name) > 1] or named
    if "pair_id" in columns.names:
        items = _of_pair(columns, "pair_id", named, "its name")
    elif "pair_id" in declared.columns:
        items = Items(pair=(), prompt="", why="declared: each row is a pair of its own")
    else:
        items = _by_name(columns, named, rated)
    if "prompt_id" in columns.names:
        return replace(items, prompt="prompt_id")
    if not items.prompt and "prompt_id" not in declared.columns:
        free = [name for name in free if not items.pair or name not in declared.groups]
        _refuse_unknown(columns, items, rated, free, is_pair_declared="pair_id" in declared.columns)
    return items


def _by_name(columns: Columns, named: Sequence[str], rated: Sequence[str]) -> Items:
    """Return the items that a heading names: an id of a pair, or a prompt and its two methods."""
    repeated = [name for name in named if columns.count(name) < len(columns.frame)]
    numbers = [name for name in named if name not in repeated]
    if not repeated:
        why = "it differs in every row" if numbers else NO_PAIR
        return Items(pair=tuple(numbers[:1]), prompt="", why=why)
    finest = max(repeated, key=columns.count)
    for other in repeated:
        if not columns.is_fixed_by(other, [finest]):
            raise StudyError(
                f"the pair could be named by {finest} or by {other}, which do not go together; say which: "
                f"--set 'columns.pair_id={finest}' or --set 'columns.pair_id={other}'"
            )
    # A row number tells pairs apart that share a prompt and were judged by one rater.
    if numbers and len(rated) > len(METHODS) and columns.count(finest, *rated) < len(columns.frame):
        return _of_pair(columns, numbers[0], repeated, "a row number beside the prompt")
    is_prompt = plain_heading(finest) in HEADINGS["prompt"]
    if not is_prompt and _has_own_methods(columns, finest):
        return _of_pair(columns, finest, [name for name in repeated if name != finest], "it repeats")
    coarsest = min(repeated, key=columns.count)
    return Items(
        pair=(finest, *METHODS), prompt=coarsest, why="rows with the same cell and methods are a pair"
    )


def _of_pair(columns: Columns, pair: str, others: Sequence[str], why: str) -> Items:
    """Return the items of a column that names pairs; one that is fixed by it and repeats is the prompt."""
    prompts = [
        name
        for name in others
        if columns.is_fixed_by(name, [pair]) and columns.count(name) < columns.count(pair)
    ]
    return Items(pair=(pair,), prompt=min(prompts, key=columns.count, default=""), why=why)


def _has_own_methods(columns: Columns, name: str) -> bool:
    """Return whether each cell of a column has one pair of methods, in any order."""
    return columns.count(name) == int(pair_codes(columns, [name]).max(initial=-1)) + 1


def pair_codes(columns: Columns, names: Sequence[str] = ()) -> NDArray[np.int64]:
    """Return a number for each row: the same in rows with the same cells in `names` and the same methods."""
    methods = with_shared_texts(columns.texts(*METHODS), METHODS)
    sides = np.sort([methods[name].cat.codes for name in METHODS], axis=0)
    table = columns.texts(*names).assign(first=pd.Categorical(sides[0]), second=pd.Categorical(sides[1]))
    return number_rows(table, [*names, "first", "second"])


def _refuse_unknown(
    columns: Columns,
    items: Items,
    rated: Sequence[str],
    free: Sequence[str],
    *,
    is_pair_declared: bool,
) -> None:
    """Refuse a table with a column of an unknown name that repeats over pairs and is fixed within them."""
    pairs = columns.count(*items.pair) if items.pair else len(columns.frame)
    keys = [["dataset"]] if "dataset" in columns.names else []
    keys += [list(METHODS), *([name] for name in rated if name not in METHODS)]
    # What a rater or a comparison has is the same in many of its rows, and not in one or two by chance.
    fixed = [names for names in keys if 1 < columns.count(*names) <= len(columns.frame) / FEWEST_ROWS]
    open_names = [
        name
        for name in free
        if name not in items.pair
        and columns.may_name_item(name, rated)
        and columns.count(name) < pairs
        and (not items.pair or columns.is_fixed_by(name, items.pair))
        and not any(columns.is_fixed_by(name, names) for names in fixed)
    ]
    if not open_names:
        return
    is_row = pairs == len(columns.frame) and items.pair != ("pair_id",)
    role = "prompt_id" if is_pair_declared or not is_row else "pair_id"
    offers = [f"--set 'columns.{role}={name}'" for name in open_names[:MAX_OFFERS]]
    listed = and_list([repr(name) for name in open_names[:MAX_OFFERS]])
    verb = "repeats" if len(open_names) == 1 else "repeat"
    if role == "pair_id":
        why = "each row would count as a pair of its own, and may not be one"
        none = "If each row is a pair of its own, write --set columns.pair_id="
    else:
        why = "pairs that share a prompt are not independent"
        none = "If none does, write --set columns.prompt_id="
    raise StudyError(
        f"{listed} {verb}, and nothing says whether it names what was compared: {why}. Say which does: "
        f"{' or '.join(offers)}. {none}"
    )
