"""What raters said, showing by showing: the rows of the store's history put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from guard_eval.cli.overview.values import StudySnapshot
from guard_eval.records import Choice, RaterKind, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRating:
    """What a rater said of a pair at one showing.

    Attributes:
        presentation: `Presentation.id`.
        pair_id: `Pair.id`.
        rater: The rater's name.
        role: Why it was shown.
        a_first: The comparison's first method was shown as A.
        positions: The letter that was pressed by criterion, as it stands now.
        pressed: The letter that was pressed first.
        verdicts: The method or `tie` that it stands for now.
        seconds: From the pair's appearance to the first submit, where known.
        active_seconds: Those of them in focus and not idle; all of them where that is not known.
        at: When the first verdict was saved.
        last: When the last change of it was saved.
        surplus: The slot had gone to somebody else.
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
    seconds: float | None
    active_seconds: float | None
    at: str
    last: str
    surplus: bool
    excluded: bool

    @property
    def counts(self) -> bool:
        """Return whether the report counts it."""
        return self.role == "study" and not self.surplus and not self.excluded


def ratings(snapshot: StudySnapshot, kind: RaterKind) -> list[PairRating]:
    """Return what raters of one kind said, in the order in which they were shown it."""
    showings: dict[int, list[int]] = {}
    for place, row in enumerate(snapshot.history):
        if row.rater_kind == kind:
            showings.setdefault(row.presentation, []).append(place)
    return [_rating(snapshot, places) for _, places in sorted(showings.items())]


def _rating(snapshot: StudySnapshot, places: list[int]) -> PairRating:
    # the store sorts by criterion and revision, so that the last of a criterion stands
    rows = [snapshot.history[place] for place in places]
    first, start = rows[0], min(rows, key=lambda row: (row.revision, row.at))
    active = start.seconds if start.active_seconds is None else start.active_seconds
    return PairRating(
        presentation=first.presentation,
        pair_id=first.pair_id,
        rater=first.rater,
        role=first.role,
        a_first=first.shown_first == first.method_a,
        positions={row.criterion: row.position for row in rows},
        pressed={row.criterion: row.position for row in reversed(rows)},
        verdicts={row.criterion: row.verdict for row in rows},
        seconds=start.seconds,
        active_seconds=active,
        at=start.at,
        last=max(row.at for row in rows),
        surplus=first.surplus,
        excluded=first.excluded,
    )
