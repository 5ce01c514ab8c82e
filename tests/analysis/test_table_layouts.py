"""Layouts and headings of tables: each is read as its owner means it, or refused with what would read it."""

import gzip
import io
import json
import zipfile

import pandas as pd
import pytest
from outcomes import AB, by_raters, counts, counts_or_offer, items, refusal, write_tables

import analysis


@pytest.mark.parametrize("item", ["case_id", "query", "Sample ID", "ticket", "poem", "Frage", "seed"])
@pytest.mark.parametrize("number", ["", "id", "Unnamed: 0"])
def test_rows_of_one_item_are_one_independent_unit(item, number):
    """Three raters agree on twenty items: there are twenty units, whatever the item is called."""
    table = items(20, winner=["model_a"] * 13 + ["model_b"] * 7)
    table["item"] = [f"Q{n}" for n in range(20)]
    table = by_raters(table).rename(columns={"item": item, "rater": "annotator"})
    if number:
        table[number] = range(60)
    if counts_or_offer(table, f"columns.pair_id={item}") is None:
        table = analysis.read(table, columns={"pair_id": item})
    assert counts(table) == ("39/0/21", 20)


@pytest.mark.parametrize("prompt", ["prompt", "Prompt ID", "question", "context", "persona", "topic"])
def test_prompt_column_is_used_or_must_be_declared(prompt):
    rows = [
        {"pair_id": f"{number}-{copy}", prompt: f"text {number}", **AB, "rater": "r", "verdict": "alpha"}
        for number in range(10)
        for copy in range(6)
    ]
    assert counts_or_offer(pd.DataFrame(rows), f"columns.prompt_id={prompt}") in {None, ("60/0/0", 10)}


@pytest.mark.parametrize(
    "rater", ["evaluator", "WorkerId", "Prolific ID", "judge_model", "who", "grader", "Initials"]
)
def test_raters_are_not_merged_under_any_heading(rater):
    rows = [{"item": number // 2, rater: f"r{number % 2}"} for number in range(20)]
    table = pd.DataFrame([{**row, **AB, "winner": "model_a"} for row in rows])
    if counts_or_offer(table, f"columns.rater={rater}"):
        assert analysis.read(table, rater_kind="person")["rater"].nunique() == 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (("method_a", "method_b"), ("Response 1", "Response 2")),
        (("method_a", "method_b"), ("left", "right")),
        (("method_a", "method_b"), ("first", "second")),
        (("left", "right"), ("left", "right")),
        (("model_a", "model_b"), ("A", "B")),
    ],
)
@pytest.mark.parametrize(
    ("heading", "cells"),
    [
        ("min_p_side", ("left", "right")),
        ("Left model", ("min_p", "top_p")),
        ("method_a_first", (True, False)),
        ("presentation order", ("AB", "BA")),
        ("swapped", (False, True)),
        ("order", ("original", "reversed")),
        ("option_1", ("min_p", "top_p")),
        ("cond", ("min_p-top_p", "top_p-min_p")),
        ("inverted", ("no", "yes")),
        ("permutation", ("[0, 1]", "[1, 0]")),
        ("counterbalancing", (1, 2)),
    ],
)
def test_changed_sides_are_never_pooled(heading, cells, columns, words):
    """min_p is better on 30 of 40 prompts, and stood first on every other one."""
    first, second = words
    table = pd.DataFrame({"prompt": [f"p{number}" for number in range(40)]})
    table[list(columns)] = ["min_p", "top_p"]
    table[heading] = cells * 20
    table["winner"] = [first, second, first, first] * 10
    assert counts_or_offer(table, "side") in {None, ("30/0/10", 40)}


@pytest.mark.parametrize("mark", ["failed", "#N/A", "Timeout", "NULL", " ", "skipped"])
def test_failed_requests_are_left_out(mark):
    assert counts(items(30, winner=("model_a", "model_b", mark))) == ("10/0/10", 20)


@pytest.mark.parametrize("mark", ["none", "-", "?", "can't decide", "C"])
def test_ambiguous_tie_word_is_refused(mark):
    table = items(30, winner=("model_a", "model_b", mark))
    assert "names no method of its pair on rows 3, 6, 9, 12, 15 and 5 more; write 'alpha'" in refusal(table)
    assert counts(table, verdicts={mark: "tie"}) == ("10/10/10", 30)


@pytest.mark.parametrize(
    "names",
    [
        ("winner_model_a", "winner_model_b", "winner_tie"),
        ("winner_a", "winner_b", "is_tie"),
        ("A_wins", "B_wins", "ties"),
        ("Preferred: A", "Preferred: B", "Preferred: tie"),
        ("a_better", "b_better"),
    ],
)
def test_one_hot_winners_keep_their_ties(names):
    """A row without a mark is a tie: to leave it out would make the others look more certain."""
    marks = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    table = items(30, **dict(zip(names, marks, strict=False)))
    assert counts(table) == ("10/10/10", 30)
    assert counts(table.astype(dict.fromkeys(names, bool))) == ("10/10/10", 30)


@pytest.mark.parametrize(
    ("columns", "declared", "message"),
    [
        ({"method_a": "x1", "model_b": "y1", "winner": "A"}, {}, "has method_a but no method_b"),
        (
            {"verdict": "A", "q1": "B", "rater": "r"},
            {"headings": "pair_id"},
            "the table has a column verdict",
        ),
        ({"q1": "B", "q2": "A", "rater": "r", **AB}, {"headings": "rater"}, "the table has a column rater"),
    ],
)
def test_columns_that_exclude_each_other_are_refused(columns, declared, message):
    assert message in refusal(pd.DataFrame([columns] * 6), columns=declared)


def test_word_counts_are_not_wins():
    table = items(10, winner="model_a", n_a=213, n_b=187, count_a=3, count_b=1)
    assert counts(table) == ("10/0/0", 10)
    assert "no column has verdicts" in refusal(table.drop(columns="winner"))


def test_verdicts_in_unknown_words_must_be_declared():
    """The column is no prompt, though it repeats."""
    table = items(30, Fazit=("A siegt", "B siegt", "remis"))
    assert "no column has verdicts" in refusal(table)


@pytest.mark.parametrize(
    ("headings", "words"),
    [
        ("Frage Bewerter Verfahren-A Verfahren-B Gewinner", "Verfahren A|Verfahren B|unentschieden"),
        ("Frage Gutachterin Modell-A Modell-B Präferenz", "A ist besser|B ist besser|gleich gut"),
        ("consigne annotateur système-A système-B préférence", "A|B|égalité"),
        ("consigne évaluateur modèle-1 modèle-2 gagnant", "modèle 1|modèle 2|égalité"),
        ("pregunta anotador sistema-A sistema-B preferencia", "A es mejor|B es mejor|igual"),
        ("问题 标注员 模型A 模型B 偏好", "模型A|模型B|平局"),
    ],
)
def test_tables_in_other_languages_are_read(headings, words):
    """Alpha is preferred twice as often as beta, and a fourth of the verdicts are ties."""
    better, worse, equal = words.split("|")
    table = by_raters(items(16, verdict=(better, equal, better, worse)))
    table = table[["item", "rater", "model_a", "model_b", "verdict"]]
    table.columns = [heading.replace("-", " ") for heading in headings.split()]
    assert counts(table) == ("24/12/12", 16)


def test_column_that_excludes_rows_has_the_role_filter():
    table = items(9, winner="model_a", Anony=["FALSE"] * 3 + ["TRUE"] * 6)
    roles = analysis.read(table).attrs["reading"].list_roles()
    [role] = [row for row in roles if "Anony" in row]
    assert role == ("filter", "Anony", "it says what is left out: the models' names were shown")


def test_two_marks_in_a_row_are_refused():
    table = items(2, winner_model_a=1, winner_model_b=(1, 0))
    assert "more than one of winner_model_a and winner_model_b is 1" in refusal(table)


@pytest.mark.parametrize(
    ("won", "lost"),
    [
        *(("winner", "loser"), ("winning_model", "losing_model"), ("Chosen system", "Rejected system")),
        *(("preferred", "dispreferred"), ("better_model", "worse_model"), ("winner_name", "loser_name")),
    ],
)
def test_winner_and_loser_are_read(won, lost):
    rows = [{won: "alpha", lost: "beta"}, {won: "beta", lost: "alpha"}, {won: "alpha", lost: "beta"}]
    assert counts(pd.DataFrame(rows * 5)) == ("10/0/5", 15)


@pytest.mark.parametrize(
    "name", ["ties", "no_preference", "votes_for_neither", "abstain", "votes_c", "C_votes"]
)
def test_third_counts_are_ties_or_must_be_declared(name):
    """Three raters vote on ten items: 14 votes for alpha, 12 for beta, and 4 for neither."""
    votes = [(2, 1, 0)] * 6 + [(0, 2, 1)] * 2 + [(1, 1, 1)] * 2
    names = ("votes_a", "votes_b", name)
    table = items(10, **dict(zip(names, zip(*votes, strict=True), strict=True)))
    if counts_or_offer(table, f"--set 'verdicts.\"{name}\"=tie'") is None:
        assert counts(table, verdicts={name: "tie"}) == ("14/4/12", 10)
        assert counts(table, verdicts={name: ""}) == ("14/0/12", 10)
    else:
        assert counts(table) == ("14/4/12", 10)


def test_sum_of_votes_counts_no_ties():
    table = items(10, votes_a=[2] * 6 + [0] * 2 + [1] * 2, votes_b=[1] * 6 + [2] * 2 + [1] * 2)
    assert counts(table.assign(all_votes=table["votes_a"] + table["votes_b"])) == ("14/0/12", 10)


@pytest.mark.parametrize("names", [("win1", "win2"), ("Wins A", "Wins B"), ("votes_a", "votes_b")])
def test_counted_wins_are_separate_pairs_only_if_declared(names):
    table = pd.DataFrame([{"player1": "alpha", "player2": "beta", names[0]: 7, names[1]: 3}])
    assert counts(table) == ("7/0/3", 1)
    assert "write --set columns.pair_id=" in " ".join(analysis.read(table).attrs["reading"].format_lines())
    assert counts(table, columns={"pair_id": ""}) == ("7/0/3", 10)
    assert counts(table.assign(draws=2), columns={"pair_id": ""}) == ("7/2/3", 12)
    assert counts(table.assign(pair_id="p")) == ("7/0/3", 1)
    assert "count 10,000,003 wins" in refusal(table.assign(**{names[0]: 10**7}))
    assert "wins, more than 10,000,000" in refusal(table.assign(**{names[0]: "9" * 25}))
    for code in ("٣", "9" * 25):
        assert counts(table.assign(code=code)) == ("7/0/3", 1)
    assert "a cell is not a whole number" in refusal(table.assign(**{names[0]: 1.5}))
    rows = [{"player1": "alpha", "player2": "beta", names[0]: 2, names[1]: 1} for _ in range(20)]
    assert counts(pd.DataFrame(rows)) == ("40/0/20", 20)


def test_texts_are_not_read_as_methods():
    rows = [
        {"item": item, "left": f"Once, {item}", "right": f"Then, {item}", "rater": rater, "winner": "left"}
        for item in range(15)
        for rater in "abc"
    ]
    assert "left, right: nearly every cell differs, so these are texts" in refusal(pd.DataFrame(rows))


def test_methods_are_not_read_as_texts():
    rows = [
        {"item": item, "method_a": f"m{pair}-base", "method_b": f"m{pair}-tuned", "rater": "r", "winner": "A"}
        for pair in range(6)
        for item in range(40)
    ]
    assert len(analysis.shares(pd.DataFrame(rows))) == 6


@pytest.mark.parametrize(("name", "cells"), [("winner_model", ("alpha", "beta")), ("choice", ("A", "B"))])
def test_duplicate_verdict_column_is_unused(name, cells):
    table = items(30, winner=("model_a", "model_b"), **{name: cells})
    assert counts(table) == ("15/0/15", 30)
    assert name in analysis.read(table).attrs["reading"].unused
    table.loc[3, name] = cells[0]
    assert "verdict could be" in refusal(table)


@pytest.mark.parametrize(
    ("headings", "raters"),
    [
        (("rater1", "rater2"), ["rater1", "rater2"]),
        (("Annotator A", "Annotator B"), ["Annotator A", "Annotator B"]),
        (("coder1.label", "coder2.label"), ["coder1", "coder2"]),
    ],
)
def test_headings_that_begin_with_a_rater_are_raters(headings, raters):
    verdicts = analysis.read(items(10, **dict(zip(headings, "AB", strict=True))))
    assert sorted(set(verdicts["rater"])) == raters
    assert set(verdicts["criterion"]) == {"overall"}


VOTES = items(30, annotator="r", winner=("model_a", "model_b", "tie"))


def nest_cells(table):
    """Return records as programs write them: methods in an object, and each verdict in a list."""
    return [
        {"item": row["item"], "data": {"vars": AB}, "user": {"annotator": "r"}}
        | {"output": {"winner": [row["winner"]]}, "tags": []}
        for row in table.to_dict("records")
    ]


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def workbook():
    file = io.BytesIO()
    VOTES.to_excel(file, index=False)
    return file.getvalue()


def row_names():
    """Return the table as R's write.table writes it, with names of rows and no heading over them."""
    lines = VOTES.to_csv(index=False).splitlines()
    return "\n".join([lines[0], *(f"{number},{line}" for number, line in enumerate(lines[1:], start=1))])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(
            (f"{form}.json", VOTES.to_json(orient=form))
            for form in ("records", "index", "columns", "split", "table")
        ),
        ("names.json", VOTES.set_index(VOTES["item"].map("q{}".format)).to_json(orient="columns")),
        ("rows.json", VOTES.set_index(VOTES["item"].map("q{}".format)).to_json(orient="index")),
        ("lists.json", json.dumps(VOTES.to_dict("list"))),
        ("wrapped.json", json.dumps({"version": 1, "votes": VOTES.to_dict("records")})),
        ("other_key.json", json.dumps({"raters": [{"id": "r"}] * 30, "pairs": VOTES.to_dict("records")})),
        ("nested.json", json.dumps(nest_cells(VOTES))),
        ("methods.json", json.dumps([AB | {"meta": row} for row in VOTES.to_dict("records")])),
        ("cells.csv", pd.DataFrame(nest_cells(VOTES)).to_csv(index=False)),
        ("prefixes.csv", VOTES.rename(columns="inputs/{}".format).to_csv(index=False)),
        ("unread.json", VOTES.assign(tags=[["a"]] * 30).to_json(orient="records")),
        ("rows.csv", row_names()),
        ("long.csv", VOTES.assign(text="x" * 200_000).to_csv(index=False)),
        ("workbook.zip", lambda: zipped("votes.xlsx", workbook())),
        ("workbook.gz", lambda: gzip.compress(workbook())),
    ],
)
def test_table_is_the_same_in_every_file(tmp_path, name, content):
    if callable(content):
        pytest.importorskip("openpyxl")
        content = content()
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert counts(path) == ("10/10/10", 30)


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("winner", ["model_a", "model_b"]),
        ("annotator", ["u", "v"]),
        ("criterion", ["fluency", "wit"]),
    ],
)
def test_list_in_a_column_that_is_read_is_refused(tmp_path, name, cell):
    path = tmp_path / "votes.json"
    path.write_text(VOTES.assign(**{name: [cell] * 30}).to_json(orient="records"))
    assert f"votes.json, record 1: {name} is a list or an object" in refusal(path)


@pytest.mark.parametrize(
    "layout",
    ["votes of an item", "votes without ids", "responses of Argilla", "by rater", "by item"],
)
def test_lists_of_verdicts_are_read_whole(tmp_path, layout):
    """Each of ten items has a vote of `u` for alpha, and every other one a vote of `v`, four for beta."""
    votes = [
        {"annotator": rater, "winner": "model_a" if step == 1 or n == 8 else "model_b", "item": n}
        for rater, step in (("u", 1), ("v", 2))
        for n in range(0, 10, step)
    ]
    of_items = [[vote for vote in votes if vote["item"] == n] for n in range(10)]
    content = {
        "votes of an item": [
            {
                "item": n,
                **AB,
                "id": n,
                "votes": [{"id": f"{n}-{number}", **vote} for number, vote in enumerate(group)],
            }
            for n, group in enumerate(of_items)
        ],
        "votes without ids": [
            {**AB, "votes": [{"annotator": vote["annotator"], "winner": vote["winner"]} for vote in group]}
            for group in of_items
        ],
        "responses of Argilla": [
            {"id": n, "metadata": AB}
            | {
                "responses": {
                    "better": [{"user_id": vote["annotator"], "value": vote["winner"]} for vote in group]
                }
            }
            for n, group in enumerate(of_items)
        ],
        "by rater": {rater: [AB | vote for vote in votes if vote["annotator"] == rater] for rater in "uv"},
        "by item": {f"item {n}": [AB | vote for vote in group] for n, group in enumerate(of_items)},
    }[layout]
    path = tmp_path / "votes.json"
    path.write_text(json.dumps(content))
    assert counts(path) == ("11/0/4", 10)


def test_records_without_ids_in_two_lists_are_asked_about(tmp_path):
    path = tmp_path / "votes.json"
    rows = [{**AB, "winner": "model_a"}] * 4
    path.write_text(json.dumps({"version": 1, "raw": rows, "cleaned": rows[:3]}))
    assert "several rows have the same 'key'" in refusal(path)
    assert counts(path, columns={"pair_id": ""}) == ("7/0/0", 7)


def test_options_with_labels_are_no_verdicts(tmp_path):
    path = tmp_path / "votes.json"
    options = [{"label": "A"}, {"label": "B"}]
    path.write_text(items(4, human="A").assign(options=[options] * 4).to_json(orient="records"))
    assert counts(path) == ("4/0/0", 4)


@pytest.mark.parametrize("inner", ["winner", "verdict", "model_a", "annotator", "item"])
def test_plain_heading_comes_before_one_with_a_path(inner):
    table = VOTES.assign(**{f"meta.{inner}": [f"x{n}" for n in range(30)]})
    assert counts(table) == counts(VOTES)
    assert f"meta.{inner}" in analysis.read(table).attrs["reading"].unused


def test_sides_that_changed_are_found_in_objects(tmp_path):
    path = tmp_path / "votes.json"
    rows = VOTES.assign(ui=[{"swapped": number % 2 > 0} for number in range(30)])
    path.write_text(rows.to_json(orient="records"))
    assert "the column 'ui.swapped' may say that sides changed there" in refusal(path)


def test_headings_with_two_paths_are_asked_about():
    inner = VOTES.rename(columns={"model_a": "inputs.model_a", "model_b": "inputs.model_b"})
    table = inner.assign(**{"outputs.model_a": "x", "outputs.model_b": "y"})
    assert "nothing says which methods were compared" in refusal(table)


def test_first_of_several_columns_of_objects_is_named(tmp_path):
    rows = [{"item": 1, **AB, "winner": ["A", "B"], "annotator": ["u", "v"]}]
    path = tmp_path / "votes.json"
    path.write_text(json.dumps(rows))
    assert "record 1: winner is a list" in refusal(path)


def test_lists_of_messages_name_the_prompts(tmp_path):
    """Thirty verdicts are about ten prompts."""
    path = tmp_path / "votes.json"
    prompts = [[{"role": "user", "content": f"prompt {n % 10}"}] for n in range(30)]
    path.write_text(VOTES.assign(prompt=prompts).to_json(orient="records"))
    assert counts(path) == ("10/10/10", 10)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"  \n\t\n", "has no verdicts"),
        (b"FEA1" + bytes(400), "is a binary file and not text"),
        ("a,b\n1,2\n".encode("utf-16-be"), "is UTF-16 without a byte order mark"),
        ("a,b\n1,2\n".encode("utf-32-le"), "is UTF-32 without a byte order mark"),
        (b"a\rb,c\n1,2\n", "line 1: not valid CSV (new-line character"),
        (b"My study, made in June, 2025\na,b,c,d,e\n1,2,3,4,5\n", "remove everything above the header"),
    ],
)
def test_unreadable_file_is_named(tmp_path, content, message):
    path = tmp_path / "votes.csv"
    path.write_bytes(content)
    assert message in refusal(path)


ANSWERS = pd.DataFrame([{"stim": n // 2, "rater": f"r{n % 2}", "choice": "ABA"[n % 3]} for n in range(30)])
KEY = pd.DataFrame(
    [{"stim": n, "A": ("alpha", "beta")[n % 2], "B": ("beta", "alpha")[n % 2]} for n in range(15)]
)


@pytest.mark.parametrize("names", [("A", "B"), ("model_a", "model_b"), ("Response A", "Response B")])
def test_file_of_methods_may_have_other_headings(tmp_path, names):
    key = KEY.rename(columns=dict(zip("AB", names, strict=True)))
    paths = write_tables(tmp_path, key=key, answers=ANSWERS)
    verdicts = analysis.read(paths, rater_kind="person")
    merged = ANSWERS.merge(KEY, on="stim")
    winners = [row[row["choice"]] for _, row in merged.iterrows()]
    assert sorted(verdicts["verdict"]) == sorted(winners)


def test_file_of_methods_needs_the_ids_of_the_answers(tmp_path):
    paths = write_tables(tmp_path, answers=ANSWERS, key=KEY.assign(stim=KEY["stim"] + 100))
    assert "no column has only ids from the file with the methods ('100', '101'" in refusal(paths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda key: pd.concat([key, key[:1].assign(A="gamma")]),
            "key.csv: two items have the id '0' (line 17)",
        ),
        (lambda key: key.rename(columns={"stim": "x"}), "no column has the ids of the items"),
        (lambda key: key.replace({"A": {"alpha": "Left"}}), "'Left' has the name of a side or a tie"),
    ],
)
def test_faulty_file_of_methods_is_refused(tmp_path, change, message):
    assert message in refusal(write_tables(tmp_path, answers=ANSWERS, key=change(KEY)))


KEY_OF_SURVEY = pd.DataFrame({"item": ["Q1", "Q2"], "A": ["alpha", "beta"], "B": ["beta", "alpha"]})


def test_survey_is_read_with_a_file_of_methods(tmp_path):
    survey = pd.DataFrame([{"Email": f"p{n}", "Q1": "Response A", "Q2": "Response A"} for n in range(5)])
    paths = write_tables(tmp_path, survey=survey, key=KEY_OF_SURVEY)
    assert "columns.headings=pair_id" in refusal(paths)
    verdicts = analysis.read(paths, columns={"headings": "pair_id", "rater": "Email"})
    assert verdicts["verdict"].value_counts().to_dict() == {"alpha": 5, "beta": 5}


def test_survey_of_persons_with_numbers_is_read(tmp_path):
    """LimeSurvey's last page is no number of votes, and Microsoft's unnamed persons have a number."""
    survey = pd.DataFrame(
        {"id": n + 1, "lastpage": 3, "Email": "anonymous", "Q1": "A", "Q2": "A"} for n in range(5)
    )
    paths = write_tables(tmp_path, survey=survey, key=KEY_OF_SURVEY)
    declared = {"headings": "pair_id"}
    assert "(presentation), or other texts (pair_id), write --set columns.rater=id" in refusal(
        paths, columns=declared
    )
    assert counts(paths, columns={**declared, "rater": "id"}) == ("5/0/5", 2)
    coded = write_tables(tmp_path, survey=survey.replace("A", "AO01"), key=KEY_OF_SURVEY)
    assert "write --set columns.headings=pair_id" in refusal(coded)
    message = refusal(coded, columns=declared)
    assert "method_a" not in message
    assert "verdicts." in message


SURVEY = pd.DataFrame(
    [
        {"Name": name, **{f"Which is better? [{n}]": "A" if n < 3 else "B" for n in range(6)}}
        for name in "wxyz"
    ]
)
ANSWERS_ARE_METHODS = {"A": "alpha", "B": "beta"}


@pytest.mark.parametrize("heading", ["Blood type", "Which class are you in?", "Please select B"])
def test_unlike_question_of_a_survey_is_asked_about(heading):
    declared = {"headings": "pair_id", "rater": "Name"}
    table = SURVEY.assign(**{heading: list("ABAB")})
    message = refusal(table, columns=declared, verdicts=ANSWERS_ARE_METHODS)
    assert f"the heading {heading!r} is unlike those of the other questions" in message
    assert counts(SURVEY, columns=declared, verdicts=ANSWERS_ARE_METHODS) == ("12/0/12", 6)


@pytest.mark.parametrize("word", ["A, B", "I am not sure"])
def test_unknown_answer_does_not_drop_a_question(word):
    declared = {"headings": "pair_id", "rater": "Name"}
    table = SURVEY.copy()
    table.loc[1, "Which is better? [2]"] = word
    message = refusal(table, columns=declared, verdicts=ANSWERS_ARE_METHODS)
    assert "'Which is better? [2]' has other words beside verdicts" in message
    assert f"""--set 'verdicts."{word}"=SIDE'""" in message
    for meaning, expected in {"": "11/0/12", "tie": "11/1/12"}.items():
        words = {**ANSWERS_ARE_METHODS, word: meaning}
        assert counts(table, columns=declared, verdicts=words) == (expected, 6)


@pytest.mark.parametrize("prompt", ["prompt", "topic"])
def test_prompts_in_a_file_of_methods_are_the_units(tmp_path, prompt):
    """Twenty questions are about four prompts. A question without a method in the key is not read."""
    questions = [f"Q{n}" for n in range(20)]
    survey = pd.DataFrame([{"Name": name, "Hand?": "B", **dict.fromkeys(questions, "A")} for name in "xyz"])
    key = pd.DataFrame(
        {"item": questions, prompt: [f"p{n // 5}" for n in range(20)], "A": "alpha", "B": "beta"}
    )
    paths = write_tables(tmp_path, survey=survey, key=key)
    columns = {"headings": "pair_id", "rater": "Name"}
    if prompt == "topic":
        assert "columns.prompt_id=topic" in refusal(paths, columns=columns)
        columns |= {"prompt_id": "topic"}
    verdicts = analysis.read(paths, columns=columns)
    assert (verdicts["pair_id"].nunique(), verdicts["prompt_id"].nunique()) == (20, 4)


@pytest.mark.parametrize(
    "names",
    [
        ("image_a_model", "image_b_model"),
        ("sysA", "sysB"),
        ("A (model)", "B (model)"),
        ("model_0", "model_1"),
    ],
)
def test_headings_with_a_side_name_the_methods(names):
    table = items(9, preferred="image_a").rename(columns=dict(zip(AB, names, strict=True)))
    assert counts(table) == ("9/0/0", 9)
    texts = table.assign(A=[f"text {n}" for n in range(9)], B=[f"other {n}" for n in range(9)])
    assert counts(texts) == ("9/0/0", 9)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"tts_a": "x", "tts_b": "x y"},
            "If two columns do, write --set columns.method_a=tts_a --set columns.method_b=tts_b",
        ),
        ({"rank_1": "x", "rank_2": "y", "rank_3": "z"}, "rank_1 and rank_3 are two of three or more options"),
        ({"left": "x", "right": "y", "center": "z"}, "left and center are two of three or more options"),
    ],
)
def test_unclear_methods_are_refused(columns, message):
    table = pd.DataFrame({"item": range(9), **columns, "winner": "x"})
    assert message in refusal(table)


def test_duplicated_tasks_are_refused(tmp_path):
    result = [
        {"from_name": name, "type": "choices", "value": {"choices": ["A"]}}
        for name in ("fluency", "coherence")
    ]
    task = {"data": {"pair_id": "p", "method_a": "x1", "method_b": "y1"}}
    task["annotations"] = [{"completed_by": 1, "result": result}]
    (tmp_path / "tasks.json").write_text(json.dumps([{"id": 1, **task}, {"id": 2, **task}]))
    assert "(records 1, 2)" in refusal(tmp_path / "tasks.json")


@pytest.mark.parametrize(
    ("first_id", "second_id"), [("007", "7"), ("1", "1.0"), ("Q01", "Q1"), ("item_003", "item_3")]
)
def test_similar_ids_across_raters_are_refused(first_id, second_id):
    rows = [{"pair_id": first_id, "rater": "ann"}, {"pair_id": second_id, "rater": "bob"}]
    table = pd.DataFrame([{**row, **AB, "verdict": "alpha"} for row in rows])
    assert f"{first_id!r} for 'ann' and {second_id!r} for 'bob', which may mean the same" in refusal(table)
    both = pd.concat([table, table.assign(rater="eve")])
    assert analysis.read(both)["pair_id"].nunique() == 2  # a program tells them apart


def test_third_spelling_of_an_id_is_refused():
    """One rater has two spellings of twelve ids, and another has only the third."""
    spellings = {"u": "{}", "v": "{}.0", "w": "0{}"}
    rows = [
        {"pair_id": form.format(n), "rater": rater} for rater, form in spellings.items() for n in range(12)
    ]
    table = pd.DataFrame([{**row, **AB, "verdict": "alpha"} for row in rows]).replace({"rater": {"v": "u"}})
    assert "'0' for 'u' and '00' for 'w', which may mean the same" in refusal(table)
    assert analysis.read(table[table["rater"] == "u"])["pair_id"].nunique() == 24
    files = [f"doc{n}.{language}" for language in ("en", "de", "fr") for n in range(12)]
    assert analysis.read(table.assign(pair_id=files))["pair_id"].nunique() == 36


def test_ids_like_exponents_are_not_numbers():
    rows = [{"pair_id": text, **AB, "rater": "ann", "verdict": "alpha"} for text in ("1e3", "7e12", "0a1")]
    assert len(analysis.read(pd.DataFrame(rows))) == 3


@pytest.mark.parametrize(
    ("heading", "names", "kind"),
    [
        ("judge", ("gpt-4o",), "model"),
        ("judge_model", ("gpt-4o", "claude-3"), "model"),
        ("judge", ("arena_user_1", "expert_3"), "unknown"),
    ],
)
def test_judges_with_names_of_models_are_models(heading, names, kind):
    table = items(4, winner="model_a", **{heading: names})
    assert set(analysis.read(table)["rater_kind"]) == {kind}
    assert set(analysis.read(table, rater_kind="person")["rater_kind"]) == {"person"}


@pytest.mark.parametrize(("heading", "names"), [("annotator", ("gpt-4o",)), ("judge", ("gpt-4o", "ann"))])
def test_person_named_like_a_model_is_asked_about(heading, names):
    table = items(4, winner="model_a", **{heading: names})
    assert "looks like the name of a model" in refusal(table)
    assert set(analysis.read(table, rater_kind="person")["rater_kind"]) == {"person"}


@pytest.mark.parametrize("heading", ["rater_type", "source", "kind"])
@pytest.mark.parametrize("kinds", [("human", "model"), ("Human", "LLM")])
def test_column_with_kinds_of_raters_is_offered(heading, kinds):
    table = items(2, winner="model_a", judge=("ann", "gpt-4o"), **{heading: kinds})
    assert f"write --set columns.rater_kind={heading}." in refusal(table)
    verdicts = analysis.read(table, columns={"rater_kind": heading})
    assert list(verdicts["rater_kind"]) == ["person", "model"]


def test_programs_columns_are_not_called_unused(tmp_path):
    rows = [
        {"question_id": n, "judge": "arena_user_1", **AB, "winner": "model_a", "turn": 1} for n in range(3)
    ]
    path = tmp_path / "votes.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    assert analysis.read(path).attrs["reading"].unused == ("turn",)


def test_second_header_row_of_surveymonkey_is_skipped(tmp_path):
    path = tmp_path / "survey.csv"
    path.write_text("Respondent ID,Q1,Q2\n,Response,Response\n7,A,B\n8,A,A\n")
    columns = {"headings": "pair_id", "rater": "Respondent ID"}
    assert counts(path, columns=columns, verdicts={"A": "gpt", "B": "olmo"}) == ("3/0/1", 2)


def test_numbers_beside_an_empty_cell_stay_whole():
    table = items(5, winner=(1, 1, 2, None, 3))
    assert counts(table, verdicts={"1": "a", "2": "b", 3: "tie"}) == ("2/1/1", 4)
