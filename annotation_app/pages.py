"""Show the pages around the rating: before the first pair, while a rater waits, and at the end of a visit.

Each answer is saved as a note in the store before the next page is shown. So a rater who comes back, in any
browser, is not asked again. Each ending has its completion code for the recruiting platform:

| ending | when | code |
|---|---|---|
| completed | the rater has reached the quota, or has seen all pairs | `codes.completed` |
| no_place | no pair was open before the consent page | `codes.no_place` |
| ran_out | the rater was let in, but no pair was open when the first pair was due | `codes.ran_out` |
| screened_out | the rater failed the comprehension check twice | `codes.screened_out` |
| declined | the rater did not agree to take part | `codes.declined` |
| ended | the rater was excluded or revoked | no code |

A code is sent to the browser only with the page of its ending.
"""

import time
from typing import Literal

import streamlit as st

from annotation_app import markup
from annotation_app.markup import (
    escape_label,
    format_bullet_list,
    format_pair_text,
    format_paragraph,
    format_rubric,
    show_copyable_code,
    show_feedback,
    show_forward_button,
    show_narrow_page,
    show_problem_message,
)
from annotation_app.rating import Submission, load_rating_panel, show_pair
from annotation_app.state import App, Visit, store_progress_note
from guard_eval.records import BlindPair, make_content_id
from guard_eval.store import handout, raters
from guard_eval.store.notes import CHECK_ATTEMPTS
from guard_eval.study.wording import PracticePair, Wording, fill_placeholders

Ending = Literal["completed", "no_place", "ran_out", "screened_out", "declined", "ended"]

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
    if pages.consent and not any(answer["agreed"] for answer in notes["consent"][-1:]):
        return _show_consent_page(app, visit)
    if unchecked and len(notes["check"]) >= CHECK_ATTEMPTS:
        return show_ending_page(app, "screened_out", visit)
    if pages.background and not notes["background"]:
        return _show_background_questions(app, visit)
    if visit.opened == "instructions" or not (begun or notes["instructions"]):
        return _show_instructions(app, visit)
    if pages.practice and visit.opened == "practice":
        return _show_practice_feedback(app, visit)
    if pages.practice and not begun and _list_remaining_practice_pairs(app, visit):
        return _show_practice_pair(app, visit)
    return _show_comprehension_check(app, visit) if unchecked else None


# Consent.


def _show_consent_page(app: App, visit: Visit) -> str:
    """Show the consent page to a rater who has not agreed, or the ending if the rater declined."""
    if visit.progress["consent"] and visit.opened != "consent":
        return show_ending_page(app, "declined", visit)
    texts = app.words.consent
    with show_narrow_page(texts.title, texts.lead):
        st.html(format_bullet_list([*texts.points, texts.counts]) + format_paragraph(texts.contact))
        with st.container(key="around", horizontal=True):
            agreed = show_forward_button(texts.agree, key="agree")
            declined = st.button(escape_label(texts.decline), key="decline")
    if agreed or declined:
        words = {"language": app.words.language, "wording": make_content_id("consent", texts.model_dump())}
        store_progress_note(app, visit, "consent", {"agreed": agreed, **words})
        visit.open_onboarding_page("")
        st.rerun()
    return "consent"


# Background.


def _show_background_questions(app: App, visit: Visit) -> str:
    """Show the questions about the rater."""
    texts = app.words.background
    with show_narrow_page(texts.title, texts.lead):
        answers = _show_question_form("background", texts)
    if answers is not None:
        store_progress_note(app, visit, "background", answers)
        st.rerun()
    return "background"


def _show_question_form(key: str, words: Wording) -> dict[str, str] | None:
    """Ask a page's questions. After the button is pressed, return the answers that are not empty, by name.

    The names of options stay on the server; the browser gets only their words.
    """
    answers: dict[str, str] = {}
    with st.form(key, border=False):
        for question in words.questions:
            text = escape_label(question.ask)
            name = f"{key}-{question.name}"
            if question.answers:
                labels = {answer: escape_label(text) for answer, text in question.answers.items()}
                answer = st.radio(text, list(labels), format_func=labels.__getitem__, key=name, index=None)
            else:
                answer = st.text_input(text, key=name, max_chars=ANSWER_LENGTH)
            answers[question.name] = (answer or "").strip()
        name = f"{key}-send"
        button = escape_label(words.button)
        pressed = st.form_submit_button(button, key=name, type="primary", shortcut="Ctrl+Enter")
    return {name: answer for name, answer in answers.items() if answer} if pressed else None


# Instructions.


def _show_instructions(app: App, visit: Visit) -> str:
    """Show the instructions, with a message if the rater failed the check."""
    texts = app.words.instructions
    with show_narrow_page(texts.title, texts.lead):
        attempts = visit.progress["check"]
        if attempts and not attempts[-1]["passed"]:
            questions = app.words.check.questions
            wrong = " ".join(f"“{row.ask}”" for row in questions if row.name in attempts[-1]["wrong"])
            show_problem_message(fill_placeholders(app.words.check.wrong, questions=wrong))
        rubric = format_rubric(texts.questions, app.criteria)
        st.html(rubric + format_bullet_list(texts.points))
        if visit.progress["arrival"]:  # the rater came without an invite
            app_url = (st.context.url or "").rstrip("/")
            address = f"{app_url}/?invite={visit.token}"
            show_copyable_code(texts.link, address, lead=texts.link_lead)
        begun = visit.trail or visit.progress["instructions"]
        pressed = show_forward_button(texts.again if begun else texts.start, key="start")
    if pressed:
        if not begun:
            store_progress_note(app, visit, "instructions", {"language": app.words.language})
        visit.open_onboarding_page("")
        st.rerun()
    return "instructions"


# Practice: pairs with known answers, rated on the same panel. The rater gets feedback on each pair.


def _list_remaining_practice_pairs(app: App, visit: Visit) -> list[PracticePair]:
    """Return the practice pairs that the rater has not rated."""
    practised = {detail["pair"] for detail in visit.progress["practice"]}
    return [pair for pair in app.practice if pair.name not in practised]


def _show_practice_pair(app: App, visit: Visit) -> str:
    """Show the next practice pair."""
    pair = _list_remaining_practice_pairs(app, visit)[0]
    number = app.practice.index(pair) + 1
    load_rating_panel(app.words)
    # No presentation has a number below 1.
    blind_pair = BlindPair.from_texts(-number, pair.prompt, pair.a, pair.b)
    view = {"where": app.words.practice.position, "done": number - 1, "total": len(app.practice)}
    show_pair(app, visit, blind_pair, view, _store_practice_answer)
    return "pair"


def _store_practice_answer(app: App, visit: Visit, submission: Submission) -> None:
    """Store the answers to a practice pair as a note, only once if the press of the button arrives twice."""
    pair = dict(enumerate(app.practice, start=1)).get(-submission.pair)
    if pair in _list_remaining_practice_pairs(app, visit):
        detail = {"pair": pair.name, "choices": submission.choices, "expected": pair.expected}
        store_progress_note(app, visit, "practice", detail)
        visit.clear_messages()
        visit.acknowledged = (submission.pair, submission.press)
        visit.open_onboarding_page("practice")


def _show_practice_feedback(app: App, visit: Visit) -> str:
    """Show the expected answers for the last practice pair."""
    words = app.words.panel
    texts = app.words.practice
    noted = visit.progress["practice"][-1]
    pair = next(pair for pair in app.practice if pair.name == noted["pair"])
    with show_narrow_page(texts.feedback, texts.answers):
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
            show_feedback(criterion.title, f"{result} {pair.because[name]}", agreed=agreed)
        if show_forward_button(
            texts.button if _list_remaining_practice_pairs(app, visit) else texts.last, key="next"
        ):
            visit.open_onboarding_page("")
            st.rerun()
        st.html(format_pair_text(words.prompt, pair.prompt))
        for letter, text in (("A", pair.a), ("B", pair.b)):
            st.html(format_pair_text(fill_placeholders(words.side, letter=letter), text))
    return "feedback"


# The comprehension check.


def _show_comprehension_check(app: App, visit: Visit) -> str:
    """Show the comprehension check."""
    attempts = visit.progress["check"]
    texts = app.words.check
    name = f"check-{len(attempts)}"
    with show_narrow_page(texts.title, texts.lead):
        st.button(
            escape_label(texts.instructions),
            key="read",
            on_click=visit.open_onboarding_page,
            args=("instructions",),
        )
        # Each attempt gets a new form, in which nothing is chosen yet.
        answers = _show_question_form(name, texts)
        if answers is not None and len(answers) < len(texts.questions):
            show_problem_message(texts.missing)
        elif answers is not None:
            wrong = [item.name for item in texts.questions if answers[item.name] != item.right]
            detail = {"answers": answers, "wrong": wrong, "passed": not wrong}
            store_progress_note(app, visit, "check", detail)
            visit.open_onboarding_page("instructions" if wrong else "")
            st.rerun()
    return name


# The end of a visit.


def show_ending_page(app: App, ending: Ending, visit: Visit | None = None) -> str:
    """Show the page of an ending; return the name of the page.

    An excluded or revoked rater sees on every page that the study is over, and gets no code: a person who
    returned the study after a few pairs has not completed it.
    """
    if visit and raters.is_revoked_or_excluded(app.store, visit.rater):
        ending = "ended"
    recruitment = app.settings.recruitment
    code = None if ending == "ended" else recruitment.codes.get(ending)
    texts = getattr(app.words, ending)
    rated = len(visit.trail) if visit else 0
    if visit and ending == "completed" and {"rated": rated} not in visit.progress["finished"]:
        store_progress_note(app, visit, "finished", {"rated": rated})
    with show_narrow_page(texts.title, fill_placeholders(texts.lead, count=rated)):
        if code is not None:
            show_copyable_code(app.words.completed.code, code)
            if recruitment.prolific:
                address = f"https://app.prolific.com/submissions/complete?cc={code}"
                st.link_button(escape_label(app.words.completed.link), address, type="primary")
        if ending == "no_place":
            st.button(escape_label(texts.button), key="look-again")
        elif visit and ending == "declined":
            st.button(
                escape_label(texts.button),
                key="reconsider",
                on_click=visit.open_onboarding_page,
                args=("consent",),
            )
        elif visit and rated and ending == "completed":
            back = escape_label(app.words.panel.back)
            st.button(back, key="back-from-end", on_click=visit.go_to_pair, args=(visit.at - 1,))
    return ending


def show_waiting_or_ending_page(app: App, visit: Visit) -> str:
    """Show the end to a rater without a pair, or a waiting page while other raters have pairs open."""
    if handout.find_end_of_rater_wait(app.store, visit.rater, app.plan) is None:
        return show_ending_page(app, "completed" if visit.trail else "ran_out", visit)
    texts = app.words.waiting
    minutes = max(1, round(app.plan.lease.total_seconds() / 60))
    with show_narrow_page(texts.title, fill_placeholders(texts.lead, minutes=minutes)):
        st.button(escape_label(texts.button), key="more", type="primary")
    markup.reload_page_periodically(time.monotonic())
    return "waiting"
