"""Published percentages: the paper's tables, and files that are not what they should be."""

from pathlib import Path

import pytest

from analysis.published import read_published
from guard_eval.errors import StudyError

GOLDEN = Path(__file__).parents[1] / "golden"

# GUARD paper, tab:llm_judgements, "for n=150 continuations": against Top-k and Top-p, as printed.
TOP = """opponent,criterion,guard,opponent_pct,tie
top-k,overall,65.8,17.5,16.7
top-p,overall,49.2,34.2,16.7
top-k,fluency,76.7,23.3,0
top-p,coherence,58.3,41.7,0
top-k,informativeness,78.3,21.7,0
top-p,informativeness,60,40,0
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "table.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_the_papers_table_cannot_rest_on_150(file):
    found = read_published(file(TOP), n="150")
    assert found.columns == ("guard", "opponent_pct", "tie")
    assert [row.name for row in found.impossible] == [
        *("top-k, overall", "top-p, overall", "top-p, coherence", "top-k, informativeness")
    ]
    # 150 verdicts: 118/150 = 78.67 and 117/150 = 78.0.
    guard = found.rows[4].grim.cells[0]
    assert (guard.possible, str(guard.nearest)) == (False, "78.0")
    # 47/60 = 78.33, and 35/60 = 58.33: a row of one criterion fits 60; all of them, and the pooled row, 120.
    assert all(60 in row.fits and 120 in row.fits for row in found.rows[2:])
    assert 60 not in found.rows[0].fits
    assert found.fits[0] == 120
    assert 360 in found.fits


def test_the_papers_other_table_rests_on_150():
    path = GOLDEN / "guard_llm_shares_from_paper.csv"
    assert read_published(path, n="150").fits[0] == 150
    at_50 = read_published(path, n="50").impossible
    assert {row.name for row in at_50} >= {"coherence", "fluency", "story_development"}  # those over datasets
    assert not any("," in row.name for row in at_50)  # a name and a dataset: 50 each


def test_n_from_a_column(file):
    found = read_published(file("name,won,lost,of\na,33.3,66.7,3\nb,33.3,66.7,4\n"), n="of")
    assert found.columns == ("won", "lost")
    assert [(row.n, row.grim.possible) for row in found.rows] == [(3, True), (4, False)]


def test_a_total_that_is_none(file):
    found = read_published(file("name,won,tie,lost\na,50.0,30.0,21.0\nb,33.3,33.3,33.3\n"), n="10")
    assert [row.totals for row in found.rows] == [False, True]  # 99.9 is three times a third
    assert found.rows[0].fits == ()
    alone = read_published(file("name,won,tie,lost\na,50.0,30.0,20.0\n"), n="10", whole=False)
    assert (alone.rows[0].totals, alone.rows[0].grim.possible) == (None, True)


def test_ties_split_make_half_steps(file):
    text = "name,share\na,57.5\n"
    assert not read_published(file(text), n="20", columns=["share"]).rows[0].grim.possible  # steps of 5
    assert read_published(file(text), n="20", half_steps=True).rows[0].grim.possible  # of 2.5


def test_shares_are_read_as_percentages(file):
    found = read_published(file("name,won,lost\na,0.667,0.333\nb,1,0\n"), n="4")
    assert (found.shares, found.decimals) == (True, 1)
    assert [str(cell.percentage) for cell in found.rows[0].grim.cells] == ["66.7", "33.3"]
    assert found.rows[0].fits[0] == 3


def test_columns_that_are_no_percentages_are_left_alone(file):
    found = read_published(file("name,won %,lost %,year\na,50%,50%,2025\n"), n="2")
    assert found.columns == ("won %", "lost %")
    assert found.decimals == 0


def test_decimals_that_a_file_does_not_show(file):
    # 33.0 written as 33: no third of three is that.
    text = "name,won,lost\na,33,67\n"
    assert read_published(file(text), n="3").rows[0].grim.possible
    assert not read_published(file(text), n="3", decimals=1).rows[0].grim.possible


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        ("name,won\na,x\n", {}, "has no column of numbers from 0 to 100"),
        ("name,won\na,x\n", {"columns": ["won"]}, r"line 2: won is 'x'; write a percentage"),
        ("name,won\na,120\n", {"columns": ["won"]}, "line 2: won is '120'"),
        ("name,won\na,\n", {"columns": ["won"]}, "line 2: won is ''"),
        ("name,won\na,nan\n", {"columns": ["won"]}, "line 2: won is 'nan'"),
        ("name,won\na,1.0000000000001\n", {}, "more than 12 decimals"),
        ("name,won\na,50\n", {"columns": ["lost"]}, "has no column 'lost'; it has name, won"),
        ("name,won\na,50\n", {"n": "0"}, "--n '0' is no positive whole number and no column"),
        ("name,won\na,50\n", {"n": "many"}, "--n 'many' is no positive whole number and no column"),
        ("name,won,n\na,50,x\n", {"n": "n"}, "line 2: n is 'x'; write a positive whole number"),
        ("name,won\na,50.5\n", {"decimals": 0}, r"shows 1 decimal\(s\) and --decimals says 0"),
        ("name,won\na,0.5\n", {}, "shares with one decimal are too coarse"),
        ("name,won\n", {}, "has no rows"),
        ("", {}, "has no rows"),
        ("name,won\na,50,3\n", {}, "line 2: 3 cells, and the header has 2"),
        ("won,won\n5,50\n", {}, "a column stands twice"),
        ('name,won\n"a,50\n', {}, "mend the CSV"),
        (b"name,won\n\xff,50\n", {}, "is not UTF-8"),
        ("pair_id,verdict\na,tie\n", {}, "is a table of verdicts.*guard-eval report"),
        ("name,won\n" + "a,50\n" * 2001, {}, "has 2001 rows"),
    ],
)
def test_bad_input(file, text, more, says):
    with pytest.raises(StudyError, match=says):
        read_published(file(text), **{"n": "10", **more})


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StudyError, match=r"cannot read .*nowhere\.csv"):
        read_published(tmp_path / "nowhere.csv", n="10")
