"""The sections of the report: each is one module, listed once; the fields of its rows are its columns."""

from dataclasses import fields
from importlib import import_module
from pkgutil import walk_packages

import pandas as pd
import pytest
from verdicts_by_hand import COMPARED, drawn_verdicts, evidence, table

import analysis
from analysis import sections
from analysis.evidence import USED_PLAN_KEYS, declare_plan_keys
from analysis.reports.notebook import make_evidence
from analysis.sections import ANALYSES, SECTIONS
from analysis.sections.raters import order_and_length
from analysis.sections.raters.agreement import AgreementRow, measure_agreement
from analysis.sections.section import MAX_ROWS, make_frame_from_rows, make_table_of_first_rows
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError

UNLISTED = {"measure_total_shares", "select_rows_for_report_answer", "measure_all_shares"}
"""The analyses that write no CSV file."""


def test_sections_and_analyses_are_all_listed():
    names = {
        module.name
        for module in walk_packages(sections.__path__, "analysis.sections.")
        if hasattr(import_module(module.name), "make_section") and not module.ispkg
    }
    assert names == {section.__module__ for section in SECTIONS}
    analyses = {analyse for analyse in USED_PLAN_KEYS if analyse.__name__ not in UNLISTED}
    assert set(ANALYSES.values()) == analyses


def test_anchors_are_unique():
    collected = evidence(check_verdicts(drawn_verdicts(30, compared=COMPARED)), margin=0.1)
    anchors = [page.anchor for section in SECTIONS if (page := section(collected))]
    assert len(anchors) > 8
    assert len(set(anchors)) == len(anchors)


def test_frame_has_fields_and_limits_as_columns():
    (row,) = measure_agreement(evidence(table({f"{pair}": "xxy" for pair in range(9)})))
    frame = make_frame_from_rows([row])
    assert {field.name for field in fields(AgreementRow)} < set(frame)
    assert frame.columns[0] == "simulated"
    kappa = frame[["fleiss_kappa", "kappa_low", "kappa_high"]].iloc[0].tolist()
    assert kappa == [row.fleiss_kappa.value, row.fleiss_kappa.low, row.fleiss_kappa.high]


def test_frame_without_rows_keeps_its_columns():
    with pytest.warns(UserWarning, match="judges has no rows: no pair was judged by people and by a model"):
        frame = analysis.judges(table({f"{pair}": "xxy" for pair in range(9)}))
    assert frame.empty
    assert {"simulated", "judge", "cohen_kappa", "kappa_low", "kappa_high", "note"} < set(frame)


def test_rows_of_an_analysis_are_computed_once():
    calls = []

    def count(collected):
        calls.append(collected)
        return []

    collected = evidence(table({"1": "xy"}))
    assert collected.rows(count) is collected.rows(count)
    assert calls == [collected]


def test_long_table_names_the_file_of_all_rows():
    rows = list(range(MAX_ROWS + 1))
    (cut,) = make_table_of_first_rows(
        rows,
        lambda row: {"Row": row},
        lambda row: {"Twice": 2 * row, "None": None},
        csv_name="f",
        caption="c",
    )
    assert cut.columns == ("Row", "Twice")  # a column without any figure is left out
    assert cut.note == f"The first {MAX_ROWS} of {MAX_ROWS + 1} rows; csv/f.csv has all."
    assert make_table_of_first_rows([], dict, dict, csv_name="f", caption="c") == ()


def test_unknown_plan_key_is_refused():
    with pytest.raises(ValueError, match="wieghts: not a key of the plan; use alpha, correction"):
        declare_plan_keys("alpha", "wieghts")


def test_plan_key_of_unknown_effect_is_refused(monkeypatch):
    monkeypatch.setattr("analysis.evidence.DECIDED", frozenset())
    with pytest.raises(
        StudyError, match=r"margin = 0\.1: measure_agreement does not use this setting; leave it out"
    ):
        measure_agreement(evidence(table({"1": "xy"}), margin=0.1))


def test_order_section_says_the_range_of_shares():
    """The first text, alpha in all four pairs, wins three times on flow and once on sense."""
    wins = {"flow": 3, "sense": 1}
    rows = [
        {"item": item, "left": "alpha", "right": "beta", "rater": "u", "criterion": name}
        | {"winner": "alpha" if item < count else "beta"}
        for name, count in wins.items()
        for item in range(4)
    ]
    section = order_and_length.make_section(make_evidence(pd.DataFrame(rows), rater_kind="person"))
    assert section.answer == "The first-shown text won 25\N{NO-BREAK SPACE}% to 75\N{NO-BREAK SPACE}%"
