"""Verdicts → a folder: a page that answers the question, the same in Markdown and LaTeX, and every number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.agreement import agreement_rows
from analysis.answer import answer
from analysis.audits import REDUNDANT, audit
from analysis.bias import order_rows, position_rows
from analysis.context import Context
from analysis.drawing import standalone
from analysis.examples import Shown, examples
from analysis.frame_csv import frame_csv
from analysis.judges import beside_rows, judge_rows
from analysis.length import length_rows
from analysis.method_notes import limitations, methods
from analysis.pairwise import fine_rows
from analysis.ranking import ranking_rows
from analysis.raters import rater_rows
from analysis.render import Table, to_csv
from analysis.report_files import numbers, write_files
from analysis.scores import remembered
from analysis.section import Section
from analysis.sections import (
    agreement,
    audits,
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
from analysis.sensitivity import sensitivity_rows
from analysis.sequential import sequential_rows, told
from analysis.shares import share_rows
from analysis.templating import FORMATS, rendered
from analysis.tidy import orient, validate


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
class Page:
    """Everything the templates print."""

    context: Context
    summary: str
    simulated: bool
    sections: tuple[Section, ...]
    examples: tuple[Shown, ...]
    methods: tuple[str, ...]
    limits: tuple[str, ...]


def write_report(verdicts: pd.DataFrame, folder: Path, context: Context) -> Report:
    """Write index.html, report.md, report.tex, report.json, figures/ and csv/.

    The same input gives the same bytes.

    Args:
        verdicts: A tidy table of verdicts, of any origin.
        folder: Made where missing; files of an earlier report there are replaced.
        context: What else there is to know of the study.

    Raises:
        StudyError: The verdicts are not a valid table, or the folder cannot be written.
    """
    frame = orient(validate(verdicts), context.planned)
    with remembered(frame):
        page = _page(frame, context)
    tables: dict[str, Table] = {}
    files: dict[str, str | bytes] = {name: rendered(name, page) for name in FORMATS}
    for section in page.sections:
        tables |= section.exports
        for drawing in section.drawings:
            files[f"figures/{drawing.name}.svg"] = standalone(drawing)
            files[f"figures/{drawing.name}.pdf"] = drawing.pdf
            files[f"figures/{drawing.name}.png"] = drawing.png
    files["report.json"] = numbers(context, page.summary, tables)
    files |= {f"csv/{name}.csv": to_csv(table) for name, table in tables.items()}
    files["csv/verdicts.csv"] = frame_csv(frame, simulated=frame["rater_kind"] == "simulated")
    return Report(paths=write_files(folder, files), summary=page.summary)


def _page(frame: pd.DataFrame, context: Context) -> Page:
    alpha = context.alpha
    rows = share_rows(frame, planned=context.planned, alpha=alpha, correction=context.correction)
    looks = (
        sequential_rows(frame, planned=context.planned, alpha=alpha, raters=context.raters_per_item.get)
        if context.sequential
        else ()
    )
    agreeing = agreement_rows(frame, alpha=alpha)
    places = position_rows(frame, alpha=alpha)
    several = len({(row.method_a, row.method_b) for row in rows}) > 1
    simulated = any(row.simulated for row in rows)
    found = audit(frame)
    redundant = tuple(one.what for one in found if one.kind == REDUNDANT)
    sections = (
        shares.section(rows, name_methods=several),
        sequential.section(looks, name_methods=several),
        ranking.section(ranking_rows(frame, alpha=alpha, seed=context.seed or 0)),
        sensitivity.section(
            sensitivity_rows(frame, alpha=alpha, seed=context.seed or 0), name_methods=several, alpha=alpha
        ),
        agreement.section(agreeing, name_methods=several, fine=fine_rows(frame, alpha=alpha)),
        judges.section(judge_rows(frame, alpha=alpha), beside_rows(frame), name_methods=several),
        judge_run.section(context.judging, alpha=alpha),
        raters.section(rater_rows(frame, alpha=alpha)),
        position.section(places, order_rows(frame, alpha=alpha), name_methods=several),
        length.section(length_rows(frame, alpha=alpha), name_methods=several),
        audits.section(found, simulated=simulated),
        metrics.section(context, simulated=simulated),
    )
    return Page(
        context=context,
        summary=answer(
            told(rows, looks) if looks else rows,
            alpha=alpha,
            exploratory=bool(context.why_exploratory),
            redundant=redundant,
        ),
        simulated=simulated,
        sections=tuple(section for section in sections if section is not None),
        examples=examples(frame, context),
        methods=methods(rows, context),
        limits=limitations(rows, agreeing, places, context),
    )
