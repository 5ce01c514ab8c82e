"""What a rater is asked before the first pair: consent, background and the comprehension check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from annotation_app.pages import intake, markup, screens, session
from annotation_app.pages.markup import label
from annotation_app.pages.session import AppState, RaterSession
from annotation_app.wording import BackgroundQuestion, Question

LONGEST_ANSWER = 300
"""Characters of an answer in the rater's own words."""


def consent(app: AppState, visit: RaterSession) -> None:
    """Ask whether the rater takes part."""
    words = session.words()
    texts = words.consent
    with markup.page(texts.title, texts.lead):
        st.html(markup.points(texts.points) + markup.paragraph(texts.contact))
        with st.container(key="around", horizontal=True):
            agreed = screens.forward(texts.agree, key="agree")
            declined = st.button(label(texts.decline), key="decline")
        if agreed or declined:
            with _saving(app, visit):
                intake.note_consent(app.store, visit.rater, words, agreed=agreed)
                visit.reconsiders = False


def background(app: AppState, visit: RaterSession) -> None:
    """Ask which languages the rater knows; every question may be left open."""
    texts = session.words().background
    with markup.page(texts.title, texts.lead):
        answers = _form("background", texts.questions, texts.button)
        if answers is not None:
            with _saving(app, visit):
                intake.note_background(app.store, visit.rater, answers)


def check(app: AppState, visit: RaterSession) -> str:
    """Ask the questions of the check, or explain the wrong answers; return the name of the page."""
    words, attempt = session.words(), visit.intake.attempts
    texts = words.check
    if visit.wrong:
        with markup.page(texts.wrong_title, texts.wrong_lead):
            wrong = [question for question in texts.questions if question.name in visit.wrong]
            st.html("".join(markup.remark(question.ask, question.because) for question in wrong))
            screens.forward(texts.retry, key="retry", on_click=_retry, args=(visit,))
        return "check-wrong"
    with markup.page(texts.title, texts.lead):
        st.button(label(texts.instructions), key="instructions", on_click=_read_again, args=(visit,))
        # Another form for another attempt: nothing is chosen in it yet.
        answers = _form(f"check-{attempt}", texts.questions, texts.button)
        if answers is not None and len(answers) < len(texts.questions):
            st.html(markup.message(texts.missing, kind="problem"))
        elif answers is not None:
            with _saving(app, visit):
                visit.wrong = intake.note_check(app.store, visit.rater, words, answers, before=attempt)
    return f"check-{attempt}"


def _form(key: str, questions: Sequence[BackgroundQuestion | Question], button: str) -> dict[str, str] | None:
    """Ask questions; return the answers by name, without open questions, when the button was pressed.

    Answers to choose from have names; only their words reach the browser.
    """
    given: dict[str, str | None] = {}
    with st.form(key, border=False):
        for question in questions:
            name, answers = f"{key}-{question.name}", question.answers
            if answers:
                texts = {answer: label(text) for answer, text in answers.items()}
                given[question.name] = st.radio(
                    label(question.ask), list(answers), format_func=texts.__getitem__, key=name, index=None
                )
            else:
                given[question.name] = st.text_input(label(question.ask), key=name, max_chars=LONGEST_ANSWER)
        pressed = st.form_submit_button(
            label(button), key=f"{key}-send", type="primary", shortcut="Ctrl+Enter"
        )
    answered = {name: answer.strip() for name, answer in given.items() if answer and answer.strip()}
    return answered if pressed else None


@contextmanager
def _saving(app: AppState, visit: RaterSession) -> Iterator[None]:
    """Show the next page when an answer is noted, or a message below the answers when it could not be."""
    try:
        yield
        visit.intake = intake.read(app.store, visit.rater)
    except session.STUDY_ERRORS as error:
        session.log(error, "noting an answer")
        st.html(markup.message(session.words().trouble.lead, kind="problem"))
    else:
        st.rerun()


def _read_again(visit: RaterSession) -> None:
    visit.started = False


def _retry(visit: RaterSession) -> None:
    visit.wrong = ()
