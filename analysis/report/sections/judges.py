"""Each judge beside the people: the paper's table, agreement, lean, and the alternative-annotator test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.report.columns import full_table, left_names, with_limits
from analysis.report.section import Section
from analysis.results.judge_agreement import EPSILONS, BesideRow, JudgeRow
from analysis.stats.judge_tests import AlternativeTest, Annotator
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import ALL, and_list, limits, number, p_of, percent, title, why_none


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnotatorRow:
    """One person against one judge, at one ε."""

    judged: JudgeRow
    test: AlternativeTest
    annotator: Annotator


def _omega(place: int) -> Callable[[JudgeRow], Cell]:
    return lambda row: row.alternative[place].winning_rate


COLUMNS: dict[str, Callable[[JudgeRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "judge": lambda row: row.judge,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
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

BESIDE_COLUMNS: dict[str, Callable[[BesideRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "judge": lambda row: row.judge,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
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

ANNOTATOR_COLUMNS: dict[str, Callable[[AnnotatorRow], Cell]] = {
    "simulated": lambda row: row.judged.rater_kind == "simulated",
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
    "As in the paper: ratings pooled, in percent; a judge's two orders of a pair are one score, and a flip "
    "is a tie. Agree: the same method has the larger share with people and with the judge; an equal share is "
    "no agreement. It compares totals and not verdicts: the judge may say the opposite on most pairs and "
    "agree here."
)
AGREEMENT_NOTE = (
    "Same as most people: on how many pairs the judge gives the verdict that more people gave than any other "
    "(a tie where two verdicts are level), with Wilson's interval (t over prompts that "
    "have several pairs); κ corrects it for chance. As one person: "
    "how often the judge says the same as one person. Two people: how often two people do, on the same "
    "pairs; a judge need not agree with people more than they agree among themselves. τ-b: Kendall's rank "
    "correlation of the judge's score with people's mean."
)
LEAN_NOTE = (
    "Of the pairs on which both most people and the judge take a side, those where the sides differ. p: "
    "McNemar's exact test, the pairs of a prompt taken together; a small "
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
    names = list(dict.fromkeys((row.rater_kind, row.judge) for row in rows))
    shown = set(names[:JUDGES_SHOWN])
    some = tuple(row for row in rows if (row.rater_kind, row.judge) in shown)
    paragraphs = [
        "Every judge is compared with the people on the pairs that both judged; judges are not pooled."
    ]
    if len(names) > len(shown):
        paragraphs.append(f"{len(names) - len(shown)} more judges stand in judges.csv.")
    parts = [
        *beside_tables([row for row in beside if (row.rater_kind, row.judge) in shown]),
        agreement_table(some, name_methods=name_methods),
        lean_table(some, name_methods=name_methods),
    ]
    exports = {"judges": full_table(COLUMNS, rows), "people_beside_judge": full_table(BESIDE_COLUMNS, beside)}
    tested = tuple(row for row in some if not row.alternative[0].reason)
    if tested:
        parts.append(alternative_table(tested, name_methods=name_methods))
    each = [
        AnnotatorRow(judged=row, test=test, annotator=one)
        for row in rows
        for test in row.alternative
        for one in test.annotators
    ]
    if each:
        exports["alternative_annotator"] = full_table(ANNOTATOR_COLUMNS, each)
    untested = sorted({row.alternative[0].reason for row in some} - {""})
    where = "" if not tested else " for some results"
    paragraphs += [f"The alternative-annotator test is undefined{where}: {reason}." for reason in untested]
    return Section(
        anchor="judges",
        title="Judges beside people",
        paragraphs=tuple(paragraphs),
        parts=tuple(parts),
        exports=exports,
    )


def beside_tables(rows: Sequence[BesideRow]) -> tuple[Table, ...]:
    """Return a table per judge and comparison as the paper has it (`tab:llm_with_human`)."""
    groups: dict[tuple[str, str, str, str], list[BesideRow]] = {}
    for row in rows:
        groups.setdefault((row.rater_kind, row.judge, row.method_a, row.method_b), []).append(row)
    return tuple(_beside_table(tuple(members)) for members in groups.values())


def _beside_table(rows: tuple[BesideRow, ...]) -> Table:
    first = rows[0]
    a, b = first.method_a, first.method_b
    remarks = {text for row in rows if row.dataset is None for text in row.warnings}
    note = " ".join((BESIDE_NOTE, *(f"{text[0].upper()}{text[1:]}." for text in sorted(remarks))))
    return Table(
        columns=(
            "Criterion",
            "Dataset",
            *(f"People: {name}" for name in (a, b, "ties")),
            *(f"Judge: {name}" for name in (a, b, "ties")),
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
        caption=f"People beside {_judge(first)}: {a} against {b}",
        note=note,
        text_columns=2,
        strong=frozenset(number for number, row in enumerate(rows) if row.dataset is None),
    )


def agreement_table(rows: tuple[JudgeRow, ...], *, name_methods: bool = True) -> Table:
    """Return how often each judge says what people say, beside how often people do."""
    names = left_names(name_methods=name_methods, who="Judge")
    reasons = sorted({row.kappa.reason for row in rows if row.kappa.reason})
    remarks = [f"κ is undefined where {reason}." for reason in reasons]
    return Table(
        columns=(
            *names,
            "People",
            "Pairs",
            "Same as most people",
            f"{percent(rows[0].same.level, 0)} interval",
            "Cohen's κ",
            "As one person",
            "Two people",
            "τ-b",
        ),
        rows=tuple(
            (
                *_left(row, name_methods=name_methods),
                row.people,
                row.items,
                percent(row.same.estimate),
                limits(row.same),
                with_limits(row.kappa.value, row.kappa.low, row.kappa.high),
                percent(row.with_a_person),
                percent(row.among_people),
                NOTHING if row.correlation is None else number(row.correlation),
            )
            for row in rows
        ),
        caption="Agreement of judges with people",
        note=" ".join((AGREEMENT_NOTE, *remarks)),
        text_columns=len(names),
    )


def lean_table(rows: tuple[JudgeRow, ...], *, name_methods: bool = True) -> Table:
    """Return whether a judge favours a method more than people do."""
    names = left_names(name_methods=name_methods, who="Judge")
    first = "the first method" if name_methods else rows[0].method_a
    return Table(
        columns=(
            *names,
            "Both take a side",
            f"People alone for {first}",
            f"Judge alone for {first}",
            "p",
        ),
        rows=tuple(
            (
                *_left(row, name_methods=name_methods),
                row.both_sided,
                row.people_only,
                row.judge_only,
                p_of(row.lean),
            )
            for row in rows
        ),
        caption="Sides on which judges and people differ",
        note=LEAN_NOTE + why_none(row.lean for row in rows),
        text_columns=len(names),
    )


def alternative_table(rows: tuple[JudgeRow, ...], *, name_methods: bool = True) -> Table:
    """Return ρ and ω of each judge, at each ε."""
    names = left_names(name_methods=name_methods, who="Judge")
    remarks = sorted({text for row in rows for text in row.alternative[0].warnings})
    return Table(
        columns=(*names, "People", "ρ", *(f"ω at ε = {_short(one)}" for one in EPSILONS), "Passes"),
        rows=tuple(
            (
                *_left(row, name_methods=name_methods),
                len(row.alternative[0].annotators),
                percent(row.alternative[0].advantage),
                *(percent(test.winning_rate, 0) for test in row.alternative),
                _passes(row),
            )
            for row in rows
        ),
        caption="May the judge stand in for a person?",
        note=" ".join((ALTERNATIVE_NOTE, *(f"{text[0].upper()}{text[1:]}." for text in remarks))),
        text_columns=len(names),
    )


def _passes(row: JudgeRow) -> str:
    passed = [_short(test.epsilon) for test in row.alternative if test.passed]
    return f"at ε = {and_list(passed)}" if passed else "at none"


def _short(value: float) -> str:
    return f"{value:g}".removeprefix("0")


def _judge(row: JudgeRow | BesideRow) -> str:
    return f"{row.judge} (SIMULATED)" if row.rater_kind == "simulated" else row.judge


def _left(row: JudgeRow, *, name_methods: bool) -> tuple[str, ...]:
    methods = (f"{row.method_a} against {row.method_b}",) if name_methods else ()
    return (*methods, title(row.criterion), _judge(row))
