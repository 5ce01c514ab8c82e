"""Simulated raters and a simulated judge: they show what a report looks like before the first rating.

Like real raters, they get blind pairs and save verdicts through the store. The database and every page of a
report name their kinds, `simulated` and `simulated_model`. Their taste is an invented rule about the two
texts (repetition and very short texts are bad) plus noise, so their verdicts say nothing about any decoding
strategy or model.
"""

from collections.abc import Sequence
from dataclasses import replace

from guard_eval.records import BlindPair, Choice, HandOutPlan, make_content_id
from guard_eval.store import Store, handout, raters, verdicts
from guard_eval.store.judging import requests

NAMES = ("SIMULATED rater 1", "SIMULATED rater 2", "SIMULATED rater 3", "SIMULATED rater 4")
JUDGE = "SIMULATED judge"

_SHARED_NOISE, _OWN_NOISE = 0.20, 0.18
"""Standard deviations of the noise that all raters of a pair share, and of each rater's own noise."""
_TIE_WITHIN = 0.12
"""Simulated raters call two texts similar if their scores differ by less than this number."""
_LEAN = 0.04
"""The simulated judge's bias to the first text. Therefore, some verdicts change with the order."""


def rate_all_pairs(store: Store, plan: HandOutPlan, criteria: Sequence[str]) -> int:
    """Let the simulated raters rate all their open pairs. Return the number of pairs."""
    before = -1
    rated = 0
    while rated > before:  # the last rater of a round opens the next one
        before = rated
        for name in NAMES:
            rater = raters.get_or_add_rater(store, name, "simulated")
            while batch := handout.claim_pairs(store, rater, plan, limit=20):
                for blind in batch:
                    choices = _simulate_choices(blind, criteria, name, plan)
                    verdicts.save_verdict(store, blind.presentation, choices, rater=rater)
                rated += len(batch)
    return rated


def judge_all_pairs(store: Store, plan: HandOutPlan, criteria: Sequence[str]) -> int:
    """Let the simulated judge rate every pair in both orders. Return the number of showings."""
    judge = raters.get_or_add_rater(store, JUDGE, "simulated_model")
    judged = 0
    rounds = plan.rounds and replace(plan.rounds, showings=2)
    with store.begin_write() as (db, now):
        while questions := requests.read_due_questions(db, now, JUDGE, replace(plan, slots=2, rounds=rounds)):
            answers = [
                (question, _simulate_choices(question.blind, criteria, JUDGE, plan)) for question in questions
            ]
            verdicts.save_judged_verdicts(db, judge, answers, now=now, declared=store.declared_now)
            judged += len(answers)
    return judged


def _simulate_choices(
    blind_pair: BlindPair, criteria: Sequence[str], rater_name: str, plan: HandOutPlan
) -> dict[str, Choice]:
    return {
        criterion: simulate_choice(blind_pair, criterion, rater_name=rater_name, seed=plan.seed)
        for criterion in criteria
    }


def simulate_choice(blind_pair: BlindPair, criterion: str, *, rater_name: str, seed: int) -> Choice:
    """Return a simulated rater's choice. It does not change if the two texts swap sides.

    Only the judge prefers the text that is shown first.
    """
    texts = sorted((blind_pair.text_a, blind_pair.text_b))
    shared = _SHARED_NOISE * _hash_to_normal_number(seed, "pair", criterion, texts)
    noise = _OWN_NOISE * _hash_to_normal_number(seed, rater_name, criterion, texts)
    difference = measure_text_appeal(texts[1]) - measure_text_appeal(texts[0]) + shared + noise
    if blind_pair.text_a == texts[0]:
        difference = -difference
    if rater_name == JUDGE:
        difference += _LEAN
    if blind_pair.text_a == blind_pair.text_b or abs(difference) < _TIE_WITHIN:
        return "tie"
    return "A" if difference > 0 else "B"


def measure_text_appeal(text: str) -> float:
    """Return the share of different words, reduced a little for short texts."""
    words = text.split()
    if not words:
        return 0.0
    return len(set(words)) / len(words) - 0.3 * max(0.0, 1 - len(words) / 60)


def _hash_to_normal_number(*parts: object) -> float:
    """Return a nearly normal number that depends only on `parts`: twelve uniform numbers, minus six."""
    digits = make_content_id(*parts) + make_content_id("more", *parts)
    return sum((int(digits[i : i + 2], 16) + 0.5) / 256 for i in range(0, 24, 2)) - 6
