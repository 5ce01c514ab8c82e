"""Argilla's records as JSON, nested (`records.to_json`) or flat (`to_list(flatten=True)`).

Source: argilla-io/argilla, `argilla/records/_io` of version 2: `responses` by question, with user_id and
value; flat, `QUESTION.responses`, `.users` and `.status`. Metadata or fields name the methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.verdicts.formats.answers import ForeignAnswer, verdict_rows
from analysis.verdicts.formats.records import Record, Source
from analysis.verdicts.formats.rows import Row
from analysis.verdicts.formats.sides import Item, item_of, text_of
from guard_eval.errors import StudyError

NAME = "argilla"
WHAT = "Argilla records"
_FLAT = ".responses"


def claims(record: Record) -> bool:
    """Return whether a record is of this format."""
    nested = isinstance(record.get("fields"), dict) and isinstance(record.get("responses"), dict)
    return nested or any(name.endswith(_FLAT) and f"{name}.users" in record for name in record)


def read(source: Source, notes: list[str], _items: Mapping[str, Item]) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each response; those that were not submitted are left out where that is known."""
    answers: list[ForeignAnswer] = []
    nested = False
    for index, record in source.records():
        where = source.at(index)
        nested |= "responses" in record
        parts = [record.get(key) for key in ("fields", "metadata")]
        data = {
            name: value for part in (record, *parts) if isinstance(part, dict) for name, value in part.items()
        }
        result = list(_responses(record, where))
        if not result:
            yield index, "no response"
            continue
        item = item_of(data, where, pair_id=record.get("id"), dataset="all")
        for question, value, user, status in result:
            if status not in {None, "submitted"}:
                yield index, f"the response is {status!r}"
                continue
            answers.append(
                ForeignAnswer(
                    record=index,
                    item=item,
                    rater=text_of(user, where, "user_id"),
                    criterion=question,
                    word=value,
                    more={"rater_kind": item.known.get("rater_kind", "person")},
                )
            )
    if nested:
        notes.append("records.to_json does not say which responses are drafts: all count")
    yield from verdict_rows(answers, f"{source.path}, {source.word}", notes)


def _responses(record: Record, where: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield question, value, user and status."""
    if isinstance(record.get("responses"), dict):
        for question, responses in record["responses"].items():
            for item in responses if isinstance(responses, list) else [responses]:
                if not isinstance(item, dict) or "user_id" not in item:
                    raise StudyError(
                        f"{where}: a response to {question} has no user_id; export it with records"
                    )
                yield question, item.get("value"), item["user_id"], item.get("status")
        return
    for name in record:
        if not name.endswith(_FLAT) or record[name] is None:
            continue
        values, users = record[name], record.get(f"{name}.users")
        statuses = record.get(f"{name}.status") or [None] * len(values if isinstance(values, list) else ())
        parts: tuple[Any, ...] = (values, users, statuses)
        if not all(isinstance(part, list) and len(part) == len(statuses) for part in parts):
            raise StudyError(
                f"{where}: {name}, .users and .status differ in length; export the records again"
            )
        yield from zip([name.removesuffix(_FLAT)] * len(values), *parts, strict=True)
