"""What goes into the store and comes out of it, besides the records of the study itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from guard_eval.records import NoteKind, RaterKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How pairs are handed to one rater.

    Attributes:
        seed: The study's seed. Of the free pairs that are looked up together a rater's order is the order of
            `content_id(seed, rater.name, pair.id)`; `vacancies.free` says which are looked up.
        slots: Showings per pair in the rater's pool: raters per pair for people, orders for a model.
        lease: After this long and unrated, a presentation's slot may go to somebody else.
        quota: How many of the study's pairs one rater may rate; None for as many as there are.
        gold_every: One gold pair is mixed into so many of the study's, at seeded places; None for none.
        repeats: How many of a rater's own pairs it is shown again later with the sides swapped.
        one_order: A model sees each pair in one order only, drawn by the seed: every other slot.

    `quota`, `gold_every` and `repeats` are for people and simulations; a model sees every slot and no more.
    """

    seed: int
    slots: int
    lease: timedelta
    quota: int | None = None
    gold_every: int | None = None
    repeats: int = 0
    one_order: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What became of a verdict.

    Attributes:
        revision: The highest revision now current among the criteria saved: 0 unless a mind was changed.
        surplus: The slot had gone to another rater before this came; it is kept, and not counted by default.
    """

    revision: int
    surplus: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterProgress:
    """How far a rater has come, in presentations of the study's pairs.

    `source` and `external_id` are there for raters who enrolled by themselves: they are paid by that id, and
    it is for the study's owner alone.
    """

    name: str
    kind: RaterKind
    revoked: bool
    handed_out: int
    rated: int
    excluded: bool = False
    source: str | None = None
    external_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something noted of a rater, as it was written.

    Attributes:
        rater: The rater's name.
        kind: What it is about.
        detail: A text, or JSON, as the kind has it.
        presentation: What was shown when it was written, where it belongs to a pair.
        at: When it was written, in UTC.
    """

    rater: str
    kind: NoteKind
    detail: str
    presentation: int | None
    at: datetime
