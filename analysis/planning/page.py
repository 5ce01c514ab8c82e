"""A plan as it is shown: a sentence, two tables, a curve, and a page of all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis.planning.population import population_table
from analysis.planning.power import Need, PowerCell, PowerPlan
from guard_eval.errors import StudyError
from guard_eval.reporting.drawing import FIRST, INK, SECOND, WIDTH, Drawing, finished, standalone, style
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import and_list, number, percent, plural
from guard_eval.reporting.writing import write_whole

_TEMPLATE = Path(__file__).parent / "power.html.j2"
ENDINGS = (".html", ".svg", ".png", ".pdf")
MARKERS = "osD^vP*X<>"
HEIGHT = 3.9
"""Inches."""


def answer(plan: PowerPlan) -> str:
    """Return what the plan comes to under the model that takes more items, and then what the other takes."""
    q = plan.question
    to_find = (
        f"To find a win share of {percent(q.share)} with a power of {percent(q.wanted, 0)} (two-sided "
        f"α = {q.alpha:g}, {percent(q.ties, 0)} ties, κ = {q.agreement:.2g}"
        + (f", Holm over {q.criteria} criteria" if q.criteria > 1 else "")
        + ")"
    )
    reached = [(need, need.cautious) for need in plan.needs if need.cautious is not None]
    if not reached:
        return f"{to_find} takes more items than were simulated."
    sizes = [f"{items} items with {_each(need.raters)}" for need, items in reached]
    takes = sizes[0] if len(sizes) == 1 else f"{', '.join(sizes[:-1])} or {sizes[-1]}"
    fewer = [str(min(need.items or items, need.other_model or items)) for need, items in reached]
    sentences = [
        f"{to_find} takes {takes}.",
        (
            "Of two models of how verdicts come about this is the one that takes more; the other takes "
            f"{and_list(fewer)}."
        ),
    ]
    if len(reached) > 1:
        verdicts = {need.raters: items * need.raters * q.criteria for need, items in reached}
        cheapest = min(verdicts, key=lambda raters: verdicts[raters])
        sentences.append(f"The fewest verdicts, {verdicts[cheapest]}, are those of {_each(cheapest)}.")
    return " ".join([*sentences, *_for_raters_like_these(plan)])


def _for_raters_like_these(plan: PowerPlan) -> tuple[str, ...]:
    """Say how many raters an answer for raters like these takes at least."""
    limits = {cell.raters: cell.power for cell in plan.population if cell.items is None}
    if not limits:
        return ()
    wanted = percent(plan.question.wanted, 0)
    enough = [raters for raters, power in limits.items() if power >= plan.question.wanted]
    if not enough:
        return (f"For all raters like these, {wanted} takes more than {plural(max(limits), 'rater')}.",)
    least = f"{wanted} takes {min(enough)} raters of the numbers planned, however many the items (last table)"
    return (f"All of that is for these raters; for all raters like these, {least}.",)


def _each(raters: int) -> str:
    return f"{plural(raters, 'rater')} each"


def tables(plan: PowerPlan, *, narrow: bool = False) -> tuple[Table, ...]:
    """Return the sizes needed, the power of every size, and that for raters like these if planned."""
    like_these = (population_table(plan.question, plan.population),) if plan.population else ()
    return (needs_table(plan, narrow=narrow), grid_table(plan), *like_these)


def needs_table(plan: PowerPlan, *, narrow: bool = False) -> Table:
    """Return the sizes needed, a row for each number of raters; `narrow` fits 80 columns of a terminal."""
    several = plan.question.criteria > 1
    other = f"{plan.other_model[0].upper()}{plan.other_model[1:]}"
    wide = ("If one criterion differs", other, "Peeking, at most", "Peeking, mean")
    short = ("Alone", "Latent" if other.startswith("Latent") else "Dirichlet", "Peek ≤", "Mean")
    names = short if narrow else wide
    columns = ("Raters", "Items", "±", "Verdicts", *names[0 if several else 1 :])
    rows = tuple(_need_cells(need, several=several) for need in plan.needs)
    alone = f"{names[0]}: items where the methods are alike in all criteria but one. " if several else ""
    note = (
        f"±: two Monte-Carlo standard errors. {alone}{names[1]}: items if verdicts come about as in the "
        f"{plan.other_model} model; all else is {plan.question.model}. {names[2]} and {names[3]}: of the "
        "test that may be looked at after every item and stopped at once, the items after which it is given "
        "up, and its mean where there is a difference."
    )
    caption = f"Items for a power of {percent(plan.question.wanted, 0)}"
    return Table(columns=columns, rows=rows, caption=caption, note=note)


def _need_cells(need: Need, *, several: bool) -> tuple[str | int, ...]:
    more = f">{need.sequential.simulated}"
    return (
        need.raters,
        NOTHING if need.items is None else need.items,
        NOTHING if need.error is None else number(2 * need.error, 0),
        NOTHING if need.verdicts is None else need.verdicts,
        *((NOTHING if need.alone is None else need.alone,) if several else ()),
        NOTHING if need.other_model is None else need.other_model,
        more if need.sequential.most is None else need.sequential.most,
        NOTHING if need.sequential.mean is None else number(need.sequential.mean, 0),
    )


def grid_table(plan: PowerPlan) -> Table:
    """Return the power of every size in percent, items down and raters across."""
    q = plan.question
    at = {(cell.items, cell.raters): cell for cell in plan.cells}
    rows = tuple(
        (str(items), *(_power(at[items, raters]) for raters in q.raters)) for items in _items(plan.cells)
    )
    what = "that a given criterion is found" if q.criteria > 1 else "that the difference is found"
    return Table(
        columns=("Items", *(plural(raters, "rater") for raters in q.raters)),
        rows=rows,
        caption="Power by items and raters, %",
        note=f"Chance {what}, ± its Monte-Carlo standard error; {q.studies} simulated studies, "
        f"seed {q.seed}.",
    )


def _power(cell: PowerCell) -> str:
    return f"{100 * cell.power.each:.1f} ± {100 * cell.power.error:.1f}"


def _items(cells: Sequence[PowerCell]) -> list[int]:
    return sorted({cell.items for cell in cells})


def curve(plan: PowerPlan) -> Drawing:
    """Return power against items, a line for each number of raters."""
    q = plan.question
    name = "power"
    with style(ink=INK, frame=INK, ground="none", salt=name):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        for place, need in enumerate(plan.needs):
            _line(axes, plan, need, place)
        axes.axhline(100 * q.wanted, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(ylim=(0, 101), xlabel="items", ylabel="power, %")
        axes.set_xlim(left=0)
        axes.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.6)
        heading = (
            f"Power to find a share of {percent(q.share)} ({percent(q.ties, 0)} ties, κ = {q.agreement:.2g})"
        )
        at = "; ".join(
            f"{plural(need.raters, 'rater')}: {NOTHING if need.items is None else need.items}"
            for need in plan.needs
        )
        passes = f"It passes {percent(q.wanted, 0)}, the dashed line, at so many items: {at}."
        description = f"Power rises with the number of items. {passes}"
        return finished(figure, axes, name=name, heading=heading, description=description)


def _line(axes: Axes, plan: PowerPlan, need: Need, place: int) -> None:
    """Draw one number of raters: its power with two standard errors either way."""
    points = {cell.items: cell.power for cell in plan.cells if cell.raters == need.raters}
    if need.items is not None and need.power is not None:
        points[need.items] = need.power
    items = sorted(points)
    mean = [100 * points[size].each for size in items]
    error = [200 * points[size].error for size in items]
    colour = _colour(place, len(plan.needs))
    label, marker = plural(need.raters, "rater"), MARKERS[place % len(MARKERS)]
    axes.plot(items, mean, color=colour, linewidth=1.4, marker=marker, markersize=4, label=label)
    low = [one - half for one, half in zip(mean, error, strict=True)]
    high = [one + half for one, half in zip(mean, error, strict=True)]
    axes.fill_between(items, low, high, color=colour, alpha=0.18, linewidth=0)


def _colour(place: int, lines: int) -> tuple[float, float, float]:
    """Return a colour between orange and blue: more raters are bluer."""
    share = place / max(1, lines - 1)
    red, green, blue = (
        (1 - share) * one + share * other for one, other in zip(to_rgb(SECOND), to_rgb(FIRST), strict=True)
    )
    return red, green, blue


def assumptions(plan: PowerPlan) -> tuple[str, ...]:
    """Return what the figures rest on, a sentence or two each."""
    q = plan.question
    correction = "one criterion"
    if q.criteria > 1:
        correction = f"Holm's correction over {q.criteria} criteria, in all of which the share is the same"
    test = "the report's own, the exact sign-flip test on item means"
    latent = (
        "Dirichlet-multinomial: items differ in their chances of win, tie and loss. Latent normal: an item "
        "has one quality that raters see with noise, so they differ by a tie more often than by a side; at "
        "the same κ their scores hang together more, and further raters help less. Unless a pilot shows "
        "which is nearer, plan for the larger number."
    )
    peeking = (
        "Peeking: betting on item means, each criterion up to an e-value of criteria/α; the error rate holds "
        "whenever one stops."
    )
    return (
        f"Test: {test}; α = {q.alpha:g}, two-sided; {correction}.",
        "Every rater rates every item; an item is a pair of continuations of one prompt.",
        latent,
        "All sizes are parts of the same simulated studies.",
        peeking,
        *plan.notes,
    )


def as_json(plan: PowerPlan) -> str:
    """Return every number of the plan."""
    return json.dumps(asdict(plan) | {"answer": answer(plan)}, indent=1, ensure_ascii=False, allow_nan=False)


def check_ending(path: Path) -> None:
    """Raise StudyError unless a plan can be written to such a file."""
    if path.suffix.lower() not in ENDINGS:
        raise StudyError(f"{path}: the name of a curve ends in {' or '.join(ENDINGS)}")


def write(plan: PowerPlan, path: Path, *, facts: dict[str, str]) -> None:
    """Write the page (.html) or the curve alone (.svg, .png, .pdf); the same plan gives the same bytes.

    Args:
        plan: What is shown.
        path: The file.
        facts: What else the page ends with, such as versions.

    Raises:
        StudyError: The file has another ending or cannot be written.
    """
    check_ending(path)
    drawing = curve(plan)
    match path.suffix.lower():
        case ".html":
            data = _html(plan, drawing, facts).encode()
        case ".svg":
            data = standalone(drawing).encode()
        case ".png":
            data = drawing.png
        case _:
            data = drawing.pdf
    write_whole(path, data, make_folder=True)


def _html(plan: PowerPlan, drawing: Drawing, facts: dict[str, str]) -> str:
    return render(
        _TEMPLATE,
        title="How many items, how many raters?",
        answer=answer(plan),
        drawing=drawing,
        tables=tables(plan),
        assumptions=assumptions(plan),
        facts=facts,
    )
