"""What was asked before the first pair and answered, and which page comes next.

Every answer is a note in the store, on disk before the next page is shown: a rater who comes back, in this
browser or another one, is not asked again. What is noted already is not noted twice, for a button is easily
pressed twice. Nothing here uses Streamlit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from annotation_app.wording import PracticePair, Wording
from guard_eval.records import Choice, NoteKind, Rater, content_id
from guard_eval.rubric import Criterion
from guard_eval.store import Store
from guard_eval.study.annotation_settings import Pages

Step = Literal["consent", "declined", "background", "instructions", "practice", "check", "failed"]
"""A page before the first pair."""

ATTEMPTS = 2
"""How often the comprehension check may be tried."""


@dataclass(frozen=True, kw_only=True)
class Intake:
    """What the store holds of a rater besides verdicts.

    Attributes:
        agreed: Whether consent was given; None where it was not asked for yet.
        background: Whether the questions on the rater were answered, or left open.
        practised: Names of the practice pairs that were judged.
        attempts: How often the comprehension check was tried.
        passed: Whether it was passed.
        finished: How many pairs were rated when the last thanks were shown.
        arrivals: The arrivals that were noted.
    """

    agreed: bool | None = None
    background: bool = False
    practised: frozenset[str] = frozenset()
    attempts: int = 0
    passed: bool = False
    finished: int = 0
    arrivals: frozenset[str] = frozenset()

    @property
    def begun(self) -> bool:
        """Return whether the instructions were left at least once."""
        return bool(self.practised or self.attempts)


def read(store: Store, rater: Rater) -> Intake:
    """Return what is noted of a rater."""
    notes: dict[NoteKind, list[str]] = {}
    for note in store.notes(rater=rater):
        notes.setdefault(note.kind, []).append(note.detail)
    consents = [json.loads(detail) for detail in notes.get("consent", [])]
    checks = [json.loads(detail) for detail in notes.get("check", [])]
    finished = [json.loads(detail) for detail in notes.get("finished", [])]
    return Intake(
        agreed=consents[-1]["agreed"] if consents else None,
        background="background" in notes,
        practised=frozenset(json.loads(detail)["pair"] for detail in notes.get("practice", [])),
        attempts=len(checks),
        passed=any(check["passed"] for check in checks),
        finished=finished[-1]["rated"] if finished else 0,
        arrivals=frozenset(notes.get("arrival", [])),
    )


def next_step(
    pages: Pages, intake: Intake, *, practice: tuple[PracticePair, ...], started: bool, rated: int
) -> Step | None:
    """Return which page comes before the next pair; None when the pair may come.

    Who has rated already is asked for consent and background where these were switched on later, and spared
    the practice and the check.
    """
    if pages.consent and not intake.agreed:
        return "consent" if intake.agreed is None else "declined"
    tested = pages.check and not rated and not intake.passed
    if tested and intake.attempts >= ATTEMPTS:
        return "failed"
    if pages.background and not intake.background:
        return "background"
    if not started:
        return "instructions"
    if pages.practice and not rated and unpractised(practice, intake):
        return "practice"
    return "check" if tested else None


def practice_pairs(wording: Wording, criteria: tuple[Criterion, ...]) -> tuple[PracticePair, ...]:
    """Return the practice pairs that have an answer to one of the study's questions."""
    names = {criterion.name for criterion in criteria}
    return tuple(pair for pair in wording.practice.pairs if names & pair.expected.keys())


def unpractised(practice: tuple[PracticePair, ...], intake: Intake) -> list[PracticePair]:
    """Return the practice pairs that are still to be judged."""
    return [pair for pair in practice if pair.name not in intake.practised]


def note_arrival(store: Store, rater: Rater, intake: Intake, arrival: Mapping[str, str]) -> None:
    """Note how a rater arrived, once for each way."""
    detail = _json(arrival)
    if detail not in intake.arrivals:
        store.note(rater, "arrival", detail)


def note_consent(store: Store, rater: Rater, wording: Wording, *, agreed: bool) -> None:
    """Note whether a rater agreed, and to which wording."""
    if read(store, rater).agreed is agreed:
        return
    words = content_id("consent", wording.consent.model_dump(mode="json"))
    store.note(rater, "consent", _json({"agreed": agreed, "language": wording.language, "wording": words}))


def note_background(store: Store, rater: Rater, answers: Mapping[str, str]) -> None:
    """Note a rater's answers on themselves; a question that was left open is left out."""
    if not read(store, rater).background:
        store.note(rater, "background", _json(answers))


def note_practice(store: Store, rater: Rater, pair: PracticePair, choices: Mapping[str, Choice]) -> None:
    """Note how a practice pair was judged."""
    if pair.name not in read(store, rater).practised:
        detail = {"pair": pair.name, "choices": choices, "expected": pair.expected}
        store.note(rater, "practice", _json(detail))


def note_check(
    store: Store, rater: Rater, wording: Wording, answers: Mapping[str, str], *, before: int
) -> tuple[str, ...]:
    """Note an attempt at the comprehension check, and return the names of what was answered wrongly.

    `before` is the number of attempts when the page was shown. Where there are more by now, from a second
    press or in another window, this one is not noted.
    """
    questions = wording.check.questions
    wrong = tuple(question.name for question in questions if answers.get(question.name) != question.right)
    if read(store, rater).attempts == before < ATTEMPTS:
        detail = {"attempt": before + 1, "answers": answers, "wrong": wrong, "passed": not wrong}
        store.note(rater, "check", _json(detail))
    return wrong


def note_finished(store: Store, rater: Rater, intake: Intake, rated: int) -> Intake:
    """Note that nothing was left for a rater, once for the same number of pairs."""
    if rated in {0, intake.finished}:
        return intake
    store.note(rater, "finished", _json({"rated": rated}))
    return replace(intake, finished=rated)


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
