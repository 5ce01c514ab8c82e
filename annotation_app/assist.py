"""The few lines of JavaScript the page needs, and only these.

Two things Streamlit does not do by itself. Ctrl+Enter (or ⌘+Enter) must save wherever the focus is:
Streamlit's own shortcut is swallowed by the answer that was just clicked, which keeps the focus. And a new
pair must begin at its top: Streamlit leaves the page scrolled where the button was, on a phone below both
texts; the focus goes to the heading, so that a screen reader says which pair it is.
"""

from __future__ import annotations

import streamlit as st

_JAVASCRIPT = """
const root = document.documentElement;

function save(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  const button = document.querySelector(".st-key-save button, .st-key-start button");
  if (!button) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!event.repeat && !button.disabled) button.click();
}

function begin() {
  document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0, behavior: "instant" });
  document.querySelector(".stMain h1")?.focus({ preventScroll: true });
}

export default function ({ data }) {
  if (!root.dataset.geKeys) {
    root.dataset.geKeys = "on";
    document.addEventListener("keydown", save, true);
  }
  if (root.dataset.geView !== undefined && root.dataset.geView !== data.view) requestAnimationFrame(begin);
  root.dataset.geView = data.view;
}
"""


def mount(view: str) -> None:
    """Add the script to the page; `view` names what is shown: where it changes, a new page begins."""
    # Registered in every run: the registry belongs to the running server, and the same definition changes
    # nothing.
    script = st.components.v2.component("guard_eval_assist", js=_JAVASCRIPT)
    with st.container(key="assist"):
        script(key="assist-script", data={"view": view})
