"""Several texts a prompt: all count, and those of one prompt are one piece of evidence."""

import statistics

import numpy as np
import pytest
from texts_measured import generation, measured

from guard_eval.metrics.groups import group_texts
from guard_eval.metrics.outcomes import Outcome, join_runs
from guard_eval.metrics.scores import METRICS

PROMPTS = [f"p{n}" for n in range(8)]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def words(count, start=0):
    return " ".join(WORDS[(start + index) % len(WORDS)] for index in range(count))


def by_metric(results, strategy="guard"):
    return {one.metric: one for one in results.scores if one.strategy == strategy}


def test_a_mean_of_runs_and_their_spread_by_hand():
    """Runs of 2 and 4, 6 and 8, … words: means 5, 6, … and the runs' own means 4 and 6."""
    texts = [
        generation(words(count), prompt, run=run)
        for prompt, counts in zip(["p1", "p2"], [(2, 4), (6, 8)], strict=True)
        for run, count in enumerate(counts, start=1)
    ]
    one = by_metric(measured(texts, compute=["length"]))["words"]
    assert (one.value, one.n, one.runs) == (5.0, 4, 2)
    assert one.run_sd == statistics.stdev([4.0, 6.0])


def test_copies_are_no_evidence():
    """Three times the same texts: every value and interval is that of one run."""
    single = [generation(words(4 + index, index), prompt) for index, prompt in enumerate(PROMPTS)]
    tripled = [
        generation(words(4 + index, index), prompt, run=run)
        for index, prompt in enumerate(PROMPTS)
        for run in (1, 2, 3)
    ]
    compute = ["diversity", "repetition", "distinct", "self_bleu", "length"]
    first, second = (by_metric(measured(texts, compute=compute)) for texts in (single, tripled))
    assert first.keys() == second.keys()
    for metric, one in first.items():
        again = second[metric]
        for have, expected in ((again.value, one.value), (again.low, one.low), (again.high, one.high)):
            assert have == pytest.approx(expected, abs=0.5 * 10.0 ** -METRICS[metric].digits), metric
        assert again.run_sd == 0
        assert again.n == 3 * one.n


def test_intervals_are_over_prompts():
    """Of texts with as many words as the runs have on average the interval is the same."""
    rng = np.random.default_rng(3)
    counts = 2 * rng.integers(1, 6, size=(30, 2))
    runs = [
        generation(words(int(count)), f"p{index}", run=run)
        for index, pair in enumerate(counts)
        for run, count in enumerate(pair, start=1)
    ]
    means = [generation(words(int(pair.mean())), f"p{index}") for index, pair in enumerate(counts)]
    one, other = (by_metric(measured(texts, compute=["length"]))["words"] for texts in (runs, means))
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_a_prompt_that_lacks_a_run_weighs_as_much_as_the_others():
    texts = [generation(words(2), "p1"), generation(words(6), "p1", run=2), generation(words(8), "p2")]
    assert by_metric(measured(texts, compute=["length"]))["words"].value == 6.0
    assert any("between 1 and 2 texts" in each for each in measured(texts, compute=["length"]).warnings)


def test_a_strategy_that_draws_nothing_is_compared_with_runs():
    """It has one text a prompt; that is no reason for a warning, and sums compare prompt by prompt."""
    texts = [generation(words(5), prompt, "greedy") for prompt in PROMPTS]
    texts += [
        generation(words(count), prompt, "top_k(k=50)", run=run)
        for prompt in PROMPTS
        for run, count in enumerate((6, 8, 10), start=1)
    ]
    results = measured(texts, compute=["length"], baseline="greedy")
    [one] = [each for each in results.differences if each.metric == "words"]
    assert (one.value, one.n) == (3.0, 8)
    assert not any("texts;" in each for each in results.warnings)


def test_speed_is_that_of_all_texts():
    """Runs share their batches: 7 tokens in 0.5 s and 7 in 3 s are 4 tokens a second."""
    texts = [generation(words(5), seconds=0.5), generation(words(5), run=2, seconds=3.0)]
    result = by_metric(measured(texts, compute=["speed"]))
    assert result["tokens_per_second"].value == 4.0
    assert result["tokens_per_second"].run_sd is None
    assert result["seconds_per_text"].value == 1.75


def test_the_parts_of_runs_are_their_mean_and_noise_is_not_divided():
    """As MAUVE's: the runs have the same references, so that their noise is not independent."""

    def outcome(value, noise):
        return Outcome(
            metric="mauve",
            value=value,
            n=10,
            signature=f"mauve|buckets:{value:g}|c:5",
            parts=np.array([[value - 1, 1], [value + 1, 1]]),
            noise=noise,
        )

    texts = [generation("a b", prompt, run=run) for prompt in ("p1", "p2") for run in (1, 2, 3)]
    [whole] = group_texts(texts)
    undefined = Outcome(metric="mauve", value=None, n=0, note="too few texts")
    joined = join_runs(whole.by_run(), [outcome(10.0, 4.0), undefined, outcome(20.0, 8.0)])
    assert (joined.value, joined.n, joined.noise) == (15.0, 20, 6.0)
    assert joined.run_values == (10.0, None, 20.0)
    assert joined.parts.tolist() == [[14.0, 1.0], [16.0, 1.0]]
    assert joined.signature == "mauve|buckets:10|c:5 / mauve|buckets:20|c:5"
    assert joined.note == "mean of 2 runs; standard deviation over seeds of a run's k-means 2.45"
    assert join_runs(whole.by_run(), [undefined] * 3) is undefined
