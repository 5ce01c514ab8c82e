"""Simulated raters: blind, marked, the same every time, and on nobody's side."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from guard_eval.demo.raters import JUDGE, NAMES, judge_all_pairs, rate_all_pairs, simulate_choice
from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, HandOutPlan
from guard_eval.store import Store, raters, unblind
from guard_eval.store import pairs as store_pairs

MIRROR = {"A": "B", "B": "A", "tie": "tie"}


def blind(a, b):
    return BlindPair(presentation=1, prompt="Once", text_a=a, text_b=b)


TEXTS = [" ".join(f"w{i % n}" for i in range(60)) for n in (2, 5, 10, 20, 40, 60)]


def test_simulated_choice_follows_texts_not_sides():
    for a, b, name in itertools.product(TEXTS, TEXTS, NAMES[:2]):
        choice = simulate_choice(blind(a, b), "fluency", rater_name=name, seed=1)
        assert simulate_choice(blind(b, a), "fluency", rater_name=name, seed=1) == MIRROR[choice]
        assert a != b or choice == "tie"


def test_simulated_raters_agree_and_dislike_repetition():
    loop, fresh = TEXTS[0], TEXTS[-1]
    choices = [
        simulate_choice(blind(loop, fresh), "coherence", rater_name=NAMES[0], seed=seed) for seed in range(50)
    ]
    assert choices.count("B") > 45
    pairs = [blind(f"{a} {i}", b) for i in range(20) for a in TEXTS[3:] for b in TEXTS[3:]]
    first, second = (
        [simulate_choice(pair, "coherence", rater_name=name, seed=1) for pair in pairs] for name in NAMES[:2]
    )
    assert 0.45 < sum(map(str.__eq__, first, second)) / 180 < 0.95


def test_simulated_raters_rate_everything_once(tmp_path, make_pairs):
    pairs = [replace(pair, for_people=index < 4) for index, pair in enumerate(make_pairs(6))]
    with Store.open(f"sqlite:///{tmp_path / 's.db'}", create=True) as store:
        store_pairs.add_pairs(store, pairs)
        plan = HandOutPlan(seed=1, slots=4, lease=timedelta(minutes=1))
        assert [rate_all_pairs(store, plan, ["coherence"]) for _ in range(2)] == [16, 0]
        assert [judge_all_pairs(store, plan, ["coherence"]) for _ in range(2)] == [12, 0]
        rows = unblind.read_tidy_rows(store)
        with pytest.raises(StudyError, match="is a simulated_model, not a model"):
            raters.get_or_add_rater(store, JUDGE, "model")
    kinds = {(row.rater, row.rater_kind) for row in rows}
    assert kinds == {(name, "simulated") for name in NAMES} | {(JUDGE, "simulated_model")}
    assert all("SIMULATED" in name for name, _ in kinds)
    sides = {(row.pair_id, row.shown_first) for row in rows if row.rater == JUDGE}
    assert sides == {(pair.id, method) for pair in pairs for method in (pair.method_a, pair.method_b)}
