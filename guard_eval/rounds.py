"""A tournament in rounds: test each comparison after a round of prompts, and stop decided comparisons.

Prompts are divided into rounds. In each round, raters finish all comparisons that continue before anybody
sees the results. On a prompt, a couple's *lead* is the difference between the expected win shares of the two
systems: against all systems that continue or, in the design `candidate`, against each other. If the two
systems are equally good, a positive lead is as likely as a negative lead of the same size, whatever happened
on earlier prompts. This is the hypothesis of the sign-flip test.

After a part t of the prompts, the statistic is |z| t^¼, where z is the normal quantile of the exact
sign-flip test's p. (Σ lead / √Σ lead² is nearly the same for many prompts, and too large for few of them.)
The probability that the statistic ever reaches a value is integrated round by round (Armitage, McPherson and
Rowe 1969), so p is valid at any round in which a couple stops. The power ¼ comes from Wang and Tsiatis
(1987). An early stop only shortens a couple's series of leads, so Holm's correction over all couples is
valid, too.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np
from scipy import special

from guard_eval.estimate import ADJUSTMENTS, Floats
from guard_eval.records import Contest, Couple, record
from guard_eval.sign_flip import sign_flip

METHOD = "largest |z| t^¼ over the rounds"
SHAPE = 0.25
"""The exponent ¼ of t. With 0, early rounds decide as easily as the last round; with ½, hardly ever."""


@record
class Comparison:
    """The test of a couple of systems after the rounds so far.

    Attributes:
        couple: The two systems.
        leads: The first system's expected share minus the second system's, on each complete prompt.
        time: The share of all prompts on which the couple was rated, from 0 to 1.
        leader: The system that was ahead when the evidence was strongest; empty if neither was ahead.
        p: The p that is valid at all rounds.
        p_adjusted: The p after Holm's correction over all couples.
    """

    couple: Couple
    leads: Floats
    time: float
    leader: str
    p: float
    p_adjusted: float = 1.0

    @property
    def trailing_system(self) -> str:
        """Return the system of the couple that is behind."""
        first, second = self.couple
        return second if self.leader == first else first


def compute_first_passage_p(peak: float, round_sizes: tuple[int, ...]) -> float:
    """Return the probability that |z| t^¼ ever reaches `peak` in these rounds if neither system is better.

    >>> round(compute_first_passage_p(1.959964, (40,)), 4)  # one round is the fixed test
    0.05
    """
    walks = np.zeros(1)  # the positions of the walks that have not reached the peak
    masses = np.ones(1)
    chance = 0.0
    ends = np.unique([0, *np.cumsum(round_sizes)]) / sum(round_sizes)  # empty rounds take no time
    for before, now in pairwise(ends):
        step = math.sqrt(now - before)  # the standard deviation of a round
        limit = peak * now ** (0.5 - SHAPE)  # a walk of variance t has the size |z| t^½
        beyond = np.concatenate([limit + walks, limit - walks]) / (step * math.sqrt(2))
        leave = np.array([math.erfc(distance) / 2 for distance in beyond.tolist()])
        chance += float(np.tile(masses, 2) @ leave)
        points, weights = _legendre(int(16 + 4 * limit / step))
        positions = limit * points
        distances = (positions[:, None] - walks) / step
        density = np.exp(-(distances**2) / 2) @ masses
        masses = limit * weights * density / (step * math.sqrt(2 * math.pi))
        walks = positions
    return min(1.0, chance)


_legendre = lru_cache(np.polynomial.legendre.leggauss)


def compare_couples(contest: Contest) -> list[Comparison]:
    """Test each couple on the rounds so far."""
    leads = [_compute_round_leads(contest, number) for number in range(1, contest.done + 1)]
    tested = []
    for at, couple in enumerate(contest.couples):
        last = contest.stopped.get(couple, len(leads))
        tested.append(_test_couple(contest, couple, [lead[:, at] for lead in leads[:last]]))
    adjusted = ADJUSTMENTS["holm"](np.array([comparison.p for comparison in tested]))
    return [
        replace(comparison, p_adjusted=p) for comparison, p in zip(tested, adjusted.tolist(), strict=True)
    ]


def _compute_round_leads(contest: Contest, number: int) -> Floats:
    """Return the leads of all couples on the complete prompts of a round, `[prompts, couples]`."""
    playing = set(contest.list_active_couples(number))
    complete = [scores for at, scores in contest.prompts if at == number and playing <= scores.keys()]
    rows = [
        [scores[couple] if couple in playing else 0.0 for couple in contest.couples] for scores in complete
    ]
    scores = np.array(rows).reshape(-1, len(contest.couples))
    if contest.plan.design == "candidate":
        return scores
    systems = {*chain(*playing)}
    sides = np.array([[(name == a) - (name == b) for name in systems] for a, b in contest.couples])
    totals = scores @ sides  # each system's score against all others
    others = max(1, len(systems) - 1)
    leads = totals @ sides.T / (2 * others)
    return np.asarray(np.round(leads, 9))  # scores that cancel out leave nothing behind


def _test_couple(contest: Contest, couple: Couple, rounds: Sequence[Floats]) -> Comparison:
    """Test one couple on its leads, round by round."""
    sizes = contest.sizes
    leads = np.zeros(0)
    leader = ""
    smallest = 1.0
    time = 0.0
    for number, new in enumerate(rounds, start=1):
        leads = np.append(leads, new)
        time = sum(sizes[:number]) / sum(sizes)
        exact = sign_flip(leads).p
        z = 0.0 if exact is None else -float(special.ndtri(max(exact, sys.float_info.min) / 2))
        p = compute_first_passage_p(z * time**SHAPE, sizes)
        if p < smallest:
            smallest = p
            leader = couple[float(leads.sum()) < 0]
    return Comparison(couple=couple, leads=leads, time=time, leader=leader, p=smallest)


def find_stopping_couples(contest: Contest, compared: Sequence[Comparison]) -> list[Couple]:
    """Return the couples that stop after the last finished round.

    All comparisons of a beaten system stop. If the remaining systems beat each other in a circle (a beats b,
    b beats c, c beats a), all of them continue.
    """
    playing = contest.list_active_couples(contest.done)
    decided = [comparison for comparison in compared if comparison.p_adjusted <= contest.plan.alpha]
    if contest.plan.design == "candidate":
        return [comparison.couple for comparison in decided if comparison.couple in playing]
    beaten = {comparison.trailing_system for comparison in decided}
    staying = {*chain(*playing)} - beaten
    if not staying:
        return []
    return [couple for couple in playing if not staying.issuperset(couple)]
