"""Small tables of verdicts, written as a letter each."""

import pandas as pd

from analysis.verdicts.tidy import orient, validate


def table(said, *, kind="person", a="x", b="y", criterion="coherence", dataset="d", first=None, raters=None):
    """Return an oriented table: pair → a letter per rater, `-` for a tie, a blank for no verdict.

    `first` says in the same way which method was shown first; `raters` names them.
    """
    rows = []
    for pair, letters in said.items():
        for number, letter in enumerate(letters):
            if letter == " ":
                continue
            row = {
                "pair_id": pair,
                "dataset": dataset,
                "method_a": a,
                "method_b": b,
                "rater": raters[number] if raters else f"r{number}",
                "rater_kind": kind,
                "criterion": criterion,
                "verdict": {"-": "tie", "x": a, "y": b}[letter],
            }
            if first is not None:
                row["shown_first"] = {"x": a, "y": b}[first[pair][number]]
            rows.append(row)
    return orient(validate(pd.DataFrame(rows)))
