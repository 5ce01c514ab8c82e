"""HTML the app writes itself: untrusted text shown as plain text, and the few pieces around it.

A prompt or a continuation may hold HTML, markdown, LaTeX, control characters or right-to-left text.
Streamlit's own elements render markdown (and fetch its images), so such text goes through `plain` into
`st.html`, which alone can carry `dir="auto"`, and nowhere else.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from annotation_app import texts
from guard_eval.records import BlindPair
from guard_eval.rubric import Criterion

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_STRONG = re.compile(r"\*\*(.+?)\*\*")

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def visible(text: str) -> str:
    r"""Return `text` with what a browser would drop, or protobuf refuse, made visible.

    C0 controls become their Unicode pictures, C1 controls and lone surrogates U+FFFD; line ends become `\n`.

    >>> visible("a\x00b\r\nc\x1b[0m")
    'a␀b\nc␛[0m'
    """
    return _CONTROL.sub(_picture, text.replace("\r\n", "\n").replace("\r", "\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def plain(text: str) -> str:
    """Return `text` as HTML that shows it character by character and means nothing else."""
    return escape(visible(text), quote=True)


def style() -> str:
    """Return the app's style sheet as an element."""
    return f"<style>{STYLE}</style>"


def pair(pair: BlindPair) -> str:
    """Return the prompt above the two continuations, side by side where there is room."""
    sides = "".join(
        _box(texts.CONTINUATION_TITLE.format(letter=letter), text, "ge-side", letter)
        for letter, text in (("A", pair.text_a), ("B", pair.text_b))
    )
    return f'{_box(texts.PROMPT_TITLE, pair.prompt, "ge-prompt", "")}<div class="ge-sides">{sides}</div>'


def _box(title: str, text: str, kind: str, letter: str) -> str:
    shown = plain(text) if text.strip() else f'<span class="ge-empty">{texts.EMPTY_TEXT}</span>'
    badge = f'<span class="ge-badge" aria-hidden="true">{letter}</span>' if letter else ""
    # tabindex: a text that scrolls inside its box must be reachable by keyboard.
    return (
        f'<section class="ge-box {kind}" aria-label="{title}"><h2>{badge}{title}</h2>'
        f'<div class="ge-text" dir="auto" tabindex="0">{shown}</div></section>'
    )


def header(*, number: int, total: int, note: str) -> str:
    """Return the line above a pair: where the rater is, how much is left, and what just happened."""
    share = 100 * (number - 1) / total if total else 0
    where = texts.position(number, total)
    return (
        f'<div class="ge-head"><h1 tabindex="-1">{where}</h1>'
        f'<div class="ge-bar" role="progressbar" aria-label="{where}" '
        f'aria-valuemin="0" aria-valuemax="{total}" aria-valuenow="{number - 1}">'
        f'<div style="width:{share:.1f}%"></div></div>'
        f'<span class="ge-note" role="status">{escape(note)}</span></div>'
    )


def question(criterion: Criterion) -> str:
    """Return a criterion's title and definition, beside its three answers."""
    title, definition = escape(criterion.title), escape(criterion.definition)
    return f'<div class="ge-question"><h3>{title}</h3><p>{definition}</p></div>'


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
