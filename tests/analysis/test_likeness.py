"""Signs that a model answered for a person: by hand, in simulated studies, and where an owner sees them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from verdicts_by_hand import evidence

from analysis.scores.likeness import compare_raters_with_judge, describe_signs_of_llm_use
from analysis.sections.raters import likeness as section
from analysis.sections.raters.audits import run_data_audits
from analysis.sections.raters.likeness import measure_likeness_to_judges
from analysis.sections.results.shares import measure_total_shares
from analysis.verdicts.checks import check_verdicts

PEOPLE = ("ann", "ben", "cas", "dan")


def test_agreement_with_a_judge_follows_hand_arithmetic():
    """Ann says what the judge says on all four items; of the others 2, 0, 1 and 1 of two do."""
    labels = {"ann": (2, 2, 0, 1), "ben": (2, 0, 0, 0), "cas": (2, 0, 2, 1)}
    items = list(range(4)) * 3
    people = np.repeat([0, 1, 2], 4)
    figures = compare_raters_with_judge(
        items, people, [*labels["ann"], *labels["ben"], *labels["cas"]], (2, 2, 0, 1)
    )
    assert figures[:, :2].tolist() == [[4, 4], [4, 2], [4, 2]]
    assert figures[0, 2:] == pytest.approx([(2 + 0 + 1 + 1) / 8, 0.5**4])


def test_agreement_with_a_judge_uses_only_shared_items():
    figures = compare_raters_with_judge([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], [2, 2, 2, 2, 2], [2, -1, 2])
    assert figures[:, 0].tolist() == [1, 1]


@pytest.mark.parametrize("others", [0.55, 0.6])
def test_raters_who_copy_a_judge_are_flagged(others):
    """On 100 pairs a copier agrees with the judge on 80 %, and three others independently on fewer."""
    rng = np.random.default_rng(3)
    studies = 300
    judged = np.full(100, 2)
    items = np.tile(np.arange(100), 4)
    flagged = 0
    for _ in range(studies):
        same = rng.random((4, 100)) < np.array([[0.8], [others], [others], [others]])
        labels = np.where(same, 2, rng.integers(0, 2, (4, 100))).ravel()
        p = compare_raters_with_judge(items, np.repeat(range(4), 100), labels, judged)[:, 3]
        flagged += p[0] <= 0.001
    # A known rate of others would give 99 and 87 %: the chance of more than the limit for α = .001.
    expected = stats.binom.sf(stats.binom.isf(0.001, 100, others), 100, 0.8)
    assert expected - 0.04 < flagged / studies <= expected


def verdicts():
    """Return verdicts on 60 pairs: ann says what gpt says, and the others what they like."""
    rng = np.random.default_rng(1)
    drawn = {name: rng.choice(["x", "tie", "y"], 60) for name in ("ben", "cas", "dan", "gpt")}
    drawn["ann"] = drawn["gpt"]
    rows = [
        {"pair_id": f"p{pair}", "dataset": "d", "method_a": "x", "method_b": "y", "rater": name}
        | {"rater_kind": "model" if name == "gpt" else "person", "criterion": "fluency", "verdict": verdict}
        for name, said in drawn.items()
        for pair, verdict in enumerate(said)
    ]
    return check_verdicts(pd.DataFrame(rows))


def test_report_shows_signs_of_model_use_and_excludes_nobody():
    collected = evidence(
        verdicts(), conduct={"ann": {"copies": 7}, "ben": {"copies": 2}, "cas": {"driven": 1}}
    )
    [row] = [row for row in measure_likeness_to_judges(collected) if row.is_suspicious]
    assert (row.rater, row.judge, row.pairs, row.same) == ("ann", "gpt", 60, 60)
    findings = {row.where: row.what for row in run_data_audits(collected) if row.kind == "like a model"}
    assert findings["rater ann"].startswith("agrees with gpt on 60 of 60 pairs (fluency; ")
    assert findings["rater ann"].endswith(" expected); copied text and left the page on 7 pairs")
    assert findings["rater cas"].endswith("; a program controlled the browser on 1 pair")
    assert "rater ben" not in findings
    page = section.make_section(collected)
    assert page.answer == "2 to look at"
    assert "by taste looks the same" in page.notes[-1]
    people = next(row for row in measure_total_shares(collected) if row.rater_kind == "person")
    assert people.raters == 4


def test_report_says_if_counts_of_page_events_are_missing():
    signs = describe_signs_of_llm_use(measure_likeness_to_judges(evidence(verdicts())), {})
    assert list(signs) == ["ann"]
    assert signs["ann"].endswith("no copied text and no program on the page was counted")


def test_simulated_people_are_compared_with_simulated_judges():
    table = verdicts()
    assert measure_likeness_to_judges(evidence(table[table["rater_kind"] == "person"])) == []
    kinds = table["rater_kind"].astype(object).replace({"person": "simulated", "model": "simulated_model"})
    assert {
        row.rater_kind
        for row in measure_likeness_to_judges(evidence(check_verdicts(table.assign(rater_kind=kinds))))
    } == {"simulated"}
