"""Argilla's records as JSON, nested (`records.to_json`) or flat (`to_list(flatten=True)`).

Source: argilla-io/argilla, `argilla/records/_io` of version 2: `responses` by question, with user_id and
value; flat, `QUESTION.responses`, `.users` and `.status`. Metadata or fields name the methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from analysis.verdicts.files import Record, VerdictFile
from analysis.verdicts.recognition import Row
from analysis.verdicts.sides import answer_text, item_cells, text_of
from guard_eval.errors import StudyError

_FLAT = ".responses"


def read(file: VerdictFile, notes: list[str], _items: object) -> Iterator[tuple[int, Row]]:
    """Yield a row for each response; those that were not submitted are left out where that is known."""
    is_nested = False
    for index, record in file.records():
        where = file.at(index)
        is_nested |= "responses" in record
        parts = (record, record.get("fields"), record.get("metadata"))
        data = {key: value for part in parts if isinstance(part, dict) for key, value in part.items()}
        responses = list(_responses(record, where))
        if not responses:
            yield index, "no response"
            continue
        cells = {"rater_kind": "person"} | item_cells(data, where, pair_id=record.get("id"), dataset="all")
        for question, value, user, status in responses:
            if status not in {None, "submitted"}:
                yield index, f"the response is {status!r}"
                continue
            rater = text_of(user, where, "user_id")
            yield index, cells | {"rater": rater, "criterion": question, "verdict": answer_text(value)}
    if is_nested:
        notes.append("records.to_json does not say which responses are drafts: all count")


def _responses(record: Record, where: str) -> Iterator[tuple[str, Any, Any, str | None]]:
    """Yield question, value, user and status."""
    if isinstance(record.get("responses"), dict):
        for question, responses in record["responses"].items():
            for item in responses if isinstance(responses, list) else [responses]:
                if not isinstance(item, dict) or "user_id" not in item:
                    raise StudyError(
                        f"{where}: a response to {question} has no user_id; export it with records"
                    )
                status = item.get("status")
                yield question, item.get("value"), item["user_id"], None if status is None else str(status)
        return
    for name in record:
        if not name.endswith(_FLAT) or record[name] is None:
            continue
        values: Any = record[name]
        users: Any = record.get(f"{name}.users")
        statuses: Any = record.get(f"{name}.status")
        statuses = statuses or [None] * len(values if isinstance(values, list) else ())
        if not all(isinstance(part, list) and len(part) == len(statuses) for part in (values, users)):
            raise StudyError(
                f"{where}: {name}, .users and .status differ in length; export the records again"
            )
        for value, user, status in zip(values, users, statuses, strict=True):
            yield name.removesuffix(_FLAT), value, user, None if status is None else str(status)
