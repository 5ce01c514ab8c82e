"""Each judge beside the people: the paper's table, agreement, lean, and the alternative-annotator test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.reports.columns import CELL_COLUMNS, interval_name, left_columns, with_limits
from analysis.reports.section import Section
from analysis.results.judges.judge_agreement import EPSILONS, BesideRow, JudgeRow
from analysis.stats.judge_tests import AlternativeTest, Annotator
from guard_eval.reporting.escaping import Cell
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import (
    ALL,
    and_list,
    judge_name,
    limits,
    number,
    p_of,
    percent,
    sentence,
    title,
    why_none,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnotatorRow:
    """One person against one judge, at one ε."""

    judged: JudgeRow
    test: AlternativeTest
    annotator: Annotator


def _omega(place: int) -> Callable[[JudgeRow], Cell]:
    return lambda row: row.alternative[place].winning_rate


COLUMNS: Columns[JudgeRow] = {
    **CELL_COLUMNS,
    "people": lambda row: row.people,
    "items": lambda row: row.items,
    "same_as_most_people": lambda row: row.same.estimate,
    "low": lambda row: row.same.low,
    "high": lambda row: row.same.high,
    "level": lambda row: row.same.level,
    "interval": lambda row: row.same.method,
    "cohen_kappa": lambda row: row.kappa.value,
    "kappa_low": lambda row: row.kappa.low,
    "kappa_high": lambda row: row.kappa.high,
    "kappa_undefined_because": lambda row: row.kappa.reason,
    "agrees_with_one_person": lambda row: row.with_a_person,
    "two_people_agree": lambda row: row.among_people,
    "kendall_tau_b": lambda row: row.correlation,
    "both_take_a_side": lambda row: row.both_sided,
    "people_alone_for_method_a": lambda row: row.people_only,
    "judge_alone_for_method_a": lambda row: row.judge_only,
    "p_mcnemar": lambda row: row.lean.p_value,
    "alternative_rho": lambda row: row.alternative[0].advantage,
    **{f"alternative_omega_{epsilon:g}": _omega(place) for place, epsilon in enumerate(EPSILONS)},
    "alternative_undefined_because": lambda row: row.alternative[0].reason,
    "warnings": lambda row: "; ".join(
        (*row.warnings, *row.kappa.warnings, *row.lean.warnings, *row.alternative[0].warnings)
    ),
}

BESIDE_COLUMNS: Columns[BesideRow] = {
    **CELL_COLUMNS,
    "dataset": lambda row: row.dataset or ALL,
    "people_wins": lambda row: row.people.wins,
    "people_losses": lambda row: row.people.losses,
    "people_ties": lambda row: row.people.ties,
    "judge_wins": lambda row: row.judged.wins,
    "judge_losses": lambda row: row.judged.losses,
    "judge_ties": lambda row: row.judged.ties,
    "agree": lambda row: row.agree,
    "warnings": lambda row: "; ".join(row.warnings),
}

ANNOTATOR_COLUMNS: Columns[AnnotatorRow] = {
    "simulated": lambda row: row.judged.simulated,
    "judge": lambda row: row.judged.judge,
    "method_a": lambda row: row.judged.method_a,
    "method_b": lambda row: row.judged.method_b,
    "criterion": lambda row: row.judged.criterion,
    "person": lambda row: row.judged.names[row.annotator.place],
    "epsilon": lambda row: row.test.epsilon,
    "items": lambda row: row.annotator.n,
    "judge_at_least_as_close": lambda row: row.annotator.judge_advantage,
    "person_at_least_as_close": lambda row: row.annotator.annotator_advantage,
    "p": lambda row: row.annotator.p_value,
    "p_benjamini_yekutieli": lambda row: row.annotator.adjusted,
    "judge_wins": lambda row: row.annotator.lost,
    "test": lambda row: row.test.method,
}


JUDGES_SHOWN = 6
"""Judges in the report's tables; all of them are in judges.csv."""

BESIDE_NOTE = (
    "Ratings pooled, in percent; a judge's two orders of a pair are one score, and a flip "
    "is a tie. Agree: the same method has the larger share with people and with the judge; an equal share is "
    "no agreement. It compares totals and not verdicts: the judge may say the opposite on most pairs and "
    "agree here."
)
AGREEMENT_NOTE = (
    "Same as most people: on how many pairs the judge gives the verdict that more people gave than any other "
    "(a tie where two verdicts are level), with Wilson's interval over the unit named under Methods; κ "
    "corrects it for chance. As one person: "
    "how often the judge says the same as one person. Two people: how often two people do, on the same "
    "pairs; a judge need not agree with people more than they agree among themselves. τ-b: Kendall's rank "
    "correlation of the judge's score with people's mean."
)
LEAN_NOTE = (
    "Of the pairs on which both most people and the judge take a side, those where the sides differ. p: "
    "McNemar's exact test, the pairs of a unit taken together; a small "
    "one says that the judge leans to one method more than people do."
)
ALTERNATIVE_NOTE = (
    "The alternative-annotator test (Calderon, Reichart and Dror 2025): each person in turn is left out, and "
    "person and judge are measured by the other people. The judge wins against a person whose advantage over "
    "it is shown to be less than ε. ρ: on how many pairs the judge is at least as close as the person, "
    "averaged over people. ω: the share of people it wins against, with the false discovery rate held; from "
    "ω = 50 % on the judge may stand in for a person, at that ε. The authors advise ε = .1 where people are "
    "from a crowd, .15 where skilled, .2 where experts."
)


def section(rows: Sequence[JudgeRow], beside: Sequence[BesideRow], *, name_methods: bool) -> Section | None:
    """Return each judge beside the people; nothing where people or judges are missing."""
    if not rows:
        return None
    names = list(dict.fromkeys(row.who for row in rows))
    shown = set(names[:JUDGES_SHOWN])
    some = [row for row in rows if row.who in shown]
    paragraphs = [
        "Every judge is compared with the people on the pairs that both judged; judges are not pooled."
    ]
    if len(names) > len(shown):
        paragraphs.append(f"{len(names) - len(shown)} more judges stand in judges.csv.")
    parts = [
        *_beside_tables([row for row in beside if row.who in shown]),
        _agreement_table(some, name_methods=name_methods),
        _lean_table(some, name_methods=name_methods),
    ]
    exports = {"judges": table_of(rows, COLUMNS), "people_beside_judge": table_of(beside, BESIDE_COLUMNS)}
    tested = [row for row in some if not row.alternative[0].reason]
    if tested:
        parts.append(_alternative_table(tested, name_methods=name_methods))
    each = [
        AnnotatorRow(judged=row, test=test, annotator=one)
        for row in rows
        for test in row.alternative
        for one in test.annotators
    ]
    if each:
        exports["alternative_annotator"] = table_of(each, ANNOTATOR_COLUMNS)
    untested = sorted({row.alternative[0].reason for row in some} - {""})
    where = "" if not tested else " for some results"
    paragraphs += [f"The alternative-annotator test is undefined{where}: {reason}." for reason in untested]
    return Section(
        anchor="judges",
        title="Judges beside people",
        folded=True,
        paragraphs=tuple(paragraphs),
        parts=tuple(parts),
        exports=exports,
    )


def _beside_tables(rows: Sequence[BesideRow]) -> list[Table]:
    """Return a table per judge and comparison as the paper has it (`tab:llm_with_human`)."""
    groups: dict[tuple[str, str, str, str], list[BesideRow]] = {}
    for row in rows:
        groups.setdefault((*row.who, row.method_a, row.method_b), []).append(row)
    return [_beside_table(members) for members in groups.values()]


def _beside_table(rows: Sequence[BesideRow]) -> Table:
    first = rows[0]
    names = (first.method_a, first.method_b, "ties")
    remarks = sorted({text for row in rows if row.dataset is None for text in row.warnings})
    return Table(
        columns=(
            *("Criterion", "Dataset"),
            *(f"{who}: {name}" for who in ("People", "Judge") for name in names),
            "Agree?",
        ),
        rows=tuple(
            (
                title(row.criterion),
                row.dataset or ALL,
                *(
                    percent(count / counts.n)
                    for counts in (row.people, row.judged)
                    for count in (counts.wins, counts.losses, counts.ties)
                ),
                "yes" if row.agree else "no",
            )
            for row in rows
        ),
        caption=f"People beside {_judge(first)}: {first.method_a} against {first.method_b}",
        note=" ".join((BESIDE_NOTE, *map(sentence, remarks))),
        text_columns=2,
        strong=frozenset(place for place, row in enumerate(rows) if row.dataset is None),
    )


def _judge_table(
    rows: Sequence[JudgeRow], columns: Columns[JudgeRow], *, name_methods: bool, caption: str, note: str
) -> Table:
    """Return a table of the page: comparison, criterion and judge, then `columns`."""
    left = {**left_columns(name_methods=name_methods), "Judge": _judge}
    return table_of(rows, {**left, **columns}, caption=caption, note=note, text_columns=len(left))


def _agreement_table(rows: Sequence[JudgeRow], *, name_methods: bool) -> Table:
    """Return how often each judge says what people say, beside how often people do."""
    reasons = sorted({row.kappa.reason for row in rows if row.kappa.reason})
    return _judge_table(
        rows,
        {
            "People": lambda row: row.people,
            "Pairs": lambda row: row.items,
            "Same as most people": lambda row: percent(row.same.estimate),
            interval_name(rows[0].same.level): lambda row: limits(row.same),
            "Cohen's κ": lambda row: with_limits(row.kappa),
            "As one person": lambda row: percent(row.with_a_person),
            "Two people": lambda row: percent(row.among_people),
            "τ-b": lambda row: number(row.correlation),
        },
        name_methods=name_methods,
        caption="Agreement of judges with people",
        note=" ".join((AGREEMENT_NOTE, *(f"κ is undefined where {reason}." for reason in reasons))),
    )


def _lean_table(rows: Sequence[JudgeRow], *, name_methods: bool) -> Table:
    """Return whether a judge favours a method more than people do."""
    first = "the first method" if name_methods else rows[0].method_a
    return _judge_table(
        rows,
        {
            "Both take a side": lambda row: row.both_sided,
            f"People alone for {first}": lambda row: row.people_only,
            f"Judge alone for {first}": lambda row: row.judge_only,
            "p": lambda row: p_of(row.lean),
        },
        name_methods=name_methods,
        caption="Sides on which judges and people differ",
        note=LEAN_NOTE + why_none(row.lean for row in rows),
    )


def _alternative_table(rows: Sequence[JudgeRow], *, name_methods: bool) -> Table:
    """Return ρ and ω of each judge, at each ε."""

    def omega(place: int) -> Callable[[JudgeRow], Cell]:
        return lambda row: percent(row.alternative[place].winning_rate, 0)

    remarks = sorted({text for row in rows for text in row.alternative[0].warnings})
    return _judge_table(
        rows,
        {
            "People": lambda row: len(row.alternative[0].annotators),
            "ρ": lambda row: percent(row.alternative[0].advantage),
            **{f"ω at ε = {_short(epsilon)}": omega(place) for place, epsilon in enumerate(EPSILONS)},
            "Passes": _passes,
        },
        name_methods=name_methods,
        caption="May the judge stand in for a person?",
        note=" ".join((ALTERNATIVE_NOTE, *map(sentence, remarks))),
    )


def _passes(row: JudgeRow) -> str:
    passed = [_short(test.epsilon) for test in row.alternative if test.passed]
    return f"at ε = {and_list(passed)}" if passed else "at none"


def _short(value: float) -> str:
    return f"{value:g}".removeprefix("0")


def _judge(row: JudgeRow | BesideRow) -> str:
    return judge_name(row.judge, row.rater_kind)
