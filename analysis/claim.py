"""The command `check`: do a paper's printed counts support the paper's claim? No study is needed."""

import re
from collections.abc import Iterator, Sequence

from analysis.sections.section import Cells, make_labelled_table
from analysis.stats.printed import (
    are_percentages_possible,
    can_add_up_to_100,
    compute_clustered_p,
    find_largest_significant_icc,
    find_nearest_percentage,
    find_possible_counts,
)
from analysis.stats.proportion import run_pooled_binomial_test
from guard_eval.errors import StudyError
from guard_eval.estimate import adjust_p_values
from guard_eval.records import record
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.rendering import render_lines
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import format_number, format_percent
from guard_eval.results import Result

MAX_TOTALS = 8
"""The largest number of possible numbers of ratings that are printed."""
MAX_RATINGS = 100_000
_COUNTS = re.compile(r"(\d{1,7}),(\d{1,7}),(\d{1,7})")
_PERCENTAGES = re.compile(r"(?:(?:100|\d?\d)(?:\.\d{1,4})?(?:,|$)){2,3}(?<!,)")
Counts = tuple[int, int, int]
"""Wins, ties and losses."""


@record
class Claim:
    """The printed counts of one comparison, and the claims that they support.

    Attributes:
        wins, ties, losses: The numbers of ratings.
        win_share: The share of wins; a tie counts half.
        pooled_p: The p of the exact binomial test, which treats all ratings as independent.
        pooled_p_adjusted: `pooled_p`, corrected for all comparisons by Holm's method.
        p: The p if ratings of the same pair have the correlation `icc`.
        p_adjusted: `p`, corrected by Holm's method.
        p_same: The p if all raters of a pair always agree.
        tolerated_icc: The largest correlation with a significant difference: 1 if the difference is always
            significant, None if it is never significant.
    """

    wins: int
    ties: int
    losses: int
    win_share: float
    pooled_p: float | None
    pooled_p_adjusted: float | None
    p: float
    p_adjusted: float | None
    p_same: float
    tolerated_icc: float | None


@record
class PrintedRow:
    """Printed percentages of wins, ties and losses, and the counts that fit them.

    Attributes:
        percentages: The printed percentages.
        n: The number of ratings.
        is_possible: Whether counts of `n` ratings can give these percentages.
        nearest: The nearest possible percentages.
        lowest_p, highest_p: The smallest and largest p of the binomial test, over all counts that give these
            percentages.
    """

    percentages: str
    n: int
    is_possible: bool
    nearest: str
    lowest_p: float | None
    highest_p: float | None


@record
class CheckedFigures(Result):
    """The result of checking a paper's printed numbers.

    Attributes:
        claims: A row for each comparison.
        printed: A row for each row of percentages and each possible number of ratings.
        totals: The numbers of ratings, up to the stated number, that fit all rows of percentages.
    """

    claims: tuple[Claim, ...] = ()
    printed: tuple[PrintedRow, ...] = ()
    totals: tuple[int, ...] = ()


def check_claim(
    *,
    wins: int | None = None,
    ties: int = 0,
    losses: int | None = None,
    raters: int | None = None,
    pairs: int | None = None,
    also: tuple[str, ...] = (),
    results: int | None = None,
    icc: float = 0.41,
    alpha: float = 0.05,
    percentages: tuple[str, ...] = (),
) -> CheckedFigures:
    """Check whether printed counts or percentages support a claim.

    No study is needed.

    Args:
        wins: The number of ratings that prefer the first method.
        ties: The number of ratings without a preference.
        losses: The number of ratings that prefer the second method.
        raters: The number of raters of each pair.
        pairs: The number of pairs.
        also: Another comparison of the same paper, as WINS,TIES,LOSSES. The option may be repeated.
        results: The number of comparisons that the paper tests, if it does not print the counts of all of
            them.
        icc: A plausible correlation of two ratings of the same pair. The default is the κ of GUARD's paper.
        alpha: The error rate of the claim.
        percentages: Percentages that the paper prints for a comparison, as WINS,TIES,LOSSES. Can they be
            shares of this number of ratings? The option may be repeated.

    Raises:
        StudyError: Nothing is named that could be checked, or a value is impossible.
    """
    if not (0 <= icc <= 1 and 0 < alpha < 1):
        raise StudyError(f"--icc {icc:g} --alpha {alpha:g}: give an ICC from 0 to 1, and 0 < alpha < 1")
    if any(value is not None and (value < 1 or value % 1) for value in (raters, pairs, results)):
        raise StudyError("--raters, --pairs and --results must be whole numbers, and at least 1")
    if (wins is None) != (losses is None) or (wins is None and (also or not percentages)):
        raise StudyError(
            "counts of wins and of losses are needed; add --wins 251 --ties 193 --losses 156, or "
            "--percentages 80,0,20"
        )
    counts = [] if wins is None or losses is None else [_parse_win_tie_loss_counts(f"{wins},{ties},{losses}")]
    counts += [_parse_win_tie_loss_counts(text) for text in also]
    rows = [_read_percentages(text) for text in percentages]
    sums = [sum(comparison) for comparison in counts] or [(raters or 1) * (pairs or 0)]
    ratings = sums[0]
    if raters is None and (counts or pairs is None):
        raise StudyError(
            "--raters is missing, but ratings of one pair depend on each other; add the "
            "number of raters of each pair: --raters N"
        )
    for total in sums:
        if not 0 < total <= MAX_RATINGS:
            raise StudyError(
                f"{total:,} ratings are not possible here; give from 1 to {MAX_RATINGS:,} ratings"
            )
    tests = max(results or 0, len(counts))
    per_pair = [max(raters or 1, total / (pairs or total)) for total in sums[: len(counts)]]
    claims = _test_comparison_counts(counts, per_pair=per_pair, icc=icc, alpha=alpha, tests=tests)
    totals = tuple(
        n for n in range(1, ratings + 1) if rows and all(are_percentages_possible(row, n) for row in rows)
    )
    sizes = sorted({*totals[:MAX_TOTALS], ratings})
    printed = tuple(_check_percentages(row, n) for row in rows for n in sizes)
    lines = render_lines(
        __file__,
        "check.txt",
        sums=list(dict.fromkeys(sums)),
        raters=raters or 1,
        pairs=pairs,
        claims=claims,
        tests=tests,
        icc=icc,
        alpha=alpha,
        printed=printed,
        totals=totals,
        listed=[f"{n:,}" for n in totals],
        limit=MAX_TOTALS,
    )
    return CheckedFigures(
        lines=lines,
        tables=(*_tabulate_claims(claims, icc), *_tabulate_percentages(printed)),
        claims=claims,
        printed=printed,
        totals=totals,
    )


def _parse_win_tie_loss_counts(text: str) -> Counts:
    match = _COUNTS.fullmatch(text)
    if match is None or not any(map(int, match.groups())):
        raise StudyError(
            f"{text!r}: give wins, ties and losses as whole numbers that are not all 0, such as 251,193,156"
        )
    wins, ties, losses = map(int, match.groups())
    return wins, ties, losses


def _read_percentages(text: str) -> list[str]:
    if not _PERCENTAGES.fullmatch(text):
        raise StudyError(
            f"--percentages {text}: give two or three percentages with decimal points and commas between "
            "them, as in 78.3,0,21.7"
        )
    return text.split(",")


def _test_comparison_counts(
    counts: Sequence[Counts], *, per_pair: Sequence[float], icc: float, alpha: float, tests: int
) -> tuple[Claim, ...]:
    """Return the claims that each comparison's counts support, corrected for all comparisons.

    `per_pair` is the number of ratings of a pair in each comparison.
    """
    pooled = [run_pooled_binomial_test(wins, losses).p for wins, _, losses in counts]
    clustered = [
        compute_clustered_p(wins, losses, per_pair=ratings, icc=icc)
        for (wins, _, losses), ratings in zip(counts, per_pair, strict=True)
    ]
    unknown = [None] * (tests - len(counts))
    pooled_adjusted = adjust_p_values([*pooled, *unknown])
    adjusted = adjust_p_values([*clustered, *unknown])
    return tuple(
        Claim(
            wins=wins,
            ties=ties,
            losses=losses,
            win_share=(wins + ties / 2) / (wins + ties + losses),
            pooled_p=pooled[index],
            pooled_p_adjusted=pooled_adjusted[index],
            p=clustered[index],
            p_adjusted=adjusted[index],
            p_same=compute_clustered_p(wins, losses, per_pair=per_pair[index], icc=1),
            tolerated_icc=find_largest_significant_icc(wins, losses, per_pair=per_pair[index], alpha=alpha),
        )
        for index, (wins, ties, losses) in enumerate(counts)
    )


def _check_percentages(percentages: Sequence[str], n: int) -> PrintedRow:
    """Return whether percentages can be shares of `n` ratings, and the range of p over all fitting counts."""
    counts = [find_possible_counts(percentage, n) for percentage in percentages]
    is_possible = are_percentages_possible(percentages, n)
    p_values = []
    if is_possible:
        wins, losses = counts[0], counts[-1]
        extremes = ((wins[0], losses[-1]), (wins[-1], losses[0]))
        p_values = [run_pooled_binomial_test(*pair).p or 1.0 for pair in extremes]
        p_values += [1.0] if set(wins).intersection(losses) else []
    return PrintedRow(
        percentages="/".join(percentages),
        n=n,
        is_possible=is_possible,
        nearest="/".join(find_nearest_percentage(percentage, n) for percentage in percentages),
        lowest_p=min(p_values, default=None),
        highest_p=max(p_values, default=None),
    )


def _tabulate_claims(claims: Sequence[Claim], icc: float) -> Iterator[Table]:
    if not claims:
        return
    figures = [
        {
            "Share": format_percent(claim.win_share, 2),
            "Pooled p": _format_p(claim.pooled_p),
            f"p, ICC {icc:g}": _format_p(claim.p),
            "p, ICC 1": _format_p(claim.p_same),
            "Falls above": format_number(claim.tolerated_icc),
        }
        for claim in claims
    ]
    if len(claims) > 1 or claims[0].pooled_p_adjusted != claims[0].pooled_p:
        for cells, claim in zip(figures, claims, strict=True):
            cells["Pooled, Holm"] = _format_p(claim.pooled_p_adjusted)
            cells[f"ICC {icc:g}, Holm"] = _format_p(claim.p_adjusted)
    yield make_labelled_table(
        [{"Won/tied/lost": f"{claim.wins}/{claim.ties}/{claim.losses}"} for claim in claims],
        figures,
        caption="What the counts support",
        note="ICC: the correlation of ratings of a pair.",
    )


def _format_p(p: float | None) -> str:
    """Return a p-value with the digits that a paper may print."""
    return NOTHING if p is None else f"{p:.4g}"


def _tabulate_percentages(rows: Sequence[PrintedRow]) -> Iterator[Table]:
    if not rows:
        return
    figures: list[Cells] = [
        {
            "Ratings": row.n,
            "Possible": _describe_percentages_possibility(row),
            "Pooled p": " to ".join(dict.fromkeys(map(_format_p, (row.lowest_p, row.highest_p)))),
        }
        for row in rows
    ]
    yield make_labelled_table(
        [{"Percentages": row.percentages} for row in rows],
        figures,
        caption="What the percentages can be shares of",
    )


def _describe_percentages_possibility(row: PrintedRow) -> str:
    if row.is_possible:
        return "yes"
    if not can_add_up_to_100(row.percentages.split("/")):
        return "no; the sum is not 100"
    return "no; not together" if row.nearest == row.percentages else f"no; nearest {row.nearest}"
