"""Rater by rater: pace, sides, runs, checks, and what of it is worth a look.

A flag is a reason to look, never to exclude: that is a decision, made and recorded by a person.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from analysis.stats.intervals import clopper_pearson, wilson
from guard_eval.cli.overview.ratings import PairRating
from guard_eval.cli.overview.values import Flag, RaterLine, Remark, Run, StudySnapshot
from guard_eval.records import CHOICES, TIE, Choice, RaterKind
from guard_eval.store import RaterProgress

READING = 71.0
"""Characters a second. People read 238 words a minute silently (Brysbaert 2019), 24 characters a second with
six of them to a word; this is three times as much."""

FAST_PAIRS = 5
"""Flagged as fast is whoever took less than reading takes on more than half of at least so many pairs."""

RARE = 0.001
"""A run, or a preference for a side, is flagged where chance gives it to fewer raters than this share."""

GOLD_FAILED = 2
"""Flagged is whoever failed at least so many gold answers, and half of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Others:
    """What each rater is compared with.

    Attributes:
        lengths: Characters of each pair's prompt and texts.
        said: What was said of each of the study's pairs on each criterion, by all together.
        pressed: How often all together pressed each letter on each criterion.
    """

    lengths: Mapping[str, int]
    said: Mapping[tuple[str, str], Counter[str]]
    pressed: Counter[tuple[str, Choice]]


def rater_lines(
    snapshot: StudySnapshot,
    done: Sequence[PairRating],
    remarks: Sequence[Remark],
    *,
    kind: RaterKind,
    level: float,
) -> tuple[RaterLine, ...]:
    """Return a line for each rater of a kind, in the order they were added."""
    by_rater: dict[str, list[PairRating]] = {}
    for rating in done:
        by_rater.setdefault(rating.rater, []).append(rating)
    others = _Others(
        lengths={pair.id: len(pair.prompt) + len(pair.text_a) + len(pair.text_b) for pair in snapshot.pairs},
        said=_said(done),
        pressed=Counter(pressed for rating in done for pressed in rating.pressed.items()),
    )
    return tuple(
        _line(snapshot, who, by_rater.get(who.name, []), remarks=remarks, others=others, level=level)
        for who in snapshot.raters
        if who.kind == kind
    )


def _line(
    snapshot: StudySnapshot,
    who: RaterProgress,
    own: Sequence[PairRating],
    *,
    remarks: Sequence[Remark],
    others: _Others,
    level: float,
) -> RaterLine:
    study = [rating for rating in own if rating.role == "study"]
    times = [rating.active_seconds for rating in own if rating.active_seconds is not None]
    paces = [
        others.lengths[rating.pair_id] / READING > rating.active_seconds
        for rating in own
        if rating.active_seconds is not None and rating.pair_id in others.lengths
    ]
    verdicts = [verdict for rating in study for verdict in rating.verdicts.values()]
    checks = [check for check in snapshot.checks if check.rater == who.name]
    gold = [check.passed for check in checks if check.check == "gold"]
    repeats = [check.passed for check in checks if check.check == "repeat"]
    same, compared = _agreeing(study, others)
    leaning = _leaning(study)
    run = longest_run(own, others.pressed)
    written = Counter(remark.kind for remark in remarks if remark.rater == who.name)
    flags: dict[Flag, bool] = {
        "fast": len(paces) >= FAST_PAIRS and 2 * sum(paces) > len(paces),
        "same answer": run is not None and run.chance < RARE,
        "gold": gold.count(False) >= GOLD_FAILED and 2 * gold.count(False) >= len(gold),
        "one side": _one_sided(*leaning),
        "failed the check": _failed_check(snapshot, who),
    }
    return RaterLine(
        rater=who.name,
        state=_state(snapshot, who, len(own)),
        rated=who.rated,
        handed_out=who.handed_out,
        seconds=median(times) if times else None,
        total_seconds=sum(times),
        last=max((rating.last for rating in own), default=None),
        ties=verdicts.count(TIE) / len(verdicts) if verdicts else None,
        first=wilson(*leaning, level=level),
        same=same,
        compared=compared,
        gold=len(gold),
        gold_failed=gold.count(False),
        repeats=len(repeats),
        repeats_changed=repeats.count(False),
        fast=sum(paces),
        timed=len(paces),
        run=run,
        comments=written["comment"],
        problems=written["problem"],
        flags=tuple(flag for flag, holds in flags.items() if holds),
    )


def _said(done: Sequence[PairRating]) -> dict[tuple[str, str], Counter[str]]:
    said: dict[tuple[str, str], Counter[str]] = {}
    for rating in done:
        if rating.role == "study":
            for criterion, verdict in rating.verdicts.items():
                said.setdefault((rating.pair_id, criterion), Counter())[verdict] += 1
    return said


def _agreeing(study: Sequence[PairRating], others: _Others) -> tuple[int, int]:
    """Return how often others say what a rater says, and how many others there are, over all answers."""
    same = compared = 0
    for rating in study:
        for criterion, verdict in rating.verdicts.items():
            all_said = others.said[rating.pair_id, criterion]
            same += all_said[verdict] - 1
            compared += all_said.total() - 1
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
    interval = clopper_pearson(first, leaning, level=1 - RARE)
    return interval.low is not None and interval.high is not None and not interval.low <= 0.5 <= interval.high


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
    longest = current = 0
    for one in letters:
        current = current + 1 if one == letter else 0
        longest = max(longest, current)
    return longest


def _state(snapshot: StudySnapshot, who: RaterProgress, shown: int) -> str:
    if who.excluded or who.revoked:
        return "excluded" if who.excluded else "revoked"
    consents = [note.detail for note in snapshot.notes if note.rater == who.name and note.kind == "consent"]
    if consents and not json.loads(consents[-1]).get("agreed", True):
        return "declined"
    ends = [note.detail for note in snapshot.notes if note.rater == who.name and note.kind == "finished"]
    return "finished" if ends and json.loads(ends[-1]).get("rated") == shown else ""


def _failed_check(snapshot: StudySnapshot, who: RaterProgress) -> bool:
    tried = [note.detail for note in snapshot.notes if note.rater == who.name and note.kind == "check"]
    return len(tried) > 1 and not any(json.loads(detail).get("passed") for detail in tried)
