"""Judges beside people → full CSV tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from analysis.core.judge_tests import AlternativeTest, Annotator
from analysis.judges import EPSILONS, BesideRow, JudgeRow
from analysis.words import ALL
from guard_eval.escaping import Cell


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
    "warnings": lambda row: "; ".join((*row.warnings, *row.kappa.warnings, *row.alternative[0].warnings)),
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
    "judge_wins": lambda row: row.said.wins,
    "judge_losses": lambda row: row.said.losses,
    "judge_ties": lambda row: row.said.ties,
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
