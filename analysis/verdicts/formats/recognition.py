"""Which reader a file of verdicts is for: the one whose keys its first record has."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from analysis.verdicts.formats import (
    alpaca_eval,
    arena_hard,
    argilla,
    fastchat,
    inspect_logs,
    label_studio,
    potato,
    tables,
)
from analysis.verdicts.formats.records import Source, open_source
from analysis.verdicts.formats.rows import table_of
from analysis.verdicts.formats.sides import Item
from analysis.verdicts.reading import check_lasting
from guard_eval.errors import StudyError, nearest
from guard_eval.reporting.words import and_list

_TIDY = {"pair_id", "method_a", "method_b", "rater", "criterion", "verdict"}
_SAMPLES = {"doc_id", "resps", "arguments"}
"""Keys of lm-evaluation-harness' samples, which are texts."""

_FOREIGN = (alpaca_eval, arena_hard, argilla, fastchat, inspect_logs, label_studio, potato)
FORMATS: tuple[str, ...] = (*(module.NAME for module in _FOREIGN), tables.NAME)
"""The names that `--format` takes."""

_MODULES = {module.NAME: module for module in _FOREIGN}


def load_files(
    files: Sequence[Path], *, form: str | None = None, columns: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[Path, pd.DataFrame]]:
    """Return the verdicts of files in any known format, not yet checked.

    Their `attrs` list what was assumed, under `REMARKS`. Files of items say what the items of Potato and
    Label Studio are.

    Args:
        files: The files.
        form: Their format, one of `FORMATS`; by default the one that their first records are of.
        columns: The headings of tables by the column that they are.

    Raises:
        StudyError: A file cannot be read, is of no known format or could be of two, or holds no verdicts.
    """
    if form is not None and form not in FORMATS:
        raise StudyError(f"there is no format {form!r}; {nearest(form, list(FORMATS))}")
    sources = [opened(file) for file in files]
    described = [source for source in sources if len(files) > 1 and potato.claims_items(source.first)]
    items = {name: item for source in described for name, item in potato.items_of(source).items()}
    holding = [source for source in sources if source not in described]
    if not holding:
        raise StudyError(f"{files[0]} holds items and no verdicts; give the annotations, too")
    forms = [form or format_of(source, columns) for source in holding]  # all, before a file is read whole
    return [
        (source.path, _read(source, name, items, columns))
        for source, name in zip(holding, forms, strict=True)
    ]


def _read(source: Source, name: str, items: Mapping[str, Item], columns: Mapping[str, str]) -> pd.DataFrame:
    if name == tables.NAME:
        cells = tables.frame_of(source)
        try:
            return tables.tidied(tables.with_columns(cells, columns))
        except StudyError as error:
            raise StudyError(f"{source.path}: {error}") from None
    module = _MODULES[name]
    notes = [f"{source.path} is read as {module.WHAT}"]
    word = "sample" if module is inspect_logs else source.word
    return table_of(module.read(source, notes, items), source.path, word, notes)


def opened(path: Path) -> Source:
    """Return a file's records, of whatever format.

    Raises:
        StudyError: It cannot be read, or not twice, as what comes through a pipe.
    """
    check_lasting(path)
    if path.suffix.lower() == ".eval" and (log := inspect_logs.open_log(path)) is not None:
        return log
    return open_source(path)


def format_of(source: Source, columns: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the name of a file's format.

    Raises:
        StudyError: Two formats could be its own, or it holds texts and no verdicts.
    """
    keys = source.first.keys()
    if keys >= _TIDY or columns:
        return tables.NAME
    if keys >= _SAMPLES:
        raise StudyError(
            f"{source.path} holds texts of lm-evaluation-harness and no verdicts; score them with: "
            f"guard-eval measure {shlex.quote(str(source.path))}"
        )
    result = [name for name, module in _MODULES.items() if module.claims(source.first)]
    if len(result) > 1:
        raise StudyError(
            f"{source.path} could be {and_list([_MODULES[name].WHAT for name in result])}; say which: "
            f"--set format={' or --set format='.join(result)}"
        )
    if not result and (
        isinstance(source.first.get("text"), list) or isinstance(source.first.get("data"), dict)
    ):
        raise StudyError(
            f"{source.path} holds what raters saw, and neither methods nor verdicts; give the annotations "
            "and the file that names the methods by id"
        )
    return result[0] if result else tables.NAME
