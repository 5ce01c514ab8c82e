"""Planning people assisted by a judge: what a mixture of ratings and judgments gives, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special, stats

from analysis.planning.question import PlanningQuestion, check
from analysis.planning.simulated_power import item_moments
from analysis.stats.assisted import PRIOR_UNITS, effective_items
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import number, percent, plural


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """So many pairs rated by people and judged by a judge.

    Attributes:
        raters: People of each pair that people rate.
        human_pairs: Pairs that people rate.
        judge_pairs: Pairs that the judge judges, people's among them.
        alone: Half the width of the interval of people alone.
        assisted: The same of people assisted by the judge.
        effective: Of how many pairs people alone would have an interval as narrow.
        gained: Ratings that the judge replaces.
        power_alone: The chance that people alone find the share, on one criterion.
        power: The same, assisted.
        price: Of the ratings and judgments, on one criterion; `None` where a price is not known.
    """

    raters: int
    human_pairs: int
    judge_pairs: int
    alone: float
    assisted: float
    effective: float
    gained: float
    power_alone: float
    power: float
    price: float | None = None


def mixtures(
    question: PlanningQuestion,
    r: float,
    *,
    human_pairs: Sequence[int],
    judge_pairs: Sequence[int],
    rating_price: float | None = None,
    judgment_price: float | None = None,
) -> tuple[Mixture, ...]:
    """Return what each number of people's and of the judge's pairs gives, by approximation.

    Args:
        question: What is to be found, and by which raters.
        r: The correlation of the judge's score of a pair with the mean of these raters', within datasets.
        human_pairs: Numbers of pairs that people rate.
        judge_pairs: Numbers of pairs that the judge judges.
        rating_price: What one person's rating of a pair costs.
        judgment_price: What one judgment of a pair costs, in all its orders.

    Raises:
        StudyError: The question cannot be, or these numbers do not go together.
    """
    check(question)
    if not 0 <= r < 1:
        raise StudyError(f"a judge's r of {r:g}: give a correlation with people from 0 to below 1, say 0.6")
    few, most = min(human_pairs, default=0), max(human_pairs, default=0)
    if few < 2 or min(judge_pairs, default=0) < most:
        raise StudyError(
            f"{few} to {most} pairs rated by people and {min(judge_pairs, default=0)} by the judge: people "
            "rate two or more, and the judge no fewer than people; give --human-pairs 150 --judge-pairs "
            "1000, say"
        )
    for name, price in (("rating", rating_price), ("judgment", judgment_price)):
        if price is not None and price < 0:
            raise StudyError(f"a {name} at {price:g}: give a price of 0 or more")
    found = []
    for raters in question.raters:
        spread = math.sqrt(item_moments(question.design(raters=raters))[1]) / 2
        for judged in judge_pairs:
            for rated in human_pairs:
                worth = effective_items(rated, judged, r)
                errors = [spread / math.sqrt(n) for n in (rated, worth)]
                halves = [float(special.stdtrit(rated - 1, 1 - question.alpha / 2)) * e for e in errors]
                powers = _powers(question, spread, rated, worth)
                ratings = rated * raters
                known = rating_price is not None and judgment_price is not None
                price = ratings * (rating_price or 0) + judged * (judgment_price or 0)
                found.append(
                    Mixture(
                        raters=raters,
                        human_pairs=rated,
                        judge_pairs=judged,
                        alone=halves[0],
                        assisted=halves[1],
                        effective=worth,
                        gained=(worth - rated) * raters,
                        power_alone=powers[0],
                        power=powers[1],
                        price=price if known else None,
                    )
                )
    return tuple(found)


def _powers(question: PlanningQuestion, spread: float, rated: int, worth: float) -> tuple[float, float]:
    """Return the chances of finding the share at α divided by the number of criteria: alone, assisted.

    The sign-flip test of people alone has a null distribution that is wider by the distance from one half, as
    in `approximate_items`. The assisted test is a t test, whose variance has the cost of tuning
    (`PRIOR_UNITS`).

    Args:
        question: What is to be found.
        spread: Standard deviation of an item's share.
        rated: Items that people rate.
        worth: How many they are worth, assisted.
    """
    apart, tail = abs(question.share - 0.5), question.alpha / question.criteria / 2
    null = float(special.ndtri(1 - tail)) * math.hypot(spread, apart)
    alone = float(special.ndtr((apart * math.sqrt(rated) - null) / spread))
    error = spread * math.sqrt((rated / worth + PRIOR_UNITS / rated) / (rated + PRIOR_UNITS))
    limit = float(special.stdtrit(rated - 1, 1 - tail))
    return alone, float(stats.nct.sf(limit, rated - 1, apart / error))


def mixture_table(question: PlanningQuestion, r: float, found: Sequence[Mixture]) -> Table:
    """Return the mixtures as they are shown, a line each."""
    columns: Columns[Mixture] = {
        "Raters": lambda one: one.raters,
        "People": lambda one: one.human_pairs,
        "Judge": lambda one: one.judge_pairs,
        "Alone ±": lambda one: number(one.alone, 1, scale=100),
        "Assisted ±": lambda one: number(one.assisted, 1, scale=100),
        "Worth": lambda one: number(one.effective, 0),
        "Gained": lambda one: number(one.gained, 0),
        "Power": lambda one: f"{100 * one.power_alone:.0f}→{100 * one.power:.0f}",
        "Price": lambda one: NOTHING if one.price is None else f"{one.price:.2f}",
    }
    return table_of(
        found,
        columns,
        caption=f"People assisted by a judge with r = {r:g}: half-widths and power in %",
        note=(
            "People, Judge: pairs. Worth: pairs that people alone would have to rate. Gained: ratings that "
            f"the judge replaces, at most. Power: to find {percent(question.share)}, alone → assisted, "
            f"each criterion (α = {question.alpha:g} over {plural(question.criteria, 'test')}), by "
            "approximation. r is with the mean of so many raters; with more of them it is larger."
        ),
        text_columns=0,
    )
