"""Show the pages before the first pair: consent, background, instructions, practice and check.

Each answer is saved as a note in the store before the next page is shown. So a rater who comes back, in any
browser, is not asked again.
"""

from collections.abc import Sequence

import streamlit as st

from annotation_app import endings, markup, panel, state
from annotation_app.markup import escape_label, show_forward_button
from annotation_app.panel import Submission
from annotation_app.state import App, Visit
from guard_eval.records import BlindPair, make_content_id
from guard_eval.store.notes import CHECK_ATTEMPTS
from guard_eval.study.wording import FormQuestion, PracticePair, fill_placeholders

ANSWER_LENGTH = 300
"""The most characters of an answer in the rater's own words."""


def show_next_page(app: App, visit: Visit) -> str | None:  # noqa: PLR0911 (a page each)
    """Show the page that is due before the next pair, and return the page's name; None if no page is due.

    A rater with verdicts still sees the consent and background pages if they were switched on later, but gets
    no practice and no check.
    """
    pages = app.settings.pages
    notes = visit.progress
    begun = bool(visit.trail)
    passed = any(attempt["passed"] for attempt in notes["check"])
    unchecked = pages.check and not begun and not passed
    if pages.consent and not _has_agreed(visit):
        return _show_consent(app, visit)
    if unchecked and len(notes["check"]) >= CHECK_ATTEMPTS:
        return endings.show_ending(app, "screened_out", visit)
    if pages.background and not notes["background"]:
        return _show_background(app, visit)
    if visit.opened == "instructions" or not (begun or notes["instructions"]):
        return _show_instructions(app, visit)
    if pages.practice and visit.opened == "practice":
        return _show_feedback(app, visit)
    if pages.practice and not begun and _list_remaining_practice_pairs(app, visit):
        return _show_practice(app, visit)
    return _show_check(app, visit) if unchecked else None


# Consent.


def _has_agreed(visit: Visit) -> bool | None:
    """Return the rater's last answer on the consent page; None before the first answer."""
    consents = visit.progress["consent"]
    return consents[-1]["agreed"] if consents else None


def _show_consent(app: App, visit: Visit) -> str:
    if _has_agreed(visit) is False and visit.opened != "consent":
        return endings.show_ending(app, "declined", visit)
    texts = app.words.consent
    with markup.show_page(texts.title, texts.lead):
        st.html(markup.format_points([*texts.points, texts.counts]) + markup.format_paragraph(texts.contact))
        with st.container(key="around", horizontal=True):
            agreed = show_forward_button(texts.agree, key="agree")
            declined = st.button(escape_label(texts.decline), key="decline")
    if agreed or declined:
        words = {"language": app.words.language, "wording": make_content_id("consent", texts.model_dump())}
        state.note_progress(app, visit, "consent", {"agreed": agreed, **words})
        visit.open_page("")
        st.rerun()
    return "consent"


# Background.


def _show_background(app: App, visit: Visit) -> str:
    texts = app.words.background
    with markup.show_page(texts.title, texts.lead):
        answers = _ask_questions("background", texts.questions, texts.button)
    if answers is not None:
        state.note_progress(app, visit, "background", answers)
        st.rerun()
    return "background"


def _ask_questions(key: str, questions: Sequence[FormQuestion], button: str) -> dict[str, str] | None:
    """Ask questions. After the button is pressed, return the answers that are not empty, by name.

    The names of options stay on the server; the browser gets only their words.
    """
    chosen: dict[str, str | None] = {}
    with st.form(key, border=False):
        for question in questions:
            text = escape_label(question.ask)
            name = f"{key}-{question.name}"
            if question.answers:
                words = {answer: escape_label(text) for answer, text in question.answers.items()}
                chosen[question.name] = st.radio(
                    text, list(words), format_func=words.__getitem__, key=name, index=None
                )
            else:
                chosen[question.name] = st.text_input(text, key=name, max_chars=ANSWER_LENGTH)
        name = f"{key}-send"
        pressed = st.form_submit_button(escape_label(button), key=name, type="primary", shortcut="Ctrl+Enter")
    if not pressed:
        return None
    answers = {name: (answer or "").strip() for name, answer in chosen.items()}
    return {name: answer for name, answer in answers.items() if answer}


# Instructions.


def _show_instructions(app: App, visit: Visit) -> str:
    texts = app.words.instructions
    with markup.show_page(texts.title, texts.lead):
        attempts = visit.progress["check"]
        if attempts and not attempts[-1]["passed"]:
            questions = app.words.check.questions
            wrong = " ".join(f"“{row.ask}”" for row in questions if row.name in attempts[-1]["wrong"])
            st.html(markup.format_problem(fill_placeholders(app.words.check.wrong, questions=wrong)))
        rubric = markup.format_rubric(texts.questions, app.criteria)
        st.html(rubric + markup.format_points(texts.points))
        if visit.progress["arrival"]:  # the rater came without an invite
            app_url = (st.context.url or "").rstrip("/")
            address = f"{app_url}/?invite={visit.token}"
            st.html(markup.format_code(texts.link, address, lead=texts.link_lead))
        begun = visit.trail or visit.progress["instructions"]
        pressed = show_forward_button(texts.again if begun else texts.start, key="start")
    if pressed:
        if not begun:
            state.note_progress(app, visit, "instructions", {"language": app.words.language})
        visit.open_page("")
        st.rerun()
    return "instructions"


# Practice: pairs with known answers, rated on the same panel. The rater gets feedback on each pair.


def _list_remaining_practice_pairs(app: App, visit: Visit) -> list[PracticePair]:
    practised = {detail["pair"] for detail in visit.progress["practice"]}
    return [pair for pair in app.practice if pair.name not in practised]


def _show_practice(app: App, visit: Visit) -> str:
    pair = _list_remaining_practice_pairs(app, visit)[0]
    number = app.practice.index(pair) + 1
    panel.load_panel(app.words)
    blind_pair = BlindPair.from_texts(
        -number, pair.prompt, pair.a, pair.b
    )  # no presentation has a number below 1
    view = {"where": app.words.practice.position, "done": number - 1, "total": len(app.practice)}
    panel.show_pair(app, visit, blind_pair, view, {"submit": _note_practice})
    return "pair"


def _note_practice(app: App, visit: Visit, submission: Submission) -> None:
    """Store a judgment as a note. A press that arrives twice is stored once."""
    pairs = {-number: pair for number, pair in enumerate(app.practice, 1)}
    pair = pairs.get(submission.pair)
    if pair in _list_remaining_practice_pairs(app, visit):
        detail = {"pair": pair.name, "choices": submission.choices, "expected": pair.expected}
        state.note_progress(app, visit, "practice", detail)
        visit.clear_messages()
        visit.acknowledged = (submission.pair, submission.press)
        visit.open_page("practice")


def _show_feedback(app: App, visit: Visit) -> str:
    """Show the expected answers for the last practice pair."""
    words = app.words.panel
    texts = app.words.practice
    noted = visit.progress["practice"][-1]
    pair = next(pair for pair in app.practice if pair.name == noted["pair"])
    with markup.show_page(texts.feedback, texts.answers):
        for criterion in app.criteria:
            name = criterion.name
            if name not in pair.expected:
                continue
            chosen = noted["choices"][name]
            expected = pair.expected[name]
            agreed = chosen == expected
            sentence = texts.agreed if agreed else texts.differed
            result = fill_placeholders(
                sentence, given=getattr(words, chosen), expected=getattr(words, expected)
            )
            st.html(markup.format_feedback(criterion.title, f"{result} {pair.because[name]}", agreed=agreed))
        if show_forward_button(
            texts.button if _list_remaining_practice_pairs(app, visit) else texts.last, key="next"
        ):
            visit.open_page("")
            st.rerun()
        st.html(markup.format_text(words.prompt, pair.prompt))
        for letter, text in (("A", pair.a), ("B", pair.b)):
            st.html(markup.format_text(fill_placeholders(words.side, letter=letter), text))
    return "feedback"


# The comprehension check.


def _show_check(app: App, visit: Visit) -> str:
    attempts = visit.progress["check"]
    texts = app.words.check
    name = f"check-{len(attempts)}"
    with markup.show_page(texts.title, texts.lead):
        st.button(
            escape_label(texts.instructions), key="read", on_click=visit.open_page, args=("instructions",)
        )
        # Each attempt gets a new form, in which nothing is chosen yet.
        answers = _ask_questions(name, texts.questions, texts.button)
        if answers is not None and len(answers) < len(texts.questions):
            st.html(markup.format_problem(texts.missing))
        elif answers is not None:
            right = {question.name: question.right for question in texts.questions}
            wrong = [name for name in right if answers[name] != right[name]]
            passed = not wrong
            detail = {"attempt": len(attempts) + 1, "answers": answers, "wrong": wrong, "passed": passed}
            state.note_progress(app, visit, "check", detail)
            visit.open_page("instructions" if wrong else "")
            st.rerun()
    return name
