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
from annotation_app.session import Desk, Sitting
from annotation_app.wording import fill


def show() -> None:
    """Show the pair before the rater with its questions."""
    panel.load()
    _answer()


# A fragment: from pair to pair nothing else of the page runs, and nothing else is sent.
@st.fragment
def _answer() -> None:
    sitting: Sitting | None = st.session_state.get("sitting")
    if sitting is None or not _fetched(sitting):
        # Another page's turn.
        st.rerun()
    sent = panel.show(_view(session.open_desk(), sitting), on_submit=_heard, on_turn=_heard, loaded=True)
    # After a restart of the server the first press reaches a session that knows no callbacks yet.
    if not st.session_state.pop("heard", False) and _take(sent):
        st.rerun()


def _fetched(sitting: Sitting) -> bool:
    """Return whether there is a pair to show; where the study cannot be reached, the whole page says so."""
    if not sitting.started:
        return False
    try:
        session.fetch(session.open_desk(), sitting)
    except session.TROUBLES:
        return False
    return sitting.pair is not None


def _view(desk: Desk, sitting: Sitting) -> View:
    assert sitting.pair is not None
    sitting.turn += 1
    words = session.words()
    chosen, remarks = session.before(desk, sitting)
    total = sitting.rated + sitting.available
    return View(
        pair=sitting.pair,
        where=fill(words.rating.position, number=sitting.at + 1, total=total),
        done=sitting.at,
        total=total,
        criteria=desk.criteria,
        words=words,
        place=sitting.place,
        turn=sitting.turn,
        chosen=chosen,
        comment=remarks.comment,
        problems=remarks.problems,
        back=sitting.at > 0,
        earlier=sitting.earlier,
        note=sitting.note,
        problem=sitting.problem,
        acknowledged=sitting.acknowledged,
        failed=sitting.failed,
    )


def _heard() -> None:
    """Take what was sent before the page is shown, so that one run is enough."""
    st.session_state["heard"] = True
    _take(panel.sent())


def _take(sent: Mapping[str, Any]) -> bool:
    """Act on what the browser sent; return whether there was anything."""
    sitting: Sitting | None = st.session_state.get("sitting")
    if sitting is None:
        return False
    if sent.get("submit") is not None:
        _submit(sitting, sent["submit"])
        return True
    turned = panel.turned(sent.get("turn"))
    if turned is not None:
        _turn(sitting, *turned)
        return True
    return False


def _submit(sitting: Sitting, value: object) -> None:
    sitting.hush()
    words = session.words()
    try:
        desk = session.open_desk()
        given = panel.read(value, desk.criteria)
        missing = [c.title for c in desk.criteria if given is None or c.name not in given.choices]
        if given is None or missing:
            sitting.failed = given.press if given else ""
            sitting.problem = fill(words.panel.missing, criteria=", ".join(missing))
            return
        sitting.failed = given.press
        if session.save(desk, sitting, given):
            sitting.note = words.rating.saved
        else:
            del st.session_state["sitting"]
    except session.TROUBLES as error:
        session.log(error, "saving a verdict")
        sitting.problem = words.rating.not_saved


def _turn(sitting: Sitting, pair: int, to: panel.Turn) -> None:
    """Turn to another page. What was chosen stays in the browser; of two presses only the first counts."""
    if sitting.pair is None or sitting.pair.presentation != pair:
        return
    sitting.hush()
    if to == "instructions":
        sitting.started = False
    else:
        sitting.look(sitting.at - 1 if to == "back" else len(sitting.trail))
