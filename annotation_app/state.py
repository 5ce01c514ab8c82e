"""What the server holds for all raters (`App`) and for one of them (`Visit`), and the store behind both.

Streamlit loses a session when a page is reloaded; nothing here is needed to continue. The invite in the
page's address signs the rater in again, and the store returns the pair that was open.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from annotation_app import wording
from annotation_app.panel import Skip, Submission
from annotation_app.wording import PracticePair, Wording
from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Choice, NoteKind, Plan, Rater, content_id
from guard_eval.rubric import Criterion
from guard_eval.store import Store, handout, notes, raters, verdicts
from guard_eval.study import Study
from guard_eval.study.annotation_settings import Annotation

STUDY_ERRORS = (StudyError, OSError)
"""What a missing, locked or broken study raises: the rater sees a calm page, the log names the cause."""

RECOUNT_SECONDS = 30.0
"""The greatest age of a count of the rater's pairs, and of a check of the invite."""

ENTRANCE = threading.Lock()
"""Held while a page is shown to a visitor who is not signed in."""

_ONBOARDING = {"arrival", "consent", "background", "instructions", "practice", "check", "finished"}
"""Kinds of notes that say how far a rater is; their details are JSON."""

_served: list[Study] = []
_app: list[App] = []
_opening = threading.Lock()


@dataclass(frozen=True)
class App:
    """What the server holds for all raters.

    `fingerprint` says which file the database was when it was opened, if it is one. `latest` has each rater's
    newest visit by the rater's id: an older one, in another tab, no longer acts.
    """

    store: Store
    plan: Plan
    settings: Annotation
    words: Wording
    criteria: tuple[Criterion, ...]
    practice: tuple[PracticePair, ...]
    file: Path | None
    fingerprint: tuple[int, int]
    latest: dict[int, Visit] = field(default_factory=dict)


@dataclass
class Visit:
    """One rater's visit.

    Attributes:
        token: The invite, checked again now and then. A revoked rater stops at once: the store refuses.
        rater: Whose visit it is.
        progress: What was noted of this rater on the pages around the rating, by kind.
        trail: Presentations with a verdict, of this and all earlier visits, in the order they were shown.
        at: Which of them is shown; beyond the last is the pair still to be rated.
        pair: The pair before the rater, or None if nothing is left.
        available: How many pairs are left for this rater, the open one included.
        counted: When the store was last asked for this number, by the monotonic clock.
        reading: Whether the instructions are opened once more.
        practised: The practice pair judged last and how, until its feedback was read.
        wrong: What was answered wrongly at the last attempt of the check, until it was read.
        reconsiders: Whether the question for consent is asked once more.
        note: What just happened, such as `Saved`.
        problem: Why the last attempt failed, if it did.
        acknowledged: The presentation that was saved last, and the press that saved it.
        failed: The press whose answers could not be saved.
        turn: Counts the times the panel was shown.
    """

    token: str
    rater: Rater
    progress: Mapping[str, list[Any]]
    trail: list[int]
    at: int
    pair: BlindPair | None = None
    available: int = 0
    counted: float = -math.inf
    reading: bool = False
    practised: tuple[PracticePair, dict[str, Choice]] | None = None
    wrong: tuple[str, ...] = ()
    reconsiders: bool = False
    note: str = ""
    problem: str = ""
    acknowledged: tuple[int, str] | None = None
    failed: str = ""
    turn: int = 0

    @property
    def earlier(self) -> bool:
        """Return whether a pair that was rated before is shown."""
        return self.at < len(self.trail)

    @property
    def enrolled(self) -> bool:
        """Return whether the rater came without an invite."""
        return bool(self.progress["arrival"])

    def view(self) -> dict[str, Any]:
        """Return what the panel shows of this visit; `turn` differs at every call: the browser notices."""
        self.turn += 1
        said = {name: getattr(self, name) for name in ("note", "problem", "acknowledged", "failed", "turn")}
        # The key of the rater's drafts in the browser, which does not identify the rater.
        return {"drafts": content_id("draft", self.token), **said}

    def clear_messages(self) -> None:
        """Clear the messages to the rater."""
        self.note, self.problem, self.failed = "", "", ""

    def close_feedback(self) -> None:
        """Go on after the feedback on a practice pair, or on wrong answers."""
        self.practised, self.wrong = None, ()

    def read_instructions(self) -> None:
        """Open the instructions once more."""
        self.reading = True

    def go_to(self, at: int) -> None:
        """Go to the pair at `at`, and clear the messages about the last one."""
        self.at = min(max(at, 0), len(self.trail))
        self.pair = None
        self.clear_messages()


# The served study.


def serve_study(study: Study) -> None:
    """Let this process's pages show a study, read anew."""
    for app in _app:
        app.store.close()
    _app.clear()
    _served[:] = [study]


def open_app() -> App:
    """Return the served study's state, opened again if the database's file was replaced.

    Raises:
        StudyError: The study or its database cannot be used.
        OSError: The database's file is missing. A SQLite connection would go on writing into a deleted file.
    """
    with _opening:
        if not _app or _fingerprint(_app[0].file) != _app[0].fingerprint:
            _app[:] = [_open(_served[0])]
        return _app[0]


def _open(study: Study) -> App:
    annotation, words = study.settings.annotation, wording.of_study(study)
    url = make_url(study.database)
    file = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
    return App(
        store=Store.open(study.database, declared=study.declared),
        plan=study.plan,
        settings=annotation,
        words=words,
        criteria=wording.rubric(words, annotation.criteria),
        practice=tuple(
            pair for pair in words["practice"]["pairs"] if pair.expected.keys() & set(annotation.criteria)
        ),
        file=file,
        fingerprint=_fingerprint(file),
    )


def _fingerprint(file: Path | None) -> tuple[int, int]:
    status = file.stat() if file else None
    return (status.st_dev, status.st_ino) if status else (0, 0)


def current_words() -> Wording:
    """Return the sentences of the pages: the study's, or the language's own if the study cannot be opened."""
    return _app[0].words if _app else wording.shipped_wording(_served[0].settings.annotation.language)


def log(error: Exception, doing: str) -> None:
    """Log why something failed: a StudyError's message, or a file's, holds neither texts nor tokens."""
    logging.getLogger("annotation_app").error("%s failed: %s", doing, error)


# A rater's visit.


def sign_in(app: App, token: str) -> Visit | None:
    """Return a new visit of the invite's rater, the newest from now on; None if the invite is not valid."""
    rater = raters.sign_in(app.store, token)
    if rater is None:
        return None
    trail = verdicts.trail(app.store, rater)
    visit = Visit(token=token, rater=rater, progress=_progress(app, rater), trail=trail, at=len(trail))
    app.latest[rater.id] = visit
    return visit


def is_latest(app: App, visit: Visit) -> bool:
    """Return whether the rater has not opened the study in another tab or browser since."""
    return app.latest.setdefault(visit.rater.id, visit) is visit


def _progress(app: App, rater: Rater) -> dict[str, list[Any]]:
    progress: dict[str, list[Any]] = defaultdict(list)
    for note in notes.read(app.store, rater=rater):
        if note.kind in _ONBOARDING:
            progress[note.kind].append(json.loads(note.detail))
    return progress


def record(app: App, visit: Visit, kind: NoteKind, detail: Mapping[str, object]) -> None:
    """Note how far the rater is, on disk when this returns.

    A second press, or another tab, may have noted the same since this page was shown: nothing is added.
    """
    known = len(visit.progress[kind])
    visit.progress = _progress(app, visit.rater)
    if len(visit.progress[kind]) == known:
        notes.write(app.store, visit.rater, kind, json.dumps(detail, ensure_ascii=False, sort_keys=True))
        visit.progress[kind].append(detail)


def fetch(app: App, visit: Visit) -> None:
    """Set the pair that the rater sees next, if any, and count how many are left."""
    if _is_old(visit):
        _count(app, visit)
    if visit.pair is None and visit.earlier:
        visit.pair = verdicts.presented(app.store, visit.trail[visit.at], rater=visit.rater)
    elif visit.pair is None:
        visit.pair = next(iter(handout.claim(app.store, visit.rater, app.plan)), None)
    if not visit.earlier and (visit.pair is None) != (visit.available == 0):
        _count(app, visit)  # the count is out of date


def _is_old(visit: Visit) -> bool:
    return time.monotonic() - visit.counted > RECOUNT_SECONDS


def _count(app: App, visit: Visit) -> None:
    rated, visit.available = handout.progress(app.store, visit.rater, app.plan)
    visit.counted = time.monotonic()
    if rated != len(visit.trail):  # rated on another server, as a proxy may spread the tabs
        visit.trail = verdicts.trail(app.store, visit.rater)
        visit.go_to(len(visit.trail))


def save(app: App, visit: Visit, submission: Submission) -> bool:
    """Save a submission, whichever of the rater's pairs it is about, and go to the next pair.

    A press that is sent again, as after a broken connection, changes nothing. Returns whether the visit's
    invite still holds: if not, nothing was saved.
    """
    if _is_old(visit) and not _may_continue(app, visit):
        return False
    first = submission.pair not in visit.trail
    try:
        saved = verdicts.save(
            app.store,
            submission.pair,
            submission.choices,
            rater=visit.rater,
            # A change of mind has no measures of its own: the first ones count for the pair.
            seconds=submission.seconds if first else None,
            active_seconds=submission.active_seconds if first else None,
            ends_seen=submission.ends if first else None,
            by_browser=True,
            comment=submission.comment,
            problem=None if submission.problems is None else ", ".join(submission.problems),
            then=app.plan if first or submission.pair == visit.trail[-1] else None,
        )
    except StudyError:
        # The store takes nothing from a revoked rater; other reasons are none of the rater's.
        if _may_continue(app, visit):
            raise
        return False
    if first:
        visit.trail.append(submission.pair)
        visit.available = max(0, visit.available - 1)
    visit.go_to(visit.trail.index(submission.pair) + 1)
    visit.pair = None if visit.earlier else saved.next
    visit.acknowledged = (submission.pair, submission.press)
    return True


def _may_continue(app: App, visit: Visit) -> bool:
    return raters.sign_in(app.store, visit.token) == visit.rater


def skip(app: App, visit: Visit, skipped: Skip) -> bool:
    """Leave a pair to another rater and go on; return False if this rater has skipped too many."""
    if not handout.skip(
        app.store, skipped.pair, skipped.problems, rater=visit.rater, comment=skipped.comment
    ):
        return False
    visit.go_to(len(visit.trail))
    visit.counted = -math.inf
    visit.acknowledged = (skipped.pair, "skip")  # in place of a press of Save: the browser forgets its draft
    return True


def earlier_answers(app: App, visit: Visit) -> dict[str, Any]:
    """Return the choices, comment and problems that the rater gave on the pair now shown."""
    if visit.pair is None or not visit.earlier:
        return {"chosen": {}, "comment": "", "problems": []}
    number = visit.pair.presentation
    # The last of each kind: notes come oldest first.
    remarks = {note.kind: note.detail for note in notes.read(app.store, presentation=number)}
    problems = remarks.get("problem", "").split(", ")
    return {
        "chosen": verdicts.current(app.store, number, rater=visit.rater),
        "comment": remarks.get("comment", ""),
        "problems": [problem for problem in problems if problem],
    }
