"""The script Streamlit runs for every visitor and every click: it decides which page is shown."""

from __future__ import annotations

import streamlit as st

from annotation_app import arrival, assist, intake, intake_pages, markup, practice, rating, screens, session
from annotation_app.intake import Step
from annotation_app.session import Desk, Sitting

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' "
    "height='32' rx='7' fill='%231f6f6b'/%3E%3Cpath d='M7 9h7v14H7zM18 9h7v14h-7z' fill='white'/%3E%3C/svg%3E"
)


def main() -> None:
    """Show the page that fits where this visitor is."""
    words = session.words()
    st.set_page_config(page_title=words.page.title, page_icon=_ICON, layout="wide")
    st.html(markup.style())
    try:
        view = _route(session.open_desk())
    except session.TROUBLES as error:
        session.log(error, "showing a page")
        screens.trouble()
        view = "trouble"
    if view != "pair":
        assist.mount(view, language=words.language, direction=words.direction)


def _route(desk: Desk) -> str:
    """Show the page that fits and return a name for it; `pair` is the panel, which looks after itself."""
    sitting: Sitting | None = st.session_state.get("sitting")
    if sitting is None:
        sitting = arrival.enter(desk)
    if sitting is None:
        return "sign-in"
    step = intake.next_step(
        desk.asked.pages,
        sitting.intake,
        practice=desk.practice,
        started=sitting.started,
        rated=sitting.rated,
    )
    # The last practice pair is noted by now, but what was said of it not read yet.
    if step in {None, "check"} and sitting.practised is not None:
        step = "practice"
    return _before_rating(desk, sitting, step) if step else _rate(desk, sitting)


def _before_rating(desk: Desk, sitting: Sitting, step: Step) -> str:
    if step == "practice":
        return practice.show(desk, sitting)
    if step == "check":
        return intake_pages.check(desk, sitting)
    if step == "consent" or (step == "declined" and sitting.reconsiders):
        intake_pages.consent(desk, sitting)
    elif step == "declined":
        intake_pages.declined(sitting)
    elif step == "background":
        intake_pages.background(desk, sitting)
    elif step == "instructions":
        screens.instructions(desk, sitting)
    else:
        intake_pages.failed(desk)
    return step


def _rate(desk: Desk, sitting: Sitting) -> str:
    session.fetch(desk, sitting)
    if sitting.pair is None:
        screens.done(desk, sitting)
        return "done"
    rating.show()
    return "pair"


main()
