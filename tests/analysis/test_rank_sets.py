"""Rank sets: by hand, and how often they hold all true ranks where those are known."""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

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
