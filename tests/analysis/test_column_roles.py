"""What a column's cells say about its role: rows of checks, raters, and verdicts under other headings."""

import json

import pandas as pd
import pytest
from outcomes import AB, counts, items, refusal, write_tables

import analysis
from analysis.reports.declared import read_table_settings
from guard_eval.errors import StudyError


def judged(choose=lambda item, number: "A", raters="uvw", **more):
    """Return a row for each of 12 items and each rater. `more` has functions of the item and the number."""
    return pd.DataFrame(
        {"item": item, **AB, "annotator": rater, "winner": choose(item, number)}
        | {name: cell(item, number) for name, cell in more.items()}
        for item in range(12)
        for number, rater in enumerate(raters)
    )


ANSWERS = judged()[["item", "annotator", "winner"]]
KEY = pd.DataFrame({"item": range(12), "A": "alpha", "B": "beta"})


@pytest.mark.parametrize(
    ("verdict", "name", "right"),
    [
        ("winner", "gold", lambda item, _: "A" if item < 3 else None),
        ("winner", "GOLDEN:winner", lambda item, _: "alpha" if item < 3 else ""),
        ("winner", "right_answer", lambda item, _: "A" if item < 3 else "none"),
        ("winner", "Lösung", lambda item, _: "AB"[item % 2] if item < 3 else "-"),
        ("winner", "expected", lambda item, number: "AB"[number % 2] if item < 3 else None),
        ("winner", "gold_answer", lambda item, _: "A" if item < 3 else "no"),
        ("winner", "gold_label", lambda item, _: "A" if item < 3 else "False"),
        ("winner", "truth", lambda item, _: "A" if item < 3 else "0"),
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
    table = judged(noticed_it=lambda item, number: number < 2 if item < 3 else None)
    assert "'noticed_it' is filled in 9 of 36 rows. These rows may be check questions" in refusal(table)
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
    assert counts(judged(**more)) == ("36/0/0", 12)


def test_rater_of_few_pairs_in_a_wide_table_counts():
    table = items(12, rater_1="A", rater_2=["B"] * 3 + [None] * 9)
    assert counts(table) == ("12/0/3", 12)


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
    key = pd.DataFrame({"item": range(12), "A": ["alpha", "beta"] * 6, "B": ["beta", "alpha"] * 6})
    declared = {}
    if is_survey:
        survey = answers.pivot_table(index="annotator", columns="item", values="winner", aggfunc="first")
        answers = survey.add_prefix("Q").reset_index()
        key["item"] = [f"Q{n}" for n in range(12)]
        declared = {"headings": "pair_id", "rater": "annotator"}
    key[name] = [marks[n > 2] for n in range(12)]
    paths = write_tables(tmp_path, answers=answers, key=key)
    verdicts = analysis.read(paths, columns=declared)
    assert (list(verdicts["verdict"]), verdicts["pair_id"].nunique()) == (["alpha"] * 27, 9)


def test_right_answers_of_a_key_are_asked_about(tmp_path):
    key = KEY.assign(correct=["A"] * 3 + [None] * 9)
    paths = write_tables(tmp_path, answers=ANSWERS, key=key)
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
    first, second, *_ = answers
    table = items(12).rename(columns={"model_a": "left", "model_b": "right"})
    table[names[0]] = [first] * 8 + [second] * 3 + [answers[-1]]
    table[names[1]] = [first] * 4 + [second] * 8
    assert "--set columns.headings=rater" in refusal(table)
    verdicts = analysis.read(table, columns={"headings": "rater"}, rater_kind="person")
    wins = verdicts["verdict"].eq("alpha").groupby(verdicts["rater"]).sum()
    assert wins.to_dict() == {names[0]: 8, names[1]: 4}


def test_two_columns_that_may_mark_rows_are_asked_about_together():
    """Nine verdicts on three of twelve items are marked: three in each column, and three in both."""
    table = judged(
        QC=lambda item, _: "fail" if item < 2 else "pass",
        task=lambda item, _: "practice" if item in {1, 2} else "main",
    )
    assert "with 'fail' and 'practice' do not count, write --set columns.excluded=QC,task." in refusal(table)
    assert counts(table, columns={"excluded": "QC,task"}) == ("27/0/0", 9)
    assert counts(table, columns={"excluded": "QC"}) == ("30/0/0", 10)
    assert counts(table, columns={"excluded": ""}) == ("36/0/0", 12)
    assert "columns.excluded=tsk: there is no such heading" in refusal(table, columns={"excluded": "QC,tsk"})


@pytest.mark.parametrize("name", ["is_refusal", "is_code", "source", "remark"])
def test_ordinary_columns_of_two_words_mark_no_rows(name):
    assert counts(judged(**{name: lambda item, _: "yes" if item < 6 else "no"})) == (
        "36/0/0",
        12,
    )


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("annotator", ("1", "1.0")),
        ("annotator", ("01", "1")),
        ("prompt_id", ("3", "3.0")),
        ("prompt_id", ("Write a story", "write a story")),
    ],
)
def test_one_name_in_two_spellings_is_refused(column, cells):
    table = judged(raters="u", prompt_id=lambda item, _: f"p{item}")
    table[column] = [cells[item % 2] for item in range(12)]
    assert "these names look alike" in refusal(table)


@pytest.mark.parametrize("cell", ["NA", "NULL", "nan", "-", "#REF!"])
@pytest.mark.parametrize("column", ["annotator", "item"])
def test_word_for_an_empty_cell_names_no_rater_and_no_pair(cell, column):
    table = judged().astype({"item": object})
    table.loc[4, column] = cell
    assert f"{column} is empty on row 5" in refusal(table)


@pytest.mark.parametrize(
    ("heading", "texts"),
    [
        ("prompt", ["Tell a tale", "Tell a tal"]),
        ("story", ["Once upon a time", None]),
        ("question", ["Why?", "How?"]),
    ],
)
def test_pair_with_two_prompts_is_refused(heading, texts):
    """Without these cells there are 4 prompts of 3 pairs each."""
    table = judged(**{heading: lambda item, _: f"text {item // 3}"}).rename(columns={"item": "pair_id"})
    assert counts(table) == ("36/0/0", 4)
    table.loc[[4, 5], heading] = texts
    assert f"{heading}" in refusal(table)
    assert counts(table, columns={"prompt_id": ""}) == ("36/0/0", 12)


def test_equal_ids_with_other_texts_are_refused(tmp_path):
    tables = {
        corpus: judged(
            raters=rater,
            response_a=lambda item, _, corpus=corpus: f"a story {item} about {corpus}",
            response_b=lambda item, _, corpus=corpus: f"another story {item} about {corpus}",
        )
        for corpus, rater in (("news", "u"), ("wiki", "v"))
    }
    assert "the pair '0' has several texts in response_a and response_b" in refusal(
        write_tables(tmp_path, **tables)
    )
    for name, table in tables.items():
        table["item"] = [f"{name}-{item}" for item in table["item"]]
    assert len(analysis.read(write_tables(tmp_path, **tables))) == 24


def test_files_of_several_languages_are_asked_about(tmp_path):
    paths = write_tables(
        tmp_path,
        **{
            name: judged(raters=(f"{name}1", f"{name}2"), language=lambda *_, name=name: name)
            for name in ("de", "en")
        },
    )
    message = refusal(paths)
    assert "--set columns.pair_id=language,item" in message
    assert "--set columns.pair_id=item" in message
    for columns, pairs in (("language,item", 24), ("item", 12)):
        assert analysis.read(paths, columns={"pair_id": columns})["pair_id"].nunique() == pairs


def test_declared_heading_may_be_in_one_of_several_files(tmp_path):
    mine = judged(raters="u")
    yours = judged(raters="v").rename(columns={"annotator": "Person", "winner": "Score"})
    paths = write_tables(tmp_path, mine=mine, yours=yours)
    verdicts = analysis.read(paths, columns={"rater": "Person", "verdict": "Score"})
    assert verdicts["rater"].value_counts().to_dict() == {"u": 12, "v": 12}


def test_equal_items_in_two_keys_are_one_item(tmp_path):
    paths = write_tables(tmp_path, answers=ANSWERS, key=KEY, copy=KEY)
    assert len(analysis.read(paths)) == 36
    write_tables(tmp_path, copy=KEY.assign(A="beta", B="alpha"))
    assert "two items have the id '0'" in refusal(paths)


def test_different_report_files_are_refused(tmp_path):
    for folder, kind in (("mine", "person"), ("yours", "model")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "report.toml").write_text(f'rater_kind = "{kind}"\n')
    tables = [tmp_path / "mine/x.csv", tmp_path / "yours/y.csv"]
    with pytest.raises(StudyError, match="differ; write the same declarations in both, or in one"):
        read_table_settings(tables, ())
    (tmp_path / "mine/report.toml").unlink()
    assert read_table_settings(tables, ())[0].rater_kind == "model"


def test_response_id_names_raters_only_if_declared():
    table = judged().drop(columns="annotator").assign(response_id=range(36))
    assert "so it may not name the rater. Say which column does" in refusal(table)
    assert counts(table, columns={"rater": ""}) == ("36/0/0", 12)
    with_rater = judged().assign(response_id=range(36))
    assert analysis.read(with_rater)["rater"].nunique() == 3


@pytest.mark.parametrize("names", [("human", "gpt-4o"), ("human_preference", "gpt4_preference")])
def test_people_and_a_model_side_by_side(names):
    table = items(12, **{names[0]: "A", names[1]: ("A", "B")})
    assert "--set columns.headings=rater" in refusal(table)
    verdicts = analysis.read(table, columns={"headings": "rater"})
    assert dict(zip(verdicts["rater"], verdicts["rater_kind"], strict=True)) == {
        names[0]: "person",
        names[1]: "model",
    }


@pytest.mark.parametrize(
    "names", [("winner", "winner_x"), ("vote_1", "vote_2"), ("label", "label_corrected")]
)
def test_columns_of_verdict_words_can_be_raters(names):
    table = items(12, **{names[0]: "A", names[1]: ("B", "A", "A")})
    assert "--set columns.headings=rater" in refusal(table)
    assert counts(table, columns={"headings": "rater"}) == ("20/0/4", 12)


def test_rater_with_too_few_verdicts_is_named():
    """The third rater was unsure of 5 of 12 items."""
    table = items(12, rater1="A", rater2="B", rater3=["A"] * 7 + ["unsure"] * 5)
    assert counts(table) == ("12/0/12", 12)
    notes = analysis.read(table).attrs["reading"].notes
    assert "'rater3' is not read, although 7 of its 12 cells are verdicts" in notes


@pytest.mark.parametrize(
    ("rater", "verdict"),
    [
        ("worker_id", "vote"),
        ("participant_id", "selected"),
        ("Evaluator", "better"),
        ("user", "fluency"),
        ("email", "win_a"),
        ("email", "pick"),
    ],
)
def test_second_file_of_verdicts_is_no_key(tmp_path, rater, verdict):
    mine = judged(raters="u")
    yours = judged(raters="v").rename(columns={"annotator": rater, "winner": verdict})
    if verdict == "win_a":
        yours = yours.assign(win_a=1, win_b=0)
    verdicts = analysis.read(write_tables(tmp_path, mine=mine, yours=yours))
    assert verdicts["rater"].value_counts().to_dict() == {"u": 12, "v": 12}


@pytest.mark.parametrize("verdict", ["pick", "Q1", "result"])
@pytest.mark.parametrize("first", ["A", "B", "tie"])
def test_verdicts_of_an_unnamed_rater_are_no_key(tmp_path, verdict, first):
    mine = judged(lambda n, _: "B" if n else first, raters="u")
    mine = mine.drop(columns="annotator").rename(columns={"winner": verdict})
    yours = judged(raters="v")
    verdicts = analysis.read(write_tables(tmp_path, mine=mine, yours=yours))
    assert verdicts["rater"].value_counts().to_dict() == {"unknown rater": 12, "v": 12}


@pytest.mark.parametrize(
    "name", ["instruction", "window", "winter", "criterion_no", "annotations", "shown_first"]
)
def test_key_may_have_columns_about_the_texts(tmp_path, name):
    paths = write_tables(tmp_path, answers=ANSWERS, key=KEY.assign(**{name: "alpha"}))
    assert len(analysis.read(paths)) == 36


@pytest.mark.parametrize("role", ["item", "aspect"])
@pytest.mark.parametrize(
    "name", ["practice_1", "attention check", "catch-1", "warmup1", "gold_3", "Check 2", "check"]
)
def test_item_or_criterion_called_a_check_is_asked_about(role, name):
    table = judged(raters="u", aspect=lambda *_: "wit").astype({"item": str})
    table.loc[3, role] = name
    assert f"{name!r} may be for practice, check the rater, or sum up" in refusal(table)
    assert len(analysis.read(table, columns={"excluded": ""})) == 12


@pytest.mark.parametrize("name", ["Total", "Summe", "Grand total", "average", "Gesamt:"])
def test_item_called_a_sum_is_asked_about(name):
    table = judged(raters="u").astype({"item": str})
    table.loc[3, "item"] = name
    assert f"{name!r} may be for practice, check the rater, or sum up other rows" in refusal(table)
    assert len(analysis.read(table, columns={"excluded": ""})) == 12


@pytest.mark.parametrize("columns", [{}, {"headings": "rater"}])
def test_codes_of_raters_in_columns_are_asked_for(columns):
    """Annotators 1 and 2 prefer alpha, annotator 3 says that both are equal."""
    table = items(10, annotator1=1, annotator2=1, annotator3=0, note="x")
    message = refusal(table, columns=columns)
    assert """--set 'verdicts."0"=SIDE' --set 'verdicts."1"=SIDE'""" in message
    verdicts = analysis.read(table, verdicts={"0": "tie", "1": "a"}, columns=columns)
    assert verdicts["verdict"].value_counts().to_dict() == {"alpha": 20, "tie": 10}
    assert verdicts["rater"].nunique() == 3


def test_key_that_lacks_an_item_names_this_item(tmp_path):
    message = refusal(write_tables(tmp_path, answers=ANSWERS, key=KEY[:11]))
    assert "no item has the id '11'" in message
    assert "the file with the methods, which has '0', '1', '10' and 8 more" in message


def test_annotation_without_an_answer_is_counted(tmp_path):
    """Label Studio writes an empty result if an annotator submits a task without a choice."""
    chosen = [{"from_name": "choice", "type": "choices", "value": {"choices": ["A"]}}]
    tasks = [
        {
            "id": n,
            "data": AB | {"item": n},
            "annotations": [{"completed_by": 1, "result": chosen if n else []}],
        }
        for n in range(12)
    ]
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(tasks))
    verdicts = analysis.read(path)
    assert len(verdicts) == 11
    assert "1 left out: no answer" in verdicts.attrs["reading"].left_out
