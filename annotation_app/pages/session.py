"""Who uses the page, which pair is shown, and every call to the store.

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
from typing import TypedDict

from sqlalchemy.engine import make_url

from annotation_app.pages import intake
from annotation_app.pages.intake import Intake
from annotation_app.panel.messages import Submission
from annotation_app.wording import PracticePair, Wording, load, of_study
from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Choice, Plan, Rater, content_id
from guard_eval.rubric import Criterion
from guard_eval.store import Store
from guard_eval.study.annotation_settings import Annotation
from guard_eval.study.folder import Study

STUDY_VARIABLE = "GUARD_EVAL_STUDY"
"""The environment variable that names the folder of the study that the server serves."""

STUDY_ERRORS = (StudyError, OSError)
"""What a missing, locked or broken study raises: the rater sees a calm page, the log names the cause."""

SKIP = "skip"
"""Sent in place of a press of Save where a pair was skipped: the browser forgets its draft."""

_DAY = 24 * 3600.0

_RECOUNT_SECONDS = 30.0
"""The greatest age of a count of the rater's pairs, and of a check of the invite."""

# Plain dictionaries: every page asks for these several times, and Streamlit's cache takes its time.
_STATES: dict[str, AppState] = {}
_WORDS: dict[str, Wording] = {}
_OPENING = threading.Lock()

_LOG = logging.getLogger("annotation_app")


class Recent:
    """The raters who were added within a day, by where they came from; known to this process alone."""

    def __init__(self) -> None:
        self._added: dict[str, list[tuple[float, int]]] = {}

    def add(self, origin: str | None, number: int) -> None:
        """Note that a rater was added."""
        if origin is not None and number not in self.of(origin):
            self._added.setdefault(origin, []).append((time.monotonic(), number))

    def of(self, origin: str | None) -> tuple[int, ...]:
        """Return the ids of the raters who came from there."""
        since = time.monotonic() - _DAY
        recent = [entry for entry in self._added.get(origin or "", []) if entry[0] > since]
        if origin is not None and recent:
            self._added[origin] = recent
        return tuple(number for _, number in recent)


@dataclass(frozen=True)
class AppState:
    """What the server holds for all raters: an open store, the plan of the hand-out, and the settings.

    `addresses` and `browsers` are where those came from who were added within a day; nothing stores it.
    """

    store: Store
    plan: Plan
    settings: Annotation
    criteria: tuple[Criterion, ...]
    practice: tuple[PracticePair, ...]
    file: Path | None
    """The database's file, where it is one."""
    fingerprint: tuple[int, int]
    """Which file it was when it was opened."""
    addresses: Recent = field(default_factory=Recent)
    browsers: Recent = field(default_factory=Recent)


@dataclass
class RaterSession:
    """One rater's visit: what was rated in this and all earlier ones, and the pair now shown.

    Attributes:
        token: The invite, checked again now and then. A revoked rater stops at once: the store refuses.
        rater: Whose it is.
        started: Whether the instructions were left.
        trail: Presentations with a verdict, of all visits, in the order they were shown.
        at: Which of them is shown; beyond the last is the pair still to be rated.
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
        enrolled: Whether the rater came by itself, and not by an invite.
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
    enrolled: bool = False

    @property
    def earlier(self) -> bool:
        """Return whether a pair that was rated before is shown."""
        return self.at < len(self.trail)

    @property
    def drafts(self) -> str:
        """Return the key of the rater's drafts in the browser; it does not identify the rater."""
        return content_id("draft", self.token)

    def next_view(self) -> ViewState:
        """Return what the panel shows of this session, with another number at every call."""
        self.turn += 1
        return {
            "place": self.drafts,
            "turn": self.turn,
            "problem": self.problem,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
        }

    def go_to(self, at: int) -> None:
        """Go to the pair at `at`, and clear the messages about the last one."""
        self.at = min(max(at, 0), len(self.trail))
        self.pair = None
        self.clear_messages()

    def clear_messages(self) -> None:
        """Clear the messages to the rater."""
        self.note, self.problem, self.failed = "", "", ""


class ViewState(TypedDict):
    """The part of a `View` that a session decides, in the practice and in the rating."""

    place: str
    turn: int
    problem: str
    acknowledged: tuple[int, str] | None
    failed: str


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """What a rater wrote about a pair besides the verdict: a comment, and names of reported problems."""

    comment: str = ""
    problems: tuple[str, ...] = ()


def open_state() -> AppState:
    """Return the process's state, opened again if the database's file was replaced.

    Raises:
        StudyError: The study or its database cannot be used.
        OSError: The database's file is missing. A SQLite connection would go on writing into a deleted file.
    """
    folder = os.environ[STUDY_VARIABLE]
    app = _STATES.get(folder)
    if app is None or _fingerprint(app.file) != app.fingerprint:
        with _OPENING:
            app = _STATES.get(folder)
            if app is None or _fingerprint(app.file) != app.fingerprint:
                app = _STATES[folder] = _open(folder)
    return app


def reset() -> None:
    """Read the study again at the next visit, as a restarted server does."""
    for app in _STATES.values():
        app.store.close()
    _STATES.clear()
    _WORDS.clear()


def _fingerprint(file: Path | None) -> tuple[int, int]:
    if file is None:
        return (0, 0)
    found = file.stat()
    return (found.st_dev, found.st_ino)


def words() -> Wording:
    """Return the sentences of the pages: the study's, or plain English where the study cannot be read."""
    try:
        return _words(os.environ.get(STUDY_VARIABLE, ""))
    except STUDY_ERRORS as error:
        log(error, "reading the wording")
        return load()


def _words(folder: str) -> Wording:
    if folder not in _WORDS:
        _WORDS[folder] = of_study(Study.open(Path(folder)))
    return _WORDS[folder]


def _open(folder: str) -> AppState:
    study = Study.open(Path(folder))
    settings = study.settings.annotation
    wording = _words(folder)
    criteria = wording.rubric(tuple(settings.criteria))
    url = make_url(study.database)
    file = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
    return AppState(
        store=Store.open(study.database, study_hash=study.hash),
        plan=study.plan,
        settings=settings,
        criteria=criteria,
        practice=intake.practice_pairs(wording, criteria),
        file=file,
        fingerprint=_fingerprint(file),
    )


def sign_in(app: AppState, token: str) -> RaterSession | None:
    """Return a new visit for the invite's rater, or None when the invite is unknown or revoked."""
    rater = app.store.sign_in(token)
    if rater is None:
        return None
    visit = RaterSession(token=token, rater=rater, trail=app.store.trail(rater))
    visit.at = visit.rated = len(visit.trail)
    visit.intake = intake.read(app.store, rater)
    visit.started = visit.rated > 0 or visit.intake.begun
    visit.enrolled = bool(visit.intake.arrivals)
    return visit


def may_continue(app: AppState, visit: RaterSession) -> bool:
    """Return whether the visit's invite is still valid."""
    return app.store.sign_in(visit.token) == visit.rater


def fetch(app: AppState, visit: RaterSession) -> None:
    """Set the pair that the rater sees next, if any, and count how far the rater is."""
    if _is_old(visit):
        _count(app, visit)
    if visit.pair is None:
        visit.pair = _find_pair(app, visit)
    # The count is out of date.
    if not visit.earlier and (visit.pair is None) != (visit.available == 0):
        _count(app, visit)


def _is_old(visit: RaterSession) -> bool:
    return time.monotonic() - visit.counted > _RECOUNT_SECONDS


def _count(app: AppState, visit: RaterSession) -> None:
    visit.rated, visit.available = app.store.progress(visit.rater, app.plan)
    visit.counted = time.monotonic()
    if visit.rated != len(visit.trail):
        _follow_other_window(visit, app.store.trail(visit.rater))


def _follow_other_window(visit: RaterSession, trail: list[int]) -> None:
    """Add what the rater did in another window, and stay at the pair now shown."""
    shown = visit.trail[visit.at] if visit.earlier else None
    visit.trail = trail
    visit.at = trail.index(shown) if shown in trail else len(trail)
    if not visit.earlier and visit.pair is not None and visit.pair.presentation in trail:
        visit.pair = None


def _find_pair(app: AppState, visit: RaterSession) -> BlindPair | None:
    if visit.earlier:
        return app.store.presented(visit.trail[visit.at], rater=visit.rater)
    handed = app.store.hand_out(visit.rater, app.plan)
    return handed[0] if handed else None


def save(app: AppState, visit: RaterSession, submission: Submission) -> bool:
    """Save a submission, whichever of the rater's pairs it is about, and go to the next pair.

    A press that is sent again, as after a broken connection, changes nothing. Returns whether the visit's
    invite still holds: if not, nothing was saved.
    """
    if _is_old(visit) and not may_continue(app, visit):
        return False
    try:
        following = _save(app, visit, submission)
    except StudyError:
        # The store takes nothing of a revoked rater; other reasons are none of the rater's.
        if may_continue(app, visit):
            raise
        return False
    if submission.pair not in visit.trail:
        visit.trail.append(submission.pair)
        visit.rated += 1
        visit.available = max(0, visit.available - 1)
    visit.go_to(visit.trail.index(submission.pair) + 1)
    visit.pair = None if visit.earlier else following
    visit.acknowledged = (submission.pair, submission.press)
    return True


def _save(app: AppState, visit: RaterSession, submission: Submission) -> BlindPair | None:
    """Save a submission; return the next pair where that is one still to be rated."""
    first = submission.pair not in visit.trail
    saved = app.store.save(
        submission.pair,
        submission.choices,
        rater=visit.rater,
        # A change of mind has no duration of its own: the first one counts for the pair.
        seconds=submission.seconds if first else None,
        active_seconds=submission.active_seconds if first else None,
        by_browser=True,
        comment=submission.comment,
        problem=None if submission.problems is None else ", ".join(submission.problems),
        then=app.plan if first or submission.pair == visit.trail[-1] else None,
    )
    for seconds in submission.breaks:
        app.store.note(visit.rater, "break", f"{seconds:.0f} s", presentation=submission.pair)
    return saved.next


def skip(app: AppState, visit: RaterSession, pair: int, problems: tuple[str, ...], comment: str) -> bool:
    """Leave a pair to another rater and go on; return False where this rater has skipped too many."""
    if not app.store.skip(pair, problems, rater=visit.rater, comment=comment):
        return False
    visit.go_to(len(visit.trail))
    visit.counted = -math.inf
    visit.acknowledged = (pair, SKIP)
    return True


def earlier_answers(app: AppState, visit: RaterSession) -> tuple[dict[str, Choice], Remarks]:
    """Return the verdict and the remarks that the rater gave on the pair now shown, if any."""
    if visit.pair is None or not visit.earlier:
        return {}, Remarks()
    number = visit.pair.presentation
    # The last of each kind: notes come oldest first.
    notes = {note.kind: note.detail for note in app.store.notes(presentation=number)}
    reported = notes.get("problem", "")
    remarks = Remarks(
        comment=notes.get("comment", ""), problems=tuple(reported.split(", ")) if reported else ()
    )
    return app.store.current(number, rater=visit.rater), remarks


def warn(message: str) -> None:
    """Log what the owner should know; it holds neither texts nor tokens."""
    _LOG.warning("%s", message)


def log(error: Exception, doing: str) -> None:
    """Log why something failed: a StudyError's message, or a file's, holds neither texts nor tokens."""
    _LOG.error("%s failed: %s", doing, error)
