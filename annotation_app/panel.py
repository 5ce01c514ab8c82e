"""The panel for comparing a pair, a Streamlit component: send data to the browser and check its answers.

`panel.js` draws the panel and keeps every choice in the browser until Save is pressed. The browser's answers
are not trusted: the models in this module accept only the right form. Each answer names its pair, so a press
that arrives twice, or after a restart, belongs to the same presentation, whichever pair this session shows.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

import streamlit as st
from pydantic import BaseModel, Field, StrictInt, StringConstraints, ValidationError

from annotation_app import state
from annotation_app.markup import read_asset
from annotation_app.state import App, Visit
from guard_eval.records import BlindPair, Choice, JsonObject
from guard_eval.study.wording import Wording

Problem = Literal["unreadable", "language", "offensive", "display"]
"""The problems with a pair that a rater can report, by their names in the store."""

Conduct = Literal["copies", "untrusted", "driven"]
"""Signs of misuse, counted for each pair: text was copied before the page was left, events came from a
program, or a program controls the browser."""

_KEY = "panel"
_PAIR_SCRIPT = """
export default async (component) => {
  globalThis.guardEval ??= Promise.withResolvers();
  return (await globalThis.guardEval.promise).show(component);
}
"""
"""The script that is sent with each pair's data. It is short, because `panel.js` is loaded only once."""


_Comment = Annotated[str, StringConstraints(strip_whitespace=True, max_length=5000)]


class Submission(BaseModel):
    """The answers that a rater submitted. The store treats impossible durations as unknown.

    Attributes:
        pair: The number of the presentation.
        press: The browser's name for this press of Save. The browser waits until the press is acknowledged.
        base: The stored answers that the page showed; None if unknown.
        after: The press before this one on the same page, if there was one.
        choices: The choices by criterion. Criteria may be missing.
        comment: The comment; None if it has not changed.
        problems: The reported problems; None if they have not changed.
        seconds: Seconds for which the pair was on the screen.
        active: Seconds of that time in which the page was in focus and had been used within the last 30 s.
        ends: The number of texts (prompt, A and B) that were shown to their end.
        conduct: The counts of signs of misuse.
    """

    pair: StrictInt
    press: str = Field(default="", max_length=40)
    base: str | None = Field(default=None, max_length=40)
    after: str = Field(default="", max_length=40)
    choices: dict[str, Choice]
    comment: _Comment | None = None
    problems: list[Problem] | None = None
    seconds: float | None = None
    active: float | None = None
    ends: int | None = Field(default=None, ge=0, le=3)
    conduct: dict[Conduct, Annotated[StrictInt, Field(ge=1, le=999)]] = {}


class Skip(BaseModel):
    """A pair that the rater cannot judge, with the problems and a comment."""

    pair: StrictInt
    problems: list[Problem] = Field(min_length=1)
    comment: _Comment = ""


class Turn(BaseModel):
    """A change to another page without saving, and the pair that the rater leaves."""

    pair: StrictInt
    to: Literal["back", "latest", "instructions"]


_MESSAGES: dict[str, type[Submission | Skip | Turn]] = {"submit": Submission, "skip": Skip, "turn": Turn}

Actions = Mapping[str, Callable[[App, Visit, Any], None]]
"""The function that handles each kind of message; the message is the last argument."""


def load_panel(words: Wording) -> None:
    """Send the panel's script, style and words once per page, outside the fragment that shows the pairs."""
    # Register the panel in every run: the registry belongs to the running server, and a repeated definition
    # changes nothing.
    component = st.components.v2.component(
        "guard_eval_panel", js=read_asset("panel.js"), css=read_asset("panel.css"), isolate_styles=False
    )
    # Send a list: for a mapping, Streamlit would import pandas to check whether the values are tables.
    component(
        key="panel-script", data=[{"words": words.panel.model_dump(), "reports": words.problems.model_dump()}]
    )


def show_pair(app: App, visit: Visit, pair: BlindPair, view: Mapping[str, object], actions: Actions) -> None:
    """Show a pair, after `load_panel`. Only the texts and the presentation's number are sent.

    `view` has the other fields that panel.js reads.
    """
    component = st.components.v2.component("guard_eval_pair", js=_PAIR_SCRIPT, isolate_styles=False)

    def receive() -> None:  # called before the page is shown, so one run is enough
        _handle_message(actions, st.session_state.get(_KEY) or {})

    data = {
        **view,
        **visit.make_panel_data(),
        "pair": pair.presentation,
        "prompt": pair.prompt,
        "a": pair.text_a,
        "b": pair.text_b,
        "criteria": [asdict(criterion) for criterion in app.criteria],
    }
    sent = component(
        key=_KEY, data=[data], on_submit_change=receive, on_skip_change=receive, on_turn_change=receive
    )
    # After a restart of the server, the session of the first press has no callbacks yet.
    if not st.session_state.pop("received", False) and _handle_message(actions, sent):
        st.rerun()


def _handle_message(actions: Actions, sent: JsonObject) -> bool:
    """Handle the browser's message; return whether there was one."""
    visit: Visit | None = st.session_state.get("visit")
    event = next((name for name in _MESSAGES if sent.get(name)), None)
    if visit is None or event is None:
        return False
    st.session_state["received"] = True
    visit.clear_messages()
    app = state.app
    is_complete = True
    try:
        # The limit of characters may cut an emoji in a comment into halves, which UTF-8 cannot encode.
        text = json.dumps(sent[event], ensure_ascii=False).encode(errors="replace")
        message = _MESSAGES[event].model_validate_json(text)
        app.check_file_unchanged()
        if isinstance(message, Submission):
            visit.failed = message.press
            is_complete = all(criterion.name in message.choices for criterion in app.criteria)
        if not is_complete:  # the page was opened before the server restarted with other criteria
            visit.problem = app.words.rating.not_saved
        elif event in actions and state.is_latest_visit(app, visit):
            actions[event](app, visit, message)
    except ValidationError:  # not from our panel
        visit.problem = app.words.rating.not_saved
    except state.STUDY_ERRORS as error:
        state.log_error(error, f"handling a {event}")
        visit.problem = app.words.rating.not_saved
    return True
