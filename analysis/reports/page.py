"""The page of a report: a first screen with the answer, sections that unfold, methods and limitations."""

from __future__ import annotations

import pandas as pd

from analysis.evidence import Context, Evidence
from analysis.reports.first_screen import FirstScreen, first_screen
from analysis.reports.methods import limitations, methods
from analysis.reports.sentences import is_simulated
from analysis.sections import SECTIONS
from analysis.sections.section import Section, group_name
from analysis.verdicts.scores import by_cell, with_judges
from guard_eval.records import Pair, record
from guard_eval.reporting.words import title


@record
class ReportPage:
    """The content for the templates."""

    context: Context
    simulated: bool
    screen: FirstScreen
    sections: tuple[Section, ...]
    examples: tuple[tuple[Pair, list[str]], ...]
    methods: tuple[str, ...]
    limits: tuple[str, ...]


def build_page(evidence: Evidence) -> ReportPage:
    """Return the page with all sections that have rows."""
    context = evidence.context
    screen = first_screen(evidence)
    sections = [module.section(evidence) for module in SECTIONS]
    return ReportPage(
        context=context,
        simulated=is_simulated(evidence),
        screen=screen,
        sections=tuple(section for section in sections if section is not None),
        examples=tuple((pair, _verdicts_on(pair, evidence.frame)) for pair in context.examples),
        methods=methods(evidence),
        limits=limitations(evidence),
    )


def _verdicts_on(pair: Pair, frame: pd.DataFrame) -> list[str]:
    """Count the verdicts for each text of a pair, by criterion and kind of rater."""
    methods = (pair.method_a, pair.method_b)
    example = frame[
        (frame["pair_id"] == pair.id) & frame["method_a"].isin(methods) & frame["method_b"].isin(methods)
    ]
    counted = []
    for key, rows in by_cell(with_judges(example)):
        a, b = (int((rows["verdict"] == method).sum()) for method in methods)
        text = f"{pair.method_a} {a} · tie {len(rows) - a - b} · {pair.method_b} {b}"
        counted.append(f"{title(key.criterion)} ({group_name(key)}): {text}")
    return counted
