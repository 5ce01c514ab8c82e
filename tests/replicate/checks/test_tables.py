"""Checks of the tables on made-up tables, and by hand."""

from collections import Counter
from dataclasses import replace

import pytest

from guard_eval.replicate.checks.between_tables import repeated, shared
from guard_eval.replicate.checks.bold import against, from_human, grouped
from guard_eval.replicate.checks.prose import mean_ranks, nearest
from guard_eval.replicate.checks.settings_tried import friedman_values, parity, steps, windows
from guard_eval.replicate.checks.speed import slowest_mean_speed
from guard_eval.replicate.figures import published

MAIN = "tab:ablation_resultglacs"


def row(*values: tuple[str, str, str]):
    """Return figures made up from (strategy, value, mark)."""
    pattern = published(MAIN)[0]
    return [replace(pattern, strategy=name, value=value, mark=mark) for name, value, mark in values]


def test_a_bold_figure_that_is_not_the_best():
    good = row(("a", "1.0", ""), ("b", "2.0", "bold"))
    bad = row(("a", "3.0", ""), ("b", "2.0", "bold"))
    wrong, number = against([good, bad], lambda f: -f.number)
    assert number == 2
    assert wrong == ["Qwen2.5-7B, diversity, Wikitext: 2.0 (b), where 3.0 (a) should be"]


def test_equal_figures_have_to_be_bold_together():
    both = row(("a", "2.0", "bold"), ("b", "2.0", "bold"))
    one = row(("a", "2.0", "bold"), ("b", "2.0", ""))
    assert against([both], lambda f: -f.number)[0] == []
    assert len(against([one], lambda f: -f.number)[0]) == 1


def test_distance_from_people_by_hand():
    guard = next(f for f in published(MAIN) if f.strategy == "guard" and f.metric == "diversity")
    assert from_human(guard) == pytest.approx(93.84 - 92.86)


def test_who_is_nearest_by_hand():
    # Wikinews: people 93.50; ACS 92.79 is .71 away, temperature .79, GUARD 1.70.
    assert nearest()["diversity", "Wikinews"] == {"acs(q=1)"}
    # BookCorpus: people −2.99; CD and GUARD −2.53, Top-k −2.52.
    assert len(nearest()["coherence", "BookCorpus"]) == 2
    # GUARD: diversity 1, 4, 1 (behind ACS, temperature and Top-k), coherence 3.5 (with CD), 2, 1.5
    assert mean_ranks(("diversity",))["guard"] == pytest.approx(6 / 3)
    assert mean_ranks(("coherence",))["guard"] == pytest.approx(7 / 3)


def test_groups_keep_everything():
    every = published(MAIN)
    groups = grouped(every, lambda f: (f.dataset, f.metric))
    assert sum(len(group) for group in groups.values()) == len(every)


def test_what_two_tables_share():
    # The w = 7 row of Qwen's window table stands in the main table and beneath three tables of baselines.
    figures = shared()[("Qwen2.5-7B", "guard", "Wikitext"), "diversity"]
    assert Counter(f.table for f in figures).total() == 5
    assert {f.value for f in figures} == {"92.86"}


def test_rows_that_repeat():
    found = {(one, other) for one, other, _ in repeated(3)}
    copied = (("Llama-2", "guard(window=2)", "BookCorpus"), ("Llama-2", "guard", "BookCorpus"))
    assert copied in found
    assert len(found) == 4


def test_windows_and_their_zigzag():
    assert len(windows()) == 7 * 3 * 3
    assert all(sorted(values) == list(range(2, 10)) for values in windows().values())
    differ, rise = steps("diversity")
    # The four equal neighbours: GPT2-XL's w = 2, 3 three times, Qwen2.5's w = 5, 6 on Wikinews.
    assert differ == 7 * 3 * 7 - 4
    assert rise > 0.9 * differ
    assert 0.5 < parity("diversity") < 0.7


def test_friedman_by_hand():
    # Ranks of diversity 3 4 1 5 6 2, of MAUVE 2 4 1 3 5 6, of coherence reversed 4 5 2 1 6 3 (of the two that
    # are equal the later one lower): sums 9 13 4 9 17 11, squares 757; 12/(3·6·7) · 757 − 3·3·7 = 9.095
    assert 9**2 + 13**2 + 4**2 + 9**2 + 17**2 + 11**2 == 757
    assert any(value == pytest.approx(12 / 126 * 757 - 63, abs=1e-3) for value in friedman_values()[1, 1, -1])
    assert not any(9.05 < value < 9.15 for value in friedman_values()[1, 1, 1])


def test_a_mean_speed_is_at_least_this():
    # Two stories of 10 tokens in 1 s and 3 s: mean 2 s, speeds 10 and 3.33, mean 6.67 ≥ 10/2.
    assert slowest_mean_speed(10, 2, stories=2, limit=10) == 5 <= (10 + 10 / 3) / 2
    # Of 9.5 tokens on average no story is shorter than 9.
    assert slowest_mean_speed(9.5, 1, stories=2, limit=10) == 9
