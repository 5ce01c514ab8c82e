"""Rater by rater: pace, sides, runs, checks, and which of them should be looked at.

A flag is a reason to look, never to exclude: that is a decision, made and recorded by a person.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest

from analysis.analyses.win_share import unit_proportion
from guard_eval.cli.overview.ratings import PairRating, StudySnapshot
from guard_eval.estimate import Estimate
from guard_eval.records import CHOICES, TIE, Choice, RaterKind
from guard_eval.store import RaterProgress

Flag = Literal["fast", "same answer", "gold", "one side", "failed the check"]
"""Why a rater should be looked at; `raters` explains each."""


READING = 71.0
"""Characters a second. People read 238 words a minute silently (Brysbaert 2019), 24 characters a second with
six of them to a word; this is three times as much."""

FAST_PAIRS = 5
"""A rater is fast who took less time than reading takes on more than half of at least so many pairs."""

RARE = 0.001
"""A run, or a preference for a side, is flagged where chance gives it to fewer raters than this share."""

GOLD_FAILED = 2
"""A rater is flagged who failed at least so many gold answers, and half of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The same answer many times in a row.

    Attributes:
        criterion: On which criterion.
        position: The letter that was pressed, or `tie`.
        length: How many pairs in a row.
        chance: At most so often one who presses like the others, each pair by itself, has so rare a run
            of any answer on any criterion.
    """

    criterion: str
    position: Choice
    length: int
    chance: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterLine:
    """One rater.

    Attributes:
        rater: The name.
        state: revoked, excluded, declined (no consent), finished (nothing was left), or nothing of these.
        rated: The study's pairs this rater has rated.
        handed_out: Those it was shown.
        seconds: Median seconds of active time a pair took; None where not recorded.
        total_seconds: Active time in all.
        last: When the last verdict was saved, ISO 8601, UTC.
        ties: The share of ties among its verdicts on the study's pairs; None without verdicts.
        first: How often A won among the pairs on which its answers lean to one side, with Wilson's interval.
        same: How often another rater gave the same verdict on the same pair and criterion.
        compared: Of so many comparisons.
        gold: Answers to gold pairs.
        gold_failed: Those that were wrong.
        repeats: Answers to pairs shown again.
        repeats_changed: Those that differ from the first answer.
        fast: Pairs answered in less time than it takes to read them.
        timed: Of so many pairs whose time is known.
        run: The least likely run of the same answer; None without verdicts.
        comments: Pairs with a comment.
        problems: Pairs with a reported problem.
        skipped: Pairs that were left to others.
        flags: Why to look at this rater.
    """

    rater: str
    state: str
    rated: int
    handed_out: int
    seconds: float | None
    total_seconds: float
    last: str | None
    ties: float | None
    first: Estimate
    same: int
    compared: int
    gold: int
    gold_failed: int
    repeats: int
    repeats_changed: int
    fast: int
    timed: int
    run: Run | None
    comments: int
    problems: int
    skipped: int
    flags: tuple[Flag, ...]


def rater_lines(
    snapshot: StudySnapshot,
    done: Sequence[PairRating],
    remarks: Mapping[tuple[str, str], int],
    *,
    kind: RaterKind,
    level: float,
) -> tuple[RaterLine, ...]:
    """Return a line for each rater of a kind, in the order they were added.

    Args:
        snapshot: The study's state.
        done: All ratings by raters of the kind.
        remarks: How many comments and problems each rater wrote, by name and kind.
        kind: Whom it is about.
        level: Confidence level of the intervals.
    """
    lengths = {pair.id: len(pair.prompt) + len(pair.text_a) + len(pair.text_b) for pair in snapshot.pairs}
    pressed = Counter(one for rating in done for one in rating.pressed.items())
    verdicts: dict[tuple[str, str], Counter[str]] = {}
    for rating in done:
        for criterion, verdict in rating.verdicts.items() if rating.role == "study" else ():
            verdicts.setdefault((rating.pair_id, criterion), Counter())[verdict] += 1
    by_rater: dict[str, list[PairRating]] = {}
    for rating in done:
        by_rater.setdefault(rating.rater, []).append(rating)
    found = []
    for who in (one for one in snapshot.raters if one.kind == kind):
        own = by_rater.get(who.name, [])
        study = [rating for rating in own if rating.role == "study"]
        timed = [(one.pair_id, one.active_seconds) for one in own if one.active_seconds is not None]
        times = [seconds for _, seconds in timed]
        paces = [lengths[pair] / READING > seconds for pair, seconds in timed if pair in lengths]
        letters = [verdict for rating in study for verdict in rating.verdicts.values()]
        checks = [check for check in snapshot.checks if check.rater == who.name]
        gold = [check.passed for check in checks if check.check == "gold"]
        repeats = [check.passed for check in checks if check.check == "repeat"]
        same, compared = _agreeing(study, verdicts)
        leaning = _leaning(study)
        run = longest_run(own, pressed)
        flags: dict[Flag, bool] = {
            "fast": len(paces) >= FAST_PAIRS and 2 * sum(paces) > len(paces),
            "same answer": run is not None and run.chance < RARE,
            "gold": gold.count(False) >= GOLD_FAILED and 2 * gold.count(False) >= len(gold),
            "one side": _one_sided(*leaning),
            "failed the check": _failed_check(_details(snapshot, who, "check")),
        }
        found.append(
            RaterLine(
                rater=who.name,
                state=_state(snapshot, who, len(own)),
                rated=who.rated,
                handed_out=who.handed_out,
                seconds=median(times) if times else None,
                total_seconds=sum(times),
                last=max((rating.last for rating in own), default=None),
                ties=letters.count(TIE) / len(letters) if letters else None,
                first=unit_proportion(np.arange(leaning[1]) < leaning[0], np.arange(leaning[1]), level=level),
                same=same,
                compared=compared,
                gold=len(gold),
                gold_failed=gold.count(False),
                repeats=len(repeats),
                repeats_changed=repeats.count(False),
                fast=sum(paces),
                timed=len(paces),
                run=run,
                comments=remarks.get((who.name, "comment"), 0),
                problems=remarks.get((who.name, "problem"), 0),
                skipped=remarks.get((who.name, "skip"), 0),
                flags=tuple(flag for flag, holds in flags.items() if holds),
            )
        )
    return tuple(found)


def _agreeing(
    study: Sequence[PairRating], verdicts: Mapping[tuple[str, str], Counter[str]]
) -> tuple[int, int]:
    """Return how many verdicts of others are the same as a rater's, and of how many, over all answers."""
    same = compared = 0
    for rating in study:
        for criterion, verdict in rating.verdicts.items():
            given = verdicts[rating.pair_id, criterion]
            same += given[verdict] - 1
            compared += given.total() - 1
    return same, compared


def _leaning(study: Sequence[PairRating]) -> tuple[int, int]:
    """Return on how many pairs the answers lean to A, and on how many to either side.

    A pair counts once, whatever the number of criteria: answers on one pair hang together.
    """
    nets = [
        sum((letter == "A") - (letter == "B") for letter in rating.positions.values()) for rating in study
    ]
    return sum(net > 0 for net in nets), sum(net != 0 for net in nets)


def _one_sided(first: int, leaning: int) -> bool:
    return leaning > 0 and binomtest(first, leaning).pvalue < RARE


def longest_run(own: Sequence[PairRating], pressed: Counter[tuple[str, Choice]]) -> Run | None:
    """Return the run of one answer on one criterion that is least likely; None without answers.

    Args:
        own: A rater's ratings, in the order they were shown.
        pressed: How often all raters, this one among them, pressed each letter on each criterion.
    """
    answers: dict[str, list[Choice]] = {}
    for rating in own:
        for criterion, letter in rating.pressed.items():
            answers.setdefault(criterion, []).append(letter)
    runs = []
    tried = len(answers) * len(CHOICES)
    for criterion, letters in answers.items():
        others = {letter: pressed[criterion, letter] - letters.count(letter) for letter in CHOICES}
        for letter in CHOICES:
            length = _longest(letters, letter)
            # as if each answer had been given once more, for three may be all there are
            share = (others[letter] + 1) / (sum(others.values()) + len(CHOICES))
            chance = min(1.0, tried * run_chance(len(letters), length, share))
            runs.append(Run(criterion=criterion, position=letter, length=length, chance=chance))
    return min(runs, key=lambda run: (run.chance, -run.length), default=None)


def run_chance(n: int, length: int, share: float) -> float:
    """Return at most how likely `n` answers, each the same with chance `share`, have so long a run of it.

    The chance that a run begins at a place, summed over the places (Boole): exact where two such runs do not
    fit.

    >>> run_chance(5, 3, 0.5)
    0.25
    """
    if length < 1:
        return 1.0
    return float(min(1.0, share**length * (1 + (n - length) * (1 - share))))


def _longest(letters: Sequence[Choice], letter: Choice) -> int:
    return max((len(list(group)) for one, group in groupby(letters) if one == letter), default=0)


def _details(snapshot: StudySnapshot, who: RaterProgress, kind: str) -> list[dict[str, Any]]:
    return [json.loads(one.detail) for one in snapshot.notes if (one.rater, one.kind) == (who.name, kind)]


def _state(snapshot: StudySnapshot, who: RaterProgress, shown: int) -> str:
    if who.excluded or who.revoked:
        return "excluded" if who.excluded else "revoked"
    consents, ends = (_details(snapshot, who, kind) for kind in ("consent", "finished"))
    if consents and not consents[-1].get("agreed", True):
        return "declined"
    return "finished" if ends and ends[-1].get("rated") == shown else ""


def _failed_check(tried: Sequence[Mapping[str, object]]) -> bool:
    return len(tried) > 1 and not any(one.get("passed") for one in tried)
