"""What a column's cells say about its role: rows of checks, raters, and verdicts under other headings."""

import pandas as pd
import pytest
from outcomes import AB, counts, refusal

import analysis


def judged(choose, items=12, raters="uvw", **more):
    """Return a row for each item and rater. `more` has functions of the item and the rater's number."""
    return pd.DataFrame(
        {"item": item, **AB, "annotator": rater, "winner": choose(item, number)}
        | {name: cell(item, number) for name, cell in more.items()}
        for item in range(items)
        for number, rater in enumerate(raters)
    )


@pytest.mark.parametrize(
    ("verdict", "name", "right"),
    [
        ("winner", "gold", lambda item, _: "A" if item < 3 else None),
        ("winner", "GOLDEN:winner", lambda item, _: "alpha" if item < 3 else ""),
        ("winner", "right_answer", lambda item, _: "A" if item < 3 else "none"),
        ("winner", "Lösung", lambda item, _: "AB"[item % 2] if item < 3 else "-"),
        ("winner", "expected", lambda item, number: "AB"[number % 2] if item < 3 else None),
        ("which_summary_is_better", "which_summary_is_better_gold", lambda item, _: "A" if item < 3 else ""),
    ],
)
def test_rows_with_a_right_answer_are_asked_about(verdict, name, right):
    """Each rater is right on the 3 checks; of the other 27 verdicts, a third is for beta."""
    table = judged(
        lambda item, number: "B" if item > 2 and (item + number) % 3 == 0 else "A", **{name: right}
    )
    table = table.rename(columns={"winner": verdict})
    assert f"columns.excluded={name}" in refusal(table)
    assert counts(table, columns={"excluded": name}) == ("18/0/9", 9)
    if verdict == "winner" and name != "right_answer":
        assert counts(table, columns={"excluded": ""}) == ("27/0/9", 12)


def test_results_of_checks_are_asked_about():
    table = judged(lambda *_: "A", passed_it=lambda item, number: number < 2 if item < 3 else None)
    assert "'passed_it' is filled in 9 of 36 rows. These rows may be check questions" in refusal(table)
    assert counts(table, columns={"excluded": ""}) == ("36/0/0", 12)


@pytest.mark.parametrize(
    "more",
    [
        {"has_plot": lambda item, _: "yes" if item < 3 else None},
        {"adjudicated": lambda item, _: "A" if item < 3 else None},
        {"remark": lambda item, number: "tie" if (item, number) == (2, 1) else None},
    ],
)
def test_sparse_column_of_other_kinds_is_not_asked_about(more):
    assert counts(judged(lambda *_: "A", **more)) == ("36/0/0", 12)


def test_rater_of_few_pairs_in_a_wide_table_counts():
    rows = [{"item": n, **AB, "rater_1": "A", "rater_2": "B" if n < 3 else None} for n in range(12)]
    assert counts(pd.DataFrame(rows)) == ("12/0/3", 12)


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("practice", (1, 0)),
        ("valid", ("no", "yes")),
        ("exclude", ("x", None)),
        ("status", ("draft", "submitted")),
        ("trial_type", ("practice", "main")),
    ],
)
@pytest.mark.parametrize("is_survey", [False, True])
def test_marks_of_items_in_another_file_leave_out_rows(tmp_path, name, marks, is_survey):
    """Three of twelve items are marked; alpha is always preferred, and stands at B on odd items."""
    answers = judged(lambda item, _: "AB"[item % 2])[["item", "annotator", "winner"]]
    declared = {}
    if is_survey:
        answers = answers.pivot_table(
            index="annotator", columns="item", values="winner", aggfunc="first"
        ).add_prefix("Q")
        answers = answers.reset_index()
        declared = {"headings": "pair_id", "rater": "annotator"}
    start = "Q" if is_survey else ""
    key = [
        {"item": f"{start}{n}", "A": ("alpha", "beta")[n % 2], "B": ("beta", "alpha")[n % 2]}
        for n in range(12)
    ]
    paths = [tmp_path / "answers.csv", tmp_path / "key.csv"]
    answers.to_csv(paths[0], index=False)
    pd.DataFrame(key).assign(**{name: [marks[n > 2] for n in range(12)]}).to_csv(paths[1], index=False)
    verdicts = analysis.read(paths, columns=declared)
    assert (list(verdicts["verdict"]), verdicts["pair_id"].nunique()) == (["alpha"] * 27, 9)


def test_right_answers_of_a_key_are_asked_about(tmp_path):
    answers = judged(lambda *_: "A")[["item", "annotator", "winner"]]
    key = [{"item": n, "A": "alpha", "B": "beta", "correct": "A" if n < 3 else None} for n in range(12)]
    paths = [tmp_path / "answers.csv", tmp_path / "key.csv"]
    answers.to_csv(paths[0], index=False)
    pd.DataFrame(key).to_csv(paths[1], index=False)
    assert "--set columns.excluded=correct" in refusal(paths)
    assert len(analysis.read(paths, columns={"excluded": "correct"})) == 27


def test_rows_of_other_screens_are_left_out():
    """An experiment's file has rows for instructions, which have neither an item nor methods."""
    table = judged(lambda item, _: "A" if item < 8 else "B")
    screens = pd.DataFrame([{"annotator": rater} for rater in "uvw"])
    assert counts(pd.concat([screens, table], ignore_index=True)) == ("24/0/12", 12)


@pytest.mark.parametrize("answers", [("A", "B", "tie"), ("left", "right"), ("Response A", "Response B")])
@pytest.mark.parametrize("names", [("human", "judge"), ("gpt4", "annotator"), ("expert", "crowd")])
def test_column_of_verdicts_never_names_raters(names, answers):
    """The first rater says A on 8 of 12 items, the second on 4."""
    rows = [
        {"item": n, "left": "alpha", "right": "beta"}
        | {name: answers[n >= 8 - 4 * place] for place, name in enumerate(names)}
        for n in range(12)
    ]
    rows[-1][names[0]] = answers[-1]
    table = pd.DataFrame(rows)
    assert "--set columns.headings=rater" in refusal(table)
    verdicts = analysis.read(table, columns={"headings": "rater"}, rater_kind="person")
    wins = verdicts["verdict"].eq("alpha").groupby(verdicts["rater"]).sum()
    assert wins.to_dict() == {names[0]: 8, names[1]: 4}
