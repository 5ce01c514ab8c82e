"""HTML pieces of the app. Untrusted text is shown as plain text.

A text may contain HTML, Markdown, LaTeX or right-to-left writing. The panel for pairs puts each text into the
page as text nodes. On other pages, Streamlit's own elements would render Markdown (and fetch its images), so
each text is escaped and shown with `st.html`.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path

import streamlit as st

from guard_eval.reporting.escaping import escape_markdown
from guard_eval.rubric import Criterion
from guard_eval.study.wording import Wording

POLL_SECONDS = 10.0
"""Seconds after which a waiting page is loaded again, to see whether the rater can continue."""


@cache
def read_asset(name: str) -> str:
    """Return a script or a style sheet of the app."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


escape_label = escape_markdown
"""Escape a text for the label of a Streamlit element, which would render Markdown."""


@contextmanager
def show_narrow_page(heading: str, lead: str, *, key: str = "narrow") -> Iterator[None]:
    """Show a page before or after the rating, as a narrow column with a heading and a paragraph."""
    title = f'<h1 tabindex="-1">{escape(heading)}</h1><p>{escape(lead)}</p>'
    with st.container(key=key):
        st.html(f'<div class="ge-title">{title}</div>')
        yield


def format_rubric(heading: str, criteria: tuple[Criterion, ...]) -> str:
    """Return a heading, and below it the rubric as a list of titles and definitions."""
    rows = "".join(f"<dt>{escape(c.title)}</dt><dd>{escape(c.definition)}</dd>" for c in criteria)
    return f'<h2 class="ge-subtitle">{escape(heading)}</h2><dl class="ge-rubric">{rows}</dl>'


def format_bullet_list(items: Sequence[str]) -> str:
    """Return sentences as an HTML list."""
    return f'<ul class="ge-points">{"".join(f"<li>{escape(item)}</li>" for item in items)}</ul>'


def show_problem_message(text: str) -> None:
    """Show a short message that a screen reader announces at once."""
    st.html(f'<div class="ge-message ge-problem" role="alert">{escape(text)}</div>')


def show_copyable_code(heading: str, text: str, *, lead: str = "") -> None:
    """Show a code that the rater can copy, between a heading and a paragraph."""
    copied = f'<pre class="ge-command ge-code"><code>{escape(text)}</code></pre>'
    st.html(f'<h2 class="ge-subtitle">{escape(heading)}</h2>{copied}{format_paragraph(lead)}')


def format_paragraph(text: str) -> str:
    """Return a paragraph, or nothing for an empty text."""
    return text and f'<p class="ge-paragraph">{escape(text)}</p>'


def show_feedback(heading: str, text: str, *, agreed: bool) -> None:
    """Show feedback on an answer. The style shows whether the answer agrees with the expected one."""
    mark, kind = ("✓", "ge-agreed") if agreed else ("≠", "ge-differed")
    title = f'<h2><span aria-hidden="true">{mark} </span>{escape(heading)}</h2>'
    st.html(f'<section class="ge-remark {kind}">{title}<p>{escape(text)}</p></section>')


def format_pair_text(heading: str, text: str) -> str:
    """Return a heading, and below it a text of the pair."""
    body = f'<p class="ge-quoted-text notranslate" translate="no" lang="" dir="auto">{escape(text)}</p>'
    return f'<section class="ge-quoted"><h2>{escape(heading)}</h2>{body}</section>'


def show_forward_button(text: str, *, key: str) -> bool:
    """Show the button to the next page; return whether it was pressed. Ctrl+Enter presses it, too."""
    return st.button(escape_label(text), key=key, type="primary", shortcut="Ctrl+Enter")


def show_study_unavailable(words: Wording) -> None:
    """Show a reassuring message that the study cannot be reached."""
    texts = words.trouble
    # This page has another key, because part of the failed page may already be on the screen.
    with show_narrow_page(texts.title, texts.lead, key="trouble"):
        st.button(escape_label(texts.button), key="again", type="primary")


# Streamlit runs this fragment again every few seconds; the first run is when the page is shown.
@st.fragment(run_every=POLL_SECONDS)
def reload_page_periodically(since: float) -> None:
    """Reload the page every few seconds, beginning after the monotonic time `since`."""
    if time.monotonic() > since + POLL_SECONDS / 2:
        st.rerun()


def add_page_script(words: Wording, view: str, **more: object) -> None:
    """Add `page.js` to the page. A new page begins when `view`, the page's name, changes."""
    script = st.components.v2.component("guard_eval_page", js=read_asset("page.js"))
    data = {"view": view, "away": words.trouble.lead, **more}
    with st.container(key="page-script"):
        script(key="page-js", data=data, on_wake_change=lambda: None)
