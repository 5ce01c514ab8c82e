"""HTML the app writes itself: untrusted text shown as plain text, and the few pieces around it.

A prompt or a continuation may hold HTML, markdown, LaTeX, control characters or right-to-left text. Where
pairs are compared, the panel puts it into the page as text nodes. Elsewhere Streamlit's own elements would
render markdown (and fetch its images), so such text goes through `plain` into `st.html`, which alone can
carry `dir="auto"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path

import streamlit as st

from annotation_app.panel.messages import visible
from guard_eval.reporting.escaping import escape_markdown
from guard_eval.rubric import Criterion

_STRONG = re.compile(r"\*\*(.+?)\*\*")


def plain(text: str) -> str:
    """Return `text` as HTML that shows it character by character and means nothing else."""
    return escape(visible(text), quote=True)


def label(text: str) -> str:
    """Return `text` for the label of one of Streamlit's elements, which would render Markdown."""
    return escape_markdown(text)


@cache
def style() -> str:
    """Return the app's style sheet as an element."""
    return f"<style>{Path(__file__).with_name('style.css').read_text(encoding='utf-8')}</style>"


@contextmanager
def page(heading: str, lead: str, *, key: str = "narrow") -> Iterator[None]:
    """Show a page around the rating: a narrow column that begins with a heading and a paragraph."""
    with st.container(key=key):
        st.html(title(heading, lead))
        yield


def definitions(criteria: tuple[Criterion, ...]) -> str:
    """Return the rubric as a list of titles and definitions."""
    rows = "".join(f"<dt>{escape(c.title)}</dt><dd>{escape(c.definition)}</dd>" for c in criteria)
    return f'<dl class="ge-rubric">{rows}</dl>'


def points(items: tuple[str, ...]) -> str:
    """Return our own sentences as a list; `**…**` is bold."""
    bold = (_STRONG.sub(r"<b>\1</b>", escape(item)) for item in items)
    rows = "".join(f"<li>{item}</li>" for item in bold)
    return f'<ul class="ge-points">{rows}</ul>'


def title(heading: str, lead: str) -> str:
    """Return a page's heading and first paragraph."""
    return f'<div class="ge-title"><h1 tabindex="-1">{escape(heading)}</h1><p>{escape(lead)}</p></div>'


def subtitle(heading: str) -> str:
    """Return a heading inside a page."""
    return f'<h2 class="ge-subtitle">{escape(heading)}</h2>'


def message(text: str, *, kind: str) -> str:
    """Return a short message; `kind` is `problem` (read out at once) or `hint`."""
    role = "alert" if kind == "problem" else "note"
    return f'<div class="ge-message ge-{kind}" role="{role}">{escape(text)}</div>'


def command(text: str) -> str:
    """Return a terminal command."""
    return f'<pre class="ge-command"><code>{escape(text)}</code></pre>'


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f'<p class="ge-paragraph">{escape(text)}</p>'


def code(heading: str, text: str, *, kind: str = "") -> str:
    """Return a code to be copied, under a heading; `kind` may be `ge-link`."""
    return f'{subtitle(heading)}<pre class="ge-command ge-code {kind}"><code>{escape(text)}</code></pre>'


def remark(heading: str, text: str, *, agreed: bool | None = None) -> str:
    """Return the feedback on an answer; `agreed` marks it as like or unlike ours, in its form too."""
    mark = {None: "", True: "✓ ", False: "≠ "}[agreed]
    kind = {None: "", True: " ge-agreed", False: " ge-differed"}[agreed]
    return (
        f'<section class="ge-remark{kind}"><h2><span aria-hidden="true">{mark}</span>{escape(heading)}</h2>'
        f"<p>{escape(text)}</p></section>"
    )


def quoted(heading: str, text: str) -> str:
    """Return a text to be read again, under a heading."""
    return (
        f'<section class="ge-quoted"><h2>{escape(heading)}</h2>'
        f'<p class="ge-quoted-text" dir="auto">{plain(text)}</p></section>'
    )
