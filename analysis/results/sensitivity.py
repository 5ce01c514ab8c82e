"""Does the conclusion survive? Each comparison again, analysed in the other ways that people would choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd

from analysis.results.cells import CellRow, cell_fields
from analysis.results.models import MOST_RATINGS, Modelled, linear_model, ordinal_model, placed_model
from analysis.results.population import (
    TOGETHER,
    numbers_of_pairs,
    population_share,
    rater_mean,
    share_interval,
    share_test,
)
from analysis.results.shares import Estimand
from analysis.stats.intervals import Interval, clopper_pearson, wilson
from analysis.stats.resampling import win_share_bootstrap
from analysis.stats.significance import (
    TestResult,
    binomial,
    majority_sign,
    reachable,
    signed_rank,
    tolerated_correlation,
)
from analysis.verdicts.scores import (
    ScoredVerdicts,
    Verdicts,
    by_cell,
    item_numbers,
    item_scores,
    mean_scores,
    unit_sums,
    units,
    with_units,
)
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import limits, rate

MOST_RATERS = 30
"""Above so many raters none is left out: one of them hardly matters, and each takes an analysis."""

THESE = "item means, sign-flip test"
POPULATION = "raters like these: items and raters as samples, t test"
BY_RATER = "raters like these, each weighing the same: items and raters as samples, t test"
POOLED = "ratings pooled, binomial on non-ties"
BOOTSTRAP = "item means, bootstrap stratified by dataset"
UNTIED = "rate of wins among non-tied ratings, binomial"


MODELS = "GEE models"

Way = tuple[str, float | None, Interval | None, TestResult, str]
"""An analysis in words, the share it gives and its interval, its test, and what else there is to know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SensitivityRow(CellRow):
    """One comparison on one criterion, over all datasets, analysed in one way.

    Attributes:
        analysis: What was done, in words.
        default: Whether this is the analysis of the report's answer.
        share: Win share of method_a; None where the analysis gives none.
        interval: The share's interval, as the analysis has it; None where it has none.
        exact: Clopper and Pearson's interval of a share of independent trials; None for any other share.
        test: Its test.
        note: What else there is to know.
    """

    analysis: str
    default: bool
    share: float | None
    interval: Interval | None = None
    exact: Interval | None = None
    test: TestResult
    note: str = ""


def sensitivity_rows(
    verdicts: Verdicts, *, alpha: float = 0.05, seed: int = 0, raters: Estimand = "these"
) -> tuple[SensitivityRow, ...]:
    """Return every comparison in every way, the default first.

    Args:
        verdicts: A table of verdicts.
        alpha: One minus the intervals' level, and below which p counts as evidence, for the correlation that
            a pooled test tolerates.
        seed: What decides the bootstrap's draws.
        raters: For whom the report's answer is to hold, where the raters are no models.
    """
    scored = ScoredVerdicts.of(verdicts)
    small = len(scored.frame) <= MOST_RATINGS
    single = dict(by_cell(with_units(scored.frame))) if small else {}
    rows = []
    for cell, scores in by_cell(scored.scores):
        judged = cell.rater_kind in PEOPLE_OF
        first = POPULATION if raters == "population" and not judged else THESE
        estimands = _both_estimands(scores, alpha)
        rows += [
            SensitivityRow(
                **cell_fields(cell),
                analysis=f"{analysis} (the default)" if analysis == first else analysis,
                default=analysis == first,
                share=share,
                interval=interval,
                exact=_exact(scores, 1 - alpha) if analysis == UNTIED else None,
                test=reachable(test, alpha),
                note=note,
            )
            for analysis, share, interval, test, note in (
                *sorted(islice(estimands, 1 if judged else 2), key=lambda way: way[0] != first),
                *_ways(scores, alpha, seed),
                *(_modelled(scores, single.get(cell), alpha) if small else _unmodelled(len(scored.frame))),
            )
        ]
    return tuple(rows)


def _both_estimands(scores: pd.DataFrame, alpha: float) -> Iterator[Way]:
    """Answer for the raters who took part, and for raters like them."""
    items, sampled = item_scores(scores), population_share(scores, level=1 - alpha)
    share = float(items["share"].mean())
    yield THESE, share, share_interval(items, level=1 - alpha), share_test(items), _together(items)
    spread = {None: "", 0.0: "raters differ by no more than chance"}.get(
        sampled.rater_sd, f"raters' own shares have a standard deviation of {sampled.rater_sd or 0:.3f}"
    )
    note = "; ".join(filter(None, (spread, _together(items), *sampled.share.warnings)))
    yield POPULATION, share, sampled.share, sampled.test, note


def _ways(scores: pd.DataFrame, alpha: float, seed: int) -> Iterator[Way]:
    items = item_scores(scores)
    yield from _by_rater(scores, alpha)
    yield _bootstrapped(items, alpha, seed)
    yield from _pooled(scores, per_item=len(scores) / len(items), alpha=alpha)
    yield _by_majority(items)
    sums, denominators, _ = unit_sums(items)
    yield "item means, Wilcoxon signed-rank", None, None, signed_rank(sums / denominators), _together(items)
    untied = scores[scores["net"] != 0]
    if len(untied):
        rest = item_scores(untied)
        dropped = len(items) - len(rest)
        note = f"{dropped} items had ties alone" if dropped else ""
        kept = share_interval(rest, level=1 - alpha)
        yield "ties dropped, sign-flip test", float(rest["share"].mean()), kept, share_test(rest), note
    yield from _without_one(scores)


def _by_rater(scores: pd.DataFrame, alpha: float) -> Iterator[Way]:
    found = rater_mean(scores, level=1 - alpha)
    if found is not None:
        note = "; ".join((numbers_of_pairs(scores), *found[0].warnings))
        yield BY_RATER, found[0].estimate, *found, note


def _together(items: pd.DataFrame) -> str:
    return TOGETHER if units(items).clusters is not None else ""


def _by_majority(items: pd.DataFrame) -> Way:
    """Take each item for the method that most of its raters are for, and drop those without a majority."""
    signs = np.sign(items["numerator"])
    wins, without = int((signs > 0).sum()), int((signs == 0).sum())
    share = wins / (len(items) - without) if without < len(items) else None
    note = f"{without} items have no majority"
    if units(items).clusters is None:
        return "majority of raters, sign test", share, None, majority_sign(signs), note
    test = share_test(items.assign(numerator=signs.astype(np.int64), denominator=1))
    return "majority of raters, sign test", share, None, test, f"{note}; {TOGETHER}"


def _bootstrapped(items: pd.DataFrame, alpha: float, seed: int) -> Way:
    numerators, denominators, sizes = unit_sums(items)
    alone = len(numerators) == len(items)
    found = win_share_bootstrap(
        numerators,
        denominators,
        items["dataset"].groupby(units(items).place).first().tolist(),
        sizes=None if alone else sizes,
        seed=seed,
        level=1 - alpha,
    )
    none = TestResult(n=found.n, method=found.method, warnings=("it gives an interval alone",))
    error = max(found.low_error or 0.0, found.high_error or 0.0)
    error_note = () if found.low is None else (f"Monte-Carlo error of a limit {100 * error:.2f} points",)
    return BOOTSTRAP, found.estimate, found, none, "; ".join((*error_note, *found.warnings))


def _pooled(scores: pd.DataFrame, *, per_item: float, alpha: float) -> Iterator[Way]:
    """Take ratings for independent: the paper's share with its test, and the rate of non-tied ratings."""
    wins, losses = _wins_losses(scores)
    ties = len(scores) - wins - losses
    test = binomial(wins, losses)
    tolerated = tolerated_correlation(wins, ties, losses, raters=per_item, alpha=alpha)
    yield POOLED, (wins + ties / 2) / len(scores), None, test, _of(tolerated, alpha)
    rate = wilson(wins, wins + losses, level=1 - alpha)
    if rate.estimate is not None:
        note = f"Wilson's interval; Clopper–Pearson's {limits(_exact(scores, 1 - alpha))}"
        yield UNTIED, rate.estimate, rate, test, note


def _wins_losses(scores: pd.DataFrame) -> tuple[int, int]:
    return int((scores["net"] > 0).sum()), int((scores["net"] < 0).sum())


def _exact(scores: pd.DataFrame, level: float) -> Interval:
    wins, losses = _wins_losses(scores)
    return clopper_pearson(wins, wins + losses, level=level)


def _modelled(scores: pd.DataFrame, verdicts: pd.DataFrame | None, alpha: float) -> Iterator[Way]:
    found: tuple[tuple[str, Modelled | None], ...] = (
        ("linear GEE", linear_model(scores, level=1 - alpha)),
        ("ordinal GEE", ordinal_model(scores, level=1 - alpha)),
        (
            "linear GEE, adjusted for place",
            None if verdicts is None else placed_model(verdicts, level=1 - alpha),
        ),
    )
    for name, model in found:
        if model is not None:
            yield name, model.share.estimate, model.share, model.test, model.note


def _unmodelled(verdicts: int) -> Iterator[Way]:
    why = f"not fitted: the table has {verdicts} verdicts, more than {MOST_RATINGS}"
    yield MODELS, None, None, TestResult(n=0, method=MODELS, warnings=(why,)), why


def _without_one(scores: pd.DataFrame) -> Iterator[Way]:
    """Leave each rater out in turn; give the one without whom p is largest, and how far the share moves."""
    of, raters = pd.factorize(scores["rater"], sort=True)
    if not 2 <= len(raters) <= MOST_RATERS:
        return
    place, first = item_numbers(scores)
    nets, showings = scores["net"].to_numpy(), scores["showings"].to_numpy()
    unit, left = scores["unit"].to_numpy()[first], []
    for code, rater in enumerate(raters):
        kept = of != code
        tops, bottoms, many = mean_scores(nets[kept], showings[kept], place[kept], len(first))
        items = pd.DataFrame({"numerator": tops, "denominator": bottoms, "unit": unit})[many > 0]
        means = 0.5 + items["numerator"] / (2 * items["denominator"])
        left.append((float(means.mean()), share_test(items), str(rater)))
    shares = [share for share, _, _ in left]
    share, test, rater = max(
        left, key=lambda one: (one[1].p_value is None, one[1].p_value or 0.0, -abs(one[0] - 0.5))
    )
    note = f"without {rater}; the share lies between {min(shares):.3f} and {max(shares):.3f}"
    yield f"one of {len(raters)} raters left out, the worst case", share, None, test, note


def _of(tolerated: float | None, alpha: float) -> str:
    if tolerated is None or tolerated >= 1:
        return ""
    return f"p below {rate(alpha)} only while ratings of an item correlate by less than {tolerated:.2f}"
