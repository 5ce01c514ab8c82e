"""A whole measurement: values computed by hand, intervals, comparisons, and undefined scores."""

from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import get_args

import numpy as np
import pytest
from refusals import expect_refusal
from texts_measured import generation, measured, score_of

from guard_eval.metrics.export import write_results
from guard_eval.metrics.inference import EQUAL_SCORES
from guard_eval.metrics.measurement import MODULES
from guard_eval.metrics.scores import OVERALL
from guard_eval.records import HUMAN
from guard_eval.study.settings import MetricName

TWO = [
    generation("a b a b a", tokens=6, seconds=0.5, finish="eos"),
    generation("c c c c c", prompt="p2", tokens=8, seconds=0.2, finish="length"),
]
# "a b a b a": n-grams without the last: ab ba ab | aba bab | abab; "c c c c c": cc cc cc | ccc ccc | cccc
# rep-2 = 1 − (2 + 1)/6 = 50 %, rep-3 = 1 − (2 + 1)/4 = 25 %, rep-4 = 1 − 2/2 = 0
BY_HAND = {
    "diversity": 37.5,
    "rep_2": 50.0,
    "rep_3": 25.0,
    "rep_4": 0.0,
    "words": 5,
    "tokens": 7,
    "ended": 50,
}
BY_HAND |= {"tokens_per_second": 14 / 0.7, "seconds_per_text": 0.35, "distinct_1": 100 * 3 / 10}


def test_every_metric_is_computed_by_one_module():
    """A metric that no module computes would be left out without a message."""
    computed = Counter(name for names in MODULES.values() for name in names)
    assert computed == Counter(get_args(MetricName))
    for module in MODULES:
        assert callable(import_module(f"guard_eval.metrics.scorers.{module}").yield_outcomes)


def test_metrics_equal_hand_arithmetic():
    results = measured(TWO)
    assert {name: score_of(results, name).value for name in BY_HAND} == pytest.approx(BY_HAND)
    assert score_of(results, "diversity", HUMAN).value == 100.0
    ended = score_of(results, "ended")
    assert (ended.low, ended.high) == (0, 100)  # 50 ± 635 of two texts, cut
    assert score_of(results, "tokens_per_second").signature.endswith("|cpu, up to 2 at once")


def many(strategy, seed, *, words=12, prompts=30, dataset="d", letters="abcdefgh"):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(list(letters), size=words)) for _ in range(prompts)]
    return [generation(text, f"p{i:02}", strategy, dataset) for i, text in enumerate(texts)]


def differences_of(texts, baseline="guard", **options):
    results = measured(texts, compute=["diversity", "length"], baseline=baseline, **options)
    return results, {(row.metric, row.strategy, row.dataset): row for row in results.differences}


def test_missing_intervals_have_a_note():
    results = measured(many("guard", 1))
    why = {"words": "the same value", "tokens_per_second": "one batch", "distinct_1": "no interval"}
    for metric, words in why.items():
        score = score_of(results, metric)
        assert (score.low, score.high) == (None, None)
        assert words in score.note


def test_intervals_hold_only_possible_values():
    """0 and 10 words: the t quantile with one degree of freedom is 12.706, and the standard error is 5."""
    texts = [generation(""), generation("a " * 10, prompt="p2")]
    score = score_of(measured(texts), "words")
    assert (score.low, score.high) == (0, pytest.approx(5 + 12.706 * 5, abs=0.01))


def test_order_of_texts_does_not_change_scores():
    texts, others = many("guard", 1), many("greedy", 2)
    results = [measured(order).scores for order in (texts, texts + others, others[::-1] + texts[::-1])]
    first, *more = [[score for score in scores if score.strategy == "guard"] for scores in results]
    assert more == [first, first]


@pytest.mark.parametrize(("prompts", "least"), [(4, 2 / 2**4), (5, 2 / 2**5)])
def test_few_prompts_have_a_note_instead_of_a_p_value(prompts, least, tmp_path):
    """With n prompts, a sign-flip test cannot have a p-value below 2 / 2ⁿ."""
    texts = many("guard", 1, prompts=prompts) + many("dull", 2, prompts=prompts, letters="ab")
    results, rows = differences_of(texts)
    row = rows["diversity", "dull", "d"]
    assert (row.p_value, row.p_holm) == (None, None)
    why = f"no p: few units differ, so p is at least {least:.3g}, above 0.05"
    assert row.note == why
    write_results(results, tmp_path)
    for name in ("metrics.html", "metrics.md", "metrics.tex", "metrics.json", "differences.csv"):
        assert why in (tmp_path / name).read_text(encoding="utf-8")


def test_eight_prompts_have_a_p_value_but_no_corrected_one():
    """The smallest p-value is 2/2⁸ = .0078. After Holm's correction for eight strategies, it is .0625."""
    texts = many("guard", 1, prompts=8)
    for index in range(8):
        texts += many(f"dull{index}", 2 + index, prompts=8, letters="ab")
    rows = [row for row in differences_of(texts)[1].values() if row.metric == "diversity"]
    assert {row.family for row in rows} == {8}
    assert all(row.p_value is not None for row in rows)
    assert {row.p_holm for row in rows} == {None}
    assert all("after Holm's correction for 8 tests" in row.note for row in rows)


def test_impossible_test_counts_in_holms_correction():
    """The texts of one strategy are too short for diversity. Its test still counts in the correction."""
    texts = many("guard", 1) + many("dull", 2, letters="ab") + many("short", 3, words=2)
    _, rows = differences_of(texts)
    short, dull = rows["diversity", "short", "d"], rows["diversity", "dull", "d"]
    assert (short.value, short.p_value, short.family) == (None, None, 2)
    assert dull.p_value == pytest.approx(2 / 2**30)  # 30 prompts, which all say the same
    assert dull.p_holm == pytest.approx(2 * dull.p_value)


def test_each_difference_has_interval_and_p_values():
    results, rows = differences_of(many("guard", 1) + many("dull", 2, letters="ab") + many("same", 3))
    assert {row.strategy for row in rows.values()} == {"dull", "same"}
    dull, same = rows["diversity", "dull", "d"], rows["diversity", "same", "d"]
    words = rows["words", "same", "d"]
    scores = [score_of(results, "diversity", name).value for name in ("dull", "guard")]
    assert dull.value == pytest.approx(scores[0] - scores[1], abs=0.02)
    assert dull.high < 0
    assert (dull.p_holm, dull.family) == (2 * dull.p_value, 2)
    assert same.low < 0 < same.high
    assert same.p_value > 0.01
    # Both wrote twelve words for every prompt.
    assert (words.value, words.p_value, words.note) == (0, None, EQUAL_SCORES)


def test_only_shared_prompts_are_compared():
    results, rows = differences_of(many("guard", 1, words=12) + many("short", 2, words=6, prompts=20))
    row = rows["words", "short", "d"]
    assert (row.n, row.value) == (20, -6)
    assert score_of(results, "words", "short").counts == {"prompt not continued": 10}


def test_the_mean_over_datasets_has_equal_weights():
    texts = many("guard", 1, words=10, dataset="news") + many("dull", 3, dataset="news", letters="ab")
    texts += many("guard", 2, words=20, dataset="tales", prompts=10)
    texts += many("dull", 4, dataset="tales", prompts=10, letters="ab")
    results, rows = differences_of(texts)
    assert score_of(results, "words", dataset=OVERALL).value == 15  # each dataset of the same weight
    gains = [rows["diversity", "dull", name] for name in ("news", "tales", OVERALL)]
    assert [(row.n, row.family) for row in gains] == [(30, 3), (10, 3), (40, 3)]
    assert gains[2].value == pytest.approx((gains[0].value + gains[1].value) / 2)
    news, tales, whole = (score_of(results, "diversity", dataset=name) for name in ("news", "tales", OVERALL))
    assert whole.value == pytest.approx((news.value + tales.value) / 2)
    assert whole.low < whole.value < whole.high
    assert whole.high - whole.low < tales.high - tales.low


def test_repeated_texts_of_a_prompt_change_no_score():
    """Prompts with the same words are one unit, even if their ids differ."""
    once = many("guard", 1, words=8)
    renamed = [replace(text, prompt_id=f"row {text.prompt_id}") for text in once]
    single = score_of(measured(once), "diversity")
    for texts in (once + once, once + renamed):
        twice = score_of(measured(texts), "diversity")
        assert (single.n, twice.n) == (30, 60)
        assert (twice.value, twice.low, twice.high) == pytest.approx((single.value, single.low, single.high))


@pytest.mark.parametrize(
    ("shift", "prompts", "gain", "p_value"), [(0, 7, 18 / 7, 8 / 128), (1, 6, 14 / 6, 8 / 64)]
)
def test_prompts_with_one_id_are_compared_by_words(shift, prompts, gain, p_value):
    """Ids of one file are shifted, so that its cut prompt belongs to no other, nor ids without a prompt."""
    gains = [4, 4, 4, 4, 4, -1, -1]
    texts = []
    for number, more in enumerate(gains):
        words = f"The prompt called {'abcdefg'[number]} goes on"
        long = generation("w " * (9 + 3 * number + more), prompt=f"{number}", strategy="long")
        short = generation("w " * (9 + 3 * number), prompt=f"{(number + shift) % 7}", strategy="guard")
        bare = generation("w " * number, prompt=f"{number}", strategy="bare")
        cut = words[:-3] if number == 0 else words
        texts += [replace(long, prompt=words), replace(short, prompt=cut), replace(bare, prompt=None)]
    _, rows = differences_of(texts)
    row = rows["words", "long", "d"]
    assert (row.n, row.value) == (prompts, pytest.approx(gain))
    assert row.p_value == pytest.approx(p_value)
    assert rows["words", "bare", "d"].n == (0 if shift else 7)


def test_a_failed_metric_is_named_others_are_measured():
    result = measured(TWO, compute=["diversity", "coherence", "perplexity", "mauve", "bertscore"])
    assert score_of(result, "diversity").value == 37.5
    assert len(result.failures) == 3
    assert result.failures[0].startswith("coherence and perplexity could not be measured: cannot load")
    texts = [replace(text, reference=None) for text in TWO]
    without = measured(texts, compute=["mauve"], baseline="guard")
    assert without.failures == ()
    assert without.warnings == ("mauve: not measured, because no text has a reference",)
    assert not without.scores


def test_undefined_scores_have_a_note():
    texts = [generation("漢字" * 9, strategy="guard"), generation("a b c d e", prompt="p2", strategy="other")]
    results, rows = differences_of(texts)
    assert (
        score_of(results, "diversity").note == "no text has enough words. Words are separated by white space"
    )
    assert (
        score_of(measured(texts), "self_bleu", "other").note
        == "a single text cannot be compared with other texts"
    )
    assert rows["words", "other", "d"].note.startswith("no prompt has texts of both strategies. Give each")
    both = [replace(text, prompt_id="p1", prompt="prompt p1") for text in texts]
    assert differences_of(both)[1]["diversity", "other", "d"].note.startswith(
        "guard has no value: no text has"
    )


def test_scores_have_counts_of_flawed_texts():
    texts = [*TWO, generation("", prompt="p3"), generation("a b", prompt="p4", flaws=("not UTF-8",))]
    score = score_of(measured(texts), "diversity")
    assert score.counts == {"not UTF-8": 1, "empty": 1, "shorter than five words": 2}
    assert score.value == 37.5  # too short to have an n-gram that counts


def test_references_count_once_for_each_prompt():
    texts = [*TWO, *(replace(text, strategy="greedy") for text in TWO)]
    texts[1] = replace(texts[1], reference=None)
    texts[3] = replace(texts[3], reference=None)
    results = measured(texts)
    assert score_of(results, "words", HUMAN).n == 1
    assert results.warnings == ("d: 1 of 2 prompts have a reference",)


def test_measure_refuses_bad_input():
    for texts, baseline, says in (
        ([generation("x", strategy=HUMAN)], None, "is reserved for the references"),
        (TWO, "beam", r"the baseline 'beam\(beams=5\)' has no texts; choose one of: guard"),
        ([], None, "no texts"),
    ):
        with expect_refusal(says):
            measured(texts, baseline=baseline)
