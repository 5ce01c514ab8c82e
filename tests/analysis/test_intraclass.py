"""Intraclass correlations against Shrout and Fleiss, statsmodels' mixed model, and their definitions."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from verdicts_by_hand import listed

from analysis.reports.sections.agreement import section
from analysis.results.agreement import agreement_rows
from analysis.stats.intraclass import intraclass
from guard_eval.reporting.tables import Table

# Shrout and Fleiss (1979), table 2: six targets, four judges.
SHROUT_FLEISS = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
)


def long(table):
    """Return item, rater and score of a table [items, raters]; NaN is missing."""
    item, rater = np.divmod(np.arange(table.size), table.shape[1])
    scores = np.asarray(table, dtype=float).ravel()
    kept = np.isfinite(scores)
    return item[kept], rater[kept], scores[kept]


def test_shrout_and_fleiss():
    found = intraclass(*long(SHROUT_FLEISS))
    # As printed in their table 4: .17, .29, .71.
    assert [round(value, 2) for value in (found.one_way, found.agreement, found.consistency)] == [
        0.17,
        0.29,
        0.71,
    ]
    assert found.kish == pytest.approx(1 + 3 * found.one_way)
    # The variance of six targets' means over six, against that of 24 scores over 24.
    means, every = SHROUT_FLEISS.mean(axis=1), SHROUT_FLEISS.ravel()
    assert found.design_effect == pytest.approx(means.var(ddof=1) / 6 / (every.var(ddof=1) / 24))
    assert found.worth == pytest.approx(24 / found.design_effect)


@given(st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=3, max_size=9))
def test_one_way_is_its_definition(rows):
    table = np.array(rows, dtype=float)
    found = intraclass(*long(table))
    if np.ptp(table) == 0:
        assert found.reason == "all scores are the same"
        return
    between, within = 3 * table.mean(axis=1).var(ddof=1), table.var(axis=1, ddof=1).mean()
    assert found.one_way == pytest.approx((between - within) / (between + 2 * within))


@settings(deadline=None)
@given(st.data())
def test_the_jackknife_leaves_each_prompt_out(data):
    shape = (data.draw(st.integers(4, 8)), 3)
    table = np.array(data.draw(st.lists(st.sampled_from([-1, 0, 1, np.nan]), min_size=24, max_size=24)))
    table = table[: shape[0] * 3].reshape(shape)
    item, rater, scores = long(table)
    prompt = item // 2
    found = intraclass(item, rater, scores, clusters=prompt)
    if found.low is None:
        return
    values = []
    for one in np.unique(prompt):
        kept = prompt != one
        values.append(intraclass(item[kept], rater[kept], scores[kept]).one_way)
    if None in values:
        return
    n = len(values)
    error = np.sqrt((n - 1) ** 2 / n * np.var(values, ddof=1))
    half = stats.t.ppf(0.975, n - 1) * error
    assert (found.low, found.high) == pytest.approx(
        (max(-1, found.one_way - half), min(1, found.one_way + half))
    )


@pytest.mark.slow
def test_the_two_way_ones_are_those_of_a_mixed_model():
    rng = np.random.default_rng(5)
    table = rng.normal(size=(25, 1)) + rng.normal(size=(1, 6)) * 0.7 + rng.normal(size=(25, 6))
    item, rater, scores = long(table)
    frame = pd.DataFrame({"y": scores, "item": item, "rater": rater, "one": 1})
    parts = {"item": "0+C(item)", "rater": "0+C(rater)"}
    fit = smf.mixedlm("y ~ 1", frame, groups="one", vc_formula=parts, re_formula="0").fit(reml=True)
    of_item, of_rater = fit.vcomp
    found = intraclass(item, rater, scores)
    assert found.agreement == pytest.approx(of_item / (of_item + of_rater + fit.scale), rel=1e-3)
    assert found.consistency == pytest.approx(of_item / (of_item + fit.scale), rel=1e-3)


def test_what_is_undefined():
    once = intraclass(np.arange(4), np.zeros(4, dtype=int), [1, 0, -1, 1])
    assert (once.one_way, once.reason, once.design_effect) == (None, "no item was rated twice", 1.0)
    assert intraclass([0, 0], [0, 1], [1, 0]).reason == "there are fewer than two items"
    assert intraclass([], [], []).reason == "there are fewer than two items"
    # Raters of different items: nothing tells them from the items.
    apart = intraclass([0, 0, 1, 1], [0, 1, 2, 3], [1, 0, 0, -1])
    assert apart.one_way is not None
    assert (apart.agreement, apart.consistency) == (None, None)
    # Complete agreement has no interval.
    same = intraclass([0, 0, 1, 1], [0, 1, 0, 1], [1, 1, -1, -1])
    assert (same.one_way, same.low, same.kish) == (1.0, None, 2.0)


def test_in_the_report():
    verdicts = [
        (str(p), r, v)
        for p, row in enumerate(["xxt", "yty", "xxx", "tyy"])
        for r, v in zip("abc", row, strict=True)
    ]
    verdicts = [(p, r, {"t": "tie"}.get(v, v)) for p, r, v in verdicts]
    rows = agreement_rows(listed("pair_id rater verdict", verdicts))
    scores = np.array([[1, 1, 0], [-1, 0, -1], [1, 1, 1], [0, -1, -1]])
    assert rows[0].intraclass == intraclass(*long(scores))
    (shown,) = [
        part
        for part in section(rows, name_methods=False).parts
        if isinstance(part, Table) and "worth" in part.caption
    ]
    assert f"{rows[0].intraclass.one_way:.2f}" in shown.rows[0][4]
    assert [row[0] for row in section(rows, name_methods=False).exports["agreement"].rows] == [False]
