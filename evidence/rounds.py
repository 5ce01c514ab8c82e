"""Measure the errors and the savings of comparisons that stop early, in simulated studies.

python evidence/rounds.py --studies 200
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guard_eval import rounds
from guard_eval.estimate import Estimate
from guard_eval.records import Contest, RoundPlan
from guard_eval.rounds import compare_couples, find_stopping_couples

SPREAD = 0.45
"""The standard deviation of a text's quality, in units of a rater's noise: two raters' ICC is .22."""
SEED = 20261129
TIE = 0.38
"""A smaller difference is a tie, which gives 25 % ties."""
Design = Literal["rounds", "candidate"]

exact_p = rounds.compute_first_passage_p
sign_flip = rounds.sign_flip


@lru_cache
def _tabulate_p(sizes: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    peaks = np.linspace(0.0, 7.0, 700)
    return peaks, np.array([np.log(exact_p(float(peak), sizes)) for peak in peaks])


def look_up_p(peak: float, sizes: tuple[int, ...]) -> float:
    """Return the p value of a peak from a table, which is exact to four digits and fast."""
    peaks, logs = _tabulate_p(sizes)
    return float(np.exp(np.interp(peak, peaks, logs)))


@lru_cache(maxsize=10_000)
def _test_leads(leads: bytes) -> Estimate:
    return sign_flip(np.frombuffer(leads))


def remember_sign_flip(leads: ArrayLike) -> Estimate:
    """Return the sign-flip test. The same leads are tested after each later round, but computed once."""
    return _test_leads(np.asarray(leads, dtype=np.float64).tobytes())


def draw_scores(
    rng: np.random.Generator, means: NDArray[np.float64], prompts: int, raters: int
) -> NDArray[np.float64]:
    """Draw the mean scores of all couples on all prompts, `[prompts, couples]`."""
    quality = means + SPREAD * rng.standard_normal((prompts, len(means)))
    first, second = np.array(list(combinations(range(len(means)), 2))).T
    gaps = (quality[:, first] - quality[:, second])[:, :, None]
    felt = gaps + rng.standard_normal((*gaps.shape[:2], raters))
    return np.sign(np.where(np.abs(felt) > TIE, felt, 0.0)).mean(axis=2)


def play_rounds(design: Design, scores: NDArray[np.float64], systems: int, sizes: tuple[int, ...]) -> Contest:
    """Simulate all rounds. The design `candidate` compares system 0 with each other system."""
    names = [chr(ord("a") + number) for number in range(systems)]
    every = list(combinations(names, 2))
    couples = tuple(every if design == "rounds" else every[: systems - 1])
    plan = RoundPlan(design=design, criterion="c", alpha=0.05, showings=1)
    table = [dict(zip(couples, row, strict=False)) for row in scores.tolist()]
    ends = np.cumsum(sizes)
    contest = Contest(plan=plan, sizes=sizes, couples=couples, done=0, stopped={}, prompts=[])
    for number, end in enumerate(ends, start=1):
        played = [(number, values) for values in table[end - sizes[number - 1] : end]]
        contest = replace(contest, done=number, prompts=[*contest.prompts, *played])
        stopping = dict.fromkeys(find_stopping_couples(contest, compare_couples(contest)), number)
        contest = replace(contest, stopped={**contest.stopped, **stopping})
        if not contest.list_active_couples(number + 1):
            break
    return contest


def measure_errors(
    design: Design, means: NDArray[np.float64], *, prompts: int, raters: int, of: int, studies: int
) -> list[float]:
    """Return three rates and the share of ratings that are needed.

    The rates are of any wrong claim, of wrong claims that system 0 is better, and of claims that system 0 is
    better than all others. Rounds have unequal sizes, because prompts are assigned at random.
    """
    results = np.zeros(4)
    drawn = np.random.default_rng([prompts, of]).integers(0, of, prompts)
    sizes = tuple(np.bincount(drawn, minlength=of).tolist())
    quality = dict(zip("abcdefghijklmnop", means.tolist(), strict=False))
    for study in range(studies):
        rng = np.random.default_rng([SEED, study, len(means), prompts])
        contest = play_rounds(design, draw_scores(rng, means, prompts, raters), len(means), sizes)
        claims = [
            comparison
            for comparison in compare_couples(contest)
            if comparison.p_adjusted <= contest.plan.alpha
        ]
        wrong = [
            comparison
            for comparison in claims
            if quality[comparison.leader] <= quality[comparison.trailing_system]
        ]
        is_best = sum(comparison.leader == "a" for comparison in claims) == len(means) - 1
        rated = sum(
            size * len(contest.list_active_couples(at)) for at, size in enumerate(sizes[: contest.done], 1)
        )
        all_pairs = prompts * len(means) * (len(means) - 1) / 2
        results += (
            bool(wrong),
            any(comparison.leader == "a" for comparison in wrong),
            is_best,
            rated / all_pairs,
        )
    return (results / studies).tolist()


SETTINGS: dict[str, list[float]] = {
    "no difference": [0.0] * 6,
    "two tied at the top": [0.3, 0.3, 0, 0, 0, 0],
    "one clear winner (62 %)": [0.4, 0, 0, 0, 0, 0],
    "one close winner (56 %)": [0.2, 0, 0, 0, 0, 0],
    "a staircase": [0.5, 0.4, 0.3, 0.2, 0.1, 0.0],
}


def write_table(studies: int) -> Iterator[str]:
    """Yield the table."""
    yield "| truth | design | any claim wrong | the first wrongly better | shown best | ratings |"
    yield f"|{' --- |' * 6}"
    cases = [(name, means, 200, 4, 10) for name, means in SETTINGS.items()]
    cases += [("no difference, 40 prompts, 1 rater", [0.0] * 6, 40, 1, 10)]
    cases += [("no difference, two systems, 30 prompts, 1 rater", [0.0] * 2, 30, 1, 5)]
    for name, means, prompts, raters, of in cases:
        for design in ("rounds", "candidate"):
            count = studies if any(means) else 3 * studies  # error rates need more studies than power
            row = measure_errors(
                design, np.array(means), prompts=prompts, raters=raters, of=of, studies=count
            )
            cells = [f"{value:.3f}".removeprefix("0") for value in row]
            yield f"| {name} | {design} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=300)
    options = parser.parse_args()
    rounds.compute_first_passage_p = look_up_p
    rounds.sign_flip = remember_sign_flip
    for line in write_table(options.studies):
        print(line, flush=True)


if __name__ == "__main__":
    main()
