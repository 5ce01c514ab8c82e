"""The script Streamlit runs for every visitor and every click: it decides which page is shown."""

from __future__ import annotations

import streamlit as st

from annotation_app import assist, markup, rating, screens, session, texts
from annotation_app.session import Desk, Sitting

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' "
    "height='32' rx='7' fill='%231f6f6b'/%3E%3Cpath d='M7 9h7v14H7zM18 9h7v14h-7z' fill='white'/%3E%3C/svg%3E"
)


def main() -> None:
    """Show the page that fits where this visitor is."""
    st.set_page_config(page_title=texts.PAGE_TITLE, page_icon=_ICON, layout="wide")
    st.html(markup.style())
    try:
        view = _route(session.open_desk())
    except session.TROUBLES as error:
        session.log(error, "showing a page")
        screens.trouble()
        view = "trouble"
    assist.mount(view)


def _route(desk: Desk) -> str:
    """Show the page that fits and return a name for it."""
    sitting: Sitting | None = st.session_state.get("sitting")
    if sitting is None:
        sitting = _enter(desk)
    if sitting is None:
        return "sign-in"
    if not sitting.started:
        screens.instructions(desk, sitting)
        return "instructions"
    session.fetch(desk, sitting)
    if sitting.pair is None:
        screens.done(sitting)
        return "done"
    rating.show(desk, sitting, sitting.pair)
    return f"pair-{sitting.pair.presentation}"


def _enter(desk: Desk) -> Sitting | None:
    """Sign in by the invite in the address or by its code; whoever has rated before goes on at once."""
    token = st.query_params.get("invite", "")
    sitting = session.sign_in(desk, token) if token else None
    if sitting is None:
        code = screens.sign_in(refused=bool(token), invited=_anybody(desk))
        if code is None:
            return None
        # The code goes into the address, where a refreshed page finds it again.
        st.query_params["invite"] = code
        st.rerun()
    sitting.started = sitting.rated > 0
    st.session_state["sitting"] = sitting
    return sitting


def _anybody(desk: Desk) -> bool:
    return any(rater.kind == "person" for rater in desk.store.raters())


main()
