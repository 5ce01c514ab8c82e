"""Each audit finds what was put into a table on purpose, with figures worked out by hand, and no more."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.results.audits import (
    Finding,
    audit,
    identical_verdicts,
    redundant_criteria,
    unbalanced_sides,
    uneven_overlap,
    unvarying_raters,
)
from analysis.verdicts.encoding import coded
from analysis.verdicts.tidy import read, validate
from guard_eval.errors import StudyError

GPT4 = Path(__file__).parents[2].parent / "shared" / "data" / "judgments" / "guard_llm_gpt4.csv"


def row(pair, rater="anna", criterion="coherence", verdict="x", **more):
    given = {"pair_id": str(pair), "dataset": "d", "method_a": "x", "method_b": "y", "rater": rater}
    return given | {"criterion": criterion, "verdict": verdict} | more


def table(rows):
    return validate(pd.DataFrame(rows))


def found(search, frame, **limits):
    return tuple(search(coded(frame), **limits))


def only(findings: tuple[Finding, ...]) -> Finding:
    (finding,) = findings
    return finding


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


def test_nothing_to_tell_of():
    assert audit(table(mixed())) == ()


def test_gpt_4_has_one_criterion_in_five_names():
    if not GPT4.is_file():
        pytest.skip(f"{GPT4.name} is not beside the repository")
    finding = only(found(redundant_criteria, read(GPT4)))
    assert "factuality" not in finding.what
    for name in ("coherence", "fluency", "informativeness", "interestingness", "story development"):
        assert name in finding.what
    assert "on 140 of 150 showings (93.3 %)" in plain(finding.what)
    # fluency and interestingness are the two farthest apart: 141 of 150
    assert "any two on at least 94.0 %" in plain(finding.what)
    assert finding.severity == "warning"


def test_redundancy_by_hand():
    # 20 showings, 18 equal. Margins 10/10 and 10/10: chance ½, κ = (.9 − .5) / .5 = .8
    left = ["x"] * 10 + ["y"] * 10
    right = ["y", *["x"] * 9, "x", *["y"] * 9]
    rows = [row(i, criterion="coherence", verdict=v) for i, v in enumerate(left)]
    rows += [row(i, criterion="fluency", verdict=v) for i, v in enumerate(right)]
    what = plain(only(found(redundant_criteria, table(rows), threshold=0.79)).what)
    assert "coherence and fluency carry the same verdict on 18 of 20 showings (90.0 %)" in what
    assert "κ ≥ 0.80" in what
    assert found(redundant_criteria, table(rows), threshold=0.81) == ()


def test_much_raw_agreement_by_chance_is_no_redundancy():
    # 18 of 20 equal, all ties; chance .95² + 0 = .9025, so κ = (.9 − .9025) / .0975 < 0
    left = ["tie"] * 19 + ["x"]
    right = ["y", *["tie"] * 19]
    rows = [row(i, criterion="coherence", verdict=v) for i, v in enumerate(left)]
    rows += [row(i, criterion="fluency", verdict=v) for i, v in enumerate(right)]
    assert found(redundant_criteria, table(rows)) == ()


def test_redundancy_needs_showings_and_variation():
    def of(n, verdicts):
        return table([row(i, criterion=c, verdict=verdicts[i % 2]) for i in range(n) for c in ("c", "f")])

    assert found(redundant_criteria, of(9, "xy")) == ()
    assert len(found(redundant_criteria, of(10, "xy"))) == 1
    assert found(redundant_criteria, of(10, "xx")) == ()


def test_people_and_models_are_told_of_apart():
    rows = mixed()
    rows += [
        row(i, "judge", c, ("x", "y")[i % 2], rater_kind="model", shown_first=("x", "y")[i // 2 % 2])
        for i in range(20)
        for c in ("coherence", "fluency")
    ]
    assert only(found(redundant_criteria, table(rows))).where == "x against y, model judges"


def test_sides_by_hand():
    # 9 of 10: p = 2 · 11/1024 = .021; 10 of 10: 2/1024 = .0020
    nine = [row(i, shown_first="x" if i else "y") for i in range(10)]
    assert found(unbalanced_sides, table(nine)) == ()
    assert "x was shown first in 9 of 10 showings (90.0 %; sign-flip test by pair, p = .021)" in plain(
        only(found(unbalanced_sides, table(nine), alpha=0.05)).what
    )
    ten = [row(i, shown_first="b") for i in range(10)]
    assert "y was shown first in 10 of 10" in plain(only(found(unbalanced_sides, table(ten))).what)


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


@pytest.mark.slow
@pytest.mark.parametrize("raters", [3, 4])
@pytest.mark.parametrize("design", [by_whole_pair, by_showing, by_balanced_slots])
def test_the_false_alarm_rate_is_the_nominal_one_whatever_decides_the_sides(design, raters):
    """At α = .05 in 150 studies: five false alarms in a hundred, and three standard errors (.018) more.

    A binomial over all showings has 25 in a hundred with three raters who see a pair the same way round.
    """
    rng = np.random.default_rng(raters)
    studies = 150
    alarms = sum(
        bool(found(unbalanced_sides, sides(design(rng, 25, raters)), alpha=0.05)) for _ in range(studies)
    )
    assert alarms / studies <= 0.05 + 3 * 0.018


def test_sides_of_whole_pairs_by_hand():
    # 9 of 10 pairs with x first for all four raters: 2 · 11/1024 as with one rater, not 36 of 40 throws.
    nine = sides([[1] * 4] * 9 + [[-1] * 4])
    assert found(unbalanced_sides, nine) == ()
    assert "x was shown first in 36 of 40 showings (90.0 %; sign-flip test by pair, p = .021)" in plain(
        only(found(unbalanced_sides, nine, alpha=0.05)).what
    )
    # Both sides of every pair equally often: nothing is left to chance.
    assert found(unbalanced_sides, sides([[1, -1]] * 30), alpha=0.99) == ()


def test_a_leaning_design_is_found():
    rng = np.random.default_rng(1)
    leaning = np.where(rng.random((150, 4)) < 0.6, 1, -1)
    assert "x was shown first" in only(found(unbalanced_sides, sides(leaning))).what


def test_criteria_do_not_multiply_the_showings():
    # 7 of 7 is p = .016; counted per verdict it would be 14 of 14
    rows = [row(i, criterion=c, shown_first="x") for i in range(7) for c in ("coherence", "fluency")]
    assert found(unbalanced_sides, table(rows)) == ()


def test_sides_without_the_column():
    assert found(unbalanced_sides, table([row(i) for i in range(20)])) == ()


def test_comparisons_written_either_way_round_are_one():
    rows = [row(i, shown_first="x", method_a="y", method_b="x") for i in range(10)]
    rows += [row(i + 10, shown_first="y") for i in range(10)]
    assert found(unbalanced_sides, table(rows)) == ()


def test_a_comparison_stands_as_the_table_has_it():
    """The answer, the tables and the audits name the same method first."""
    rows = [row(i, shown_first="y", method_a="y", method_b="x") for i in range(10)]
    finding = only(found(unbalanced_sides, table(rows)))
    assert finding.where == "y against x, people"
    assert "y was shown first in 10 of 10" in plain(finding.what)


def test_overlap_by_hand():
    rows = [row(i, rater) for i in range(8) for rater in ("anna", "ben", "carl")]
    rows += [row(8, "anna"), row(9, "anna", "fluency")]
    fluency = only(tuple(f for f in found(uneven_overlap, table(rows)) if f.where.startswith("fluency")))
    coherence = only(tuple(f for f in found(uneven_overlap, table(rows)) if f.where.startswith("coherence")))
    assert (
        plain(coherence.what) == "2 of 10 items with fewer than 3 raters, 1 of them with none: pairs 8 and 9"
    )
    assert "9 of 10 items with fewer than 1 rater" in plain(fluency.what)
    assert "pairs 0, 1, 2, 3, 4 and 4 more" in plain(fluency.what)
    assert found(uneven_overlap, table(rows[:24])) == ()


def test_two_orders_are_one_rater():
    rows = [row(i, verdict=v, presentation=f"{i}{v}") for i in range(4) for v in ("x", "y")]
    rows.append(row(4, presentation="z"))
    assert found(uneven_overlap, table(rows)) == ()


def kinds(rows):
    return [(f.kind, f.severity) for f in found(unvarying_raters, table(rows))]


def test_a_rater_who_always_answers_the_same():
    for verdict in ("tie", "x", "y"):
        rows = [row(i, "ben", verdict=verdict) for i in range(10)]
        assert kinds(rows[:9]) == []
        finding = only(found(unvarying_raters, table(rows)))
        assert (finding.kind, plain(finding.what)) == ("unvarying rater", f"all 10 verdicts are {verdict}")
        assert finding.where == "rater ben, x against y, people"


def test_straight_lining():
    rows = [row(i, criterion=c, verdict=("x", "y")[i % 2]) for i in range(10) for c in ("c", "f")]
    assert kinds(rows) == [("straight-lining", "warning")]
    rows[0] = row(0, criterion="c", verdict="tie")
    assert kinds(rows) == []
    # one criterion is no line
    assert kinds([row(i, verdict=("x", "y")[i % 2]) for i in range(10)]) == []


def test_always_the_place():
    first = [row(i, verdict=("x", "y")[i % 2], shown_first=("x", "y")[i % 2]) for i in range(10)]
    finding = only(found(unvarying_raters, table(first)))
    assert (finding.kind, finding.severity) == ("one place", "warning")
    assert plain(finding.what) == "10 of 10 non-tied verdicts are for the text shown first (100.0 %)"
    second = [row(i, verdict=("x", "y")[i % 2], shown_first=("y", "x")[i % 2]) for i in range(10)]
    assert "the text shown second" in only(found(unvarying_raters, table(second))).what
    assert kinds([*first[:9], row(9, verdict="tie", shown_first="x")]) == []


def test_mostly_one_method_is_a_note():
    rows = [row(i, verdict="y" if i < 9 else "x") for i in range(10)]
    assert kinds(rows) == [("one method", "note")]
    assert "9 of 10 non-tied verdicts are for y (90.0 %)" in plain(
        only(found(unvarying_raters, table(rows))).what
    )
    rows[0] = row(0, verdict="x")
    assert kinds(rows) == []


def test_verdicts_that_are_all_the_same():
    rows = [row(i, criterion="factuality", verdict="tie") for i in range(3)]
    finding = only(found(identical_verdicts, table(rows)))
    assert finding.where == "factuality, x against y, people"
    assert (
        plain(finding.what)
        == "all 3 verdicts are tie: agreement beyond chance is undefined, and there is no test"
    )
    assert "no test" not in only(found(identical_verdicts, table([row(1), row(2)]))).what
    assert found(identical_verdicts, table(rows[:1])) == ()
    # written the other way round, the same method is the same answer, and the other is not
    assert len(found(identical_verdicts, table([row(1), row(2, method_a="y", method_b="x")]))) == 1
    assert found(identical_verdicts, table([row(1), row(2, method_a="y", method_b="x", verdict="y")])) == ()


def test_warnings_come_first_and_the_table_stays_as_it_is():
    frame = table([*mixed(), *[row(i, "carl", verdict="x", shown_first="x") for i in range(12)]])
    before = frame.copy()
    severities = [finding.severity for finding in audit(frame)]
    assert set(severities) == {"warning", "note"}
    assert severities == sorted(severities, reverse=True)
    pd.testing.assert_frame_equal(frame, before)


def test_the_order_of_rows_does_not_matter():
    frame = table([*mixed(), *[row(i, "carl", verdict="x", shown_first="x") for i in range(12)]])
    shuffled = frame.iloc[np.random.default_rng(1).permutation(len(frame))]
    assert audit(shuffled) == audit(frame)


def test_a_missing_column():
    with pytest.raises(StudyError, match=r"lack the column\(s\) verdict"):
        audit(table([row(1)]).drop(columns="verdict"))
