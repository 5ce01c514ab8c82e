"""Rate pairs on the panel, a Streamlit component: show pairs, check the browser's messages, store answers.

`panel.js` draws the panel and keeps every choice in the browser until Save is pressed. The browser's messages
are not trusted: the models in this module accept only the right form. Each message names its pair, so answers
that arrive late or twice are stored for the right pair.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Literal

import streamlit as st
from pydantic import BaseModel, Field, StrictInt, StringConstraints, ValidationError

from annotation_app import state
from annotation_app.markup import read_asset
from annotation_app.state import App, Visit
from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Choice, JsonObject, make_content_id
from guard_eval.store import handout, notes, raters, verdicts
from guard_eval.study.wording import Wording

RECOUNT_SECONDS = 30.0
"""Seconds after which the rater's pairs are counted again."""

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


class Navigation(BaseModel):
    """A change to another page without saving, and the pair that the rater leaves."""

    pair: StrictInt
    to: Literal["back", "latest", "instructions"]


_MESSAGES: dict[str, type[Submission | Skip | Navigation]] = {
    "submit": Submission,
    "skip": Skip,
    "turn": Navigation,
}


Submit = Callable[[App, Visit, Submission], None]


def load_rating_panel(words: Wording) -> None:
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


def show_pair(app: App, visit: Visit, pair: BlindPair, view: Mapping[str, object], submit: Submit) -> None:
    """Show a pair, after `load_rating_panel`. Only the texts and the presentation's number are sent.

    `view` has the other fields that panel.js reads. `submit` stores a submission.
    """
    component = st.components.v2.component("guard_eval_pair", js=_PAIR_SCRIPT, isolate_styles=False)

    def receive_message() -> None:  # called before the page is shown, so one run is enough
        _handle_browser_message(submit, st.session_state.get(_KEY) or {})

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
        key=_KEY,
        data=[data],
        on_submit_change=receive_message,
        on_skip_change=receive_message,
        on_turn_change=receive_message,
    )
    # After a restart of the server, the session of the first press has no callbacks yet.
    if not st.session_state.pop("received", False) and _handle_browser_message(submit, sent):
        st.rerun()


def _handle_browser_message(submit: Submit, sent: JsonObject) -> bool:
    """Handle the browser's message; return whether there was one."""
    visit: Visit | None = st.session_state.get("visit")
    event = next((name for name in _MESSAGES if sent.get(name)), None)
    if visit is None or event is None:
        return False
    st.session_state["received"] = True
    visit.clear_messages()
    app = state.app
    try:
        # The limit of characters may cut an emoji in a comment into halves, which UTF-8 cannot encode.
        text = json.dumps(sent[event], ensure_ascii=False).encode(errors="replace")
        message = _MESSAGES[event].model_validate_json(text)
        app.check_database_file_unchanged()
        is_latest = state.is_latest_visit(app, visit)
        match message:
            case Submission():
                visit.failed = message.press
                if any(criterion.name not in message.choices for criterion in app.criteria):
                    # the page was opened before the server restarted with other criteria
                    visit.problem = app.words.rating.not_saved
                elif is_latest:
                    submit(app, visit, message)
            case Skip() if is_latest:
                _handle_skip(app, visit, message)
            case Navigation() if is_latest:
                _handle_navigation(visit, message)
    except ValidationError:  # not from our panel
        visit.problem = app.words.rating.not_saved
    except state.STUDY_ERRORS as error:
        state.log_error(error, f"handling a {event}")
        visit.problem = app.words.rating.not_saved
    return True


# Rate the study's pairs.


# A fragment: for the next pair, no other part of the page runs or is sent.
@st.fragment
def show_pair_or_leave_panel() -> None:
    """Show the current pair on the loaded panel, or leave the panel if another page is due."""
    visit: Visit | None = st.session_state.get("visit")
    app = state.app
    if visit is None or visit.opened or not state.is_latest_visit(app, visit):
        st.rerun()
    try:
        app.check_database_file_unchanged()
        fetch_next_pair(app, visit)
    except state.STUDY_ERRORS:
        st.rerun()  # the next page gets the same error, and logs it
    pair = visit.pair
    if pair is None:
        st.rerun()
    view = {
        "where": app.words.rating.position,
        "done": visit.at,
        "total": len(visit.trail) + visit.available,
        "earlier": visit.is_shown_pair_rated,
        "extras": True,
        "counts": app.settings.pages.consent,
    }
    answers = _read_stored_answers(app, visit, pair.presentation) if visit.is_shown_pair_rated else {}
    show_pair(app, visit, pair, view | answers, _handle_submission)


def fetch_next_pair(app: App, visit: Visit) -> None:
    """Fetch the rater's next pair, if there is one, and count the remaining pairs."""
    if time.monotonic() - visit.counted > RECOUNT_SECONDS:
        _recount_rater_pairs(app, visit)
    if visit.pair is None and visit.is_shown_pair_rated:
        visit.pair = verdicts.read_presentation(app.store, visit.trail[visit.at], rater=visit.rater)
    elif visit.pair is None:
        visit.pair = next(iter(handout.claim_pairs(app.store, visit.rater, app.plan)), None)
    if not visit.is_shown_pair_rated and (visit.pair is None) != (visit.available == 0):
        _recount_rater_pairs(app, visit)  # the count is out of date


def _recount_rater_pairs(app: App, visit: Visit) -> None:
    """Count the rater's pairs. Read the rated ones again if another server stored some."""
    rated, visit.available = handout.count_rated_and_remaining_pairs(app.store, visit.rater, app.plan)
    visit.counted = time.monotonic()
    if rated != len(visit.trail):  # rated through another server: a proxy may distribute the tabs
        visit.trail = verdicts.read_rated_presentations(app.store, visit.rater)
        visit.go_to_pair(len(visit.trail))


def _read_stored_answers(app: App, visit: Visit, number: int) -> JsonObject:
    """Return the stored choices, comment and problems of a pair, and their `base`; empty if unrated."""
    chosen = verdicts.read_current_choices(app.store, number, rater=visit.rater)
    if not chosen:
        return {}
    # Use the last note of each kind: notes are sorted from the oldest to the newest.
    remarks = {note.kind: note.detail for note in notes.read_notes(app.store, presentation=number)}
    problems = [problem for problem in remarks.get("problem", "").split(", ") if problem]
    answers = {"chosen": chosen, "comment": remarks.get("comment", ""), "problems": problems}
    base = make_content_id("answers", *sorted(chosen.items()), answers["comment"], *problems)
    return answers | {"base": base}


def _replaces_newer_answers(visit: Visit, submission: Submission, answers: JsonObject) -> bool:
    """Return whether a submission would replace newer answers from another tab or browser."""
    follows_own_press = visit.acknowledged == (submission.pair, submission.after)
    if not answers or submission.base in {None, answers["base"]} or follows_own_press:
        return False
    changes = {
        "chosen": submission.choices,
        "comment": submission.comment,
        "problems": submission.problems,
    }
    return any(value not in (None, answers[name]) for name, value in changes.items())


def _handle_submission(app: App, visit: Visit, submission: Submission) -> None:
    """Save a submission about any pair of the rater, and go to the next pair."""
    if not check_invite_or_end_visit(app, visit):
        return
    with app.store.begin_write():  # nothing is stored between the check and the answers
        answers = _read_stored_answers(app, visit, submission.pair)
        is_outdated = _replaces_newer_answers(visit, submission, answers)
        following = None if is_outdated else _save_submission(app, visit, submission)
    # the visit changes only now, because the block's writes are on disk only when the block ends
    if is_outdated:
        visit.trail = verdicts.read_rated_presentations(app.store, visit.rater)
        visit.go_to_pair(visit.trail.index(submission.pair))
        visit.problem = app.words.rating.outdated
        visit.failed = submission.press
        return
    if submission.pair not in visit.trail:
        visit.trail.append(submission.pair)
        visit.available = max(0, visit.available - 1)
    visit.go_to_pair(visit.trail.index(submission.pair) + 1)
    visit.pair = None if visit.is_shown_pair_rated else following
    visit.acknowledged = (submission.pair, submission.press)
    visit.note = app.words.rating.saved


def _save_submission(app: App, visit: Visit, submission: Submission) -> BlindPair | None:
    """Save a submission within a transaction; return the rater's next pair."""
    first = submission.pair not in visit.trail
    following = verdicts.save_verdict(
        app.store,
        submission.pair,
        {criterion.name: submission.choices[criterion.name] for criterion in app.criteria},
        rater=visit.rater,
        # Only the durations of the first verdict count for the pair, not those of a change.
        seconds=submission.seconds if first else None,
        active_seconds=submission.active if first else None,
        ends_seen=submission.ends if first else None,
        by_browser=True,
        comment=submission.comment,
        problem=None if submission.problems is None else ", ".join(submission.problems),
        then=app.plan if first or submission.pair == visit.trail[-1] else None,
    )
    if submission.conduct and app.settings.pages.consent:  # the consent page tells raters about these counts
        counts = json.dumps(submission.conduct, sort_keys=True)
        notes.write_note(app.store, visit.rater, "conduct", counts, presentation=submission.pair)
    return following


def check_invite_or_end_visit(app: App, visit: Visit) -> bool:
    """Return whether the visit's invite is still valid. If it is invalid, end the visit."""
    if raters.find_rater_by_token(app.store, visit.token) == visit.rater:
        return True
    with suppress(StudyError):  # raised for a rater who was erased
        if raters.is_revoked_or_excluded(app.store, visit.rater):
            visit.go_to_pair(len(visit.trail))  # the rater gets no further pairs
            return False
    del st.session_state["visit"]
    return False


def _handle_skip(app: App, visit: Visit, skip: Skip) -> None:
    """Skip the pair and show the next one, unless this rater has skipped too many."""
    if not handout.skip_presentation(
        app.store, skip.pair, skip.problems, rater=visit.rater, comment=skip.comment
    ):
        visit.problem = app.words.rating.skipped_many
        return
    visit.go_to_pair(len(visit.trail))
    visit.counted = -math.inf
    visit.acknowledged = (skip.pair, "skip")  # acts like a press of Save: the browser deletes its draft
    visit.note = app.words.rating.skipped


def _handle_navigation(visit: Visit, message: Navigation) -> None:
    """Go to another page. Choices stay in the browser, and only the first of two presses counts."""
    if visit.pair is None or visit.pair.presentation != message.pair:
        return
    if message.to == "instructions":
        visit.open_onboarding_page("instructions")
    else:
        visit.go_to_pair(visit.at - 1 if message.to == "back" else len(visit.trail))
