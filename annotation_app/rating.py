"""The rating: which pair is on the screen, and what becomes of the answers the browser sends.

The page itself is one component (`panel`). What it sends names its pair, so that nothing depends on what this
session believes to show: a press that comes twice, from another window or after a restart of the server finds
the same presentation, and the store adds nothing for an answer it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from annotation_app import panel, session
from annotation_app.panel import View
from annotation_app.session import AppState, RaterSession
from annotation_app.wording import fill


def show() -> None:
    """Show the pair before the rater with its questions."""
    panel.load()
    _answer()


# A fragment: from pair to pair nothing else of the page runs, and nothing else is sent.
@st.fragment
def _answer() -> None:
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None or not _fetched(visit):
        # Another page is to be shown.
        st.rerun()
    sent = panel.show(_view(session.open_state(), visit), on_submit=_receive, on_turn=_receive, loaded=True)
    # After a restart of the server the first press reaches a session that knows no callbacks yet.
    if not st.session_state.pop("received", False) and _handle(sent):
        st.rerun()


def _fetched(visit: RaterSession) -> bool:
    """Return whether there is a pair to show; where the study cannot be reached, the whole page says so."""
    if not visit.started:
        return False
    try:
        session.fetch(session.open_state(), visit)
    except session.STUDY_ERRORS:
        return False
    return visit.pair is not None


def _view(app: AppState, visit: RaterSession) -> View:
    assert visit.pair is not None
    visit.turn += 1
    words = session.words()
    chosen, remarks = session.earlier_answers(app, visit)
    total = visit.rated + visit.available
    return View(
        pair=visit.pair,
        where=fill(words.rating.position, number=visit.at + 1, total=total),
        done=visit.at,
        total=total,
        criteria=app.criteria,
        words=words,
        place=visit.draft_key,
        turn=visit.turn,
        chosen=chosen,
        comment=remarks.comment,
        problems=remarks.problems,
        back=visit.at > 0,
        earlier=visit.earlier,
        note=visit.note,
        problem=visit.problem,
        acknowledged=visit.acknowledged,
        failed=visit.failed,
    )


def _receive() -> None:
    """Take what was sent before the page is shown, so that one run is enough."""
    st.session_state["received"] = True
    _handle(panel.sent())


def _handle(sent: Mapping[str, Any]) -> bool:
    """Act on what the browser sent; return whether it sent anything."""
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None:
        return False
    if sent.get("submit") is not None:
        _submit(visit, sent["submit"])
        return True
    turn = panel.read_turn(sent.get("turn"))
    if turn is not None:
        _turn(visit, *turn)
        return True
    return False


def _submit(visit: RaterSession, value: object) -> None:
    visit.clear_messages()
    words = session.words()
    try:
        app = session.open_state()
        submission = panel.read(value, app.criteria)
        missing = [c.title for c in app.criteria if submission is None or c.name not in submission.choices]
        if submission is None or missing:
            visit.failed = submission.press if submission else ""
            visit.problem = fill(words.panel.missing, criteria=", ".join(missing))
            return
        visit.failed = submission.press
        if session.save(app, visit, submission):
            visit.note = words.rating.saved
        else:
            del st.session_state["visit"]
    except session.STUDY_ERRORS as error:
        session.log(error, "saving a verdict")
        visit.problem = words.rating.not_saved


def _turn(visit: RaterSession, pair: int, to: panel.Turn) -> None:
    """Turn to another page. What was chosen stays in the browser; of two presses only the first counts."""
    if visit.pair is None or visit.pair.presentation != pair:
        return
    visit.clear_messages()
    if to == "instructions":
        visit.started = False
    else:
        visit.go_to(visit.at - 1 if to == "back" else len(visit.trail))
