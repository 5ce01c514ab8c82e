"""A whole measurement: values by hand, intervals, comparisons, and what cannot be measured."""

from dataclasses import replace

import numpy as np
import pytest
from texts_measured import generation, measured

from guard_eval.errors import StudyError
from guard_eval.metrics.export import write_results
from guard_eval.metrics.groups import group_texts, human_groups
from guard_eval.metrics.scores import OVERALL
from guard_eval.texts.generations import HUMAN

pytestmark = pytest.mark.slow


def find(results, metric, strategy="guard", dataset="d"):
    (one,) = (
        score
        for score in results.scores
        if (score.metric, score.strategy, score.dataset) == (metric, strategy, dataset)
    )
    return one


TWO = [
    generation("a b a b a", tokens=6, seconds=0.5, ended=True),
    generation("c c c c c", prompt="p2", tokens=8, seconds=0.2, ended=False),
]


def test_values_by_hand():
    results = measured(TWO)
    assert find(results, "diversity").value == 37.5
    assert [find(results, f"rep_{n}").value for n in (2, 3, 4)] == [50.0, 25.0, 0.0]
    assert find(results, "words").value == 5
    assert find(results, "tokens").value == 7
    assert find(results, "ended").value == 50
    assert find(results, "tokens_per_second").value == pytest.approx(14 / 0.7)
    assert find(results, "seconds_per_text").value == pytest.approx(0.35)
    assert find(results, "distinct_1").value == pytest.approx(100 * 3 / 10)
    assert find(results, "diversity", HUMAN).value == 100.0
    assert results.speed["d", "guard"] == "cpu, up to 2 at once"


def test_the_textbooks_diversity_by_hand():
    # 2/4 · 2/3 · 2/2 = 1/3 and 1/4 · 1/3 · 1/2 = 1/24, of which the mean is 18.75 %.
    score = find(measured(TWO, compute=["diversity"], diversity="textbook"), "diversity")
    assert score.value == pytest.approx(18.75)
    assert score.signature.startswith("textbook")


def many(strategy, seed, *, words=12, prompts=30, dataset="d", letters="abcdefgh"):
    rng = np.random.default_rng(seed)
    return [
        generation(
            " ".join(rng.choice(list(letters), size=words)),
            prompt=f"p{i:02}",
            strategy=strategy,
            dataset=dataset,
        )
        for i in range(prompts)
    ]


def test_intervals_of_means_are_t_intervals():
    texts = [
        text for index in range(6) for text in many("guard", index, words=5 + index, prompts=index + 1)[-1:]
    ]
    score = find(measured(texts), "words")
    # 5 … 10 words: 7.5 ± t(5) · √(3.5 / 6), t(5) = 2.5706
    assert (score.low, score.high) == pytest.approx((7.5 - 1.9633, 7.5 + 1.9633), abs=1e-3)


def test_what_has_no_interval_says_why():
    results = measured(many("guard", 1))
    words = find(results, "words")
    assert (words.low, words.high) == (None, None)  # all of twelve words
    assert "no width" in words.note
    assert find(results, "tokens_per_second").low is None
    assert "one batch" in find(results, "tokens_per_second").note


def test_the_order_of_texts_and_other_strategies_change_nothing():
    texts, others = many("guard", 1), many("greedy", 2)
    one = measured(texts + others)
    other = measured(others[::-1] + texts[::-1])
    assert {s.metric: s for s in one.scores if s.strategy == "guard"} == {
        s.metric: s for s in other.scores if s.strategy == "guard"
    }
    alone = measured(texts)
    assert find(alone, "diversity") == find(one, "diversity")


@pytest.mark.parametrize(("prompts", "least"), [(4, 2 / 2**4), (5, 2 / 2**5)])
def test_few_prompts_have_no_p_and_the_reason(prompts, least, tmp_path):
    """Each exchange and its opposite are as extreme: 2 of 2ⁿ is the least, whatever the texts."""
    texts = many("guard", 1, prompts=prompts) + many("dull", 2, prompts=prompts, letters="ab")
    results = measured(texts, compute=["diversity"], baseline="guard")
    (one,) = (one for one in results.differences if one.metric == "diversity")
    assert (one.p_value, one.p_holm) == (None, None)
    why = f"no p: with so few prompts that differ it cannot be below {least:.3g}, and so not reach 0.05"
    assert one.note == why
    write_results(results, tmp_path)
    for name in ("metrics.html", "metrics.md", "metrics.tex", "metrics.json", "differences.csv"):
        assert why in (tmp_path / name).read_text(encoding="utf-8")


def test_eight_prompts_reach_it_alone_and_not_after_the_correction():
    """2/2⁸ is .0078; over eight strategies Holm's correction makes it at least .0625."""
    texts = many("guard", 1, prompts=8)
    for index in range(8):
        texts += many(f"dull{index}", 2 + index, prompts=8, letters="ab")
    results = measured(texts, compute=["diversity"], baseline="guard")
    result = [one for one in results.differences if one.metric == "diversity"]
    assert {one.family for one in result} == {8}
    assert all(one.p_value is not None for one in result)
    assert {one.p_holm for one in result} == {None}
    assert all("after Holm's correction for 8 tests" in one.note for one in result)


def test_a_declared_test_that_could_not_be_made_counts_towards_the_family():
    """The second strategy has no text long enough for diversity; its test was declared all the same."""
    texts = many("guard", 1) + many("dull", 2, letters="ab") + many("short", 3, words=2)
    results = measured(texts, compute=["diversity"], baseline="guard")
    by_name = {one.strategy: one for one in results.differences}
    assert (by_name["short"].value, by_name["short"].p_value, by_name["short"].family) == (None, None, 2)
    assert by_name["dull"].p_value == pytest.approx(1 / 100_001)  # the least that 100 000 drawn patterns give
    assert by_name["dull"].p_holm == pytest.approx(2 / 100_001)


def test_a_difference_has_its_interval_test_and_correction():
    texts = many("guard", 1) + many("dull", 2, letters="ab") + many("same", 3)
    results = measured(texts, compute=["diversity", "length"], baseline="guard")
    by_name = {(one.metric, one.strategy): one for one in results.differences}
    dull, same = by_name["diversity", "dull"], by_name["diversity", "same"]
    assert dull.value == pytest.approx(
        find(results, "diversity", "dull").value - find(results, "diversity").value, abs=0.02
    )
    assert dull.high < 0
    assert (dull.p_holm, dull.family) == (2 * dull.p_value, 2)
    assert same.low < 0 < same.high
    assert same.p_value > 0.01
    assert by_name["words", "same"].value == 0
    # Both wrote twelve words for every prompt.
    assert by_name["words", "same"].p_value is None
    assert by_name["words", "same"].note == "no prompt favours either method"
    assert {one.strategy for one in results.differences} == {"dull", "same"}


def test_only_prompts_that_both_continued_are_compared():
    texts = many("guard", 1, words=12) + many("short", 2, words=6, prompts=20)
    (difference,) = measured(texts, compute=["length"], baseline="guard").differences[:1]
    assert (difference.metric, difference.n, difference.value) == ("words", 20, -6)
    counts = find(measured(texts), "words", "short").counts
    assert counts == {"prompt not continued": 10}


def test_datasets_and_their_mean():
    texts = many("guard", 1, words=10, dataset="news") + many(
        "guard", 2, words=20, dataset="tales", prompts=10
    )
    results = measured(texts, compute=["length", "diversity"])
    whole = find(results, "words", dataset=OVERALL)
    assert whole.value == 15  # each dataset of the same weight, not each text
    news, tales = (find(results, "diversity", dataset=name) for name in ("news", "tales"))
    whole = find(results, "diversity", dataset=OVERALL)
    assert whole.value == pytest.approx((news.value + tales.value) / 2)
    assert whole.low < whole.value < whole.high
    assert whole.high - whole.low < tales.high - tales.low


def test_several_texts_of_a_prompt_are_resampled_together():
    once = many("guard", 1, words=8)
    one, twice = (find(measured(texts), "diversity") for texts in (once, once + once))
    assert (one.n, twice.n) == (30, 60)
    # To have every text twice adds nothing new: the interval stays as wide.
    assert (twice.value, twice.low, twice.high) == pytest.approx((one.value, one.low, one.high))


def test_what_cannot_be_measured_is_said_and_the_rest_is_measured():
    result = measured(TWO, compute=["diversity", "coherence", "perplexity", "mauve", "bertscore"])
    assert find(result, "diversity").value == 37.5
    assert len(result.failures) == 3
    assert result.failures[0].startswith("coherence and perplexity could not be measured: cannot load")
    without = measured([replace(one, reference=None) for one in TWO], compute=["mauve", "length"])
    assert without.failures == ()
    assert without.warnings == ("mauve: not measured, as no text has a reference to be compared with",)
    assert {score.strategy for score in without.scores} == {"guard"}


def test_counts_stand_beside_the_score():
    texts = [*TWO, generation("", prompt="p3"), generation("a b", prompt="p4", flaws=("not UTF-8",))]
    score = find(measured(texts), "diversity")
    assert score.counts == {"not UTF-8": 1, "empty": 1, "shorter than five words": 2}
    assert score.value == 37.5  # too short to have an n-gram that counts


def test_references_are_taken_once_a_prompt_and_not_all_need_one():
    texts = [*TWO, *(replace(one, strategy="greedy") for one in TWO)]
    texts[1] = replace(texts[1], reference=None)
    texts[3] = replace(texts[3], reference=None)
    (people,) = human_groups(group_texts(texts))
    assert [text.prompt_id for text in people.texts] == ["p1"]
    assert measured(texts).warnings == ("d: 1 of 2 prompts have a reference",)


def test_a_strategy_named_like_people_is_refused():
    with pytest.raises(StudyError, match="stands for the references"):
        measured([generation("x", strategy=HUMAN)])


def test_an_unknown_baseline_names_the_known():
    with pytest.raises(StudyError, match=r"'beam\(beams=5\)' wrote none of the texts; choose from: guard"):
        measured(TWO, baseline="beam")
    with pytest.raises(StudyError, match="no texts"):
        measured([])
