"""What the store gives to the report, the export and the study's owner: rows with the methods' names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from guard_eval.records import Choice, RaterKind, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class TidyRow:
    """One current verdict with the names restored.

    Attributes:
        pair_id: `Pair.id`.
        dataset: The pair's dataset.
        prompt_id: Its prompt, which pairs of several comparisons share.
        method_a: The first method of the comparison, whichever side it was shown on.
        method_b: The second method.
        rater: The rater's name.
        criterion: A criterion of the rubric.
        verdict: The better method's name, or `tie`.
        rater_kind: person, model or simulated; no statistic pools kinds.
        presentation: `Presentation.id`.
        slot: Which of the pair's planned showings it was.
        shown_first: The method whose text was shown as A.
        seconds: From the pair's appearance to the submit, where known.
        active_seconds: Those of them in focus and not idle, where known.
        at: When it was saved, ISO 8601, UTC.
        length_a: Length of `method_a`'s text in characters.
        length_b: Length of `method_b`'s text in characters.
        surplus: The slot was handed out again before this verdict came.
        position: The letter that was pressed, or `tie`.
        excluded: The rater is excluded; such rows come only where they are wanted.
    """

    pair_id: str
    dataset: str
    prompt_id: str
    method_a: str
    method_b: str
    rater: str
    criterion: str
    verdict: str
    rater_kind: RaterKind
    presentation: int
    slot: int
    shown_first: str
    seconds: float | None
    active_seconds: float | None
    at: str
    length_a: int
    length_b: int
    surplus: bool
    position: Choice
    excluded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryRow:
    """One revision of one verdict with the names restored; gold pairs and repeats are among them.

    Attributes:
        presentation: `Presentation.id`.
        pair_id: `Pair.id`.
        dataset: The pair's dataset.
        method_a: The first method of the comparison, whichever side it was shown on.
        method_b: The second method.
        rater: The rater's name.
        rater_kind: person, model or simulated.
        role: Why the pair was shown: study, gold or repeat.
        slot: Which of the pair's planned showings it was.
        shown_first: The method whose text was shown as A.
        criterion: A criterion of the rubric.
        revision: 0 for the first choice, then 1, 2, …; the highest is current.
        position: The letter that was pressed, or `tie`.
        verdict: The better method's name, or `tie`.
        seconds: From the pair's appearance to the submit, where known.
        active_seconds: Those of them in focus and not idle, where known.
        handed_out: When the pair was handed out, ISO 8601, UTC.
        at: When this revision was saved, ISO 8601, UTC.
        surplus: The slot was handed out again before the first verdict came.
        excluded: The rater is excluded.
    """

    presentation: int
    pair_id: str
    dataset: str
    method_a: str
    method_b: str
    rater: str
    rater_kind: RaterKind
    role: Role
    slot: int
    shown_first: str
    criterion: str
    revision: int
    position: Choice
    verdict: str
    seconds: float | None
    active_seconds: float | None
    handed_out: str
    at: str
    surplus: bool
    excluded: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRow:
    """How a rater did on one criterion of a gold pair or of a pair shown twice.

    Attributes:
        rater: The rater's name.
        rater_kind: person, model or simulated.
        check: What it was.
        presentation: That of the gold pair, or of the second showing.
        pair_id: `Pair.id`.
        criterion: A criterion of the rubric.
        expected: The better method of a gold pair; for a repeat the rater's first choice, a method or `tie`.
        given: What the rater chose, likewise.
        passed: Both are the same.
        at: When it was saved, ISO 8601, UTC.
    """

    rater: str
    rater_kind: RaterKind
    check: Literal["gold", "repeat"]
    presentation: int
    pair_id: str
    criterion: str
    expected: str
    given: str
    passed: bool
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterBalance:
    """How often a rater saw a method on either side, in the verdicts that count."""

    rater: str
    rater_kind: RaterKind
    method: str
    first: int
    second: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PairBalance:
    """How often either text of a pair was shown as A, in the verdicts of one kind of rater that count.

    Models are one kind here, though each has slots of its own.
    """

    pair_id: str
    rater_kind: RaterKind
    method_a: str
    method_b: str
    a_first: int
    b_first: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """On which side the methods stood.

    Attributes:
        raters: By rater's name, then method.
        pairs: By pair's position, then kind of rater.
    """

    raters: tuple[RaterBalance, ...]
    pairs: tuple[PairBalance, ...]
