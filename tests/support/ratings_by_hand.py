"""A running study written down by hand, as the store would give it."""

from dataclasses import replace
from datetime import UTC, datetime

from guard_eval.cli.overview.ratings import StudySnapshot
from guard_eval.records import Pair
from guard_eval.store import HistoryRow, Note, RaterProgress

A, B = "guard", "top_k(k=50)"
AT = "2026-01-02T03:04:05.000+00:00"


def pair(number, *, length=100):
    """Prompt and texts have `length` characters together."""
    return Pair(
        id=f"p{number}",
        dataset="wikitext",
        prompt_id=f"prompt-{number}",
        prompt="p" * (length - 2 * (length // 3)),
        method_a=A,
        method_b=B,
        continuation_a=f"a{number}",
        continuation_b=f"b{number}",
        text_a="a" * (length // 3),
        text_b="b" * (length // 3),
        position=number,
    )


def pressed(presentation, pair_id, rater, *, first=A, role="study", seconds=30.0, **letters):
    """Return a row per criterion for what a rater pressed; `first` is the method shown as A."""
    other = B if first == A else A
    return [
        HistoryRow(
            presentation=presentation,
            pair_id=pair_id,
            dataset="wikitext",
            prompt_id=pair_id,
            length_a=1,
            length_b=1,
            method_a=A,
            method_b=B,
            rater=rater,
            rater_kind="person",
            role=role,
            slot=0,
            shown_first=first,
            criterion=criterion,
            revision=0,
            position=letter,
            verdict={"A": first, "B": other, "tie": "tie"}[letter],
            seconds=None if seconds is None else seconds + 5,
            active_seconds=seconds,
            handed_out=AT,
            at=AT,
            surplus=False,
            excluded=False,
        )
        for criterion, letter in sorted(letters.items())
    ]


def changed(row, letter):
    """Return the row of a change of mind."""
    other = B if row.shown_first == A else A
    verdict = {"A": row.shown_first, "B": other, "tie": "tie"}[letter]
    return replace(
        row, revision=row.revision + 1, position=letter, verdict=verdict, seconds=None, active_seconds=None
    )


def person(name, **more):
    return RaterProgress(
        **{"name": name, "kind": "person", "revoked": False, "handed_out": 0, "rated": 0, **more}
    )


def note(rater, kind, detail, presentation=None):
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Note(rater=rater, kind=kind, detail=detail, presentation=presentation, at=at)


def snapshot(rows, *, pairs, raters, notes=(), checks=(), declared=None):
    ordered = sorted(rows, key=lambda row: (row.presentation, row.criterion, row.revision))
    return StudySnapshot(
        history=ordered, checks=checks, notes=notes, raters=raters, pairs=pairs, declared=declared
    )
