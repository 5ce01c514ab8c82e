"""The pages around the rating: sign in, instructions, thanks, and what is shown when something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import streamlit as st

from annotation_app import intake, markup, session
from annotation_app.markup import label
from annotation_app.session import AppState, RaterSession
from annotation_app.wording import Wording, fill

INVITE_COMMAND = "guard-eval raters STUDY add NAME"


def sign_in(words: Wording, *, refused: str, uninvited: bool, prolific: bool) -> str | None:
    """Ask for the invite code; return it when it was just given.

    Args:
        words: What the screen says.
        refused: Why the way in that was just tried was none, if one was.
        uninvited: Whether nobody can come yet.
        prolific: Whether raters may come from Prolific, whose link brings its parameters.
    """
    asked = words.sign_in
    st.html(markup.title(asked.title, asked.lead))
    if uninvited:
        st.html(markup.message(asked.uninvited, kind="hint") + markup.command(INVITE_COMMAND))
    if refused:
        st.html(markup.message(refused, kind="problem"))
    elif prolific:
        st.html(markup.message(asked.prolific, kind="hint"))
    with st.form("sign-in", border=False):
        code = st.text_input(label(asked.field), key="code", max_chars=2000, autocomplete="off")
        pressed = st.form_submit_button(label(asked.button), key="enter", type="primary")
    return _code(code) if pressed and code.strip() else None


def _code(pasted: str) -> str:
    """Return the code of what was pasted, which is often the whole link."""
    words = pasted.strip()
    found = parse_qs(urlsplit(words).query).get("invite") if "?" in words else None
    return found[0] if found else words


def instructions(app: AppState, visit: RaterSession) -> None:
    """Explain the task and the criteria."""
    texts = session.words().instructions
    with st.container(key="narrow"):
        st.html(markup.title(texts.title, texts.lead))
        st.html(markup.subtitle(texts.questions) + markup.definitions(app.criteria))
        st.html(markup.points(texts.points))
        again = visit.rated > 0 or visit.pair is not None or visit.intake.begun
        forward(texts.again if again else texts.start, key="start", on_click=_start, args=(visit,))


def forward(
    words: str, *, key: str, on_click: Callable[..., None] | None = None, args: tuple[object, ...] = ()
) -> bool:
    """Show the button that leads on, which Ctrl+Enter presses; return whether it was pressed."""
    return st.button(
        label(words), key=key, type="primary", shortcut="Ctrl+Enter", on_click=on_click, args=args
    )


def done(app: AppState, visit: RaterSession) -> None:
    """Thank the rater, or say that there was nothing to do."""
    words = session.words()
    visit.intake = intake.note_finished(app.store, visit.rater, visit.intake, visit.rated)
    with st.container(key="narrow"):
        if visit.rated:
            lead = words.done.one if visit.rated == 1 else words.done.many
            st.html(markup.title(words.done.title, fill(lead, count=visit.rated)))
            completion(app.settings.recruitment.completion_code, app, words)
        else:
            st.html(markup.title(words.nothing.title, words.nothing.lead))
        with st.container(key="around", horizontal=True):
            if visit.trail:
                st.button(label(words.panel.back), key="back-from-end", on_click=_back, args=(visit,))
            st.button(label(words.done.again), key="more")


def completion(code: str | None, app: AppState, words: Wording) -> None:
    """Show a completion code, and where to go with it."""
    if code is None:
        return
    st.html(markup.code(words.done.code, code))
    address = app.settings.recruitment.address(code)
    if address is not None:
        st.link_button(label(words.done.link), address, type="primary")


def unavailable() -> None:
    """Say calmly that the study cannot be reached."""
    texts = session.words().trouble
    # A key of its own: the page that failed may have begun already.
    with st.container(key="trouble"):
        st.html(markup.title(texts.title, texts.lead))
        st.button(label(texts.button), key="again", type="primary")


def _start(visit: RaterSession) -> None:
    visit.started = True


def _back(visit: RaterSession) -> None:
    visit.go_to(visit.at - 1)
