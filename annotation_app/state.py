"""The server's state for all raters (`App`) and for one rater's visit (`Visit`).

Streamlit loses the session when a page is reloaded, but a rater can continue without this state: the invite
in the page's address signs the rater in again, and the store returns the open pair.
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

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, HandOutPlan, JsonObject, NoteKind, Rater, make_content_id
from guard_eval.rubric import Criterion
from guard_eval.store import Store, notes, raters, verdicts
from guard_eval.study import Study, wording
from guard_eval.study.settings import Annotation
from guard_eval.study.wording import PracticePair, Wording

STUDY_ERRORS = (StudyError, OSError)
"""Errors of a missing, locked or broken study. The rater sees a reassuring page; the log has the cause."""

ENTRANCE = threading.Lock()
"""The lock that lets only one visitor at a time load a page without being signed in."""

_ONBOARDING = {"arrival", "consent", "background", "instructions", "practice", "check", "finished"}
"""The kinds of notes that record a rater's progress; their details are JSON."""


@dataclass(frozen=True)
class App:
    """The study that is served.

    `inode` identifies the database's file, if the database is a file. `latest` contains each rater's newest
    visit, by the rater's id: an older visit in another tab can no longer save.
    """

    store: Store
    plan: HandOutPlan
    settings: Annotation
    words: Wording
    criteria: tuple[Criterion, ...]
    practice: tuple[PracticePair, ...]
    inode: int
    latest: dict[int, Visit] = field(default_factory=dict)

    def check_database_file_unchanged(self) -> None:
        """Check that the database's file still exists, because a connection would write into a deleted file.

        Raises:
            OSError: The file is missing.
            StudyError: Another file is in its place.
        """
        if _read_inode(self.store) != self.inode:
            raise StudyError(f"{self.store.file} was replaced by another file; start `annotate` again")


@dataclass
class Visit:
    """The state of one rater's visit to the app.

    Attributes:
        token: The invite, checked again from time to time. The store refuses a revoked rater at once.
        rater: The rater who visits.
        progress: The notes about this rater on the pages around the rating, by kind.
        trail: The rated presentations of this and all earlier visits, in the order shown.
        at: The index of the shown presentation in `trail`; `len(trail)` if the next pair to rate is shown.
        pair: The present pair; None if no pair remains.
        available: The number of remaining pairs for this rater, including the open one.
        counted: The monotonic time at which the pairs were last counted.
        opened: The kind of the onboarding page that the rater opened again, or that has unread feedback.
        note: A message about the last action, such as `Saved`.
        problem: The reason why the last action failed, if it did.
        acknowledged: The last saved presentation, and the press that saved it.
        failed: The press whose answers could not be saved.
        turn: A count of how often the panel was shown, which starts at a random number in each visit.
    """

    token: str
    rater: Rater
    progress: Mapping[str, list[JsonObject]]
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
    def is_shown_pair_rated(self) -> bool:
        """Return whether the shown pair was rated before."""
        return self.at < len(self.trail)

    def make_panel_data(self) -> JsonObject:
        """Return the data for the panel. `turn` changes at every call, so that the browser sees a change."""
        self.turn += 1
        said = {name: getattr(self, name) for name in ("note", "problem", "acknowledged", "failed", "turn")}
        # The key of the rater's drafts in the browser, which does not identify the rater.
        return {"drafts": make_content_id("draft", self.token), **said}

    def clear_messages(self) -> None:
        """Clear the messages to the rater."""
        self.note = ""
        self.problem = ""
        self.failed = ""

    def open_onboarding_page(self, page_kind: str) -> None:
        """Open the onboarding page of this kind; an empty kind closes it."""
        self.opened = page_kind

    def go_to_pair(self, position: int) -> None:
        """Go to the pair at `position`, and clear the messages about the previous pair."""
        self.at = min(max(position, 0), len(self.trail))
        self.pair = None
        self.clear_messages()


app: App
"""The study that this process serves."""


def serve_study(study: Study) -> App:
    """Load a study for the pages of this process.

    Raises:
        StudyError: The study's wording or database cannot be used.
    """
    global app  # noqa: PLW0603 (a process serves one study)
    annotation = study.settings.annotation
    words = wording.load_wording(study)
    store = Store.open_study(study, to_write=True)
    app = App(
        store=store,
        plan=study.hand_out_plan,
        settings=annotation,
        words=words,
        criteria=wording.translate_criteria(words, annotation.criteria),
        practice=tuple(
            pair for pair in words.practice.pairs if pair.expected.keys() & set(annotation.criteria)
        ),
        inode=_read_inode(store),
    )
    return app


def _read_inode(store: Store) -> int:
    """Return the inode of the database's file; 0 for a server's database."""
    return store.file.stat().st_ino if store.file else 0


def log_error(error: Exception, action: str) -> None:
    """Log an error. The message of a StudyError or OSError contains neither texts nor tokens."""
    logging.getLogger("annotation_app").error("%s failed: %s", action, error)


def start_visit(app: App, token: str) -> Visit | None:
    """Start and return a new visit of the rater with this invite; None if the invite is invalid."""
    rater = raters.find_rater_by_token(app.store, token)
    if rater is None:
        return None
    trail = verdicts.read_rated_presentations(app.store, rater)
    visit = Visit(
        token=token, rater=rater, progress=_read_progress_notes(app, rater), trail=trail, at=len(trail)
    )
    if rater.id in app.latest:
        visit.acknowledged = app.latest[rater.id].acknowledged
    app.latest[rater.id] = visit
    return visit


def is_latest_visit(app: App, visit: Visit) -> bool:
    """Return whether this is the rater's newest visit, in any tab or browser."""
    return app.latest.setdefault(visit.rater.id, visit) is visit


def _read_progress_notes(app: App, rater: Rater) -> dict[str, list[JsonObject]]:
    """Return the notes of a rater's progress by kind, oldest first."""
    progress: dict[str, list[JsonObject]] = defaultdict(list)
    for note in notes.read_notes(app.store, rater=rater.name):
        if note.kind in _ONBOARDING:
            progress[note.kind].append(json.loads(note.detail))
        elif note.kind == "include":  # the owner lets the rater try again
            progress["check"].clear()
    return progress


def store_progress_note(app: App, visit: Visit, kind: NoteKind, detail: JsonObject) -> None:
    """Store a note about the rater's progress. It is on disk when this function returns.

    If a second press or another tab has stored the same note since this page was shown, nothing is added.
    """
    noted = len(visit.progress[kind])
    visit.progress = _read_progress_notes(app, visit.rater)
    if len(visit.progress[kind]) == noted:
        notes.write_note(app.store, visit.rater, kind, json.dumps(detail, ensure_ascii=False, sort_keys=True))
        visit.progress[kind].append(detail)
