"""The pages before the first pair: consent, background and the comprehension check; practice has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from annotation_app import intake, markup, screens, session
from annotation_app.markup import label
from annotation_app.session import Desk, Sitting
from annotation_app.wording import Question

LONGEST_ANSWER = 300
"""Characters of an answer in the rater's own words."""


def consent(desk: Desk, sitting: Sitting) -> None:
    """Ask whether the rater takes part."""
    words = session.words()
    said = words.consent
    with st.container(key="narrow"):
        st.html(markup.title(said.title, said.lead))
        st.html(markup.points(said.points) + markup.paragraph(said.contact))
        with st.container(key="around", horizontal=True):
            agreed = screens.forward(said.agree, key="agree")
            declined = st.button(label(said.decline), key="decline")
        if agreed or declined:
            with _keeping(desk, sitting):
                intake.note_consent(desk.store, sitting.rater, words, agreed=agreed)
                sitting.reconsiders = False


def declined(sitting: Sitting) -> None:
    """Take leave of a rater who does not take part; a mind can be changed."""
    said = session.words().declined
    with st.container(key="narrow"):
        st.html(markup.title(said.title, said.lead))
        st.button(label(said.button), key="reconsider", on_click=_ask_again, args=(sitting,))


def background(desk: Desk, sitting: Sitting) -> None:
    """Ask which languages the rater knows; every question may be left open."""
    said = session.words().background
    given: dict[str, str | None] = {}
    with st.container(key="narrow"):
        st.html(markup.title(said.title, said.lead))
        with st.form("background", border=False):
            for asked in said.questions:
                key = f"background-{asked.name}"
                if asked.answers:
                    given[asked.name] = _choose(asked.ask, asked.answers, key)
                else:
                    given[asked.name] = st.text_input(label(asked.ask), key=key, max_chars=LONGEST_ANSWER)
            pressed = st.form_submit_button(
                label(said.button), key="tell", type="primary", shortcut="Ctrl+Enter"
            )
        if pressed:
            answers = {name: answer.strip() for name, answer in given.items() if answer and answer.strip()}
            with _keeping(desk, sitting):
                intake.note_background(desk.store, sitting.rater, answers)


def check(desk: Desk, sitting: Sitting) -> str:
    """Ask what was understood, or say what was not; return the name of what is shown."""
    wrong = sitting.wrong
    if wrong:
        _explain(sitting, [asked for asked in session.words().check.questions if asked.name in wrong])
        return "check-wrong"
    return _ask(desk, sitting)


def _ask(desk: Desk, sitting: Sitting) -> str:
    words = session.words()
    said = words.check
    attempt = sitting.intake.attempts
    given: dict[str, str | None] = {}
    with st.container(key="narrow"):
        st.html(markup.title(said.title, said.lead))
        st.button(label(said.instructions), key="instructions", on_click=_read_again, args=(sitting,))
        # Another form for another attempt: nothing is chosen in it yet.
        with st.form(f"check-{attempt}", border=False):
            for asked in said.questions:
                key = f"check-{attempt}-{asked.name}"
                given[asked.name] = _choose(asked.ask, asked.answers, key)
            pressed = st.form_submit_button(
                label(said.button), key="answer", type="primary", shortcut="Ctrl+Enter"
            )
        answers = {name: answer for name, answer in given.items() if answer is not None}
        if pressed and len(answers) < len(said.questions):
            st.html(markup.message(said.missing, kind="problem"))
        elif pressed:
            with _keeping(desk, sitting):
                sitting.wrong = intake.note_check(desk.store, sitting.rater, words, answers, before=attempt)
    return f"check-{attempt}"


def _explain(sitting: Sitting, wrong: list[Question]) -> None:
    said = session.words().check
    with st.container(key="narrow"):
        st.html(markup.title(said.wrong_title, said.wrong_lead))
        st.html("".join(markup.remark(asked.ask, asked.because) for asked in wrong))
        screens.forward(said.retry, key="retry", on_click=_retry, args=(sitting,))


def failed(desk: Desk) -> None:
    """Take leave of a rater who did not pass the check."""
    words = session.words()
    with st.container(key="narrow"):
        st.html(markup.title(words.failed.title, words.failed.lead))
        screens.completion(desk.asked.recruitment.failed_code, desk, words)


def _choose(ask: str, answers: dict[str, str], key: str) -> str | None:
    """Ask a question with answers, by their names; only their words reach the browser."""
    return st.radio(
        label(ask), list(answers), format_func=lambda name: label(answers[name]), key=key, index=None
    )


@contextmanager
def _keeping(desk: Desk, sitting: Sitting) -> Iterator[None]:
    """Show what follows from what was noted; where it could not be, say so below what was answered."""
    try:
        yield
        sitting.intake = intake.read(desk.store, sitting.rater)
    except session.TROUBLES as error:
        session.log(error, "noting an answer")
        st.html(markup.message(session.words().trouble.lead, kind="problem"))
    else:
        st.rerun()


def _ask_again(sitting: Sitting) -> None:
    sitting.reconsiders = True


def _read_again(sitting: Sitting) -> None:
    sitting.started = False


def _retry(sitting: Sitting) -> None:
    sitting.wrong = ()
