"""What raters pressed, presentation by presentation: the rows of the store's history put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from guard_eval.records import PEOPLE, Choice, Pair, RaterKind, Role
from guard_eval.store import CheckRow, HistoryRow, Note, RaterProgress, Store, settings, unblind
from guard_eval.store import notes as store_notes
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters


@dataclass(frozen=True, kw_only=True, slots=True)
class StudySnapshot:
    """What was read from the store; `pairs` are those for people."""

    history: Sequence[HistoryRow]
    checks: Sequence[CheckRow]
    notes: Sequence[Note]
    raters: Sequence[RaterProgress]
    pairs: Sequence[Pair]
    declared: str | None
    skips: Sequence[Note] = ()


def read(store: Store) -> StudySnapshot:
    """Read a study's state: while raters rate, each part is as new as the moment it was read."""
    # Raters and pairs are read last, so that whatever the other rows refer to is among them.
    history, checks, notes = unblind.history(store), unblind.checks(store), store_notes.read(store)
    skips = store_notes.read(store, kind="skip")
    return StudySnapshot(
        history=history,
        checks=checks,
        notes=notes,
        raters=store_raters.read(store),
        pairs=[pair for pair in store_pairs.read(store) if pair.for_people],
        declared=settings.declared(store, PEOPLE),
        skips=skips,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRating:
    """What a rater pressed on a pair at one presentation.

    Attributes:
        presentation: The number under which the pair was shown.
        pair_id: `Pair.id`.
        rater: The rater's name.
        role: Why it was shown.
        a_first: The comparison's first method was shown as A.
        positions: The latest letter by criterion.
        pressed: The letter that was pressed first.
        verdicts: The method or `tie` that this letter means.
        active_seconds: From appearance to the first submit, in focus and not idle; all of them where that
            is not known; None where nothing is.
        last: When the last change of it was saved.
        surplus: Another rater had taken the slot.
        excluded: The rater is excluded.
    """

    presentation: int
    pair_id: str
    rater: str
    role: Role
    a_first: bool
    positions: Mapping[str, Choice]
    pressed: Mapping[str, Choice]
    verdicts: Mapping[str, str]
    active_seconds: float | None
    last: str
    surplus: bool
    excluded: bool

    @property
    def counts(self) -> bool:
        """Return whether the report counts it."""
        return self.role == "study" and not self.surplus and not self.excluded


def ratings(snapshot: StudySnapshot, kind: RaterKind) -> list[PairRating]:
    """Return the ratings of raters of one kind, in the order in which the pairs were shown."""
    presentations: dict[int, list[HistoryRow]] = {}
    for row in snapshot.history:
        if row.rater_kind == kind:
            presentations.setdefault(row.presentation, []).append(row)
    return [_rating(rows) for _, rows in sorted(presentations.items())]


def _rating(rows: Sequence[HistoryRow]) -> PairRating:
    # The store sorts by criterion and revision, so the last of a criterion counts.
    first, start = rows[0], min(rows, key=lambda row: (row.revision, row.at))
    return PairRating(
        presentation=first.presentation,
        pair_id=first.pair_id,
        rater=first.rater,
        role=first.role,
        a_first=first.shown_first == first.method_a,
        positions={row.criterion: row.position for row in rows},
        pressed={row.criterion: row.position for row in reversed(rows)},
        verdicts={row.criterion: row.verdict for row in rows},
        active_seconds=start.seconds if start.active_seconds is None else start.active_seconds,
        last=max(row.at for row in rows),
        surplus=first.surplus,
        excluded=first.excluded,
    )
