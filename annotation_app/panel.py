"""The panel on which a pair is compared, a Streamlit component: what goes to the browser and comes back.

`panel.js` draws it and keeps every choice in the browser until Save is pressed. What comes back is not
trusted: the models here take what has the right form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import streamlit as st
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from annotation_app.markup import asset, visible
from annotation_app.wording import Wording
from guard_eval.records import BlindPair
from guard_eval.rubric import Criterion

PROBLEMS = ("unreadable", "language", "offensive", "display")
"""What a rater can report about a pair, by the name under which it is stored."""

COMMENT_LENGTH = 5_000
"""Characters of a comment that are stored."""

MAX_SECONDS = 24 * 3600.0
"""The longest duration that is stored: a clock that measures more is wrong."""

_KEY = "panel"
_PAIR_SCRIPT = """
export default async (component) => {
  globalThis.guardEval ??= Promise.withResolvers();
  return (await globalThis.guardEval.promise).show(component);
}
"""
"""All that is sent with each pair, besides its data: `panel.js` is loaded once."""

Handler = Callable[[Mapping[str, Any]], bool]
"""Acts on what the browser sent (`submit`, `skip`, `turn`), and returns whether it sent anything."""


def _seconds(value: object) -> float | None:
    """Return seconds as a browser measured them; None if its clock is broken."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before it is converted: JSON may hold an integer that no float can hold. NaN is not at least 0.
    return round(float(min(value, MAX_SECONDS)), 3) if value >= 0 else None


def _comment(value: object) -> object:
    return value.strip()[:COMMENT_LENGTH] if isinstance(value, str) else value


def _problems(value: object) -> object:
    return [name for name in PROBLEMS if name in value] if isinstance(value, list) else value


_Seconds = Annotated[float | None, BeforeValidator(_seconds)]
_Pair = Annotated[int, Field(strict=True)]


class Submission(BaseModel):
    """What a rater submitted.

    Attributes:
        pair: Under which number the pair was shown.
        press: The browser's name of this press of Save, which waits until it is acknowledged.
        choices: By criterion; not necessarily all of them.
        comment: None if it is as before.
        problems: Names of `PROBLEMS`; None if they are as before.
        seconds: How long the pair was on the screen.
        active: How much of that the page was in focus and used within the last 30 s.
        ends: How many of prompt, A and B were on the screen to their end.
    """

    pair: _Pair
    press: str = Field(default="", max_length=40)
    choices: dict[str, Literal["A", "tie", "B"]]
    comment: Annotated[str | None, BeforeValidator(_comment)] = None
    problems: Annotated[list[str] | None, BeforeValidator(_problems)] = None
    seconds: _Seconds = None
    active: _Seconds = None
    ends: Annotated[int, Field(ge=0, le=3, strict=True)] | None = None

    @property
    def active_seconds(self) -> float | None:
        """Return the active time, which is no longer than all of it."""
        return self.active if self.active is None or self.seconds is None else min(self.active, self.seconds)


class Skip(BaseModel):
    """A pair that the rater cannot judge, what is wrong with it, and a comment."""

    pair: _Pair
    problems: Annotated[list[str], BeforeValidator(_problems), Field(min_length=1)]
    comment: Annotated[str, BeforeValidator(_comment)] = ""


class Turn(BaseModel):
    """Where a rater turns without saving, and from which pair."""

    pair: _Pair
    to: Literal["back", "latest", "instructions"]


_Message = TypeVar("_Message", Submission, Skip, Turn)


def parse(kind: type[_Message], value: object) -> _Message | None:
    """Return a message from the browser; None for what no panel sends."""
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None


def load(words: Wording) -> None:
    """Give the browser the panel's script, style and words: outside a fragment, not again for every pair."""
    # Registered in every run: the registry belongs to the running server, and the same definition changes
    # nothing.
    component = st.components.v2.component(
        "guard_eval_panel", js=asset("panel.js"), css=asset("panel.css"), isolate_styles=False
    )
    # A list: of a mapping Streamlit asks whether its values are tables, and imports pandas to know.
    component(key="panel-script", data=[{"words": words["panel"], "reports": words["problems"]}])


def show(
    pair: BlindPair, criteria: tuple[Criterion, ...], view: Mapping[str, object], handle: Handler
) -> None:
    """Show a pair, after `load`; `handle` is called with what the browser sends.

    Args:
        pair: The texts, and the number under which the answers come back. Nothing else about it is sent.
        criteria: The questions.
        view: The other names that panel.js reads; see `Visit.view` and `rating`.
        handle: Acts on a message.
    """
    component = st.components.v2.component("guard_eval_pair", js=_PAIR_SCRIPT, isolate_styles=False)
    receive = partial(_receive, handle)
    data = {
        **view,
        "pair": pair.presentation,
        "prompt": visible(pair.prompt),
        "a": visible(pair.text_a),
        "b": visible(pair.text_b),
        "criteria": [{"name": c.name, "title": c.title, "definition": c.definition} for c in criteria],
        "comment": visible(str(view.get("comment", ""))),
    }
    sent = component(
        key=_KEY,
        data=[data],
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
