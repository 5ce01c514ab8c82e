"""Any table of verdicts made tidy: its columns may have other names, verdicts may be letters, it may be wide.

The notes say what is taken for what: a column's name, a letter's side, what a heading is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.files import VerdictFile
from analysis.verdicts.layout import (
    KNOWN,
    LINE,
    REMARKS,
    as_texts,
    distinct_rows,
    number_list,
    number_rows,
    numbered,
    refuse_rows,
    with_shared_texts,
)
from analysis.verdicts.sides import METHOD_FIELDS, SHOWN, WORDS, names_field, says_sides_changed, side_of
from guard_eval.errors import StudyError, nearest
from guard_eval.records import TIE
from guard_eval.reporting.escaping import unescape_csv
from guard_eval.reporting.words import and_list

PAIR_IDS = ("item_id", "item", "instance_id", "example_id", "question_id", "id")
NAMES = {
    "pair_id": PAIR_IDS,
    "dataset": ("domain", "corpus", "category"),
    "prompt_id": ("source_id",),
    "rater": ("annotator", "annotator_id", "rater_id", "worker", "worker_id", "user", "user_id", "judge"),
    "criterion": ("aspect", "dimension", "attribute", "metric"),
    "verdict": ("winner", "preference", "choice", "preferred", "better"),
    "shown_first": ("first_shown",),
}
"""Other names of columns, which are read where the column itself is missing and one of them exists."""
PROMPTS = ("prompt_id", "prompt", "question", "instruction", "source_id")
"""Headings of the prompt in tables of two methods and a winner, the first that there is."""
MOSTLY = 0.9
"""A column of verdicts names a method of its row, or a tie, in so many of its filled cells."""
_PAIR = METHOD_FIELDS[0]


def cells_of(table: pd.DataFrame, file: VerdictFile) -> pd.DataFrame:
    """Return a file's cells; a list or an object in a column that is read is refused."""
    for name in [name for name in map(str, table.columns) if name in KNOWN and table[name].dtype == object]:
        for number, cell in enumerate(table[name]):
            if not pd.api.types.is_scalar(cell):
                _cell(list(cell), name, file.at(number + 1))
    return _without_apostrophes(table) if table.index.name == LINE else table


def cells_of_json(file: VerdictFile) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield a JSON file's records as rows of a table."""
    for index, record in file.records():
        yield index, {name: _cell(value, name, file.at(index)) for name, value in record.items()}


def _cell(value: object, name: str, where: str) -> str | None:
    if isinstance(value, dict | list):
        raise StudyError(
            f"{where}: {name} is {str(value)[:40]!r}, and a cell of a table is a text or a number; take what "
            "is in it out, or see the formats that are read: docs/formats.md"
        )
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _without_apostrophes(table: pd.DataFrame) -> pd.DataFrame:
    """Take the apostrophe away by which a CSV keeps a spreadsheet from reading a formula (`escape_csv`)."""
    plain = {name: [unescape_csv(text) for text in table[name].cat.categories] for name in table}
    if any(len(set(texts)) < len(texts) for texts in plain.values()):
        return table  # no program wrote it so, and a name is the same in all columns
    return table.assign(**{str(name): table[name].cat.rename_categories(plain[name]) for name in table})


def _with_notes(result: pd.DataFrame, table: pd.DataFrame, notes: Sequence[str]) -> pd.DataFrame:
    result.attrs = {**table.attrs, REMARKS: [*table.attrs.get(REMARKS, ()), *notes]}
    return result


def with_columns(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a table whose headings are renamed by the user's mapping.

    Args:
        frame: The table.
        columns: Headings by the column that they are: `{"method_a": "System 1"}`.

    Raises:
        StudyError: A column is unknown, there twice, or the table lacks a heading.
    """
    names = [str(name) for name in frame.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StudyError(f"the table has the column {twice[0]!r} twice; keep one")
    for name, heading in columns.items():
        if name not in KNOWN and name not in SHOWN:
            raise StudyError(f"columns.{name}: there is no such column; {nearest(name, sorted(KNOWN))}")
        if heading not in names:
            raise StudyError(f"columns.{name}={heading}: there is no such heading; {nearest(heading, names)}")
    new = {heading: name for name, heading in columns.items()}
    if len(new) < len(columns):
        raise StudyError(f"columns names a heading twice: {', '.join(columns.values())}; name each once")
    kept = frame.drop(columns=[name for name in columns if name in names and name not in new])
    return kept.rename(columns=new)


def tidied(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns' own names, long, and its verdicts un-blinded; itself where it is so.

    Raises:
        StudyError: Two columns could be one that is missing, or a letter could mean two methods.
    """
    notes: list[str] = []
    result = frame
    for step in (_with_ids_of_winners, _renamed, _long, _unblinded):
        result = step(result, notes)
    return _with_notes(result, frame, notes) if notes else result


def _texts(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return some columns as texts, with numbered rows."""
    table = numbered(frame)
    return pd.DataFrame({name: as_texts(table[name]) for name in names}, index=table.index)


def _with_ids_of_winners(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a table of two methods and a winner with what it lacks: ids, the rater, sides as methods."""
    names = set(map(str, frame.columns))
    methods = [pair for pair in (*METHOD_FIELDS, SHOWN) if set(pair) <= names]
    if "winner" not in names or {"verdict", "criterion", *_PAIR} & names or len(methods) != 1:
        return frame
    [pair] = methods
    if pair == SHOWN:
        frame = frame.assign(method_a=frame["left"], method_b=frame["right"])
        notes.append("read as columns: 'left' as method_a, 'right' as method_b, the sides as shown")
    couples = with_shared_texts(_texts(frame, pair), pair)
    both = np.sort([couples[name].cat.codes.to_numpy(dtype=np.int64) for name in pair], axis=0)
    couple = both[0] * (both.max() + 2) + both[1]
    ids = [name for name in ("pair_id", *PAIR_IDS) if name in names]
    raters = [name for name in ("rater", *NAMES["rater"]) if name in names]
    if len(ids) < 2:
        frame = frame.assign(**_pair_ids(frame, ids, couple, notes))
    if not raters:
        frame = frame.assign(rater="unknown rater")
        notes.append("there is no column rater: all verdicts are by 'unknown rater'")
    if "presentation" in names or len(raters) > 1 or len(ids) > 1:
        return frame
    keys = ["pair_id" if "pair_id" in frame else ids[0], raters[0] if raters else "rater"]
    if not pd.Series(number_rows(_texts(frame, keys), keys)).duplicated().any():
        return frame
    shown = couples[pair[0]].astype(object).to_numpy() + " first" if raters else _counted(range(len(frame)))
    return frame.assign(presentation=shown)


def _pair_ids(
    frame: pd.DataFrame, ids: Sequence[str], couple: NDArray[np.int64], notes: list[str]
) -> dict[str, list[str]]:
    """Return the columns pair_id and prompt_id of a table that lacks them.

    An id that is one couple of methods' alone is that of the pair; else it is a prompt's.
    """
    prompt = ids[0] if ids else next((name for name in PROMPTS if name in frame), None)
    if prompt is None:
        notes.append("there is no column pair_id or prompt_id: each row counts as a pair of its own")
        return {"pair_id": _counted(range(len(frame)))}
    prompts = number_rows(_texts(frame, [prompt]), [prompt])
    pairs = pd.factorize(prompts * (couple.max() + 1) + couple)[0]
    if ids and pairs.max() == prompts.max():
        return {}
    notes.append(f"rows with the same {prompt} and the same two methods are one pair")
    return {"pair_id": _counted(pairs)} | ({} if "prompt_id" in frame else {"prompt_id": _counted(prompts)})


def _counted(numbers: Any) -> list[str]:  # noqa: ANN401  an array or a range
    return [str(number + 1) for number in numbers]


def _renamed(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    names = {str(name) for name in frame.columns}
    new: dict[str, str] = {}
    if not set(_PAIR) & names:
        pairs = [pair for pair in METHOD_FIELDS if set(pair) <= names]
        if len(pairs) > 1:
            listed = and_list([f"{a} and {b}" for a, b in pairs])
            raise StudyError(f"the methods could be {listed}; rename one of them to method_a and method_b")
        new.update({old: name for pair in pairs for old, name in zip(pair, _PAIR, strict=True)})
    for name, others in NAMES.items():
        present = [] if name in names else [other for other in others if other in names]
        if len(present) > 1:
            raise StudyError(f"{name} could be {and_list(present)}; rename the column that is it to {name}")
        new.update(dict.fromkeys(present, name))
    # Without methods it is no table of verdicts, and what its columns mean would be a guess.
    if not new or not set(_PAIR) <= {*names, *new.values()}:
        return frame
    notes.append("read as columns: " + ", ".join(f"{old!r} as {name}" for old, name in new.items()))
    return frame.rename(columns=new)


def _long(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a wide table long, and a missing dataset or criterion filled in, where there are methods."""
    if not {"pair_id", *_PAIR} <= set(frame.columns):
        return frame
    missing = [name for name in ("criterion", "rater") if name not in frame]
    if "verdict" not in frame:
        columns = columns_of_verdicts(frame)
        if len(missing) != 1 or not columns:
            return frame
        frame = _melted(numbered(frame), columns, missing[0], notes)
    elif missing == ["criterion"]:
        notes.append("there is no column criterion: it is called 'overall'")
        frame = frame.assign(criterion="overall")
    if "dataset" not in frame and {"rater", "criterion"} <= set(frame.columns):
        notes.append("there is no column dataset: it is called 'all'")
        frame = frame.assign(dataset="all")
    return frame


def _melted(frame: pd.DataFrame, columns: list[str], heads: str, notes: list[str]) -> pd.DataFrame:
    """Return a row for each cell of the columns of verdicts; their headings are the column `heads`."""
    sides = {name: [side_of(text) for text in as_texts(frame[name]).categories] for name in columns}
    lettered = [name for name in columns if any(sides[name])]
    other = [name for name in columns if set(sides[name]) == {None}]
    if lettered and other:  # the latter may say who was on which side
        raise StudyError(
            f"the column {lettered[0]!r} has sides ({WORDS}), and {other[0]!r} has methods: if it says which "
            "text was first, call it shown_first, or left and right; if not, write methods in both"
        )
    for name in [name for name in _own_columns(frame) if name not in columns]:
        cells = [text for text in as_texts(frame[name]) if isinstance(text, str)]
        words = sum(side_of(text) is not None for text in cells)
        if words:
            notes.append(
                f"the column {name!r} is not read, since only {words} of its {len(cells)} cells are verdicts"
            )
    kept = [name for name in frame.columns if name not in columns]
    long = frame.melt(kept, columns, var_name=heads, value_name="verdict", ignore_index=False)
    verdicts = as_texts(long["verdict"])
    filled = verdicts.codes >= 0
    empty = int((~filled).sum())
    notes.append(
        f"it is wide: the heading{'s' if columns[1:] else ''} {and_list([repr(name) for name in columns])} "
        f"{'are' if columns[1:] else 'is'} read as {heads}"
        + (f", {empty} empty cells as no verdicts" if empty else "")
    )
    return long.assign(verdict=verdicts)[filled]


def _own_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns besides a tidy table's own."""
    return [name for name in map(str, frame.columns) if name not in KNOWN and name not in SHOWN]


def columns_of_verdicts(frame: pd.DataFrame) -> list[str]:
    """Return the columns besides a tidy table's own whose cells are verdicts: methods, sides or ties."""
    methods = _PAIR if set(_PAIR) <= set(frame.columns) else ()
    return [name for name in _own_columns(frame) if _holds_verdicts(_texts(frame, [name, *methods]))]


def _holds_verdicts(table: pd.DataFrame) -> bool:
    """Return whether most filled cells of the first column are verdicts; the methods are in the others."""
    numbers, rows = distinct_rows(table, list(table.columns))
    counts: Counter[tuple[str, ...]] = Counter()
    for cells, count in zip(rows, np.bincount(numbers).tolist(), strict=True):
        if cells[0] is not None:
            counts[tuple((cell or "").strip().casefold() for cell in cells)] += count
    known = {cell for cell, *_ in counts}
    are_methods = len(table.columns) == 1 and TIE in known and len(known) <= 3  # two methods, and ties
    words = sum(
        count
        for (cell, *methods), count in counts.items()
        if are_methods or cell in methods or side_of(cell) is not None
    )
    return bool(counts) and words >= MOSTLY * counts.total()


def _is_letter(verdict: str | None, a: str | None, b: str | None) -> bool:
    """Return whether a verdict is the word for a side or a tie, and no method's own name."""
    return verdict is not None and verdict not in {a, b, TIE} and side_of(verdict) is not None


def _names_side(verdict: str | None, a: str | None, b: str | None) -> bool:
    return _is_letter(verdict, a, b) and side_of(str(verdict)) != 0


def _unblinded(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Replace letters by methods: A is the method in the column left, or else in method_a."""
    if not {"verdict", *_PAIR} <= set(frame.columns):
        return frame
    is_shown = set(SHOWN) <= set(frame.columns)
    by = SHOWN if is_shown else _PAIR
    names = list(dict.fromkeys(("verdict", *_PAIR, *by)))
    table = _texts(frame, names)
    numbers, rows = distinct_rows(table, ["verdict", *_PAIR, *by])
    words = sorted({str(row[0]) for row in rows if _is_letter(*row[:3])})
    if not words:
        return frame
    only_sides = is_shown and all(side_of(word) == 0 or word.casefold() in SHOWN for word in words)
    odd = [
        method
        for method in dict.fromkeys(method for row in rows for method in row[1:3] if method is not None)
        if (side := side_of(method)) is not None
        and (not only_sides or side == 0 or method.casefold() in SHOWN)  # beside left, no method A
    ]
    refuse_rows(
        table,
        ["verdict", *_PAIR],
        lambda *row: bool(odd) and _is_letter(*row),
        "the verdict {0!r} on {where} may name a side, or the method {odd[0]!r}; rename that method",
        odd=odd,
    )
    if is_shown:
        _check_shown(table)
    else:
        for name in [name for name in map(str, frame.columns) if name not in KNOWN]:
            _check_other_sides(table.assign(other=pd.Series(as_texts(frame[name]), table.index)), name)
    if "shown_first" in frame:
        _check_first(table.assign(shown_first=pd.Series(as_texts(frame["shown_first"]), table.index)), by[0])
    elif is_shown:
        frame = frame.assign(shown_first=frame["left"])
    has_sides = any(_names_side(*row[:3]) for row in rows)
    notes.append(
        f"the verdicts {and_list(words)} are read by the columns {by[0]} and {by[1]} of their row"
        + ("" if has_sides else ", as ties")
    )
    methods = [
        (TIE, first, second)[side_of(str(verdict)) or 0] if _is_letter(verdict, a, b) else verdict
        for verdict, a, b, first, second in rows
    ]
    return frame.assign(verdict=pd.Categorical(methods).take(numbers))


def _check_shown(table: pd.DataFrame) -> None:
    """Refuse letters in rows whose sides are not the methods, or that name a column which may be a side."""
    names = ["verdict", *_PAIR, *SHOWN]
    refuse_rows(
        table,
        names,
        lambda verdict, a, b, *shown: _is_letter(verdict, a, b) and None not in {a, b} and {*shown} != {a, b},
        "left and right are not the row's methods on {where}; name the same",
    )
    refuse_rows(
        table,
        names,
        lambda verdict, a, b, left, _: _names_side(verdict, a, b) and names_field(verdict) and left != a,
        "the verdict {0!r} on {where} may be the column's method, or that of the side; write the methods' "
        "names",
    )


def _check_other_sides(table: pd.DataFrame, name: str) -> None:
    """Refuse letters if a column of another name may say that sides changed."""
    names = ["other", "verdict", *_PAIR]
    sided = [row for row in distinct_rows(table, names)[1] if _names_side(*row[1:])]
    names_methods = all(cell in {a, b} for cell, _, a, b in sided)

    def may_have_changed(cell: str | None, verdict: str | None, a: str | None, b: str | None) -> bool:
        changed = says_sides_changed(name, cell or "") or (names_methods and cell != a)
        return changed and _names_side(verdict, a, b)

    refuse_rows(
        table,
        names,
        may_have_changed,
        "the verdict on {where} is a side ({words}), and the column {name!r} may say that sides changed "
        "there; write the methods' names, or columns left and right with the methods as shown",
        words=WORDS,
        name=name,
    )


def _check_first(table: pd.DataFrame, first_side: str) -> None:
    """Refuse letters in rows whose first text is not on the first side, because they are ambiguous."""
    refuse_rows(
        table,
        ["verdict", *_PAIR, "shown_first", first_side],
        lambda verdict, a, b, first, side: (
            _names_side(verdict, a, b)
            and first is not None
            and {"a": a, "b": b}.get(first.casefold(), first) != side
        ),
        "the verdict on {where} is a side ({words}), which may be that of the text shown first or that of "
        "the column; write the methods' names",
        words=WORDS,
    )


def only_answers(frame: pd.DataFrame, notes: list[str], path: str) -> pd.DataFrame:
    """Return the answers to questions of verdicts: the other questions ask for comments or ratings.

    Raises:
        StudyError: No answer is a verdict.
    """
    table = _texts(frame.assign(verdict=frame.get("verdict")), ["criterion", "verdict", *_PAIR])
    numbers, rows = distinct_rows(table, list(table.columns))
    asked = {
        criterion
        for criterion, verdict, a, b in rows
        if verdict is not None and (verdict in {a, b} or side_of(verdict) is not None)
    }
    if not asked:
        raise StudyError(f"{path} holds no verdicts: no answer is one; write the methods, or {WORDS}")
    if other := sorted({str(row[0]) for row in rows} - asked):
        notes.append(f"not read, since no answer is a verdict: {and_list(list(map(repr, other)))}")
    is_asked = np.array([row[0] in asked for row in rows])[numbers]
    is_empty = np.array([row[1] is None for row in rows])[numbers] & is_asked
    if is_empty.any():
        lines = sorted({int(number) for number in frame.index[is_empty]})
        notes.append(f"{is_empty.sum()} left out: no answer ({number_list(lines, str(frame.index.name))})")
    kept: pd.DataFrame = frame[is_asked & ~is_empty]
    return kept


def other_headings(frame: pd.DataFrame, missing: Collection[str]) -> str:
    """Return how a table that lacks columns is read: with other headings, or a column for each criterion."""

    def plain(name: str) -> str:
        return "".join(character for character in name.casefold() if character.isalnum())

    alike = {plain(str(name)): str(name) for name in frame.columns}
    if named := [f"--set 'columns.{name}={alike[plain(name)]}'" for name in missing if plain(name) in alike]:
        return f"; name yours with: {' '.join(named)}"
    holding = columns_of_verdicts(frame) if "verdict" in missing else []
    if len(holding) > 1:
        heads = "rater" if "rater" in missing and "criterion" not in missing else "criterion"
        needed = [name for name in missing if name not in {"verdict", "dataset", heads}]
        more = f"; it is read once it has {and_list(needed)}" if needed else ""
        return f"; it is wide, with verdicts in the columns {and_list(holding)}, one for each {heads}{more}"
    filled = {"verdict", "dataset", "criterion"} if set(missing) - {"dataset", "criterion"} else {"verdict"}
    named = [f"columns.verdict={holding[0]}"] if holding else []
    named += [f"columns.{name}=HEADING" for name in missing if name not in filled]
    return f"; say which of your headings they are: --set {' --set '.join(named)}" if named else ""
