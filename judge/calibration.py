"""Calibrate a judge: ask about pairs with a known answer, which are made from the study's own texts.

There are four checks. A text against itself must be a tie. A text should be better than the same words in
random order. A pair with swapped sides should get the same verdict. A text with added repetitions should not
be better than the original text. The answers are not verdicts of the study.
"""

import re
from collections.abc import Iterator, Sequence

from guard_eval.records import BlindPair, Pair, make_content_id
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.store.judging import calibration
from guard_eval.store.judging.requests import CalibrationCheck, Question
from guard_eval.study.judge_settings import Judge
from judge.questions import RequestBuilder

ITEMS = 20
"""The number of the study's pairs from which calibration questions are made: 7 questions for each pair."""

FILLER = (
    "There is more that could be said about this.",
    "And so it went, as such things do.",
    "In a way, that was all there was to it.",
    "One could go on like this for quite some time.",
)
"""Sentences without content. A longer text ends with two of these sentences, which the seed chooses."""

_FEWEST_WORDS = 4
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+")


def make_calibration_questions(pairs: Sequence[Pair], *, seed: int) -> list[Question]:
    """Make the calibration questions of a study. The same pairs and seed give the same questions.

    A text with too few words cannot be shuffled, so this text has no check with shuffled words.
    """
    drawn = sorted(pairs, key=lambda pair: make_content_id(seed, "calibration", pair.id))[:ITEMS]
    return [
        Question(
            pair_id=pair.id,
            number=number,
            check=check,
            blind=BlindPair.from_texts(0, pair.prompt, text_a, text_b),
        )
        for pair in drawn
        for number, (check, text_a, text_b) in enumerate(_make_calibration_checks(pair, seed))
    ]


def _make_calibration_checks(pair: Pair, seed: int) -> Iterator[tuple[CalibrationCheck, str, str]]:
    text = (pair.text_a, pair.text_b)[int(make_content_id(seed, "text", pair.id), 16) % 2]
    yield CalibrationCheck(check="identical", target="A", orders=1), text, text
    compared = [
        ("shuffled", text, shuffle_words(text, seed=seed)),
        ("swapped", pair.text_a, pair.text_b),
        ("padded", lengthen_text(text, seed=seed), text),
    ]
    for name, target, other in compared:
        if name != "shuffled" or other != text:
            yield CalibrationCheck(check=name, target="A", orders=2), target, other
            yield CalibrationCheck(check=name, target="B", orders=2), other, target


def shuffle_words(text: str, *, seed: int) -> str:
    """Shuffle the words of `text` in an order drawn by the seed; return a text with too few words unchanged.

    >>> sorted(shuffle_words("one two three four", seed=1).split())
    ['four', 'one', 'three', 'two']
    """
    words = text.split()
    if len(set(words)) < _FEWEST_WORDS:
        return text
    order = sorted(range(len(words)), key=lambda index: make_content_id(seed, "word", index, text))
    mixed = [words[index] for index in order]
    return " ".join(mixed if mixed != words else mixed[::-1])


def lengthen_text(text: str, *, seed: int) -> str:
    """Lengthen a text by about 50 %: repeat the first sentences, and add sentences without content.

    >>> lengthen_text("A cat sat. It slept.", seed=1).startswith("A cat sat. It slept. A cat sat.")
    True
    """
    repeated: list[str] = []
    for sentence in _SENTENCE.split(text.strip()):
        repeated.append(sentence)
        if len(" ".join(repeated)) >= len(text) / 3:
            break
    start = int(make_content_id(seed, "filler", text), 16)
    filler = [FILLER[(start + index) % len(FILLER)] for index in range(2)]
    return " ".join([text.rstrip(), *repeated, *filler])


def read_unanswered_calibration_questions(store: Store, judge: Judge, *, seed: int) -> list[Question]:
    """Return the calibration questions that the judge has not answered with the current settings."""
    settings = RequestBuilder(judge, seed=seed).settings
    with store.begin_read() as db:
        answered = set(map(tuple, calibration.ANSWERED_QUESTIONS(db, settings=settings)))
    items = make_calibration_questions(store_pairs.read_pairs(store), seed=seed)
    return [question for question in items if (question.pair_id, question.number) not in answered]
