"""What the owner of a running study sees: its totals, criteria, pairs, remarks and decisions."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.analyses.agreement import RatingCounts, fleiss_kappa, gwet_ac1, raw_agreement
from analysis.analyses.win_share import unit_proportion
from guard_eval.cli.overview.rater_lines import RaterLine, rater_lines
from guard_eval.cli.overview.ratings import PairRating, StudySnapshot, ratings
from guard_eval.estimate import Estimate
from guard_eval.records import TIE, Pair, RaterKind


@dataclass(frozen=True, kw_only=True, slots=True)
class CriterionLine:
    """How far raters agree on a criterion of a comparison, and whether they lean to one side.

    Attributes:
        verdicts: How many count.
        ties: The share of ties among them.
        raw: How often two raters of a pair say the same.
        agreement: Fleiss' κ, as in the report.
        ac1: Gwet's AC1, which is high where nearly all verdicts are the same and κ is low for that reason.
        first: The share of A among verdicts that are no ties, with Wilson's interval.
    """

    method_a: str
    method_b: str
    criterion: str
    verdicts: int
    ties: float
    raw: float | None
    agreement: Estimate
    ac1: Estimate
    first: Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class PairLine:
    """One pair.

    Attributes:
        rated: How many ratings count.
        a_first: In how many of them the first method was shown as A.
        comments: How many raters commented on it.
        problems: How many reported a problem.
        skipped: How many could not judge it.
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
    skipped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """What a rater wrote about a pair; `kind` is comment, problem or skip."""

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
        remarks: Comments, problems and what was skipped, newest first.
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


def view(
    snapshot: StudySnapshot, *, slots: int, declared: str | None = None, level: float = 0.95
) -> Overview:
    """Return what the owner sees of a study.

    Args:
        snapshot: Its state.
        slots: Ratings that are wanted of each pair.
        declared: People's part of `Study.declared`, to be compared with that of the first verdict.
        level: Confidence level of the intervals.
    """
    kinds = {rater.kind for rater in snapshot.raters}
    kind: RaterKind = "simulated" if "simulated" in kinds and "person" not in kinds else "person"
    done = ratings(snapshot, kind)
    study = [rating for rating in done if rating.role == "study"]
    counted = [rating for rating in study if rating.counts]
    per_pair = Counter(rating.pair_id for rating in counted)
    wanted = len(snapshot.pairs) * slots
    filled = Counter(min(slots, per_pair[pair.id]) for pair in snapshot.pairs)
    seconds = _median([rating.active_seconds for rating in study])
    missing = sum(max(0, slots - per_pair[pair.id]) for pair in snapshot.pairs)
    remarks = _remarks(snapshot, done)
    written = Counter((remark.rater, remark.kind) for remark in remarks)
    return Overview(
        rater_kind=kind,
        wanted=wanted,
        counted=len(counted),
        surplus=sum(rating.surplus for rating in study),
        excluded=sum(rating.excluded and not rating.surplus for rating in study),
        slots=slots,
        filled=tuple(filled[number] for number in range(slots + 1)),
        seconds=seconds,
        seconds_left=None if seconds is None else missing * seconds,
        changed_settings=None not in {snapshot.declared, declared} and snapshot.declared != declared,
        criteria=_criterion_lines(counted, snapshot.pairs, level=level),
        raters=rater_lines(snapshot, done, written, kind=kind, level=level),
        pairs=_pair_lines(snapshot, counted, remarks),
        remarks=remarks,
        decisions=_decisions(snapshot, kind),
    )


def _median(values: Sequence[float | None]) -> float | None:
    """Return the median of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _pair_lines(
    snapshot: StudySnapshot, counted: Sequence[PairRating], remarks: Sequence[Remark]
) -> tuple[PairLine, ...]:
    rated = Counter(rating.pair_id for rating in counted)
    a_first = Counter(rating.pair_id for rating in counted if rating.a_first)
    written = Counter((remark.pair_id, remark.kind) for remark in remarks)
    return tuple(
        PairLine(
            pair_id=pair.id,
            dataset=pair.dataset,
            prompt_id=pair.prompt_id,
            method_a=pair.method_a,
            method_b=pair.method_b,
            rated=rated[pair.id],
            a_first=a_first[pair.id],
            comments=written[pair.id, "comment"],
            problems=written[pair.id, "problem"],
            skipped=written[pair.id, "skip"],
        )
        for pair in snapshot.pairs
    )


def _remarks(snapshot: StudySnapshot, done: Sequence[PairRating]) -> tuple[Remark, ...]:
    """Return the remarks that stand: of those on one showing the last, unless it was taken back."""
    shown = {rating.presentation: rating.pair_id for rating in done}
    shown |= {
        skip.presentation: skip.pair_id for skip in snapshot.skips if skip.presentation and skip.pair_id
    }
    prompts = {pair.id: pair.prompt_id for pair in snapshot.pairs}
    standing: dict[tuple[int, str], Remark] = {}
    for note in snapshot.notes:
        if note.kind not in {"comment", "problem", "skip"} or note.presentation not in shown:
            continue
        pair_id = shown[note.presentation]
        # Put in again, so that the order is that of the last word.
        standing.pop((note.presentation, note.kind), None)
        standing[note.presentation, note.kind] = Remark(
            rater=note.rater,
            kind=note.kind,
            pair_id=pair_id,
            prompt_id=prompts.get(pair_id, ""),
            text=note.detail,
            at=note.at.isoformat(timespec="seconds"),
        )
    return tuple(remark for remark in reversed(standing.values()) if remark.text)


def _decisions(snapshot: StudySnapshot, kind: RaterKind) -> tuple[Decision, ...]:
    names = {rater.name for rater in snapshot.raters if rater.kind == kind}
    found = []
    for note in snapshot.notes:
        if note.kind in {"exclude", "include"} and note.rater in names:
            detail = json.loads(note.detail)
            found.append(
                Decision(
                    rater=note.rater,
                    kind=note.kind,
                    by=detail["by"],
                    reason=detail["reason"],
                    at=note.at.isoformat(timespec="seconds"),
                )
            )
    return tuple(found)


def _criterion_lines(
    counted: Sequence[PairRating], pairs: Sequence[Pair], *, level: float
) -> tuple[CriterionLine, ...]:
    """Return a line per comparison and criterion on which there are verdicts, sorted.

    The categories of agreement are the first method, a tie and the second method, so that two raters who saw
    the sides differently agree where they mean the same text.
    """
    of = {pair.id: pair for pair in pairs}
    cells: dict[tuple[str, str, str], list[PairRating]] = {}
    for rating in counted:
        pair = of[rating.pair_id]
        for criterion in rating.verdicts:
            cells.setdefault((pair.method_a, pair.method_b, criterion), []).append(rating)
    return tuple(_criterion_line(*key, found, level=level) for key, found in sorted(cells.items()))


def _criterion_line(
    method_a: str, method_b: str, criterion: str, found: Sequence[PairRating], *, level: float
) -> CriterionLine:
    items = {pair_id: place for place, pair_id in enumerate(dict.fromkeys(r.pair_id for r in found))}
    category = {method_a: 0, TIE: 1, method_b: 2}
    counts = np.zeros((len(items), 3), dtype=np.int64)
    for rating in found:
        counts[items[rating.pair_id], category[rating.verdicts[criterion]]] += 1
    rated = RatingCounts.of(counts)
    ties = int(counts[:, 1].sum())
    for_a = sum(rating.positions[criterion] == "A" for rating in found)
    return CriterionLine(
        method_a=method_a,
        method_b=method_b,
        criterion=criterion,
        verdicts=len(found),
        ties=ties / len(found),
        raw=raw_agreement(rated),
        agreement=fleiss_kappa(rated, level=level),
        ac1=gwet_ac1(rated, level=level),
        first=unit_proportion(
            np.arange(len(found) - ties) < for_a, np.arange(len(found) - ties), level=level
        ),
    )
