"""The pages before the first pair: consent, background, practice and the comprehension check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import streamlit as st

from annotation_app import intake, markup, panel, screens, session
from annotation_app.markup import label
from annotation_app.panel import Submission, View
from annotation_app.session import AppState, RaterSession
from annotation_app.wording import PracticePair, Question, fill
from guard_eval.records import BlindPair, Choice

LONGEST_ANSWER = 300
"""Characters of an answer in the rater's own words."""


def consent(app: AppState, visit: RaterSession) -> None:
    """Ask whether the rater takes part."""
    words = session.words()
    texts = words.consent
    with st.container(key="narrow"):
        st.html(markup.title(texts.title, texts.lead))
        st.html(markup.points(texts.points) + markup.paragraph(texts.contact))
        with st.container(key="around", horizontal=True):
            agreed = screens.forward(texts.agree, key="agree")
            declined = st.button(label(texts.decline), key="decline")
        if agreed or declined:
            with _keeping(app, visit):
                intake.note_consent(app.store, visit.rater, words, agreed=agreed)
                visit.reconsiders = False


def declined(visit: RaterSession) -> None:
    """Thank a rater who does not take part, and offer to ask again."""
    texts = session.words().declined
    with st.container(key="narrow"):
        st.html(markup.title(texts.title, texts.lead))
        st.button(label(texts.button), key="reconsider", on_click=_ask_again, args=(visit,))


def background(app: AppState, visit: RaterSession) -> None:
    """Ask which languages the rater knows; every question may be left open."""
    texts = session.words().background
    given: dict[str, str | None] = {}
    with st.container(key="narrow"):
        st.html(markup.title(texts.title, texts.lead))
        with st.form("background", border=False):
            for asked in texts.questions:
                key = f"background-{asked.name}"
                if asked.answers:
                    given[asked.name] = _choose(asked.ask, asked.answers, key)
                else:
                    given[asked.name] = st.text_input(label(asked.ask), key=key, max_chars=LONGEST_ANSWER)
            pressed = st.form_submit_button(
                label(texts.button), key="tell", type="primary", shortcut="Ctrl+Enter"
            )
        if pressed:
            answers = {name: answer.strip() for name, answer in given.items() if answer and answer.strip()}
            with _keeping(app, visit):
                intake.note_background(app.store, visit.rater, answers)


def check(app: AppState, visit: RaterSession) -> str:
    """Ask the questions of the check, or explain the wrong answers; return the name of the page."""
    wrong = visit.wrong
    if wrong:
        _explain(visit, [asked for asked in session.words().check.questions if asked.name in wrong])
        return "check-wrong"
    return _ask(app, visit)


def _ask(app: AppState, visit: RaterSession) -> str:
    words = session.words()
    texts = words.check
    attempt = visit.intake.attempts
    given: dict[str, str | None] = {}
    with st.container(key="narrow"):
        st.html(markup.title(texts.title, texts.lead))
        st.button(label(texts.instructions), key="instructions", on_click=_read_again, args=(visit,))
        # Another form for another attempt: nothing is chosen in it yet.
        with st.form(f"check-{attempt}", border=False):
            for asked in texts.questions:
                key = f"check-{attempt}-{asked.name}"
                given[asked.name] = _choose(asked.ask, asked.answers, key)
            pressed = st.form_submit_button(
                label(texts.button), key="answer", type="primary", shortcut="Ctrl+Enter"
            )
        answers = {name: answer for name, answer in given.items() if answer is not None}
        if pressed and len(answers) < len(texts.questions):
            st.html(markup.message(texts.missing, kind="problem"))
        elif pressed:
            with _keeping(app, visit):
                visit.wrong = intake.note_check(app.store, visit.rater, words, answers, before=attempt)
    return f"check-{attempt}"


def _explain(visit: RaterSession, wrong: list[Question]) -> None:
    texts = session.words().check
    with st.container(key="narrow"):
        st.html(markup.title(texts.wrong_title, texts.wrong_lead))
        st.html("".join(markup.remark(asked.ask, asked.because) for asked in wrong))
        screens.forward(texts.retry, key="retry", on_click=_retry, args=(visit,))


def failed(app: AppState) -> None:
    """Thank a rater who did not pass the check."""
    words = session.words()
    with st.container(key="narrow"):
        st.html(markup.title(words.failed.title, words.failed.lead))
        screens.completion(app.settings.recruitment.failed_code, app, words)


def _choose(ask: str, answers: dict[str, str], key: str) -> str | None:
    """Ask a question with answers, by their names; only their words reach the browser."""
    return st.radio(
        label(ask), list(answers), format_func=lambda name: label(answers[name]), key=key, index=None
    )


@contextmanager
def _keeping(app: AppState, visit: RaterSession) -> Iterator[None]:
    """Show the page that follows when an answer is noted; say so below the answers when it could not be."""
    try:
        yield
        visit.intake = intake.read(app.store, visit.rater)
    except session.STUDY_ERRORS as error:
        session.log(error, "noting an answer")
        st.html(markup.message(session.words().trouble.lead, kind="problem"))
    else:
        st.rerun()


def _ask_again(visit: RaterSession) -> None:
    visit.reconsiders = True


def _read_again(visit: RaterSession) -> None:
    visit.started = False


def _retry(visit: RaterSession) -> None:
    visit.wrong = ()


def practice(app: AppState, visit: RaterSession) -> str:
    """Show the next practice pair, or the feedback on the last one; return the name of the page."""
    if visit.practised is not None:
        pair, choices = visit.practised
        _feedback(app, visit, pair, choices)
        return f"practice-{_number(app, pair)}"
    _pair(app, visit, intake.unpractised(app.practice, visit.intake)[0])
    return "pair"


def _number(app: AppState, pair: PracticePair) -> int:
    return app.practice.index(pair) + 1


def _where(app: AppState, pair: PracticePair) -> str:
    words = session.words().practice
    return fill(words.position, number=_number(app, pair), total=len(app.practice))


def _pair(app: AppState, visit: RaterSession, pair: PracticePair) -> None:
    visit.turn += 1
    view = View(
        # No presentation has a number below 1.
        pair=BlindPair.of(-_number(app, pair), pair.prompt, pair.a, pair.b),
        where=_where(app, pair),
        done=_number(app, pair) - 1,
        total=len(app.practice),
        criteria=app.criteria,
        words=session.words(),
        place=visit.draft_key,
        turn=visit.turn,
        extras=False,
        problem=visit.problem,
        failed=visit.failed,
        acknowledged=visit.acknowledged,
    )
    sent = panel.show(view, on_submit=_receive, on_turn=_receive)
    # After a restart of the server the first press reaches a session that knows no callbacks yet.
    if not st.session_state.pop("received", False) and _handle(sent):
        st.rerun()


def _receive() -> None:
    """Take what was sent before the page is shown, so that one run is enough."""
    st.session_state["received"] = True
    _handle(panel.sent())


def _handle(sent: Mapping[str, Any]) -> bool:
    """Note the judgment; return whether there was one. A press sent twice finds its pair practised."""
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None or sent.get("submit") is None:
        return False
    visit.clear_messages()
    try:
        app = session.open_state()
        submission = panel.read(sent["submit"], app.criteria)
        if submission is not None:
            visit.failed = submission.press
            _judge(app, visit, submission)
    except session.STUDY_ERRORS as error:
        session.log(error, "noting a practice pair")
        visit.problem = session.words().rating.not_saved
    return True


def _judge(app: AppState, visit: RaterSession, submission: Submission) -> None:
    known = {-_number(app, pair): pair for pair in intake.unpractised(app.practice, visit.intake)}
    pair = known.get(submission.pair)
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
    with st.container(key="narrow"):
        st.html(markup.title(_where(app, pair), words.practice.answers))
        st.html("".join(remarks))
        more = intake.unpractised(app.practice, visit.intake)
        button = words.practice.button if more else words.practice.last
        screens.forward(button, key="next", on_click=_read, args=(visit,))
        st.html("".join(markup.quoted(title, text) for title, text in texts))


def _read(visit: RaterSession) -> None:
    visit.practised = None
