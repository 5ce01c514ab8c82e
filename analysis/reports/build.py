"""Verdicts → a folder: a page that answers the question, the same in Markdown and LaTeX, and every number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis.reports.answer import answer
from analysis.reports.context import Context
from analysis.reports.examples import ShownExample, judged_example
from analysis.reports.files import frame_csv, numbers, write_files
from analysis.reports.manuscript import manuscript
from analysis.reports.methods import limitations, methods
from analysis.reports.section import Section
from analysis.reports.sections import (
    agreement,
    assisted,
    audits,
    comparisons,
    equivalence,
    judge_run,
    judges,
    length,
    metrics,
    position,
    ranking,
    raters,
    sensitivity,
    sequential,
    shares,
)
from analysis.results.agreement import agreement_rows
from analysis.results.audits import REDUNDANT, UNBALANCED, audit
from analysis.results.bias import length_rows, order_rows, position_rows
from analysis.results.equivalence import equivalence_rows
from analysis.results.judges.assisted import assisted_lines, assisted_ranks, with_assisted_shares
from analysis.results.judges.judge_agreement import beside_rows, judge_rows
from analysis.results.ranking import ranking_rows
from analysis.results.raters import rater_rows
from analysis.results.sensitivity import sensitivity_rows
from analysis.results.sequential import sequential_rows, with_anytime_tests
from analysis.results.shares import share_rows
from analysis.verdicts.composite import incomplete
from analysis.verdicts.scores import CELL, ScoredVerdicts, Verdicts
from analysis.verdicts.tidy import remarks, validate
from guard_eval.errors import StudyError
from guard_eval.records import SIMULATED
from guard_eval.reporting.drawing import standalone
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table, to_csv
from guard_eval.reporting.words import and_list, titled

_TEMPLATES = Path(__file__).parent / "templates"
SCRIPT = _TEMPLATES / "page.js"
MOST_IN_FULL = 24
"""Results (comparison, criterion, who judged) up to which all comparisons of several methods are in full."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written.

    Attributes:
        paths: Every file, index.html first.
        summary: The paragraph that answers the question.
    """

    paths: tuple[Path, ...]
    summary: str


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """Everything the templates print."""

    context: Context
    summary: str
    simulated: bool
    sections: tuple[Section, ...]
    examples: tuple[ShownExample, ...]
    methods: tuple[str, ...]
    limits: tuple[str, ...]
    manuscript: Mapping[str, str | bytes]
    script: str = ""

    @property
    def scripted(self) -> bool:
        """Return whether there is a table that the page's reader can sort."""
        return any(isinstance(part, Table) and part.sortable for one in self.sections for part in one.parts)


def write_report(verdicts: Verdicts, folder: Path, context: Context) -> Report:
    """Write index.html, report.md, report.tex, report.json, figures/, csv/, prompts/ and paper/.

    The same input gives the same bytes.

    Args:
        verdicts: A tidy table of verdicts, of any origin, or one that is `scored`.
        folder: Made where missing; files of an earlier report there are replaced.
        context: What else there is to know of the study.

    Raises:
        StudyError: The verdicts are not a valid table, or the folder cannot be written.
    """
    with titled(context.titles):
        return _write(verdicts, folder, context)


def figures_of(verdicts: Verdicts, context: Context) -> dict[str, Figure]:
    """Return the figures of the report as matplotlib has them, by the names of their files.

    Raises:
        StudyError: The verdicts are not a valid table.
    """
    with titled(context.titles):
        page = _page(_scored(verdicts, context), context)
    return {drawing.name: drawing.figure for section in page.sections for drawing in section.drawings}


def scored(table: pd.DataFrame, context: Context) -> ScoredVerdicts:
    """Return a validated table as `context` declares it."""
    return ScoredVerdicts.of(table, context.planned, context.panel, context.composite)


def _scored(verdicts: Verdicts, context: Context) -> ScoredVerdicts:
    return verdicts if isinstance(verdicts, ScoredVerdicts) else scored(validate(verdicts), context)


def _write(verdicts: Verdicts, folder: Path, context: Context) -> Report:
    scored = _scored(verdicts, context)
    frame, page = scored.frame, _page(scored, context)
    tables: dict[str, Table] = {}
    names = ("index.html", "report.md", "report.tex")
    files: dict[str, str | bytes] = {name: render(_TEMPLATES / f"{name}.j2", page=page) for name in names}
    for section in page.sections:
        tables |= section.exports
        for drawing in section.drawings:
            files[f"figures/{drawing.name}.svg"] = standalone(drawing)
            files[f"figures/{drawing.name}.pdf"] = drawing.pdf
            files[f"figures/{drawing.name}.png"] = drawing.png
    if context.judging is not None:
        files |= {f"prompts/{one.version}.txt": one.text for one in context.judging.prompts}
    files |= page.manuscript
    files["report.json"] = numbers(context, page.summary, tables)
    files |= {f"csv/{name}.csv": to_csv(table) for name, table in tables.items()}
    files["csv/verdicts.csv"] = frame_csv(frame, simulated=frame["rater_kind"].isin(SIMULATED))
    return Report(paths=write_files(folder, files), summary=page.summary)


def _in_full(scored: ScoredVerdicts, context: Context, *, ranked: bool) -> tuple[tuple[str, str], ...]:
    """Return the comparisons that are analysed in every way: all, or of many those that were asked for."""
    pairs = scored.frame[["method_a", "method_b"]].drop_duplicates().itertuples(index=False, name=None)
    known = tuple(sorted((str(a), str(b)) for a, b in pairs))
    asked = []
    for a, b in context.compare:
        found = next((pair for pair in known if set(pair) == {a, b}), None)
        if found is None:
            names = ", ".join(sorted({name for pair in known for name in pair}))
            raise StudyError(f"{a!r} and {b!r} are not compared; name two of the methods: {names}")
        asked.append(found)
    if asked or not ranked:
        return tuple(asked) or known
    results = scored.scores[CELL].drop_duplicates()
    return known if len(results) <= MOST_IN_FULL else ()


def _page(scored: ScoredVerdicts, context: Context) -> ReportPage:
    frame, alpha, seed = scored.frame, context.alpha, context.seed or 0
    rankings = ranking_rows(scored, alpha=alpha, seed=seed)
    in_full = _in_full(scored, context, ranked=bool(rankings))
    part = scored.only(in_full)
    rows = share_rows(
        scored,
        planned=context.planned,
        alpha=alpha,
        correction=context.correction,
        raters=context.raters,
        by_dataset=in_full,
        seed=seed,
    )
    near = (
        equivalence_rows(rows, margin=context.margin, alpha=alpha, correction=context.correction)
        if context.margin is not None
        else ()
    )
    looks = (
        sequential_rows(scored, planned=context.planned, alpha=alpha, raters=context.raters_per_item.get)
        if context.sequential
        else ()
    )
    lines = assisted_lines(scored if context.assisted_by else part, random=context.random_part, alpha=alpha)
    answering = with_anytime_tests(rows, looks) if looks else rows
    if context.assisted_by is not None:
        answering = with_assisted_shares(rows, lines, context.assisted_by)
    agreeing = agreement_rows(part, alpha=alpha)
    places = position_rows(scored, alpha=alpha)
    several = len({(row.method_a, row.method_b) for row in rows}) > 1
    simulated = any(row.simulated for row in rows)
    left_out = () if context.composite is None else incomplete(scored.scores, context.composite)
    found = audit(frame)
    redundant = tuple(one.what for one in found if one.kind == REDUNDANT)
    sides = tuple(one.what for one in found if one.kind == UNBALANCED and one.severity == "warning")
    sections = (
        ranking.section(rankings),
        comparisons.section(
            rows, rankings, in_full=in_full if context.compare else (), composite=context.composite
        )
        if rankings
        else shares.section(rows, name_methods=several, composite=context.composite),
        equivalence.section(near, name_methods=several),
        sequential.section(looks, name_methods=several),
        sensitivity.section(
            sensitivity_rows(part, alpha=alpha, seed=seed, raters=context.raters),
            name_methods=several,
            alpha=alpha,
        ),
        agreement.section(agreeing, name_methods=several),
        judges.section(judge_rows(part, alpha=alpha), beside_rows(part), name_methods=several),
        assisted.section(
            lines,
            assisted_ranks(scored, random=context.random_part, alpha=alpha) if lines else (),
            name_methods=several,
            random=context.random_part,
            declared=context.assisted_by,
        ),
        judge_run.section(context.judging, alpha=alpha),
        raters.section(rater_rows(scored, alpha=alpha)),
        position.section(places, order_rows(part, alpha=alpha), name_methods=several),
        length.section(length_rows(part, alpha=alpha), name_methods=several),
        audits.section(found, simulated=simulated),
        metrics.section(context, simulated=simulated),
    )
    summary = answer(
        answering,
        alpha=alpha,
        assisted_by=context.assisted_by,
        composite=context.composite,
        sensitivity=bool(in_full),
        texts=context.texts,
        exploratory=bool(context.why_exploratory),
        redundant=redundant,
        sides=sides,
        rankings=rankings,
        panels=[panel.name for panel in scored.panels],
    )
    unfinished = ""
    if context.unfinished:
        unfinished = f"Not everything that was planned is rated: {and_list(context.unfinished)} (see Limits)."
    return ReportPage(
        context=context,
        summary=" ".join(filter(None, (summary, equivalence.sentence(near), unfinished))),
        simulated=simulated,
        script=SCRIPT.read_text(encoding="utf-8"),
        sections=tuple(section for section in sections if section is not None),
        examples=tuple(judged_example(pair, frame) for pair in context.examples),
        methods=(*methods(rows, context, scored.panels, left_out), *ranking.method(rankings)),
        manuscript=manuscript(answering, rankings, agreeing, context, near, sides=sides),
        limits=(
            *limitations(rows, agreeing, places, context),
            *(f"{text}." for text in remarks(frame)),
        ),
    )
