"""Label Studio's JSON export: tasks with their data and annotations, a control's name the criterion.

Source: labelstud.io/guide/task_format and /tags/pairwise: `annotations[].result[]` of type `choices` (A, B,
tie) or `pairwise` (left, right); `data` names the methods, or has an id by which another file does. A text
area called `rater` names the rater where `guard-eval export --to label-studio` made the annotation, since
accounts are the server's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.verdicts.formats.answers import ForeignAnswer, verdict_rows
from analysis.verdicts.formats.records import Record, Source
from analysis.verdicts.formats.rows import Row
from analysis.verdicts.formats.sides import Item, is_missing, item_of, text_of, words_in
from guard_eval.errors import StudyError

NAME = "label-studio"
WHAT = "a Label Studio export"
RATER = ("rater", "rater_kind")
"""Names of text areas that say who annotated."""


def claims(record: Record) -> bool:
    """Return whether a record is of this format."""
    return isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list)


def read(source: Source, notes: list[str], items: Mapping[str, Item]) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each annotation and control."""
    answers: list[ForeignAnswer] = []
    predictions = 0
    for index, record in source.records():
        where = source.at(index)
        if not claims(record):
            raise StudyError(f"{where}: a task needs data and annotations; export the project as JSON")
        predictions += bool(record.get("predictions"))
        if not record["annotations"]:
            yield index, "not annotated"
            continue
        data = record["data"]
        item = items.get(str(data.get("id"))) or item_of(data, where, pair_id=record.get("id"), dataset="all")
        for annotation in record["annotations"]:
            if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
                raise StudyError(f"{where}: an annotation has no list result; export the project as JSON")
            if annotation.get("was_cancelled") is True:
                yield index, "the annotator skipped it"
                continue
            result = list(_answers(annotation["result"], where))
            named = {name: word for name, word, is_verdict in result if not is_verdict}
            rater = named.get("rater", _account(annotation.get("completed_by")))
            more = {
                "rater_kind": str(named.get("rater_kind", "person")),
                "seconds": _written(annotation.get("lead_time")),
                "at": _written(annotation.get("created_at")),
            }
            answers += [
                ForeignAnswer(
                    record=index,
                    item=item,
                    rater=text_of(rater, where, "completed_by"),
                    criterion=name,
                    word=word,
                    more=more,
                )
                for name, word, is_verdict in result
                if is_verdict
            ]
    if predictions:
        notes.append(f"predictions of {predictions} tasks are not read: they are no verdicts")
    yield from verdict_rows(answers, f"{source.path}, {source.word}", notes)


def _answers(result: list[Any], where: str) -> Iterator[tuple[str, str | None, bool]]:
    """Yield name, word and whether it is a verdict: what is none names the rater."""
    for region in result:
        kind = region.get("type") if isinstance(region, dict) else None
        value = region.get("value") if isinstance(region, dict) else None
        if not isinstance(value, Mapping) or kind not in ("choices", "pairwise", "textarea"):
            continue
        name = text_of(region.get("from_name"), where, "from_name")
        if kind == "textarea" and name not in RATER:
            continue
        words = list(words_in(value.get({"choices": "choices", "pairwise": "selected"}.get(kind, "text"))))
        if len(words) > 1:
            raise StudyError(f"{where}: {name} has {len(words)} choices ({', '.join(words)[:60]}); keep one")
        yield name, words[0] if words else None, kind != "textarea"


def _account(value: object) -> object:
    """Return an account by its address, else by its number."""
    if isinstance(value, dict):
        return value.get("email") or value.get("username") or value.get("id")
    return value


def _written(value: object) -> str | None:
    return None if is_missing(value) else str(value)
