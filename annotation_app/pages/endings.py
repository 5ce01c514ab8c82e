"""How a visit ends, and what the rater takes back to the platform: one page for each way.

| ending | when | code |
|---|---|---|
| completed | the quota is reached, or nothing is left that the rater has not seen | `codes.completed` |
| no_place | no place was open, or it lapsed before consent | `codes.no_place` |
| ran_out | let in, but nothing was left when the first pair was due | `codes.ran_out` |
| screened_out | failed the comprehension check twice | `codes.screened_out` |
| declined | did not agree to take part | `codes.declined` |
| ended | excluded or revoked, as by `guard-eval prolific sync` | never one |

A code reaches the browser with its page and not before.
"""

from __future__ import annotations

from typing import Literal

import streamlit as st

from annotation_app.pages import intake, markup, session
from annotation_app.pages.markup import label
from annotation_app.pages.session import AppState, RaterSession
from annotation_app.wording import fill

Ending = Literal["completed", "no_place", "ran_out", "screened_out", "declined", "ended"]

LOOK_EVERY = 10.0
"""Seconds after which a waiting page looks for a pair."""

BEAT = 30.0
"""Seconds after which a page before the first pair renews its rater's place."""


def show(app: AppState, ending: Ending, visit: RaterSession | None = None) -> str:
    """Show how a visit ended; return the name of the page.

    A rater who was excluded or revoked reads that the study is over, on every page, and gets no code: who
    returned the study after a pair or two has not completed it.
    """
    if visit is not None:
        if visit.enrolled:
            app.store.end_place(visit.rater)
        if app.store.is_out(visit.rater):
            ending = "ended"
    words = session.words()
    if ending == "completed" and visit is not None:
        _completed(app, visit)
    else:
        texts = {
            "no_place": words.full,
            "ran_out": words.ran_out,
            "screened_out": words.failed,
            "declined": words.declined,
        }.get(ending, words.ended)
        with markup.page(texts.title, texts.lead):
            _code(app, ending)
            if ending == "no_place":
                st.button(label(words.full.button), key="look-again")
            if ending == "declined" and visit is not None:
                st.button(label(words.declined.button), key="reconsider", on_click=_reconsider, args=(visit,))
    return ending


def done(app: AppState, visit: RaterSession) -> str:
    """Show the page of a rater who is handed nothing: wait for a pair that others have, or the end."""
    if visit.enrolled:
        until = app.store.waits_until(visit.rater, app.plan)
        if until is not None:
            app.store.renew_place(visit.rater, app.plan)
            _wait(app)
            return "waiting"
    if visit.rated:
        return show(app, "completed", visit)
    if visit.enrolled or app.store.is_out(visit.rater):
        return show(app, "ran_out", visit)
    words = session.words()
    with markup.page(words.nothing.title, words.nothing.lead):
        st.button(label(words.done.again), key="more")
    return "done"


def _completed(app: AppState, visit: RaterSession) -> None:
    words = session.words()
    visit.intake = intake.note_finished(app.store, visit.rater, visit.intake, visit.rated)
    lead = fill(words.done.one if visit.rated == 1 else words.done.many, count=visit.rated)
    with markup.page(words.done.title, lead):
        _code(app, "completed")
        with st.container(key="around", horizontal=True):
            if visit.trail:
                st.button(label(words.panel.back), key="back-from-end", on_click=_back, args=(visit,))
            st.button(label(words.done.again), key="more")


def _code(app: AppState, ending: Ending) -> None:
    """Show the ending's completion code, if it has one, and where to go with it."""
    recruitment, words = app.settings.recruitment, session.words().done
    code: str | None = getattr(recruitment.codes, ending, None)
    if code is None:
        return
    st.html(markup.code(words.code, code))
    address = recruitment.address(code)
    if address is not None:
        st.link_button(label(words.link), address, type="primary")


def _wait(app: AppState) -> None:
    words = session.words().waiting
    minutes = max(1, round(app.plan.lease.total_seconds() / 60))
    with markup.page(words.title, fill(words.lead, minutes=minutes)):
        st.button(label(words.button), key="more", type="primary")
    _look()


# A fragment: the page around it stays as it is until there is something new.
@st.fragment(run_every=LOOK_EVERY)
def _look() -> None:
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None:
        return
    try:
        app = session.open_state()
        session.fetch(app, visit)
        if visit.pair is None and app.store.waits_until(visit.rater, app.plan) is not None:
            app.store.renew_place(visit.rater, app.plan)
            return
    except session.STUDY_ERRORS as error:
        session.log(error, "looking for a pair")
        return
    st.rerun()


@st.fragment(run_every=BEAT)
def keep_place() -> None:
    """Renew the rater's place while a page before the first pair is open; show another page if it is lost."""
    visit: RaterSession | None = st.session_state.get("visit")
    if visit is None:
        return
    try:
        app = session.open_state()
        kept = app.store.renew_place(visit.rater, app.plan)
    except session.STUDY_ERRORS as error:
        session.log(error, "renewing a place")
        return
    if not kept:
        st.rerun()


def _back(visit: RaterSession) -> None:
    visit.go_to(visit.at - 1)


def _reconsider(visit: RaterSession) -> None:
    visit.reconsiders = True
