"""The questions below the first screen: each with its answer beside it, and tables that unfold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.analyses.evidence import ALL
from analysis.analyses.judge_run import changed_models
from analysis.analyses.sensitivity import POOLED, RANDOM, WITH_EXCLUDED
from analysis.reports.answer import group_name, plain_name, possible_ranks, verdict_word
from analysis.reports.results import Results, Row, rows_of
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table, table_of
from guard_eval.reporting.words import (
    and_list,
    capital,
    equals,
    number,
    p_value,
    percent,
    plural,
    spaced,
    title,
)

MAX_ROWS = 60
"""Rows of a table of the page; the CSV has them all."""
LANDIS_KOCH = (
    (0.8, "Almost perfectly"),
    (0.6, "Well"),
    (0.4, "Moderately"),
    (0.2, "Weakly"),
    (-1.0, "Hardly"),
)
"""Words for κ from each value on (Landis and Koch 1977)."""
FAILURES: dict[str, str] = {
    "refusal": "the model declined",
    "content_filter": "the server withheld the answer, or refused the texts",
    "truncated": "the answer ended at the token limit",
    "unparseable": "the answer was no verdict, three times",
    "wrong_schema": "a criterion was missing or had no choice, three times",
    "unreadable": "the server's answer was none, three times",
    "too_long": "the texts do not fit the model's context",
    "rejected": "the server did not take the request",
    "rate_limited": "the server was too busy, to the end",
    "server_error": "the server failed, to the end",
    "timeout": "no answer in time",
    "transport": "no whole answer came, to the end",
}


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
    asked: Sequence[Callable[[Results], Question | None]] = (
        _ranking,
        _excluded,
        _figures,
        _equivalence,
        _sequential,
        _agreement,
        _other_analyses,
        _other_raters,
        _order_and_length,
        _judges,
        _assisted,
        _careful,
        _audits,
        _metrics,
        _judge_run,
    )
    return tuple(found for ask in asked if (found := ask(results)) is not None)


def limits(low: float | None, high: float | None, digits: int = 1) -> str:
    """Return the limits of an interval of shares in percent."""
    if low is None or high is None:
        return NOTHING
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}"


def _with_limits(value: float | None, low: float | None, high: float | None) -> str:
    """Return a coefficient with its interval."""
    if value is None:
        return "undefined"
    return number(value) if low is None else f"{number(value)} [{number(low)}, {number(high)}]"


def _left(results: Results, frame: pd.DataFrame) -> dict[str, Callable[[Row], Cell]]:
    """Return the first columns of a table: the comparison, the criterion and who judged, if they differ."""
    left: dict[str, Callable[[Row], Cell]] = {"Criterion": lambda row: capital(title(row.criterion))}
    if len(results.comparisons) > 1 and "method_a" in frame.columns:
        left = {"Comparison": lambda row: f"{row.method_a} against {row.method_b}", **left}
    if len(frame[["rater_kind", "judge"]].drop_duplicates()) > 1:
        left["Judged by"] = lambda row: group_name(row.rater_kind, row.judge)
    return left


def _table(
    frame: pd.DataFrame,
    left: dict[str, Callable[[Row], Cell]],
    columns: dict[str, Callable[[Row], Cell]],
    caption: str,
    *,
    csv: str,
    words: int = 0,
    strong: Callable[[Row], bool] = lambda _: False,
) -> Table:
    """Return a table of a frame; of a long one its first rows, and where the others are."""
    rows = rows_of(frame)
    cut = f"The first {MAX_ROWS} of {len(rows)} rows; csv/{csv}.csv has all." if len(rows) > MAX_ROWS else ""
    return table_of(
        rows[:MAX_ROWS],
        left | columns,
        caption=caption,
        note=cut,
        text_columns=len(left) + words,
        strong=strong,
    )


def _ranking(results: Results) -> Question | None:
    frame = results.ranking
    if frame.empty:
        return None
    tables = []
    for (kind, judge, criterion, _), own in frame.groupby(
        ["rater_kind", "judge", "criterion", "group"], sort=False
    ):
        first = rows_of(own)[0]
        p = first.p_any_difference_adjusted
        about = f"{first.comparisons} comparisons of {first.units} {first.unit}s; any difference: "
        note = f"{about}{'no test' if p is None else equals(p)}. {capital(first.note)}".strip()
        table = _table(
            own,
            {"Method": lambda row: row.method},
            {
                "Rank": lambda row: row.rank,
                "Ranks possible": possible_ranks,
                "Expected share": lambda row: percent(row.expected_share),
                "Interval": lambda row: limits(row.share_low, row.share_high),
                "Strength": lambda row: number(row.strength),
            },
            f"{capital(title(str(criterion)))}, judged by {group_name(str(kind), str(judge))}",
            csv="ranking",
        )
        tables.append(_with_note(table, note))
    note = (
        "With a chance of 95 % or the declared level, all true ranks lie in the possible ones at once. "
        "Expected "
        "share: against the average other method, ties split. Strength: Davidson's, on a log scale."
    )
    many = plural(frame["method"].nunique(), "method")
    return Question(
        anchor="ranking",
        question="How do the methods rank?",
        answer=f"{many}, {plural(len(tables), 'ranking')}",
        notes=(note,),
        tables=tuple(tables),
        is_open=True,
    )


def _with_note(table: Table, note: str) -> Table:
    return Table(
        columns=table.columns,
        rows=table.rows,
        caption=table.caption,
        note=" ".join(filter(None, (note, table.note))),
        text_columns=table.text_columns,
        strong=table.strong,
    )


def _excluded(results: Results) -> Question | None:
    frame = results.excluded_raters
    if frame.empty:
        return None
    late = int((frame["results"] == "after").sum())
    included = results.with_excluded_raters
    p_values = [f"{title(row.criterion)} {percent(row.win_share, 0)}" for row in rows_of(included)[:4]]
    answer = f"{len(frame)} excluded, {late} of them after the results were first seen"
    if p_values:
        answer += f"; with them: {and_list(p_values)}"
    people = _table(
        frame,
        {
            "Rater": lambda row: plain_name(row.rater),
            "Excluded": lambda row: f"{row.at[:10]}, {row.results} the results were first seen",  # noqa: PD008
            "Reason": lambda row: row.reason,
        },
        {"Verdicts": lambda row: row.verdicts},
        "Excluded raters",
        csv="excluded_raters",
    )
    tables = [people]
    if len(included):
        tables.append(
            _share_table(results, included, "The result with the excluded raters", "with_excluded_raters")
        )
    return Question(
        anchor="excluded",
        question="Who was excluded, and what would the result be with them?",
        answer=answer,
        notes=("Their verdicts count in no other table.",),
        tables=tuple(tables),
    )


def _share_table(results: Results, frame: pd.DataFrame, caption: str, csv: str) -> Table:
    alpha = results.context.alpha
    left = _left(results, frame)
    if (frame["dataset"] != ALL).any():
        left["Dataset"] = lambda row: row.dataset

    def p(row: Row) -> Cell:
        value = row.p_adjusted if row.family else row.p
        return verdict_word(row, alpha) if value is None else p_value(value)

    of = "" if len(results.comparisons) > 1 else f" of {results.comparisons[0][0]}"
    return _table(
        frame,
        left,
        {
            f"Win share{of}": lambda row: percent(row.win_share),
            "Interval": lambda row: limits(row.low, row.high),
            "p": p,
            "Wins": lambda row: row.wins,
            "Ties": lambda row: row.ties,
            "Losses": lambda row: row.losses,
        },
        caption,
        csv=csv,
        strong=lambda row: row.dataset == ALL,
    )


def _figures(results: Results) -> Question | None:
    frame = results.shares
    names = sorted(set(frame["dataset"]) - {ALL})
    ranked = not results.ranking.empty
    shown = frame if not ranked or results.context.compare else frame[frame["dataset"] == ALL]
    if results.context.compare:
        pair = results.in_full[0]
        shown = frame[(frame["method_a"] == pair[0]) & (frame["method_b"] == pair[1])]
    datasets = f", by dataset ({and_list(names)})" if names and not ranked else ""
    return Question(
        anchor="shares",
        question="What is the result of each comparison?" if ranked else "What are the figures?",
        answer=f"{plural(int((frame['dataset'] == ALL).sum()), 'result')}{datasets}",
        notes=(
            "Win share: wins plus half the ties, averaged over pairs. Wins, ties and losses are ratings.",
            "p is corrected in bold rows of the family, and uncorrected elsewhere.",
        ),
        tables=(_share_table(results, shown, "Win shares", "win_shares"),),
    )


def _equivalence(results: Results) -> Question | None:
    frame = results.equivalence
    if frame.empty:
        return None
    margin = f"{100 * frame['margin'].iloc[0]:g} points"
    counts = frame["conclusion"].value_counts()
    table = _table(
        frame,
        _left(results, frame),
        {
            "Conclusion": lambda row: row.conclusion,
            "Win share": lambda row: percent(row.win_share),
            f"{percent(frame['level'].iloc[0], 0)} interval": lambda row: limits(row.low, row.high),
            "p of equivalence": lambda row: p_value(row.p_adjusted if row.family else row.p),
        },
        f"Is the share within {margin} of 50\u00a0%?",
        csv="equivalence",
        words=1,
    )
    return Question(
        anchor="equivalence",
        question="Is the difference too small to matter?",
        answer=and_list([f"{count} {name}" for name, count in counts.items()]),
        notes=("Two one-sided t tests (Schuirmann 1987). Undecided means that neither is shown.",),
        tables=(table,),
    )


def _sequential(results: Results) -> Question | None:
    frame = results.sequential
    if frame.empty:
        return None
    reached = int(frame["reached_after"].notna().sum())
    table = _table(
        frame,
        _left(results, frame),
        {
            "Prompts": lambda row: row.units,
            "Waiting": lambda row: row.waiting,
            "Evidence (10ˣ)": lambda row: number(row.log_e_value / np.log(10), 1),
            "Reached after": lambda row: row.reached_after,
            "Win share": lambda row: percent(row.win_share),
            "Interval": lambda row: limits(row.low, row.high),
            "p": lambda row: p_value(row.p_adjusted if row.family else row.p),
        },
        "Tests that hold whenever one looks",
        csv="sequential",
    )
    return Question(
        anchor="sequential",
        question="May we stop now?",
        answer=f"{reached} of {len(frame)} results have reached the declared error rate",
        notes=("An e-value above 1/α at any time rejects; the interval holds at all times together.",),
        tables=(table,),
    )


def _agreement(results: Results) -> Question | None:
    frame = results.agreement
    if frame.empty:
        return None
    rows = rows_of(frame)
    people = [row for row in rows if row.rater_kind not in PEOPLE_OF] or rows
    known = [row for row in people if row.fleiss_kappa is not None]
    answer = "Undefined: see the table"
    if known:
        values = sorted(row.fleiss_kappa for row in known)
        word = next(word for least, word in LANDIS_KOCH if values[0] >= least)
        kappas = [f"{_with_limits(row.fleiss_kappa, row.kappa_low, row.kappa_high)}" for row in known]
        kappa = kappas[0] if len(known) == 1 else f"{number(values[0])} to {number(values[-1])}"
        answer = f"{word}: κ = {kappa}"
        if any((row.raw_agreement or 0) >= 0.7 and row.gwet_ac1 - row.fleiss_kappa > 0.3 for row in known):
            answer += "; one verdict dominates, so κ is low although raters mostly agree (see AC1)"
    table = _table(
        frame,
        _left(results, frame),
        {
            "Raw": lambda row: percent(row.raw_agreement, 0),
            "Fleiss' κ": lambda row: _with_limits(row.fleiss_kappa, row.kappa_low, row.kappa_high),
            "α, ordinal": lambda row: _with_limits(
                row.krippendorff_alpha_ordinal, row.alpha_low, row.alpha_high
            ),
            "AC1": lambda row: number(row.gwet_ac1),
            "ICC(1)": lambda row: number(row.icc1),
            "Design effect": lambda row: number(row.design_effect, 1),
        },
        "Agreement between raters of one kind",
        csv="agreement",
    )
    reasons = sorted({row.note for row in rows if row.note})
    note = (
        "Design effect: by how much several ratings of a pair are fewer than as many independent ones. It is "
        "why ratings are not counted as independent."
    )
    return Question(
        anchor="agreement",
        question="Do raters agree with each other?",
        answer=answer,
        notes=(note, *(f"{capital(reason)}." for reason in reasons[:3])),
        tables=(table,),
    )


def _other_analyses(results: Results) -> Question | None:
    frame, alpha = results.sensitivity, results.context.alpha
    if frame.empty:
        return None
    frame = frame[frame["analysis"] != RANDOM] if results.context.raters == "fixed" else frame
    people = frame[~frame["rater_kind"].isin(list(PEOPLE_OF))]
    own = people if len(people) else frame
    tested = [row for row in rows_of(own) if row.p is not None]
    other = [row for row in tested if not row.default]
    default = {
        (row.rater_kind, row.judge, row.method_a, row.method_b, row.criterion): row
        for row in tested
        if row.default
    }
    apart = []
    for row in other:
        first = default.get((row.rater_kind, row.judge, row.method_a, row.method_b, row.criterion))
        if first is not None and (first.p <= alpha) != (row.p <= alpha):
            apart.append(f"{_brief(row.analysis)} on {title(row.criterion)} {equals(row.p)}")
    answer = f"Yes: all {len(other)} are on the same side of {alpha:g}"
    if apart:
        more = f" and {len(apart) - 2} more" if len(apart) > 2 else ""
        answer = f"{len(other) - len(apart)} of {len(other)} would; not {and_list(apart[:2])}{more}"
    table = _table(
        frame,
        {**_left(results, frame), "Analysis": lambda row: row.analysis},
        {
            "Win share": lambda row: percent(row.win_share),
            "Interval": lambda row: limits(row.low, row.high),
            "p, uncorrected": lambda row: p_value(row.p),
        },
        "The same verdicts, analysed in other ways",
        csv="sensitivity",
        strong=lambda row: row.default,
    )
    note = (
        "The pooled binomial test is the paper's. It takes ratings of one pair for independent, which they "
        "are "
        "not, and so it finds differences too often."
    )
    return Question(
        anchor="sensitivity",
        question="Would other analyses say the same?",
        answer=answer,
        notes=(note,),
        tables=(table,),
    )


def _brief(analysis: str) -> str:
    return {POOLED: "the pooled binomial", WITH_EXCLUDED: "with the excluded raters"}.get(
        analysis, analysis.split(",", maxsplit=1)[0]
    )


def _other_raters(results: Results) -> Question | None:
    frame = results.sensitivity
    frame = frame[frame["analysis"] == RANDOM] if len(frame) else frame
    if frame.empty:
        return None
    rows = rows_of(frame)
    raters = int(results.coverage[results.coverage["judge"] == ""]["raters"].max())
    known = [row for row in rows if row.low is not None]
    alpha = results.context.alpha
    if not known:
        answer = f"Unknown: {rows[0].note}"
    else:
        sure = [title(row.criterion) for row in known if row.p is not None and row.p <= alpha]
        parts = [f"{title(row.criterion)} {limits(row.low, row.high, 0)}\u00a0%" for row in known[:3]]
        answer = (
            f"{f'Yes on {and_list(sure)}' if sure else f'Unknown with {raters} raters'}: {and_list(parts)}"
        )
    table = _table(
        frame,
        _left(results, frame),
        {
            "Win share": lambda row: percent(row.win_share),
            "Interval": lambda row: limits(row.low, row.high),
            "p, uncorrected": lambda row: p_value(row.p),
        },
        "For all raters of the same kind",
        csv="sensitivity",
    )
    note = (
        "Here raters are a sample, too: how they differ from each other is part of the error, and more "
        "raters "
        "help more than more pairs do."
    )
    return Question(
        anchor="other-raters",
        question="Would other raters say the same?",
        answer=answer,
        notes=(note,),
        tables=(table,),
    )


def _order_and_length(results: Results) -> Question | None:
    place, length, tables, parts = results.position, results.length, [], []
    if len(place):
        rows = rows_of(place)
        untied = sum(row.first + row.second for row in rows)
        parts.append(f"first-shown text won {percent(sum(row.first for row in rows) / max(1, untied), 0)}")
        columns: dict[str, Callable[[Row], Cell]] = {
            "First text won": lambda row: percent(row.first_share),
            "Interval": lambda row: limits(row.first_low, row.first_high),
            "Ties": lambda row: row.ties,
        }
        if any(row.both_orders for row in rows):
            columns["Flipped with the order"] = lambda row: (
                f"{row.flipped} of {row.both_orders}" if row.both_orders else NOTHING
            )
        tables.append(
            _table(place, _left(results, place), columns, "Preference for the first place", csv="position")
        )
    if len(length):
        rows = rows_of(length)
        weights = [(row.longer_share, row.pairs) for row in rows if row.longer_share is not None]
        if weights:
            mean = sum(share * n for share, n in weights) / sum(n for _, n in weights)
            parts.append(f"longer text won {percent(mean, 0)}")
        tables.append(
            _table(
                length,
                _left(results, length),
                {
                    "Length ratio": lambda row: number(row.length_ratio),
                    "Longer text won": lambda row: percent(row.longer_share),
                    "Share at equal length": lambda row: percent(row.share_at_equal_length),
                    "Interval": lambda row: limits(row.equal_low, row.equal_high),
                    "p of length": lambda row: NOTHING if row.p_slope is None else p_value(row.p_slope),
                },
                "Preference for length",
                csv="length",
            )
        )
    if not tables:
        return None
    notes = sorted(
        {f"{capital(row.note)}." for frame in (place, length) for row in rows_of(frame) if row.note}
    )
    return Question(
        anchor="order-length",
        question="Does the order or the length of texts matter?",
        answer=capital("; ".join(parts)) or "See the tables",
        notes=("Shares are of verdicts that are no ties.", *notes[:4]),
        tables=tuple(tables),
    )


def _judges(results: Results) -> Question | None:
    frame = results.judges
    if frame.empty:
        return None
    rows = rows_of(frame)
    same = sum(row.same_as_most * row.pairs for row in rows) / sum(row.pairs for row in rows)
    alpha = results.context.alpha
    found = {
        (row.rater_kind, row.judge, row.method_a, row.method_b, row.criterion): row
        for row in results.answering
    }
    verdicts = []
    for row in rows:
        cell = (row.method_a, row.method_b, row.criterion)
        both = (
            found.get((PEOPLE_OF[row.rater_kind], "", *cell)),
            found.get((row.rater_kind, row.judge, *cell)),
        )
        if None not in both:
            verdicts.append(len({_finding(one, alpha) for one in both}) == 1)
    answer = f"same verdict as most people on {percent(same, 0)} of pairs"
    if verdicts:
        lead = "Yes, the same result" if all(verdicts) else f"On {sum(verdicts)} of {len(verdicts)} results"
        answer = f"{lead}; {answer}"
    table = _table(
        frame,
        {"Judge": lambda row: plain_name(row.judge), **_left(results, frame.assign(judge=""))},
        {
            "Pairs": lambda row: row.pairs,
            "Same as most people": lambda row: percent(row.same_as_most, 0),
            "κ": lambda row: _with_limits(row.cohen_kappa, row.kappa_low, row.kappa_high),
            "Judge = a person": lambda row: percent(row.with_a_person, 0),
            "Person = a person": lambda row: percent(row.among_people, 0),
            "Wins as an annotator": lambda row: percent(row.alternative_wins, 0),
        },
        "Judges beside people",
        csv="judges",
    )
    note = (
        "A judge cannot agree with people more than they do with each other. Wins as an annotator: the share "
        "of "
        "people whom the judge may replace at ε = .15 (Calderon, Reichart and Dror 2025); from 50 % on it "
        "passes."
    )
    return Question(
        anchor="judges",
        question="Does the judge agree with people?",
        answer=answer,
        notes=(note,),
        tables=(table,),
    )


def _finding(row: Row, alpha: float) -> str:
    p = row.p_adjusted if row.family else row.p
    if p is None or p > alpha:
        return "none"
    return str(row.method_a if (row.win_share or 0) > 0.5 else row.method_b)


def _assisted(results: Results) -> Question | None:
    frame = results.assisted
    if frame.empty:
        return None
    rows = rows_of(frame)
    gained = [row.ratings_gained for row in rows if row.ratings_gained is not None]
    answer = (
        "Not possible: see the reasons"
        if not gained
        else f"As much as {max(0, round(max(gained)))} more ratings would"
    )
    table = _table(
        frame,
        {"Judge": lambda row: plain_name(row.judge), **_left(results, frame.assign(judge=""))},
        {
            "People": lambda row: f"{percent(row.people_alone)} ({limits(row.people_low, row.people_high)})",
            "Assisted": lambda row: f"{percent(row.people_assisted)} ({limits(row.low, row.high)})",
            "p": lambda row: NOTHING if row.p is None else p_value(row.p),
            "r": lambda row: number(row.correlation),
            "Ratings gained": lambda row: number(row.ratings_gained, 0),
        },
        "People's win share, assisted by a judge",
        csv="assisted",
    )
    note = (
        "Prediction-powered inference (PPI++): the share is people's; the judge, who judged more pairs, "
        "narrows "
        "its interval as far as it agrees with them, and moves it nowhere if it does not."
    )
    reasons = sorted({f"{capital(row.note)}." for row in rows if row.note})
    return Question(
        anchor="assisted",
        question="Does the judge make people's answer more certain?",
        answer=answer,
        notes=(note, *reasons[:3]),
        tables=(table,),
    )


_HABITS = {"unvarying rater", "straight-lining", "one place", "one method"}


def _careful(results: Results) -> Question | None:
    frame = results.raters
    habits = [row for row in rows_of(results.audits) if row.kind in _HABITS and row.severity == "warning"]
    flagged = {row.where.split(",")[0] for row in habits}
    people = len(frame)
    answer = (
        f"{len(flagged)} of {people} answered in a fixed way" if flagged else "Nobody answered in a fixed way"
    )
    columns: dict[str, Callable[[Row], Cell]] = {
        "Pairs": lambda row: row.pairs,
        "Ties": lambda row: percent(row.tie_share, 0),
        "Same as others": lambda row: percent(row.agreement, 0),
        "First text won": lambda row: percent(row.first_share, 0),
        "Median seconds": lambda row: number(row.seconds, 0),
    }
    known = {
        name: cell for name, cell in columns.items() if any(cell(row) != NOTHING for row in rows_of(frame))
    }
    table = _table(
        frame,
        {"Rater": lambda row: plain_name(row.rater)},
        known,
        "Raters",
        csv="raters",
    )
    notes = tuple(f"{capital(plain_name(row.where))}: {row.what}." for row in habits[:6])
    return Question(
        anchor="raters", question="Is every rater careful?", answer=answer, notes=notes, tables=(table,)
    )


def _audits(results: Results) -> Question | None:
    frame = results.audits
    if frame.empty:
        return None
    warnings = int((frame["severity"] == "warning").sum())
    table = _table(
        frame,
        {
            "Finding": lambda row: row.kind,
            "Where": lambda row: plain_name(row.where),
            "What": lambda row: row.what,
        },
        {},
        "What the audits found",
        csv="audits",
    )
    answer = f"{plural(warnings, 'warning')}, {plural(len(frame) - warnings, 'note')}"
    return Question(anchor="audits", question="Is anything odd in the data?", answer=answer, tables=(table,))


def _metrics(results: Results) -> Question | None:
    metrics = results.context.metrics
    if metrics is None:
        return None
    table, tables = metrics.table, []
    words = [name for name in ("dataset", "strategy") if name in table.columns]
    names = [name for name in table.columns if name not in {*words, "texts"} and table[name].notna().any()]
    for start in range(0, len(names), 4):
        shown = names[start : start + 4]
        rows = []
        for line in table.to_dict("records"):
            key = tuple(str(line[name]) for name in words)
            cells: list[Cell] = list(key)
            for name in shown:
                value, interval = line[name], metrics.intervals.get((*key, name))  # type: ignore[arg-type]
                text = (
                    NOTHING if pd.isna(value) else number(float(value)) if _is_number(value) else str(value)
                )
                cells.append(
                    text if interval is None else f"{text} [{number(interval[0])}, {number(interval[1])}]"
                )
            rows.append(tuple(cells))
        tables.append(
            Table(
                columns=(*map(capital, words), *(capital(spaced(name)) for name in shown)),
                rows=tuple(rows),
                caption="Automatic metrics" if not start else "More metrics",
                text_columns=len(words),
            )
        )
    return Question(
        anchor="metrics",
        question="What do automatic metrics say?",
        answer=and_list([spaced(name) for name in names[:5]]) if names else "Nothing was measured",
        notes=metrics.notes,
        tables=tuple(tables),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number)


def _judge_run(results: Results) -> Question | None:
    usage = results.context.judging
    if usage is None or not usage.spent:
        return None
    exports = results.exports()
    spent = exports["judge_spending"]
    tables = [
        _table(
            spent,
            {"Judge": lambda row: row.judge},
            {
                "Requests": lambda row: f"{row.requests:,}",
                "Answers": lambda row: f"{row.answers:,}",
                "Prompt tokens": lambda row: f"{row.prompt_tokens:,}",
                "Answer tokens": lambda row: f"{row.completion_tokens:,}",
                "Cost": _cost,
                "Set aside": lambda row: _usd(row.held_usd),
            },
            "What the judges took",
            csv="judge_spending",
        )
    ]
    if "judge_failures" in exports:
        left: dict[str, Callable[[Row], Cell]] = {
            "Judge": lambda row: row.judge,
            "Failure": lambda row: spaced(row.kind),
            "What it means": lambda row: FAILURES.get(row.kind, ""),
            "Reason given": lambda row: row.reason[:160] or NOTHING,
        }
        columns: dict[str, Callable[[Row], Cell]] = {"Showings": lambda row: row.count}
        caption = "Showings of pairs without a verdict"
        tables.append(_table(exports["judge_failures"], left, columns, caption, csv="judge_failures"))
    if "judge_calibration" in exports:
        tables.append(
            _table(
                exports["judge_calibration"],
                {
                    "Judge": lambda row: row.judge,
                    "Check": lambda row: row.check,
                    "Criterion": lambda row: title(row.criterion),
                },
                {
                    "Items": lambda row: row.items,
                    "As expected": lambda row: f"{percent(row.share)} ({limits(row.low, row.high)})",
                    "Missing": lambda row: row.missing,
                },
                "Calibration on pairs whose answer is known",
                csv="judge_calibration",
            )
        )
    notes = [
        f"{each.judge} was asked with {each.words}; its prompt is in prompts/{each.version}.txt."
        for each in usage.prompts
    ]
    notes += changed_models(usage)
    if usage.asked_otherwise:
        notes.append(
            f"Answered requests unlike those that would be made today: {and_list(usage.asked_otherwise)}."
        )
    if "judge_calibration" not in exports:
        notes.append(
            "No judge was calibrated: judge STUDY --calibrate asks about pairs whose answer is known."
        )
    failed = sum(row.count for row in usage.failed)
    cost = sum(row.usd for row in usage.spent)
    return Question(
        anchor="judge-run",
        question="How were the judges asked?",
        answer=f"{_usd(cost)}; {plural(failed, 'showing')} of a pair without a verdict",
        notes=tuple(notes),
        tables=tuple(tables),
    )


def _cost(row: Row) -> str:
    if row.requests_without_price and row.requests_without_price == row.requests:
        return "unknown"
    return f"{_usd(row.usd)} or more" if row.requests_without_price else _usd(row.usd)


def _usd(amount: float) -> str:
    return f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"
