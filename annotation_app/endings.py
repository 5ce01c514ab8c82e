"""The pages that end a visit, each with its completion code for the recruiting platform.

| ending | when | code |
|---|---|---|
| completed | the rater has reached the quota, or has seen all pairs | `codes.completed` |
| no_place | no pair was open before the consent page | `codes.no_place` |
| ran_out | the rater was let in, but no pair was open when the first pair was due | `codes.ran_out` |
| screened_out | the rater failed the comprehension check twice | `codes.screened_out` |
| declined | the rater did not agree to take part | `codes.declined` |
| ended | the rater was excluded or revoked | no code |

A code is sent to the browser only with the page of its ending.
"""

import time
from typing import Literal

import streamlit as st

from annotation_app import markup, state
from annotation_app.markup import escape_label
from annotation_app.state import App, Visit
from guard_eval.store import handout, raters
from guard_eval.study.wording import fill_placeholders

Ending = Literal["completed", "no_place", "ran_out", "screened_out", "declined", "ended"]


def show_ending(app: App, ending: Ending, visit: Visit | None = None) -> str:
    """Show the page of an ending; return the name of the page.

    An excluded or revoked rater sees on every page that the study is over, and gets no code: a person who
    returned the study after a few pairs has not completed it.
    """
    if visit is not None and raters.is_revoked_or_excluded(app.store, visit.rater):
        ending = "ended"
    texts = getattr(app.words, ending)
    rated = len(visit.trail) if visit else 0
    if ending == "completed" and visit is not None and {"rated": rated} not in visit.progress["finished"]:
        state.note_progress(app, visit, "finished", {"rated": rated})
    with markup.show_page(texts.title, fill_placeholders(texts.lead, count=rated)):
        _show_code(app, ending)
        if ending == "no_place":
            st.button(escape_label(texts.button), key="look-again")
        elif ending == "declined" and visit is not None:
            st.button(
                escape_label(texts.button), key="reconsider", on_click=visit.open_page, args=("consent",)
            )
        elif ending == "completed" and visit is not None and rated:
            back = escape_label(app.words.panel.back)
            st.button(back, key="back-from-end", on_click=visit.go_to, args=(visit.at - 1,))
    return ending


def _show_code(app: App, ending: Ending) -> None:
    """Show the ending's completion code and its link, if the ending has a code."""
    recruitment = app.settings.recruitment
    texts = app.words.completed
    code = None if ending == "ended" else recruitment.codes.get(ending)
    if code is None:
        return
    st.html(markup.format_code(texts.code, code))
    if address := recruitment.make_completion_address(code):
        st.link_button(escape_label(texts.link), address, type="primary")


def show_waiting_or_end(app: App, visit: Visit) -> str:
    """Show the end to a rater without a pair, or a waiting page while other raters have pairs open."""
    if handout.find_wait_end(app.store, visit.rater, app.plan) is None:
        return show_ending(app, "completed" if visit.trail else "ran_out", visit)
    texts = app.words.waiting
    minutes = max(1, round(app.plan.lease.total_seconds() / 60))
    with markup.show_page(texts.title, fill_placeholders(texts.lead, minutes=minutes)):
        st.button(escape_label(texts.button), key="more", type="primary")
    markup.reload_page(time.monotonic())
    return "waiting"
