"""Potato's annotations: JSONL, CSV and TSV of its exporters, and annotated_instances.jsonl of older versions.

Source: davidjurgens/potato 2.12, `potato/export/tabular_exporter.py` and `schemas/pairwise.py` (where
`SCHEME.selection` is A, B or tie); version 1's `annotation_output/USER/annotated_instances.jsonl`. They hold
no methods: these come from the project's data file, which is read beside them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis.verdicts.formats.answers import ForeignAnswer, verdict_rows
from analysis.verdicts.formats.records import Record, Source
from analysis.verdicts.formats.rows import Row
from analysis.verdicts.formats.sides import SHOWN, SIDES, Item, is_missing, item_of, text_of
from guard_eval.errors import StudyError

NAME = "potato"
WHAT = "Potato annotations"

_OURS = {"instance_id", "user_id", "rater_kind"}
_SELECTION = "selection"
_ID = ("id", "instance_id")


def claims(record: Record) -> bool:
    """Return whether a record is of this format."""
    return {"instance_id", "user_id"} <= record.keys() or {"id", "label_annotations"} <= record.keys()


def claims_items(record: Record) -> bool:
    """Return whether a record is an item of a data file: it names methods, and no rater."""
    names = any({a, b} <= record.keys() for a, b in (*SIDES, SHOWN))
    judged = {
        "rater",
        "judge",
        "annotator",
        "user_id",
        "verdict",
        "winner",
        "preference",
        "annotations",
        "criterion",
    }
    return names and any(key in record for key in _ID) and not judged & record.keys()


def items_of(source: Source) -> dict[str, Item]:
    """Return the items of a data file by id.

    Raises:
        StudyError: Two items have one id, or an item names no methods.
    """
    items: dict[str, Item] = {}
    for index, record in source.records():
        where = source.at(index)
        key = next((key for key in _ID if key in record), "id")
        name = text_of(record.get(key), where, key)
        if name in items:
            raise StudyError(f"{where}: two items have the id {name!r}; give each item an id of its own")
        items[name] = item_of(record, where, pair_id=name, dataset="all")
    return items


def read(source: Source, notes: list[str], items: Mapping[str, Item]) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each scheme of each annotated instance."""
    if not items:
        raise StudyError(
            f"{source.path} holds {WHAT}, which do not name the methods; give the project's data file, too, "
            f"with method_a and method_b for each id: guard-eval report {shlex.quote(str(source.path))} ITEMS"
        )
    answers: list[ForeignAnswer] = []
    folder = Path(source.path).resolve().parent.name
    if "label_annotations" in source.first:
        notes.append(f"the file's folder, {folder!r}, is the rater")
    for index, record in source.records():
        where = source.at(index)
        old = "label_annotations" in record
        instance = text_of(record.get("id" if old else "instance_id"), where, "instance_id")
        if instance not in items:
            raise StudyError(f"{where}: no item has the id {instance!r}; give the data file it is from")
        item = items[instance]
        rater = folder if old else text_of(record.get("user_id"), where, "user_id")
        kind = record.get("rater_kind")
        more = {"rater_kind": "person" if is_missing(kind) else str(kind)}
        answers += [
            ForeignAnswer(record=index, item=item, rater=rater, criterion=scheme, word=word, more=more)
            for scheme, word in _answers(record, item)
        ]
    yield from verdict_rows(answers, f"{source.path}, {source.word}", notes)


def _answers(record: Record, item: Item) -> Iterator[tuple[str, Any]]:
    """Yield scheme and answer; a scheme with several dimensions is one for each."""
    labels = record.get("label_annotations", record.get("labels"))
    if not isinstance(labels, dict):  # a table: SCHEME.LABEL, and SCHEME alone where there is one answer
        labels = {}
        for name, value in record.items():
            if name not in _OURS and not name.endswith("._spans") and value is not None:
                scheme, dot, label = name.rpartition(".")
                labels.setdefault(scheme if dot else label, {})[label if dot else _SELECTION] = value
    for scheme, result in labels.items():
        if not isinstance(result, dict):
            yield scheme, result
            continue
        for label, value in result.items():
            if label == _SELECTION:
                yield scheme, value
            elif isinstance(value, str) and item.verdict(value) is not None and item.verdict(label) is None:
                yield f"{scheme}.{label}", value
            elif item.verdict(label) is not None and str(value) not in {"False", "None", "", "false", "0"}:
                yield scheme, label  # a button's label, and whatever marks it as pressed
