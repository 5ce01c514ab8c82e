"""The rating: which pair is on the screen, and what is done with the answers the browser sends.

The page itself is one component (`panel`). What it sends names its pair, so that nothing depends on what this
session believes to show: a press that comes twice, from another window or after a restart of the server finds
the same presentation, and the store adds nothing for an answer it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from annotation_app.pages import session
from annotation_app.pages.session import RaterSession
from annotation_app.panel import component, messages
from annotation_app.panel.messages import Turn, View
from annotation_app.wording import fill


def show() -> None:
    """Show the pair before the rater with its questions."""
    component.load(session.words())
    _pair()


# A fragment: from pair to pair nothing else of the page runs, and nothing else is sent.
@st.fragment
def _pair() -> None:
    view = _view()
    if view is None:
        # Another page is to be shown.
        st.rerun()
    component.show(view, _handle)


def _view() -> View | None:
    """Return what the panel shows; None where another page comes, such as when the study is unavailable."""
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None or not visit.started:
        return None
    try:
        app = session.open_state()
        session.fetch(app, visit)
    except session.STUDY_ERRORS:
        return None
    if visit.pair is None:
        return None
    chosen, remarks = session.earlier_answers(app, visit)
    total = visit.rated + visit.available
    return View(
        **visit.next_view(),
        pair=visit.pair,
        where=fill(session.words().rating.position, number=visit.at + 1, total=total),
        done=visit.at,
        total=total,
        criteria=app.criteria,
        chosen=chosen,
        comment=remarks.comment,
        problems=remarks.problems,
        back=visit.at > 0,
        earlier=visit.earlier,
        skip=not visit.earlier,
        note=visit.note,
    )


def _handle(sent: Mapping[str, Any]) -> bool:
    """Act on what the browser sent; return whether it sent anything."""
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None:
        return False
    if sent.get("submit") is not None:
        _submit(visit, sent["submit"])
        return True
    skipped = messages.read_skip(sent.get("skip"))
    if skipped is not None:
        _skip(visit, *skipped)
        return True
    turn = messages.read_turn(sent.get("turn"))
    if turn is not None:
        _turn(visit, *turn)
    return turn is not None


def _submit(visit: RaterSession, value: object) -> None:
    visit.clear_messages()
    words = session.words()
    try:
        app = session.open_state()
        submission = messages.read(value, app.criteria)
        visit.failed = submission.press if submission else ""
        missing = [c.title for c in app.criteria if submission is None or c.name not in submission.choices]
        if submission is None or missing:
            visit.problem = fill(words.panel.missing, criteria=", ".join(missing))
        elif session.save(app, visit, submission):
            visit.note = words.rating.saved
        elif visit.enrolled and app.store.is_out(visit.rater):
            visit.go_to(len(visit.trail))  # nothing more is handed out: the study has ended
        else:
            del st.session_state["visit"]
    except session.STUDY_ERRORS as error:
        session.log(error, "saving a verdict")
        visit.problem = words.rating.not_saved


def _skip(visit: RaterSession, pair: int, problems: tuple[str, ...], comment: str) -> None:
    visit.clear_messages()
    words = session.words().rating
    try:
        app = session.open_state()
        if session.skip(app, visit, pair, problems, comment):
            visit.note = words.skipped
        else:
            visit.problem = words.skipped_many
    except session.STUDY_ERRORS as error:
        session.log(error, "skipping a pair")
        visit.problem = words.not_saved


def _turn(visit: RaterSession, pair: int, to: Turn) -> None:
    """Turn to another page. What was chosen stays in the browser; of two presses only the first counts."""
    if visit.pair is None or visit.pair.presentation != pair:
        return
    visit.clear_messages()
    if to == "instructions":
        visit.started = False
    else:
        visit.go_to(visit.at - 1 if to == "back" else len(visit.trail))
