"""The panel as a component of Streamlit's.

`panel.js` draws it from the data given here and keeps every choice in the browser until Save is pressed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import streamlit as st

from annotation_app.panel.messages import View, constants
from annotation_app.wording import Wording

_KEY = "panel"

# Put together, for Streamlit takes one script, and no script it was given can import another.
_SCRIPTS = ("draft.js", "parts.js", "panel.js")

Handler = Callable[[Mapping[str, Any]], bool]
"""Acts on what the browser sent (`submit`, `skip`, `turn`), and returns whether it sent anything."""


def load(words: Wording) -> None:
    """Give the browser the panel's script, style and words: outside a fragment, not again for every pair."""
    # Registered in every run: the registry belongs to the running server, and the same definition changes
    # nothing.
    component = st.components.v2.component(
        "guard_eval_panel", js=_file(*_SCRIPTS), css=_file("panel.css"), isolate_styles=False
    )
    # A list: of a mapping Streamlit asks whether its values are tables, and imports pandas to know.
    component(key="panel-script", data=[constants(words)])


def show(view: View, handle: Handler) -> None:
    """Show the panel, after `load`; `handle` is called with what the browser sends, for `messages.read`."""
    component = st.components.v2.component("guard_eval_pair", js=_file("pair.js"), isolate_styles=False)
    receive = partial(_receive, handle)
    sent = component(
        key=_KEY,
        data=[view.data()],
        on_submit_change=receive,
        on_skip_change=receive,
        on_turn_change=receive,
    )
    # After a restart of the server the first press reaches a session that has no callbacks yet.
    if not st.session_state.pop("received", False) and handle(sent):
        st.rerun()


def _receive(handle: Handler) -> None:
    """Handle what was sent before the page is shown, so that one run is enough."""
    st.session_state["received"] = True
    handle(st.session_state.get(_KEY) or {})


@cache
def _file(*names: str) -> str:
    return "\n".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)
