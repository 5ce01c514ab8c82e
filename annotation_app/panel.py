"""The page on which a pair is compared, as one component: what goes into it, and what comes back.

`panel.js` draws it from the data given here and keeps every choice in the browser until Save is pressed. What
comes back has been through a browser, so nothing in it is believed: `read` takes what has the right form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import streamlit as st

from annotation_app import markup
from annotation_app.wording import Problems, Wording
from guard_eval.records import CHOICES, BlindPair, Choice
from guard_eval.rubric import Criterion

Turn = Literal["back", "latest", "instructions"]
"""Where a rater can turn to without saving."""

PROBLEMS = tuple(Problems.model_fields)
"""What a rater can report of a pair, by the name under which it is stored."""

LONGEST_COMMENT = 5_000
"""Characters of a comment that are kept."""

LONGEST_SECONDS = 24 * 3600.0
"""A pair lies before nobody longer than this; a clock that says more is wrong by more than it measures."""

_MOST_BREAKS = 100
_LONGEST_PRESS = 40
_TURNS: tuple[Turn, ...] = ("back", "latest", "instructions")
_KEY = "panel"

# Put together, for Streamlit takes one script, and no script it was given can import another.
_SCRIPTS = ("panel_draft.js", "panel_parts.js", "panel.js")


@dataclass(frozen=True, kw_only=True)
class View:
    """What the page shows.

    Attributes:
        pair: The texts, and the number under which the answers come back.
        where: The heading, such as `Pair 3 of 12`.
        done: How many pairs were rated before this one.
        total: How many there are to rate.
        criteria: What is asked.
        words: In which language.
        place: Tells this rater's drafts in the browser from others'; says nothing about the rater.
        turn: Another number in every run, so that the browser sees an answer that says the same again.
        chosen: What was answered before.
        comment: What was commented before.
        problems: What was reported before.
        back: Whether there is an earlier pair.
        earlier: Whether this is one.
        extras: Whether comments, breaks and the instructions are offered.
        note: What just happened, such as `Saved`.
        problem: Why it did not.
        acknowledged: The pair and the press whose answers are on disk by now: the browser forgets its draft.
        failed: The press whose answers could not be saved.
    """

    pair: BlindPair
    where: str
    done: int
    total: int
    criteria: tuple[Criterion, ...]
    words: Wording
    place: str
    turn: int
    chosen: Mapping[str, Choice] = field(default_factory=dict)
    comment: str = ""
    problems: tuple[str, ...] = ()
    back: bool = False
    earlier: bool = False
    extras: bool = True
    note: str = ""
    problem: str = ""
    acknowledged: tuple[int, str] | None = None
    failed: str = ""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What a rater submitted.

    Attributes:
        pair: Under which number.
        press: What the browser calls this press of Save; it waits until it hears of it.
        choices: By criterion; not necessarily all of them.
        comment: None where it is as before.
        problems: Names of `PROBLEMS`; None where they are as before.
        seconds: The pair was on the screen, breaks left out.
        active_seconds: Those of them with the page in focus and a sign of life in the last 30 s.
        breaks: How long each break was, in seconds.
    """

    pair: int
    press: str
    choices: dict[str, Choice]
    comment: str | None
    problems: tuple[str, ...] | None
    seconds: float | None
    active_seconds: float | None
    breaks: tuple[float, ...]


def load() -> None:
    """Give the browser the page's script and style: outside a fragment once, and not again for every pair."""
    # Registered in every run: the registry belongs to the running server, and the same definition changes
    # nothing.
    component = st.components.v2.component(
        "guard_eval_panel", js=_file(*_SCRIPTS), css=_file("panel.css"), isolate_styles=False
    )
    component(key="panel-script")


def show(
    view: View, *, on_submit: Callable[[], None], on_turn: Callable[[], None], loaded: bool = False
) -> Mapping[str, Any]:
    """Show the page; return what the browser sent, for `read` and `turned`.

    The callbacks run before the page does. After a restart of the server the session knows none, and what
    was sent is in the result alone. `loaded` says that `load` was called, outside this fragment.
    """
    if not loaded:
        load()
    component = st.components.v2.component("guard_eval_pair", js=_file("panel_pair.js"), isolate_styles=False)
    # A list: of a mapping Streamlit asks whether its values are tables, and imports pandas to know.
    shown = component(key=_KEY, data=[_data(view)], on_submit_change=on_submit, on_turn_change=on_turn)
    return cast("Mapping[str, Any]", shown)


def sent() -> Mapping[str, Any]:
    """Return what the browser sent, inside a callback of `show`."""
    return cast("Mapping[str, Any]", st.session_state.get(_KEY) or {})


def read(value: object, criteria: tuple[Criterion, ...]) -> Submission | None:
    """Return what was submitted, or None for what no panel sends."""
    if not isinstance(value, dict):
        return None
    pair, press, choices = value.get("pair"), value.get("press"), value.get("choices")
    if type(pair) is not int or not isinstance(choices, dict):
        return None
    seconds = _duration(value.get("seconds"))
    active = _duration(value.get("active"))
    if seconds is not None and active is not None:
        active = min(active, seconds)
    return Submission(
        pair=pair,
        press=press[:_LONGEST_PRESS] if isinstance(press, str) else "",
        choices={c.name: choices[c.name] for c in criteria if choices.get(c.name) in CHOICES},
        comment=_comment(value.get("comment")),
        problems=_problems(value.get("problems")),
        seconds=seconds,
        active_seconds=active,
        breaks=_breaks(value.get("breaks")),
    )


def read_turn(value: object) -> tuple[int, Turn] | None:
    """Return the pair turned away from and where to, or None for what no panel sends."""
    if not isinstance(value, dict):
        return None
    pair, to = value.get("pair"), value.get("to")
    return (pair, to) if type(pair) is int and to in _TURNS else None


def _comment(value: object) -> str | None:
    return value.strip()[:LONGEST_COMMENT] if isinstance(value, str) else None


def _problems(value: object) -> tuple[str, ...] | None:
    return tuple(name for name in PROBLEMS if name in value) if isinstance(value, list) else None


def _breaks(value: object) -> tuple[float, ...]:
    if not isinstance(value, list):
        return ()
    durations = (_duration(item) for item in value[:_MOST_BREAKS])
    return tuple(seconds for seconds in durations if seconds is not None)


def _duration(value: object) -> float | None:
    """Return seconds as a browser measured them; none where its clock is broken or lies."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before it is converted: JSON may hold an integer no float can be. NaN is not at least 0.
    return round(float(min(value, LONGEST_SECONDS)), 3) if value >= 0 else None


def _data(view: View) -> dict[str, object]:
    return {
        "pair": view.pair.presentation,
        "prompt": markup.visible(view.pair.prompt),
        "a": markup.visible(view.pair.text_a),
        "b": markup.visible(view.pair.text_b),
        "where": view.where,
        "done": view.done,
        "total": view.total,
        "criteria": [{"name": c.name, "title": c.title, "definition": c.definition} for c in view.criteria],
        "place": view.place,
        "turn": view.turn,
        "chosen": dict(view.chosen),
        "comment": markup.visible(view.comment),
        "problems": list(view.problems),
        "back": view.back,
        "earlier": view.earlier,
        "extras": view.extras,
        "note": view.note,
        "problem": view.problem,
        "acknowledged": view.acknowledged,
        "failed": view.failed,
        "words": view.words.panel.model_dump(by_alias=True),
        "reports": view.words.problems.model_dump(),
        "language": view.words.language,
        "direction": view.words.direction,
    }


@cache
def _file(*names: str) -> str:
    return "\n".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)
