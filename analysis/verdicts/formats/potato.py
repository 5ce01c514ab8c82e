"""Potato's annotations: JSONL, CSV and TSV of its exporters, and annotated_instances.jsonl of older versions.

Source: davidjurgens/potato 2.12, `potato/export/tabular_exporter.py` and `schemas/pairwise.py` (where
`SCHEME.selection` is A, B or tie); version 1's `annotation_output/USER/annotated_instances.jsonl`. They hold
no methods: these come from the project's data file, which is read beside them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.verdicts.files import Record, Row, VerdictFile
from analysis.verdicts.formats.fields import answer_text, is_missing, is_verdict, text_of
from guard_eval.errors import StudyError

_NO_SCHEMES = {"instance_id", "user_id", "rater_kind"}
_SELECTION = "selection"
_NOT_PRESSED = {"False", "None", "", "false", "0"}


def read(
    file: VerdictFile, notes: list[str], items: Mapping[str, dict[str, str]]
) -> Iterator[tuple[int, Row]]:
    """Yield a row for each scheme of each annotated instance."""
    if not items:
        raise StudyError(
            f"{file.path} holds Potato annotations, which do not name the methods; give the project's data "
            "file, too, with method_a and method_b for each id: guard-eval report "
            f"{shlex.quote(str(file.path))} ITEMS"
        )
    folder = file.path.resolve().parent.name
    if "label_annotations" in file.first:
        notes.append(f"the file's folder, {folder!r}, is the rater")
    for index, record in file.records():
        where, is_old = file.at(index), "label_annotations" in record
        instance = text_of(record.get("id" if is_old else "instance_id"), where, "instance_id")
        if instance not in items:
            raise StudyError(f"{where}: no item has the id {instance!r}; give the data file it is from")
        kind = record.get("rater_kind")
        cells = items[instance] | {
            "rater": folder if is_old else text_of(record.get("user_id"), where, "user_id"),
            "rater_kind": "person" if is_missing(kind) else str(kind),
        }
        for scheme, word in _answers(record, cells):
            yield index, cells | {"criterion": scheme, "verdict": answer_text(word)}


def _answers(record: Record, cells: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield scheme and answer; a scheme with several dimensions is one for each."""
    labels = record.get("label_annotations", record.get("labels"))
    if not isinstance(labels, dict):  # a table: SCHEME.LABEL, and SCHEME alone where there is one answer
        labels = {}
        for name, value in record.items():
            if name not in _NO_SCHEMES and not name.endswith("._spans") and value is not None:
                scheme, dot, label = name.rpartition(".")
                labels.setdefault(scheme if dot else label, {})[label if dot else _SELECTION] = value
    for scheme, answers in labels.items():
        if not isinstance(answers, dict):
            yield scheme, answers
            continue
        for label, value in answers.items():
            if label == _SELECTION:
                yield scheme, value
            elif is_verdict(value, cells) and not is_verdict(label, cells):
                yield f"{scheme}.{label}", value
            elif is_verdict(label, cells) and str(value) not in _NOT_PRESSED:
                yield scheme, label  # a button's label, and whatever marks it as pressed
