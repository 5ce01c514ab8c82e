"""`power`: how many items and raters a study needs, as one table, one figure and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes

from analysis.planning.formulas import MAX_ITEMS, MAX_RATERS, Design, items_needed, power_at
from analysis.planning.pilot import read_pilot
from guard_eval.errors import StudyError
from guard_eval.reporting.drawing import GUIDE, INK, Drawing, drawn, standalone
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import and_list, percent, plural
from guard_eval.reporting.writing import write_whole
from guard_eval.results import Result

FORMATS = (".svg", ".png", ".pdf")
MARKERS = "osD^vP*X<>"
HEIGHT_INCHES = 3.9
POINTS = 24
"""Points of a curve."""


@dataclass(frozen=True, kw_only=True)
class Plan(Result):
    """The items that a study needs.

    Attributes:
        design: What is planned for.
        needs: A row for each number of raters: raters, items, verdicts, and the items that the same raters
            need without a judge, or if the answer is for them alone. `items` is NaN if no number is enough.
        curve: The power of numbers of items: raters, items, power.
    """

    design: Mapping[str, Any]
    needs: pd.DataFrame
    curve: pd.DataFrame
    drawing: Drawing = field(metadata={"json": False})


def power(
    *,
    from_: Path | None = None,
    share: float = 0.55,
    ties: float | None = None,
    icc: float | None = None,
    criteria: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    raters: str | None = None,
    items: str | None = None,
    rater_sd: float | None = None,
    margin: float | None = None,
    judge_r: float | None = None,
    judged: int = 1000,
    output: Path | None = None,
) -> Plan:
    """Find out how many items and raters a study needs.

    By formulas for the report's own tests, at the least error rate that Holm's correction leaves.

    Args:
        from_: A pilot, a study or a table of verdicts, from which ties, ICC and criteria are taken.
        share: The smallest win share worth finding, ties counting half.
        ties: The share of ties among the ratings; without a pilot 0.32, as in the paper.
        icc: The correlation of two raters' ratings of an item; without a pilot 0.63, the most that the
            paper's κ of 0.41 can mean.
        criteria: Criteria that Holm's correction runs over; by default the pilot's, else 1.
        alpha: The two-sided error rate.
        power: The power wanted.
        raters: Numbers of raters of each item, with commas.
        items: Numbers of items whose power the table shows, with commas.
        rater_sd: Plan for other raters of the same kind, whose own win shares have this standard deviation:
            0.05 is moderate, 0.1 large. A report says it under Sensitivity.
        margin: Plan to show that the share is within this distance of one half, where it is one half.
        judge_r: Plan people who are assisted by a judge, whose score of an item has this correlation with
            people's mean. A report says it.
        judged: Items that such a judge judges; people rate a random part of them.
        output: Write the figure: .svg, .png or .pdf.

    Raises:
        StudyError: A value is impossible, the pilot cannot be read, or the file cannot be written.
    """
    if output is not None and output.suffix.lower() not in FORMATS:
        raise StudyError(f"{output}: the name of a figure ends in {', '.join(FORMATS)}; change the ending")
    pilot = None if from_ is None else read_pilot(from_)
    taken = {} if pilot is None else {"ties": pilot.ties, "icc": pilot.icc, "criteria": pilot.criteria}
    assumptions = {"ties": ties, "icc": icc, "criteria": criteria}
    known = {
        name: value for part in (taken, assumptions) for name, value in part.items() if value is not None
    }
    design = Design(
        share=share,
        alpha=alpha,
        power=power,
        rater_sd=rater_sd,
        margin=margin,
        judge_r=judge_r,
        judged=judged,
        **known,  # type: ignore[arg-type]
    )
    plan = plan_study(
        design,
        raters=_numbers("--raters", raters or ("1,2,3,4,5" if rater_sd is None else "3,5,10,20"), MAX_RATERS),
        items=() if items is None else _numbers("--items", items, MAX_ITEMS),
        heading=() if pilot is None else (f"pilot: {pilot.line}",),
    )
    if output is not None:
        write_whole(output, _file(plan.drawing, output.suffix.lower()), make_folder=True)
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
        design: What is planned for.
        raters: Numbers of raters of each item.
        items: Numbers of items whose power is shown, too.
        heading: Lines before the answer.

    Raises:
        StudyError: There are too few raters to plan for others like them.
    """
    needs = pd.DataFrame({"raters": raters, "items": [items_needed(design, m) for m in raters]}, dtype=float)
    needs = needs.astype({"raters": int})
    needs["verdicts"] = needs["items"] * needs["raters"] * design.criteria
    if design != design.only():
        needs["without"] = [items_needed(design.only(), m) for m in raters]
    largest = 1000 if needs["items"].isna().all() else 1.4 * needs["items"].max()
    largest = min(largest, design.judged) if design.judge_r is not None else largest
    sizes = sorted({*np.linspace(2, max(10.0, largest), POINTS).astype(int).tolist(), *items})
    points = [(m, n, power_at(design, n, m)) for m in raters for n in sizes]
    curve = pd.DataFrame(points, columns=["raters", "items", "power"])
    return Plan(
        lines=(*heading, _answer(design, needs)),
        tables=(_table(design, needs, curve, items),),
        next=("guard-eval new my-study",),
        design=asdict(design),
        needs=needs,
        curve=curve,
        drawing=_figure(design, needs, curve),
    )


def _numbers(option: str, text: str, largest: int) -> tuple[int, ...]:
    """Return the whole numbers in a list with commas, each once and in order."""
    try:
        numbers = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise StudyError(f"{option} {text!r}: give whole numbers with commas, such as 1,3,5") from None
    for value in numbers:
        if not 1 <= value <= largest:
            raise StudyError(f"{option} {value}: give whole numbers from 1 to {largest}")
    return numbers


def _goal(design: Design) -> str:
    """Return what the study is to show, as the beginning of a sentence."""
    if design.margin is not None:
        return f"To show that a share of 50\u00a0% is within {100 * design.margin:g} points of 50\u00a0%"
    return f"To find a win share of {percent(design.share)}"


def _answer(design: Design, needs: pd.DataFrame) -> str:
    """Return what the needs come to, in a sentence or two."""
    whom = ", for all raters of the same kind" if design.rater_sd is not None else ""
    holm = f", Holm over {design.criteria} criteria" if design.criteria > 1 else ""
    goal = (
        f"{_goal(design)} with a power of {percent(design.power, 0)}{whom} (α = {design.alpha:g}, "
        f"{percent(design.ties, 0)} ties, ICC {design.icc:.2g}{holm})"
    )
    enough = needs.dropna(subset=["items"])
    unit = "items"
    if design.judge_r is not None:
        unit = f"items by people, beside a judge of r = {design.judge_r:g} on {design.judged}"
    sizes = [
        f"{items:.0f} {unit if index == 0 else 'items'} with {plural(raters, 'rater')} each"
        for index, (raters, items) in enumerate(_pairs(enough))
    ]
    few = needs.loc[needs["items"].isna(), "raters"]
    more = " more raters" if design.rater_sd is not None else " more than are possible"
    lines = (
        [f"{goal} takes {', '.join(sizes[:-1]) + ' or ' if sizes[1:] else ''}{sizes[-1]}."] if sizes else []
    )
    if len(few):
        subject = f"With {and_list([plural(value, 'rater') for value in few])} no number of items is enough"
        lines.append(f"{subject}." if sizes else f"{goal} takes{more}.")
    return " ".join(lines)


def _pairs(needs: pd.DataFrame) -> list[tuple[int, float]]:
    """Return numbers of raters and of items."""
    return list(zip(needs["raters"].tolist(), needs["items"].tolist(), strict=True))


def _table(design: Design, needs: pd.DataFrame, curve: pd.DataFrame, items: Sequence[int]) -> Table:
    """Return the needs as a table, with the power of the numbers of items that were asked for."""
    columns = ["Raters", "Items", "Verdicts"]
    if "without" in needs:
        columns.append("These raters alone" if design.judge_r is None else "Without the judge")
    powers = curve.set_index(["raters", "items"])["power"].to_dict()
    rows: list[tuple[str | int, ...]] = []
    for raters, *others in zip(*(needs[name].tolist() for name in needs), strict=True):
        cells = [NOTHING if value is None or math.isnan(value) else f"{value:.0f}" for value in others]
        rows.append((raters, *cells, *(f"{100 * powers[raters, n]:.0f}" for n in items)))
    shown = " The last columns are the power in % with so many items." if items else ""
    return Table(
        columns=(*columns, *(f"{n} items" for n in items)),
        rows=tuple(rows),
        caption=f"Items for a power of {percent(design.power, 0)}",
        note=(
            "An item is a pair of continuations of one prompt, rated by so many raters. Verdicts: items × "
            f"raters × criteria.{shown}"
        ),
        text_columns=0,
    )


def _figure(design: Design, needs: pd.DataFrame, curve: pd.DataFrame) -> Drawing:
    """Return power against items, a line for each number of raters."""
    sizes = "; ".join(
        f"{plural(raters, 'rater')}: {'never' if math.isnan(items) else f'{items:.0f}'}"
        for raters, items in _pairs(needs)
    )
    return drawn(
        partial(_draw, design, curve),
        name="power",
        heading=f"{_goal(design)} ({percent(design.ties, 0)} ties, ICC {design.icc:.2g})",
        description=f"Power rises with the number of items. It passes {percent(design.power, 0)} at {sizes}.",
        height=HEIGHT_INCHES,
    )


def _draw(design: Design, curve: pd.DataFrame, axes: Axes) -> None:
    known = curve["raters"].unique().tolist()
    for index, raters in enumerate(known):
        points = curve[curve["raters"] == raters]
        axes.plot(
            points["items"],
            100 * points["power"],
            color=colormaps["viridis_r"](0.15 + 0.85 * index / max(1, len(known) - 1)),
            linewidth=1.4,
            marker=MARKERS[index % len(MARKERS)],
            markersize=4,
            markevery=4,
            label=plural(raters, "rater"),
        )
    axes.axhline(100 * design.power, **GUIDE)
    axes.set(ylim=(0, 101), xlabel="items", ylabel="power, %")
    axes.set_xlim(left=0)
    axes.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.6)


def _file(drawing: Drawing, ending: str) -> bytes:
    if ending == ".svg":
        return standalone(drawing).encode()
    return drawing.png if ending == ".png" else drawing.pdf
