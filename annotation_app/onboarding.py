"""Show the pages before the first pair: consent, background, instructions, practice and check.

Each answer is a note in the store, on disk before the next page is shown. A rater who comes back in any
browser is therefore not asked again.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from annotation_app import endings, markup, panel, state
from annotation_app.markup import forward, label
from annotation_app.panel import Submission
from annotation_app.state import App, Visit
from guard_eval.records import BlindPair, content_id
from guard_eval.store.notes import CHECK_ATTEMPTS
from guard_eval.study.wording import FormQuestion, PracticePair, fill

ANSWER_LENGTH = 300
"""Characters of an answer in the rater's own words."""


def show_next(app: App, visit: Visit) -> str | None:  # noqa: PLR0911 (a page each)
    """Show the page that is due before the next pair, and return its name; None if no page is due.

    A rater with verdicts is asked for consent and background if these were switched on later, but gets no
    practice and no check.
    """
    pages = app.settings.pages
    notes = visit.progress
    begun = bool(visit.trail)
    unchecked = pages.check and not begun and not any(attempt["passed"] for attempt in notes["check"])
    if pages.consent and not _has_agreed(visit):
        return _ask_consent(app, visit)
    if unchecked and len(notes["check"]) >= CHECK_ATTEMPTS:
        return endings.show(app, "screened_out", visit)
    if pages.background and not notes["background"]:
        return _ask_background(app, visit)
    if visit.opened == "instructions" or not (begun or notes["instructions"]):
        return _show_instructions(app, visit)
    if pages.practice and visit.opened == "practice":
        return _show_feedback(app, visit)
    if pages.practice and not begun and _unpractised(app, visit):
        return _practise(app, visit)
    return _check(app, visit) if unchecked else None


# Consent.


def _has_agreed(visit: Visit) -> bool | None:
    """Return the rater's last answer to the consent page; None if there is none."""
    consents = visit.progress["consent"]
    return consents[-1]["agreed"] if consents else None


def _ask_consent(app: App, visit: Visit) -> str:
    if _has_agreed(visit) is False and visit.opened != "consent":
        return endings.show(app, "declined", visit)
    texts = app.words.consent
    with markup.page(texts.title, texts.lead):
        st.html(markup.points([*texts.points, texts.counts]) + markup.paragraph(texts.contact))
        with st.container(key="around", horizontal=True):
            agreed = forward(texts.agree, key="agree")
            declined = st.button(label(texts.decline), key="decline")
    if agreed or declined:
        visit.open("")
        words = {"language": app.words.language, "wording": content_id("consent", texts.model_dump())}
        state.note_progress(app, visit, "consent", {"agreed": agreed, **words})
        st.rerun()
    return "consent"


# Background.


def _ask_background(app: App, visit: Visit) -> str:
    texts = app.words.background
    with markup.page(texts.title, texts.lead):
        answers = _ask("background", texts.questions, texts.button)
    if answers is not None:
        state.note_progress(app, visit, "background", answers)
        st.rerun()
    return "background"


def _ask(key: str, questions: Sequence[FormQuestion], button: str) -> dict[str, str] | None:
    """Ask questions; once the button is pressed and all are answered, return the answers by name.

    Options have names, but only their words reach the browser.
    """
    chosen: dict[str, str | None] = {}
    with st.form(key, border=False):
        for question in questions:
            text = label(question.ask)
            name = f"{key}-{question.name}"
            if question.answers:
                words = {answer: label(text) for answer, text in question.answers.items()}
                chosen[question.name] = st.radio(
                    text, list(words), format_func=words.__getitem__, key=name, index=None
                )
            else:
                chosen[question.name] = st.text_input(text, key=name, max_chars=ANSWER_LENGTH)
        name = f"{key}-send"
        pressed = st.form_submit_button(label(button), key=name, type="primary", shortcut="Ctrl+Enter")
    answers = {name: answer.strip() for name, answer in chosen.items() if answer and answer.strip()}
    return answers if pressed else None


# Instructions.


def _show_instructions(app: App, visit: Visit) -> str:
    texts = app.words.instructions
    with markup.page(texts.title, texts.lead):
        if visit.progress["check"] and not visit.progress["check"][-1]["passed"]:
            st.html(markup.problem(app.words.check.wrong))
        st.html(markup.definitions(texts.questions, app.criteria) + markup.points(texts.points))
        if visit.progress["arrival"]:  # the rater came without an invite
            address = f"{(st.context.url or '').rstrip('/')}/?invite={visit.token}"
            st.html(markup.code(texts.link, address, lead=texts.link_lead))
        begun = visit.trail or visit.progress["instructions"]
        pressed = forward(texts.again if begun else texts.start, key="start")
    if pressed:
        visit.open("")
        if not begun:
            state.note_progress(app, visit, "instructions", {"language": app.words.language})
        st.rerun()
    return "instructions"


# Practice: pairs of our own, judged on the same panel, each with feedback.


def _unpractised(app: App, visit: Visit) -> list[PracticePair]:
    practised = {detail["pair"] for detail in visit.progress["practice"]}
    return [pair for pair in app.practice if pair.name not in practised]


def _practise(app: App, visit: Visit) -> str:
    pair = _unpractised(app, visit)[0]
    number = app.practice.index(pair) + 1
    panel.load(app.words)
    blind_pair = BlindPair.of(-number, pair.prompt, pair.a, pair.b)  # no presentation has a number below 1
    view = {"where": app.words.practice.position, "done": number - 1, "total": len(app.practice)}
    panel.show(app, visit, blind_pair, view, {"submit": _note_practice})
    return "pair"


def _note_practice(app: App, visit: Visit, submission: Submission) -> None:
    """Note the judgment. A press that arrives twice is noted once."""
    pairs = {-number: pair for number, pair in enumerate(app.practice, 1)}
    pair = pairs.get(submission.pair)
    if pair in _unpractised(app, visit):
        detail = {"pair": pair.name, "choices": submission.choices, "expected": pair.expected}
        state.note_progress(app, visit, "practice", detail)
        visit.clear_messages()
        visit.acknowledged = (submission.pair, submission.press)
        visit.open("practice")


def _show_feedback(app: App, visit: Visit) -> str:
    """Show the expected answers for the last practice pair."""
    words = app.words.panel
    texts = app.words.practice
    noted = visit.progress["practice"][-1]
    pair = next(pair for pair in app.practice if pair.name == noted["pair"])
    with markup.page(texts.feedback, texts.answers):
        for criterion in app.criteria:
            if criterion.name in pair.expected:
                chosen = noted["choices"][criterion.name]
                expected = pair.expected[criterion.name]
                sentence = texts.agreed if chosen == expected else texts.differed
                reason = fill(sentence, given=getattr(words, chosen), expected=getattr(words, expected))
                text = f"{reason} {pair.because[criterion.name]}"
                st.html(markup.remark(criterion.title, text, agreed=chosen == expected))
        if forward(texts.button if _unpractised(app, visit) else texts.last, key="next"):
            visit.open("")
            st.rerun()
        st.html(markup.quoted(words.prompt, pair.prompt))
        for letter, text in (("A", pair.a), ("B", pair.b)):
            st.html(markup.quoted(fill(words.side, letter=letter), text))
    return "feedback"


# The comprehension check.


def _check(app: App, visit: Visit) -> str:
    attempts = visit.progress["check"]
    texts = app.words.check
    name = f"check-{len(attempts)}"
    with markup.page(texts.title, texts.lead):
        st.button(label(texts.instructions), key="read", on_click=visit.open, args=("instructions",))
        # Another form for another attempt: nothing is chosen in it yet.
        answers = _ask(name, texts.questions, texts.button)
        if answers is not None and len(answers) < len(texts.questions):
            st.html(markup.problem(texts.missing))
        elif answers is not None:
            wrong = [
                question.name for question in texts.questions if answers[question.name] != question.right
            ]
            detail = {"attempt": len(attempts) + 1, "answers": answers, "wrong": wrong, "passed": not wrong}
            visit.open("instructions" if wrong else "")
            state.note_progress(app, visit, "check", detail)
            st.rerun()
    return name
