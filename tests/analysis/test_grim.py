"""GRIM against counting through every share, and against what the paper's tables can and cannot be."""

import csv
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.core.grim import consistent, fitting_sizes, printed, smallest_n

GOLDEN = Path(__file__).parents[1] / "golden"
SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "judgments"
TOPK_TOPP = SHARED / "guard_llm_topk_topp_shares_from_paper.csv"

# GUARD paper, tab:llm_judgements: GUARD wins, opponent wins, tie, "for n=150 continuations".
TOP_K = {
    "overall": ("65.8", "17.5", "16.7"),
    "fluency": ("76.7", "23.3", "0.0"),
    "coherence": ("80.0", "20.0", "0.0"),
    "factuality": ("0.0", "0.0", "100.0"),
    "informativeness": ("78.3", "21.7", "0.0"),
    "interestingness": ("80.0", "20.0", "0.0"),
    "story_development": ("80.0", "20.0", "0.0"),
}
TOP_P = {
    "overall": ("49.2", "34.2", "16.7"),
    "fluency": ("56.7", "43.3", "0.0"),
    "coherence": ("58.3", "41.7", "0.0"),
    "factuality": ("0.0", "0.0", "100.0"),
    "informativeness": ("60.0", "40.0", "0.0"),
    "interestingness": ("60.0", "40.0", "0.0"),
    "story_development": ("60.0", "40.0", "0.0"),
}


def by_counting(percentage: str, n: int, decimals: int, half_steps: bool) -> list[Fraction]:
    """Every count whose share lies within half a unit of the last place of what was printed."""
    counts = [Fraction(k, 2) for k in range(2 * n + 1)] if half_steps else [Fraction(k) for k in range(n + 1)]
    within = Fraction(1, 2 * 10**decimals)
    return [count for count in counts if abs(100 * count / n - Fraction(percentage)) <= within]


@given(st.data(), st.integers(1, 130), st.integers(0, 2), st.booleans())
def test_a_cell_is_what_counting_finds(data, n, decimals, half_steps):
    unit = data.draw(st.integers(0, 100 * 10**decimals))
    text = str(Decimal(unit).scaleb(-decimals))
    result = consistent([text], n, decimals, half_steps=half_steps)
    found = by_counting(text, n, decimals, half_steps)
    (cell,) = result.cells
    assert result.possible == cell.possible == bool(found)
    assert (cell.fewest, cell.most) == ((found[0], found[-1]) if found else (None, None))
    assert found or result.informative


@given(st.integers(1, 400), st.integers(0, 2), st.data())
def test_what_counts_give_is_possible_and_fits(n, decimals, data):
    wins = data.draw(st.integers(0, n))
    ties = data.draw(st.integers(0, n - wins))
    row = [data.draw(st.sampled_from(printed(k, n, decimals))) for k in (wins, ties, n - wins - ties)]
    assert consistent(row, n, decimals, whole=True).possible
    assert n in fitting_sizes(row, decimals, limit=400, whole=True)
    split = printed(wins + ties / 2, n, decimals)[0]
    assert consistent([split], n, decimals, half_steps=True).possible


@given(st.integers(1, 60), st.integers(0, 1000))
def test_the_nearest_is_no_farther_than_any_other(n, unit):
    cell = consistent([str(Decimal(unit).scaleb(-1))], n, 1).cells[0]
    distance = min(abs(Fraction(100 * k, n) - Fraction(unit, 10)) for k in range(n + 1))
    assert abs(abs(Fraction(cell.nearest) - Fraction(unit, 10)) - distance) <= Fraction(1, 20)


@pytest.mark.parametrize("percentage", ["78.3", "58.3", "17.5", "65.8", "21.7", "41.7", "49.2", "34.2"])
def test_impossible_at_the_stated_150(percentage):
    # steps of 2/3 %: 78.0 and 78.7, 58.0 and 58.7, 17.3 and 18.0, …
    assert not consistent([percentage], 150, 1).possible


def test_the_neighbours_of_an_impossible_cell():
    assert consistent(["17.5"], 150, 1).cells[0].nearest == Decimal("17.3")  # 26/150
    assert consistent(["58.3"], 150, 1).cells[0].nearest == Decimal("58.0")  # 87/150


@pytest.mark.parametrize("table", [TOP_K, TOP_P])
def test_each_criterion_of_the_llm_table_fits_60_and_120(table):
    common = set(range(1, 151))
    for criterion, row in table.items():
        if criterion != "overall":
            common &= set(fitting_sizes(row, 1, limit=150, whole=True))
    assert {60, 120} <= common
    assert 150 not in common
    assert min(common) == 60


@pytest.mark.parametrize("table", [TOP_K, TOP_P])
def test_the_overall_row_fits_120_or_six_criteria_of_60_pooled(table):
    # 79/120 = 65.83 and 59/120 = 49.17 are no counts of 60; pooled over six criteria, n is 360.
    for n, fits in ((60, False), (120, True), (150, False), (360, True), (720, True), (900, False)):
        assert consistent(table["overall"], n, 1, whole=True).possible is fits


def test_the_same_from_the_transcribed_table():
    if not TOPK_TOPP.is_file():
        pytest.skip(f"{TOPK_TOPP.name} is not beside the repository")
    with TOPK_TOPP.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 14
    for row in rows:
        cells = (row["guard_pct"], row["opponent_pct"], row["tie_pct"])
        typed = {"top-k": TOP_K, "top-p": TOP_P}[row["opponent"]][row["criterion"]]
        assert [Decimal(cell) for cell in cells] == [Decimal(cell) for cell in typed]


def test_the_acs_columns_do_fit_their_n():
    with (GOLDEN / "guard_llm_shares_from_paper.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cells = [row["guard_pct"], row["acs_pct"], row["tie_pct"]]
            assert consistent(cells, 50 if row["dataset"] else 150, 1, whole=True).possible


def test_the_human_all_row_is_not_what_its_counts_give():
    with (GOLDEN / "guard_human_counts_from_paper.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    shares = {}
    for criterion in ("coherence", "fluency"):
        own = [row for row in rows if row["criterion"] == criterion]
        wins, ties, n = (
            sum(int(row[name]) for row in own) for name in ("guard_wins", "ties", "n_judgements")
        )
        shares[criterion] = printed(wins + ties / 2, n, 2)
    # tab:humaneval_resultglacs prints 58.00 and 53.00, which 600 verdicts could give; these do not.
    assert shares == {"coherence": (Decimal("57.92"),), "fluency": (Decimal("52.83"),)}
    assert consistent(["58.00", "42.00"], 600, 2, half_steps=True, whole=True).possible


def test_the_human_rows_of_one_dataset_need_half_steps():
    # tab:humaneval_resultglacs: 43.75 and 56.25 of 200 are 87.5 and 112.5.
    cells = consistent(["43.75", "56.25"], 200, 2, half_steps=True, whole=True).cells
    assert [(cell.fewest, cell.most) for cell in cells] == [(87.5, 87.5), (112.5, 112.5)]
    assert not consistent(["43.75", "56.25"], 200, 2, whole=True).possible


def test_possible_cells_whose_counts_cannot_sum():
    # of 3, 33 is 1 and 67 is 2
    assert consistent([33, 33, 33], 3, 0, whole=True).possible
    result = consistent([67, 67], 3, 0, whole=True)
    assert (result.possible, result.sums) == (False, False)
    assert consistent([67, 67], 3, 0).possible


def test_rounding_alone_does_not_break_a_sum():
    # thirds print as 33.3 and sum to 99.9
    assert consistent(["33.3", "33.3", "33.3"], 150, 1, whole=True).possible


def test_a_half_may_be_rounded_either_way():
    # 1/8 = 12.5 %
    assert consistent([12], 8, 0).possible
    assert consistent([13], 8, 0).possible
    assert not consistent([14], 8, 0).possible


def test_no_size_fits():
    assert smallest_n([50, 60], 0, whole=True) is None
    # 1/n ≤ 0.15 % from n = 667 on
    assert smallest_n(["0.1"], 1, limit=666) is None
    assert smallest_n(["0.1"], 1) == 667


def test_beyond_the_rounding_nothing_is_impossible():
    assert not consistent(["78.3"], 1000, 1).informative
    assert consistent(["78.3"], 999, 1).informative


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: consistent([101], 10, 0), "between 0 and 100; got 101"),
        (lambda: consistent([-1], 10, 0), "between 0 and 100"),
        (lambda: consistent(["nan"], 10, 0), "between 0 and 100"),
        (lambda: consistent(["many"], 10, 0), "'many' is not a percentage"),
        (lambda: consistent(["7.25"], 10, 1), "more than 1 decimal"),
        (lambda: consistent([50], 0, 0), "at least 1; got 0"),
        (lambda: consistent([50], 10, -1), "decimals lie between"),
        (lambda: consistent([], 10, 0), "at least one percentage"),
        (lambda: fitting_sizes([], 0), "at least one percentage"),
        (lambda: printed(11, 10, 0), "multiple of ½"),
        (lambda: printed(0.25, 10, 0), "multiple of ½"),
    ],
)
def test_bad_inputs(call, message):
    with pytest.raises(ValueError, match=message):
        call()
