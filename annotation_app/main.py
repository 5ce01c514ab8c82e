"""The script that Streamlit runs for every visitor and every click: choose the page to show."""

import time
from contextlib import suppress

import streamlit as st

from annotation_app import connections, markup, pages, rating, sign_in, state
from annotation_app.state import App, Visit

_PACE_SECONDS = 0.03


def main() -> None:
    """Show this visitor's current page."""
    if "visit" in st.session_state:
        _show_current_page()
        return
    # Visitors who are not signed in are served one by one with pauses, so that they cannot slow down raters.
    with state.ENTRANCE:
        time.sleep(_PACE_SECONDS)
        _show_current_page()


def _show_current_page() -> None:
    """Show the page that is due, or a reassuring page if the study cannot be used."""
    app = state.app
    st.set_page_config(page_title=app.words.instructions.title, layout="wide")
    st.html(f"<style>{markup.read_asset('page.css')}</style>")
    try:
        app.check_database_file_unchanged()
        view = _show_due_page(app)
    except state.STUDY_ERRORS as error:
        state.log_error(error, "showing a page")
        markup.show_study_unavailable(app.words)
        view = "trouble"
        if "visit" in st.session_state:
            markup.reload_page_periodically(time.monotonic())
            with suppress(*state.STUDY_ERRORS):
                rating.check_invite_or_end_visit(app, st.session_state["visit"])
    visit: Visit | None = st.session_state.get("visit")
    if visit is not None:
        connections.websockets.exempt_rater_from_limit(st.context.headers.get(connections.HEADER))
    markup.add_page_script(app.words, view, **(visit.make_panel_data() if visit else {}))


def _show_due_page(app: App) -> str:
    """Show the page that is due for this visitor, and return the page's name."""
    visit: Visit | None = st.session_state.get("visit") or sign_in.sign_visitor_in(app)
    if visit is None:
        return "sign-in"
    if not state.is_latest_visit(app, visit):
        texts = app.words.elsewhere
        with markup.show_narrow_page(texts.title, texts.lead):
            here = markup.escape_label(texts.button)
            st.button(here, key="here", type="primary", on_click=_move_visit_to_this_tab, args=(app, visit))
        return "elsewhere"
    name = pages.show_next_page(app, visit)
    if name is not None:
        return name
    rating.fetch_next_pair(app, visit)
    if visit.pair is None:
        return pages.show_waiting_or_ending_page(app, visit)
    rating.load_rating_panel(app.words)
    rating.show_pair_or_leave_panel()
    return "pair"


def _move_visit_to_this_tab(app: App, visit: Visit) -> None:
    """Start a new visit in this tab, which ends the visit in other tabs."""
    fresh = state.start_visit(app, visit.token)
    if fresh is None:
        del st.session_state["visit"]
        return
    fresh.failed = visit.failed  # the browser does not send a failed press again by itself
    st.session_state["visit"] = fresh


main()
