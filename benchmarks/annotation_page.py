"""How a rater's client reads the page and answers: the one file to adapt when the page changes.

It knows two pages: one component that holds everything (`panel`), and a form of Streamlit's own widgets.
`read` says what is shown, `answer` and `go_on` what a press sends; the last functions do the same in a real
browser.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from annotation_socket import Page
from annotation_study import MARK
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.proto.WidgetStates_pb2 import WidgetState

SETTINGS = ""
"""Lines of study.toml's `[annotation]` that leave out the pages before the rating."""

_LETTERS = ("A", "tie", "B")
_ENDED = b"Thank you"
_CALM = (b"Please try again in a moment", b"could not be saved")
_GO_ON = ("start", "again", "more")
"""Keys of the buttons of pages without a pair."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What a page shows.

    Attributes:
        pair: The number of the pair shown; None on any other page.
        first: Whose text stands as A: `a` is the first method's.
        ended: The rater is thanked.
        calm: The rater is told that something does not work just now.
        errors: Exceptions shown as such: no rater should ever see one.
    """

    pair: int | None
    first: str
    ended: bool
    calm: bool
    errors: int


NOTHING = View(pair=None, first="", ended=False, calm=False, errors=0)
"""A page that is not there yet."""


def read(page: Page) -> View:
    """Return what the page shows."""
    raw = b"\n".join(page.raw[place] for place in sorted(page.raw))
    marks = MARK.findall(raw)
    letters = [letter.decode() for _, letter in marks if letter != b"p"]
    panel = _panel(page)
    return View(
        pair=int(marks[0][0]) if marks else None,
        first=letters[0] if letters else "",
        ended=_ENDED in raw and not marks,
        # A panel holds all its sentences, whether it says them or not.
        calm=bool(panel[1]["problem"]) if panel else any(words in raw for words in _CALM),
        errors=sum(element.WhichOneof("type") == "exception" for element in page.elements.values()),
    )


def answer(page: Page, choices: Mapping[str, str]) -> list[WidgetState]:
    """Return what a browser sends when the choices (criterion → A, tie or B) are made and saved."""
    panel = _panel(page)
    if panel:
        return [_press(*panel, choices)]
    states = []
    for element in page.elements.values():
        kind = element.WhichOneof("type")
        if kind == "button_group":
            criterion = element.button_group.id.rpartition("-")[2]
            option = element.button_group.options[_LETTERS.index(choices[criterion])]
            state = WidgetState(id=element.button_group.id)
            state.string_array_value.data.append(option.content)
            states.append(state)
        elif kind == "button" and element.button.id.endswith("-save"):
            states.append(WidgetState(id=element.button.id, trigger_value=True))
    return states


def _panel(page: Page) -> tuple[BidiComponent, dict[str, Any]] | None:
    """Return the component that holds the pair, and what it was given."""
    for element in page.elements.values():
        if element.WhichOneof("type") == "bidi_component":
            component = element.bidi_component
            given = json.loads(component.json or component.mixed.json or "null")
            # Bare, or wrapped in a list or a mapping of one.
            for view in (given, *(given.values() if isinstance(given, dict) else given or ())):
                if isinstance(view, dict) and "prompt" in view:
                    return component, view
    return None


def _press(panel: BidiComponent, view: dict[str, Any], choices: Mapping[str, str]) -> WidgetState:
    """Return what the panel's Save sends."""
    submitted = {
        "pair": view["pair"],
        "press": secrets.token_hex(8),
        "choices": dict(choices),
        "comment": None,
        "problems": None,
        "breaks": [],
        "seconds": 5.0,
        "active": 4.5,
    }
    events = [{"event": "submit", "value": submitted}]
    return WidgetState(
        id=f"$$STREAMLIT_INTERNAL_KEY_{panel.id}__events", json_trigger_value=json.dumps(events)
    )


def go_on(page: Page) -> list[WidgetState]:
    """Return the press that leaves a page without a pair; nothing where there is no such button."""
    buttons = [element.button for element in page.elements.values() if element.HasField("button")]
    for button in buttons:
        if button.id.rpartition("-")[2] in _GO_ON:
            return [WidgetState(id=button.id, trigger_value=True)]
    return []


# The same in a browser. `page` is Playwright's, which may be missing: hence no type.


def browser_enter(page: Any) -> None:  # noqa: ANN401
    """Leave the pages before the first pair."""
    page.get_by_role("button", name="Start").click()
    browser_save(page).wait_for()


def browser_save(page: Any) -> Any:  # noqa: ANN401
    """Return the button that sends the answers."""
    return page.get_by_role("button", name="Save and continue")


def browser_choose(page: Any, criterion: str, letter: str) -> None:  # noqa: ANN401
    """Click an answer."""
    answers = {"A": "A is better", "tie": "Similar", "B": "B is better"}
    group = page.get_by_role("radiogroup", name=criterion.title())
    group.get_by_role("radio", name=answers[letter]).click()
