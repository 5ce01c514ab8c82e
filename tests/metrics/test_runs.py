"""Several texts for each prompt: all texts count, and a prompt with several texts is one unit."""

import pytest
from factories import PROMPT, continuation
from texts_measured import generation, measured, score_of

from guard_eval.metrics.scores import METRICS
from guard_eval.records import make_generation

WORDS = "abcdefghijkl"


def words(count, start=0):
    return " ".join(WORDS[(start + index) % len(WORDS)] for index in range(count))


def runs(*counts, strategy="guard"):
    """Return texts with these numbers of words: a tuple for each prompt, a number for each run."""
    return [
        generation(words(count), f"p{index}", strategy, run=run)
        for index, row in enumerate(counts)
        for run, count in enumerate(row, start=1)
    ]


def test_a_mean_of_runs_equals_hand_arithmetic():
    """The means of the two prompts are 3 and 7, so the mean is 5."""
    score = score_of(measured(runs((2, 4), (6, 8)), compute=["length"]), "words")
    assert (score.value, score.n, score.runs) == (5.0, 4, 2)
    assert score.note.startswith("mean of 2 runs")


def test_copied_runs_do_not_narrow_intervals():
    """Three runs with the same texts have the same values and intervals as one run."""
    compute = ["diversity", "repetition", "distinct", "self_bleu", "length"]
    single, tripled = (
        measured(
            [generation(words(4 + n, n), f"p{n}", run=run) for n in range(8) for run in range(1, copies + 1)],
            compute=compute,
        )
        for copies in (1, 3)
    )
    for metric in ("diversity", "rep_2", "distinct_1", "self_bleu", "words"):
        once, three = score_of(single, metric), score_of(tripled, metric)
        precision = 0.5 * 10.0 ** -METRICS[metric].digits
        assert three.value == pytest.approx(once.value, abs=precision)
        assert (three.low, three.high) == pytest.approx((once.low, once.high), abs=precision)
        assert (three.runs, three.n) == (3, 3 * once.n)


def test_a_prompt_with_fewer_runs_has_the_same_weight():
    results = measured(runs((2, 6), (8,)), compute=["length"])
    assert score_of(results, "words").value == 6.0
    assert any("have 1 to 2 texts" in warning for warning in results.warnings)


def test_systems_with_different_numbers_of_runs_are_compared():
    """Compare a strategy with one text for each prompt and a strategy with three, without a warning."""
    texts = runs(*[(5,)] * 8, strategy="greedy") + runs(*[(6, 8, 10)] * 8, strategy="top_k(k=50)")
    results = measured(texts, compute=["length"], baseline="greedy")
    [row] = [row for row in results.differences if row.metric == "words"]
    assert (row.value, row.n) == (3.0, 8)
    assert not any("texts;" in warning for warning in results.warnings)


def test_speed_is_computed_over_all_runs():
    """14 tokens in 0.5 s + 3 s are 4 tokens a second."""
    texts = [generation(words(5), seconds=0.5), generation(words(5), run=2, seconds=3.0)]
    results = measured(texts, compute=["speed"])
    assert score_of(results, "tokens_per_second").value == 4.0
    assert score_of(results, "seconds_per_text").value == 1.75


def test_a_generated_text_keeps_its_run_number():
    assert [make_generation(continuation("a b", run=run), PROMPT).run for run in (1, 3)] == [1, 3]
