"""The server's state for all raters (`App`) and for one rater's visit (`Visit`).

Streamlit loses a session when a page is reloaded; nothing here is needed to continue. The invite in the
page's address signs the rater in again, and the store returns the pair that was open.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, HandOutPlan, JsonObject, NoteKind, Rater, content_id
from guard_eval.rubric import Criterion
from guard_eval.store import Store, notes, raters, verdicts
from guard_eval.study import Study, wording
from guard_eval.study.settings import Annotation
from guard_eval.study.wording import PracticePair, Wording

STUDY_ERRORS = (StudyError, OSError)
"""Errors of a missing, locked or broken study: the rater sees a calm page, and the log names the cause."""

ENTRANCE = threading.Lock()
"""Held while a page is shown to a visitor who is not signed in."""

_ONBOARDING = {"arrival", "consent", "background", "instructions", "practice", "check", "finished"}
"""Kinds of notes that say how far a rater is; their details are JSON."""


@dataclass(frozen=True)
class App:
    """The study that is served.

    `inode` identifies the file of the database that was opened, if it is a file. `latest` has each rater's
    newest visit by the rater's id: an older visit, in another tab, can no longer save.
    """

    store: Store
    plan: HandOutPlan
    settings: Annotation
    words: Wording
    criteria: tuple[Criterion, ...]
    practice: tuple[PracticePair, ...]
    inode: int
    latest: dict[int, Visit] = field(default_factory=dict)

    def check_file(self) -> None:
        """Check that the database's file still exists: a connection would go on writing into a deleted file.

        Raises:
            OSError: It is missing.
            StudyError: Another file is there.
        """
        if _read_inode(self.store) != self.inode:
            raise StudyError(f"{self.store.file} was replaced by another file; start `annotate` again")


@dataclass
class Visit:
    """One rater's visit.

    Attributes:
        token: The invite, checked again now and then. A revoked rater stops at once: the store refuses.
        rater: Whose visit it is.
        progress: The notes about this rater on the pages around the rating, by kind.
        trail: The rated presentations of this and all earlier visits, in the order shown.
        at: The index of the shown presentation in `trail`. The pair to be rated comes after the last one.
        pair: The present pair; None if no pair remains.
        available: The number of remaining pairs for this rater, including the open one.
        counted: When the store was last asked for this number, by the monotonic clock.
        opened: The kind of an onboarding page that the rater opened again, or that has unread feedback.
        note: A message about the last action, such as `Saved`.
        problem: Why the last attempt failed, if it did.
        acknowledged: The presentation that was saved last, and the press that saved it.
        failed: The press whose answers could not be saved.
        turn: A counter of the panel's showings, which starts at a different number in each visit.
    """

    token: str
    rater: Rater
    progress: Mapping[str, list[Any]]
    trail: list[int]
    at: int
    pair: BlindPair | None = None
    available: int = 0
    counted: float = -math.inf
    opened: str = ""
    note: str = ""
    problem: str = ""
    acknowledged: tuple[int, str] | None = None
    failed: str = ""
    turn: int = field(default_factory=partial(secrets.randbits, 32))

    @property
    def was_rated_before(self) -> bool:
        """Return whether the shown pair was rated before."""
        return self.at < len(self.trail)

    def list_panel_data(self) -> JsonObject:
        """Return what the panel shows of this visit; `turn` differs at every call: the browser notices."""
        self.turn += 1
        said = {name: getattr(self, name) for name in ("note", "problem", "acknowledged", "failed", "turn")}
        # The key of the rater's drafts in the browser, which does not identify the rater.
        return {"drafts": content_id("draft", self.token), **said}

    def clear_messages(self) -> None:
        """Clear the messages to the rater."""
        self.note = ""
        self.problem = ""
        self.failed = ""

    def open_page(self, kind: str) -> None:
        """Open the onboarding page of this kind; an empty kind closes it."""
        self.opened = kind

    def go_to(self, at: int) -> None:
        """Go to the pair at `at`, and clear the messages about the last one."""
        self.at = min(max(at, 0), len(self.trail))
        self.pair = None
        self.clear_messages()


app: App
"""The study that this process serves."""


def serve_study(study: Study) -> App:
    """Load a study for the pages of this process.

    Raises:
        StudyError: Its wording or its database cannot be used.
    """
    global app  # noqa: PLW0603 (a process serves one study)
    annotation = study.settings.annotation
    words = wording.load_wording(study)
    store = Store.open(study.database, to_write=True, declared=study.declared)
    app = App(
        store=store,
        plan=study.plan,
        settings=annotation,
        words=words,
        criteria=wording.rubric(words, annotation.criteria),
        practice=tuple(
            pair for pair in words.practice.pairs if pair.expected.keys() & set(annotation.criteria)
        ),
        inode=_read_inode(store),
    )
    return app


def _read_inode(store: Store) -> int:
    return store.file.stat().st_ino if store.file else 0


def log_error(error: Exception, doing: str) -> None:
    """Log an error. The message of a StudyError or OSError contains neither texts nor tokens."""
    logging.getLogger("annotation_app").error("%s failed: %s", doing, error)


def sign_in(app: App, token: str) -> Visit | None:
    """Start a new visit of the invite's rater, which is now the newest; None if the invite is invalid."""
    rater = raters.sign_in(app.store, token)
    if rater is None:
        return None
    trail = verdicts.read_rated_presentations(app.store, rater)
    visit = Visit(token=token, rater=rater, progress=_read_progress(app, rater), trail=trail, at=len(trail))
    if rater.id in app.latest:
        visit.acknowledged = app.latest[rater.id].acknowledged
    app.latest[rater.id] = visit
    return visit


def is_latest(app: App, visit: Visit) -> bool:
    """Return whether this is the rater's newest visit, in any tab or browser."""
    return app.latest.setdefault(visit.rater.id, visit) is visit


def _read_progress(app: App, rater: Rater) -> dict[str, list[Any]]:
    progress: dict[str, list[Any]] = defaultdict(list)
    for note in notes.read(app.store, rater=rater):
        if note.kind in _ONBOARDING:
            progress[note.kind].append(json.loads(note.detail))
        elif note.kind == "include":  # the owner lets the rater try again
            progress["check"].clear()
    return progress


def note_progress(app: App, visit: Visit, kind: NoteKind, detail: Mapping[str, object]) -> None:
    """Note the rater's progress; it is on disk when this returns.

    If a second press or another tab has already noted the same since this page was shown, nothing is added.
    """
    noted = len(visit.progress[kind])
    visit.progress = _read_progress(app, visit.rater)
    if len(visit.progress[kind]) == noted:
        notes.write(app.store, visit.rater, kind, json.dumps(detail, ensure_ascii=False, sort_keys=True))
        visit.progress[kind].append(detail)
