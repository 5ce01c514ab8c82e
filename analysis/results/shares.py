"""Win shares: how often each method was preferred, with intervals and both tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from analysis.results.cells import CellRow, VerdictCounts, cell_fields, cell_order, families
from analysis.results.corrections import flip_correction
from analysis.results.population import leaning, population_share, share_interval, share_test
from analysis.stats.correction import Corrected, benjamini_hochberg, holm, within_reach
from analysis.stats.intervals import Interval
from analysis.stats.max_t import NAME
from analysis.stats.significance import TestResult, binomial, out_of_reach, reachable
from analysis.verdicts.scores import CELL, Cell, Planned, ScoredVerdicts, Verdicts, by_cell, units
from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE_OF

Estimand = Literal["these", "population"]
"""For whom a share holds: the raters who took part, or raters like them."""

Correction = Literal["holm", "bh", "max-t"]
CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}
"""Those that need p-values alone."""
NO_FLIPS = (
    "correction = 'max-t' flips the signs of items, which holds for raters = 'these' only, not 'population'; "
    "take correction = 'holm'"
)


MOST_BESIDE = 20_000
"""Units of a family's results above which max-T is made only where it decides: a second or so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """What people, or one judge, have judged, counted once whatever the number of criteria and results.

    Attributes:
        raters: Raters.
        pairs: Pairs of texts; the same id in two comparisons is two.
        units: Prompts where they are known, else pairs.
    """

    raters: int
    pairs: int
    units: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareRow(CellRow):
    """What people, or one judge, preferred in one comparison on one criterion, in one dataset or in all.

    Attributes:
        dataset: The dataset, or `None` for all of them.
        wins: Raters' scores of pairs for method_a.
        ties: Scores of one half.
        losses: Scores for method_b.
        verdicts: Verdicts behind them (more than scores where a judge saw both orders).
        items: Pairs.
        raters: Raters.
        unit: What the test and the interval take as independent: prompts where they are known, else pairs.
        units: How many there are.
        comparison: What these have judged of the comparison, over all criteria and datasets.
        whole: What they have judged in all.
        pooled: (wins + ties/2) / n, the paper's share (`app:E`).
        sums: Of the scores from −1 to 1, of their sizes, and of their squares.
        share: Mean of item means with its interval over units.
        paper_test: The binomial on pooled non-ties, as in the paper.
        test: For these raters the sign-flip test on item means, those of a unit changing sign together; for
            raters like these the t test of `population_share`.
        adjusted: The p-value of `test` after `correction` over the family; `None` outside the family,
            without a test, or where none could reach one minus the level.
        out_of_reach: Why no corrected p could have been small; empty where it could.
        correction: The correction's name.
        corrected_by: How its p-values were found, where there are several ways.
        holm: The p-value after Holm's correction, whichever was declared.
        max_t: The same after Westfall and Young's; `None` for raters like these, where it does not hold, and
            beside another correction over more than `MOST_BESIDE` units.
        family: How many tests the family has; 0 outside it.
        declared: Whether the family was declared beforehand.
        anytime: Whether test and interval are such as hold whenever one looks.
        assisted_by: The judge who assists people in share, interval and test; empty for people alone.
        estimand: For whom share, interval and test hold. Models are never a sample of a population.
        level: The confidence level.
        warnings: What a reader must know before using it.
    """

    dataset: str | None
    wins: int
    ties: int
    losses: int
    verdicts: int
    items: int
    raters: int
    unit: Literal["prompt", "pair"]
    units: int
    comparison: Counted
    whole: Counted
    pooled: float
    sums: tuple[float, float, float]
    share: Interval
    paper_test: TestResult
    test: TestResult
    adjusted: float | None = None
    out_of_reach: str = ""
    correction: str = "Holm"
    corrected_by: str = ""
    holm: float | None = None
    max_t: float | None = None
    family: int = 0
    declared: bool = False
    anytime: bool = False
    assisted_by: str = ""
    estimand: Estimand = "these"
    level: float = 0.95
    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> VerdictCounts:
        """Return the scores (rater × pair)."""
        return VerdictCounts(wins=self.wins, ties=self.ties, losses=self.losses)

    @property
    def deciding(self) -> float | None:
        """Return the p-value that a conclusion rests on: corrected in the family, as it is outside."""
        return self.adjusted if self.family else self.test.p_value

    @property
    def n(self) -> int:
        """Return how many scores were counted."""
        return self.wins + self.ties + self.losses

    def disagrees(self, p: float | None) -> bool:
        """Return whether one of interval and `p` tells the share from one half and the other does not."""
        low, high = self.share.low, self.share.high
        if p is None or low is None or high is None:
            return False
        return (not low <= 0.5 <= high) != (p <= 1 - self.level + 1e-12)


def disagreement(rows: Sequence[ShareRow]) -> str:
    """Say in how many of `rows` interval and p disagree about one half, and why, to follow a sentence.

    A t interval has its width from the spread around the share found, within datasets, and the sign-flip
    test its p from the scores' distance to one half, in steps that are coarse where pairs are few.
    """
    apart = [row for row in rows if row.disagrees(row.deciding)]
    if not apart:
        return ""
    corrected = sum(not row.disagrees(row.test.p_value) for row in apart)
    reasons = ["each interval is for one result and p is corrected for several"] if corrected else []
    if corrected < len(apart):
        reasons.append(
            "the interval rests on the spread around the share found, p on chance around 50\u00a0%"
        )
    where = "one result" if len(apart) == 1 else f"{len(apart)} results"
    return (
        f" In {where} the interval and the deciding p disagree on whether the share differs from 50\u00a0%: "
        f"{' or '.join(reasons)}. p decides."
    )


def share_rows(
    verdicts: Verdicts,
    *,
    planned: Planned | None = None,
    alpha: float = 0.05,
    correction: Correction = "holm",
    raters: Estimand = "these",
    by_dataset: Collection[tuple[str, str]] | None = None,
    seed: int = 0,
) -> tuple[ShareRow, ...]:
    """Return win shares per comparison and criterion, of people and of each judge: all datasets, then each.

    The correction runs over the rows of all datasets, for people and for each judge by itself: over the
    planned cells that these judged, or, without a plan, over all of their cells.

    Args:
        verdicts: A table of verdicts.
        planned: The family declared beforehand; `None` where nothing was declared.
        alpha: One minus the confidence level.
        correction: Holm's, Benjamini and Hochberg's, or Westfall and Young's step-down max-T by sign flips,
            which finds more where criteria repeat each other.
        raters: For whom shares of people and simulations are to hold.
        by_dataset: The comparisons that have rows for each dataset, too; `None` for all of them.
        seed: Of the sign patterns that max-T draws.

    Raises:
        StudyError: Max-T was wanted for raters like these.
    """
    if correction == "max-t" and raters == "population":
        raise StudyError(NO_FLIPS)
    scored = ScoredVerdicts.of(verdicts, planned)
    scores, items = scored.scores, dict(by_cell(scored.items))
    rows: list[ShareRow] = []
    row = partial(_row, alpha=alpha, raters=raters)
    wholes = {who: _counted(part) for who, part in scores.groupby(["rater_kind", "judge"])}
    comparisons = {key: _counted(part) for key, part in scores.groupby(CELL[:4])}
    for cell, mine in by_cell(scores):
        own_items = items[cell]
        datasets = sorted(own_items["dataset"].unique())
        counted = comparisons[cell[:4]], wholes[cell.rater_kind, cell.judge]
        rows.append(row(cell, None, mine, own_items, counted))
        split = len(datasets) > 1 and (by_dataset is None or cell[:2] in by_dataset)
        for name in datasets if split else ():
            part, own = mine[mine["dataset"] == name], own_items[own_items["dataset"] == name]
            rows.append(row(cell, name, part, own, counted))
    found = sorted(rows, key=cell_order(planned))
    return _adjust(found, planned, correction, alpha, partial(_flips, items=items, seed=seed))


def unit_note(rows: Sequence[ShareRow]) -> str:
    """Say which unit tests and intervals have, and how many a result has of it."""
    totals = [row for row in rows if row.dataset is None]
    prompts = [row for row in totals if row.unit == "prompt"]
    if not prompts:
        return (
            "Unit: the pair; nothing says which pairs share a source (column prompt_id). If several do, "
            "tests find differences too often and intervals are too narrow."
        )
    counts = sorted({row.units for row in prompts})
    many = f"{counts[0]} to {counts[-1]}" if counts[1:] else f"{counts[0]}"
    several = any(row.units < row.items for row in prompts)
    how = "all pairs of a prompt change sides, and are drawn, together" if several else "one pair each"
    rest = " Where a result names no prompts its unit is the pair." if len(prompts) < len(totals) else ""
    return f"Unit of tests and intervals: the prompt, {many} in a result, {how}.{rest}"


def _counted(scores: pd.DataFrame) -> Counted:
    return Counted(
        raters=scores["rater"].nunique(),
        pairs=len(scores[["method_a", "method_b", "pair_id"]].drop_duplicates()),
        units=scores["unit"].nunique(),
    )


def _row(
    cell: Cell,
    dataset: str | None,
    scores: pd.DataFrame,
    items: pd.DataFrame,
    counted: tuple[Counted, Counted],
    *,
    alpha: float,
    raters: Estimand,
) -> ShareRow:
    share, test = share_interval(items, level=1 - alpha), share_test(items)
    per_item, found = items["raters"], units(items)
    uneven = int(per_item.min()) != int(per_item.max())
    why = f"pairs have between {per_item.min()} and {per_item.max()} raters; every pair weighs the same"
    warnings = [why] if uneven else []
    estimand: Estimand = "these" if cell.rater_kind in PEOPLE_OF else raters
    if estimand == "population":
        sampled = population_share(scores, level=1 - alpha)
        share, test = sampled.share, sampled.test
        warnings += leaning(scores, share)
    wins, losses = int((scores["net"] > 0).sum()), int((scores["net"] < 0).sum())
    ties = len(scores) - wins - losses
    score = (scores["net"] / scores["showings"]).to_numpy()
    return ShareRow(
        **cell_fields(cell),
        dataset=dataset,
        wins=wins,
        ties=ties,
        losses=losses,
        verdicts=int(scores["verdicts"].sum()),
        items=len(items),
        raters=int(scores["rater"].nunique()),
        unit=found.name,
        units=found.n,
        comparison=counted[0],
        whole=counted[1],
        pooled=(wins + ties / 2) / len(scores),
        sums=(float(score.sum()), float(np.abs(score).sum()), float((score**2).sum())),
        share=share,
        paper_test=binomial(wins, losses),
        test=test,
        estimand=estimand,
        level=1 - alpha,
        warnings=tuple(warnings),
    )


def _flips(rows: Sequence[ShareRow], *, items: Mapping[Cell, pd.DataFrame], seed: int) -> Corrected:
    """Return max-T over the rows of a family."""
    cells = [Cell(row.method_a, row.method_b, row.rater_kind, row.judge, row.criterion) for row in rows]
    return flip_correction(
        [items[cell] for cell in cells],
        [(cell.method_a, cell.method_b) for cell in cells],
        alone=[row.test.p_value for row in rows],
        seed=seed,
    )


def _adjust(
    rows: list[ShareRow],
    planned: Planned | None,
    correction: Correction,
    alpha: float,
    flips: Callable[[Sequence[ShareRow]], Corrected],
) -> tuple[ShareRow, ...]:
    """Put corrected p-values into the rows of each family, and take out those that say nothing."""
    out = list(rows)
    totals = ((place, row) for place, row in enumerate(rows) if row.dataset is None)
    for places in families(totals, planned):
        own = [rows[place] for place in places]
        found = {
            name: within_reach(
                [row.test.p_value for row in own],
                [row.test.smallest for row in own],
                alpha=alpha,
                correct=correct,
            )
            for name, correct in CORRECTIONS.items()
        }
        cheap = correction == "max-t" or sum(row.units for row in own) <= MOST_BESIDE
        if cheap and all(row.estimand == "these" for row in own):
            # Tests that move together can all be as extreme as one: only its own smallest p binds a test.
            reasons = tuple(out_of_reach(row.test.smallest, alpha) if row.test.n else "" for row in own)
            made = (
                flips(own)
                if not all(reasons)
                else Corrected(p_values=(None,) * len(own), n=len(own), method=NAME)
            )
            kept = tuple(None if why else p for p, why in zip(made.p_values, reasons, strict=True))
            found["max-t"] = replace(made, p_values=kept), reasons
        corrected, reasons = found[correction]
        for number, place in enumerate(places):
            out[place] = replace(
                rows[place],
                adjusted=corrected.p_values[number],
                out_of_reach=reasons[number],
                correction=corrected.method,
                corrected_by=corrected.how,
                holm=found["holm"][0].p_values[number],
                max_t=found["max-t"][0].p_values[number] if "max-t" in found else None,
                family=corrected.n,
                declared=planned is not None,
            )
    return tuple(
        replace(row, test=reachable(row.test, alpha), paper_test=reachable(row.paper_test, alpha))
        for row in out
    )
