"""The command `power`: show how many items and raters a study needs, as a table, a figure and JSON.

A pilot gives the share of ties and the correlation of ratings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.evidence import Evidence
from analysis.planning.formulas import MAX_RATERS, Design, compute_power, find_items_needed
from analysis.reports.command import read_table_evidence
from analysis.scores.scores import (
    ResultKey,
    ScoredVerdicts,
    compute_mean_scores,
    find_item_numbers,
    group_by_result,
)
from analysis.sections.results.shares import measure_total_shares
from analysis.sections.section import group_by
from analysis.stats.agreement import intraclass_correlation
from guard_eval.errors import StudyError
from guard_eval.records import SIMULATED, JsonObject, record
from guard_eval.reporting.drawing import GUIDE, INK, PROGRAM, Caption, Drawing, draw_figure
from guard_eval.reporting.escaping import Cell
from guard_eval.reporting.rendering import render_lines
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import (
    KIND_PLACE,
    count_in_words,
    format_percent,
)
from guard_eval.reporting.writing import check_replaceable, write_atomically
from guard_eval.results import Result
from guard_eval.study.test_plan import TestPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png", ".pdf")
LARGEST_FIGURE = 10_000_000
"""The number of bytes that are read of an earlier figure."""
MARKERS = "osD^vP*X<>"
HEIGHT_INCHES = 3.9
PowerCurve = Mapping[int, Mapping[int, float]]
"""The power by the number of raters per item, then by the number of items."""
POINTS = 24
"""The number of points at which a curve of power is computed."""


@record
class Pilot:
    """A pilot's figures for the criterion that needs the largest study. All comparisons are pooled.

    The win share of the pilot is left out on purpose, because chance has a large effect on it. Plan for the
    smallest share that is worth finding.

    Attributes:
        line: A line that describes the pilot and its figures.
        ties: The share of ties among the ratings.
        icc: ICC(1), at least 0; None if no item was rated twice.
        results: The number of tests in the report's correction.
        plan: The plan for the tests that the pilot declares.
    """

    line: str
    ties: float
    icc: float | None
    results: int
    plan: TestPlan

    @property
    def relative_items_needed(self) -> float:
        """Return a number proportional to the items that 5 raters need: (1 − ties) (1 + 4 ICC)."""
        return (1 - self.ties) * (1 + 4 * (self.icc or 0.0))


@record
class Need:
    """The items and verdicts that a study needs for a given number of raters per item.

    Attributes:
        raters: The number of raters per item.
        items: The number of items; None if no number is enough.
        verdicts: The number of verdicts on all results.
        without: The number of items if the result is only about these raters, and no judge assists.
    """

    raters: int
    items: int | None
    verdicts: int | None
    without: int | None


@record
class Plan(Result):
    """The items that a study needs.

    Attributes:
        design: The planned study.
        needs: The items and verdicts for each number of raters.
        curve: The power by the number of raters per item, then by the number of items.
        drawing: The figure of the curve.
    """

    design: Design
    needs: tuple[Need, ...]
    curve: PowerCurve
    drawing: Drawing = field(metadata={"json": False})


def power(
    *,
    from_: Path | None = None,
    share: float = 0.55,
    ties: float | None = None,
    icc: float | None = None,
    results: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    raters: str | None = None,
    items: str | None = None,
    rater_sd: float | None = None,
    margin: float | None = None,
    judge_r: float | None = None,
    judged: int = 1000,
    output: Path | None = None,
    overrides: Sequence[str] = (),
) -> Plan:
    """Find out how many items and raters a study needs.

    The numbers follow from formulas for the tests of the report, at the smallest error rate that Holm's
    correction leaves to a result.

    Args:
        from_: A pilot: a study or a table of verdicts. Its ties, ICC and number of results are used.
        share: The smallest win share that the study should detect. A tie counts half.
        ties: The share of ties among the ratings. Default: that of the pilot, or 0.32, as in the paper.
        icc: The correlation of two raters' ratings of the same item. Default: that of the pilot, or 0.63,
            the largest that the paper's κ of 0.41 can mean.
        results: The number of results in Holm's correction: comparisons on criteria. Default: that of the
            pilot, or 1.
        alpha: The two-sided error rate.
        power: The power that the study should have.
        raters: The numbers of raters for each item, separated by commas.
        items: The numbers of items that the table shows, separated by commas.
        rater_sd: Plan for all raters of the same kind, not only for those who rate. The value is the
            standard deviation of raters' own win shares: 0.05 is moderate, 0.1 is large. A report gives it
            under Sensitivity.
        margin: Plan to show that the win share is within this distance of one half, if it is in fact one
            half.
        judge_r: Plan people who are assisted by a judge. The value is the correlation of the judge's score
            of an item with people's mean. A report gives it.
        judged: With a judge: the number of items that it judges. People rate a random part of them.
        output: The file for the figure: .svg, .png or .pdf.
        overrides: Settings with which the pilot is read, such as `columns.system=method_a`.

    Raises:
        StudyError: A value is impossible, the pilot cannot be read, or the file cannot be written.
    """
    if output is not None and output.suffix.lower() not in FORMATS:
        raise StudyError(f"{output}: the name of a figure must end in {', '.join(FORMATS)}")
    pilot = None if from_ is None else read_pilot(from_, overrides)
    options = {"ties": ties, "icc": icc, "results": results}
    # An option replaces the pilot's figure, which replaces the default.
    figures = {
        name: getattr(pilot, name, None) if value is None else value for name, value in options.items()
    }
    values: JsonObject = {name: value for name, value in figures.items() if value is not None}
    try:
        design = Design(
            share=share,
            alpha=alpha,
            power=power,
            rater_sd=rater_sd,
            margin=margin,
            judge_r=judge_r,
            judged=judged,
            **values,
        )
    except StudyError as error:
        if pilot is None:
            raise
        raise StudyError(f"{error}. The pilot: {pilot.line}") from None
    if raters is None:
        raters = "1,2,3,4,5" if rater_sd is None else "3,5,10,20"
    plan = plan_study(
        design,
        raters=_parse_number_list("--raters", raters, MAX_RATERS),
        items=() if items is None else _parse_number_list("--items", items, design.most_items),
        heading=() if pilot is None else (f"pilot: {pilot.line}",),
    )
    if pilot is not None:
        warnings = render_lines(__file__, "pilot.txt", declared=pilot.plan, design=design)
        plan = replace(plan, warnings=warnings)
    if output is not None:
        check_replaceable(output, PROGRAM, searched=LARGEST_FIGURE)
        write_atomically(output, plan.drawing.encode(output.suffix.lower()[1:]), make_folder=True)
    return plan


def plan_study(
    design: Design,
    *,
    raters: Sequence[int] = (1, 2, 3, 4, 5),
    items: Sequence[int] = (),
    heading: Sequence[str] = (),
) -> Plan:
    """Return the items that a design needs for each number of raters.

    Args:
        design: The planned study.
        raters: Numbers of raters of each item.
        items: Further numbers of items for which to show the power.
        heading: Lines before the answer.

    Raises:
        StudyError: There are too few raters for a result about raters in general.
    """
    needs = [_compute_needed_items(design, count) for count in raters]
    enough = [need.items for need in needs if need.items is not None]
    largest = 1.4 * max(enough) if enough else 1000
    if design.judge_r is not None:
        largest = min(largest, design.judged)
    sizes = sorted({*np.linspace(2, max(10.0, largest), POINTS).astype(int).tolist(), *items})
    curve = {count: {size: compute_power(design, size, count) for size in sizes} for count in raters}
    goal, answer = render_lines(__file__, "plan.txt", design=design, needs=needs)
    return Plan(
        lines=(*heading, answer),
        tables=(_make_needed_items_table(design, needs, curve, items),),
        next=("guard-eval new my-study",),
        design=design,
        needs=tuple(needs),
        curve=curve,
        drawing=draw_figure(
            partial(_draw_power_curve, design, curve),
            Caption(
                name="power",
                heading=goal,
                description=f"Power rises with the number of items. {answer}",
            ),
            height=HEIGHT_INCHES,
        ),
    )


def _compute_needed_items(design: Design, raters: int) -> Need:
    items = find_items_needed(design, raters)
    simpler = design.restrict_to_these_raters()
    return Need(
        raters=raters,
        items=items,
        verdicts=None if items is None else items * raters * design.results,
        without=None if design == simpler else find_items_needed(simpler, raters),
    )


def _parse_number_list(option: str, text: str, largest: int) -> tuple[int, ...]:
    """Parse a list of whole numbers with commas. Return each number once, in ascending order."""
    try:
        numbers = tuple(sorted({int(number) for number in text.split(",")}))
    except ValueError:
        raise StudyError(f"{option} {text!r}: give whole numbers with commas, such as 1,3,5") from None
    for value in numbers:
        if not 1 <= value <= largest:
            raise StudyError(f"{option} {value}: give whole numbers from 1 to {largest}")
    return numbers


def _make_needed_items_table(
    design: Design, needs: Sequence[Need], curve: PowerCurve, items: Sequence[int]
) -> Table:
    """Make a table of the items needed, and of the power for the requested numbers of items."""
    heads = ["Raters", "Items", "Verdicts"]
    is_wider = design != design.restrict_to_these_raters()
    if is_wider:
        heads.append("These raters alone" if design.judge_r is None else "Without the judge")
    heads += [f"{size} items" for size in items]
    rows: list[tuple[Cell, ...]] = []
    for need in needs:
        without = (need.without,) if is_wider else ()
        powers = [f"{100 * curve[need.raters][size]:.0f}" for size in items]
        rows.append((need.raters, need.items, need.verdicts, *without, *powers))
    powers_shown = " The last columns are the power in % with this number of items." if items else ""
    return Table(
        columns=tuple(heads),
        rows=tuple(rows),
        caption=f"Items for a power of {format_percent(design.power, 0)}",
        note="An item is a pair of continuations of one prompt, rated by the given raters. Verdicts: items × "
        f"raters × results.{powers_shown}",
        text_columns=0,
    )


def _draw_power_curve(design: Design, curve: PowerCurve, axes: "Axes") -> None:
    """Draw the power against the number of items, with one line for each number of raters."""
    for (raters, powers), marker in zip(curve.items(), cycle(MARKERS), strict=False):
        percentages = [100 * power for power in powers.values()]
        axes.plot(
            list(powers),
            percentages,
            marker=marker,
            markevery=4,
            label=count_in_words(raters, "rater"),
        )
    axes.axhline(100 * design.power, **GUIDE)
    axes.set(ylim=(0, 101), xlabel="items", ylabel="power, %")
    axes.set_xlim(left=0)
    axes.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.6)


def read_pilot(source: Path, overrides: Sequence[str] = ()) -> Pilot:
    """Read a pilot in the same way as `report`. Use people's verdicts, or models' verdicts without people.

    Args:
        source: A study, or a table of verdicts with its report.toml.
        overrides: Settings for this run.

    Raises:
        StudyError: The pilot cannot be read, or has only simulated raters.
    """
    if not source.is_dir():
        return find_most_demanding_criterion(read_table_evidence([source], overrides=overrides))
    # Imported only for a study, because a table needs no database.
    from analysis.reports.study_report import read_table_and_context  # noqa: PLC0415
    from guard_eval.store import Store  # noqa: PLC0415
    from guard_eval.study import Study  # noqa: PLC0415

    study = Study.open(source, overrides)
    with Store.open_study(study) as store:
        return find_most_demanding_criterion(Evidence.from_verdicts(*read_table_and_context(study, store)))


def find_most_demanding_criterion(evidence: Evidence) -> Pilot:
    """Find the criterion whose items vary the most.

    The variance of the mean of m raters is proportional to (1 − ties) (1 + (m − 1) ICC) / m, with m = 5. If
    there is no ICC, the number of ties decides. The ICC is the mean over comparisons, weighted by pairs,
    because the largest ICC is often large by chance.

    Raises:
        StudyError: All raters are simulated.
    """
    frame = evidence.frame[~evidence.frame["rater_kind"].isin(SIMULATED)]
    if frame.empty:
        raise StudyError("all raters of the pilot are simulated. Name a pilot with people or judges")
    kind = min(frame["rater_kind"].unique(), key=KIND_PLACE.__getitem__)
    scored = ScoredVerdicts.from_verdicts(frame[frame["rater_kind"] == kind])
    cells = list(group_by_result(scored.scores_by_kind))
    by_criterion = group_by(cells, lambda cell: cell[0].criterion)
    family = max(row.family for row in evidence.rows(measure_total_shares))
    pilots = [
        _summarise_pilot_criterion(rows, family or len(cells), evidence.plan)
        for rows in by_criterion.values()
    ]
    return max(pilots, key=lambda pilot: pilot.relative_items_needed)


def _summarise_pilot_criterion(
    cells: Sequence[tuple[ResultKey, pd.DataFrame]], results: int, plan: TestPlan
) -> Pilot:
    """Return the share of ties and the ICC of a pilot on one criterion, over all comparisons."""
    scores = pd.concat([rows for _, rows in cells])
    estimates = []
    values = []
    pairs_rated_twice = []
    pairs = 0
    for _, rows in cells:
        item, first = find_item_numbers(rows)
        pairs += len(first)
        estimate = intraclass_correlation(item, compute_mean_scores(rows), rows["unit"].iloc[first])
        if estimate.value is not None:
            estimates.append(estimate)
            values.append(estimate.value)
            pairs_rated_twice.append((np.bincount(item) >= 2).sum())
    ties = float((scores["net"] == 0).mean())
    icc = None
    if estimates:
        icc = float(np.clip(np.average(values, weights=pairs_rated_twice), 0, 1))
    [line] = render_lines(
        __file__,
        "pilot_line.txt",
        cells=[cell for cell, _ in cells],
        ties=ties,
        icc=icc,
        estimates=estimates,
        note=estimate.note,
        pairs=pairs,
        raters=scores["rater"].nunique(),
    )
    return Pilot(line=line, ties=ties, icc=icc, results=results, plan=plan)
