"""Read the verdicts of a data frame or of files. The first record of a file shows its format."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.verdicts.checks import check_verdicts, refuse_raters_in_two_spellings
from analysis.verdicts.files import FOREIGN, Record, VerdictFile, name_file_in_errors, read_program_file
from analysis.verdicts.items import DECLARED_PAIR, NO_PAIR, name_unknown_raters
from analysis.verdicts.methods import SYSTEMS, TEXTS, find_method_headings, find_methods
from analysis.verdicts.reading import READING, get_reading, join_readings
from analysis.verdicts.sides import is_heading_about_sides
from analysis.verdicts.table import (
    EXCLUDED,
    HEADINGS,
    ITEMS,
    KNOWN,
    METHODS,
    NUMBERED,
    REQUIRED,
    SHOWN,
    STORED,
    Declarations,
    Table,
    format_column_options,
    has_word,
    is_called,
    is_metadata_heading,
    refuse_wrong_rows,
)
from analysis.verdicts.tidy import WORDS, make_tidy
from analysis.verdicts.words import find_word_meaning
from guard_eval.errors import StudyError, suggest_nearest_word
from guard_eval.files.headings import simplify_heading, split_heading_words
from guard_eval.reporting.words import join_with_and

TABLE = "table"
FORMATS: tuple[str, ...] = (*FOREIGN, TABLE)
"""The names that `--set format=` takes."""

FEWEST_RATERS = 2
"""If a file has at least this number of raters, a column with one value is not about a single rater."""
_FOR_PROGRAMS = {"prompt_id", EXCLUDED}
"""The columns that can be declared for another program's file."""
_SAMPLES = {"doc_id", "resps", "arguments"}
"""Keys of the samples of lm-evaluation-harness. These files hold texts, not verdicts."""
_JUDGED = frozenset(
    ("rater", "verdict", *HEADINGS["names"]["rater"], *HEADINGS["names"]["verdict"], "loser", "chosen")
)
"""Headings of raters and verdicts. An item has none of them."""
_RIGHT = frozenset({"answer", "check", "correct", "expected", "gold", "golden", "key", "right", "solution"})
"""Words in headings of the right answers to check questions, which an item may have."""

Source = Path | str | pd.DataFrame | Sequence[Path | str]
"""A data frame with a row per verdict, a file of verdicts, or several files."""


def read_verdicts(source: Source, declared: Declarations) -> pd.DataFrame:
    """Read and validate the verdicts of a data frame or of files. Texts are categoricals (`check_verdicts`).

    Several files form one table. A file of items names the methods that the answers in another file compare.

    Raises:
        StudyError: A file is missing, unreadable or not a valid table of verdicts; the message names the
            lines.
    """
    if declared.form is not None and declared.form not in FORMATS:
        nearest = suggest_nearest_word(declared.form, list(FORMATS))
        raise StudyError(f"there is no format {declared.form!r}; {nearest}")
    if isinstance(source, pd.DataFrame):
        if declared.form not in {None, TABLE}:
            raise StudyError(f"format is {declared.form!r}, but a data frame is no file; remove this setting")
        whole = _read_frame(source, declared)
    else:
        whole = _read_files(list_paths(source), declared)
    refuse_raters_in_two_spellings(whole)
    return whole


def _read_files(source: Sequence[Path], declared: Declarations) -> pd.DataFrame:
    """Read files of verdicts as one checked table."""
    tables = []
    loaded = load_files(source, declared)
    _refuse_unknown_words([frame for _, frame in loaded], declared)
    for path, frame in loaded:
        with name_file_in_errors(path):
            tables.append(check_verdicts(frame, rater_kind=declared.rater_kind))
    return tables[0] if len(tables) == 1 else _join_tables(tables, source, declared)


def _join_tables(
    tables: Sequence[pd.DataFrame], source: Sequence[Path | str], declared: Declarations
) -> pd.DataFrame:
    """Join the checked tables of several files, and check the whole table."""
    roles = [role for table in tables for role in get_reading(table).roles]
    if any(role.role == "pair_id" and role.why in {NO_PAIR, DECLARED_PAIR} for role in roles):
        raise StudyError(
            "no column has ids of the pairs, so pairs of different files would get the same numbers. Put all "
            "rows into one file, or say which column has the ids: --set columns.pair_id=HEADING"
        )
    whole = pd.concat([table.astype(object) for table in tables], ignore_index=True)
    if "pair_id" not in declared.columns:
        _refuse_ids_that_restart_in_files(tables, whole)
    if declared.columns.get("rater") == "":
        whole["rater"] = name_unknown_raters(whole.groupby(["pair_id", "criterion"], sort=False).ngroup())
    whole.attrs = {READING: join_readings(map(get_reading, tables))}
    try:
        return check_verdicts(whole)
    except StudyError as error:
        raise StudyError(f"{', '.join(map(str, source))} together: {error}") from None


def _refuse_ids_that_restart_in_files(tables: Sequence[pd.DataFrame], whole: pd.DataFrame) -> None:
    """Refuse ids in several files if each file is about another language, book or the like.

    A file of one rater may also say other things about this rater, so only common headings count there.
    """
    kinds = ("collections", "groups", "prompt", "attributes")
    collections = {heading for kind in kinds for heading in HEADINGS[kind]}
    for name in map(str, whole.columns.difference([*KNOWN, *STORED])):
        is_common = simplify_heading(name) in collections
        is_about_raters = any(table["rater"].nunique() < FEWEST_RATERS for table in tables) and not is_common
        sizes = {table[name].nunique() if name in table else 0 for table in tables}
        if sizes != {1} or is_about_raters or is_metadata_heading(name):
            continue
        counts = whole.groupby("pair_id")[name].nunique()
        if counts.max() > 1:
            heading = get_reading(tables[0]).find_column("pair_id")
            joined, alone = (
                format_column_options("pair_id", text) for text in (f"{name},{heading}", heading)
            )
            raise StudyError(
                f"each file has one {name}, and {heading} {counts.idxmax()!r} is in several files. If ids "
                f"begin again in each file, write {joined}. If all are about the same texts, write {alone}"
            )


def _read_frame(frame: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """Read the verdicts of a data frame. A frame that was read before is only checked."""
    is_read = READING in frame.attrs and set(REQUIRED) <= set(frame.columns)
    if not is_read or declared.columns or declared.words:
        frame = make_tidy(_turn_index_into_columns(frame), declared)
        _refuse_unknown_words([frame], declared)
    return check_verdicts(frame, rater_kind=declared.rater_kind)


def list_paths(source: Path | str | Sequence[Path | str]) -> list[Path]:
    """Return the paths of the files of verdicts.

    Raises:
        StudyError: The source is not a path or a list of paths.
    """
    paths = [source] if isinstance(source, Path | str) else source
    if (
        not isinstance(paths, Sequence)
        or not paths
        or not all(isinstance(path, Path | str) for path in paths)
    ):
        raise StudyError("there are no verdicts; name a data frame, the path of a file, or several paths")
    return list(map(Path, paths))


def _refuse_unknown_words(frames: Sequence[pd.DataFrame], declared: Declarations) -> None:
    """Refuse a declared word that no cell has, because a cell such as `A` would keep its common meaning.

    Raises:
        StudyError: No table has the word, and the word is not the name of a method.
    """
    cells = {text for frame in frames for text in frame.attrs.get(WORDS, ())}
    for word, meaning in declared.words.items():
        if word not in cells and word != meaning:
            raise StudyError(
                f"verdicts.{word}={meaning}: no cell is {word!r}. Write the word as in the cells"
            )


def _turn_index_into_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which an index with names or with texts has become columns."""
    names = set(frame.index.names)
    if isinstance(frame.index, pd.MultiIndex):
        return frame if names & {None, *frame.columns} else frame.reset_index()
    is_column = not names <= {None, *NUMBERED} or frame.index.inferred_type == "string"
    return frame.reset_index(drop=names <= {*frame.columns}) if is_column else frame


def load_files(files: Sequence[Path], declared: Declarations) -> list[tuple[Path, pd.DataFrame]]:
    """Load files of any known format as tidy tables. The verdicts are not checked yet.

    A file of items names the methods that are compared in the other files.

    Raises:
        StudyError: A file cannot be read, has an unknown or ambiguous format, or holds no verdicts.
    """
    opened = [VerdictFile(path) for path in files]
    judged = {declared.columns.get(role) for role in ("verdict", "rater")}
    described = [file for file in opened if _is_item_record(file.first) and judged.isdisjoint(file.first)]
    described = described if len(files) > 1 else []
    holding = [file for file in opened if file not in described]
    if not holding:
        raise StudyError(f"{files[0]} has items but no verdicts; give the file of annotations, too")
    headings = {name for file in holding for name in file.first}
    items = _read_items(described, set(map(simplify_heading, headings)))
    # The formats of all files are recognised before any file is read to its end.
    forms = [declared.form or recognise_format(file, declared.columns) for file in holding]
    tables = []
    for file, form in zip(holding, forms, strict=True):
        others = headings - set(file.first)
        columns = {
            name: heading
            for name, heading in declared.columns.items()
            if heading not in others and (form == TABLE or name in _FOR_PROGRAMS)
        }
        relevant = replace(declared, columns=columns)
        with name_file_in_errors(file.path):
            if form == TABLE:
                table = make_tidy(file.read_table(), relevant, items)
            else:
                table = make_tidy(read_program_file(file, form, items), relevant, form=FOREIGN[form])
        tables.append((file.path, table))
    return tables


def _is_item_record(record: Record) -> bool:
    """Return whether a record is an item: it has methods, but neither a rater nor a verdict."""
    couples = find_method_headings(list(record), SYSTEMS) or find_method_headings(list(record), TEXTS)
    methods = {name for couple, _ in couples for name in couple}
    return bool(couples) and not any(
        _is_about_rating(name, value) for name, value in record.items() if name not in methods
    )


def _is_about_rating(name: str, value: object) -> bool:
    """Return whether a field names a rater, or holds a verdict: by its heading, or by its value."""
    words = set(split_heading_words(name))
    if simplify_heading(name) in _JUDGED or "winner" in words or has_word(name, "counting"):
        return True
    is_other = is_called(name, "no_verdicts") or is_heading_about_sides(name)
    is_verdict = isinstance(value, str) and find_word_meaning(value) is not None
    return is_verdict and not is_other and _RIGHT.isdisjoint(words)


def _read_items(files: Sequence[VerdictFile], headings: set[str]) -> pd.DataFrame | None:
    """Read files of items, indexed by their ids. Equal items are one item.

    The column of ids also exists in the answers, or it has a common heading for ids.

    Raises:
        StudyError: Two items have the same id, or an item has no id or no methods.
    """
    frames = []
    for file in files:
        table = Table(file.read_table(), Declarations())
        find_methods(table)
        common = table.find_headings(("pairid", *ITEMS))
        names = [name for name in (*common, *table.names) if name not in {*METHODS, *SHOWN}]
        shared = [name for name in names if simplify_heading(name) in headings]
        key = next(iter([*shared, *common]), "")
        if not key:
            raise StudyError(f"{file.path}: no column has the ids of the items; add a column item")
        ids = table[key]
        if "pair_id" not in table:
            table.use_columns("pair_id", [key], "its name", pair_id=ids)
        frames.append(table.frame.astype(object).assign(_id=ids))
    if not frames:
        return None
    items = pd.concat(frames).drop_duplicates()
    refuse_wrong_rows(
        items,
        items["_id"].duplicated(),
        "{names}: two items have the id {_id!r} ({where}); give each item an id of its own",
        names=join_with_and(str(file.path) for file in files),
    )
    return items.set_index("_id").rename_axis(None)


def recognise_format(file: VerdictFile, columns: Mapping[str, str]) -> str:
    """Return the name of a file's format.

    Raises:
        StudyError: The file fits two formats, or it holds texts and no verdicts.
    """
    first = file.first
    if first.keys() >= set(REQUIRED) - {"dataset"} or columns.keys() - _FOR_PROGRAMS:
        return TABLE
    if first.keys() >= _SAMPLES:
        raise StudyError(
            f"{file.path} has texts of lm-evaluation-harness but no verdicts. To score the texts, give the "
            "file to guard-eval measure"
        )
    names = [name for name, form in FOREIGN.items() if form.matches(first)]
    if find_method_headings(list(first), SYSTEMS):  # records of answers do not name the methods
        names = [name for name in names if not FOREIGN[name].asks]
    if len(names) > 1:
        raise StudyError(
            f"{file.path} could be {join_with_and(FOREIGN[name].what for name in names)}; say which: "
            f"--set format={' or --set format='.join(names)}"
        )
    return names[0] if names else TABLE
