"""People's share assisted by a judge, from a table of verdicts: rows, what is refused, and the report."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.reports.build import write_report
from analysis.reports.context import Context
from analysis.reports.sections import assisted
from analysis.results.judges.assisted import (
    assisted_lines,
    assisted_ranks,
    assisted_rows,
    with_assisted_shares,
)
from analysis.results.judges.judge_agreement import judge_rows
from analysis.results.shares import share_rows
from analysis.stats.assisted import assisted_mean
from analysis.verdicts.tidy import validate
from guard_eval.cli.commands import report
from guard_eval.errors import StudyError

WORDS = {1: "x", -1: "y", 0: "tie"}


def verdicts(
    rated=60, judged=200, *, raters=3, judges=("gpt",), agree=0.7, kind="model", orders=1, seed=1, part=None
):
    """Verdicts on x against y: people on a random part (or on those of `part`), judges on all."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=judged)
    people = part(latent) if part is not None else rng.permutation(judged)[:rated]
    rows = []

    def add(pair, rater, kind, value):
        verdict = WORDS[int(value > 0.4) - int(value < -0.4)]
        rows.append((f"p{pair:04}", "news" if pair % 2 else "tales", rater, kind, verdict))

    for pair in people:
        for number in range(raters):
            add(pair, f"person {number}", "person", latent[pair] + rng.normal())
    for judge in judges:
        for pair in range(judged):
            for _ in range(orders):
                noise = rng.normal()
                add(pair, judge, kind, agree * latent[pair] + (1 - agree**2) ** 0.5 * noise)
    names = ["pair_id", "dataset", "rater", "rater_kind", "verdict"]
    rest = {"method_a": "x", "method_b": "y", "criterion": "fluency"}
    return validate(pd.DataFrame(rows, columns=names).assign(presentation=range(len(rows)), **rest))


def test_a_row_says_what_the_arithmetic_says():
    frame = verdicts()
    (row,) = assisted_rows(frame)
    value = frame["verdict"].map({"x": 1.0, "tie": 0.5, "y": 0.0})
    people = value[frame["rater_kind"] == "person"].groupby(frame["pair_id"]).mean()
    judged = frame[frame["rater_kind"] == "model"].sort_values("pair_id")
    found = assisted_mean(people.reindex(judged["pair_id"]), value[judged.index], judged["dataset"].tolist())
    assert row.share.estimate == pytest.approx(found.interval.estimate, abs=1e-12)
    assert (row.share.low, row.test.p_value) == pytest.approx((found.interval.low, found.test.p_value))
    assert (row.rated, row.judged, row.raters, row.ratings) == (60, 200, 3, 180)
    assert row.gained == pytest.approx(3 * (found.effective - 60))
    assert row.adjusted == row.test.p_value
    # beside it what the report has of people and of the judge
    alone, judge = (r for r in share_rows(frame) if r.dataset is None)
    assert (row.alone, row.judged_alone) == (alone.share, judge.share)
    assert row.share.high - row.share.low < alone.share.high - alone.share.low


def test_the_order_of_rows_and_methods_is_of_no_account():
    frame = verdicts()
    (row,) = assisted_rows(frame)
    (again,) = assisted_rows(frame.sample(frac=1, random_state=3))
    assert again.share.estimate == pytest.approx(row.share.estimate, abs=1e-12)
    (other,) = assisted_rows(frame.rename(columns={"method_a": "method_b", "method_b": "method_a"}))
    assert other.share.estimate == pytest.approx(1 - row.share.estimate, abs=1e-12)


def test_both_orders_of_a_judge_are_one_score():
    frame = verdicts(orders=2)
    (row,) = assisted_rows(frame)
    assert (row.judged, row.rated) == (200, 60)
    # a verdict that flips with the order is a tie
    judged = frame[frame["rater_kind"] == "model"]
    assert row.judged_alone.estimate == pytest.approx(
        judged["verdict"].map({"x": 1.0, "tie": 0.5, "y": 0.0}).groupby(judged["pair_id"]).mean().mean()
    )


def test_judges_one_by_one_or_as_their_mean():
    frame = verdicts(judges=("a", "b", "c"), agree=0.6)
    rows = assisted_rows(frame)
    assert [row.judge for row in rows] == ["a", "b", "c"]
    (only,) = assisted_rows(frame, judges=["b"])
    assert only == rows[1]
    (mean,) = assisted_rows(frame, together=True)
    assert mean.judge == "mean of a, b and c"
    assert mean.correlation > max(row.correlation for row in rows)
    (two,) = assisted_rows(frame, judges=["a", "c"], together=True)
    assert two.judge == "mean of a and c"
    with pytest.raises(StudyError, match="judged by some of a, b and c and not by all"):
        assisted_rows(frame.drop(frame.index[frame["rater"] == "b"][-1]), together=True)


def test_several_criteria_are_corrected_together():
    frame = pd.concat([verdicts().assign(criterion="coherence"), verdicts(seed=2)])
    rows = assisted_rows(frame)
    assert [row.criterion for row in rows] == ["coherence", "fluency"]
    low, high = sorted(row.test.p_value for row in rows)
    assert sorted(row.adjusted for row in rows) == pytest.approx(
        [min(1, 2 * low), max(min(1, 2 * low), high)]
    )


def test_one_rater():
    (row,) = assisted_rows(verdicts(raters=1))
    assert (row.raters, row.ratings, row.simulated) == (1, 60, False)
    assert row.share.low is not None


def simulated(frame):
    """The same verdicts by simulated people and simulated judges."""
    kinds = {"person": "simulated", "model": "simulated_model"}
    return frame.assign(rater_kind=frame["rater_kind"].map(kinds))


def test_simulated_people_are_assisted_by_a_simulated_judge():
    (row,) = assisted_rows(verdicts())
    (made_up,) = assisted_rows(simulated(verdicts()))
    assert made_up.simulated
    assert replace(made_up, rater_kind="model") == row


@pytest.mark.parametrize("kind", ["person", "model"])
def test_what_is_simulated_never_meets_what_is_not(kind):
    mixed = verdicts().assign(
        rater_kind=lambda table: table["rater_kind"].where(
            table["rater_kind"] == kind, simulated(table)["rater_kind"]
        )
    )
    assert assisted_lines(mixed) == ()
    assert assisted_ranks(mixed) == ()
    assert judge_rows(mixed) == ()
    with pytest.raises(StudyError, match="no comparison has ratings by people and verdicts by a judge"):
        assisted_rows(mixed)
    both = pd.concat([verdicts(), simulated(verdicts(seed=2)).replace({"rater": {"gpt": "made up"}})])
    both["rater"] = both["rater"].where(both["rater_kind"] != "simulated", both["rater"] + " made up")
    both["pair_id"] = both["pair_id"].where(
        both["rater_kind"].isin(["person", "model"]), both["pair_id"] + "s"
    )
    real, made_up = assisted_lines(both)
    assert real == assisted_lines(verdicts())[0]
    assert (made_up.judge, made_up.simulated) == ("made up", True)


def test_a_judge_that_always_ties_changes_nothing():
    frame = verdicts()
    frame.loc[frame["rater_kind"] == "model", "verdict"] = "tie"
    (row,) = assisted_rows(frame)
    assert (row.weight, row.correlation, row.judged_alone.low) == (0.0, None, None)
    assert row.gained == pytest.approx(0)


def test_people_who_rated_everything_stand_alone():
    (row,) = assisted_rows(verdicts(200))
    assert (row.share.low, row.share.high, row.share.estimate) == (
        row.alone.low,
        row.alone.high,
        row.alone.estimate,
    )
    assert row.gained == pytest.approx(0)
    assert assisted_lines(verdicts(200)) == assisted_lines(verdicts(5)) == ()


def one_side(latent):
    return np.argsort(latent)[-60:]


def one_dataset(latent):
    return np.arange(1, 121, 2)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (one_dataset, r"60 of 100 in news and 0 of 100 in tales; if people's pairs are a random part"),
        (one_side, r"the judge's win share is \d\d% on them and \d\d% on the others"),
    ],
)
def test_a_part_that_is_not_random_is_refused_unless_it_is_known_to_be(part, why):
    frame = verdicts(part=part)
    with pytest.raises(StudyError, match=why):
        assisted_rows(frame)
    (line,) = assisted_lines(frame)
    assert (line.share.low, line.test.p_value, line.adjusted) == (None, None, None)
    assert line.alone.low is not None
    (row,) = assisted_rows(frame, random=True)
    assert row.share.low is not None


@pytest.mark.slow
def test_a_random_part_is_hardly_ever_refused():
    for seed in range(60):
        assisted_rows(verdicts(rated=30, judged=90, raters=1, seed=seed))


def test_prompts_with_several_pairs():
    frame = verdicts(part=lambda latent: np.arange(60))
    frame["prompt_id"] = "q" + (frame["pair_id"].str[1:].astype(int) // 6).astype(str)
    (row,) = assisted_rows(frame)
    (pairs,) = assisted_rows(frame.drop(columns="prompt_id"))
    assert row.share.estimate == pytest.approx(pairs.share.estimate, abs=1e-12)
    assert (row.share.n, pairs.share.n) == (20, 60)
    assert "coverage was measured from 40 on" in row.share.warnings[-1]


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (
            lambda: verdicts(100, 60, part=lambda _: np.arange(60)).iloc[:-20],
            "judged 40 pairs and people rated",
        ),
        (
            lambda: verdicts().drop(verdicts().index[-30:]),
            r"of the 60 pairs that people rated were not judged",
        ),
        (lambda: verdicts(5), "people rated 5 pairs, which are too few .* at least 10"),
        (lambda: verdicts().query("rater_kind == 'person'"), "no comparison has ratings by people and"),
        (lambda: verdicts().query("rater_kind == 'model'"), "no comparison has ratings by people and"),
    ],
)
def test_bad_input_is_named_with_its_remedy(frame, why):
    with pytest.raises(StudyError, match=why):
        assisted_rows(frame())


def test_an_unknown_judge():
    with pytest.raises(StudyError, match="no judge is named 'gtp'; name one of: gpt"):
        assisted_rows(verdicts(), judges=["gtp"])


def test_three_lines_for_each_result():
    rows = assisted_lines(verdicts(judges=("gpt", "llama")))
    section = assisted.section(rows, name_methods=False, random=False)
    table, figure = section.parts
    assert [row[1] for row in table.rows] == [
        "people alone",
        "people, assisted by gpt",
        "gpt alone",
        "people alone",
        "people, assisted by llama",
        "llama alone",
    ]
    assert table.strong == {1, 4}
    assert "people, assisted by gpt" in figure.description
    assert "cannot show" in section.paragraphs[1]
    assert len(section.exports["assisted"].rows) == 2
    drawn = assisted.section(rows, name_methods=True, random=True)
    assert "here they were drawn so" in drawn.paragraphs[1]
    assert drawn.parts[0].rows[0][0] == "x against y"


def test_what_is_refused_is_said():
    section = assisted.section(assisted_lines(verdicts(part=one_side)), name_methods=False, random=False)
    assert section.parts == ()
    assert section.paragraphs[2].startswith(
        "No assisted share for gpt on fluency: the pairs that people rated"
    )


def test_a_simulated_judge_is_marked():
    section = assisted.section(assisted_lines(simulated(verdicts())), name_methods=False, random=False)
    whose = [row[1] for row in section.parts[0].rows]
    assert whose == [
        "SIMULATED people alone",
        "SIMULATED people, assisted by gpt (SIMULATED)",
        "gpt (SIMULATED) alone",
    ]
    assert "made-up people and a made-up judge" in section.paragraphs[2]
    assert "SIMULATED" in section.parts[1].svg
    assert section.exports["assisted"].rows[0][0] is True


def test_nothing_where_people_rated_as_much():
    assert assisted.section(assisted_lines(verdicts(200)), name_methods=False, random=False) is None


@pytest.mark.slow
def test_the_report_has_the_line_and_its_answer_does_not(tmp_path):
    frame = verdicts(rated=100, judged=300)
    both = write_report(frame, tmp_path / "both", Context(name="a study"))
    people = write_report(
        frame[frame["rater_kind"] == "person"], tmp_path / "people", Context(name="a study")
    )
    assert both.summary[:100] == people.summary[:100]
    assert "assisted" not in both.summary
    for name in ("index.html", "report.md", "report.tex"):
        text = (tmp_path / "both" / name).read_text(encoding="utf-8")
        assert "assisted by gpt" in text
        assert "assisted by" not in (tmp_path / "people" / name).read_text(encoding="utf-8")
    with (tmp_path / "both" / "csv" / "assisted.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["judge"], row["pairs_rated"], row["pairs_judged"]) == ("gpt", "100", "300")
    assert float(row["high"]) - float(row["low"]) < float(row["people_high"]) - float(row["people_low"])
    assert (tmp_path / "both" / "figures" / "assisted-1.svg").exists()


@pytest.mark.slow
def test_a_table_can_be_said_to_be_of_a_random_part(tmp_path):
    verdicts(part=one_side).to_csv(tmp_path / "table.csv", index=False)
    for random, expected in ((False, "No assisted share for gpt on fluency"), (True, "--random-part")):
        report(tmp_path / "table.csv", tmp_path / "out", random_part=random)
        assert expected in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def two_criteria():
    """Two criteria, of which the judge judged one; x is ahead."""
    frame = verdicts()
    turned = (frame["verdict"] == "y") & (np.arange(len(frame)) % 5 < 2)
    frame = frame.assign(verdict=frame["verdict"].where(~turned, "tie"))
    other = frame[frame["rater_kind"] == "person"].assign(criterion="coherence")
    return pd.concat(
        [frame, other.assign(presentation=range(10_000, 10_000 + len(other)))], ignore_index=True
    )


def test_a_declared_judge_assists_in_the_answer_and_holm_runs_over_the_same_family():
    frame = two_criteria()
    rows, lines = share_rows(frame), assisted_lines(frame)
    found = {(row.rater_kind, row.criterion): row for row in with_assisted_shares(rows, lines, "gpt")}
    people, other = found["person", "fluency"], found["person", "coherence"]
    (line,) = lines
    assert (people.share, people.test, people.assisted_by) == (line.share, line.test, "gpt")
    before = {row.criterion: row for row in rows if row.rater_kind == "person" and row.dataset is None}
    assert (other.share, other.test, other.assisted_by) == (
        before["coherence"].share,
        before["coherence"].test,
        "",
    )
    low, high = sorted([people.test.p_value, other.test.p_value])
    assert sorted([people.adjusted, other.adjusted]) == pytest.approx([2 * low, max(2 * low, high)])
    assert low < 0.5
    assert found["model", "fluency"] in rows


@pytest.mark.slow
def test_the_page_names_the_judge_who_assists(tmp_path):
    context = Context(name="s", assisted_by="gpt", random_part=True)
    answer = write_report(two_criteria(), tmp_path / "declared", context).summary
    assert (
        "assisted by gpt's verdicts on all pairs, as was declared (on coherence they are people's alone)"
        in answer
    )
    page = (tmp_path / "declared" / "index.html").read_text(encoding="utf-8")
    assert "The answer above takes that of gpt, as declared." in page
    missing = write_report(
        two_criteria(), tmp_path / "missing", replace(context, assisted_by="llama")
    ).summary
    assert "An answer assisted by llama was declared and is not possible" in missing
