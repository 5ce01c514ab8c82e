"""Win shares against the paper's tables and hand arithmetic, and what must hold for any table."""

import csv
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verdicts_by_hand import listed, papers_people

from analysis.results.shares import disagreement, share_rows
from analysis.verdicts.scores import item_scores, rater_scores
from analysis.verdicts.tidy import orient, read, validate

GOLDEN = Path(__file__).parents[1] / "golden"
SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "judgments"


def table(verdicts, **columns):
    """Verdicts as (pair, rater, verdict) on methods x and y."""
    return listed("pair_id rater verdict", verdicts, **columns)


def shared(name: str) -> pd.DataFrame:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name}, which is not published with this project")
    return orient(read(path), (("GUARD", "ACS", ""), ("contrastive_search", "contrastive_decoding", "")))


def test_the_papers_human_shares():
    result = {(row.criterion, row.dataset): row for row in share_rows(validate(papers_people()))}
    # As printed in tab:humaneval_resultglacs.
    printed = {
        "coherence": {"wikitext": 62.50, "wikinews": 60.00, "book": 51.25},
        "fluency": {"wikitext": 56.25, "wikinews": 54.75, "book": 47.50},
    }
    for criterion, by_dataset in printed.items():
        for dataset, share in by_dataset.items():
            assert 100 * result[criterion, dataset].pooled == pytest.approx(share)
            assert 100 * result[criterion, dataset].share.estimate == pytest.approx(share)
    # The paper prints 58 and 53; its counts give 57.92 and 52.83.
    assert 100 * result["coherence", None].pooled == pytest.approx(57.92, abs=0.005)
    assert 100 * result["fluency", None].pooled == pytest.approx(52.83, abs=0.005)
    assert result["coherence", None].paper_test.p_value == pytest.approx(2.874966592398616e-06)


def test_the_papers_llm_shares():
    rows = {(row.criterion, row.dataset): row for row in share_rows(shared("guard_llm_gpt4.csv"))}
    with (GOLDEN / "guard_llm_shares_from_paper.csv").open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 12
    for cell in cells:
        row = rows[cell["criterion"], cell["dataset"] or None]
        assert row.n == (50 if cell["dataset"] else 150)
        for count, name in ((row.wins, "guard_pct"), (row.losses, "acs_pct"), (row.ties, "tie_pct")):
            assert 100 * count / row.n == pytest.approx(float(cell[name]), abs=0.0501)


def test_contrastive_search_against_contrastive_decoding():
    rows = {row.dataset: row for row in share_rows(shared("cs_vs_cd_human.csv"))}
    assert {name: 100 * rows[name].pooled for name in ("wikinews", "wikitext", "book")} == pytest.approx(
        {"wikinews": 69.5, "wikitext": 66.0, "book": 67.5}
    )
    # The published raw shares count ties as losses.
    assert {
        name: 100 * rows[name].wins / rows[name].n for name in ("wikinews", "wikitext", "book")
    } == pytest.approx({"wikinews": 68.5, "wikitext": 65.0, "book": 67.0})


def test_by_hand():
    # Items: 1 → (1 + ½)/2 = ¾; 2 → 1; 3 → (0 + 0)/2 = 0. Mean 7/12; pooled (2 + ½)/5 = ½.
    verdicts = [("1", "r", "x"), ("1", "s", "tie"), ("2", "r", "x"), ("3", "r", "y"), ("3", "s", "y")]
    (row,) = share_rows(table(verdicts), alpha=0.25)
    assert (row.wins, row.ties, row.losses, row.items, row.raters, row.n) == (2, 1, 2, 3, 2, 5)
    assert row.pooled == pytest.approx(1 / 2)
    assert row.share.estimate == pytest.approx(7 / 12)
    # Scores ½, 1, −1: |Σ| = ½, and of the 8 sign patterns all reach it (½ ± 1 ± 1 is ±½, ±1½ or ±2½).
    assert row.test.p_value == pytest.approx(1.0)
    assert "between 1 and 2 raters" in row.warnings[0]


def test_a_judge_that_flips_has_tied():
    both = table([("1", "gpt", "x"), ("2", "gpt", "x")], presentation="1")
    turned = table([("1", "gpt", "y"), ("2", "gpt", "x")], presentation="2")
    (row,) = share_rows(validate(pd.concat([both, turned], ignore_index=True)))
    assert (row.wins, row.ties, row.losses, row.verdicts) == (1, 1, 0, 4)
    assert row.share.estimate == pytest.approx(3 / 4)


def of_pairs(letters, criterion="fluency"):
    """Return one rater's verdicts, a letter a pair."""
    by_letter = {"A": "x", "B": "y"}
    verdicts = [(f"{place}", "ann", by_letter[letter]) for place, letter in enumerate(letters)]
    return table(verdicts, criterion=criterion)


def test_an_interval_beside_a_p_that_disagrees_is_explained():
    """11 of 14 pairs: .7857 ± 2.1604 √(.7857 · .2143 / 13) excludes .5, and p = 2 · 470 / 2¹⁴ = .0574."""
    (row,) = share_rows(validate(of_pairs("A" * 11 + "B" * 3)))
    assert row.share.low == pytest.approx(0.5399, abs=1e-4)
    assert row.deciding == pytest.approx(940 / 2**14)
    text = disagreement([row])
    assert text.startswith(" In one result the interval and the deciding p disagree")
    assert "spread around the share found" in text
    assert "several" not in text


def test_correction_alone_can_set_an_interval_and_p_apart():
    """15 of 20 pairs: p = .0414 alone, and .0828 by Holm over two."""
    rows = share_rows(validate(pd.concat([of_pairs("A" * 15 + "B" * 5, c) for c in ("fluency", "style")])))
    assert [row.deciding for row in rows] == [pytest.approx(2 * 0.041389, abs=1e-4)] * 2
    text = disagreement(rows)
    assert text.startswith(" In 2 results")
    assert "p is corrected for several" in text
    assert "spread" not in text


@pytest.mark.parametrize("letters", ["A" * 14 + "B", "AB" * 7, "A", "AAAA", "AAB" * 30])
def test_nothing_is_explained_where_nothing_disagrees(letters):
    assert disagreement(share_rows(validate(of_pairs(letters)))) == ""


def test_items_are_exact_fractions():
    # Rater r saw the pair three times (net +1 of 3), rater s once (−1): mean −1/3, share 1/3.
    frames = [table([("1", "r", verdict)], presentation=str(i)) for i, verdict in enumerate(("x", "x", "y"))]
    frames.append(table([("1", "s", "y")], presentation="9"))
    items = item_scores(rater_scores(validate(pd.concat(frames, ignore_index=True))))
    assert items["numerator"].iloc[0] / items["denominator"].iloc[0] == pytest.approx(-1 / 3)
    assert items["share"].iloc[0] == pytest.approx(1 / 3)


def test_people_and_models_are_never_pooled():
    people = table([("1", "anna", "x"), ("2", "anna", "x")], rater_kind="person")
    models = table([("1", "gpt", "y"), ("2", "gpt", "y")], rater_kind="model")
    rows = share_rows(validate(pd.concat([people, models], ignore_index=True)))
    assert [(row.rater_kind, row.wins, row.losses, row.family) for row in rows] == [
        ("person", 2, 0, 1),  # people come first, everywhere
        ("model", 0, 2, 1),
    ]


def test_holm_runs_over_the_declared_family():
    verdicts = [(str(i), "r", "x" if i < 9 else "y") for i in range(10)]
    frames = [table(verdicts).assign(criterion=name) for name in ("c1", "c2", "c3")]
    frame = validate(pd.concat(frames, ignore_index=True))
    rows = {row.criterion: row for row in share_rows(frame, planned=(("x", "y", "c2"), ("x", "y", "c1")))}
    assert list(rows) == ["c2", "c1", "c3"]
    p = 22 / 1024  # 2 · (1 + 10) / 2¹⁰
    assert rows["c1"].adjusted == rows["c2"].adjusted == pytest.approx(2 * p)
    assert rows["c1"].declared
    assert rows["c3"].adjusted is None
    assert (rows["c3"].family, rows["c3"].declared) == (0, False)
    undeclared = share_rows(frame)
    assert {row.family for row in undeclared} == {3}
    assert not any(row.declared for row in undeclared)


VERDICTS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from(("x", "tie", "y"))),
    min_size=1,
    max_size=28,
    unique_by=lambda row: row[:2],
).map(lambda rows: [(str(pair), str(rater), verdict) for pair, rater, verdict in rows])


@settings(max_examples=25)
@given(VERDICTS)
def test_turning_the_methods_round_mirrors_the_result(verdicts):
    frame = table(verdicts)
    turned = frame.assign(method_a=frame["method_b"], method_b=frame["method_a"])
    (row,), (other,) = share_rows(frame), share_rows(turned)
    assert (other.wins, other.ties, other.losses) == (row.losses, row.ties, row.wins)
    assert other.share.estimate == pytest.approx(1 - row.share.estimate)
    if row.share.low is not None:
        assert (other.share.low, other.share.high) == pytest.approx((1 - row.share.high, 1 - row.share.low))
    assert other.test.p_value == row.test.p_value
    assert other.paper_test.p_value == pytest.approx(row.paper_test.p_value)
