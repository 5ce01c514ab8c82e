"""Sentences about raters, rankings, methods and limits. Most of them come from templates."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from analysis.evidence import Evidence
from analysis.sections.raters.agreement import measure_agreement
from analysis.sections.raters.excluded import describe_exclusions
from analysis.sections.raters.judge_run import describe_mixed_verdict_forms, list_judge_failures
from analysis.sections.raters.order_and_length import measure_position_effect
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.results.ranking import NEVER_COMPARED, NO_RANK, RankingRow, group_ranking_rows
from analysis.sections.results.shares import CoverageRow, WinShareRow
from analysis.sections.section import (
    ComparisonRow,
    CriterionRow,
    group_by,
    name_raters,
    remove_word_simulated,
    select_rows_for_answer,
)
from analysis.verdicts.reading import get_reading
from guard_eval.records import SIMULATED
from guard_eval.reporting.rendering import render_lines
from guard_eval.reporting.words import (
    find_criterion_title,
    join_first_parts,
    to_sentence,
)
from guard_eval.rubric import COMPOSITE

MAX_CRITERIA = 6
"""The largest number of criteria that a sentence names; the rest are counted."""
MAX_DECLARED = 6
"""The answer gives declared results before the ranking if there are at most this number of results."""
MAX_NOTES = 4
"""The largest number of results' notes that are repeated in the report's list of limits."""


def write_sentences_from_template(name: str, evidence: Evidence, **facts: object) -> tuple[str, ...]:
    """Fill a template with the evidence and further facts. Return the sentences of the filled template."""
    tables = group_ranking_rows(evidence)
    is_mixed = len({rows[0].rater_group for rows in tables}) > 1
    unclear = [
        rows
        for rows in tables
        if rows[0].shows_no_difference(evidence.plan.alpha) and not find_methods_in_cycle(evidence, rows[0])
    ]
    # One sentence lists several rankings without a difference.
    together = unclear if len(unclear) > 1 and not is_mixed else []
    return render_lines(
        __file__,
        f"{name}.txt",
        evidence=evidence,
        rows=evidence.rows(select_rows_for_report_answer),
        context=evidence.context,
        plan=evidence.plan,
        rankings=[rows for rows in tables if rows not in together],
        together=together,
        find_methods_in_cycle=partial(find_methods_in_cycle, evidence),
        is_mixed=is_mixed,
        answer_is_ranking=is_answer_ranking(evidence),
        no_rank=NO_RANK,
        never_compared=NEVER_COMPARED,
        name_raters=name_raters,
        composite=COMPOSITE,
        join_criterion_names=join_criterion_names,
        is_simulated=has_simulated_verdicts(evidence),
        **facts,
    )


def is_answer_ranking(evidence: Evidence) -> bool:
    """Return whether the answer is a ranking, and not a few results that were declared beforehand."""
    rows = evidence.rows(select_rows_for_report_answer)
    family = max(row.family for row in select_rows_for_answer(rows))
    is_declared = evidence.context.planned is not None and 0 < family <= MAX_DECLARED
    return evidence.is_ranked and not is_declared


def find_methods_in_cycle(evidence: Evidence, ranking_row: RankingRow) -> list[str]:
    """Return the methods of a ranking that beat each other in a cycle: A beats B, B beats C, C beats A."""
    wins = {
        (row.leader, row.other_method)
        for row in evidence.rows(select_rows_for_report_answer)
        if (row.rater_group, row.criterion) == (ranking_row.rater_group, ranking_row.criterion)
        and row.is_significant(evidence.plan.alpha)
    }
    while True:
        methods = {a for a, _ in wins} & {b for _, b in wins}
        remaining = {(a, b) for a, b in wins if a in methods and b in methods}
        if remaining == wins:
            return sorted(methods)
        wins = remaining


def join_criterion_names(rows: Iterable[CriterionRow | ComparisonRow]) -> str:
    """List the names of the criteria in some rows as text."""
    return join_first_parts([find_criterion_title(row.criterion) for row in rows], MAX_CRITERIA)


def has_simulated_verdicts(evidence: Evidence) -> bool:
    """Return whether some verdicts behind the answer are simulated."""
    return any(row.rater_kind in SIMULATED for row in evidence.rows(select_rows_for_report_answer))


def describe_coverage(row: CoverageRow, evidence: Evidence) -> str:
    """Describe the pairs, ratings and criteria of people or of a judge."""
    (line,) = render_lines(
        __file__,
        "coverage.txt",
        row=row,
        context=evidence.context,
        name_judge=name_judge_in_sentence,
        raters=describe_rater_count(row.raters, row.rater_kind),
        excluded=describe_exclusions(evidence.context.exclusions, row.rater_kind),
    )
    return line


def describe_rater_count(count: int | None, kind: str) -> str:
    """Count the raters, if their number is known, and name their kind."""
    names = {"person": ("person", "people"), "unknown": ("rater of unknown kind", "raters of unknown kind")}
    singular, many = names.get(kind, ("rater", "raters"))
    if count is None:
        return f"unnamed {many}"
    return f"{count}\u00a0{singular if count == 1 else many}"


def name_judge_in_sentence(judge: str, *, omits_noun: bool = False) -> str:
    """Name a judge in a sentence: `the judge gpt` or `the panel …`. `omits_noun` leaves out "the judge"."""
    name = remove_word_simulated(judge)
    if name.split(maxsplit=1)[0].casefold() in {"judge", "panel"}:
        return f"the {name}"
    return name if omits_noun else f"the judge {name}"


def describe_methods(evidence: Evidence) -> tuple[str, ...]:
    """Describe how the numbers were computed, in one or two sentences for each analysis."""
    families = {
        name_raters(row): row.family
        for row in evidence.rows(select_rows_for_report_answer)
        if row.family > 1 and row.p is not None
    }
    return write_sentences_from_template(
        "methods",
        evidence,
        families=[f"{size} for {who}" for who, size in families.items()],
        reading=[
            f"{role}: {column} ({why})" for role, column, why in get_reading(evidence.frame).list_roles()
        ],
    )


def describe_limitations(evidence: Evidence) -> tuple[str, ...]:
    """Return the limits that apply to these data."""
    return write_sentences_from_template(
        "limits",
        evidence,
        agreement=[row for row in evidence.rows(measure_agreement) if row.fleiss_kappa.low is not None],
        is_position_known=bool(evidence.rows(measure_position_effect)),
        failures=evidence.rows(list_judge_failures),
        mixed_forms=describe_mixed_verdict_forms(evidence),
        notes=[
            *_write_notes_on_results(evidence.rows(select_rows_for_report_answer)),
            *(f"{note}." for note in get_reading(evidence.frame).notes),
        ],
    )


def _write_notes_on_results(rows: Sequence[WinShareRow]) -> Iterator[str]:
    """Yield the first different notes as sentences. A note on some of the results also names them."""
    by_note = group_by((row for row in rows if row.note), lambda row: row.note)
    for note, noted in list(by_note.items())[:MAX_NOTES]:
        results = [
            f"{row.method_a} against {row.method_b} on {find_criterion_title(row.criterion)}" for row in noted
        ]
        whose = "" if len(noted) == len(rows) else f"Of {join_first_parts(results, MAX_NOTES)}: "
        yield f"{whose}{to_sentence(note)}"
