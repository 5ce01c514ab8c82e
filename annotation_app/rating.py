"""Choose the pair on the screen, and store the answers from the browser."""

import json
import math
import time
from contextlib import suppress

import streamlit as st

from annotation_app import panel, state
from annotation_app.panel import Skip, Submission, Turn
from annotation_app.state import App, Visit
from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, JsonObject, make_content_id
from guard_eval.store import handout, notes, raters, verdicts

RECOUNT_SECONDS = 30.0
"""Seconds after which the rater's pairs are counted again."""


def show_rating(app: App) -> None:
    """Show the rater's current pair with the questions."""
    panel.load_panel(app.words)
    _show_pair()


# A fragment: for the next pair, no other part of the page runs or is sent.
@st.fragment
def _show_pair() -> None:
    visit: Visit | None = st.session_state.get("visit")
    app = state.app
    pair = _get_pair(app, visit) if visit else None
    if visit is None or pair is None:
        st.rerun()  # another page is to be shown
    view = {
        "where": app.words.rating.position,
        "done": visit.at,
        "total": len(visit.trail) + visit.available,
        "earlier": visit.was_rated_before,
        "extras": True,
        "counts": app.settings.pages.consent,
    }
    actions: panel.Actions = {"submit": _handle_submission, "skip": _handle_skip, "turn": _handle_turn}
    answers = _read_answers(app, visit, pair.presentation) if visit.was_rated_before else {}
    panel.show_pair(app, visit, pair, view | answers, actions)


def _get_pair(app: App, visit: Visit) -> BlindPair | None:
    if visit.opened or not state.is_latest(app, visit):
        return None
    try:
        app.check_file()
        fetch_pair(app, visit)
    except state.STUDY_ERRORS:
        return None  # the next page gets the same error, and logs it
    return visit.pair


def fetch_pair(app: App, visit: Visit) -> None:
    """Fetch the rater's next pair, if there is one, and count the remaining pairs."""
    if time.monotonic() - visit.counted > RECOUNT_SECONDS:
        _count_pairs(app, visit)
    if visit.pair is None and visit.was_rated_before:
        visit.pair = verdicts.read_presentation(app.store, visit.trail[visit.at], rater=visit.rater)
    elif visit.pair is None:
        visit.pair = next(iter(handout.claim(app.store, visit.rater, app.plan)), None)
    if not visit.was_rated_before and (visit.pair is None) != (visit.available == 0):
        _count_pairs(app, visit)  # the count is out of date


def _count_pairs(app: App, visit: Visit) -> None:
    rated, visit.available = handout.count_progress(app.store, visit.rater, app.plan)
    visit.counted = time.monotonic()
    if rated != len(visit.trail):  # rated through another server: a proxy may distribute the tabs
        visit.trail = verdicts.read_rated_presentations(app.store, visit.rater)
        visit.go_to(len(visit.trail))


def _read_answers(app: App, visit: Visit, number: int) -> JsonObject:
    """Return the stored choices, comment and problems of a pair, and their `base`; empty if unrated."""
    chosen = verdicts.read_current_choices(app.store, number, rater=visit.rater)
    if not chosen:
        return {}
    # Use the last note of each kind: notes are sorted from the oldest to the newest.
    remarks = {note.kind: note.detail for note in notes.read(app.store, presentation=number)}
    problems = [problem for problem in remarks.get("problem", "").split(", ") if problem]
    answers = {"chosen": chosen, "comment": remarks.get("comment", ""), "problems": problems}
    base = make_content_id("answers", *sorted(chosen.items()), answers["comment"], *problems)
    return answers | {"base": base}


def _is_outdated(visit: Visit, submission: Submission, answers: JsonObject) -> bool:
    """Return whether a submission would replace newer answers from another tab or browser."""
    if not answers or submission.base in {None, answers["base"]}:
        return False
    if visit.acknowledged == (submission.pair, submission.after):
        return False
    changes = {
        "chosen": submission.choices,
        "comment": submission.comment,
        "problems": submission.problems,
    }
    return any(value not in (None, answers[name]) for name, value in changes.items())


def _handle_submission(app: App, visit: Visit, submission: Submission) -> None:
    """Save a submission about any pair of the rater, and go to the next pair."""
    if not may_continue(app, visit):
        return
    with app.store.write():  # nothing is stored between the check and the answers
        answers = _read_answers(app, visit, submission.pair)
        is_outdated = _is_outdated(visit, submission, answers)
        following = None if is_outdated else _save(app, visit, submission)
    # the visit changes only now, because the block's writes are on disk only when the block ends
    if is_outdated:
        visit.trail = verdicts.read_rated_presentations(app.store, visit.rater)
        visit.go_to(visit.trail.index(submission.pair))
        visit.problem = app.words.rating.outdated
        visit.failed = submission.press
        return
    if submission.pair not in visit.trail:
        visit.trail.append(submission.pair)
        visit.available = max(0, visit.available - 1)
    visit.go_to(visit.trail.index(submission.pair) + 1)
    visit.pair = None if visit.was_rated_before else following
    visit.acknowledged = (submission.pair, submission.press)
    visit.note = app.words.rating.saved


def _save(app: App, visit: Visit, submission: Submission) -> BlindPair | None:
    """Save a submission within a transaction; return the rater's next pair."""
    first = submission.pair not in visit.trail
    following = verdicts.save(
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
        notes.write(app.store, visit.rater, "conduct", counts, presentation=submission.pair)
    return following


def may_continue(app: App, visit: Visit) -> bool:
    """Return whether the visit's invite is still valid. If it is invalid, end the visit."""
    if raters.sign_in(app.store, visit.token) == visit.rater:
        return True
    with suppress(StudyError):  # raised for a rater who was erased
        if raters.is_revoked_or_excluded(app.store, visit.rater):
            visit.go_to(len(visit.trail))  # the rater gets no further pairs
            return False
    del st.session_state["visit"]
    return False


def _handle_skip(app: App, visit: Visit, skip: Skip) -> None:
    """Skip the pair and show the next one, unless this rater has skipped too many."""
    if not handout.skip(app.store, skip.pair, skip.problems, rater=visit.rater, comment=skip.comment):
        visit.problem = app.words.rating.skipped_many
        return
    visit.go_to(len(visit.trail))
    visit.counted = -math.inf
    visit.acknowledged = (skip.pair, "skip")  # acts like a press of Save: the browser deletes its draft
    visit.note = app.words.rating.skipped


def _handle_turn(_app: App, visit: Visit, turn: Turn) -> None:
    """Go to another page. Choices stay in the browser, and only the first of two presses counts."""
    if visit.pair is None or visit.pair.presentation != turn.pair:
        return
    if turn.to == "instructions":
        visit.open_page("instructions")
    else:
        visit.go_to(visit.at - 1 if turn.to == "back" else len(visit.trail))
