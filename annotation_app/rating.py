"""The rating: which pair is on the screen, and what is done with the answers that the browser sends.

What the browser sends names its pair, so that nothing depends on what this session believes to show: a press
that comes twice, or after a restart of the server, finds the same presentation, and the store adds nothing
for an answer that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from annotation_app import panel, state
from annotation_app.panel import Skip, Submission, Turn
from annotation_app.state import App, Visit
from annotation_app.wording import fill
from guard_eval.store import raters


def show(app: App) -> None:
    """Show the pair before the rater with its questions."""
    panel.load(app.words)
    _show_pair()


# A fragment: from pair to pair nothing else of the page runs, and nothing else is sent.
@st.fragment
def _show_pair() -> None:
    visit: Visit | None = st.session_state.get("visit")
    app = _prepare(visit)
    if visit is None or app is None or visit.pair is None:
        st.rerun()  # another page is to be shown
    view = {
        "where": app.words["rating"]["position"],
        "done": visit.at,
        "total": len(visit.trail) + visit.available,
        "back": visit.at > 0,
        "earlier": visit.earlier,
        "skip": not visit.earlier,
        "extras": True,
    }
    view |= state.earlier_answers(app, visit) | visit.view()
    panel.show(visit.pair, app.criteria, view, _handle)


def _prepare(visit: Visit | None) -> App | None:
    """Fetch the visit's pair; return None if another page is to be shown, such as that the study is away."""
    if visit is None or visit.reading:
        return None
    try:
        app = state.open_app()
        if state.is_latest(app, visit):
            state.fetch(app, visit)
            return app
    except state.STUDY_ERRORS:
        pass  # the page that follows meets the same error, and logs it
    return None


def _handle(sent: Mapping[str, Any]) -> bool:
    """Act on what the browser sent; return whether it sent anything."""
    visit: Visit | None = st.session_state.get("visit")
    event = next((name for name in ("submit", "skip", "turn") if sent.get(name) is not None), None)
    if visit is None or event is None:
        return False
    visit.clear_messages()
    try:
        app = state.open_app()
        if event == "submit":
            _submit(app, visit, sent["submit"])
        elif state.is_latest(app, visit):
            _skip(app, visit, sent["skip"]) if event == "skip" else _turn(visit, sent["turn"])
    except state.STUDY_ERRORS as error:
        state.log(error, f"handling a {event}")
        visit.problem = state.current_words()["rating"]["not_saved"]
    return True


def _submit(app: App, visit: Visit, value: object) -> None:
    submission = panel.parse(Submission, value)
    visit.failed = submission.press if submission else ""
    choices = submission.choices if submission else {}
    missing = [criterion.title for criterion in app.criteria if criterion.name not in choices]
    if submission is None or missing:
        visit.problem = fill(app.words["panel"]["missing"], criteria=", ".join(missing))
        return
    if not state.is_latest(app, visit):
        return  # the page that follows says so
    asked = {criterion.name: choices[criterion.name] for criterion in app.criteria}
    if state.save(app, visit, submission.model_copy(update={"choices": asked})):
        visit.note = app.words["rating"]["saved"]
    elif visit.enrolled and raters.is_out(app.store, visit.rater):
        visit.go_to(len(visit.trail))  # nothing more is handed out: the study has ended
    else:
        del st.session_state["visit"]


def _skip(app: App, visit: Visit, value: object) -> None:
    skipped = panel.parse(Skip, value)
    if skipped is not None and state.skip(app, visit, skipped):
        visit.note = app.words["rating"]["skipped"]
    elif skipped is not None:
        visit.problem = app.words["rating"]["skipped_many"]


def _turn(visit: Visit, value: object) -> None:
    """Turn to another page. What was chosen stays in the browser; of two presses only the first counts."""
    turn = panel.parse(Turn, value)
    if turn is None or visit.pair is None or visit.pair.presentation != turn.pair:
        return
    if turn.to == "instructions":
        visit.read_instructions()
    else:
        visit.go_to(visit.at - 1 if turn.to == "back" else len(visit.trail))
