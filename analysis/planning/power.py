"""Planning: how many items and raters find a difference that is worth finding, on the report's own test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from analysis.planning.population import PopulationPower, population_power
from analysis.planning.question import PlanningQuestion, check
from analysis.planning.simulated_power import Power, approximate_items, crossings, power, size_error, smallest
from analysis.planning.simulation import Model, simulate
from guard_eval.errors import StudyError

MOST_RATINGS = 40_000_000
"""Ratings simulated for one question; a small difference takes many items, and then fewer studies."""
LEAST_STUDIES = 500
"""With fewer the power is known to no better than two or three points."""
ROOM = 2.5
"""How many times the items needed are simulated, for the sequential test."""
NICE = (1, 1.5, 2, 3, 4, 5, 6, 8)
"""Sizes in the table, times a power of ten."""
COLUMNS = 8

Net = NDArray[np.int8]


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerCell:
    """The power of one number of items with one number of raters each."""

    items: int
    raters: int
    verdicts: int
    power: Power


@dataclass(frozen=True, kw_only=True, slots=True)
class Sequential:
    """What the test that may be looked at after every item takes to have the wanted power.

    Attributes:
        most: Items after which it is given up; `None` if more than were simulated.
        mean: Items it takes in the mean, stopping at the first e-value of criteria/α or at `most`.
        simulated: Items that were simulated.
    """

    most: int | None
    mean: float | None
    simulated: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """The smallest number of items with the wanted power, for one number of raters.

    Attributes:
        raters: Raters of each item.
        items: The number; `None` if it was not reached.
        error: Its Monte-Carlo standard error.
        verdicts: Items × raters × criteria.
        power: The power there.
        alone: Items needed if the methods differ in one criterion only.
        other_model: Items needed under the other generating model.
        sequential: The same for the sequential test.
    """

    raters: int
    items: int | None = None
    error: float | None = None
    verdicts: int | None = None
    power: Power | None = None
    alone: int | None = None
    other_model: int | None = None
    sequential: Sequential

    @property
    def cautious(self) -> int | None:
        """Return the larger number of the two models'; `None` if either was not reached."""
        return None if self.items is None or self.other_model is None else max(self.items, self.other_model)


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerPlan:
    """The answer to a question: the power of each size, and the sizes needed.

    `question.studies` is how many were simulated, which `notes` explain if it is not how many were asked for.
    `population` is the power for raters like these, where the question gives a `rater_sd`.
    """

    question: PlanningQuestion
    other_model: Model
    cells: tuple[PowerCell, ...]
    needs: tuple[Need, ...]
    population: tuple[PopulationPower, ...] = ()
    notes: tuple[str, ...] = ()


def plan(question: PlanningQuestion, *, progress: Callable[[str], None] = lambda _: None) -> PowerPlan:
    """Return the power of the sign-flip test with Holm's correction, by simulation; the seed decides.

    All sizes are parts of the same simulated studies: the first items, the first raters. So rows and columns
    compare with less noise than their Monte-Carlo errors say.

    Args:
        question: What is planned.
        progress: Called with what is being done.

    Raises:
        StudyError: The question contradicts itself or is too near to one half to simulate.
    """
    check(question)
    other = next(model for model in get_args(Model) if model != question.model)
    about = {raters: _about(question, raters, question.model) for raters in question.raters}
    sizes = question.items or _sizes(about)
    room = {raters: max(*sizes, math.ceil(ROOM * about[raters]) + 30) for raters in about}
    elsewhere = {raters: math.ceil(1.3 * _about(question, raters, other)) + 10 for raters in about}
    question, notes = _affordable(question, max(*room.values(), *elsewhere.values()), about)
    progress(f"simulating {question.studies} studies ({question.model})")
    nets = _nets(question, room, question.model, stream=0)
    cells = tuple(
        _cell(question, nets[raters], items, raters) for raters in question.raters for items in sizes
    )
    progress("looking for the smallest number of items")
    needs = {raters: _need(question, nets[raters], raters, about[raters]) for raters in question.raters}
    del nets
    progress(f"simulating the same under the other model ({other})")
    nets = _nets(question, elsewhere, other, stream=1)
    for raters, need in needs.items():
        found = _smallest(question, nets[raters], about[raters])
        needs[raters] = replace(need, other_model=None if found is None else found[0])
    population: tuple[PopulationPower, ...] = ()
    if question.rater_sd is not None:
        progress("simulating studies with new raters in each")
        population = population_power(question, question.rater_sd, sizes)
    return PowerPlan(
        question=question,
        other_model=other,
        cells=cells,
        needs=tuple(needs.values()),
        population=population,
        notes=notes,
    )


def _about(question: PlanningQuestion, raters: int, model: Model) -> float:
    """Return about how many items are needed, at the least α that Holm's correction leaves."""
    design = question.design(raters=raters, model=model)
    return approximate_items(design, alpha=question.alpha / question.criteria, wanted=question.wanted)


def _sizes(about: dict[int, float]) -> tuple[int, ...]:
    """Return round numbers from a quarter of the fewest items needed to a little above the most."""
    low, high = min(about.values()) / 4, max(about.values()) * 1.15
    steps = [int(nice * 10**power) for power in range(1, 7) for nice in NICE]
    inside = [step for step in steps if low <= step <= high] or [10]
    places = np.unique(np.linspace(0, len(inside) - 1, min(COLUMNS, len(inside))).round().astype(int))
    return tuple(inside[place] for place in places)


def _affordable(
    question: PlanningQuestion, items: int, about: dict[int, float]
) -> tuple[PlanningQuestion, tuple[str, ...]]:
    """Take as many studies as can be simulated in seconds."""
    each = items * max(question.raters) * question.criteria
    studies = min(question.studies, MOST_RATINGS // each)
    if studies < min(LEAST_STUDIES, question.studies):
        guesses = ", ".join(f"{need:.0f} with {raters}" for raters, need in about.items())
        raise StudyError(
            f"up to {items} items would have to be simulated, which takes too long; plan for a larger "
            "difference, or for fewer items, raters or criteria (items needed by the normal "
            f"approximation: {guesses} raters)"
        )
    if studies == question.studies:
        return question, ()
    why = f"{studies} studies were simulated instead of {question.studies}: they have many items"
    return replace(question, studies=studies), (why,)


def _nets(question: PlanningQuestion, room: dict[int, int], model: Model, *, stream: int) -> dict[int, Net]:
    """Return wins minus losses of each item by the first raters, [studies, criteria, items] per number."""
    rng = np.random.default_rng([question.seed, stream])
    design = question.design(raters=max(room), items=max(room.values()), model=model)
    verdicts = simulate(design, studies=question.studies, rng=rng)
    return {
        raters: verdicts[:, :, :items, :raters].sum(axis=3, dtype=np.int8) for raters, items in room.items()
    }


def _cell(question: PlanningQuestion, net: Net, items: int, raters: int) -> PowerCell:
    return PowerCell(
        items=items,
        raters=raters,
        verdicts=items * raters * question.criteria,
        power=power(net[:, :, :items], alpha=question.alpha),
    )


def _smallest(
    question: PlanningQuestion, net: Net, about: float, *, alone: bool = False
) -> tuple[int, Power] | None:
    """Return the fewest items with the wanted power and what power they have."""
    at = cache(lambda items: power(net[:, :, :items], alpha=question.alpha))
    found = smallest(
        lambda items: at(items).alone if alone else at(items).each,
        wanted=question.wanted,
        guess=round(about),
        most=net.shape[2],
    )
    return None if found is None else (found, at(found))


def _need(question: PlanningQuestion, net: Net, raters: int, about: float) -> Need:
    sequential = _sequential(question, net, raters)
    found = _smallest(question, net, about)
    alone = _smallest(question, net, about, alone=True) if question.criteria > 1 else found
    if found is None:
        return Need(raters=raters, sequential=sequential)
    items, reached = found
    least = question.alpha / question.criteria
    return Need(
        raters=raters,
        items=items,
        error=size_error(reached.each, items=items, error=reached.error, alpha=least),
        verdicts=items * raters * question.criteria,
        power=reached,
        alone=None if alone is None else alone[0],
        sequential=sequential,
    )


def _sequential(question: PlanningQuestion, net: Net, raters: int) -> Sequential:
    """Let each criterion's e-process run to criteria/α: Bonferroni's line, which is Holm's first step."""
    simulated = net.shape[2]
    line = question.alpha / question.criteria
    stops = crossings(net.reshape(-1, simulated), raters=raters, alpha=line)
    stops = np.where(stops == 0, simulated + 1, stops)
    most = int(np.sort(stops)[math.ceil(question.wanted * len(stops)) - 1])
    if most > simulated:
        return Sequential(most=None, mean=None, simulated=simulated)
    return Sequential(most=most, mean=float(np.minimum(stops, most).mean()), simulated=simulated)
