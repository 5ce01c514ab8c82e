"""What goes into a paper: tables, one figure, a sentence, a paragraph on methods, and what it cites."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from analysis.analyses.outcomes.shares import deciding_p
from analysis.evidence import ALL
from analysis.reports.answer import (
    ahead_and_behind,
    is_simulated,
    ranking_sentence,
    seen_from,
    verdict_word,
)
from analysis.reports.columns import cell_columns, count_raters, differs, group_name, possible_ranks, show
from analysis.reports.figures import main_figure
from analysis.reports.methods import methods
from analysis.reports.results import Results, Row, cell_of, group_of, grouped, rows_of
from analysis.stats.proportion import pooled_binomial
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.drawing import short
from guard_eval.reporting.escaping import NOTHING, clean, escape_latex, one_line
from guard_eval.reporting.tables import LONG_CELL, Table, table_of, to_latex, to_markdown
from guard_eval.reporting.words import (
    and_list,
    equals,
    names_of,
    number,
    p_value,
    percent,
    plural,
    rate,
    title,
)

MAX_ROWS = 40
"""Rows of the table; more do not fit a page, and are in csv/."""
MAX_RESULTS = 6
"""Results in the sentence."""
_PACKAGES = r"""% Needs \usepackage{array,booktabs,graphicx,textcomp}. Made by guard-eval.
% As table* it takes both columns of a page.
\providecommand{\fitwidth}[1]{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{#1}}
"""
CITED = (
    ("sign-flip", "pitman1937"),
    ("Satterthwaite", "satterthwaite1946"),
    ("random effects", "henderson1953"),
    ("betting", "waudbysmith2024"),
    ("prediction-powered", "angelopoulos2023"),
    ("jackknife", "rust1996"),
    ("Holm", "holm1979"),
    ("Benjamini", "benjamini1995"),
    ("Fleiss", "fleiss1971"),
    ("Davidson", "davidson1970"),
    ("Possible ranks", "mogstad2024"),
    ("one-sided", "schuirmann1987"),
)
"""A word of a sentence on methods, and the work that it rests on."""


def manuscript(results: Results) -> dict[str, str | bytes]:
    """Return the files of paper/ by path within the report; the same input gives the same bytes."""
    table = _ranking_table(results) if results.is_ranked else _share_table(results)
    sentence = _ranking_sentence(results) if results.is_ranked else _share_sentence(results)
    if is_simulated(results):
        sentence = f"SIMULATED verdicts, evidence of nothing: {sentence}"
        table = replace(table, caption=f"SIMULATED. {table.caption}")
    notes = _methods(results)
    cited = list(dict.fromkeys(key for note in notes for key in _keys(note)))
    return {
        "paper/table.tex": f"{_PACKAGES}{to_latex(table, label='tab:verdicts')}\n",
        "paper/tables.md": "\n\n".join(to_markdown(each) for each in (table, *paper_tables(results))) + "\n",
        "paper/figure.pdf": main_figure(results).pdf,
        "paper/sentence.txt": f"{one_line(sentence)}\n",
        "paper/sentence.tex": f"{_latex(sentence)}\n",
        "paper/methods.tex": " ".join(map(_cited, notes)) + "\n",
        "paper/references.bib": "".join(f"{_references()[key]}\n" for key in cited),
    }


def _latex(text: str) -> str:
    """Return prose for LaTeX in one line: no break before a percent sign, typographic apostrophes."""
    words = re.sub(r"[ \n\t]+", " ", clean(text))
    return escape_latex(re.sub(r"(?<=\d) (?=%)", "\u00a0", words).replace("'", "’"))


def _keys(note: str) -> list[str]:
    """Return the keys of the works that a sentence rests on."""
    return [key for word, key in CITED if word in note and key in _references()]


def _cited(note: str) -> str:
    """Return a sentence with its works cited by key, instead of in words."""
    keys = _keys(note)
    words = re.sub(r" \((?:[A-Z][\w ,]*) \d{4}\)", "", note) if keys else note
    cited = rf"~\citep{{{','.join(keys)}}}" if keys else ""
    return f"{_latex(words.removesuffix('.'))}{cited}."


@cache
def _references() -> Mapping[str, str]:
    """Return the entries that can be cited, by key."""
    text = (Path(__file__).parent / "templates" / "references.bib").read_text(encoding="utf-8")
    entries = [entry.strip() for entry in re.split(r"^(?=@)", text, flags=re.MULTILINE) if entry.strip()]
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}


def _judged_by(rows: Sequence[Row]) -> str:
    """Return who judged, from rows of coverage."""
    names = [group_name(row) if row.judge else count_raters(row.raters, row.rater_kind) for row in rows]
    return and_list(names)


def _percent_of(name: str) -> Callable[[Row], str]:
    """Return a column of the wins, ties or losses in percent of all three."""
    return lambda row: number(100 * getattr(row, name) / (row.wins + row.ties + row.losses), 1)


def _share_table(results: Results) -> Table:
    rows, context = results.answering, results.context
    first, columns = rows[0], cell_columns(rows, criterion=str)
    left = len(columns)
    several = "Comparison" in columns
    of = "the first-named method" if several else first.method_a
    against = "" if several else f": {short(first.method_a)} against {short(first.method_b)}"
    cut = f" The first {MAX_ROWS} of {len(rows)} results." if len(rows) > MAX_ROWS else ""
    overall = "" if context.composite is None else f" The composite: {context.composite}."
    columns |= {name: _percent_of(name.lower()) for name in ("Wins", "Ties", "Losses")}
    columns |= {
        "Share": lambda row: number(row.win_share, 1, scale=100),
        f"{100 * first.level:g}\u00a0% CI": show("interval"),
        "p": lambda row: NOTHING if deciding_p(row) is None else p_value(deciding_p(row)),
    }
    if context.plan.margin is not None:
        shown = {cell_of(row): row.conclusion for row in rows_of(results["equivalence"])}
        columns[f"Within {100 * context.plan.margin:g} points of 50 %"] = lambda row: shown[cell_of(row)]
    return table_of(
        rows[:MAX_ROWS],
        columns,
        caption=f"Verdicts of {_everybody(results)} on {context.texts}{against}, in percent",
        note=f"Share: wins plus half the ties of {of}, mean over pairs. n: {_sizes(rows)}. p: "
        f"{_test(rows)}{_corrected(rows)}. Bold: p at most {rate(context.plan.alpha)}.{overall}{cut}",
        text_columns=left,
        strong=lambda row: differs(row, context.plan.alpha),
    )


def _everybody(results: Results) -> str:
    return _judged_by(rows_of(results["coverage"]))


def _test(rows: Sequence[Row]) -> str:
    return names_of(
        row.method.split("; ")[-1] if "random effects" not in row.method else row.method for row in rows
    )


def _sizes(rows: Sequence[Row]) -> str:
    """Return on how many prompts, pairs and ratings each result rests."""
    counts = {
        "prompt": [row.units for row in rows if row.unit == "prompt"],
        "pair": [row.pairs for row in rows],
        "rating": [row.wins + row.ties + row.losses for row in rows],
    }
    return ", ".join(
        f"{min(of)} to {plural(max(of), name)}" if min(of) < max(of) else plural(max(of), name)
        for name, of in counts.items()
        if of
    )


def _corrected(rows: Sequence[Row]) -> str:
    sizes = sorted({row.family for row in rows if row.family > 1})
    if not sizes:
        return ""
    return f", corrected by {rows[0].correction} over {and_list([str(size) for size in sizes])} results"


def _share_sentence(results: Results) -> str:
    """Return n, shares, intervals, p, test, correction and software, for each result up to a few."""
    rows, context = results.answering, results.context
    judged = len({group_of(row) for row in rows}) > 1
    pairs = and_list([plural(count, "pair") for count in dict.fromkeys(results["coverage"]["pairs"])])
    parts = [_result(row, results, judged=judged) for row in rows[:MAX_RESULTS]]
    more = f"; {len(rows) - MAX_RESULTS} further results are in the table" if len(rows) > MAX_RESULTS else ""
    text = f"{_everybody(results)} compared {pairs} of {context.texts}: {'; '.join(parts)}{more}"
    return f"{text} ({_test(rows)}, two-sided{_corrected(rows)}; {_software(results)})."


def _result(row: Row, results: Results, *, judged: bool) -> str:
    is_different, p = differs(row, results.context.plan.alpha), deciding_p(row)
    method, other = ahead_and_behind(row) if is_different else (row.method_a, row.method_b)
    share, low, high = seen_from(row, method)
    text = f"win share of {method} {percent(share)}"
    if low is not None and high is not None:
        text += f", {100 * row.level:g}\u00a0% CI [{100 * low:.1f}, {100 * high:.1f}]"
    figures = f"({text}, {'no p' if p is None else equals(p)}, n = {_sizes([row])})"
    who = f", judged by {group_name(row)}," if judged else ""
    on = f"on {title(row.criterion)}{who}"
    if is_different:
        return f"{on} {method} was preferred to {other} {figures}"
    what = "no evidence of a difference" if p is not None else verdict_word(row, results.context.plan.alpha)
    return f"{on} there was {what} between {method} and {other} {figures}"


def _software(results: Results) -> str:
    return f"guard-eval {results.context.versions['guard-eval']}"


def _first_rankings(results: Results) -> list[list[Row]]:
    """Return the rankings by people, or by the first judge: one for each criterion."""
    first = results.rankings[0][0]
    return [rows for rows in results.rankings if group_of(rows[0]) == group_of(first)]


def _ranking_table(results: Results) -> Table:
    """Return a row per method, in the order of the first criterion, and ranks and shares by criterion."""
    rankings = _first_rankings(results)
    first = rankings[0][0]
    criteria = list(dict.fromkeys(rows[0].criterion for rows in rankings))
    known = {(row.criterion, row.method): row for rows in rankings for row in rows}
    names = list(dict.fromkeys(row.method for rows in rankings for row in rows))
    heads, lines = ["Method"], [[name] for name in names]
    for criterion in criteria:
        before = "" if len(criteria) == 1 else f"{short(title(criterion), LONG_CELL)}: "
        heads += [f"{before}rank", f"{before}share"]
        for line in lines:
            row = known.get((criterion, line[0]))
            line.append(NOTHING if row is None else f"{row.rank} ({possible_ranks(row)})")
            line.append(NOTHING if row is None else number(row.expected_share, 1, scale=100))
    cut = f" The first {MAX_ROWS} of {len(names)} methods." if len(names) > MAX_ROWS else ""
    return Table(
        columns=tuple(heads),
        rows=tuple(map(tuple, lines[:MAX_ROWS])),
        caption=f"Methods ranked by {group_name(first)}",
        note=(
            f"Rank: with the possible ranks, all at once at {100 * first.level:g}\u00a0%. Share: expected "
            f"win share against the average other method, in percent.{cut}"
        ),
    )


def _ranking_sentence(results: Results) -> str:
    """Return what the page says of each ranking by the first kind of raters, with n and software."""
    rankings, alpha = _first_rankings(results), results.context.plan.alpha
    first = rankings[0][0]
    covered = [row for row in rows_of(results["coverage"]) if group_of(row) == group_of(first)]
    parts = [
        f"{ranking_sentence(rows, alpha)[:-1]}, n = {plural(rows[0].units, rows[0].unit)}"
        for rows in rankings[:MAX_RESULTS]
    ]
    compared = f"compared {plural(covered[0].pairs, 'pair')} of {results.context.texts}"
    return f"{_judged_by(covered)} {compared}. {'. '.join(parts)} ({_software(results)})."


def _methods(results: Results) -> list[str]:
    """Return the sentences of the page on methods, and what a paper says besides."""
    notes = list(methods(results))
    people = [row for row in rows_of(results["agreement"]) if row.rater_kind not in PEOPLE_OF]
    kappas = [row for row in people if row.fleiss_kappa is not None][:MAX_RESULTS]
    if kappas:
        values = [f"{number(row.fleiss_kappa)} on {title(row.criterion)}" for row in kappas]
        notes.append(f"Agreement between raters, Fleiss’ κ: {and_list(values)}.")
    notes += [
        f"One rater was excluded {each.results} the results were first seen ({each.reason})."
        for each in results.context.exclusions
    ]
    return [*notes, f"Computed with {_software(results)}."]


def paper_tables(results: Results) -> tuple[Table, ...]:
    """Return the tables of the GUARD paper: pooled shares with its binomial test.

    The test takes ratings of one pair for independent, which they are not; `sensitivity.csv` has it beside
    the test that holds.
    """
    comparisons = grouped(rows_of(results["win_shares"]), lambda row: cell_of(row)[:-1])
    return tuple(
        table_of(
            rows,
            {
                "Criterion": show("words criterion"),
                "Dataset": show("text dataset"),
                rows[0].method_a: lambda row: number(100 * row.win_share_pooled, 1),
                rows[0].method_b: lambda row: number(100 * (1 - row.win_share_pooled), 1),
                "p": _binomial,
            },
            caption=f"Share of {group_name(rows[0])} favouring a strategy, ties split, %",
            note="Exact binomial test on non-tied ratings, taken as independent.",
            text_columns=2,
            strong=lambda row: row.dataset == ALL,
        )
        for rows in comparisons.values()
    )


def _binomial(row: Row) -> str:
    p = pooled_binomial(row.wins, row.losses).p
    return "no p" if p is None else f"{p:.4g}"
