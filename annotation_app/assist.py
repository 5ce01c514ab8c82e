"""The few lines of JavaScript that the pages around the rating need, and only these.

A new page must begin at its top: Streamlit leaves it scrolled where the button was. And the focus goes to the
heading, so that a screen reader says where it is. Ctrl+Enter (or ⌘+Enter) leads on wherever the focus is:
Streamlit's own shortcut is swallowed by an answer that was just clicked. And the page says in which language
it is and in which direction that is written; Streamlit's is always English. The rating itself does all this,
and more, in `panel`.
"""

from __future__ import annotations

import streamlit as st

_JAVASCRIPT = """
const root = document.documentElement;

function begin() {
  document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0, behavior: "instant" });
  document.querySelector(".stMain h1")?.focus({ preventScroll: true });
}

function lead(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  const button = document.querySelector(".stMain [data-testid^=stBaseButton-primary]");
  if (!button) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!event.repeat && !button.disabled) button.click();
}

export default function ({ data }) {
  Object.assign(root, { lang: data.language, dir: data.direction });
  if (!root.dataset.geKeys) {
    root.dataset.geKeys = "on";
    window.addEventListener("keydown", lead, true); // before Streamlit, or both would press the button
  }
  if (root.dataset.geView !== undefined && root.dataset.geView !== data.view) requestAnimationFrame(begin);
  root.dataset.geView = data.view;
}
"""


def mount(view: str, *, language: str, direction: str) -> None:
    """Add the script to the page; `view` names what is shown: where it changes, a new page begins."""
    # Registered in every run: the registry belongs to the running server, and the same definition changes
    # nothing.
    script = st.components.v2.component("guard_eval_assist", js=_JAVASCRIPT)
    with st.container(key="assist"):
        script(key="assist-script", data={"view": view, "language": language, "direction": direction})
