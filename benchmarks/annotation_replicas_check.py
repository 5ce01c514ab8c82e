"""What PostgreSQL says of a run, asked in SQL of its own: nothing of the store's code is between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psycopg
from annotation_raters import Key, Log
from annotation_study import CRITERIA, Made

_VERDICTS = """
SELECT rater.name, presentation.pair_id, verdict.criterion,
       CASE WHEN verdict.choice = 'tie' THEN 'tie'
            WHEN (verdict.choice = 'A') = (presentation.first = 'a') THEN pair.method_a
            ELSE pair.method_b END
FROM verdict
JOIN presentation ON presentation.id = verdict.presentation_id
JOIN rater ON rater.id = presentation.rater_id
JOIN pair ON pair.id = presentation.pair_id
"""
_OVERLAP = """
SELECT raters, count(*) FROM (
    SELECT pair.id, count(DISTINCT presentation.rater_id) AS raters
    FROM pair
    LEFT JOIN presentation ON presentation.pair_id = pair.id AND presentation.rated_at IS NOT NULL
    GROUP BY pair.id
) AS each_pair GROUP BY raters ORDER BY raters
"""
_QUOTAS = """
SELECT pairs, count(*) FROM (
    SELECT rater.id, count(presentation.rated_at) AS pairs
    FROM rater LEFT JOIN presentation ON presentation.rater_id = rater.id GROUP BY rater.id
) AS each_rater GROUP BY pairs ORDER BY pairs
"""
_SIDES = {
    "pair": """
SELECT difference, count(*) FROM (
    SELECT abs(sum(CASE first WHEN 'a' THEN 1 ELSE -1 END)) AS difference
    FROM presentation WHERE rated_at IS NOT NULL GROUP BY pair_id
) AS each_pair GROUP BY difference ORDER BY difference
""",
    "rater": """
SELECT difference, count(*) FROM (
    SELECT abs(sum(CASE first WHEN 'a' THEN 1 ELSE -1 END)) AS difference
    FROM presentation WHERE rated_at IS NOT NULL GROUP BY rater_id
) AS each_rater GROUP BY difference ORDER BY difference
""",
}
_HALF = """
SELECT count(*) FROM presentation WHERE (rated_at IS NOT NULL) <> (
    (SELECT count(*) FROM verdict WHERE presentation_id = presentation.id) > 0
) OR (SELECT count(*) FROM verdict WHERE presentation_id = presentation.id) NOT IN (0, %s)
"""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is in the database, beside the raters' own log.

    Attributes:
        acknowledged: Ratings (a pair by a rater) that a page called saved.
        lost: Of these, how many are not there, or not as they were given.
        doubled: Ratings there more than once.
        unasked: Ratings there that nobody sent.
        in_doubt: Ratings there whose answer never came.
        half: Showings with a verdict on some criteria only, or marked as rated without one.
        overlap: Raters of a pair → pairs.
        quotas: Pairs of a rater → raters.
        pair_sides: Showings of a pair with its first text as A less those with its second → pairs.
        rater_sides: Likewise of a rater → raters.
    """

    acknowledged: int
    lost: int
    doubled: int
    unasked: int
    in_doubt: int
    half: int
    overlap: Mapping[int, int]
    quotas: Mapping[int, int]
    pair_sides: Mapping[int, int]
    rater_sides: Mapping[int, int]


def ask(url: str, study: Made, log: Log) -> Found:
    """Compare the raters' log with the database at `url`."""
    number = {pair.id: place for place, pair in enumerate(study.pairs)}
    there: dict[Key, list[str]] = {}
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql", 1)) as connection:
        for rater, pair_id, criterion, verdict in connection.execute(_VERDICTS):
            there.setdefault((rater, number[pair_id], criterion), []).append(verdict)
        (half,) = connection.execute(_HALF, [len(CRITERIA)]).fetchone() or (0,)
        overlap, quotas, pair_sides, rater_sides = (
            dict(connection.execute(statement).fetchall())
            for statement in (_OVERLAP, _QUOTAS, _SIDES["pair"], _SIDES["rater"])
        )
    return Found(
        acknowledged=len(_ratings(log.acknowledged)),
        lost=len(_ratings(key for key, verdict in log.acknowledged.items() if there.get(key) != [verdict])),
        doubled=len(_ratings(key for key, verdicts in there.items() if len(verdicts) > 1)),
        unasked=len(_ratings(there.keys() - log.pressed)),
        in_doubt=len(_ratings(there) - _ratings(log.acknowledged)),
        half=half,
        overlap=overlap,
        quotas=quotas,
        pair_sides=pair_sides,
        rater_sides=rater_sides,
    )


def _ratings(keys: Iterable[Key]) -> set[tuple[str, int]]:
    return {(rater, pair) for rater, pair, _ in keys}
