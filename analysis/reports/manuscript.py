"""What goes into a paper: one table, one figure, one sentence, a paragraph on methods, and what it cites."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from matplotlib.axes import Axes

from analysis.reports.answer import shown_unevenly
from analysis.reports.context import Context
from analysis.reports.forest import ForestLine, forest
from analysis.reports.methods import methods_of
from analysis.reports.sections import equivalence
from analysis.reports.sections.equivalence import points
from analysis.results.agreement import AgreementRow
from analysis.results.equivalence import EquivalenceRow
from analysis.results.ranking import RankingRow
from analysis.results.shares import ShareRow, disagreement
from analysis.stats.intervals import PROMPT_T
from guard_eval.records import SIMULATED
from guard_eval.reporting.drawing import GUIDE, NARROW, WIDTH, Drawing, in_rows, interval_line, short
from guard_eval.reporting.escaping import NOTHING, clean, escape_latex, one_line
from guard_eval.reporting.figure_style import FIRST
from guard_eval.reporting.tables import LONG_CELL, Columns, Table, table_of, to_latex
from guard_eval.reporting.words import (
    and_list,
    capital,
    equals,
    judged_by,
    limits,
    names_of,
    number,
    p_value,
    percent,
    plural,
    rate,
    title,
)
from guard_eval.rubric import COMPOSITE

FOLDER = "paper"
MOST_ROWS = 40
"""Rows of the table; more do not fit a page, and stand in csv/."""
MOST_LINES = 30
"""Rows of the figure."""
SPELT_OUT = 6
"""Results in the sentence."""
COLUMN, SMALLEST = 219, 0.85
"""Points: one of ACL's two columns; and the scale below which its tables are hard to read."""
POINTS = 3.9
"""Points of a letter of a table, on average."""
SHORT = 20
"""Letters of a label that leaves room for the figure in one column."""

_PACKAGES = r"""% Needs \usepackage{array,booktabs,graphicx,textcomp}. Made by guard-eval.
\providecommand{\fitwidth}[1]{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{#1}}
"""
_OF_CORRECTION = {
    "Holm": "holm1979",
    "Benjamini–Hochberg": "benjamini1995",
    "Westfall–Young": "westfall1993",
}
"""The work that a correction comes from, by the beginning of its name."""

Noted = tuple[str, tuple[str, ...]]
"""A sentence without its full stop, and the keys of the works that it cites."""


def manuscript(
    rows: Sequence[ShareRow],
    rankings: Sequence[RankingRow],
    agreement: Sequence[AgreementRow],
    context: Context,
    near: Sequence[EquivalenceRow] = (),
    *,
    sides: Sequence[str] = (),
) -> dict[str, str | bytes]:
    """Return the files of paper/ by path within the report; the same input gives the same bytes.

    Of two methods the table and the figure are of win shares, by criterion and by who judged. Of more they
    are of the ranking by people, or by the first judge where no people judged.

    Args:
        rows: `share_rows`, as the report's answer rests on them.
        rankings: `ranking_rows`; none of two methods.
        agreement: `agreement_rows`.
        context: What was declared.
        near: `equivalence_rows`, where a margin was declared.
        sides: What an audit found on methods that were mostly shown first.
    """
    totals = [row for row in rows if row.dataset is None]
    ranked = [row for row in rankings if row.who == totals[0].who] or list(rankings)
    ranked = [row for row in ranked if row.who == ranked[0].who]
    if ranked:
        table, figure, text = (
            _ranking_table(ranked, _overall(totals, context)),
            _ranking_figure(ranked),
            _ranking_sentence(ranked, totals, context),
        )
    else:
        table, figure, text = (
            _share_table(totals, context, near),
            _share_figure(totals, context.alpha),
            _share_sentence(totals, context) + disagreement(totals[:SPELT_OUT]),
        )
    placed = shown_unevenly(sides) if sides else ""
    text = " ".join(filter(None, (text, placed, equivalence.sentence(near))))
    if any(row.simulated for row in totals):
        text = f"SIMULATED verdicts, evidence of nothing: {text}"
    notes = _methods(totals, ranked, agreement, context, near)
    cited = list(dict.fromkeys(key for _, keys in notes for key in keys))
    latex = to_latex(table, label="tab:verdicts", across=_is_wide(table))
    return {
        f"{FOLDER}/table.tex": f"{_PACKAGES}{latex}\n",
        f"{FOLDER}/figure.pdf": figure.pdf,
        f"{FOLDER}/figure.tex": _figure_latex(figure),
        f"{FOLDER}/sentence.txt": f"{one_line(text)}\n",
        f"{FOLDER}/sentence.tex": f"{_latex(text)}\n",
        f"{FOLDER}/methods.tex": " ".join(_cited(*note) for note in notes) + "\n",
        f"{FOLDER}/references.bib": "".join(f"{_references()[key]}\n" for key in cited),
    }


def _latex(text: str) -> str:
    """Return prose for LaTeX in one line: no break before a percent sign, typographic apostrophes."""
    words = re.sub(r"[ \n\t]+", " ", clean(text))
    return escape_latex(re.sub(r"(?<=\d) (?=%)", "\u00a0", words).replace("'", "’"))


def _cited(text: str, keys: Sequence[str]) -> str:
    return _latex(text) + (rf"~\citep{{{','.join(keys)}}}" if keys else "") + "."


def _is_wide(table: Table) -> bool:
    """Return whether a table would be hard to read if it was shrunk to one of two columns."""
    longest = [
        max(len(str(cell)) for cell in (head, *cells))
        for head, *cells in zip(table.columns, *table.rows, strict=True)
    ]
    return POINTS * sum(min(length, LONG_CELL) for length in longest) + 8 * len(longest) > COLUMN / SMALLEST


def _figure_latex(figure: Drawing) -> str:
    """Return the figure as a float; it takes both columns where it was drawn for them."""
    across = figure.figure.get_figwidth() > NARROW
    name, place = ("figure*", "t") if across else ("figure", "htbp")
    lines = (
        r"% Needs \usepackage{graphicx}, and figure.pdf where LaTeX looks for figures. Made by guard-eval.",
        rf"\begin{{{name}}}[{place}]",
        r"\centering",
        r"\includegraphics[width=\linewidth,height=.75\textheight,keepaspectratio]{figure}",
        rf"\caption{{{_latex(figure.title)}}}\label{{fig:verdicts}}",
        rf"\end{{{name}}}",
    )
    return "\n".join(lines) + "\n"


def _width(labels: Iterable[str]) -> float:
    """Return a figure's width: of one column where its labels leave room for the figure itself."""
    return NARROW if all(len(label) <= SHORT for label in labels) else WIDTH


@cache
def _references() -> Mapping[str, str]:
    """Return the entries that can be cited, by key."""
    text = (Path(__file__).parent / "templates" / "references.bib").read_text(encoding="utf-8")
    entries = [entry.strip() for entry in re.split(r"^(?=@)", text, flags=re.MULTILINE) if entry.strip()]
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}


def _differs(row: ShareRow) -> bool:
    p = row.deciding
    return p is not None and p <= 1 - row.level + 1e-12


def _interval(level: float) -> str:
    return f"{100 * level:g}\u00a0% CI"


def _pairs(rows: Sequence[ShareRow]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row.method_a, row.method_b) for row in rows))


def _judges(rows: Sequence[ShareRow]) -> str:
    """Return who judged, and how many people they were."""
    wholes = {row.who: row.whole for row in rows}
    return and_list(
        [judged_by(*who) if who[1] else _people(whole.raters, who[0]) for who, whole in wholes.items()]
    )


def _people(count: int, kind: str) -> str:
    one, many = ("person", "people") if kind == "person" else ("SIMULATED rater", "SIMULATED raters")
    return f"{count}\u00a0{one if count == 1 else many}"


def _share_table(totals: Sequence[ShareRow], context: Context, near: Sequence[EquivalenceRow]) -> Table:
    known = {(row.who, row.cell): row for row in near}
    nearness: Columns[ShareRow] = (
        {
            f"Within {points(near[0].margin)} of 50\u00a0%": lambda row: _conclusion(
                known.get((row.who, row.cell))
            )
        }
        if near
        else {}
    )
    several, judged = len(_pairs(totals)) > 1, len({row.who for row in totals}) > 1
    first, shown = totals[0], list(totals[:MOST_ROWS])
    left: Columns[ShareRow] = {
        **({"Judged by": lambda row: judged_by(*row.who)} if judged else {}),
        **({"Comparison": lambda row: f"{row.method_a} against {row.method_b}"} if several else {}),
        "Criterion": lambda row: title(row.criterion),
    }
    names = ("Wins", "Ties", "Losses")
    a, b = (short(name) for name in (first.method_a, first.method_b))
    of = "the first-named method" if several else first.method_a
    tests = names_of(methods_of(totals))
    words = "" if several else f": {a} against {b}"
    cut = f" The first {MOST_ROWS} of {len(totals)} results." if len(totals) > MOST_ROWS else ""
    return table_of(
        shown,
        {
            **left,
            **{name: _part(name.lower()) for name in names},
            "Share": lambda row: number(row.share.estimate, 1, scale=100),
            _interval(first.level): lambda row: limits(row.share),
            "p": lambda row: p_value(row.deciding),
            **nearness,
        },
        caption=f"{_mark(first)}Verdicts of {_judges(totals)} on {context.texts}{words}, in percent",
        note=f"Share: wins plus half the ties of {of}, mean over pairs. n: {_sizes(shown)}. p: {tests}"
        f"{_corrected(totals)}. Bold: p at most {rate(context.alpha)}."
        f"{disagreement(shown)}{_overall(totals, context)}{cut}",
        text_columns=len(left),
        strong=_differs,
    )


def _sizes(rows: Sequence[ShareRow]) -> str:
    """Return on how many prompts, where several pairs share one, pairs and ratings each result rests."""
    counts = {"pair": [row.items for row in rows], "rating": [row.n for row in rows]}
    if any(row.units < row.items for row in rows):
        counts = {"prompt": [row.units for row in rows], **counts}
    return ", ".join(
        f"{min(of)} to {plural(max(of), name)}" if min(of) < max(of) else plural(max(of), name)
        for name, of in counts.items()
    )


def _overall(totals: Sequence[ShareRow], context: Context) -> str:
    """Say what the composite is, where there is one."""
    if context.composite is None or all(row.criterion != COMPOSITE for row in totals):
        return ""
    return f" The composite: {context.composite}."


def _conclusion(row: EquivalenceRow | None) -> str:
    """Return what a result says of the margin, with the p-value of equivalence where there is one."""
    if row is None:
        return NOTHING
    p = row.adjusted if row.family else row.p_value
    return row.conclusion if p is None else f"{row.conclusion} ({p_value(p)})"


def _part(name: str) -> Callable[[ShareRow], str]:
    return lambda row: number(100 * getattr(row, name) / row.n, 1)


def _mark(row: ShareRow | RankingRow) -> str:
    return "SIMULATED. " if row.rater_kind in SIMULATED else ""


def _corrected(totals: Sequence[ShareRow]) -> str:
    sizes = sorted({row.family for row in totals if row.family > 1})
    if not sizes:
        return ""
    name = next(row.correction for row in totals if row.family)
    return f", corrected by {name} over {and_list([str(size) for size in sizes])} results"


def _share_figure(totals: Sequence[ShareRow], alpha: float) -> Drawing:
    several, judged = len(_pairs(totals)) > 1, len({row.who for row in totals}) > 1
    first = totals[0]

    def label(row: ShareRow) -> str:
        parts = [title(row.criterion)]
        parts += [f"{row.method_a} against {row.method_b}"] if several else []
        return " · ".join([*parts, *([judged_by(*row.who)] if judged else [])])

    shown = totals[:MOST_LINES]
    methods = ("the first-named", "the second") if several else (first.method_a, first.method_b)
    against = "" if several else f" of {first.method_a} against {first.method_b}"
    return forest(
        [
            ForestLine(label=label(row), share=row.share, pooled=row.pooled, strong=_differs(row))
            for row in shown
        ],
        methods=methods,
        name="figure",
        heading=f"{_mark(first)}Win shares{against}, with {100 * first.level:g} % intervals; the dashed line "
        "is no preference" + (f"; diamonds: p at most {rate(alpha)}" if any(map(_differs, shown)) else ""),
        simulated=any(row.simulated for row in totals),
        breaks=2,
        width=_width([*map(label, shown), *methods]),
    )


def _share_sentence(totals: Sequence[ShareRow], context: Context) -> str:
    """Return n, shares, intervals, p, test, correction and software, for each result up to a few."""
    whole = {row.who: row.whole.pairs for row in totals}
    pairs = and_list([plural(count, "pair") for count in dict.fromkeys(whole.values())])
    found = "; ".join(_result(row, len(whole) > 1) for row in totals[:SPELT_OUT])
    more = f"; {len(totals) - SPELT_OUT} further results are in the table" if len(totals) > SPELT_OUT else ""
    tests = names_of(methods_of(totals))
    return (
        f"{capital(_judges(totals))} compared {pairs} of {context.texts}: {found}{more} "
        f"({tests}, two-sided{_corrected(totals)}; {_software(context)})."
    )


def _result(row: ShareRow, judged: bool) -> str:  # noqa: FBT001 (whether to say who)
    a, b, p = row.method_a, row.method_b, row.deciding
    share = f"win share {percent(row.share.estimate)}"
    if row.share.low is not None:
        share += f", {_interval(row.level)} [{limits(row.share).replace(' to ', ', ')}]"
    test = equals(p)
    figures = f"({share}, {test}, n = {_sizes([row])})"
    who = f", judged by {judged_by(*row.who)}," if judged else ""
    if not _differs(row):
        none = "there was no evidence of a difference"
        if p is None:
            few = row.out_of_reach or row.test.withheld
            none = (
                f"too few {row.unit}s favoured a method to find a difference"
                if few
                else "nothing was to be tested"
            )
        return f"on {title(row.criterion)}{who} {none} between {a} and {b} {figures}"
    verb = "preferred" if (row.share.estimate or 0) > 0.5 else "preferred less often than"
    return (
        f"on {title(row.criterion)}{who} {a} was {verb} {'to ' if verb == 'preferred' else ''}{b} {figures}"
    )


def _software(context: Context) -> str:
    return f"guard-eval {context.versions.get('guard-eval', '')}".strip()


def _possible(row: RankingRow, place: int) -> str:
    """Return the ranks that a method may have, all methods' true ones at once at the ranking's level."""
    if not row.sets:
        return NOTHING
    low, high = row.sets[place]
    return f"{low}" if low == high else f"{low} to {high}"


def _ranking_table(ranked: Sequence[RankingRow], overall: str) -> Table:
    """Return a row per method, in the order of the first criterion, and ranks and shares by criterion."""
    first = ranked[0]
    names = [first.methods[place] for place in first.order]
    names += sorted({name for row in ranked for name in row.methods} - set(names))
    columns: Columns[str] = {"Method": lambda name: name}
    criteria = list(dict.fromkeys(row.criterion for row in ranked))
    for criterion in criteria:
        before = "" if len(criteria) == 1 else f"{short(capital(title(criterion)), LONG_CELL)}: "
        own = [row for row in ranked if row.criterion == criterion]
        columns = {**columns, **_ranking_columns(own, before)}
    cut = f" The first {MOST_ROWS} of {len(names)} methods." if len(names) > MOST_ROWS else ""
    return table_of(
        names[:MOST_ROWS],
        columns,
        caption=f"{_mark(first)}Methods ranked by {judged_by(first.rater_kind, first.judge)}",
        note=f"Rank: with the ranks possible, all at once at {100 * first.ranking.level:g}\u00a0%. "
        f"Share: expected win share against the average other method, in percent.{overall}{cut}",
    )


def _ranking_columns(rows: Sequence[RankingRow], before: str) -> Columns[str]:
    """Return rank and share on one criterion; groups that were not compared have a ranking each."""
    place = {name: (row, at) for row in rows for at, name in enumerate(row.methods)}

    def rank(name: str) -> str:
        if name not in place:
            return NOTHING
        row, at = place[name]
        return f"{row.order.index(at) + 1} ({_possible(row, at)})"

    def share(name: str) -> str:
        if name not in place:
            return NOTHING
        row, at = place[name]
        return number(row.ranking.shares[at].estimate, 1, scale=100)

    return {f"{before}rank": rank, f"{before}share": share}


def _ranking_figure(ranked: Sequence[RankingRow]) -> Drawing:
    """Return expected shares with intervals, the best on top; of one criterion where all are too many."""
    count = sum(len(row.order) for row in ranked)
    shown = ranked if count <= MOST_LINES else ranked[:1]
    lines = [(row, place) for row in shown for place in row.order][:MOST_LINES]

    def label(row: RankingRow, place: int) -> str:
        name = row.methods[place]
        return name if len(shown) == 1 else f"{title(row.criterion)} · {name}"

    def draw(axes: Axes) -> None:
        for at, (row, place) in enumerate(lines):
            share = row.ranking.shares[place]
            low, high = (None if end is None else 100 * end for end in (share.low, share.high))
            interval_line(axes, low, high, at, color=FIRST, width=1.8)
            if share.estimate is not None:
                axes.plot([100 * share.estimate], [at], marker="o", markersize=5, color=FIRST)
            axes.text(1.02, at, _possible(row, place), transform=axes.get_yaxis_transform(), va="center")
        axes.axvline(50, **GUIDE)
        axes.set_xlabel(
            "expected win share, %\n(on the right: possible ranks)",
            loc="center" if width == WIDTH else "right",
        )

    labels = [label(*line) for line in lines]
    width = _width(labels)
    cut = f" of the first {len(lines)} of {count} places" if len(lines) < count else ""
    level = 100 * ranked[0].ranking.level
    return in_rows(
        draw,
        labels,
        name="figure",
        heading=f"{_mark(ranked[0])}Expected win shares against the average other method{cut}, judged by "
        f"{judged_by(*ranked[0].who)}, with {level:g} % intervals, and the ranks possible at {level:g} %; "
        "the dashed line is no preference",
        width=width,
        description="Expected win shares with intervals, and ranks.",
        lines=2,
        simulated=ranked[0].rater_kind in SIMULATED,
    )


def _ranking_sentence(ranked: Sequence[RankingRow], totals: Sequence[ShareRow], context: Context) -> str:
    first = ranked[0]
    mine = [row for row in totals if row.who == first.who]
    found = "; ".join(_leader(row) for row in ranked[:SPELT_OUT])
    pairs = plural(mine[0].whole.pairs, "pair")
    holds = (
        f"ranks hold at once at {100 * first.ranking.level:g}\u00a0%; any difference: "
        f"{first.difference.method}"
    )
    whole = f"{capital(_judges(mine))} compared {pairs} of {context.texts}"
    return f"{whole}: {found}; {holds}; computed with {_software(context)}."


def _leader(row: RankingRow) -> str:
    """Say who leads a ranking, and who cannot be told from it."""
    best, n = row.order[0], f"n = {row.ranking.n} {row.unit}"
    test = f"any difference: {equals(row.adjusted)}"
    if row.adjusted is None or row.adjusted > 1 - row.ranking.level + 1e-12:
        none = f"there was no evidence that one of {len(row.order)} methods is better than another"
        return f"on {title(row.criterion)} {none} over all comparisons ({test}, {n})"
    share = row.ranking.shares[best]
    figures = [
        f"possible rank{'s' if ' ' in _possible(row, best) else ''} {_possible(row, best)}",
        f"expected share {percent(share.estimate)}",
    ]
    if share.low is not None:
        figures.append(f"{_interval(row.ranking.level)} [{limits(share).replace(' to ', ', ')}]")
    figures += [test, n]
    also = [row.methods[place] for place in row.order[1:] if row.sets and row.sets[place][0] == 1]
    beyond = [f"{len(also) - SPELT_OUT} more"] if len(also) > SPELT_OUT else []
    level = f", not told apart from {and_list([*also[:SPELT_OUT], *beyond])}" if also else ""
    return (
        f"on {title(row.criterion)} {row.methods[best]} ranks first of {len(row.order)}{level} "
        f"({', '.join(figures)})"
    )


def _methods(
    totals: Sequence[ShareRow],
    ranked: Sequence[RankingRow],
    agreement: Sequence[AgreementRow],
    context: Context,
    near: Sequence[EquivalenceRow],
) -> list[Noted]:
    """Return the paragraph on methods, each sentence with the works it rests on."""
    first = totals[0]
    intervals = names_of(row.share.method for row in totals)
    tests = names_of(methods_of(totals))
    whom = (
        "all raters like those who took part"
        if any(row.estimand == "population" for row in totals)
        else "the raters who took part"
    )
    estimand = "We report win shares, wins plus half the ties: means over pairs of means over raters"
    notes: list[Noted] = [
        (f"{estimand}, for {whom}", ()),
        (f"Intervals ({100 * first.level:g} %): {intervals}", _works_of_interval(totals)),
        (
            f"Tests are two-sided at {rate(context.alpha)}: {tests}; the unit is the {first.unit}",
            _works_of_test(totals),
        ),
    ]
    if _overall(totals, context):
        overall = f"The overall result is a composite, {context.composite}, computed for each rater and pair"
        notes.append((overall, ()))
    if corrected := [row for row in totals if row.family > 1]:
        name = corrected[0].correction
        declared = (
            "declared beforehand" if corrected[0].declared else "of this analysis, none declared beforehand"
        )
        sizes = and_list([str(size) for size in sorted({row.family for row in corrected})])
        key = next((key for known, key in _OF_CORRECTION.items() if name.startswith(known)), None)
        how = and_list(sorted({row.corrected_by for row in corrected if row.corrected_by}) or [""])
        drawn = f" ({how})" if how else ""
        notes.append(
            (
                f"p-values are corrected by {name}{drawn} over {sizes} results {declared}",
                (key,) if key else (),
            )
        )
    if near:
        over = max(row.family for row in near)
        corrected_by = f", corrected by {near[0].correction} over {over} results" if over > 1 else ""
        text = f"That a share lies within {points(near[0].margin)} of 50 % is shown by two one-sided t tests"
        notes.append((f"{text}{corrected_by}", ("schuirmann1987",)))
    if ranked:
        notes.append(
            (
                f"Methods are ranked by {ranked[0].ranking.estimate.method}, ties being verdicts too",
                ("davidson1970",),
            )
        )
        notes.append(
            (
                f"Possible ranks hold for all methods at once at {100 * ranked[0].ranking.level:g} %",
                ("mogstad2024",),
            )
        )
        drawn_by = (
            f"Intervals of expected shares: {ranked[0].ranking.method.replace('items', ranked[0].unit)}"
        )
        notes += [(drawn_by, ())] if ranked[0].ranking.replicates else []
        test = f"That no method is better than another is tested by the {ranked[0].difference.method}"
        holm = f", corrected by Holm over {len(ranked)} rankings" if len(ranked) > 1 else ""
        notes.append((f"{test}{holm}", ("pitman1937", "holm1979") if holm else ("pitman1937",)))
    notes += _agreement(agreement)
    seed = 0 if context.seed is None else context.seed
    notes.append((f"Computed with {_software(context)}, seed {seed}", ()))
    return notes


def _agreement(rows: Sequence[AgreementRow]) -> list[Noted]:
    """Return how far people agreed: on each criterion of one comparison, or between which values of many."""
    known = [row for row in rows if row.agreement.value is not None and not row.judge]
    if not known:
        return []
    values = [number(row.agreement.value) for row in known]
    text = and_list([f"{value} on {title(row.criterion)}" for value, row in zip(values, known, strict=True)])
    if len({(row.rater_kind, row.method_a, row.method_b) for row in known}) > 1 or len(known) > SPELT_OUT:
        ordered = sorted(known, key=lambda row: row.agreement.value or 0.0)
        low, high = (number(row.agreement.value) for row in (ordered[0], ordered[-1]))
        text = f"{low} to {high} over {len(known)} comparisons and criteria"
    return [(f"Agreement between raters, Fleiss’ κ: {text}", ("fleiss1971",))]


def _works_of_interval(totals: Sequence[ShareRow]) -> tuple[str, ...]:
    if any(row.anytime for row in totals):
        return ("waudbysmith2024",)
    clustered = any(PROMPT_T in row.share.method for row in totals)
    assisted = any(row.assisted_by for row in totals)
    return (*(("bell2002",) if clustered else ()), *(("angelopoulos2023",) if assisted else ()))


def _works_of_test(totals: Sequence[ShareRow]) -> tuple[str, ...]:
    methods = " ".join(row.test.method for row in totals)
    works = {
        "sign-flip": "pitman1937",
        "Satterthwaite": "satterthwaite1946",
        "random effects": "henderson1953",
    }
    return tuple(key for word, key in works.items() if word in methods)
