"""Rankings from a table of verdicts: exact fits by hand, what is resampled, and what is undefined."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from verdicts_by_hand import table

from analysis.reports.sections.ranking import section
from analysis.results import ranking
from analysis.results.ranking import ranking_rows

# Strengths log 4, 0, −log 4 and ν = 1 give these odds of win, tie and loss exactly: 4 2 1, and 16 4 1.
EXACT = {("a", "b"): (8, 4, 2), ("b", "c"): (8, 4, 2), ("a", "c"): (32, 8, 2)}


def verdicts(counts, *, raters=1, **more):
    """Return wins, ties and losses of each two methods as pairs that `raters` all judge the same."""
    frames = []
    for (a, b), (wins, ties, losses) in counts.items():
        letters = "x" * wins + "-" * ties + "y" * losses
        by_pair = {f"{a}{b}{i:03}": letter * raters for i, letter in enumerate(letters)}
        frames.append(table(by_pair, a=a, b=b, **more))
    return pd.concat(frames, ignore_index=True)


def test_an_exact_fit_by_hand():
    (row,) = ranking_rows(verdicts(EXACT), replicates=50)
    assert row.ranking.estimate.methods == ("a", "b", "c")
    assert row.ranking.estimate.strengths == pytest.approx((np.log(4), 0, -np.log(4)), abs=1e-9)
    assert row.ranking.estimate.log_nu == pytest.approx(0, abs=1e-9)
    assert row.tied == pytest.approx(1 / 3)
    assert [rank.estimate for rank in row.ranking.ranks] == [1, 2, 3]
    # Against the average other: a wins (4 + 1)/7 of b and (16 + 2)/21 of c, ties split.
    assert row.ranking.shares[0].estimate == pytest.approx((5 / 7 + 18 / 21) / 2)
    assert (row.ranking.n, row.ranking.estimate.n, row.unit) == (70, 70, "pairs")
    assert row.half_wins[0] < np.log(4)


def test_the_way_round_of_a_comparison_does_not_matter():
    turned = {("b", "a"): (2, 4, 8), ("b", "c"): (8, 4, 2), ("c", "a"): (2, 8, 32)}
    (row,) = ranking_rows(verdicts(turned), replicates=50)
    assert row.ranking.estimate.strengths == pytest.approx((np.log(4), 0, -np.log(4)), abs=1e-9)


def test_two_methods_are_not_ranked():
    rows = ranking_rows(verdicts({("a", "b"): (8, 4, 2)}))
    assert rows == ()
    assert section(rows) is None


def test_raters_of_one_mind_make_no_interval_narrower():
    one = ranking_rows(verdicts(EXACT), replicates=300)[0].ranking
    five = ranking_rows(verdicts(EXACT, raters=5), replicates=300)[0].ranking
    assert five.estimate.n == 5 * one.estimate.n
    assert five.n == one.n
    for ours, theirs in zip(one.strengths, five.strengths, strict=True):
        assert (theirs.low, theirs.high) == pytest.approx((ours.low, ours.high), abs=1e-6)


def test_a_judge_in_both_orders_counts_once_and_a_flip_is_a_tie():
    frame = verdicts(EXACT, kind="model")
    first = frame.assign(presentation="1", shown_first=frame["method_a"])
    second = first.assign(presentation="2", shown_first=frame["method_b"])
    (row,) = ranking_rows(pd.concat([first, second], ignore_index=True), replicates=50)
    assert row.ranking.estimate.n == 70
    # Every verdict for the text shown first: all flip, all are ties, and nothing can be ranked.
    flipping = pd.concat(
        [one.assign(verdict=one["shown_first"]) for one in (first, second)], ignore_index=True
    )
    (row,) = ranking_rows(flipping, replicates=50)
    assert row.ranking.estimate.strengths is None
    assert "wins than ties" in row.ranking.estimate.reason


def test_groups_that_never_meet_are_ranked_apart():
    apart = {("d", "e"): (3, 3, 3), **EXACT}
    (row,) = ranking_rows(verdicts(apart), replicates=50)
    assert row.ranking.estimate.methods == ("a", "b", "c")
    assert row.ranking.estimate.strengths == pytest.approx((np.log(4), 0, -np.log(4)), abs=1e-9)
    assert "never compared with d and e, which stand apart" in row.warnings
    both = {**{(a.upper(), b.upper()): counts for (a, b), counts in EXACT.items()}, **EXACT}
    assert [row.ranking.estimate.methods[0] for row in ranking_rows(verdicts(both), replicates=20)] == [
        "A",
        "a",
    ]


def test_pairs_of_a_prompt_are_drawn_together():
    frame = verdicts(EXACT)
    prompts = frame.assign(prompt_id=[f"p{int(name[2:]) % 7}" for name in frame["pair_id"]])
    (row,) = ranking_rows(prompts, replicates=50)
    assert (row.ranking.n, row.unit) == (7, "prompts")
    # A pair without a prompt is an item of its own, whatever it is called.
    prompts.loc[prompts["pair_id"] == "ab000", "prompt_id"] = None
    (row,) = ranking_rows(prompts.replace("ab000", "p1"), replicates=50)
    assert row.ranking.n == 8


def test_items_are_drawn_within_their_dataset():
    frame = verdicts(EXACT)
    (row,) = ranking_rows(frame.assign(dataset=frame["pair_id"]), replicates=50)
    assert "70 strata of one item cannot vary when resampled" in row.warnings
    strength = row.ranking.strengths[0]
    assert (strength.low, strength.high) == pytest.approx((np.log(4), np.log(4)))


def test_a_winner_without_a_loss_is_named_and_nothing_drawn():
    (row,) = ranking_rows(verdicts({("a", "b"): (5, 0, 0), ("a", "c"): (5, 0, 0), ("b", "c"): (3, 1, 3)}))
    assert row.ranking.estimate.strengths is None
    assert row.half_wins is None
    found = section([row])
    assert (
        "strengths are undefined: without a loss or tie against the other methods: a" in found.parts[0].note
    )
    assert found.drawings == ()
    assert [cells[0] for cells in found.parts[0].rows] == ["a", "b", "c"]
    assert [cells[5] for cells in found.parts[0].rows] == ["–"] * 3  # no strength
    assert "half a win was given to either side" in found.parts[0].note


def test_too_large_a_table_has_strengths_without_intervals(monkeypatch):
    monkeypatch.setattr(ranking, "MOST_CELLS", 629)  # 70 pairs × 3 × 3 are 630
    (row,) = ranking_rows(verdicts(EXACT))
    assert row.ranking.estimate.strengths == pytest.approx((np.log(4), 0, -np.log(4)), abs=1e-9)
    assert row.ranking.strengths[0].low is None
    assert row.warnings == ("no intervals: 70 pairs are too many to resample",)
    assert row.ranking.n == 70


def test_the_section_shows_the_strongest_first_and_exports_all():
    # The strongest comes last in the alphabet, and its name is nobody's markup.
    names = {"a": "z<b>", "b": "m", "c": "a"}
    named = {(names[a], names[b]): counts for (a, b), counts in EXACT.items()}
    rows = ranking_rows(verdicts(named, kind="simulated"), replicates=100, seed=3)
    found = section(rows)
    figure, shown = found.parts
    assert [cells[0] for cells in shown.rows] == ["z<b>", "m", "a"]
    assert [cells[1] for cells in shown.rows] == [1, 2, 3]
    assert [cells[2] for cells in shown.rows] == ["1", "2", "3"]
    assert "methods of equal strength tie in 33\u00a0%" in shown.note
    assert figure.description.startswith("z<b>: rank 1, possible 1")
    assert "<b>" not in figure.svg
    assert "SIMULATED" in figure.svg
    export = found.exports["ranking"]
    cell = dict(zip(export.columns, export.rows[0], strict=True))
    assert cell["simulated"] is True
    assert cell["strength"] == rows[0].ranking.estimate.strengths[2]
    assert cell["rank_best"] == 1
    assert "seed 3" in cell["interval"]
    assert rows == ranking_rows(verdicts(named, kind="simulated"), replicates=100, seed=3)


def test_every_two_of_five_methods():
    methods = ("guard", "acs", "nucleus", "greedy", "beam")
    counts = dict.fromkeys(combinations(methods, 2), (6, 3, 3))
    (row,) = ranking_rows(verdicts(counts), replicates=50)
    assert [row.ranking.estimate.methods[place] for place in row.order] == list(methods)
