"""The question to plan for: a difference worth finding, raters, and how they will be tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from analysis.planning.simulation import Design, Model, truth
from analysis.stats.population import FEWEST_RATERS
from guard_eval.errors import StudyError
from guard_eval.reporting.words import plural

MOST_RATERS, MOST_CRITERIA, MOST_ITEMS = 100, 50, 1_000_000
FEWEST_TIES = 1e-6
"""Used for "no ties": the generating models have some."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanningQuestion:
    """What a planned study is to find, and how it will be tested.

    Attributes:
        share: The tie-split win share worth finding.
        ties: Share of ties among the verdicts.
        agreement: Fleiss' κ of the raters.
        criteria: Criteria in the family, all with this truth; Holm's correction runs over them.
        correlation: How far the criteria repeat each other, from 0 to 1.
        alpha: The family's error rate.
        wanted: The power wanted.
        raters: Numbers of raters per item to compare.
        items: Numbers of items to tabulate; empty chooses some around what is needed.
        model: How verdicts come about (`planning.simulation`).
        rater_sd: The standard deviation of raters' own win shares, to plan for raters like these too; `None`
            to plan for these alone.
        studies: Studies to simulate.
        seed: Of the simulation.
    """

    share: float = 0.55
    ties: float = 0.32
    agreement: float = 0.41
    criteria: int = 1
    correlation: float = 0.0
    alpha: float = 0.05
    wanted: float = 0.8
    raters: tuple[int, ...] = (1, 2, 3, 4, 5)
    items: tuple[int, ...] = ()
    model: Model = "latent normal"
    rater_sd: float | None = None
    studies: int = 4000
    seed: int = 1

    def design(self, *, raters: int, items: int = 1, model: Model | None = None) -> Design:
        """Return a study to simulate."""
        return Design(
            items=items,
            raters=raters,
            share=self.share,
            ties=max(self.ties, FEWEST_TIES),
            agreement=self.agreement,
            model=model or self.model,
            criteria=self.criteria,
            correlation=self.correlation,
        )


def check(question: PlanningQuestion) -> None:
    """Raise StudyError for the first thing in a question that cannot be, with the remedy."""
    q = question
    if not 0 < q.share < 1 or q.share == 0.5:
        raise StudyError(
            f"a share of {q.share:g} cannot be planned for: name the smallest win share worth finding, "
            "between 0 and 1 and not 0.5, such as 0.55"
        )
    room = 2 * min(q.share, 1 - q.share)
    if not 0 <= q.ties < room:
        raise StudyError(
            f"{q.ties:g} ties do not go with a share of {q.share:g}: ties lie between 0 and below {room:g} "
            "(share = wins + ties/2, and there must be some wins and losses)"
        )
    if not 0 <= q.agreement < 1:
        raise StudyError(
            f"a κ of {q.agreement:g} cannot be simulated: give one from 0 (agreement by chance) to below 1; "
            "for raters below chance take 0"
        )
    _check_error_rates(q)
    _check_whole_numbers(q)
    try:
        for model in get_args(Model):
            truth(q.design(raters=1, model=model))
    except ValueError as error:
        raise StudyError(
            f"no raters are like that: κ = {q.agreement:g} with {q.ties:g} ties and a share of {q.share:g}; "
            "take a smaller κ or a share nearer to one half"
        ) from error


def _check_error_rates(q: PlanningQuestion) -> None:
    if not 0 < q.alpha < 0.5:
        raise StudyError(f"an α of {q.alpha:g}: give an error rate above 0 and below 0.5, such as 0.05")
    if not q.alpha < q.wanted <= 0.99:
        raise StudyError(
            f"a power of {q.wanted:g}: give one above α = {q.alpha:g} and up to 0.99, such as 0.8"
        )
    if q.rater_sd is not None and not 0 < q.rater_sd < 0.5:
        raise StudyError(
            f"raters' own shares with a standard deviation of {q.rater_sd:g}: give one above 0 and below "
            "0.5, such as 0.05"
        )
    if q.rater_sd is not None and min(q.raters, default=0) < FEWEST_RATERS:
        raise StudyError(
            f"{plural(min(q.raters), 'rater')}: planning for raters like these takes at least "
            f"{FEWEST_RATERS}; give --raters such as 3,5,10,20"
        )
    if not 0 <= q.correlation <= 1:
        raise StudyError(f"a correlation of {q.correlation:g} between criteria: give one from 0 to 1")


def _check_whole_numbers(q: PlanningQuestion) -> None:
    for name, values, low, high in (
        ("raters", q.raters or (0,), 1, MOST_RATERS),
        ("items", q.items, 1, MOST_ITEMS),
        ("criteria", (q.criteria,), 1, MOST_CRITERIA),
        ("studies", (q.studies,), 100, 1_000_000),
        ("as the seed", (q.seed,), 0, 2**63),
    ):
        for value in values:
            if not low <= value <= high:
                raise StudyError(f"{value} {name}: give a whole number from {low} to {high}")
