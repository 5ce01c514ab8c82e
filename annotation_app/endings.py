"""How a visit ends, and what the rater takes back to the platform: one page for each way.

| ending | when | code |
|---|---|---|
| completed | the quota is reached, or nothing is left that the rater has not seen | `codes.completed` |
| no_place | nothing was left to rate before consent was asked | `codes.no_place` |
| ran_out | let in, but nothing was left when the first pair was due | `codes.ran_out` |
| screened_out | failed the comprehension check twice | `codes.screened_out` |
| declined | did not agree to take part | `codes.declined` |
| ended | excluded or revoked | never one |

A code reaches the browser with its page and not before.
"""

from __future__ import annotations

from typing import Literal

import streamlit as st

from annotation_app import markup, state
from annotation_app.markup import label
from annotation_app.state import App, Visit
from annotation_app.wording import fill
from guard_eval.store import handout, raters

Ending = Literal["completed", "no_place", "ran_out", "screened_out", "declined", "ended"]

_TABLES = {"no_place": "full", "screened_out": "failed"}
"""The wording's table, if it has another name than the ending."""

POLL_SECONDS = 10.0
"""How often a waiting page looks for a pair."""


def show(app: App, ending: Ending, visit: Visit | None = None) -> str:
    """Show how a visit ended; return the name of the page.

    A rater who was excluded or revoked reads that the study is over, on every page, and gets no code: whoever
    returned the study after a pair or two has not completed it.
    """
    if visit is not None and raters.is_out(app.store, visit.rater):
        ending = "ended"
    if ending == "completed" and visit is not None:
        _show_thanks(app, visit)
        return ending
    texts = app.words[_TABLES.get(ending, ending)]
    with markup.page(texts["title"], texts["lead"]):
        _show_code(app, ending)
        if ending == "no_place":
            st.button(label(texts["button"]), key="look-again")
        if ending == "declined" and visit is not None:
            st.button(label(texts["button"]), key="reconsider", on_click=_reconsider, args=(visit,))
    return ending


def nothing_left(app: App, visit: Visit) -> str:
    """Show the page of a rater who is handed nothing: wait for a pair that others have open, or the end."""
    if handout.waits_until(app.store, visit.rater, app.plan) is None:
        return show(app, "completed" if visit.trail else "ran_out", visit)
    texts = app.words["waiting"]
    minutes = max(1, round(app.plan.lease.total_seconds() / 60))
    with markup.page(texts["title"], fill(texts["lead"], minutes=minutes)):
        st.button(label(texts["button"]), key="more", type="primary")
    _poll()
    return "waiting"


# A fragment: the page around it stays as it is until there is something new.
@st.fragment(run_every=POLL_SECONDS)
def _poll() -> None:
    visit: Visit | None = st.session_state.get("visit")
    if visit is None:
        return
    try:
        app = state.open_app()
        state.fetch(app, visit)
        if visit.pair is None and handout.waits_until(app.store, visit.rater, app.plan) is not None:
            return
    except state.STUDY_ERRORS as error:
        state.log(error, "looking for a pair")
        return
    st.rerun()


def _show_thanks(app: App, visit: Visit) -> None:
    texts = app.words["done"]
    if {"rated": len(visit.trail)} not in visit.progress["finished"]:
        state.record(app, visit, "finished", {"rated": len(visit.trail)})
    lead = fill(texts["one"] if len(visit.trail) == 1 else texts["many"], count=len(visit.trail))
    with markup.page(texts["title"], lead):
        _show_code(app, "completed")
        if visit.trail:
            st.button(label(app.words["panel"]["back"]), key="back-from-end", on_click=_back, args=(visit,))


def _show_code(app: App, ending: Ending) -> None:
    """Show the ending's completion code, if it has one, and where to go with it."""
    recruitment, texts = app.settings.recruitment, app.words["done"]
    code: str | None = getattr(recruitment.codes, ending, None)
    if code is None:
        return
    st.html(markup.code(texts["code"], code))
    address = recruitment.address(code)
    if address is not None:
        st.link_button(label(texts["link"]), address, type="primary")


def _back(visit: Visit) -> None:
    visit.go_to(visit.at - 1)


def _reconsider(visit: Visit) -> None:
    visit.reconsiders = True
