"""Every analysis uses a key of the plan, refuses it, or does not depend on it: what it declares is true."""

from functools import cache

import pandas as pd
import pytest
from verdicts_by_hand import COMPARED, drawn_verdicts

import analysis
from analysis.evidence import (
    PLAN_KEYS,
    USED_PLAN_KEYS,
    CalibrationItem,
    Context,
    Evidence,
    Exclusion,
    JudgeUsage,
)
from analysis.sections.section import make_frame_from_rows
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError
from guard_eval.records import Contest, RoundPlan
from guard_eval.study.test_plan import TestPlan

CHANGED = {
    "alpha": 0.3,
    "correction": "bh",
    "weights": "precision",
    "margin": 0.1,
    "sequential": True,
    "raters": "random",
    "assisted_by": "gpt",
    "panel": "mean",
    "composite": {"c": 1.0, "d": 2.0},
}
NEEDED = {
    "run_equivalence_tests": {"margin": 0.45},
    "run_sequential_tests": {"sequential": True},
}
"""What an analysis must be told to have any rows."""
OTHER = {"margin": 0.3, "sequential": False}
REFUSED = {
    "run_equivalence_tests": ("sequential", "assisted_by"),
    "run_interaction_tests": ("weights",),
}
CONTEST = Contest(
    plan=RoundPlan(design="rounds", criterion="c", alpha=0.05, showings=1),
    sizes=(11,),
    couples=(("x", "y"), ("x", "z"), ("y", "z")),
    done=1,
    stopped={},
    prompts=[(1, {("x", "y"): score, ("x", "z"): 0, ("y", "z"): 0}) for score in [1] * 9 + [-1] * 2],
)
"""Nine of eleven prompts favour x: z = 7/√11, p = .035, and .1 for three couples."""
BY_NAME = {function.__name__: function for function in USED_PLAN_KEYS}


@cache
def verdicts(methods):
    """Return verdicts of people on half of the pairs and of two judges on all, on three criteria.

    The judge gpt judged no further pairs on the criterion e, so it cannot assist people there.
    """
    compared = COMPARED if methods == 3 else (("x", "y"),)
    drawn = [drawn_verdicts(22, seed=seed, compared=compared) for seed in (5, 6, 7)]
    # Two criteria are alike, so that corrections cannot give the same p-values.
    criteria = {"c": drawn[0], "d": drawn[1], "e": drawn[0]}
    frame = pd.concat([table.assign(criterion=name) for name, table in criteria.items()], ignore_index=True)
    # Ann prefers the first method, and nobody is without a preference.
    is_first = (frame["verdict"] == "tie") | (frame["rater"] == "ann")
    frame["verdict"] = frame["verdict"].mask(is_first, frame["method_a"])
    frame["genre"] = frame["pair_id"].str[2].isin(list("037")).map({True: "poem", False: "tale"})
    is_rated = frame["pair_id"].str[:3].astype(int) % 4 < 2
    judge = frame[(frame["rater"] == "gpt") & (is_rated | (frame["criterion"] != "e"))]
    people = frame[(frame["rater"] != "gpt") & is_rated]
    people = people[(people["rater"] != "cay") | (people["pair_id"].str[2] != "4")]
    second = drawn[2][drawn[2]["rater"] == "gpt"].assign(rater="qwen", genre="tale")
    return check_verdicts(pd.concat([people, judge, second]))


def outcome(name, **declared):
    """Return the table of an analysis, or how it refuses."""
    frame = verdicts(3 if name == "rank_methods" else 2)
    checked = CalibrationItem(judge="gpt", check="identical", criterion="c", orders=1, answers=("tie",))
    excluded = Exclusion(rater="a", rater_kind="person", reason="r", at="", results="after", verdicts=1)
    context = Context(
        name="n",
        judging=JudgeUsage(checked=(checked,) * 9),
        exclusions=(excluded,),
        with_excluded=frame,
        plan=TestPlan.model_construct(**(NEEDED.get(name, {}) | declared)),  # also what no plan can hold
        random_part=True,
        explored=("genre",),
        contests={("person", ""): CONTEST} if name == "summarise_rounds" else {},
    )
    try:
        return make_frame_from_rows(BY_NAME[name](Evidence.from_verdicts(frame, context))).to_csv()
    except StudyError as error:
        return str(error)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_analysis_depends_only_on_declared_plan_keys(name):
    before = outcome(name)
    for key in PLAN_KEYS:
        changed = outcome(name, **{key: CHANGED[key] if key not in NEEDED.get(name, {}) else OTHER[key]})
        is_refused = changed.startswith(f"{key} = ")
        assert is_refused == (key in REFUSED.get(name, ())), key
        assert (changed != before) == (is_refused or key in USED_PLAN_KEYS[BY_NAME[name]]), key


def test_ranks_for_random_raters_need_four_raters(tmp_path):
    ranked = analysis.ranking(verdicts(3), raters="random")
    ranked = ranked[ranked["judge"] == ""]
    assert ranked["possible_best"].isna().all()
    assert "a result for other raters needs at least 4 raters" in ranked["note"][0]


def test_ranking_concludes_nothing_with_sequential_tests(tmp_path):
    row = analysis.ranking(verdicts(3), sequential=True).iloc[0]
    assert row["possible_best"] is row["share_low"] is row["p_any_difference"] is None
    assert "if results are viewed early" in row["note"]
    summary = analysis.report(verdicts(3), tmp_path, sequential=True).summary
    assert "is first of 3 methods, and no rank is sure" in summary
