"""The questions below the first screen: each with its answer beside it, and tables that unfold.

`templates/questions.toml` declares them, with their tables and notes. Here are the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd

from analysis.analyses.judging.judge_run import changed_models, mixed_forms
from analysis.analyses.outcomes.sensitivity import RANDOM
from analysis.analyses.outcomes.shares import deciding_p
from analysis.evidence import ALL
from analysis.reports.answer import ahead_and_behind, leading_method, seen_from, verdict_word
from analysis.reports.columns import (
    FrameTable,
    coefficient,
    differs,
    dollars,
    group_name,
    limits,
    page_words,
    plain_name,
)
from analysis.reports.results import Results, Row, cell_of, group_of, rows_of
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import (
    and_list,
    capital,
    equals,
    number,
    p_value,
    percent,
    plural,
    sentence,
    title,
)

METRICS_PER_TABLE = 4
MAX_NOTES = 4
"""Notes of a frame's rows below a table; the CSV has them all."""
LANDIS_KOCH = (
    (0.8, "Almost perfectly"),
    (0.6, "Well"),
    (0.4, "Moderately"),
    (0.2, "Weakly"),
    (-1.0, "Hardly"),
)
"""Words for κ from each value on (Landis and Koch 1977)."""
HIGH_RAW, KAPPA_GAP = 0.7, 0.3
"""Raw agreement, and distance of AC1 from κ, from which κ is low only because one verdict dominates."""
HABITS = {"unvarying rater", "straight-lining", "one place", "one method"}
"""Findings of the audits that are about one rater."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question that unfolds.

    Attributes:
        anchor: Its place in the page: a word, unique in a report.
        question: What a reader would ask.
        answer: The answer in a few words.
        notes: What must be known to read the tables.
        tables: The tables.
        is_open: Whether it is unfolded at first.
    """

    anchor: str
    question: str
    answer: str
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    is_open: bool = False


def questions(results: Results) -> tuple[Question, ...]:
    """Return the questions of a report that its data can answer."""
    asked = (_declared(results, words) for words in page_words()["question"])
    return tuple(each for each in (_ranking(results), *asked, _metrics(results)) if each is not None)


def _declared(results: Results, words: Mapping[str, Any]) -> Question | None:
    """Return a question with its answer and tables; None if the data have nothing to show."""
    anchor, rows_of_tables, tables = words["anchor"], [], []
    for declared in (FrameTable(**table) for table in words["tables"]):
        frame = results[declared.frame]
        if len(frame) and declared.rows:
            frame = SELECTED[declared.rows](results, frame)
        if rows := rows_of(frame):
            rows_of_tables.append(rows)
            tables.append(declared.table(rows))
    if not tables:
        return None
    noted = chain(*rows_of_tables) if words.get("row_notes") else ()
    reasons = sorted({sentence(row.note) for row in noted if getattr(row, "note", "")})[:MAX_NOTES]
    more = MORE_NOTES[anchor](results) if anchor in MORE_NOTES else []
    return Question(
        anchor=anchor,
        question=words["question"],
        answer=ANSWERS[anchor](results),
        notes=(*words.get("notes", ()), *more, *reasons),
        tables=tuple(tables),
    )


def _people(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of people, or without any those of the first judge: kinds are never pooled."""
    first = next((row for row in rows if not row.judge), rows[0])
    return [row for row in rows if group_of(row) == group_of(first)]


def _ranking(results: Results) -> Question | None:
    if not results.is_ranked:
        return None
    words, tables = page_words()["ranking"], []
    for rows in results.rankings:
        first = rows[0]
        p = first.p_any_difference_adjusted
        units = f"{first.comparisons} comparisons of {plural(first.units, first.unit)}"
        note = f"{units}; any difference: {'no test' if p is None else equals(p)}. {capital(first.note)}"
        caption = f"{capital(title(first.criterion))}, judged by {group_name(first)}"
        declared = FrameTable(frame="ranking", caption=caption, left=words["left"], columns=words["columns"])
        tables.append(declared.table(rows, note=note.strip()))
    methods = plural(results["ranking"]["method"].nunique(), "method")
    return Question(
        anchor="ranking",
        question=words["question"],
        answer=f"{methods}, {plural(len(tables), 'ranking')}",
        notes=tuple(words["notes"]),
        tables=tuple(tables),
        is_open=True,
    )


def _excluded(results: Results) -> str:
    frame = results["excluded_raters"]
    late = int((frame["results"] == "after").sum())
    answer = f"{len(frame)} excluded, {late} of them after the results were first seen"
    kinds = set(frame["rater_kind"])
    rows = [row for row in rows_of(results["with_excluded_raters"]) if row.rater_kind in kinds][:4]
    shares = [f"{title(row.criterion)} {percent(row.win_share, 0)} for {row.method_a}" for row in rows]
    return f"{answer}; with them: {and_list(shares)}" if shares else answer


def _deciding(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Add the deciding p, or in words why there is none."""
    alpha = results.context.plan.alpha
    decided = [
        p_value(deciding_p(row)) if deciding_p(row) is not None else verdict_word(row, alpha)
        for row in rows_of(frame)
    ]
    return frame.assign(decided=decided)


def _shown_shares(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of the page: of many methods, those that were asked for or the totals."""
    if results.context.compare:
        pair = results.in_full[0]
        frame = frame[(frame["method_a"] == pair[0]) & (frame["method_b"] == pair[1])]
    elif results.is_ranked:
        frame = frame[frame["dataset"] == ALL]
    return _deciding(results, frame.assign(total=frame["dataset"] == ALL))


def _figures(results: Results) -> str:
    frame = results["win_shares"]
    names = sorted(set(frame["dataset"]) - {ALL})
    datasets = f", by dataset ({and_list(names)})" if names and not results.is_ranked else ""
    return f"{plural(int((frame['dataset'] == ALL).sum()), 'result')}{datasets}"


def _equivalence(results: Results) -> str:
    counts = results["equivalence"]["conclusion"].value_counts()
    return and_list([f"{count} {name}" for name, count in counts.items()])


def _sequential(results: Results) -> str:
    frame = results["sequential"]
    reached = int(frame["reached_after"].notna().sum())
    return f"{reached} of {plural(len(frame), 'result')} reached the declared error rate"


def _agreement(results: Results) -> str:
    known = [row for row in _people(rows_of(results["agreement"])) if row.fleiss_kappa is not None]
    if not known:
        return "Undefined: see the table"
    known.sort(key=lambda row: row.fleiss_kappa)
    low, high = number(known[0].fleiss_kappa), number(known[-1].fleiss_kappa)
    word = next(word for least, word in LANDIS_KOCH if known[0].fleiss_kappa >= least)
    kappa = f"{low} to {high}"
    if low == high:
        kappa = coefficient(known[0].fleiss_kappa, known[0].kappa_low, known[0].kappa_high)
    dominated = any(
        (row.raw_agreement or 0) >= HIGH_RAW and row.gwet_ac1 - row.fleiss_kappa > KAPPA_GAP for row in known
    )
    why = "; one verdict dominates, so κ is low although raters mostly agree (see AC1)" if dominated else ""
    return f"{word}: κ = {kappa}{why}"


def _alternatives(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the analyses for the raters whom the answer is about."""
    return frame[frame["analysis"] != RANDOM] if results.context.plan.raters == "fixed" else frame


def _other_analyses(results: Results) -> str:
    alpha = results.context.plan.alpha
    rows = _people(rows_of(_alternatives(results, results["sensitivity"])))
    tested = [row for row in rows if row.p is not None]
    default = {cell_of(row): row.p <= alpha for row in tested if row.default}
    others = [row for row in tested if not row.default and cell_of(row) in default]
    apart = [row for row in others if (row.p <= alpha) != default[cell_of(row)]]
    if not others:
        return "There is no other test"
    if not apart:
        return f"Yes: all {len(others)} are on the same side of {alpha:g}"
    names = [f"{row.analysis.split(',')[0]} on {title(row.criterion)} ({equals(row.p)})" for row in apart[:2]]
    more = [f"{len(apart) - 2} more"] if len(apart) > 2 else []
    return f"{len(others) - len(apart)} of {len(others)} would; not {and_list([*names, *more])}"


def _other_raters(results: Results) -> str:
    rows = [row for row in rows_of(results["sensitivity"]) if row.analysis == RANDOM]
    known = [row for row in rows if row.low is not None]
    if not known:
        return f"Unknown: {rows[0].note}"
    alpha, coverage = results.context.plan.alpha, results["coverage"]
    sure = [title(row.criterion) for row in known if row.p is not None and row.p <= alpha]
    raters = int(coverage[coverage["judge"] == ""]["raters"].max())
    is_single = len({(row.method_a, row.method_b) for row in known}) == 1
    method = leading_method(known) if is_single else ""
    parts = [
        f"{title(row.criterion)} {limits(*seen_from(row, method or row.method_a)[1:], 0)}\u00a0%"
        for row in known[:3]
    ]
    lead = f"Yes on {and_list(sure)}" if sure else f"Unknown with {plural(raters, 'rater')}"
    return f"{lead}: {and_list(parts)}{f' for {method}' if method else ''}"


def _order_and_length(results: Results) -> str:
    parts = []
    if len(results["position"]):
        rows = _people(rows_of(results["position"]))
        first, second = sum(row.first for row in rows), sum(row.second for row in rows)
        parts.append(f"the first-shown text won {percent(first / max(1, first + second), 0)}")
    if len(results["length"]):
        rows = [row for row in _people(rows_of(results["length"])) if row.longer_share is not None]
        pairs = sum(row.pairs for row in rows)
        if pairs:
            mean = sum(row.longer_share * row.pairs for row in rows) / pairs
            parts.append(f"the longer text won {percent(mean, 0)}")
    return capital("; ".join(parts)) or "See the tables"


def _judges(results: Results) -> str:
    alpha, rows = results.context.plan.alpha, rows_of(results["judges"])
    same = sum(row.same_as_most * row.pairs for row in rows) / sum(row.pairs for row in rows)
    answer = f"the same verdict as most people on {percent(same, 0)} of pairs"
    winners = {
        cell_of(row): ahead_and_behind(row)[0] if differs(row, alpha) else "" for row in results.answering
    }
    cells = [cell_of(row) for row in rows if cell_of(row) in winners]
    alike = [winners.get((PEOPLE_OF[cell[0]], "", *cell[2:])) == winners[cell] for cell in cells]
    if not alike:
        return capital(answer)
    lead = "The same result" if all(alike) else f"The same result on {sum(alike)} of {len(alike)}"
    return f"{lead}, and {answer}"


def _assisted(results: Results) -> str:
    gained = results["assisted"]["ratings_gained"].dropna()
    if gained.empty:
        return "Not possible: see the reasons"
    return f"As much as {plural(max(0, round(gained.max())), 'more rating')} would"


def _habits(results: Results) -> list[Row]:
    return [row for row in rows_of(results["audits"]) if row.kind in HABITS and row.severity == "warning"]


def _careful(results: Results) -> str:
    flagged = {row.where.split(",")[0] for row in _habits(results)}
    if not flagged:
        return "Nobody answered in a fixed way"
    return f"{len(flagged)} of {len(results['raters'])} answered in a fixed way"


def _audits(results: Results) -> str:
    warnings = int((results["audits"]["severity"] == "warning").sum())
    return f"{plural(warnings, 'warning')}, {plural(len(results['audits']) - warnings, 'note')}"


def _judge_run(results: Results) -> str:
    failed = results["judge_failures"]
    lost = int(failed["count"].sum()) if len(failed) else 0
    spent = dollars(sum(row.usd for row in rows_of(results["judge_spending"])))
    return f"{spent}; {plural(lost, 'showing')} of a pair without a verdict"


def _judge_notes(results: Results) -> list[str]:
    usage = results.context.judging
    if usage is None:
        return []
    notes = [
        "{judge} was asked with {description} ({manner}): {verdicts} verdicts from {answers} answers, "
        "calibration included; a whole request is in prompts/{prompt}-{id:.8}.txt.".format_map(row)
        for row in usage.prompts
    ]
    notes += mixed_forms(usage)
    notes += changed_models(usage)
    return notes


def _metrics(results: Results) -> Question | None:
    """Return the metrics over all datasets; the CSV has those of each dataset."""
    frame = results["metrics"]
    if frame.empty:
        return None
    if (frame["dataset"] == ALL).any():
        frame = frame[frame["dataset"] == ALL]
    meanings = dict(zip(frame["title"], frame["meaning"], strict=True))
    cells = {(row.strategy, row.title): coefficient(row.value, row.low, row.high) for row in rows_of(frame)}
    strategies, names = list(frame["strategy"].unique()), list(meanings)
    tables = []
    for start in range(0, len(names), METRICS_PER_TABLE):
        shown = names[start : start + METRICS_PER_TABLE]
        rows = (
            (strategy, *(cells.get((strategy, name), NOTHING) for name in shown)) for strategy in strategies
        )
        caption = "More metrics" if start else "Automatic metrics"
        tables.append(Table(columns=("Strategy", *shown), rows=tuple(rows), caption=caption))
    compared = [method for method in results.comparisons[0] if method in strategies]
    values = [
        f"{name} {and_list([f'{cells[method, name].split()[0]} ({method})' for method in compared])}"
        for name in names[:2]
        if compared and all((method, name) in cells for method in compared)
    ]
    return Question(
        anchor="metrics",
        question="What do automatic metrics say?",
        answer="; ".join(values) or "See the tables",
        notes=tuple(f"{name}: {meaning}" for name, meaning in meanings.items()),
        tables=tuple(tables),
    )


ANSWERS: dict[str, Callable[[Results], str]] = {
    "excluded": _excluded,
    "shares": _figures,
    "equivalence": _equivalence,
    "sequential": _sequential,
    "agreement": _agreement,
    "sensitivity": _other_analyses,
    "other-raters": _other_raters,
    "order-length": _order_and_length,
    "judges": _judges,
    "assisted": _assisted,
    "raters": _careful,
    "audits": _audits,
    "judge-run": _judge_run,
}
"""The answer to each question of questions.toml, by its anchor."""
SELECTED: dict[str, Callable[[Results, pd.DataFrame], pd.DataFrame]] = {
    "deciding": _deciding,
    "shares": _shown_shares,
    "alternatives": _alternatives,
    "random": lambda _, frame: frame[frame["analysis"] == RANDOM],
}
"""The rows of a frame that a table shows, by their name in questions.toml."""
MORE_NOTES: dict[str, Callable[[Results], list[str]]] = {
    "raters": lambda results: [
        f"{capital(plain_name(row.where))}: {row.what}." for row in _habits(results)[:MAX_NOTES]
    ],
    "judge-run": _judge_notes,
}
"""Notes that depend on the data, by a question's anchor."""
