"""What the owner of a running study sees, as values; a `StudySnapshot` is what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.stats.agreement import Coefficient
from analysis.stats.intervals import Interval
from guard_eval.records import Choice, Pair, RaterKind
from guard_eval.store import CheckRow, HistoryRow, Note, RaterProgress

Flag = Literal["fast", "same answer", "gold", "one side", "failed the check"]
"""Why a rater should be looked at; what each means stands in `raters`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StudySnapshot:
    """What was read from the store.

    Attributes:
        history: Every revision of every verdict.
        checks: How raters did on gold pairs and repeats.
        notes: What was noted of them.
        raters: All of them.
        pairs: The study's.
        study_hash: The settings' hash when the first verdict came.
    """

    history: Sequence[HistoryRow]
    checks: Sequence[CheckRow]
    notes: Sequence[Note]
    raters: Sequence[RaterProgress]
    pairs: Sequence[Pair]
    study_hash: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The same answer many times in a row.

    Attributes:
        criterion: On which criterion.
        position: The letter that was pressed, or `tie`.
        length: How many pairs in a row.
        chance: At most so often one who presses like the others, pair by pair anew, has so rare a run of any
            answer on any criterion.
    """

    criterion: str
    position: Choice
    length: int
    chance: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterLine:
    """One rater.

    Attributes:
        rater: The name.
        state: revoked, excluded, declined (no consent), finished (nothing was left), or nothing of these.
        rated: The study's pairs this rater has rated.
        handed_out: Those it was shown.
        seconds: Median seconds of active time a pair took; None where not recorded.
        total_seconds: Active time in all.
        last: When the last verdict was saved, ISO 8601, UTC.
        ties: The share of ties among its verdicts on the study's pairs; None without verdicts.
        first: How often A won among the pairs on which its answers lean to one side, with Wilson's interval.
        same: How often another rater said the same of the same pair on the same criterion.
        compared: Of so many comparisons.
        gold: Answers to gold pairs.
        gold_failed: Those that were wrong.
        repeats: Answers to pairs shown again.
        repeats_changed: Those that differ from the first answer.
        fast: Pairs answered in less time than it takes to read them.
        timed: Of so many pairs whose time is known.
        run: The least likely run of the same answer; None without verdicts.
        comments: Pairs with a comment.
        problems: Pairs with a reported problem.
        flags: Why to look at this rater.
    """

    rater: str
    state: str
    rated: int
    handed_out: int
    seconds: float | None
    total_seconds: float
    last: str | None
    ties: float | None
    first: Interval
    same: int
    compared: int
    gold: int
    gold_failed: int
    repeats: int
    repeats_changed: int
    fast: int
    timed: int
    run: Run | None
    comments: int
    problems: int
    flags: tuple[Flag, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CriterionLine:
    """How far raters agree on a criterion of a comparison, and whether they lean to one side.

    Attributes:
        method_a: The comparison's first method.
        method_b: Its second.
        criterion: The criterion.
        verdicts: How many count.
        ties: The share of ties among them.
        agreement: Raw agreement and Fleiss' κ, as in the report.
        ac1: Gwet's AC1, which is high where nearly all verdicts are the same and κ is low for that reason.
        first: The share of A among verdicts that are no ties, with Wilson's interval.
    """

    method_a: str
    method_b: str
    criterion: str
    verdicts: int
    ties: float
    agreement: Coefficient
    ac1: Coefficient
    first: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class PairLine:
    """One pair.

    Attributes:
        pair_id: `Pair.id`.
        dataset: Its dataset.
        prompt_id: Its prompt.
        method_a: The first method.
        method_b: The second.
        rated: How many ratings count.
        a_first: In how many of them the first method was shown as A.
        comments: How many raters commented on it.
        problems: How many reported a problem.
    """

    pair_id: str
    dataset: str
    prompt_id: str
    method_a: str
    method_b: str
    rated: int
    a_first: int
    comments: int
    problems: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """What a rater wrote about a pair; `kind` is comment or problem."""

    rater: str
    kind: str
    pair_id: str
    prompt_id: str
    text: str
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A recorded decision on a rater; `kind` is exclude or include."""

    rater: str
    kind: str
    by: str
    reason: str
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """A running study.

    Attributes:
        rater_kind: Whom it is about: people, or simulated raters where there are no people.
        wanted: Ratings that are wanted: pairs times ratings a pair.
        counted: Those that are there and count.
        surplus: Ratings that came too late to count.
        excluded: Ratings of raters that are excluded.
        slots: Ratings that are wanted of each pair.
        filled: How many pairs have 0, 1, … `slots` ratings.
        seconds: Median seconds of active time a pair took; None where not recorded.
        seconds_left: What is wanting, at that time a pair.
        changed_settings: study.toml is not what it was when the first verdict came.
        criteria: By comparison and criterion.
        raters: In the order they were added.
        pairs: In position order.
        remarks: Comments and problems, newest first.
        decisions: Exclusions and their withdrawals, oldest first.
    """

    rater_kind: RaterKind
    wanted: int
    counted: int
    surplus: int
    excluded: int
    slots: int
    filled: tuple[int, ...]
    seconds: float | None
    seconds_left: float | None
    changed_settings: bool
    criteria: tuple[CriterionLine, ...]
    raters: tuple[RaterLine, ...]
    pairs: tuple[PairLine, ...]
    remarks: tuple[Remark, ...]
    decisions: tuple[Decision, ...]
