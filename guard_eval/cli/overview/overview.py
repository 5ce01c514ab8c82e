"""From the store to what its owner sees: all of it at once, and the study's totals and pairs."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence

from guard_eval.cli.overview.criteria import criterion_lines
from guard_eval.cli.overview.raters import rater_lines
from guard_eval.cli.overview.ratings import PairRating, ratings
from guard_eval.cli.overview.values import Decision, Overview, PairLine, Remark, StudySnapshot
from guard_eval.records import RaterKind
from guard_eval.store import Store


def read(store: Store) -> StudySnapshot:
    """Read a study's state: while raters rate, each part is as new as the moment it was read."""
    # what the others refer to is read last, so that it is there
    history, checks, notes, study_hash = store.history(), store.checks(), store.notes(), store.study_hash()
    return StudySnapshot(
        history=history,
        checks=checks,
        notes=notes,
        raters=store.raters(),
        pairs=[pair for pair in store.pairs() if pair.for_people],
        study_hash=study_hash,
    )


def view(
    snapshot: StudySnapshot, *, slots: int, study_hash: str | None = None, level: float = 0.95
) -> Overview:
    """Return what the owner sees of a study.

    Args:
        snapshot: Its state.
        slots: Ratings that are wanted of each pair.
        study_hash: `Study.hash` of today, to be compared with that of the first verdict.
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
    seconds = median([rating.active_seconds for rating in study])
    missing = sum(max(0, slots - per_pair[pair.id]) for pair in snapshot.pairs)
    remarks = _remarks(snapshot, done)
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
        changed_settings=None not in {snapshot.study_hash, study_hash} and snapshot.study_hash != study_hash,
        criteria=criterion_lines(counted, snapshot.pairs, level=level),
        raters=rater_lines(snapshot, done, remarks, kind=kind, level=level),
        pairs=_pair_lines(snapshot, counted, remarks),
        remarks=remarks,
        decisions=_decisions(snapshot, kind),
    )


def median(values: Sequence[float | None]) -> float | None:
    """Return the median of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _pair_lines(
    snapshot: StudySnapshot, counted: Sequence[PairRating], remarks: Sequence[Remark]
) -> tuple[PairLine, ...]:
    rated = Counter(rating.pair_id for rating in counted)
    a_first = Counter(rating.pair_id for rating in counted if rating.a_first)
    said = Counter((remark.pair_id, remark.kind) for remark in remarks)
    return tuple(
        PairLine(
            pair_id=pair.id,
            dataset=pair.dataset,
            prompt_id=pair.prompt_id,
            method_a=pair.method_a,
            method_b=pair.method_b,
            rated=rated[pair.id],
            a_first=a_first[pair.id],
            comments=said[pair.id, "comment"],
            problems=said[pair.id, "problem"],
        )
        for pair in snapshot.pairs
    )


def _remarks(snapshot: StudySnapshot, done: Sequence[PairRating]) -> tuple[Remark, ...]:
    """Return the remarks that stand: of those on one showing the last, unless it was taken back."""
    shown = {rating.presentation: rating for rating in done}
    prompts = {pair.id: pair.prompt_id for pair in snapshot.pairs}
    standing: dict[tuple[int, str], Remark] = {}
    for note in snapshot.notes:
        if note.kind not in {"comment", "problem"} or note.presentation not in shown:
            continue
        pair_id = shown[note.presentation].pair_id
        # put in again, so that the order is that of the last word
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
            said = json.loads(note.detail)
            found.append(
                Decision(
                    rater=note.rater,
                    kind=note.kind,
                    by=said["by"],
                    reason=said["reason"],
                    at=note.at.isoformat(timespec="seconds"),
                )
            )
    return tuple(found)
