"""Restore the methods' names in verdicts. Only this module turns letters on the screen into methods."""

from operator import attrgetter

from sqlalchemy import Connection

from guard_eval.records import Choice, RaterKind, Role, record
from guard_eval.store.database import Store
from guard_eval.store.schema import Query, SqlRow, query


@record
class TidyRow:
    """One verdict with the names restored.

    Attributes:
        pair_id: `Pair.id`.
        dataset: The pair's dataset.
        prompt_id: The pair's prompt, which is the same in pairs of several comparisons.
        method_a: The first method of the comparison, whichever side it was shown on.
        method_b: The second method.
        rater: The rater's name.
        criterion: A criterion of the rubric.
        verdict: The better method's name, or `tie`.
        rater_kind: person, model, simulated or simulated_model; no statistic pools kinds.
        presentation: The number of the presentation.
        slot: The number of the planned showing of the pair.
        shown_first: The method whose text was shown as A.
        seconds: Seconds from the pair's appearance to the submission, if known.
        active_seconds: Seconds of this time in focus and not idle, if known.
        ends_seen: The number of texts (prompt, A and B) that were shown to their end before saving, if known.
        at: The time of saving, ISO 8601, UTC.
        length_a: Length of `method_a`'s text in characters.
        length_b: Length of `method_b`'s text in characters.
        surplus: Whether another rater had taken the slot before this verdict arrived.
        position: The letter that the rater chose, or `tie`.
        excluded: Whether the rater is excluded; these rows are left out by default.
        role: The reason for showing the pair: study, gold or repeat.
        revision: 0 for the first choice, then 1, 2, …; the highest is current.
        handed_out: The time at which the pair was handed out, ISO 8601, UTC.
        prompt_round: The round of the prompt if comparisons can stop early; otherwise 0.
    """

    pair_id: str
    dataset: str
    prompt_id: str
    method_a: str
    method_b: str
    rater: str
    criterion: str
    verdict: str
    rater_kind: RaterKind
    presentation: int
    slot: int
    shown_first: str
    seconds: float | None
    active_seconds: float | None
    ends_seen: int | None = None
    at: str
    length_a: int
    length_b: int
    surplus: bool
    position: Choice
    excluded: bool = False
    role: Role = "study"
    revision: int = 0
    handed_out: str = ""
    prompt_round: int = 0


# A verdict is surplus if another rater has the slot; an excluded rater has no slot.
_VERDICTS = """
    SELECT pair.id AS pair_id, pair.dataset, pair.prompt_id, pair.method_a, pair.method_b,
        rater.name AS rater, verdict.criterion,
        CASE
            WHEN verdict.choice NOT IN ('A', 'B') THEN 'tie'
            WHEN (verdict.choice = 'A') = (presentation.first = 'a') THEN pair.method_a
            ELSE pair.method_b
        END AS verdict,
        rater.kind AS rater_kind, presentation.id AS presentation, presentation.number AS slot,
        CASE presentation.first WHEN 'a' THEN pair.method_a ELSE pair.method_b END AS shown_first,
        verdict.seconds, verdict.active_seconds, verdict.ends_seen, verdict.at,
        length(pair.text_a) AS length_a, length(pair.text_b) AS length_b,
        presentation.slot_id IS NOT NULL AND slot.id IS NULL AND rater.excluded_at IS NULL AS surplus,
        verdict.choice AS position, rater.excluded_at IS NOT NULL AS excluded,
        presentation.role, verdict.revision, presentation.handed_out, pair.round AS prompt_round,
        pair.position AS place
    FROM presentation
    JOIN rater ON rater.id = presentation.rater_id
    LEFT JOIN slot ON slot.held_by = presentation.id
    JOIN pair ON pair.id = presentation.pair_id
    JOIN verdict ON verdict.presentation_id = presentation.id
    WHERE {condition}
"""

_HISTORY = query(_VERDICTS.format(condition="TRUE"))

_CURRENT = query(
    _VERDICTS.format(
        condition="""presentation.role = 'study' AND NOT EXISTS (
    SELECT 1 FROM verdict AS later
    WHERE later.presentation_id = verdict.presentation_id AND later.criterion = verdict.criterion
        AND later.revision > verdict.revision
)"""
    )
)

# The rated presentations of raters of one kind, in the order shown. `side_of_a` is 1 if the comparison's
# first method was shown as A, else −1.
PRESENTATIONS = query("""
    SELECT presentation.id AS presentation, presentation.pair_id, rater.name AS rater, presentation.role,
        presentation.slot_id IS NOT NULL AND slot.id IS NULL AND rater.excluded_at IS NULL AS surplus,
        rater.excluded_at IS NOT NULL AS excluded,
        CASE presentation.first WHEN 'a' THEN 1 ELSE -1 END AS side_of_a
    FROM presentation
    JOIN rater ON rater.id = presentation.rater_id
    LEFT JOIN slot ON slot.held_by = presentation.id
    WHERE rater.kind = :kind AND presentation.rated_at IS NOT NULL
    ORDER BY presentation.id
""")

# All revisions of all choices. `letter` is 1 for A, −1 for B and 0 for a tie. `seconds` is the active time of
# the rating, or the whole time if the active time is unknown.
CHOICE_REVISIONS = query("""
    SELECT presentation_id AS presentation, criterion, revision,
        CASE choice WHEN 'A' THEN 1 WHEN 'B' THEN -1 ELSE 0 END AS letter,
        coalesce(active_seconds, seconds) AS seconds
    FROM verdict
""")

# The study's pairs. `for_people` marks pairs for people: a comparison may have stopped for the raters of one
# pool only.
PAIRS = query("""
    SELECT id AS pair_id, prompt_id, method_a, method_b,
        length(prompt) + length(text_a) + length(text_b) AS characters,
        for_people AND NOT EXISTS (
            SELECT 1 FROM stopped WHERE stopped.part = :pool AND stopped.method_a = pair.method_a
                AND stopped.method_b = pair.method_b AND stopped.number < pair.round
        ) AS for_people
    FROM pair WHERE expected IS NULL
""")


def read_tidy_rows(
    store: Store, *, include_surplus: bool = False, include_excluded: bool = False
) -> list[TidyRow]:
    """Return the study's current verdicts with methods, sorted by position, rater and criterion.

    Gold pairs and repeats are not part of the study. By default, surplus verdicts and verdicts of excluded
    raters are left out.
    """
    rows = _read_sorted_verdicts(store, _CURRENT, "place", "pair_id", "rater", "presentation", "criterion")
    return [
        row for row in rows if (include_surplus or not row.surplus) and (include_excluded or not row.excluded)
    ]


def read_verdict_history(store: Store) -> list[TidyRow]:
    """Return every revision of all verdicts, with gold pairs and repeats, sorted by presentation."""
    return _read_sorted_verdicts(store, _HISTORY, "presentation", "criterion", "revision")


def read_counted_verdicts(db: Connection, criterion: str) -> list[SqlRow]:
    """Return the verdicts on one criterion that count: neither surplus nor by an excluded rater."""
    rows = _CURRENT(db)
    return [row for row in rows if row.criterion == criterion and not (row.surplus or row.excluded)]


def _read_sorted_verdicts(store: Store, statement: Query, *order: str) -> list[TidyRow]:
    """Return the verdicts of a query, sorted by these columns."""
    with store.begin_read() as db:
        rows = statement(db).all()
    verdicts = []
    for row in sorted(rows, key=attrgetter(*order)):  # here, because databases sort texts differently
        values = row._asdict()
        del values["place"]
        for name in ("at", "handed_out"):
            values[name] = values[name].isoformat(timespec="milliseconds")
        verdicts.append(TidyRow(**values))
    return verdicts


def read_named_rows(
    store: Store, statement: Query, **values: str
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Run a query, such as `PAIRS`, with these parameters. Return the names of its columns, and its rows."""
    with store.begin_read() as db:
        result = statement(db, **values)
        cursor = result.cursor  # the driver's tuples, because SQLAlchemy's rows take twice as long
        return list(result.keys()), [] if cursor is None else list(cursor.fetchall())
