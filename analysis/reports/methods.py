"""The facts for the report's text about its methods and limitations. Templates have the words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from analysis.evidence import Evidence
from analysis.reports.sentences import is_simulated, write_sentences
from analysis.sections.agreement import agreement
from analysis.sections.answering import answering
from analysis.sections.judge_run import failures, mixed_forms
from analysis.sections.order_and_length import position
from analysis.sections.section import group_by, group_name
from analysis.sections.shares import WinShareRow
from analysis.verdicts.reading import reading_of
from guard_eval.records import PEOPLE_OF, SIMULATED
from guard_eval.reporting.words import names_of, sentence, some_of, title

MAX_NOTES = 4
"""Notes of results that are repeated among the limits."""


def methods(evidence: Evidence) -> tuple[str, ...]:
    """Describe how the figures were computed, in a sentence or two for each."""
    rows = evidence.rows(answering)
    unit = "pair" if all(row.unit == "pair" for row in rows) else "prompt"
    if unit == "prompt" and any(row.units < row.pairs for row in rows):
        unit = "prompts"
    families = {group_name(row): row.family for row in rows if row.family > 1}
    return write_sentences(
        "methods",
        evidence,
        panels=evidence.scored.panels,
        tests=names_of(row.method for row in rows),
        unit=unit,
        correction=rows[0].correction,
        families=[f"{size} for {who}" for who, size in families.items()],
        are_repeated=any(row.verdicts > row.ratings for row in rows),
        kinds=len({row.who for row in rows}),
        judges=len({row.judge for row in rows if row.judge}),
        reading=[f"{role}: {column} ({why})" for role, column, why in reading_of(evidence.frame).rows()],
    )


def limitations(evidence: Evidence) -> tuple[str, ...]:
    """Return the limitations that apply to these data."""
    rows = evidence.rows(answering)
    kappas = [row for row in evidence.rows(agreement) if row.fleiss_kappa.low is not None]
    return write_sentences(
        "limits",
        evidence,
        is_simulated=is_simulated(evidence),
        are_people=any(row.rater_kind not in {*PEOPLE_OF, *SIMULATED} for row in rows),
        are_models=any(row.rater_kind == "model" for row in rows),
        fewest_pairs=min(row.pairs for row in rows),
        fewest_units=min(row.units for row in rows),
        fewest_agreeing=min((row.pairs_rated_twice for row in kappas), default=math.inf),
        is_position_known=bool(evidence.rows(position)),
        failures=sum(row.count for row in evidence.rows(failures)),
        mixed_forms=mixed_forms(evidence),
        notes=[*_notes(rows), *(f"{note}." for note in reading_of(evidence.frame).notes)],
    )


def _notes(rows: Sequence[WinShareRow]) -> Iterator[str]:
    """Yield the first notes as sentences. A note that is not about all results names its results."""
    by_note = group_by((row for row in rows if row.note), lambda row: row.note)
    for note, noted in list(by_note.items())[:MAX_NOTES]:
        results = [f"{row.method_a} against {row.method_b} on {title(row.criterion)}" for row in noted]
        whose = "" if len(noted) == len(rows) else f"Of {some_of(results, MAX_NOTES)}: "
        yield f"{whose}{sentence(note)}"
