"""What goes into a paper: tables, one figure, a sentence, a paragraph on methods, and what it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from analysis.evidence import ALL, CORRECTION_NAMES, Evidence
from analysis.reports.figures import main_figure, name_share
from analysis.reports.first_screen import count_raters, describe_coverage, is_simulated, ranking_sentence
from analysis.reports.methods import methods
from analysis.sections.agreement import agreement
from analysis.sections.answering import answering
from analysis.sections.equivalence import equivalence
from analysis.sections.ranking import RankingRow, rankings
from analysis.sections.section import (
    Cells,
    different_labels,
    group_by,
    group_name,
    labelled_table,
    share_limits,
)
from analysis.sections.shares import CoverageRow, WinShareRow, coverage, verdict_word, win_shares
from analysis.stats.proportion import pooled_binomial
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.drawing import short
from guard_eval.reporting.escaping import NOTHING, clean, escape_latex, one_line
from guard_eval.reporting.tables import LONG_CELL, Table, to_latex, to_markdown
from guard_eval.reporting.words import (
    and_list,
    equals,
    names_of,
    number,
    p_value,
    percent,
    plural,
    rate,
    sentence,
    title,
)
from guard_eval.rubric import CRITERIA

MAX_ROWS = 40
"""Rows of the table; more do not fit a page, and are in csv/."""
MAX_RESULTS = 6
"""Results in the sentence."""
BLIND = (
    "Raters saw two texts of one prompt side by side, without the names of their systems. Sides were drawn "
    "at random and balanced."
)
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
    ("inversion of the test", "fay2021"),
    ("max-T", "westfall1993"),
    ("Holm", "holm1979"),
    ("Benjamini", "benjamini1995"),
    ("Fleiss", "fleiss1971"),
    ("Davidson", "davidson1970"),
    ("Possible ranks", "mogstad2024"),
    ("one-sided", "schuirmann1987"),
)
"""A word of a sentence on methods, and the work that it rests on."""


def manuscript(evidence: Evidence) -> dict[str, str | bytes]:
    """Return the files of paper/ by path within the report; the same input gives the same bytes."""
    table = _ranking_table(evidence) if evidence.is_ranked else _share_table(evidence)
    text = _ranking_sentence(evidence) if evidence.is_ranked else _share_sentence(evidence)
    if is_simulated(evidence):
        text = f"SIMULATED verdicts, evidence of nothing: {text}"
        table = replace(table, caption=f"SIMULATED. {table.caption}")
    notes = _methods(evidence)
    cited = list(dict.fromkeys(key for note in notes for key in _keys(note)))
    tables = (table, *paper_tables(evidence))
    return {
        "paper/table.tex": f"{_PACKAGES}{to_latex(table, label='tab:verdicts')}\n",
        "paper/tables.md": "\n\n".join(map(to_markdown, tables)) + "\n",
        "paper/figure.pdf": main_figure(evidence).pdf,
        "paper/sentence.txt": f"{one_line(text)}\n",
        "paper/sentence.tex": f"{_latex(text)}\n",
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


def _judged_by(rows: Sequence[CoverageRow]) -> str:
    """Return who judged."""
    names = [group_name(row) if row.judge else count_raters(row.raters, row.rater_kind) for row in rows]
    return and_list(names)


def _share_table(evidence: Evidence) -> Table:
    """Return a row for each result: wins, ties and losses in percent, the share, its interval and its p."""
    rows, context = evidence.rows(answering), evidence.context
    shown = rows[:MAX_ROWS]
    first, margin = rows[0], evidence.plan.margin
    labels = different_labels([name_share(row) for row in rows])
    conclusions = {row.key: row.conclusion for row in evidence.rows(equivalence)}
    several = "Comparison" in labels[0]
    of = "the first-named method" if several else first.method_a
    against = "" if several else f": {short(first.method_a)} against {short(first.method_b)}"
    cut = f" The first {MAX_ROWS} of {len(rows)} results." if len(rows) > MAX_ROWS else ""
    overall = "" if context.composite is None else f" The composite: {context.composite}."

    def figures(row: WinShareRow) -> Cells:
        cells = {
            "Wins": number(100 * row.wins / row.ratings, 1),
            "Ties": number(100 * row.ties / row.ratings, 1),
            "Losses": number(100 * row.losses / row.ratings, 1),
            "Share": number(row.win_share.value, 1, scale=100),
            f"{100 * first.level:g}\u00a0% CI": share_limits(row.win_share),
            "p": NOTHING if row.deciding_p is None else p_value(row.deciding_p),
        }
        if margin is not None:
            cells[f"Within {100 * margin:g} points of 50 %"] = conclusions[row.key]
        return cells

    return labelled_table(
        labels,
        [figures(row) for row in shown],
        caption=f"Verdicts of {_everybody(evidence)} on {context.texts}{against}, in percent",
        note=f"Share: wins plus half the ties of {of}, mean over pairs. n: {_sizes(rows)}. p: "
        f"{_test(rows)}{_corrected(rows)}. Bold: p at most {rate(evidence.plan.alpha)}.{overall}{cut}",
        strong=frozenset(index for index, row in enumerate(shown) if row.is_significant(evidence.plan.alpha)),
    )


def _everybody(evidence: Evidence) -> str:
    return _judged_by(evidence.rows(coverage))


def _test(rows: Sequence[WinShareRow]) -> str:
    return names_of(
        row.method if "random effects" in row.method else row.method.split("; ")[-1] for row in rows
    )


def _sizes(rows: Sequence[WinShareRow]) -> str:
    """Return on how many prompts, pairs and ratings each result rests."""
    counts = {
        "prompt": [row.units for row in rows if row.unit == "prompt"],
        "pair": [row.pairs for row in rows],
        "rating": [row.ratings for row in rows],
    }
    return ", ".join(
        f"{min(of)} to {plural(max(of), name)}" if min(of) < max(of) else plural(max(of), name)
        for name, of in counts.items()
        if of
    )


def _corrected(rows: Sequence[WinShareRow]) -> str:
    sizes = sorted({row.family for row in rows if row.family > 1})
    if not sizes:
        return ""
    return f", corrected by {rows[0].correction} over {and_list([str(size) for size in sizes])} results"


def _share_sentence(evidence: Evidence) -> str:
    """Return n, shares, intervals, p, test, correction and software, for each result up to a few."""
    rows = evidence.rows(answering)
    several = len({row.who for row in rows}) > 1
    counts = dict.fromkeys(row.pairs for row in evidence.rows(coverage))
    pairs = and_list([plural(count, "pair") for count in counts])
    parts = [_result(row, evidence.plan.alpha, several=several) for row in rows[:MAX_RESULTS]]
    more = f"; {len(rows) - MAX_RESULTS} further results are in the table" if len(rows) > MAX_RESULTS else ""
    compared = f"{_everybody(evidence)} compared {pairs} of {evidence.context.texts}"
    test = f"{_test(rows)}, two-sided{_corrected(rows)}"
    return f"{compared}: {'; '.join(parts)}{more} ({test}{_exploratory(evidence)}; {_software(evidence)})."


def _exploratory(evidence: Evidence) -> str:
    """Return that a result is exploratory, for the sentence that states it."""
    return "; exploratory" if evidence.context.why_exploratory else ""


def _result(row: WinShareRow, alpha: float, *, several: bool) -> str:
    """Return one result with its figures; of several kinds of raters, with who judged."""
    is_different, p = row.is_significant(alpha), row.deciding_p
    method = row.ahead if is_different else row.method_a
    share = row.seen_from(method)
    text = f"win share of {method} {percent(share.value)}"
    if share.low is not None and share.high is not None:
        text += f", {100 * row.level:g}\u00a0% CI [{100 * share.low:.1f}, {100 * share.high:.1f}]"
    figures = f"({text}, {'no p' if p is None else equals(p)}, n = {_sizes([row])})"
    who = f", judged by {group_name(row)}," if several else ""
    on = f"on {title(row.criterion)}{who}"
    if is_different:
        return f"{on} {row.ahead} was preferred to {row.behind} {figures}"
    what = "no evidence of a difference" if p is not None else verdict_word(row, alpha)
    return f"{on} there was {what} between {row.method_a} and {row.method_b} {figures}"


def _software(evidence: Evidence) -> str:
    return f"guard-eval {evidence.context.versions['guard-eval']}"


def _first_rankings(evidence: Evidence) -> list[list[RankingRow]]:
    """Return the rankings by people, or by the first judge: one for each criterion."""
    tables = rankings(evidence)
    return [rows for rows in tables if rows[0].who == tables[0][0].who]


def _ranking_table(evidence: Evidence) -> Table:
    """Return a row per method, in the order of the first criterion, and ranks and shares by criterion."""
    tables = _first_rankings(evidence)
    first = tables[0][0]
    criteria = list(dict.fromkeys(rows[0].criterion for rows in tables))
    known = {(row.criterion, row.method): row for rows in tables for row in rows}
    names = list(dict.fromkeys(row.method for rows in tables for row in rows))
    heads = ["Method"]
    lines = [[name] for name in names]
    for criterion in criteria:
        before = "" if len(criteria) == 1 else f"{short(title(criterion), LONG_CELL)}: "
        heads += [f"{before}rank", f"{before}share", f"{before}{100 * first.level:g}\u00a0% CI"]
        for line in lines:
            row = known.get((criterion, line[0]))
            line.append(NOTHING if row is None else f"{row.rank} ({row.possible_ranks})")
            line.append(NOTHING if row is None else number(row.share, 1, scale=100))
            line.append(NOTHING if row is None else share_limits(row.expected_share))
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


def _ranking_sentence(evidence: Evidence) -> str:
    """Return what the page says of each ranking by the first kind of raters, with n and software."""
    tables = _first_rankings(evidence)
    covered = [row for row in evidence.rows(coverage) if row.who == tables[0][0].who]
    parts = [_ranking(rows, evidence.plan.alpha) for rows in tables[:MAX_RESULTS]]
    compared = f"compared {plural(covered[0].pairs, 'pair')} of {evidence.context.texts}"
    test = tables[0][0].any_difference_test
    if len(tables) > 1:
        test += f", corrected by {CORRECTION_NAMES[evidence.adjustment]} over {len(tables)} criteria"
    told = f"{_judged_by(covered)} {compared}. {'. '.join(parts)}"
    return f"{told} ({test}{_exploratory(evidence)}; {_software(evidence)})."


def _ranking(rows: Sequence[RankingRow], alpha: float) -> str:
    """Return what a ranking shows, with the share of the first method, its interval and n."""
    first = rows[0]
    share = f"{first.method}: expected share {percent(first.share)}"
    if first.expected_share.low is not None:
        share += (
            f", {100 * first.level:g}\u00a0% CI [{share_limits(first.expected_share).replace(' to ', ', ')}]"
        )
    return f"{ranking_sentence(rows, alpha)[:-1]}, {share}, n = {plural(first.units, first.unit)}"


def _methods(evidence: Evidence) -> list[str]:
    """Return the sentences of the page on methods, and what a paper says besides."""
    covered = [describe_coverage(row, evidence) for row in evidence.rows(coverage)]
    notes = [sentence(words.replace(" · ", ", ")) for words in covered]
    if evidence.context.study_hash:
        notes.append(BLIND)
        own = {criterion.name for criterion in evidence.context.criteria}
        rated = dict.fromkeys(row.criterion for row in evidence.rows(answering))
        paper_words = [CRITERIA[name] for name in rated if name in CRITERIA and name not in own]
        notes += [sentence(str(criterion)) for criterion in paper_words]
    notes += [note for note in methods(evidence) if not note.startswith("Read from the table")]
    if kappas := list(_kappas(evidence)):
        notes.append(f"Agreement between raters, Fleiss’ κ: {and_list(kappas)}.")
    notes += [
        f"One rater was excluded {exclusion.results} the results were first seen ({exclusion.reason})."
        for exclusion in evidence.context.exclusions
    ]
    return [*notes, f"Computed with {_software(evidence)}."]


def _kappas(evidence: Evidence) -> Iterator[str]:
    """Yield κ on each criterion: of one comparison, or the mean of all comparisons and its range."""
    known = [
        row
        for row in evidence.rows(agreement)
        if row.rater_kind not in PEOPLE_OF and row.fleiss_kappa.value is not None
    ]
    for criterion, rows in group_by(known, lambda row: row.criterion).items():
        values = [row.fleiss_kappa.value or 0.0 for row in rows]
        mean = number(sum(values) / len(values))
        span = f" (the mean of {len(rows)} comparisons, {number(min(values))} to {number(max(values))})"
        yield f"{mean} on {title(criterion)}{span if len(rows) > 1 else ''}"


def paper_tables(evidence: Evidence) -> tuple[Table, ...]:
    """Return the tables of the GUARD paper: pooled shares with its binomial test.

    The test takes ratings of one pair for independent, which they are not; `sensitivity.csv` has it beside
    the test that holds.
    """
    comparisons = group_by(evidence.rows(win_shares), lambda row: (row.who, row.methods))
    return tuple(_paper_table(rows) for rows in comparisons.values())


def _paper_table(rows: Sequence[WinShareRow]) -> Table:
    return labelled_table(
        [{"Criterion": title(row.criterion), "Dataset": row.dataset} for row in rows],
        [
            {
                row.method_a: number(100 * row.win_share_pooled, 1),
                row.method_b: number(100 * (1 - row.win_share_pooled), 1),
                "p": _binomial(row),
            }
            for row in rows
        ],
        caption=f"Share of {group_name(rows[0])} favouring a strategy, ties split, %",
        note="Exact binomial test on non-tied ratings, taken as independent.",
        strong=frozenset(index for index, row in enumerate(rows) if row.dataset == ALL),
    )


def _binomial(row: WinShareRow) -> str:
    p = pooled_binomial(row.wins, row.losses).p
    return "no p" if p is None else f"{p:.4g}"
