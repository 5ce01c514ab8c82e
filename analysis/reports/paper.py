"""The files for a paper: tables, one figure, a sentence, a paragraph on methods, and references.

Notebooks show figures of all comparisons and rankings.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.evidence import CORRECTION_NAMES, Evidence
from analysis.reports.sentences import (
    describe_coverage,
    describe_methods,
    describe_rater_count,
    has_simulated_verdicts,
    write_sentences_from_template,
)
from analysis.sections.raters.agreement import measure_agreement
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.results.equivalence import run_equivalence_tests
from analysis.sections.results.ranking import RankingRow, group_ranking_rows
from analysis.sections.results.shares import (
    CoverageRow,
    WinShareRow,
    count_pairs_and_ratings,
    describe_conclusion,
    measure_reported_shares,
)
from analysis.sections.section import (
    Cells,
    drop_labels_equal_in_all_rows,
    group_by,
    make_labelled_table,
    name_raters,
)
from analysis.stats.assisted import METHOD as ASSISTED
from guard_eval.estimate import Estimate
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.drawing import (
    FIRST,
    GUIDE,
    NARROW,
    WIDTH,
    Caption,
    Drawing,
    draw_interval,
    label_axis_in_percent,
    make_row_figure,
    shorten_label,
)
from guard_eval.reporting.escaping import NOTHING, escape_latex, join_lines, replace_unwritable_characters
from guard_eval.reporting.rendering import render_table
from guard_eval.reporting.tables import LONG_CELL, Table
from guard_eval.reporting.words import (
    capitalise,
    count_in_words,
    find_criterion_title,
    format_number,
    format_p,
    format_share_limits,
    join_distinct_names,
    join_with_and,
)
from guard_eval.rubric import CRITERIA

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ROWS = 40
"""The largest number of rows that fit on a page. All rows are in csv/."""
MAX_RESULTS = 6
"""The largest number of results in the sentence for the paper."""
MAX_LINES = 30
"""The largest number of rows in a figure."""
SHORT_LABEL = 20
"""The largest number of letters of a label in a figure for one column of a page."""
_PACKAGES = r"""% Needs \usepackage{array,booktabs,graphicx,textcomp}. Made by guard-eval.
% As table* it takes both columns of a page.
\providecommand{\fitwidth}[1]{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{#1}}
"""


def write_manuscript(evidence: Evidence) -> dict[str, str | bytes]:
    """Return the files of paper/ by path in the report. The same input gives the same bytes."""
    table = _make_ranking_table(evidence) if evidence.is_ranked else _make_share_table(evidence)
    text = _write_result_sentence(evidence)
    if has_simulated_verdicts(evidence):
        text = f"SIMULATED verdicts, evidence of nothing: {text}"
        table = replace(table, caption=f"SIMULATED. {table.caption}")
    notes = _write_methods_section(evidence)
    cited = {key: entry for note in notes for key, entry in _find_cited_works(note).items()}
    return {
        "paper/table.tex": f"{_PACKAGES}{render_table(table, '.tex', label='tab:verdicts')}\n",
        "paper/table.md": f"{render_table(table, '.md')}\n",
        "paper/figure.pdf": draw_main_figure(evidence).encode("pdf"),
        "paper/sentence.txt": f"{join_lines(text)}\n",
        "paper/sentence.tex": f"{_convert_to_latex(text)}\n",
        "paper/methods.tex": " ".join(map(_convert_to_latex_with_citation, notes)) + "\n",
        "paper/references.bib": "".join(f"{entry}\n" for entry in cited.values()),
    }


def _convert_to_latex(text: str) -> str:
    """Return prose as one line of LaTeX, with typographic apostrophes and no break before a percent sign."""
    words = re.sub(r"[ \n\t]+", " ", replace_unwritable_characters(text))
    return escape_latex(re.sub(r"(?<=\d) (?=%)", "\u00a0", words).replace("'", "’"))


def _find_cited_works(note: str) -> dict[str, str]:
    """Return the BibTeX keys and entries of the works that a sentence cites."""
    return {key: entry for words, entry, key in _read_references() if words in note}


def _convert_to_latex_with_citation(note: str) -> str:
    """Convert a sentence to LaTeX. Authors and years become one citation at the end of the sentence."""
    keys = _find_cited_works(note)
    words = re.sub(r" \((?:[A-Z][\w ,]*) \d{4}\)", "", note) if keys else note
    cited = rf"~\citep{{{','.join(keys)}}}" if keys else ""
    return f"{_convert_to_latex(words.removesuffix('.'))}{cited}."


@cache
def _read_references() -> list[tuple[str, str, str]]:
    """Return (words that cite a work, BibTeX entry, BibTeX key) for each work in references.bib."""
    text = Path(__file__).with_name("templates").joinpath("references.bib").read_text("utf-8")
    return re.findall(r"^% ([^\n]+)\n(@\w+\{(\w+),.*?^\})$", text, flags=re.MULTILINE | re.DOTALL)


def _name_raters(rows: Sequence[CoverageRow]) -> str:
    """Name the raters in a sentence of a paper: the number of people, and each judge."""
    names = [
        name_raters(row) if row.judge else describe_rater_count(row.raters, row.rater_kind) for row in rows
    ]
    return join_with_and(names)


def _make_share_table(evidence: Evidence) -> Table:
    """Return a table of results: wins, ties and losses in percent, share, interval and p."""
    rows = evidence.rows(select_rows_for_report_answer)
    first = rows[0]
    margin = evidence.plan.margin
    labels = drop_labels_equal_in_all_rows([make_share_row_labels(row) for row in rows])
    conclusions = {row.key: row.conclusion for row in evidence.rows(run_equivalence_tests)}

    def make_cells(row: WinShareRow) -> Cells:
        cells = {
            "Wins": format_number(100 * row.wins / row.ratings, 1),
            "Ties": format_number(100 * row.ties / row.ratings, 1),
            "Losses": format_number(100 * row.losses / row.ratings, 1),
            "Share": format_number(row.win_share.value, 1, scale=100),
            f"{100 * first.level:g}\u00a0% CI": format_share_limits(row.win_share),
            "p": NOTHING if row.deciding_p is None else format_p(row.deciding_p),
        }
        if margin is not None:
            cells[f"Within {100 * margin:g} points of 50 %"] = conclusions[row.key]
        return cells

    significant = {
        index for index, row in enumerate(rows) if row.family and row.is_significant(evidence.plan.alpha)
    }
    exploratory = dict.fromkeys(find_criterion_title(row.criterion) for row in rows if not row.family)
    caption, note = write_sentences_from_template(
        "share_table",
        evidence,
        raters=_name_raters(evidence.rows(count_pairs_and_ratings)),
        has_comparisons="Comparison" in labels[0],
        shorten_label=shorten_label,
        tests=_describe_tests(evidence, rows),
        significant=significant,
        exploratory=list(exploratory),
        omitted=_describe_omitted_rows(rows, "results"),
    )
    return make_labelled_table(
        labels,
        [make_cells(row) for row in rows[:MAX_ROWS]],
        caption=caption,
        note=note,
        emphasised_rows=frozenset(significant),
    )


def _describe_omitted_rows(rows: Collection[object], file_name: str) -> str:
    """Return a note on the rows that a table leaves out, if it leaves out any."""
    return f" The first {MAX_ROWS} of {len(rows)} {file_name}." if len(rows) > MAX_ROWS else ""


def _describe_tests(evidence: Evidence, rows: Sequence[WinShareRow], sides: str = "") -> str:
    """Describe the tests of results, the judge who assisted, and the correction."""
    methods = (row.method for row in rows)
    tests = join_distinct_names(
        test if "random effects" in test else test.split("; ")[-1] for test in methods
    )
    if any(row.method == ASSISTED for row in rows):
        tests += f", assisted by {evidence.plan.assisted_by}"
    sizes = sorted({row.family for row in rows if row.family > 1})
    if not sizes:
        return f"{tests}{sides}"
    return f"{tests}{sides}, corrected by {rows[0].correction} over {join_with_and(map(str, sizes))} results"


def _write_result_sentence(evidence: Evidence) -> str:
    """Write n, shares or ranks, intervals, p, test, correction and software of the first results."""
    covered = evidence.rows(count_pairs_and_ratings)
    rows = evidence.rows(select_rows_for_report_answer)
    ranked = _select_rankings_of_first_raters(evidence)
    if ranked:
        covered = [row for row in covered if row.rater_group == ranked[0][0].rater_group]
    lines = write_sentences_from_template(
        "sentence",
        evidence,
        raters=_name_raters(covered),
        pairs=join_with_and(
            count_in_words(count, "pair") for count in dict.fromkeys(row.pairs for row in covered)
        ),
        ranked=ranked,
        limit=MAX_RESULTS,
        test=_describe_tests(evidence, rows, ", two-sided"),
        correction=CORRECTION_NAMES[evidence.adjustment],
        verdict_word=describe_conclusion,
    )
    return "".join(lines)


def _select_rankings_of_first_raters(evidence: Evidence) -> list[list[RankingRow]]:
    """Return the rankings by people, or by the first judge: one for each criterion."""
    tables = group_ranking_rows(evidence)
    return [rows for rows in tables if rows[0].rater_group == tables[0][0].rater_group]


def _make_ranking_table(evidence: Evidence) -> Table:
    """Return a table of ranks and shares by criterion: a row per method, sorted by the first criterion."""
    tables = _select_rankings_of_first_raters(evidence)
    first = tables[0][0]
    level = f"{100 * first.level:g}\u00a0%"
    heads = ["Method"]
    lines = {row.method: [row.method] for rows in tables for row in rows}
    for rows in tables:
        before = (
            ""
            if len(tables) == 1
            else f"{shorten_label(find_criterion_title(rows[0].criterion), LONG_CELL)}: "
        )
        heads += [f"{before}rank", f"{before}share", f"{before}{level} CI"]
        cells = {
            row.method: (
                f"{row.rank} ({row.possible_ranks})",
                format_number(row.share, 1, scale=100),
                format_share_limits(row.expected_share),
            )
            for row in rows
        }
        for method, line in lines.items():
            line.extend(cells.get(method, (NOTHING,) * 3))
    return Table(
        columns=tuple(heads),
        rows=tuple(map(tuple, list(lines.values())[:MAX_ROWS])),
        caption=f"Methods ranked by {name_raters(first)}",
        note=f"Rank: with the possible ranks, all at once at {level}. Share: expected win share against the "
        f"average other method, in percent.{_describe_omitted_rows(lines, 'methods')}",
    )


def _write_methods_section(evidence: Evidence) -> tuple[str, ...]:
    """Write a paper's methods section: raters, criteria, methods as on the report's page, and agreement."""
    covered = {row: describe_coverage(row, evidence) for row in evidence.rows(count_pairs_and_ratings)}
    defined = {criterion.name for criterion in evidence.context.criteria}
    rated = dict.fromkeys(row.criterion for row in evidence.rows(select_rows_for_report_answer))
    return write_sentences_from_template(
        "paper_methods",
        evidence,
        coverage=[
            (words if row.judge else capitalise(words)).replace(" · ", ", ") for row, words in covered.items()
        ],
        criteria=[
            capitalise(str(CRITERIA[name])) for name in rated if name in CRITERIA and name not in defined
        ],
        methods=describe_methods(evidence),
        kappas=group_by(
            (
                row
                for row in evidence.rows(measure_agreement)
                if row.rater_kind not in PEOPLE_OF and row.fleiss_kappa.value is not None
            ),
            lambda row: row.criterion,
        ),
    )


def draw_figures(evidence: Evidence) -> dict[str, Drawing]:
    """Return the figures by name: one ranking per criterion, or the shares of each comparison."""
    if evidence.is_ranked:
        drawings = [
            draw_ranking_figure(evidence, rows, f"ranking-{number}")
            for number, rows in enumerate(group_ranking_rows(evidence), start=1)
        ]
    else:
        rows = evidence.rows(measure_reported_shares)
        comparisons = group_by(rows, lambda row: (row.rater_group, row.methods)).values()
        drawings = [
            draw_share_figure(evidence, shares, f"shares-{number}")
            for number, shares in enumerate(comparisons, start=1)
        ]
    return {drawing.name: drawing for drawing in drawings}


def draw_main_figure(evidence: Evidence) -> Drawing:
    """Return the one figure that a report writes for a manuscript."""
    if evidence.is_ranked:
        return draw_ranking_figure(evidence, group_ranking_rows(evidence)[0], "figure")
    return draw_share_figure(evidence, evidence.rows(select_rows_for_report_answer), "figure")


def make_share_row_labels(row: WinShareRow) -> Cells:
    """Return the labels of a win share in a paper: comparison, criterion, raters and dataset."""
    return {
        "Comparison": f"{row.method_a} against {row.method_b}",
        "Criterion": find_criterion_title(row.criterion),
        "Judged by": name_raters(row),
        "Dataset": row.dataset,
    }


def draw_share_figure(evidence: Evidence, rows: Sequence[WinShareRow], name: str) -> Drawing:
    """Draw a line for each win share with interval. Shares that differ from one half are emphasised."""
    rows = rows[:MAX_LINES]
    first = rows[0]
    alpha = evidence.plan.alpha
    words = drop_labels_equal_in_all_rows([make_share_row_labels(row) for row in rows])
    strong = {index for index, row in enumerate(rows) if row.family and row.is_significant(alpha)}
    ahead, behind, against = "the first-named", "the second", ""
    if "Comparison" not in words[0]:
        ahead, behind = shorten_label(first.method_a), shorten_label(first.method_b)
        against = f" of {first.method_a} against {first.method_b}"
    marked = f"; diamonds: p at most {alpha:g}" if strong else ""
    level = f"{100 * evidence.plan.level:g} %"
    return _draw_share_intervals(
        evidence,
        [row.win_share for row in rows],
        [" · ".join(map(str, cells.values())) for cells in words],
        name=name,
        heading=f"Win shares{against}, with {level} intervals; the dashed line is no preference{marked}",
        axis=f"win share of {ahead}, %\n(below 50: {behind} ahead)",
        names=(ahead, behind),
        strong=strong,
    )


def draw_ranking_figure(evidence: Evidence, rows: Sequence[RankingRow], name: str) -> Drawing:
    """Draw expected win shares with intervals, the best method on top, and the possible ranks."""
    rows = rows[:MAX_LINES]
    who = f"{find_criterion_title(rows[0].criterion)}, judged by {name_raters(rows[0])}"
    level = f"{100 * evidence.plan.level:g} %"
    return _draw_share_intervals(
        evidence,
        [row.expected_share for row in rows],
        [row.method for row in rows],
        name=name,
        heading=f"Expected win shares against the average other method on {who}, with {level} intervals and "
        "possible ranks",
        axis="expected win share, %\n(on the right: possible ranks)",
        remarks=[row.possible_ranks for row in rows],
    )


def _draw_share_intervals(
    evidence: Evidence,
    shares: Sequence[Estimate],
    labels: Sequence[str],
    *,
    name: str,
    heading: str,
    axis: str,
    names: Collection[str] = (),
    strong: Collection[int] = (),
    remarks: Sequence[str] = (),
) -> Drawing:
    """Draw a line for each share with interval.

    Args:
        evidence: The evidence.
        shares: The shares.
        labels: The labels of the shares.
        name: The figure's name.
        heading: The figure's title, which is also its text alternative.
        axis: The label of the axis.
        names: The methods whose names are filled into the label of the axis.
        strong: The lines to emphasise.
        remarks: A text on the right of each line.
    """

    def draw(axes: "Axes") -> None:
        for index, share in enumerate(shares):
            is_strong = index in strong
            draw_interval(axes, share.low, share.high, index, color=FIRST, width=2.6 if is_strong else 1.6)
            if share.value is not None:
                axes.plot([share.value], [index], marker="D" if is_strong else "o", color=FIRST)
        for index, remark in enumerate(remarks):
            axes.text(1.02, index, remark, transform=axes.get_yaxis_transform(), va="center")
        axes.axvline(0.5, **GUIDE)
        if not remarks:  # the shares of a ranking lie close together
            axes.set_xlim(0, 1)
        label_axis_in_percent(axes)
        axes.set_xlabel(axis, loc="right")

    return make_row_figure(
        draw,
        labels,
        Caption(
            name=name,
            heading=heading,
            description=heading,
            simulated=has_simulated_verdicts(evidence),
        ),
        strong=strong,
        lines=2,
        # One column of a page is wide enough if the labels are short.
        width=NARROW if all(len(text) <= SHORT_LABEL for text in (*labels, *names)) else WIDTH,
    )
