"""Practice: pairs of our own on the very page that is used later, and a word on each answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from annotation_app import intake, markup, panel, screens, session
from annotation_app.panel import Given, View
from annotation_app.session import Desk, Sitting
from annotation_app.wording import PracticePair, fill
from guard_eval.records import BlindPair, Choice


def show(desk: Desk, sitting: Sitting) -> str:
    """Show the next practice pair, or what was said of the last one; return the name of what is shown."""
    if sitting.practised is not None:
        pair, choices = sitting.practised
        _feedback(desk, sitting, pair, choices)
        return f"practice-{_number(desk, pair)}"
    _pair(desk, sitting, intake.unpractised(desk.practice, sitting.intake)[0])
    return "pair"


def _number(desk: Desk, pair: PracticePair) -> int:
    return desk.practice.index(pair) + 1


def _where(desk: Desk, pair: PracticePair) -> str:
    words = session.words().practice
    return fill(words.position, number=_number(desk, pair), total=len(desk.practice))


def _pair(desk: Desk, sitting: Sitting, pair: PracticePair) -> None:
    sitting.turn += 1
    view = View(
        # No presentation has a number below 1.
        pair=BlindPair(presentation=-_number(desk, pair), prompt=pair.prompt, text_a=pair.a, text_b=pair.b),
        where=_where(desk, pair),
        done=_number(desk, pair) - 1,
        total=len(desk.practice),
        criteria=desk.criteria,
        words=session.words(),
        place=sitting.place,
        turn=sitting.turn,
        extras=False,
        problem=sitting.problem,
        failed=sitting.failed,
        acknowledged=sitting.acknowledged,
    )
    sent = panel.show(view, on_submit=_heard, on_turn=_heard)
    # After a restart of the server the first press reaches a session that knows no callbacks yet.
    if not st.session_state.pop("heard", False) and _take(sent):
        st.rerun()


def _heard() -> None:
    """Take what was sent before the page is shown, so that one run is enough."""
    st.session_state["heard"] = True
    _take(panel.sent())


def _take(sent: Mapping[str, Any]) -> bool:
    """Note the judgment; return whether there was one. A press that comes twice finds its pair practised."""
    sitting: Sitting | None = st.session_state.get("sitting")
    if sitting is None or sent.get("submit") is None:
        return False
    sitting.hush()
    try:
        desk = session.open_desk()
        given = panel.read(sent["submit"], desk.criteria)
        if given is not None:
            sitting.failed = given.press
            _judge(desk, sitting, given)
    except session.TROUBLES as error:
        session.log(error, "noting a practice pair")
        sitting.problem = session.words().rating.not_saved
    return True


def _judge(desk: Desk, sitting: Sitting, given: Given) -> None:
    known = {-_number(desk, pair): pair for pair in intake.unpractised(desk.practice, sitting.intake)}
    pair = known.get(given.pair)
    if pair is None or len(given.choices) < len(desk.criteria):
        return
    intake.note_practice(desk.store, sitting.rater, pair, given.choices)
    sitting.intake = intake.read(desk.store, sitting.rater)
    sitting.practised = (pair, given.choices)
    sitting.acknowledged = (given.pair, given.press)
    sitting.hush()


def _feedback(desk: Desk, sitting: Sitting, pair: PracticePair, choices: Mapping[str, Choice]) -> None:
    words = session.words()
    remarks = []
    for criterion in desk.criteria:
        if criterion.name in pair.expected:
            given, expected = choices[criterion.name], pair.expected[criterion.name]
            sentence = words.practice.agreed if given == expected else words.practice.differed
            said = fill(sentence, given=words.panel.choice(given), expected=words.panel.choice(expected))
            because = pair.because[criterion.name]
            remarks.append(markup.remark(criterion.title, f"{said} {because}", agreed=given == expected))
    texts = (
        (words.panel.prompt, pair.prompt),
        (fill(words.panel.side, letter="A"), pair.a),
        (fill(words.panel.side, letter="B"), pair.b),
    )
    with st.container(key="narrow"):
        st.html(markup.title(_where(desk, pair), words.practice.answers))
        st.html("".join(remarks))
        more = intake.unpractised(desk.practice, sitting.intake)
        button = words.practice.button if more else words.practice.last
        screens.forward(button, key="next", on_click=_read, args=(sitting,))
        st.html("".join(markup.quoted(title, text) for title, text in texts))


def _read(sitting: Sitting) -> None:
    sitting.practised = None
