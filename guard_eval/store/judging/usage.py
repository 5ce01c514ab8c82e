"""Summarize requests to judges, their costs and their failures, for `guard-eval judge` and the report."""

import re
from collections.abc import Iterable

from sqlalchemy import Connection

from guard_eval.records import JsonObject
from guard_eval.store.database import Store
from guard_eval.store.judging.calibration import read_calibration
from guard_eval.store.judging.requests import read_question_failures
from guard_eval.store.schema import MOMENT, SqlRow, query

_VARIES = re.compile(r"\d+(?:[.,:]\d+)*|\b(?=\w*\d)[\w-]{8,}")


# The instruction of each judge in each answered form. `answers` counts all answers. `verdicts` counts the
# study's questions that got their verdict in this form.
_INSTRUCTIONS = query("""
    SELECT rater.name AS judge, instruction.id, instruction.prompt, instruction.description,
        instruction.manner, instruction.text, count(*) AS answers,
        count(*) FILTER (
            WHERE request.id IN (
                SELECT max(id) FROM request
                WHERE state = 'answered' AND failure IS NULL AND purpose = 'study'
                GROUP BY rater_id, pair_id, number
            )
        ) AS verdicts
    FROM request
    JOIN instruction ON instruction.id = request.instruction
    JOIN rater ON rater.id = request.rater_id
    WHERE request.state = 'answered'
    GROUP BY rater.name, instruction.id
    ORDER BY rater.name, min(request.id)
""")

_SPENDING = query("""
    SELECT rater.name AS judge,
        count(*) FILTER (WHERE state != 'unbilled') AS requests,
        count(*) FILTER (WHERE state = 'answered') AS answers,
        count(*) FILTER (WHERE state = 'lost') AS lost,
        count(*) FILTER (WHERE state = 'open') AS open,
        count(*) FILTER (WHERE state = 'answered' AND input_tokens + output_tokens IS NULL) AS unmetered,
        CAST(coalesce(sum(input_tokens), 0) AS BIGINT) AS input_tokens,
        CAST(coalesce(sum(cached_tokens), 0) AS BIGINT) AS cached_tokens,
        CAST(coalesce(sum(output_tokens), 0) AS BIGINT) AS output_tokens,
        CAST(coalesce(sum(reasoning_tokens), 0) AS BIGINT) AS reasoning_tokens,
        coalesce(CAST(sum(cost) FILTER (WHERE state = 'answered') AS DOUBLE PRECISION), 0.0) / 1e9
            AS usd,
        coalesce(CAST(sum(cost) FILTER (WHERE state != 'answered') AS DOUBLE PRECISION), 0.0) / 1e9
            AS held_usd,
        count(*) FILTER (WHERE state != 'unbilled' AND cost IS NULL) AS unpriced
    FROM request JOIN rater ON rater.id = request.rater_id
    GROUP BY rater.name ORDER BY rater.name
""")

# The models that gave each judge's answers, in the order in which they were first seen.
_MODELS = query(
    """
    SELECT rater.name AS judge, request.model, request.fingerprint, count(*) AS answers,
        min(request.sent_at) AS first, max(request.sent_at) AS last
    FROM request JOIN rater ON rater.id = request.rater_id
    WHERE request.state = 'answered'
    GROUP BY rater.name, request.model, request.fingerprint
    ORDER BY rater.name, min(request.sent_at)
    """,
    first=MOMENT,
    last=MOMENT,
)


def read_judge_usage(store: Store) -> JsonObject:
    """Return the fields of the report's `JudgeUsage`; an empty object if no judge was asked."""
    with store.begin_read() as db:
        spending = read_spending(db)
        if not spending:
            return {}
        return {
            "prompts": tuple(row._asdict() for row in _INSTRUCTIONS(db)),
            "spent": tuple(row._asdict() for row in spending),
            "failed": tuple(read_failure_reasons(db)),
            "seen": tuple(row._asdict() for row in _MODELS(db)),
            "checked": tuple(read_calibration(db)),
        }


def count_failure_reasons(failures: Iterable[tuple[str, str, str]]) -> list[JsonObject]:
    """Count the reasons for missing verdicts by judge, the most frequent first (`JudgeUsage.failed`).

    A failure is a judge, a kind and a sentence. Sentences that differ only in numbers or in the name of a
    request count as the same reason.
    """
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for judge, kind, detail in failures:
        reasons.setdefault((judge, kind, _VARIES.sub("#", detail)), []).append(detail)
    return [
        {"judge": key[0], "kind": key[1], "count": len(details), "reason": details[0]}
        for key, details in sorted(reasons.items(), key=lambda item: (item[0][0], -len(item[1]), item[0]))
    ]


def read_failure_reasons(db: Connection) -> list[JsonObject]:
    """Return the reasons why questions have no verdict yet, each with the number of questions."""
    return count_failure_reasons((key[0], *why) for key, why in read_question_failures(db).items())


def read_spending(db: Connection) -> list[SqlRow]:
    """Return the requests and costs of all runs: one row for each `judge`, sorted by name.

    Requests that certainly cost nothing are left out. The columns count the other requests: `lost` ones never
    got an answer, `open` ones are under way or in a batch, `unmetered` ones have an answer without token
    counts, and `unpriced` ones have no known cost. `usd` is the lowest possible cost of the answers.
    `held_usd` is the amount reserved for lost and open requests.
    """
    return list(_SPENDING(db))
