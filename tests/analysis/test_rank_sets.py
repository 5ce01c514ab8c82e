"""Rank sets: by hand, and how often they hold all true ranks where those are known."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.reports.build import write_report
from analysis.reports.context import Context
from analysis.results.judges.assisted import assisted_ranks
from analysis.stats.ranks.rank_sets import rank_sets
from analysis.verdicts.tidy import validate

METHODS = ("a", "b", "c", "d")


def test_methods_that_differ_surely_have_one_rank_and_the_others_share_theirs():
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((50, 3))
    noise -= noise.mean(axis=0)
    influence = noise / 50
    error = np.sqrt(((influence[:, 0] - influence[:, 1]) ** 2).sum())
    line = stats.t.isf(0.05 / 6, 49)
    near, far = 0.9 * line * error, 40 * line * error
    assert rank_sets([far, near, 0.0], influence, freedom=49) == ((1, 1), (2, 3), (2, 3))
    apart = 1.1 * line * np.sqrt(((influence[:, 1] - influence[:, 2]) ** 2).sum())
    assert rank_sets([far, apart, 0.0], influence, freedom=49) == ((1, 1), (2, 2), (3, 3))
    assert rank_sets([far, apart, 0.0], influence, freedom=49, inflation=2) == ((1, 1), (2, 3), (2, 3))


def study(quality, *, prompts=120, rated=50, seed=0):
    """A judge compares every method with each on every prompt, two people on a part of the prompts."""
    rng = np.random.default_rng(seed)
    rows = []
    own = 0.8 * rng.standard_normal((prompts, len(quality))) + np.asarray(quality)
    part = set(rng.permutation(prompts)[:rated].tolist())
    for prompt in range(prompts):
        for i, j in combinations(range(len(quality)), 2):
            gap = own[prompt, i] - own[prompt, j]
            people = [("person 1", "person"), ("person 2", "person")] if prompt in part else []
            for rater, kind in [*people, ("gpt", "model")]:
                felt = gap + rng.standard_normal()
                verdict = METHODS[i] if felt > 0.4 else METHODS[j] if felt < -0.4 else "tie"
                rows.append((f"p{prompt}-{i}{j}", f"p{prompt}", METHODS[i], METHODS[j], rater, kind, verdict))
    names = ["pair_id", "prompt_id", "method_a", "method_b", "rater", "rater_kind", "verdict"]
    return validate(pd.DataFrame(rows, columns=names).assign(dataset="d", criterion="fluency"))


def test_ranks_of_a_study_are_the_same_whatever_the_order_of_rows():
    frame = study((1.5, 0.0, 0.0, -1.5))
    rows = assisted_ranks(frame)
    assert [(row.low, row.high) for row in rows] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert (rows[0].method, rows[-1].method) == ("a", "d")
    assert sum(row.share for row in rows) == pytest.approx(2)
    again = assisted_ranks(frame.sample(frac=1, random_state=1).reset_index(drop=True))
    assert [(row.method, row.low, row.high) for row in again] == [
        (row.method, row.low, row.high) for row in rows
    ]


@pytest.mark.slow
def test_the_report_has_them_and_a_missing_comparison_leaves_them_out(tmp_path):
    frame = study((1.5, 0.0, -1.5))
    write_report(frame, tmp_path, Context(name="s", random_part=True))
    assert "Ranks by people, assisted by a judge" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "csv" / "assisted_ranks.csv").read_text(encoding="utf-8").count("\n") == 4
    missing = frame[(frame["method_a"] != "a") | (frame["method_b"] != "c")]
    assert assisted_ranks(missing) == ()


@pytest.mark.slow
@pytest.mark.parametrize("quality", [(0.0, 0.0, 0.0, 0.0), (0.3, 0.3, 0.0, -0.2)])
def test_all_sets_hold_at_once(quality):
    true = [(1 + sum(q > own for q in quality), sum(q >= own for q in quality)) for own in quality]
    held, studies = 0, 200
    for seed in range(studies):
        found = {
            row.method: row
            for row in assisted_ranks(study(quality, prompts=80, rated=40, seed=seed), random=True)
        }
        held += all(
            found[name].low <= low and high <= found[name].high
            for name, (low, high) in zip(METHODS, true, strict=True)
        )
    assert held / studies > 0.95 - 2 * (0.05 * 0.95 / studies) ** 0.5
