"""`guard-eval import`: verdicts and texts of other tools as the files that the other commands read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from analysis.verdicts.formats import potato
from analysis.verdicts.formats.recognition import FORMATS, format_of, load_verdicts, opened
from analysis.verdicts.formats.sides import Item
from analysis.verdicts.layout import REMARKS
from analysis.verdicts.reading import check_lasting
from analysis.verdicts.tidy import remarks, validate
from guard_eval.cli.console import count_of, say, say_next
from guard_eval.cli.exchange.row_files import json_lines
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import csv_of_escaped, escape_csv
from guard_eval.reporting.writing import write_whole
from guard_eval.texts.continuations import pyarrow
from guard_eval.texts.harness_samples import HarnessText, is_samples, read_samples

_OUTPUTS = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What was read of other tools' files.

    Attributes:
        output: The file that was written.
        verdicts: The verdicts, validated, or None.
        texts: The texts, where the files hold such.
        notes: What was taken for granted or left out.
    """

    output: Path
    verdicts: pd.DataFrame | None = None
    texts: tuple[HarnessText, ...] = ()
    notes: tuple[str, ...] = ()


def import_files(files: Sequence[Path], output: Path, *, form: str | None = None) -> Imported:
    """Write verdicts of other tools as one tidy table, or texts of lm-evaluation-harness as JSONL.

    Args:
        files: Files of one format or several; a file of items is read for annotations of Potato and Label
            Studio.
        output: The table, .csv or .parquet; for texts .jsonl.
        form: Their format, one of `FORMATS`; by default what their first records are.

    Raises:
        StudyError: A file cannot be read, or is of no known format; nothing is written.
    """
    if any(_same(output, file) for file in files):
        raise StudyError(f"--output {output} is one of the files to read; name another")
    for file in files:
        check_lasting(file)
    samples = [file for file in files if is_samples(file)]
    if samples:
        return _import_texts(files, samples, output)
    ending = output.suffix.lower()
    if ending not in _OUTPUTS:
        raise StudyError(
            f"verdicts are written as {' or '.join(_OUTPUTS)}, and {output} is neither; rename it"
        )
    sources = [opened(file) for file in files] if len(files) > 1 else []
    described = [source.path for source in sources if potato.claims_items(source.first)]
    for source in sources:
        if form is None and source.path not in described:
            format_of(source)  # before anything else is said of the other files
    items = {name: item for file in described for name, item in potato.items_of(opened(file)).items()}
    tables = [_read(file, form, items) for file in files if file not in described]
    if not tables:
        raise StudyError(f"{described[0]} holds items and no verdicts; give the annotations, too")
    table = tables[0] if len(tables) == 1 else _joined(tables, files)
    names = [name for name in table.columns if not table[name].isna().all()]
    write_whole(output, _bytes(table[names], ending), make_folder=True)
    return Imported(output=output, verdicts=table, notes=remarks(table))


def _same(output: Path, file: Path) -> bool:
    return output.exists() and file.exists() and output.samefile(file)


def _read(file: Path, form: str | None, items: dict[str, Item]) -> pd.DataFrame:
    cells = load_verdicts(file, form=form, items=items)
    try:
        return validate(cells)
    except StudyError as error:
        raise StudyError(f"{file}: {error}") from None


def _joined(tables: Sequence[pd.DataFrame], files: Sequence[Path]) -> pd.DataFrame:
    notes = list(dict.fromkeys(note for table in tables for note in remarks(table)))
    whole = pd.concat([table.astype(object) for table in tables], ignore_index=True)
    whole.attrs[REMARKS] = notes
    try:
        return validate(whole)
    except StudyError as error:
        names = ", ".join(str(file) for file in files)
        raise StudyError(f"{names} together: {error}") from None


def _bytes(table: pd.DataFrame, ending: str) -> bytes:
    if ending == ".parquet":
        pyarrow()  # which says how it is installed
        sink = io.BytesIO()
        table.to_parquet(sink, index=False)
        return sink.getvalue()
    columns = [_escaped(table[name]) for name in table.columns]
    header = [escape_csv(str(name)) for name in table.columns]
    return csv_of_escaped([header, *zip(*columns, strict=True)]).encode()


def _escaped(column: pd.Series) -> list[str]:
    """Return a column's cells for CSV, each different one escaped once."""
    try:
        codes, values = pd.factorize(column)
    except TypeError:
        raise StudyError(
            f"the column {column.name!r} holds lists or objects, which no cell of a CSV takes; write .parquet"
        ) from None
    texts = [escape_csv(value.item() if hasattr(value, "item") else value) for value in values]
    return [texts[code] if code >= 0 else "" for code in codes]


def _import_texts(files: Sequence[Path], samples: Sequence[Path], output: Path) -> Imported:
    if len(samples) < len(files):
        other = next(file for file in files if file not in samples)
        raise StudyError(f"{samples[0]} holds texts, and {other} does not; import them one after the other")
    if output.suffix.lower() != ".jsonl":
        raise StudyError(f"{samples[0]} holds texts, which are written as .jsonl, not as {output}; rename it")
    texts = tuple(text for file in samples for text in read_samples(file))
    ids = [text.id for text in texts]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise StudyError(f"the text {twice!r} occurs twice; import each run of a task by itself")
    write_whole(output, json_lines(map(asdict, texts)), make_folder=True)
    notes = ("the first answer to each prompt is taken, as the model wrote it, unfiltered",)
    return Imported(output=output, texts=texts, notes=notes)


def command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Verdicts made elsewhere, and the file that names an item's methods.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The table to write, .csv or .parquet; for texts .jsonl."),
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="What the files are, where they could be of two formats; default: by their first records.",
        ),
    ] = None,
) -> None:
    """Read verdicts that were made with other tools.

    Annotations of AlpacaEval, Arena-Hard, FastChat, Inspect, Potato, Label Studio and Argilla, and tables
    (CSV, Excel, Parquet, JSON, wide ones) become one tidy table; samples of lm-evaluation-harness become
    texts for guard-eval measure. What was taken for granted is printed; docs/formats.md has a line a format.
    """
    found = import_files(files, output, form=form)
    for note in found.notes:
        say(f"note: {note}")
    if found.verdicts is None:
        say(f"{output}: {count_of(len(found.texts), 'text')}")
        say_next(f"guard-eval measure {output}")
        return
    table = found.verdicts
    counts = (
        count_of(len(table), "verdict"),
        count_of(table["pair_id"].nunique(), "pair"),
        count_of(table["rater"].nunique(), "rater"),
    )
    say(f"{output}: {counts[0]} of {counts[1]} by {counts[2]}")
    say_next(f"guard-eval report {output}")
