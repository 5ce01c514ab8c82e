"""Who sits at the browser, which pair lies before them, and every call to the store.

Streamlit loses a session when a page is refreshed; nothing here is needed to continue. The invite in the
page's address signs the rater in again, and the store gives back the pair that was open.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import make_url

from annotation_app import intake
from annotation_app.intake import Intake
from annotation_app.launch import STUDY_VARIABLE
from annotation_app.panel import Given
from annotation_app.wording import PracticePair, Wording, load, of_study
from guard_eval.annotation_settings import Annotation
from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Choice, Rater, content_id
from guard_eval.rubric import Criterion
from guard_eval.store import Plan, Store
from guard_eval.study import Study

TROUBLES = (StudyError, OSError)
"""What a study that is gone, locked or broken raises: the rater sees a calm page, the log the place."""

_RECOUNT_SECONDS = 30.0
"""How old a count of the rater's pairs, and a look at the invite, may get before the store is asked again."""

# Plain dictionaries: every page asks for these several times, and Streamlit's cache takes its time.
_DESKS: dict[str, Desk] = {}
_WORDS: dict[str, Wording] = {}
_OPENING = threading.Lock()

_LOG = logging.getLogger("annotation_app")


@dataclass(frozen=True)
class Desk:
    """What the server holds for all raters: an open store, how pairs are handed out, and what is asked."""

    store: Store
    plan: Plan
    asked: Annotation
    criteria: tuple[Criterion, ...]
    practice: tuple[PracticePair, ...]
    file: Path | None
    """The database's file, where it is one."""
    fingerprint: tuple[int, int]
    """Which file it was when it was opened."""


@dataclass
class Sitting:
    """One rater's visit: what was rated in this and all earlier ones, and the pair being looked at.

    Attributes:
        token: The invite, checked again now and then. A revoked rater stops at once: the store refuses.
        rater: Whose it is.
        started: Whether the instructions were left.
        trail: Presentations with a verdict, of all visits, in the order they were shown.
        at: Which of them is looked at; beyond the last is the pair still to be rated.
        pair: The pair before the rater, or None when nothing is left.
        rated: How many pairs this rater has rated, in all visits.
        available: How many are left for this rater, the open one included.
        note: What just happened, such as `Saved`.
        problem: Why the last attempt failed, if it did.
        acknowledged: The presentation that was saved last, and the press that saved it.
        failed: The press whose answers could not be saved.
        turn: Counts the times the page was shown.
        counted: When the store was last asked how far the rater is, by the monotonic clock.
        intake: What was noted of this rater on the pages before the first pair.
        practised: The practice pair judged last and how, until its feedback was read.
        wrong: What was answered wrongly at the last attempt of the check, until it was read.
        reconsiders: Whether the question for consent is asked once more.
    """

    token: str
    rater: Rater
    started: bool = False
    trail: list[int] = field(default_factory=list)
    at: int = 0
    pair: BlindPair | None = None
    rated: int = 0
    available: int = 0
    note: str = ""
    problem: str = ""
    acknowledged: tuple[int, str] | None = None
    failed: str = ""
    turn: int = 0
    counted: float = -math.inf
    intake: Intake = field(default_factory=Intake)
    practised: tuple[PracticePair, dict[str, Choice]] | None = None
    wrong: tuple[str, ...] = ()
    reconsiders: bool = False

    @property
    def earlier(self) -> bool:
        """Return whether a pair that was rated before is being looked at."""
        return self.at < len(self.trail)

    @property
    def place(self) -> str:
        """Return what tells this rater's drafts in a browser from others', and says nothing of the rater."""
        return content_id("draft", self.token)

    def look(self, at: int) -> None:
        """Turn to the pair at `at`, forgetting what was said about the last one."""
        self.at = min(max(at, 0), len(self.trail))
        self.pair = None
        self.hush()

    def hush(self) -> None:
        """Forget what was said."""
        self.note, self.problem, self.failed = "", "", ""


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """What a rater wrote about a pair besides the verdict: a comment, and names of reported problems."""

    comment: str = ""
    problems: tuple[str, ...] = ()


def open_desk() -> Desk:
    """Return the process's desk, opened again if the database's file was replaced.

    Raises:
        StudyError: The study or its database cannot be used.
        OSError: The database's file is gone. A SQLite connection would go on writing into the deleted file.
    """
    folder = os.environ[STUDY_VARIABLE]
    desk = _DESKS.get(folder)
    if desk is None or _fingerprint(desk.file) != desk.fingerprint:
        with _OPENING:
            desk = _DESKS.get(folder)
            if desk is None or _fingerprint(desk.file) != desk.fingerprint:
                desk = _DESKS[folder] = _open(folder)
    return desk


def forget() -> None:
    """Read the study anew at the next visit, as a server does that was started again."""
    for desk in _DESKS.values():
        desk.store.close()
    _DESKS.clear()
    _WORDS.clear()


def _fingerprint(file: Path | None) -> tuple[int, int]:
    if file is None:
        return (0, 0)
    found = file.stat()
    return (found.st_dev, found.st_ino)


def words() -> Wording:
    """Return what the screen says, in the study's words; in plain English where the study cannot be read."""
    try:
        return _words(os.environ.get(STUDY_VARIABLE, ""))
    except TROUBLES as error:
        log(error, "reading the wording")
        return load()


def _words(folder: str) -> Wording:
    if folder not in _WORDS:
        _WORDS[folder] = of_study(Study.open(Path(folder)))
    return _WORDS[folder]


def _open(folder: str) -> Desk:
    study = Study.open(Path(folder))
    asked = study.settings.annotation
    said = _words(folder)
    criteria = said.rubric(tuple(asked.criteria))
    url = make_url(study.database)
    file = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
    return Desk(
        store=Store.open(study.database, study_hash=study.hash),
        plan=study.plan,
        asked=asked,
        criteria=criteria,
        practice=intake.practice_pairs(said, criteria),
        file=file,
        fingerprint=_fingerprint(file),
    )


def sign_in(desk: Desk, token: str) -> Sitting | None:
    """Return a new sitting for the invite's rater, or None when the invite is unknown or revoked."""
    rater = desk.store.sign_in(token)
    if rater is None:
        return None
    sitting = Sitting(token=token, rater=rater, trail=desk.store.trail(rater))
    sitting.at = sitting.rated = len(sitting.trail)
    sitting.intake = intake.read(desk.store, rater)
    sitting.started = sitting.rated > 0 or sitting.intake.begun
    return sitting


def may_continue(desk: Desk, sitting: Sitting) -> bool:
    """Return whether the sitting's invite still holds."""
    return desk.store.sign_in(sitting.token) == sitting.rater


def fetch(desk: Desk, sitting: Sitting) -> None:
    """Put the pair before the rater that belongs there, if there is one, and see how far the rater is."""
    if _old(sitting):
        _count(desk, sitting)
    if sitting.pair is None:
        sitting.pair = _look_up(desk, sitting)
        # The count said otherwise.
        if not sitting.earlier and (sitting.pair is None) != (sitting.available == 0):
            _count(desk, sitting)


def _old(sitting: Sitting) -> bool:
    return time.monotonic() - sitting.counted > _RECOUNT_SECONDS


def _count(desk: Desk, sitting: Sitting) -> None:
    sitting.rated, sitting.available = desk.store.progress(sitting.rater, desk.plan)
    sitting.counted = time.monotonic()
    if sitting.rated != len(sitting.trail):
        _catch_up(sitting, desk.store.trail(sitting.rater))


def _catch_up(sitting: Sitting, trail: list[int]) -> None:
    """Take in what the rater did in another window, and stay at the pair that is looked at."""
    looked_at = sitting.trail[sitting.at] if sitting.earlier else None
    sitting.trail = trail
    sitting.at = trail.index(looked_at) if looked_at in trail else len(trail)
    if not sitting.earlier and sitting.pair is not None and sitting.pair.presentation in trail:
        sitting.pair = None


def _look_up(desk: Desk, sitting: Sitting) -> BlindPair | None:
    if sitting.earlier:
        return desk.store.presented(sitting.trail[sitting.at], rater=sitting.rater)
    handed = desk.store.hand_out(sitting.rater, desk.plan)
    return handed[0] if handed else None


def save(desk: Desk, sitting: Sitting, given: Given) -> bool:
    """Save what was given, whichever pair of the rater's it is about, and turn to the one after it.

    A press that is sent again, as after a broken connection, changes nothing. Returns whether the sitting's
    invite still holds: if not, nothing was saved.
    """
    if _old(sitting) and not may_continue(desk, sitting):
        return False
    try:
        _save(desk, sitting, given)
    except StudyError:
        # The store takes nothing of a revoked rater; other reasons are none of the rater's.
        if may_continue(desk, sitting):
            raise
        return False
    if given.pair not in sitting.trail:
        sitting.trail.append(given.pair)
        sitting.rated += 1
        sitting.available = max(0, sitting.available - 1)
    sitting.look(sitting.trail.index(given.pair) + 1)
    sitting.acknowledged = (given.pair, given.press)
    return True


def _save(desk: Desk, sitting: Sitting, given: Given) -> None:
    first = given.pair not in sitting.trail
    desk.store.save(
        given.pair,
        given.choices,
        rater=sitting.rater,
        # A change of mind has no duration of its own: the first one stands for the pair.
        seconds=given.seconds if first else None,
        active_seconds=given.active_seconds if first else None,
        comment=given.comment,
        problem=None if given.problems is None else ", ".join(given.problems),
    )
    for seconds in given.breaks:
        desk.store.note(sitting.rater, "break", f"{seconds:.0f} s", presentation=given.pair)


def before(desk: Desk, sitting: Sitting) -> tuple[dict[str, Choice], Remarks]:
    """Return what the rater said of the pair before them when they rated it."""
    if sitting.pair is None or not sitting.earlier:
        return {}, Remarks()
    number = sitting.pair.presentation
    # The last of each kind: notes come oldest first.
    said = {note.kind: note.detail for note in desk.store.notes(presentation=number)}
    reported = said.get("problem", "")
    remarks = Remarks(
        comment=said.get("comment", ""), problems=tuple(reported.split(", ")) if reported else ()
    )
    return desk.store.current(number, rater=sitting.rater), remarks


def log(error: Exception, doing: str) -> None:
    """Log why something failed: a StudyError's message, or a file's, holds neither texts nor tokens."""
    _LOG.error("%s failed: %s", doing, error)
