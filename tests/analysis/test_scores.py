"""Scores and items against pandas' own grouping, and text columns as numbers."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.scores.scores import (
    CELL,
    ITEM,
    ScoredVerdicts,
    add_judge_column,
    find_item_numbers,
    score_items,
    score_raters,
)
from analysis.verdicts.checks import check_verdicts, unify_method_order
from analysis.verdicts.table import convert_to_texts, unify_categories

VERDICTS = st.tuples(
    st.sampled_from(["p1", "p2", "é", "10", "9"]),
    st.sampled_from([("x", "y"), ("y", "x"), ("x", "z")]),
    st.sampled_from(["ann", "bob", "cy"]),
    st.sampled_from(["fluency", "coherence"]),
    st.integers(0, 2),
    st.sampled_from(["1", "2"]),
)


def table(drawn):
    rows = [
        {"pair_id": pair, "dataset": f"of {pair}", "method_a": a, "method_b": b, "rater": rater}
        | {"rater_kind": "model" if rater == "cy" else "person"}
        | {"criterion": criterion, "verdict": (a, "tie", b)[choice], "presentation": showing}
        for pair, (a, b), rater, criterion, choice, showing in drawn
    ]
    frame = pd.DataFrame(rows)
    key = [frame[["method_a", "method_b"]].min(axis=1), frame[["method_a", "method_b"]].max(axis=1)]
    twice = frame.assign(low=key[0], high=key[1]).duplicated(
        ["pair_id", "rater", "criterion", "presentation", "low", "high"]
    )
    return add_judge_column(unify_method_order(check_verdicts(frame[~twice])))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(VERDICTS, min_size=1, max_size=30), st.integers(0, 9))
def test_scores_and_items_agree_with_pandas(drawn, seed):
    frame = table(drawn)
    sign = (frame["verdict"] == frame["method_a"]).astype(int) - (frame["verdict"] == frame["method_b"])
    expected = frame.assign(net=sign).groupby([*ITEM, "rater"], sort=True)["net"]
    expected = expected.agg(net="sum", showings="count").reset_index()
    scores = score_raters(frame)
    expected["verdicts"] = expected["showings"]
    pd.testing.assert_frame_equal(scores.drop(columns=["unit", "item"]), expected, check_dtype=False)

    means = expected.assign(share=(1 + expected["net"] / expected["showings"]) / 2)
    by_item = means.groupby(ITEM, sort=True)["share"].agg(share="mean", raters="count").reset_index()
    for rows in (scores, scores.sample(frac=1, random_state=seed), scores.iloc[::-1]):
        items = score_items(rows)
        pd.testing.assert_frame_equal(items[by_item.columns], by_item, check_dtype=False)
        number, first = find_item_numbers(rows)
        assert list(number) == list(rows.groupby(ITEM, sort=True).ngroup())
        assert list(number[first]) == list(range(len(first)))


def test_empty_scores_have_no_items():
    scores = score_raters(table([("p1", ("x", "y"), "ann", "fluency", 1, "1")]))[:0]
    assert score_items(scores).empty
    assert set(CELL) < set(score_items(scores).columns)


def test_comparisons_have_the_planned_order_of_methods():
    frame = table(
        [("p1", ("x", "y"), "ann", "fluency", 0, "1"), ("p2", ("x", "y"), "ann", "fluency", 1, "1")]
    )
    scored, turned = (
        ScoredVerdicts.from_verdicts(frame, planned) for planned in (None, (("y", "x", "fluency"),))
    )
    assert turned.scores["method_a"].tolist() == ["y", "y"]
    assert turned.scores["net"].tolist() == [-net for net in scored.scores["net"]]


def test_text_columns_are_categorical():
    texts = convert_to_texts(pd.Series(["b", None, " ", "a", "b", ""]))
    assert (texts.codes.tolist(), list(texts.categories)) == ([1, -1, -1, 0, 1, -1], ["a", "b"])
    both = unify_categories(
        pd.DataFrame({"one": texts[:2], "other": convert_to_texts(pd.Series(["c", "a"]))}), ["one", "other"]
    )
    assert both["one"].cat.codes.tolist() == [1, -1]
    assert both["other"].cat.codes.tolist() == [2, 0]
