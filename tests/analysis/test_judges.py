"""Judges beside people: by hand, against other programs, and the paper's table with "Agree?"."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from verdicts_by_hand import listed, papers_people

from analysis.reports.sections import judges
from analysis.results.judges.judge_agreement import EPSILONS, beside_rows, judge_rows
from analysis.verdicts.tidy import orient, read, validate

GOLDEN = Path(__file__).parents[1] / "golden"
SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "judgments"


def frame(rows, **columns):
    """Verdicts as (pair, rater, kind, verdict) on methods x and y."""
    return listed("pair_id rater rater_kind verdict", rows, **columns)


def judged_by(rater, kind, verdicts):
    return [(str(i), rater, kind, verdict) for i, verdict in enumerate(verdicts)]


def word(letters):
    return ["tie" if letter == "-" else letter for letter in letters]


def test_by_hand():
    people = [
        ("a", "person", word("xxy-xy")),
        ("b", "person", word("xxy-y-")),
        ("c", "person", word("xy-xx-")),
    ]
    # Most people say:            x x y - x -
    judge = judged_by("gpt", "model", word("xyxx--"))
    rows = [row for rater, kind, verdicts in people for row in judged_by(rater, kind, verdicts)]
    (row,) = judge_rows(frame([*rows, *judge]))
    assert (row.judge, row.rater_kind, row.people, row.items) == ("gpt", "model", 3, 6)
    assert row.same.estimate == pytest.approx(2 / 6)  # pairs 0 and 5
    # Both take a side on 0, 1, 2: people alone are for x on 1, the judge alone on 2.
    assert (row.both_sided, row.people_only, row.judge_only) == (3, 1, 1)
    assert (row.lean.p_value, row.lean.smallest) == (None, 0.5)  # two differing sides: 2/2²
    # Pair by pair, of three people those who say what the judge says: 3 1 0 1 0 2.
    assert row.with_a_person == pytest.approx(7 / 18)
    # Of three pairs of people those that agree: 3 1 1 1 1 1.
    assert row.among_people == pytest.approx(8 / 18)
    # Shares of the majority x - y: 3 2 1; of the judge 3 2 1: chance 9/36 + 4/36 + 1/36.
    assert row.kappa.value == pytest.approx((2 / 6 - 14 / 36) / (1 - 14 / 36))
    assert all(test.reason.endswith("there are 0") for test in row.alternative)


def test_against_other_programs():
    rng = np.random.default_rng(3)
    truth = rng.choice(["x", "y", "tie"], 80, p=[0.5, 0.3, 0.2])

    def noisy(chance):
        return np.where(rng.random(80) < chance, rng.choice(["x", "y", "tie"], 80), truth)

    rows = [row for name in "abc" for row in judged_by(name, "person", noisy(0.4))]
    judge = noisy(0.3)
    table = frame([*rows, *judged_by("gpt", "model", judge)])
    (row,) = judge_rows(table)
    wide = table[table["rater_kind"] == "person"].pivot_table(
        index="pair_id", columns="verdict", aggfunc="size", values="rater", fill_value=0
    )
    wide = wide.loc[[str(i) for i in range(80)]]
    counts = wide.to_numpy()
    most = [wide.columns[line.argmax()] if (line == line.max()).sum() == 1 else "tie" for line in counts]
    assert row.kappa.value == pytest.approx(cohen_kappa_score(most, judge))
    score = {"x": 1, "tie": 0, "y": -1}
    expected = stats.kendalltau((wide["x"] - wide["y"]), [score[verdict] for verdict in judge])
    assert row.correlation == pytest.approx(expected.statistic)
    assert [test.epsilon for test in row.alternative] == list(EPSILONS)
    assert all(test.winning_rate is not None for test in row.alternative)


def test_a_judges_flip_is_a_tie():
    once = frame(
        [*judged_by("a", "person", word("x-")), *judged_by("gpt", "model", word("xx"))], presentation="1"
    )
    again = frame(judged_by("gpt", "model", word("xy")), presentation="2")
    (row,) = judge_rows(validate(pd.concat([once, again], ignore_index=True)))
    assert row.same.estimate == 1.0  # x with x, and the flip with the tie


def test_judges_are_never_pooled_and_simulations_are_their_own():
    rows = judged_by("a", "person", word("xy"))
    rows += [*judged_by("gpt", "model", word("xy")), *judged_by("llama", "model", word("yx"))]
    rows += [*judged_by("one", "simulated", word("xy")), *judged_by("sim", "simulated_model", word("xx"))]
    found = judge_rows(frame(rows))
    assert [(row.judge, row.rater_kind, row.same.estimate) for row in found] == [
        ("gpt", "model", 1.0),
        ("llama", "model", 0.0),
        ("sim", "simulated_model", 0.5),
    ]


def test_edges():
    assert judge_rows(frame(judged_by("a", "person", word("xy")))) == ()
    assert judge_rows(frame(judged_by("gpt", "model", word("xy")))) == ()
    assert beside_rows(frame(judged_by("gpt", "model", word("xy")))) == ()
    (alike,) = judge_rows(
        frame([*judged_by("a", "person", word("xx")), *judged_by("gpt", "model", word("xx"))])
    )
    assert alike.kappa.value is None
    assert alike.correlation is None
    assert alike.among_people is None  # nobody else judged these pairs
    assert alike.lean.p_value is None
    apart = frame([("1", "a", "person", "x"), ("2", "gpt", "model", "x")])
    (row,) = judge_rows(apart)
    assert (row.items, row.same.estimate, row.kappa.reason) == (0, None, "no item was rated by both")
    assert "1 pair(s)" in row.warnings[0]
    assert judges.section((row,), beside_rows(apart), name_methods=False) is not None


def test_different_criteria_have_nothing_in_common():
    people, model = (
        frame(judged_by("a", "person", word("x"))),
        frame(judged_by("g", "model", word("x")), criterion="e"),
    )
    assert judge_rows(validate(pd.concat([people, model], ignore_index=True))) == ()
    assert judges.section((), (), name_methods=True) is None


def paper_table() -> pd.DataFrame:
    """The paper's people, rebuilt from its counts, beside its judge's verdicts."""
    path = SHARED / "guard_llm_gpt4.csv"
    if not path.exists():
        pytest.skip("needs guard_llm_gpt4.csv, which is not published with this project")
    model = read(path).assign(rater_kind="model")
    pairs = {name: sorted(set(group["pair_id"])) for name, group in model.groupby("dataset")}
    whole = pd.concat([papers_people(pairs), model], ignore_index=True)
    return orient(validate(whole), (("GUARD", "ACS", ""),))


def test_the_papers_table_with_agree():
    rows = {(row.criterion, row.dataset): row for row in beside_rows(paper_table())}
    with (GOLDEN / "guard_human_beside_llm_from_paper.csv").open(encoding="utf-8") as file:
        printed = list(csv.DictReader(file))
    assert len(printed) == len(rows) == 8
    for line in printed:
        row = rows[line["criterion"], line["dataset"] or None]
        assert row.agree == (line["agree"] == "yes")
        assert not row.warnings
        for counts, who in ((row.people, "human"), (row.judged, "llm")):
            shares = [100 * count / counts.n for count in (counts.wins, counts.losses, counts.ties)]
            expected = [float(line[f"{who}_{name}_pct"]) for name in ("guard", "acs", "tie")]
            assert shares == pytest.approx(expected, abs=0.0501)


def test_the_section_prints_the_papers_table():
    table = paper_table()
    section = judges.section(judge_rows(table), beside_rows(table), name_methods=False)
    beside = section.parts[0]
    assert beside.columns[2:5] == ("People: GUARD", "People: ACS", "People: ties")
    wikinews = next(row for row in beside.rows if row[:2] == ("fluency", "wikinews"))
    assert [cell.replace("\u00a0", "") for cell in wikinews[2:]] == [
        *("21.5%", "12.0%", "66.5%"),
        *("40.0%", "40.0%", "20.0%"),
        "no",
    ]
    assert set(section.exports) == {"judges", "people_beside_judge", "alternative_annotator"}
    for export in section.exports.values():
        assert export.columns[0] == "simulated"
        assert len(export.rows) > 0
