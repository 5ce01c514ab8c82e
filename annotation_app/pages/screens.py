"""The pages around the rating, the pages' own script, and the page shown when something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import streamlit as st

from annotation_app.pages import intake, markup, session
from annotation_app.pages.markup import label
from annotation_app.pages.session import AppState, RaterSession
from annotation_app.wording import Wording, fill


def instructions(app: AppState, visit: RaterSession) -> None:
    """Explain the task and the criteria."""
    texts = session.words().instructions
    with markup.page(texts.title, texts.lead):
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
    title, lead = words.nothing.title, words.nothing.lead
    if visit.rated:
        title = words.done.title
        lead = fill(words.done.one if visit.rated == 1 else words.done.many, count=visit.rated)
    with markup.page(title, lead):
        if visit.rated:
            completion(app.settings.recruitment.completion_code, app, words)
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
    with markup.page(texts.title, texts.lead, key="trouble"):
        st.button(label(texts.button), key="again", type="primary")


def add_script(view: str, *, language: str, direction: str) -> None:
    """Add `page.js` to the page; `view` names what is shown: where it changes, a new page begins."""
    # Registered in every run: the registry belongs to the running server, and the same definition changes
    # nothing.
    script = st.components.v2.component("guard_eval_page", js=page_script())
    with st.container(key="page-script"):
        script(key="page-js", data={"view": view, "language": language, "direction": direction})


@cache
def page_script() -> str:
    """Return the script of every page but the panel."""
    return Path(__file__).with_name("page.js").read_text(encoding="utf-8")


def _start(visit: RaterSession) -> None:
    visit.started = True


def _back(visit: RaterSession) -> None:
    visit.go_to(visit.at - 1)
