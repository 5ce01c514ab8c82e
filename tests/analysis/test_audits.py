"""Each audit finds what was put into a table on purpose, with figures worked out by hand, and no more."""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.verdicts.encoding import coded
from analysis.verdicts.tidy import validate

GPT4 = Path(__file__).parents[2].parent / "shared" / "data" / "judgments" / "guard_llm_gpt4.csv"


def row(pair, rater="anna", criterion="coherence", verdict="x", **more):
    given = {"pair_id": str(pair), "dataset": "d", "method_a": "x", "method_b": "y", "rater": rater}
    return given | {"criterion": criterion, "verdict": verdict} | more


def table(rows):
    return validate(pd.DataFrame(rows), rater_kind=None if "rater_kind" in rows[0] else "person")


def found(search, frame, **limits):
    return tuple(search(coded(frame), **limits))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def mixed(pairs=24, raters=("anna", "ben"), criteria=("coherence", "fluency")):
    """A table with nothing to tell of: every rater and criterion varies, both sides come first equally."""
    answers = ("x", "y", "tie")
    rows = []
    for pair in range(pairs):
        for r, rater in enumerate(raters):
            for c, criterion in enumerate(criteria):
                verdict = answers[(pair + r + pair // 3 * c) % 3]
                rows.append(row(pair, rater, criterion, verdict, shown_first=("x", "y")[pair // 3 % 2]))
    return rows


def sides(shown):
    """A table of one criterion from the side of each showing, [pairs, raters]: 1 where x came first."""
    return pd.DataFrame(
        row(pair, str(rater), rater_kind="person", shown_first="x" if side > 0 else "y")
        for pair, of_pair in enumerate(shown)
        for rater, side in enumerate(of_pair)
    )


def by_whole_pair(rng, pairs, raters):
    return np.repeat(rng.choice([-1, 1], (pairs, 1)), raters, axis=1)


def by_showing(rng, pairs, raters):
    return rng.choice([-1, 1], (pairs, raters))


def by_balanced_slots(rng, pairs, raters):
    """Each pair has both sides equally often, or within one where the number of raters is odd."""
    slots = np.resize([1, -1], raters) * rng.choice([-1, 1], (pairs, 1))
    return rng.permuted(slots, axis=1)
