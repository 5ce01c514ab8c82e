"""Tables that can be read in two ways: a wrong guess would make the result look more certain, or wrong."""

import pandas as pd
import pytest

import analysis
from guard_eval.errors import StudyError

AB = {"model_a": "alpha", "model_b": "beta"}


def counts(table, **declared):
    rows = analysis.shares(table, rater_kind="person", **declared).itertuples()
    return [(f"{row.wins}/{row.ties}/{row.losses}", row.units) for row in rows]


def refusal(table, **declared):
    with pytest.raises(StudyError) as error:
        analysis.read(table, **declared)
    return str(error.value)


def rated(name, raters=3, items=20, cell=str):
    """Return a table in which each rater judges each item once, and prefers alpha on the first 13."""
    return pd.DataFrame(
        {name: cell(item), **AB, "rater": f"r{rater}", "winner": "model_a" if item < 13 else "model_b"}
        for rater in range(raters)
        for item in range(items)
    )


@pytest.mark.parametrize("name", ["trial", "round", "repetition", "time", "position", "session_id", "score"])
@pytest.mark.parametrize("cell", [str, lambda item: f"{1 + item // 5}.{1 + item % 5}"])
def test_column_that_raters_share_may_be_the_item(name, cell):
    table = rated(name, cell=cell)
    assert f"columns.pair_id={name}" in refusal(table)
    assert counts(table, columns={"pair_id": name}) == [("39/0/21", 20)]


@pytest.mark.parametrize(
    "rows",
    [
        [{"scene": n % 5, **AB, "rater": f"r{n}", "winner": "model_a"} for n in range(30)],
        [{"scene": "one", **AB, "rater": f"r{n}", "winner": "model_a"} for n in range(10)],
        [
            {"scene": n % 6, "model_a": "mmmnno"[n % 6], "model_b": "nopopp"[n % 6], "rater": f"r{n // 6}"}
            | {"winner": "A"}
            for n in range(60)
        ],
    ],
)
def test_item_may_be_fixed_by_the_rater_or_the_comparison(rows):
    assert "--set columns.pair_id=scene" in refusal(pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("name", "is_empty", "message"),
    [
        ("scenario", lambda row: row == 7, "--set columns.pair_id=scenario"),
        ("case_id", lambda row: row == 7, "case_id names what was compared, and is empty on row 8"),
        ("prompt", lambda row: row % 3 > 0, "prompt names what was compared, and is empty on rows 2, 3, 5"),
    ],
)
def test_item_that_is_empty_in_a_row_is_refused(name, is_empty, message):
    table = rated(name)
    table[name] = [None if is_empty(row) else cell for row, cell in enumerate(table[name])]
    assert message in refusal(table)


@pytest.mark.parametrize("name", ["n", "Count", "Freq", "num_votes", "Anzahl"])
def test_counted_votes_are_refused(name):
    rows = [{**AB, "winner": word, name: n} for word, n in (("alpha", 30), ("beta", 10), ("tie", 5))]
    assert f"{name} may be the number of votes of each row" in refusal(pd.DataFrame(rows))
    assert len(analysis.read(pd.DataFrame(rows).assign(**{name: 1}))) == 3


@pytest.mark.parametrize("word", ["a bit better", "A little better", "a lot worse", "a better"])
def test_article_names_no_side(word):
    rows = [{"item": n, **AB, "winner": ("about the same", word)[n % 2]} for n in range(10)]
    assert f"the verdict {word!r} names no method" in refusal(pd.DataFrame(rows))


@pytest.mark.parametrize(
    "names", [("winner_left", "winner_right"), ("votes_1", "votes_2"), ("chosen1", "chosen2")]
)
def test_marks_of_places_follow_the_sides(names):
    """Alpha is better on 30 of 40 items, and stands second on every other one."""
    rows = [
        {"item": n, **AB, "shown_first": ("alpha", "beta")[n % 2]}
        | {name: int((n % 2 != (n % 4 == 3)) == place) for place, name in enumerate(names)}
        for n in range(40)
    ]
    table = pd.DataFrame(rows)
    assert counts(table) == [("30/0/10", 40)]
    assert "name places, and no column says" in refusal(table.drop(columns="shown_first"))


TIES = [
    *(("was_tie", (0, 1)), ("tie?", ("no", "yes")), ("isTie", (False, True)), ("tie_flag", (0, 1))),
    *(
        ("both_acceptable", (0, 1)),
        ("equal", ("", "x")),
        ("result", ("win", "tie")),
        ("outcome", ("", "draw")),
    ),
]


@pytest.mark.parametrize(("name", "cells"), TIES)
def test_column_of_ties_is_read(name, cells):
    """Each fourth of 20 rows is a tie; alpha wins ten of the others."""
    rows = [{"prompt": n, name: cells[n % 4 == 0], "better": "alpha" if n % 2 else "beta"} for n in range(20)]
    table = pd.DataFrame(rows)
    assert counts(table.assign(**AB)) == [("10/5/5", 20)]
    loser = table["better"].map({"alpha": "beta", "beta": "alpha"})
    assert counts(table.assign(worse=loser)) == [("10/5/5", 20)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({**AB, "winner": "A", "ties": "perhaps"}, "ties may say which verdicts are ties"),
        ({"winner": "tie", "loser": "tie"}, "winner is a tie on rows 1, 2"),
        (
            {**AB, "model_c": "gamma", "winner": "alpha"},
            "model_a and model_c are two of three or more options",
        ),
        ({"option1": "a1", "option2": "b1", "option3": "c1", "best": "a1"}, "option1 and option3 are two"),
    ],
)
def test_other_outcomes_than_two_are_refused(columns, message):
    assert message in refusal(pd.DataFrame([{"item": n, **columns} for n in range(10)]))


@pytest.mark.parametrize(
    ("name", "cell", "expected"),
    [("winner_tie", 0, ("8/4/2", 14)), ("skipped", 1, ("8/0/2", 10)), ("other", 1, ("8/6/2", 16))],
)
def test_row_of_zeros_is_a_tie_only_without_another_meaning(name, cell, expected):
    """Eight rows for alpha, two for beta, and six rows of zeros; four more have their own mark."""
    marks = [(1, 0, 0)] * 8 + [(0, 1, 0)] * 2 + [(0, 0, cell)] * 6
    marks += [(0, 0, 1)] * 4 if name == "winner_tie" else []
    rows = [{"item": n, **AB, "winner_a": a, "winner_b": b, name: c} for n, (a, b, c) in enumerate(marks)]
    assert counts(pd.DataFrame(rows)) == [expected]


def test_offered_roles_of_headings_are_read():
    table = pd.DataFrame([{"prompt": f"p{n}", **AB, "ann": "A", "bob": "B"} for n in range(6)])
    assert "--set columns.headings=rater" in refusal(table)
    assert counts(table, columns={"headings": "rater"}) == [("6/0/6", 6)]
    assert counts(table, columns={"headings": "criterion"}) == [("6/0/0", 6), ("0/0/6", 6)]


@pytest.mark.parametrize("heading", ["Q{} [{}]", "Q{}[{}]", "Q{}_{}"])
def test_grid_of_a_survey_has_criteria(heading):
    names = [heading.format(n, criterion) for n in range(5) for criterion in ("Fluency", "Style")]
    table = pd.DataFrame([{"Email": f"p{n}", **dict.fromkeys(names, "AB"[n % 2])} for n in range(4)])
    declared = {"headings": "pair_id", "rater": "Email"}
    result = analysis.read(table, columns=declared, verdicts={"A": "alpha", "B": "beta"})
    assert set(result["pair_id"]) == {f"Q{n}" for n in range(5)}
    assert set(result["criterion"]) == {"Fluency", "Style"}


def test_column_named_like_two_sides_is_no_third_method():
    rows = [
        {"left_model": "x1", "right_model": "y1", "model": "m", "item": n, "winner": "left"} for n in range(9)
    ]
    assert counts(pd.DataFrame(rows)) == [("9/0/0", 9)]


def test_named_index_is_a_column():
    assert counts(rated("item").set_index("item")) == [("39/0/21", 20)]


def test_declarations_of_a_read_table_stay():
    rows = [
        {"pair_id": f"{n}-{m}", "topic": n, **AB, "rater": "r", "winner": "A"}
        for n in range(5)
        for m in "xyz"
    ]
    assert "columns.prompt_id=topic" in refusal(pd.DataFrame(rows))
    table = analysis.read(pd.DataFrame(rows), columns={"prompt_id": ""}, rater_kind="person")
    assert counts(table) == [("15/0/0", 15)]
