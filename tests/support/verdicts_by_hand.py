"""Small tables of verdicts: given as letters, drawn at random, or with the paper's counts."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.evidence import PLAN_KEYS, Context, Evidence
from analysis.sections.section import make_frame_from_rows
from analysis.verdicts.checks import check_verdicts, unify_method_order
from guard_eval.study.test_plan import TestPlan


def table(
    verdicts, *, kind="person", a="x", b="y", criterion="coherence", dataset="d", first=None, raters=None
):
    """Return an oriented table from a letter per pair and rater: `-` is a tie, a blank is no verdict.

    `first` has a letter per pair and rater for the method that was shown first. `raters` has the names.
    """
    rows = []
    for pair, letters in verdicts.items():
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
    return unify_method_order(check_verdicts(pd.DataFrame(rows)))


def listed(names, rows, **columns):
    """Return a validated table of `rows` with the columns `names`. Other columns have a constant value."""
    headings = names.split()
    others = {"dataset": "d", "method_a": "x", "method_b": "y", "criterion": "c", "rater": "r"}
    others |= {"rater_kind": "person"} | columns
    others = {name: value for name, value in others.items() if name not in headings}
    return check_verdicts(pd.DataFrame(rows, columns=headings).assign(**others))


def joined(*tables):
    """Return several tables as one validated table."""
    return check_verdicts(pd.concat([frame.astype(object) for frame in tables], ignore_index=True))


COMPARED = (("x", "y"), ("x", "z"), ("y", "z"))


def drawn_verdicts(prompts=40, copies=1, seed=3, datasets=2, compared=(("x", "y"),)):
    """Return verdicts of three people and a judge on `copies` pairs per prompt, the same on all copies."""
    rng = np.random.default_rng(seed)
    rows = []
    for prompt, (a, b) in product(range(prompts), compared):
        lean, lengths = rng.normal(0.3), rng.integers(50, 99, size=2)
        for rater in ("ann", "bea", "cay", "gpt"):
            drawn = (b, "tie", a)[int(np.clip(np.round(lean + rng.normal()), -1, 1)) + 1]
            first = (a, b)[int(rng.integers(2))]
            rows += [
                {"pair_id": f"{prompt:03}-{a}{b}-{copy}", "dataset": f"d{prompt % datasets}"}
                | {"prompt_id": f"p{prompt}", "method_a": a, "method_b": b, "rater": rater, "criterion": "c"}
                | {"verdict": drawn, "rater_kind": "model" if rater == "gpt" else "person"}
                | {"shown_first": first, "length_a": float(lengths[0]), "length_b": float(lengths[1])}
                for copy in range(copies)
            ]
    return pd.DataFrame(rows)


def evidence(frame, **declared):
    """Return the evidence of a validated table, with keys of the plan and other facts about the study."""
    plan = {key: declared.pop(key) for key in PLAN_KEYS if key in declared}
    return Evidence.from_verdicts(frame, Context(name="n", plan=TestPlan(**plan), **declared))


def as_table(analyse):
    """Wrap an analysis as a function from evidence to the table of the analysis' CSV file."""

    def analyse_as_table(verdicts):
        return make_frame_from_rows(analyse(verdicts))

    return analyse_as_table


def papers_people():
    """Return ratings of people with the paper's counts. The paper does not publish single ratings."""
    rows = []
    counts = Path(__file__).parents[1] / "golden" / "guard_human_counts_from_paper.csv"
    for line in pd.read_csv(counts).itertuples():
        name = line.dataset
        words = ["GUARD"] * line.guard_wins + ["tie"] * line.ties + ["ACS"] * line.acs_wins
        rows += [
            {"pair_id": f"{name}-{i % 50}", "dataset": name}
            | {"method_a": "GUARD", "method_b": "ACS", "rater": f"person-{i // 50}"}
            | {"rater_kind": "person", "criterion": line.criterion, "verdict": verdict}
            for i, verdict in enumerate(words)
        ]
    return pd.DataFrame(rows)
