"""The clients' log against the database: is everything there that was acknowledged, and once?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from annotation_raters import Key, Log
from annotation_study import Made
from sqlalchemy import create_engine, select

from guard_eval.store import schema
from guard_eval.study import Study


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the database holds of a log.

    Attributes:
        acknowledged: Ratings (a pair by a rater) whose answer came.
        lost: Of these, how many are not there, or not as they were given.
        doubled: Ratings there more than once.
        unasked: Ratings there that nobody sent.
        unanswered: Ratings there whose answer never came: what was in doubt and got through.
    """

    acknowledged: int
    lost: int
    doubled: int
    unasked: int
    unanswered: int


def compare(study: Made, log: Log) -> Comparison:
    """Compare a log with the study's database: current verdicts by method, and every row ever written."""
    number = {pair.id: place for place, pair in enumerate(study.pairs)}
    with study.open() as store:
        rows = store.tidy(include_surplus=True)
    there: dict[Key, list[str]] = {}
    for row in rows:
        there.setdefault((row.rater, number[row.pair_id], row.criterion), []).append(row.verdict)
    missing = [key for key, verdict in log.acknowledged.items() if there.get(key) != [verdict]]
    written = _written(study, number)
    acknowledged = _ratings(log.acknowledged)
    return Comparison(
        acknowledged=len(acknowledged),
        lost=len(_ratings(missing)),
        doubled=len(_ratings(key for key, count in written.items() if count > 1)),
        unasked=len(_ratings(set(written) - log.pressed)),
        unanswered=len(_ratings(set(written) & log.pressed) - acknowledged),
    )


def _written(study: Made, number: dict[str, int]) -> Counter[Key]:
    """Return how many rows were ever written of each: the raters here never change their minds."""
    statement = (
        select(schema.rater.c.name, schema.presentation.c.pair_id, schema.verdict.c.criterion)
        .select_from(schema.verdict.join(schema.presentation).join(schema.rater))
    )  # fmt: skip
    engine = create_engine(Study.open(study.folder).database)
    try:
        with engine.connect() as connection:
            rows = connection.execute(statement).all()
    finally:
        engine.dispose()
    return Counter((name, number[pair_id], criterion) for name, pair_id, criterion in rows)


def _ratings(keys: object) -> set[tuple[str, int]]:
    return {(rater, pair) for rater, pair, _ in keys}  # type: ignore[attr-defined]
