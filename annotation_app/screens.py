"""The pages around the rating: sign in, instructions, thanks, and what is shown when something is wrong."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import streamlit as st

from annotation_app import markup, texts
from annotation_app.session import Desk, Sitting


def sign_in(*, refused: bool, invited: bool) -> str | None:
    """Ask for the invite code; return it when it was just given."""
    with st.container(key="narrow"):
        st.html(markup.title(texts.SIGN_IN_TITLE, texts.SIGN_IN_LEAD))
        if not invited:
            st.html(markup.message(texts.NO_RATERS, kind="hint") + markup.command(texts.NO_RATERS_COMMAND))
        if refused:
            st.html(markup.message(texts.UNKNOWN_INVITE, kind="problem"))
        with st.form("sign-in", border=False):
            code = st.text_input(texts.SIGN_IN_FIELD, key="code", max_chars=2000, autocomplete="off")
            pressed = st.form_submit_button(texts.SIGN_IN_BUTTON, key="enter", type="primary")
    return _code(code) if pressed and code.strip() else None


def _code(pasted: str) -> str:
    """Return the code of what was pasted, which is often the whole link."""
    words = pasted.strip()
    found = parse_qs(urlsplit(words).query).get("invite") if "?" in words else None
    return found[0] if found else words


def instructions(desk: Desk, sitting: Sitting) -> None:
    """Explain the task and the criteria."""
    with st.container(key="narrow"):
        st.html(markup.title(texts.WELCOME_TITLE, texts.WELCOME_LEAD))
        st.html(markup.subtitle(texts.WELCOME_QUESTIONS) + markup.definitions(desk.criteria))
        st.html(markup.points(texts.WELCOME_POINTS))
        again = sitting.rated > 0 or bool(sitting.trail)
        st.button(
            texts.WELCOME_BUTTON_AGAIN if again else texts.WELCOME_BUTTON,
            key="start",
            type="primary",
            on_click=_start,
            args=(sitting,),
            shortcut="Ctrl+Enter",
        )


def done(sitting: Sitting) -> None:
    """Thank the rater, or say that there was nothing to do."""
    with st.container(key="narrow"):
        if sitting.rated:
            lead = texts.DONE_LEAD.format(pairs=texts.count_pairs(sitting.rated))
            st.html(markup.title(texts.DONE_TITLE, lead))
        else:
            st.html(markup.title(texts.NOTHING_TITLE, texts.NOTHING_LEAD))
        with st.container(key="around", horizontal=True):
            if sitting.trail:
                st.button(texts.BACK_BUTTON, key="back-from-end", on_click=_back, args=(sitting,))
            st.button(texts.CHECK_BUTTON, key="more")


def trouble() -> None:
    """Say calmly that the study cannot be reached."""
    with st.container(key="narrow"):
        st.html(markup.title(texts.TROUBLE_TITLE, texts.TROUBLE_LEAD))
        st.button(texts.TROUBLE_BUTTON, key="again", type="primary")


def _start(sitting: Sitting) -> None:
    sitting.started = True


def _back(sitting: Sitting) -> None:
    sitting.look(max(0, sitting.at - 1))
