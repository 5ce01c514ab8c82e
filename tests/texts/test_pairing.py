"""Pairs: drawn by seed, balanced by position, never moved."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import continuation, recipe

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.texts.pairing import draw_prompts, make_pairs

PROMPTS = [Prompt(id=f"{d}-{i}", dataset=d, text=f"{d} {i}") for d in ("news", "tales") for i in range(20)]


def continuations(strategy, prompts=PROMPTS):
    return [continuation(f"{strategy} on {p.id}", p, recipe(strategy=strategy)) for p in prompts]


MADE = {name: continuations(name) for name in ("guard", "acs(q=1)", "greedy")}


def test_the_draw_is_stratified_and_ignores_the_files_order():
    drawn = draw_prompts(PROMPTS, per_dataset=5, seed=1)
    assert Counter(p.dataset for p in drawn) == {"news": 5, "tales": 5}
    assert draw_prompts(PROMPTS[::-1], per_dataset=5, seed=1) == drawn
    assert draw_prompts(PROMPTS, per_dataset=5, seed=2) != drawn


@given(st.integers(1, 25), st.integers(1, 25), st.integers())
def test_a_larger_draw_contains_the_smaller(few, many, seed):
    few, many = sorted((few, many))
    smaller = {p.id for p in draw_prompts(PROMPTS, per_dataset=few, seed=seed)}
    assert smaller <= {p.id for p in draw_prompts(PROMPTS, per_dataset=many, seed=seed)}


def test_a_pair_joins_two_continuations_of_one_prompt():
    pairs = make_pairs(PROMPTS, MADE, [["guard", "acs(q=1)"]], seed=1)
    assert len(pairs) == 40
    for pair in pairs:
        assert pair.text_a == f"guard on {pair.prompt_id}"
        assert pair.text_b == f"acs(q=1) on {pair.prompt_id}"
    assert sorted(pair.position for pair in pairs) == list(range(40))


def test_parity_is_balanced_in_every_comparison_and_dataset():
    pairs = make_pairs(PROMPTS, MADE, [["guard", "acs(q=1)"], ["guard", "greedy"]], seed=1)
    counts = Counter((pair.method_b, pair.dataset, pair.position % 2) for pair in pairs)
    assert set(counts.values()) == {10}


def test_more_prompts_move_no_pair():
    first = make_pairs(draw_prompts(PROMPTS, per_dataset=7, seed=1), MADE, [["guard", "greedy"]], seed=1)
    more = make_pairs(
        draw_prompts(PROMPTS, per_dataset=9, seed=1), MADE, [["guard", "greedy"]], seed=1, existing=first
    )
    assert {pair.id: pair for pair in first}.items() <= {pair.id: pair for pair in more}.items()
    assert len({pair.position for pair in more}) == len(more) == 18


def test_a_text_that_changed_under_its_id_is_shown_to_the_store():
    first = make_pairs(PROMPTS[:2], MADE, [["guard", "greedy"]], seed=1)
    edited = [replace(c, text=c.text + "!") if c.prompt_id == PROMPTS[0].id else c for c in MADE["guard"]]
    again = make_pairs(
        PROMPTS[:2], MADE | {"guard": edited}, [["guard", "greedy"]], seed=1, existing=first[::-1]
    )
    changed = [pair for pair in again if pair not in first]
    assert [(pair.prompt_id, pair.text_a) for pair in changed] == [(PROMPTS[0].id, edited[0].text)]
    assert [(pair.id, pair.position) for pair in again] == [(pair.id, pair.position) for pair in first]


def test_a_missing_continuation_is_named():
    with pytest.raises(
        StudyError, match=r"greedy has no continuation for 1 of 40 drawn prompts .*run: guard-eval gen"
    ):
        make_pairs(PROMPTS, {**MADE, "greedy": MADE["greedy"][:-1]}, [["guard", "greedy"]], seed=1)


def test_pairs_of_other_settings_are_not_left_behind_silently():
    before = make_pairs(PROMPTS, MADE, [["guard", "greedy"]], seed=1)
    other = [replace(c, id=c.id[::-1]) for c in MADE["greedy"]]
    with pytest.raises(StudyError, match="holds 40 of 40 pairs that these settings no longer give"):
        make_pairs(PROMPTS, {**MADE, "greedy": other}, [["guard", "greedy"]], seed=1, existing=before)
