"""Label Studio's JSON export: tasks with their data and annotations, a control's name the criterion.

Source: labelstud.io/guide/task_format and /tags/pairwise: `annotations[].result[]` of type `choices` (A, B,
tie) or `pairwise` (left, right); `data` names the methods, or has an id by which another file does. Text
areas called `rater` and `rater_kind` say who annotated where accounts do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.verdicts.files import Row, VerdictFile
from analysis.verdicts.formats.fields import answer_text, item_cells, text_of
from guard_eval.errors import StudyError

RATER = ("rater", "rater_kind")
"""Names of text areas that say who annotated."""
_VALUES = {"choices": "choices", "pairwise": "selected", "textarea": "text"}
"""Where a control of each type has its words."""


def read(
    file: VerdictFile, notes: list[str], items: Mapping[str, dict[str, str]]
) -> Iterator[tuple[int, Row]]:
    """Yield a row for each annotation and control."""
    predictions = 0
    for index, record in file.records():
        where, data, annotations = file.at(index), record.get("data"), record.get("annotations")
        if not isinstance(data, dict) or not isinstance(annotations, list):
            raise StudyError(f"{where}: a task needs data and annotations; export the project as JSON")
        predictions += bool(record.get("predictions"))
        if not annotations:
            yield index, "not annotated"
            continue
        cells: Mapping[str, str | None] = items.get(str(data.get("id"))) or item_cells(
            data, where, pair_id=record.get("id")
        )
        for annotation in annotations:
            _check_annotation(annotation, where)
            if annotation.get("was_cancelled") is True:
                yield index, "the annotator skipped it"
                continue
            controls = list(_controls(annotation["result"], where))
            named = {name: word for name, word, kind in controls if kind == "textarea"}
            rater = named.get("rater") or _account(annotation.get("completed_by"))
            common = {
                **cells,
                "rater": text_of(rater, where, "completed_by"),
                "rater_kind": named.get("rater_kind") or "person",
                "seconds": answer_text(annotation.get("lead_time")),
                "at": answer_text(annotation.get("created_at")),
            }
            for name, word, kind in controls:
                if (
                    kind == "pairwise" and "left" not in cells
                ):  # Label Studio shows the first text on the left
                    word = {"left": "A", "right": "B"}.get(str(word), word)  # noqa: PLW2901
                if name not in RATER:
                    yield index, common | {"criterion": name, "verdict": answer_text(word)}
    notes += [f"predictions of {predictions} tasks are not read: they are no verdicts"] * bool(predictions)


def _check_annotation(annotation: object, where: str) -> None:
    if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
        raise StudyError(f"{where}: an annotation has no list result; export the project as JSON")


def _controls(result: list[Any], where: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield name, word and type of the controls; those that are no choices have no word."""
    for region in result:
        kind = str(region.get("type")) if isinstance(region, dict) else ""
        value = region.get("value") if isinstance(region, dict) else None
        if not isinstance(value, Mapping) or (kind not in _VALUES and not region.get("from_name")):
            continue
        name = text_of(region.get("from_name"), where, "from_name")
        if kind not in _VALUES or (kind == "textarea" and name not in RATER):
            yield name, None, kind
            continue
        answer = value.get(_VALUES[kind])
        words = [word for word in (answer if isinstance(answer, list) else [answer]) if isinstance(word, str)]
        if len(words) > 1:
            raise StudyError(f"{where}: {name} has {len(words)} choices ({', '.join(words)[:60]}); keep one")
        yield name, words[0] if words else None, kind


def _account(value: object) -> object:
    """Return an account by its address, else by its number."""
    if isinstance(value, dict):
        return value.get("email") or value.get("username") or value.get("id")
    return value
