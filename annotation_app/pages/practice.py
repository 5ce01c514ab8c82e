"""Practice: pairs of our own, judged on the same panel, each with feedback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from annotation_app.pages import intake, markup, screens, session
from annotation_app.pages.session import AppState, RaterSession
from annotation_app.panel import component, messages
from annotation_app.panel.messages import Submission, View
from annotation_app.wording import PracticePair, fill
from guard_eval.records import BlindPair, Choice


def show(app: AppState, visit: RaterSession) -> str:
    """Show the next practice pair, or the feedback on the last one; return the name of the page."""
    if visit.practised is not None:
        pair, choices = visit.practised
        _feedback(app, visit, pair, choices)
        return f"practice-{_number(app, pair)}"
    pair = intake.unpractised(app.practice, visit.intake)[0]
    number = _number(app, pair)
    view = View(
        **visit.next_view(),
        # No presentation has a number below 1.
        pair=BlindPair.of(-number, pair.prompt, pair.a, pair.b),
        where=_where(app, pair),
        done=number - 1,
        total=len(app.practice),
        criteria=app.criteria,
        extras=False,
    )
    component.load(session.words())
    component.show(view, _handle)
    return "pair"


def _number(app: AppState, pair: PracticePair) -> int:
    return app.practice.index(pair) + 1


def _where(app: AppState, pair: PracticePair) -> str:
    words = session.words().practice
    return fill(words.position, number=_number(app, pair), total=len(app.practice))


def _handle(sent: Mapping[str, Any]) -> bool:
    """Note the judgment; return whether anything was sent. A press sent twice finds its pair practised."""
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None or sent.get("submit") is None:
        return False
    visit.clear_messages()
    try:
        app = session.open_state()
        submission = messages.read(sent["submit"], app.criteria)
        if submission is not None:
            visit.failed = submission.press
            _judge(app, visit, submission)
    except session.STUDY_ERRORS as error:
        session.log(error, "noting a practice pair")
        visit.problem = session.words().rating.not_saved
    return True


def _judge(app: AppState, visit: RaterSession, submission: Submission) -> None:
    left = {-_number(app, pair): pair for pair in intake.unpractised(app.practice, visit.intake)}
    pair = left.get(submission.pair)
    if pair is None or len(submission.choices) < len(app.criteria):
        return
    intake.note_practice(app.store, visit.rater, pair, submission.choices)
    visit.intake = intake.read(app.store, visit.rater)
    visit.practised = (pair, submission.choices)
    visit.acknowledged = (submission.pair, submission.press)
    visit.clear_messages()


def _feedback(app: AppState, visit: RaterSession, pair: PracticePair, choices: Mapping[str, Choice]) -> None:
    words = session.words()
    remarks = []
    for criterion in app.criteria:
        if criterion.name in pair.expected:
            given, expected = choices[criterion.name], pair.expected[criterion.name]
            sentence = words.practice.agreed if given == expected else words.practice.differed
            compared = fill(sentence, given=words.panel.choice(given), expected=words.panel.choice(expected))
            because = pair.because[criterion.name]
            remarks.append(markup.remark(criterion.title, f"{compared} {because}", agreed=given == expected))
    texts = (
        (words.panel.prompt, pair.prompt),
        (fill(words.panel.side, letter="A"), pair.a),
        (fill(words.panel.side, letter="B"), pair.b),
    )
    with markup.page(_where(app, pair), words.practice.answers):
        st.html("".join(remarks))
        more = intake.unpractised(app.practice, visit.intake)
        button = words.practice.button if more else words.practice.last
        screens.forward(button, key="next", on_click=_read, args=(visit,))
        st.html("".join(markup.quoted(title, text) for title, text in texts))


def _read(visit: RaterSession) -> None:
    visit.practised = None
