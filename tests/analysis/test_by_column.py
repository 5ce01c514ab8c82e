"""Results by a column of the table: a row for each value, corrected together, and an interaction test."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run_here
from factories import make_pair
from scipy import stats

import analysis
from analysis.evidence import Evidence
from analysis.reports.notebook import make_evidence
from analysis.reports.sentences import describe_methods
from analysis.sections.results import by_column
from analysis.sections.results.by_column import measure_shares_by_column_value, run_interaction_tests
from analysis.sections.results.shares import measure_total_shares
from analysis.stats.interaction import run_interaction_test
from guard_eval.errors import StudyError
from guard_eval.texts.columns import average_traces_by_pair


def test_interaction_agrees_with_scipy():
    rng = np.random.default_rng(5)
    scores, values = rng.choice([-1.0, 0.0, 1.0], 60), np.repeat([0, 1, 2], 20)
    scores[values == 2] += rng.choice([0.0, 1.0], 20)

    def statistic(*groups, axis=-1):
        return sum(group.sum(axis=axis) ** 2 / group.shape[axis] for group in groups)

    groups = [scores[values == value] for value in range(3)]
    other = stats.permutation_test(
        groups, statistic, permutation_type="independent", alternative="greater", n_resamples=9999, rng=1
    )
    estimate = run_interaction_test(scores, np.ones(60), values, np.arange(60))
    assert estimate.p == pytest.approx(other.pvalue, abs=0.01)


def test_interaction_within_units_tests_paired_differences():
    """All of eight units favour the same of two values: two of 2^8 exchanges are as far apart."""
    sums = np.concatenate([np.ones(8), np.zeros(8)])
    estimate = run_interaction_test(sums, np.ones(16), np.repeat([0, 1], 8), np.tile(np.arange(8), 2))
    assert "within prompts" in estimate.method
    assert estimate.p == pytest.approx(2 / 2**8, abs=0.003)


def test_interaction_test_holds_its_level():
    rng = np.random.default_rng(0)
    small = [
        run_interaction_test(
            rng.normal(size=30), rng.integers(1, 4, 30), rng.integers(0, 2, 30), range(30), seed=n
        ).p
        for n in range(200)
    ]
    # At most 10 + 2 · 3.1 of 200 p-values below .05 are to be expected.
    assert sum(p <= 0.05 for p in small) <= 17


@pytest.mark.parametrize("seed", range(10))
def test_interaction_p_of_equal_groups_is_one(seed):
    scores = np.random.default_rng(seed).choice([0, 1 / 3, 0.5, 2 / 3, 1], 8)
    values = np.repeat([0, 1], 8)
    assert run_interaction_test([*scores, *scores], np.ones(16), values, np.arange(16)).p == 1


def test_interaction_needs_two_values():
    assert run_interaction_test([1, 0], [1, 1], [0, 0], [0, 1]).p is None


def votes(**columns):
    """Return the votes of two raters, who prefer alpha on ten stories and beta on ten poems."""
    rows = [
        {"item": n, "rater": rater, "model_a": "alpha", "model_b": "beta", "winner": "AB"[n >= 10]}
        | {"genre": ("story", "poem")[n >= 10], **{name: cells[n] for name, cells in columns.items()}}
        for n in range(20)
        for rater in "xy"
    ]
    return pd.DataFrame(rows)


def test_values_of_a_column_share_one_correction():
    rows = measure_shares_by_column_value(make_evidence(votes(), by=["genre"]))
    assert [(row.value, row.win_share.value, row.wins, row.units) for row in rows] == [
        ("poem", 0.0, 0, 10),
        ("story", 1.0, 20, 10),
    ]
    # The sign test of ten of ten has p = 2 / 2^10; Holm doubles the first and keeps the second above it.
    assert [row.p_adjusted for row in rows] == pytest.approx([2 * 2 / 2**10] * 2)


def test_interaction_test_uses_prompts_as_units():
    [row] = run_interaction_tests(make_evidence(votes(), by=["genre"]))
    assert (row.groups, row.units) == (2, 20)
    assert row.p == pytest.approx(1 / 10_000)  # 2 of C(20, 10) = 184,756 permutations are as extreme


def test_interaction_is_tested_within_prompts_if_values_vary():
    [row] = run_interaction_tests(make_evidence(votes(), by=["rater"]))
    assert "within prompts" in row.method
    assert row.p == 1


def rate_by_taste(shared_pairs=True):
    """Return the votes of three native raters, who always prefer alpha, and three others, who prefer beta."""
    rows = [
        {"item": n if shared_pairs else f"{ord(rater)}-{n}", "rater": rater, "winner": "AB"[rater > "c"]}
        | {"model_a": "alpha", "model_b": "beta", "native": rater <= "c", "genre": ("story", "poem")[n >= 5]}
        | {"country": "at" if rater in "ad" else "it"}
        for n in range(10)
        for rater in "abcdef"
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("shared_pairs", [True, False])
@pytest.mark.parametrize(
    ("column", "p"),
    [
        ("native", 2 / 20),  # of 20 ways to choose three of six raters, two separate the tastes
        ("country", 1.0),
        ("genre", None),  # raters may differ in their taste for genres, which no exchange of prompts shows
    ],
)
def test_property_of_sampled_raters_is_exchanged_between_raters(shared_pairs, column, p):
    votes_of_people = rate_by_taste(shared_pairs).assign(rater_kind="person")
    [row] = run_interaction_tests(make_evidence(votes_of_people, by=[column], raters="random"))
    assert row.units == 6
    assert row.p == (p if p is None else pytest.approx(p, abs=0.01))
    assert ("remove this setting" in row.note) == (p is None)


def test_interaction_is_about_these_raters_by_default():
    table = rate_by_taste().assign(rater_kind="person")
    [row] = run_interaction_tests(make_evidence(table, by=["native"]))
    # All of ten prompts have the same sign: the chance of one exchange is 2 / 2^10.
    assert row.p == pytest.approx(2 / 2**10, abs=0.002)
    [row] = run_interaction_tests(make_evidence(table, by=["genre"]))
    assert row.p == 1
    [row] = run_interaction_tests(make_evidence(table, by=["rater"], raters="random"))
    assert row.p < 0.001


def test_numbers_are_divided_into_thirds():
    rows = measure_shares_by_column_value(make_evidence(votes(words=list(range(20))), by=["words"]))
    assert [row.value for row in rows] == ["0 to 6", "7 to 13", "14 to 19"]


OF_RATINGS = "this column describes the ratings"
"""Split by what raters chose, every result would be certain."""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gender", "the table has no such column; did you mean 'genre'"),
        ("title", "the column has 20 different texts; group them"),
        ("region", "the column is empty"),
        *(
            (name, OF_RATINGS)
            for name in ("winner", "verdict", "model_a", "seconds", "confidence_score", "rt", "Reason")
        ),
    ],
)
def test_unusable_split_column_is_refused(name, message):
    table = votes(title=[f"t{n}" for n in range(20)], region=[None] * 20, seconds=range(20))
    table = table.assign(confidence_score=[n // 7 % 2 for n in range(40)])
    table = table.assign(rt=1, Reason="fluent")
    if name in {"confidence_score", "rt", "Reason"}:
        table = table[table["rater"] == "x"]  # with one verdict a pair, an answer's cells never differ
    with pytest.raises(StudyError, match=f"--by {name}: {message}"):
        measure_shares_by_column_value(make_evidence(table, by=[name]))


def test_columns_of_pairs_or_raters_can_split_results(tmp_path):
    table = votes(genre2=["tale", "poem"] * 10).assign(country=["at", "de"] * 20)
    # The strength of the guidance is equal for both raters of each pair.
    table = table.assign(strength=table["item"] % 2)
    assert analysis.report(table, tmp_path, by=["genre2", "country", "strength"]).paths


def test_report_splits_results_by_a_column(monkeypatch, capsys, tmp_path):
    votes(country=["at", "de"] * 10).to_csv(tmp_path / "votes.csv", index=False)
    dry = run_here(monkeypatch, capsys, tmp_path, "report", "votes.csv", "--dry-run").out
    assert "not used" in dry
    wrong = run_here(monkeypatch, capsys, tmp_path, "report", "votes.csv", "--dry-run", "--by", "nope")
    assert wrong.code == 2
    assert "--by nope: the table has no such column" in wrong.err
    ran = run_here(monkeypatch, capsys, tmp_path, "report", "votes.csv", "--by", "genre", "--by", "country")
    assert ran.code == 0
    assert "Does the share depend on genre and country?" in ran.out
    assert "not used" not in ran.out
    folder = tmp_path / "votes-report"
    page = (folder / "report.md").read_text("utf-8")
    assert "## Does the result depend on genre and country?" in page
    assert "Interaction: 9,999 random permutations of the values" in page
    assert len(pd.read_csv(folder / "csv" / "by_value.csv")) == 4
    assert len(pd.read_csv(folder / "csv" / "interactions.csv")) == 2


def test_reading_names_unused_columns():
    table = analysis.read(votes())
    assert table.attrs["reading"].unused == ("genre",)


def test_declared_interaction_counts_in_family_of_results():
    """Two results with a test each and an interaction each: four tests, and the others as if p were 1."""
    both = pd.concat([votes().assign(criterion=name) for name in ("c", "d")])
    evidence = make_evidence(both, by=["genre"], correction="holm")
    assert [row.p_adjusted for row in run_interaction_tests(evidence)] == pytest.approx(
        [4 / 10_000, 4 / 10_000]
    )
    alone = both[both["genre"] == "story"]
    results = measure_total_shares(make_evidence(alone, by=["genre"]))
    assert [(row.family, row.p_adjusted) for row in results] == [(4, pytest.approx(4 * 2 / 2**10))] * 2
    assert [row.family for row in measure_total_shares(make_evidence(alone, correction="max-t"))] == [2, 2]
    [once, _] = measure_total_shares(make_evidence(alone, correction="max-t"))
    [twice, _] = measure_total_shares(make_evidence(alone, by=["genre"], correction="max-t"))
    assert twice.p_adjusted == pytest.approx(2 * once.p_adjusted)


def test_columns_chosen_later_make_results_exploratory():
    evidence = make_evidence(votes(), by=["genre"])
    assert (
        "overall: alpha has 100\u00a0% where genre is story, 0\u00a0% where genre is poem; interaction"
        in (by_column.make_section(evidence).answer)
    )
    explored = Evidence(scored=evidence.scored, context=replace(evidence.context, by=(), explored=("genre",)))
    section = by_column.make_section(explored)
    assert section.answer == "not declared, so no claim"
    assert "Chosen after the plan, and no claim: genre." in section.notes
    assert [row.family for row in measure_total_shares(explored)] == [1]


def test_trace_of_a_pair_is_mean_of_its_texts():
    pairs = [make_pair(ids=ids, id=ids[1]) for ids in (("a", "b"), ("a", "c"), ("e", "d"))]
    means = {"a": {"H": 1.0, "k": 4.0}, "b": {"H": 2.0}}
    columns = average_traces_by_pair(means, pairs)
    assert columns == {"b": {"H": 1.5, "k": 4.0}, "c": {"H": 1.0, "k": 4.0}, "d": {}}


def test_methods_section_names_declared_columns():
    assert any(
        sentence.startswith("Whether a result depends on genre is tested by random permutations")
        for sentence in describe_methods(make_evidence(votes(), by=["genre"]))
    )
