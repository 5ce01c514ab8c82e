"""The panel for comparing a pair, a Streamlit component: send data to the browser and check its answers.

`panel.js` draws it and keeps every choice in the browser until Save is pressed. Its answers are not trusted:
the models here accept only the right form. It names its pair, so that nothing depends on what this session
believes to show: a press that comes twice, or after a restart, finds the same presentation.
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
"""What a rater can report about a pair, by the name under which it is stored."""

Conduct = Literal["copies", "untrusted", "driven"]
"""What is counted on a pair: copies after which the page was left, events of a program, a driven browser."""

_KEY = "panel"
_PAIR_SCRIPT = """
export default async (component) => {
  globalThis.guardEval ??= Promise.withResolvers();
  return (await globalThis.guardEval.promise).show(component);
}
"""
"""All that is sent with each pair, besides its data: `panel.js` is loaded once."""


_Comment = Annotated[str, StringConstraints(strip_whitespace=True, max_length=5000)]


class Submission(BaseModel):
    """The answers that a rater submitted. The store treats impossible times as unknown.

    Attributes:
        pair: The number of the presentation.
        press: The browser's name for this press of Save. The browser waits until it is acknowledged.
        base: The stored answers that the page showed; None if it does not say.
        after: The press before this one on the same page, if there was one.
        choices: By criterion; not necessarily all of them.
        comment: None if it is as before.
        problems: None if they are as before.
        seconds: How long the pair was on the screen.
        active: How much of that the page was in focus and used within the last 30 s.
        ends: How many of prompt, A and B were on the screen to their end.
        conduct: What was counted of how the page was used.
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
    """A pair that the rater cannot judge, what is wrong with it, and a comment."""

    pair: StrictInt
    problems: list[Problem] = Field(min_length=1)
    comment: _Comment = ""


class Turn(BaseModel):
    """A turn to another page without saving, and the pair that it leaves."""

    pair: StrictInt
    to: Literal["back", "latest", "instructions"]


_MESSAGES: dict[str, type[Submission | Skip | Turn]] = {"submit": Submission, "skip": Skip, "turn": Turn}

Actions = Mapping[str, Callable[[App, Visit, Any], None]]
"""What is done with each kind of message; its function gets the message."""


def load_panel(words: Wording) -> None:
    """Send the panel's script, style and words once, outside a fragment, and not again for every pair."""
    # Registered in every run: the registry is the running server's, and the same definition changes nothing.
    component = st.components.v2.component(
        "guard_eval_panel", js=read_asset("panel.js"), css=read_asset("panel.css"), isolate_styles=False
    )
    # A list: of a mapping Streamlit asks whether its values are tables, and imports pandas to know.
    component(
        key="panel-script", data=[{"words": words.panel.model_dump(), "reports": words.problems.model_dump()}]
    )


def show_pair(app: App, visit: Visit, pair: BlindPair, view: Mapping[str, object], actions: Actions) -> None:
    """Show a pair, after `load`. Only its texts and its presentation's number are sent.

    `view` has the other fields that panel.js reads.
    """
    component = st.components.v2.component("guard_eval_pair", js=_PAIR_SCRIPT, isolate_styles=False)

    def receive() -> None:  # before the page is shown, so that one run is enough
        _handle_message(actions, st.session_state.get(_KEY) or {})

    data = {
        **view,
        **visit.list_panel_data(),
        "pair": pair.presentation,
        "prompt": pair.prompt,
        "a": pair.text_a,
        "b": pair.text_b,
        "criteria": [asdict(criterion) for criterion in app.criteria],
    }
    sent = component(
        key=_KEY, data=[data], on_submit_change=receive, on_skip_change=receive, on_turn_change=receive
    )
    # After a restart of the server the first press reaches a session that has no callbacks yet.
    if not st.session_state.pop("received", False) and _handle_message(actions, sent):
        st.rerun()


def _handle_message(actions: Actions, sent: JsonObject) -> bool:
    """Act on what the browser sent; return whether it sent anything."""
    visit: Visit | None = st.session_state.get("visit")
    event = next((name for name in _MESSAGES if sent.get(name)), None)
    if visit is None or event is None:
        return False
    st.session_state["received"] = True
    visit.clear_messages()
    app = state.app
    is_complete = True
    try:
        # Half an emoji, which a limit of characters may leave in a comment, has no UTF-8.
        text = json.dumps(sent[event], ensure_ascii=False).encode(errors="replace")
        message = _MESSAGES[event].model_validate_json(text)
        app.check_file()
        if isinstance(message, Submission):
            visit.failed = message.press
            is_complete = all(criterion.name in message.choices for criterion in app.criteria)
        if not is_complete:  # it was open before a restart with other criteria
            visit.problem = app.words.rating.not_saved
        elif event in actions and state.is_latest(app, visit):
            actions[event](app, visit, message)
    except ValidationError:  # no panel sends it
        visit.problem = app.words.rating.not_saved
    except state.STUDY_ERRORS as error:
        state.log_error(error, f"handling a {event}")
        visit.problem = app.words.rating.not_saved
    return True
