"""The pages before the first pair, in their order: consent, background, instructions, practice, check.

Each step says when it is due, and shows its page. Its answer is a note in the store, on disk before the next
page is shown: a rater who comes back, in this browser or another one, is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import streamlit as st

from annotation_app import endings, markup, panel, state
from annotation_app.markup import forward, label
from annotation_app.panel import Submission
from annotation_app.state import App, Visit
from annotation_app.wording import PracticePair, Question, fill
from guard_eval.records import BlindPair, NoteKind, content_id

ATTEMPTS = 2
"""How often the comprehension check may be tried."""

ANSWER_LENGTH = 300
"""Characters of an answer in the rater's own words."""


class Step(NamedTuple):
    """A page before the first pair: whether it is due, and what shows it and returns the page's name."""

    is_due: Callable[[App, Visit], bool]
    show: Callable[[App, Visit], str]


def next_step(app: App, visit: Visit) -> Step | None:
    """Return the page that comes before the next pair; None if the pair may come.

    Who has rated already is asked for consent and background if these were switched on later, and spared
    the practice and the check.
    """
    return next((step for step in STEPS if step.is_due(app, visit)), None)


def _record(app: App, visit: Visit, kind: NoteKind, detail: Mapping[str, object]) -> None:
    """Note an answer and show the next page; what cannot be noted is answered by the page of main.py."""
    state.record(app, visit, kind, detail)
    st.rerun()


# Consent.


def _agreed(visit: Visit) -> bool | None:
    consents = visit.progress["consent"]
    return consents[-1]["agreed"] if consents else None


def _needs_consent(app: App, visit: Visit) -> bool:
    return app.settings.pages.consent and not _agreed(visit)


def _ask_consent(app: App, visit: Visit) -> str:
    if _agreed(visit) is False and not visit.reconsiders:
        return endings.show(app, "declined", visit)
    texts = app.words["consent"]
    with markup.page(texts["title"], texts["lead"]):
        st.html(markup.points(texts["points"]) + markup.paragraph(texts["contact"]))
        with st.container(key="around", horizontal=True):
            agreed = forward(texts["agree"], key="agree")
            declined = st.button(label(texts["decline"]), key="decline")
    if declined and _agreed(visit) is False:
        visit.reconsiders = False
        st.rerun()
    if agreed or declined:
        visit.reconsiders = False
        words = {"language": app.words["language"], "wording": content_id("consent", texts)}
        _record(app, visit, "consent", {"agreed": agreed, **words})
    return "consent"


# Background.


def _needs_background(app: App, visit: Visit) -> bool:
    return app.settings.pages.background and not visit.progress["background"] and not _has_failed(app, visit)


def _ask_background(app: App, visit: Visit) -> str:
    texts = app.words["background"]
    with markup.page(texts["title"], texts["lead"]):
        answers = _form("background", texts["questions"], texts["button"])
    if answers is not None:
        _record(app, visit, "background", answers)
    return "background"


def _form(key: str, questions: Sequence[Question], button: str) -> dict[str, str] | None:
    """Ask questions; return the answers by name, without open questions, when the button was pressed.

    Answers to choose from have names; only their words reach the browser.
    """
    chosen: dict[str, str | None] = {}
    with st.form(key, border=False):
        for question in questions:
            ask, name = label(question.ask), f"{key}-{question.name}"
            if question.answers:
                words = {answer: label(text) for answer, text in question.answers.items()}
                chosen[question.name] = st.radio(
                    ask, list(words), format_func=words.__getitem__, key=name, index=None
                )
            else:
                chosen[question.name] = st.text_input(ask, key=name, max_chars=ANSWER_LENGTH)
        name = f"{key}-send"
        pressed = st.form_submit_button(label(button), key=name, type="primary", shortcut="Ctrl+Enter")
    answered = {name: answer.strip() for name, answer in chosen.items() if answer and answer.strip()}
    return answered if pressed else None


# Instructions.


def _needs_instructions(app: App, visit: Visit) -> bool:
    unread = not visit.trail and not visit.progress["instructions"] and not _has_failed(app, visit)
    return visit.reading or unread


def _show_instructions(app: App, visit: Visit) -> str:
    texts = app.words["instructions"]
    with markup.page(texts["title"], texts["lead"]):
        st.html(markup.definitions(texts["questions"], app.criteria) + markup.points(texts["points"]))
        if visit.enrolled:
            address = f"{(st.context.url or '').rstrip('/')}/?invite={visit.token}"
            st.html(markup.code(texts["link"], address, lead=texts["link_lead"], kind="ge-link"))
        begun = visit.trail or visit.progress["instructions"]
        pressed = forward(texts["again"] if begun else texts["start"], key="start")
    if pressed:
        visit.reading = False
        if begun:
            st.rerun()
        _record(app, visit, "instructions", {"language": app.words["language"]})
    return "instructions"


# Practice: pairs of our own, judged on the same panel, each with feedback.


def _unpractised(app: App, visit: Visit) -> list[PracticePair]:
    practised = {detail["pair"] for detail in visit.progress["practice"]}
    return [pair for pair in app.practice if pair.name not in practised]


def _needs_practice(app: App, visit: Visit) -> bool:
    # The last pair is noted by now, but its feedback may not be read yet.
    due = visit.practised is not None or bool(_unpractised(app, visit))
    return app.settings.pages.practice and not visit.trail and due and not _has_failed(app, visit)


def _practise(app: App, visit: Visit) -> str:
    if visit.practised is not None:
        return _show_feedback(app, visit, *visit.practised)
    pair = _unpractised(app, visit)[0]
    number = app.practice.index(pair) + 1
    panel.load(app.words)
    shown = BlindPair.of(-number, pair.prompt, pair.a, pair.b)  # no presentation has a number below 1
    view = {"where": app.words["practice"]["position"], "done": number - 1, "total": len(app.practice)}
    view |= {"chosen": {}, "problems": []} | visit.view()
    panel.show(shown, app.criteria, view, _handle_practice)
    return "pair"


def _practice_heading(app: App, number: int) -> str:
    return fill(app.words["practice"]["position"], number=number, total=len(app.practice))


def _handle_practice(sent: Mapping[str, Any]) -> bool:
    """Note the judgment; return whether anything was sent. A press sent twice finds its pair practised."""
    visit: Visit | None = st.session_state.get("visit")
    if visit is None or sent.get("submit") is None:
        return False
    visit.clear_messages()
    try:
        app = state.open_app()
        submission = panel.parse(Submission, sent["submit"])
        open_pairs = {-app.practice.index(pair) - 1: pair for pair in _unpractised(app, visit)}
        pair = open_pairs.get(submission.pair) if submission else None
        if submission and pair and all(criterion.name in submission.choices for criterion in app.criteria):
            visit.failed = submission.press
            detail = {"pair": pair.name, "choices": submission.choices, "expected": pair.expected}
            state.record(app, visit, "practice", detail)
            visit.practised = (pair, dict(submission.choices))
            visit.acknowledged = (submission.pair, submission.press)
            visit.clear_messages()
    except state.STUDY_ERRORS as error:
        state.log(error, "noting a practice pair")
        visit.problem = state.current_words()["rating"]["not_saved"]
    return True


def _show_feedback(app: App, visit: Visit, pair: PracticePair, choices: Mapping[str, str]) -> str:
    words, texts = app.words["panel"], app.words["practice"]
    number = app.practice.index(pair) + 1
    remarks = ""
    for criterion in app.criteria:
        if criterion.name in pair.expected:
            chosen, expected = choices[criterion.name], pair.expected[criterion.name]
            sentence = texts["agreed" if chosen == expected else "differed"]
            reason = fill(sentence, given=words[chosen], expected=words[expected])
            text = f"{reason} {pair.because[criterion.name]}"
            remarks += markup.remark(criterion.title, text, agreed=chosen == expected)
    sides = {fill(words["side"], letter=letter): text for letter, text in (("A", pair.a), ("B", pair.b))}
    with markup.page(_practice_heading(app, number), texts["answers"]):
        st.html(remarks)
        button = texts["button" if _unpractised(app, visit) else "last"]
        forward(button, key="next", on_click=visit.close_feedback)
        shown = {words["prompt"]: pair.prompt, **sides}
        st.html("".join(markup.quoted(title, text) for title, text in shown.items()))
    return f"practice-{number}"


# The comprehension check.


def _needs_check(app: App, visit: Visit) -> bool:
    passed = any(attempt["passed"] for attempt in visit.progress["check"])
    return app.settings.pages.check and not visit.trail and not passed


def _has_failed(app: App, visit: Visit) -> bool:
    return _needs_check(app, visit) and len(visit.progress["check"]) >= ATTEMPTS


def _check(app: App, visit: Visit) -> str:
    attempt, texts = len(visit.progress["check"]), app.words["check"]
    if attempt >= ATTEMPTS:
        return endings.show(app, "screened_out", visit)
    questions = texts["questions"]
    if visit.wrong:
        with markup.page(texts["wrong_title"], texts["wrong_lead"]):
            wrong = [question for question in questions if question.name in visit.wrong]
            st.html("".join(markup.remark(question.ask, question.because) for question in wrong))
            forward(texts["retry"], key="retry", on_click=visit.close_feedback)
        return "check-wrong"
    with markup.page(texts["title"], texts["lead"]):
        st.button(label(texts["instructions"]), key="instructions", on_click=visit.read_instructions)
        # Another form for another attempt: nothing is chosen in it yet.
        answers = _form(f"check-{attempt}", questions, texts["button"])
        if answers is not None and len(answers) < len(questions):
            st.html(markup.message(texts["missing"], kind="problem"))
            answers = None
    if answers is not None:
        wrong = [question.name for question in questions if answers[question.name] != question.right]
        visit.wrong = tuple(wrong)
        detail = {"attempt": attempt + 1, "answers": answers, "wrong": wrong, "passed": not wrong}
        _record(app, visit, "check", detail)
    return f"check-{attempt}"


STEPS = (
    Step(_needs_consent, _ask_consent),
    Step(_needs_background, _ask_background),
    Step(_needs_instructions, _show_instructions),
    Step(_needs_practice, _practise),
    Step(_needs_check, _check),
)
