"""Who sits at the browser, which pair lies before them, and every call to the store.

Streamlit loses a session when a page is refreshed; nothing here is needed to continue. The invite in the
page's address signs the rater in again, and the store gives back the pair that was open.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import streamlit as st
from sqlalchemy.engine import make_url

from annotation_app.launch import STUDY_VARIABLE
from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Choice, Rater
from guard_eval.rubric import Criterion, criteria
from guard_eval.store import Plan, Store
from guard_eval.study import Study

TROUBLES = (StudyError, OSError)
"""What a study that is gone, locked or broken raises: the rater sees a calm page, the log the place."""

_TRAIL = 50
"""How many pairs of one sitting can be gone back over; their texts are held in memory."""

_LOG = logging.getLogger("annotation_app")


@dataclass(frozen=True)
class Desk:
    """What the server holds for all raters: an open store, and how pairs are handed out."""

    store: Store
    plan: Plan
    criteria: tuple[Criterion, ...]
    file: Path | None
    """The database's file, where it is one."""
    fingerprint: tuple[int, int]
    """Which file it was when it was opened."""


@dataclass
class Sitting:
    """One rater's visit: the pairs handed out in it, oldest first, and the one being looked at.

    Attributes:
        token: The invite, checked again with every save so that a revoked rater stops.
        rater: Whose it is.
        started: Whether the instructions were left.
        trail: The pairs handed out in this visit.
        at: Which of them is shown; beyond the last there is nothing left to rate.
        rated: How many pairs this rater has rated, in all visits.
        available: How many are left for this rater, the open one included.
        drafts: Choices of a pair that was left unsaved, by presentation.
        saved: Presentations of the trail with a verdict.
        missing: Titles of the criteria without an answer at the last attempt.
        note: What just happened, such as `Saved`.
        problem: Why the last attempt failed, if it did.
        shown: When the pair appeared, by the monotonic clock.
    """

    token: str
    rater: Rater
    started: bool = False
    trail: list[BlindPair] = field(default_factory=list)
    at: int = 0
    rated: int = 0
    available: int = 0
    drafts: dict[int, dict[str, Choice]] = field(default_factory=dict)
    saved: set[int] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    note: str = ""
    problem: str = ""
    shown: float = 0.0

    @property
    def pair(self) -> BlindPair | None:
        """Return the pair before the rater, or None when nothing is left."""
        return self.trail[self.at] if self.at < len(self.trail) else None

    @property
    def number(self) -> int:
        """Return which of the rater's pairs is shown, from 1."""
        ahead = sum(pair.presentation in self.saved for pair in self.trail[self.at :])
        return self.rated - ahead + 1

    def look(self, at: int) -> None:
        """Turn to the pair at `at`, forgetting what was said about the last one."""
        self.at = at
        self.missing, self.note, self.problem = [], "", ""
        self.shown = time.monotonic()


def open_desk() -> Desk:
    """Return the process's desk, opened again if the database's file was replaced.

    Raises:
        StudyError: The study or its database cannot be used.
        OSError: The database's file is gone. A SQLite connection would go on writing into the deleted file.
    """
    folder = os.environ[STUDY_VARIABLE]
    desk = _open(folder)
    if _fingerprint(desk.file) != desk.fingerprint:
        _open.clear(folder)
        desk = _open(folder)
    return desk


def _fingerprint(file: Path | None) -> tuple[int, int]:
    if file is None:
        return (0, 0)
    found = file.stat()
    return (found.st_dev, found.st_ino)


@st.cache_resource(show_spinner=False)
def _open(folder: str) -> Desk:
    study = Study.open(Path(folder))
    asked = study.settings.annotation
    url = make_url(study.database)
    file = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
    return Desk(
        store=Store.open(study.database, study_hash=study.hash),
        plan=Plan(
            seed=study.settings.seed,
            slots=asked.raters_per_pair,
            lease=timedelta(minutes=asked.lease_minutes),
        ),
        criteria=criteria(tuple(asked.criteria)),
        file=file,
        fingerprint=_fingerprint(file),
    )


def sign_in(desk: Desk, token: str) -> Sitting | None:
    """Return a new sitting for the invite's rater, or None when the invite is unknown or revoked."""
    rater = desk.store.sign_in(token)
    if rater is None:
        return None
    sitting = Sitting(token=token, rater=rater)
    sitting.rated, sitting.available = desk.store.progress(rater, desk.plan)
    return sitting


def may_continue(desk: Desk, sitting: Sitting) -> bool:
    """Return whether the sitting's invite still holds."""
    return desk.store.sign_in(sitting.token) == sitting.rater


def fetch(desk: Desk, sitting: Sitting) -> None:
    """Hand the rater the next pair, if the trail is used up and there is one."""
    if sitting.pair is None:
        handed = desk.store.hand_out(sitting.rater, desk.plan)
        sitting.trail.extend(handed)
        forgotten = max(0, len(sitting.trail) - _TRAIL)
        del sitting.trail[:forgotten]
        sitting.at -= forgotten
        sitting.shown = time.monotonic()
    sitting.rated, sitting.available = desk.store.progress(sitting.rater, desk.plan)


def save(desk: Desk, sitting: Sitting, choices: dict[str, Choice]) -> None:
    """Save the choices for the pair before the rater and turn to the next one in the trail."""
    pair = sitting.pair
    if pair is None:
        return
    first = pair.presentation not in sitting.saved
    # A change of mind has no duration of its own: the first one stands for the pair.
    seconds = time.monotonic() - sitting.shown if first else None
    desk.store.save(pair.presentation, choices, rater=sitting.rater, seconds=seconds)
    sitting.saved.add(pair.presentation)
    sitting.drafts.pop(pair.presentation, None)
    sitting.look(sitting.at + 1)


def prefill(desk: Desk, sitting: Sitting) -> dict[str, Choice]:
    """Return the choices to show as chosen: an unsaved draft's, or those saved before."""
    pair = sitting.pair
    if pair is None:
        return {}
    if pair.presentation not in sitting.drafts and pair.presentation in sitting.saved:
        sitting.drafts[pair.presentation] = desk.store.current(pair.presentation, rater=sitting.rater)
    return sitting.drafts.get(pair.presentation, {})


def log(error: Exception, doing: str) -> None:
    """Log why something failed: a StudyError's message, or a file's, holds neither texts nor tokens."""
    _LOG.error("%s failed: %s", doing, error)
