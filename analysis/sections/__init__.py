"""The sections of the report, in the order of the page. A new section is one file and its name here."""

from __future__ import annotations

from analysis.sections import (
    agreement,
    assisted,
    audits,
    by_column,
    disagreements,
    equivalence,
    excluded,
    judge_run,
    judges,
    likeness,
    metrics,
    order_and_length,
    other_raters,
    ranking,
    raters,
    rounds,
    search,
    sensitivity,
    sequential,
    shares,
)
from analysis.sections.section import Analyse, SectionModule

SECTIONS: tuple[SectionModule, ...] = (
    rounds,
    ranking,
    excluded,
    shares,
    by_column,
    equivalence,
    sequential,
    agreement,
    sensitivity,
    other_raters,
    order_and_length,
    judges,
    disagreements,
    assisted,
    raters,
    likeness,
    audits,
    judge_run,
    search,
    metrics,
)
ANALYSES: dict[str, Analyse] = {name: analyse for module in SECTIONS for name, analyse in module.CSV.items()}
"""The analyses by the name of their CSV file."""
