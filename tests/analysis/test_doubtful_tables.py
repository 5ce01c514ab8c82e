"""Tables that can be read in two ways: a wrong guess would make the result look more certain, or wrong."""

import json

import pandas as pd
import pytest
from outcomes import AB, by_raters, counts, items, refusal, write_tables

import analysis


def rated(name, raters=3, items=20, cell=str):
    """Return a table in which each rater judges each item once, and prefers alpha on the first 13."""
    return pd.DataFrame(
        {name: cell(item), **AB, "rater": f"r{rater}", "winner": "model_a" if item < 13 else "model_b"}
        for rater in range(raters)
        for item in range(items)
    )


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *((name, str) for name in ("trial", "round", "repetition", "time")),
        *(
            (name, lambda item: f"{1 + item // 5}.{1 + item % 5}")
            for name in ("position", "session_id", "score")
        ),
    ],
)
def test_column_judged_once_by_each_rater_must_be_declared(name, cell):
    table = rated(name, cell=cell)
    assert f"columns.pair_id={name}" in refusal(table)
    assert counts(table, columns={"pair_id": name}) == ("39/0/21", 20)


@pytest.mark.parametrize(
    "rows",
    [
        [{"scene": "one", **AB, "rater": f"r{n}", "winner": "model_a"} for n in range(10)],
        [{"scene": None if n % 3 else n, **AB, "winner": "model_a", "id": n} for n in range(30)],
        [{"presentation": n % 9, **AB, "rater": f"r{n // 9}", "winner": "model_a"} for n in range(27)],
        [{"scene": n % 6, "act": n % 3, **AB, "rater": f"r{n // 6}", "winner": "A"} for n in range(30)],
    ],
)
def test_possible_item_column_must_be_declared(rows):
    assert f"--set columns.pair_id={next(iter(rows[0]))}" in refusal(pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("names", "turns", "cell"),
    [
        (("text_a", "text_b"), 0, int),
        (("text_a", "text_b"), 1, "see text {}".format),
        (("left_id", "right_id"), 1, int),
        (("Summary 1", "Summary 2"), 1, int),
        (("Summary 1", "Summary 2"), 0, "see text {}".format),
    ],
)
def test_two_texts_name_a_pair_in_either_order(names, turns, cell):
    """Three raters agree on the 12 pairs of 4 scenes; some of them saw the texts in the other order."""
    orders = [(item, rater, (item + turns * rater) % 2) for rater in range(3) for item in range(12)]
    table = pd.DataFrame(
        dict(zip(names, [cell(2 * item + order), cell(2 * item + 1 - order)], strict=True))
        | dict(zip(AB, ["alpha", "beta"][:: 1 - 2 * order], strict=True))
        | {"rater": f"r{rater}", "winner": "alpha" if item < 9 else "beta"}
        for item, rater, order in orders
    )
    assert counts(table) == ("27/0/9", 12)
    joined = {"pair_id": ",".join(names)}
    unnamed = table.drop(columns="rater")
    assert f"columns.pair_id={','.join(names)}" in refusal(unnamed)
    assert counts(unnamed, columns={**joined, "rater": ""}) == ("27/0/9", 12)
    scenes = table.assign(scene=[item // 3 for item, *_ in orders])
    assert "--set columns.prompt_id=scene" in refusal(scenes, columns=joined)
    assert counts(scenes.rename(columns={"scene": "prompt"})) == ("27/0/9", 4)
    ratings = {name: [item * rater % 5 + n for item, rater, _ in orders] for n, name in enumerate(names)}
    assert counts(table.assign(item=[item for item, *_ in orders], **ratings)) == ("27/0/9", 12)


@pytest.mark.parametrize(
    "names", [("page", "trial"), ("genre", "language"), ("list", "slot"), ("game", "run"), ("date", "time")]
)
def test_columns_that_name_texts_together_are_asked_about(names):
    """Three raters agree on 12 texts, so the 36 rows are 12 pairs."""
    first, second = names
    table = pd.DataFrame(
        {first: f"w{item // 6}", second: item % 6, **AB, "rater": f"r{rater}", "winner": "AB"[item > 8]}
        for rater in range(3)
        for item in range(12)
    )
    joined = f"{first},{second}"
    assert f"--set columns.pair_id={joined}. If each row is a separate pair" in refusal(table)
    assert counts(table, columns={"pair_id": joined, "prompt_id": ""}) == ("27/0/9", 12)
    own_texts = table.assign(item=range(36), prompt=range(36))
    assert counts(own_texts) == ("27/0/9", 36)
    repeated = pd.concat([table, table.tail(1)], ignore_index=True)
    assert f"--set columns.pair_id={joined}" in refusal(repeated)


@pytest.mark.parametrize("parts", [3, 4])
def test_columns_that_name_texts_in_a_grid_are_asked_about(parts):
    """Each of 2³ or 2⁴ combinations of words is a text, which three raters have rated."""
    grid = [f"{number:0{parts}b}" for number in range(2**parts)]
    names = ["genre", "language", "tone", "spoken"][:parts]
    words = [("tale", "poem"), ("de", "en"), ("calm", "loud"), ("yes", "no")]
    rows = [
        dict(zip(names, [pair[int(bit)] for pair, bit in zip(words, bits, strict=False)], strict=True))
        | {**AB, "rater": f"r{rater}", "winner": "A"}
        for rater in range(3)
        for bits in grid
    ]
    assert f"--set columns.pair_id={','.join(names)}" in refusal(pd.DataFrame(rows))


def test_slots_of_the_raters_of_an_export_are_no_prompts():
    ids = [f"p{n}" for n in range(24)]
    table = items(24, pair_id=ids, prompt_id=ids, rater="r1", verdict="alpha", slot=(0, 1, 2))
    assert counts(table.drop(columns="item")) == ("24/0/0", 24)


@pytest.mark.parametrize(
    ("methods", "pairs"), [(("m" * 6, "n" * 6), 6), (("mmmnno", "nopopp"), 6), (("mn" * 3, "no" * 3), 6)]
)
def test_only_possible_item_column_is_used(methods, pairs):
    """The result can only become less certain: 60 rows are 6 pairs with 10 raters each."""
    rows = [
        {"scene": n % 6, "model_a": methods[0][n % 6], "model_b": methods[1][n % 6], "rater": n // 6}
        for n in range(60)
    ]
    table = pd.DataFrame(rows).assign(winner="A", **{" check ": "passed"})
    verdicts = analysis.read(table, columns={"excluded": ""}, rater_kind="person")
    assert verdicts["pair_id"].nunique() == pairs
    assert set(verdicts.groupby("pair_id")["rater"].nunique()) == {10}
    sessions = pd.DataFrame(rows).assign(winner="A").rename(columns={"scene": "session"})
    assert "--set columns.pair_id=session" in refusal(sessions)  # a session holds several texts


def number_in_own_order(name, write):
    """Return a table in which `item` counts the rows of each rater, who saw 12 texts in an own order.

    A column `name` has the texts. All raters prefer alpha on the same 9 texts.
    """
    return pd.DataFrame(
        {"item": number, **AB, name: write(text), "rater": f"r{step}", "winner": "A" if text < 9 else "B"}
        for step in (1, 5, 7)
        for number in range(12)
        for text in [number * step % 12]
    )


@pytest.mark.parametrize(
    ("name", "write"),
    [
        *((name, "text {}".format) for name in ("title", "text", "image")),
        *((name, "abcdefghijkl".__getitem__) for name in ("dialogue", "headline")),
    ],
)
def test_row_numbers_of_raters_are_not_pair_ids(tmp_path, name, write):
    table = number_in_own_order(name, write)
    files = write_tables(tmp_path, **dict(iter(table.groupby("rater"))))
    for source in (table, files):
        assert f"--set columns.pair_id={name}. If item does, write --set columns.pair_id=item" in refusal(
            source
        )
        assert counts(source, columns={"pair_id": name}) == ("27/0/9", 12)
        assert counts(source, columns={"pair_id": "item"}) == ("27/0/9", 12)
    assert counts(number_in_own_order("screen", str)) == ("27/0/9", 12)  # a number may count screens


@pytest.mark.parametrize("names", [("A", "B"), ("poem_a", "poem_b"), ("audio1", "audio2")])
def test_row_numbers_are_not_ids_of_other_compared_texts(names):
    first, second = names
    table = number_in_own_order(first, "one {}".format)
    table = table.assign(winner=table["winner"].map({"A": "alpha", "B": "beta"}))
    table[second] = table[first].str.replace("one", "two")
    assert f"If {first} names the pair" in refusal(table, columns={"pair_id": "item"})
    assert counts(table, columns={"pair_id": first}) == ("27/0/9", 12)


@pytest.mark.parametrize(
    ("name", "is_empty", "message"),
    [
        ("scenario", lambda row: row == 7, "scenario is empty on row 8, and names what was compared"),
        ("case_id", lambda row: row == 7, "case_id is empty on row 8, and names what was compared"),
        ("prompt", lambda row: row % 3 > 0, "prompt is empty on rows 2, 3, 5, 6, 8 and 35 more, and names"),
    ],
)
def test_item_that_is_empty_in_a_row_is_refused(name, is_empty, message):
    table = rated(name)
    table[name] = [None if is_empty(row) else cell for row, cell in enumerate(table[name])]
    assert message in refusal(table)


VOTES = [{**AB, "winner": word, "n": n} for word, n in (("alpha", 30), ("beta", 10), ("tie", 5))]


@pytest.mark.parametrize(
    "rows",
    [
        VOTES,
        [{**row, "item": item} for item in range(9) for row in VOTES],
        [{**row, "rater": item, "item": item} for item in range(9) for row in VOTES],
        [{**row, "criterion": criterion} for criterion in ("wit", "style") for row in VOTES],
        [{"winner": "alpha", "loser": "beta", "n": 30}, {"winner": "beta", "loser": "alpha", "n": 10}],
    ],
)
@pytest.mark.parametrize("name", ["Count", "Anzahl", "responses", "k"])
def test_counted_votes_are_refused(rows, name):
    """A heading says that votes are counted; or no outcome of an item has two rows, and no rater is named."""
    table = pd.DataFrame(rows).rename(columns={"n": name})
    if "rater" not in table or name in {"Count", "Anzahl"}:
        assert f"{name} may be the number of votes of each row" in refusal(table)


@pytest.mark.parametrize("name", ["study", "split", "lang", "length"])
def test_numbered_groups_of_items_are_no_votes(name):
    rows = [{**row, "item": item, name: 2 + item // 5} for item in range(10) for row in VOTES]
    assert counts(pd.DataFrame(rows).drop(columns="n"), columns={"rater": ""}) == ("10/10/10", 10)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(("{}", "{:,}"), ("{}", "#{}"), ("{}", "item_{}"), ("q{}", "Q{}"), ("q{}", "q {}.")),
        *(("item_{}", "item-{}"), ("s_{}.txt", "s_{}"), ("Pair {}", "{}")),
    ],
)
def test_ids_that_raters_write_differently_are_refused(first, second):
    table = rated("item", raters=2, cell=lambda item: 1000 + item)
    table["item"] = [(first, second)[row >= 20].format(item) for row, item in enumerate(table["item"])]
    assert "write one of them in all rows" in refusal(table)
    others = table.assign(
        item=[f"{'pq'[row >= 20]}{item}" for row, item in enumerate([*range(1000, 1020)] * 2)]
    )
    assert analysis.read(others, rater_kind="person")["pair_id"].nunique() == 40


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (("left", "right"), "AB"),
        (("model_a", "model_b"), "AB"),
        (("method1", "method2"), ("first", "second")),
    ],
)
def test_method_named_like_a_changing_side_is_refused(columns, names):
    """In every other row the method A stands at B: the two readings of A have opposite winners."""
    rows = [{"item": n, **dict(zip(columns, names, strict=True)), "winner": names[0]} for n in range(8)]
    table = pd.DataFrame(rows)
    assert counts(table) == ("8/0/0", 8)
    turned = table.rename(columns=dict(zip(columns, columns[::-1], strict=True)))
    both = pd.concat([table, turned.assign(item=turned["item"] + 8)], ignore_index=True)
    assert f"the verdict {names[0]!r} on" in refusal(both)


@pytest.mark.parametrize("word", ["a bit better", "A little better", "a lot worse", "a better"])
def test_article_a_names_no_side(word):
    table = items(10, winner=("about the same", word))
    assert f"the verdict {word!r} names no method" in refusal(table)


@pytest.mark.parametrize(
    "names", [("winner_left", "winner_right"), ("votes_1", "votes_2"), ("chosen1", "chosen2")]
)
def test_marks_of_first_and_second_follow_changed_sides(names):
    """Alpha is better on 30 of 40 items, and stands second on every other one."""
    marks = {names[0]: (1, 0, 1, 1), names[1]: (0, 1, 0, 0)}
    table = items(40, shown_first=("alpha", "beta"), **marks)
    assert counts(table) == ("30/0/10", 40)
    assert "name sides, and no column says" in refusal(table.drop(columns="shown_first"))


TIES = [
    *(("undecided", (0, 1)), ("no_winner", (0, 1)), ("égalité", (False, True)), ("relation", (">", "="))),
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
    table = items(20, better=("beta", "alpha"), **{name: [cells[n % 4 == 0] for n in range(4)]})
    assert counts(table) == ("10/5/5", 20)
    table["worse"] = table["better"].map({"alpha": "beta", "beta": "alpha"})
    assert counts(table.drop(columns=[*AB])) == ("10/5/5", 20)


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
def test_verdict_on_three_or_more_options_is_refused(columns, message):
    assert message in refusal(pd.DataFrame([{"item": n, **columns} for n in range(10)]))


@pytest.mark.parametrize(
    ("name", "cell", "expected"),
    [("winner_tie", 0, ("8/4/2", 14)), ("skipped", 1, ("8/0/2", 10)), ("other", 0, ("8/6/2", 16))],
)
def test_row_of_zeros_is_a_tie_only_without_another_meaning(name, cell, expected):
    """Eight rows for alpha, two for beta, and six rows of zeros; four more have their own mark."""
    marks = [(1, 0, 0)] * 8 + [(0, 1, 0)] * 2 + [(0, 0, cell)] * 6
    marks += [(0, 0, 1)] * 4 if name == "winner_tie" else []
    rows = [{"item": n, **AB, "winner_a": a, "winner_b": b, name: c} for n, (a, b, c) in enumerate(marks)]
    assert counts(pd.DataFrame(rows)) == expected


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        *(
            (("Answer.better.A", "Answer.better.B", f"Answer.better.{tie}"), "tie")
            for tie in ("same", "both")
        ),
        (("Answer.preference.A", "Answer.preference.B", "Answer.preference.unsure"), ""),
        (("A_better", "B_better", "no_diff"), "tie"),
    ],
)
def test_third_answer_is_a_tie_or_must_be_declared(names, verdict):
    """A wins in four rows, B in three, and the third mark is set in two. The last row has no mark."""
    chosen = [0] * 4 + [1] * 3 + [2] * 2 + ([None] if names[2] != "no_diff" else [])
    marks = [{name: str(number == mark) for number, name in enumerate(names)} for mark in chosen]
    table = pd.DataFrame([{"item": number, **AB, **row} for number, row in enumerate(marks)])
    declared = {}
    if verdict == "" or names[2] == "no_diff":
        assert f"{names[2]} may be a third answer beside {names[0]} and {names[1]}" in refusal(table)
        declared = {names[2]: verdict}
    expected = ("4/2/3", 9) if verdict else ("4/0/3", 7)
    assert counts(table, verdicts=declared) == expected


@pytest.mark.parametrize("heading", ["item_id", "question_id", "pair_id"])
def test_short_answers_beside_an_id_name_no_pair(heading):
    """The answers of the two methods are yes, no or maybe, so couples of answers repeat over the items."""
    answers = {"answer_a": ("yes", "no", "maybe"), "answer_b": ("yes", "no")}
    table = by_raters(items(12, winner=[*"AAAAAAAAABBB"], **answers))
    assert counts(table.rename(columns={"item": heading})) == ("27/0/9", 12)


def test_crossed_texts_of_both_methods_name_their_pairs():
    """Three texts of each method meet on 4 prompts: 36 pairs, each judged by three raters."""
    table = pd.DataFrame(
        {**AB, "text_a": f"text {a} of {prompt}", "text_b": f"other text {b} of {prompt}", "rater": rater}
        | {"winner": "A" if prompt < 3 else "B"}
        for prompt in range(4)
        for a in range(3)
        for b in range(3)
        for rater in "xyz"
    )
    assert counts(table) == ("81/0/27", 36)


@pytest.mark.parametrize("total", ["total", "n", "num_votes"])
def test_total_larger_than_the_wins_is_refused(total):
    """Three rows have 5 + 2 wins of 10 verdicts. With a column of the 9 ties, no verdict is missing."""
    table = items(3, wins_a=5, wins_b=2)
    message = refusal(table.assign(**{total: 10}))
    assert f"{total} is larger than the sum of wins_a and wins_b. Remove {total}" in message
    assert counts(table.assign(ties=3)) == ("15/9/6", 3)


def test_property_of_a_rater_can_be_the_prompt():
    """Each worker judges five pairs on one own web page. Pairs on one page are not independent."""
    rows = [{"url": f"x/{n // 5}", **AB, "worker_id": f"w{n // 5}", "winner": "model_a"} for n in range(20)]
    assert "each row is a separate pair, write --set columns.pair_id=" in refusal(pd.DataFrame(rows))
    message = refusal(pd.DataFrame(rows), columns={"pair_id": ""})
    assert "write --set columns.prompt_id=url. If they do not, write --set columns.prompt_id=" in message
    columns = {"pair_id": "", "prompt_id": "url"}
    assert counts(pd.DataFrame(rows), columns=columns) == ("20/0/0", 4)
    sections = [row | {"url": f"1.{n // 5}", "worker_id": "w", "variant": n} for n, row in enumerate(rows)]
    assert "columns.prompt_id=url" in refusal(pd.DataFrame(sections), columns={"pair_id": "variant"})
    groups = [row | {"age_group": n // 5 % 3} for n, row in enumerate(rows)]
    assert "age_group" not in refusal(pd.DataFrame(groups))


def test_possible_rater_column_must_be_declared():
    table = by_raters(items(20, winner="A"), "xy").assign(trial=range(40))
    assert "--set columns.rater=staff" in refusal(table.rename(columns={"rater": "staff"}))
    assert analysis.read(table.rename(columns={"rater": "initials"}))["rater"].nunique() == 2


@pytest.mark.parametrize("name", ["sample_id", "confidence", "comparison_id"])
def test_item_numbers_are_not_counts_of_votes(name):
    table = items(20, winner="model_a").drop(columns="item").assign(**{name: range(2, 22)})
    assert counts(table) == ("20/0/0", 20)


@pytest.mark.parametrize("name", ["prompt_length", "row", "time_spent"])
def test_number_beside_a_single_verdict_is_no_count(name):
    table = items(24, criterion=("x", "y"), winner=("A", "A", "B")).assign(**{name: range(50, 74)})
    table["item"] //= 2
    assert analysis.read(table)["pair_id"].nunique() == 12


@pytest.mark.parametrize(("name", "is_asked"), [("topic", False), ("genre", False), ("chapter", True)])
def test_attribute_of_a_question_is_not_the_prompt(name, is_asked):
    """Several questions about one chapter depend on each other."""
    table = by_raters(items(20, winner="A", **{name: ("t0", "t1", "t2", "t3")}), "xy")
    table = table.rename(columns={"item": "question_id"})
    if is_asked:
        assert f"--set columns.prompt_id={name}" in refusal(table)
    else:
        assert counts(table) == ("40/0/0", 20)


def test_column_of_two_prompt_texts_must_be_declared():
    table = by_raters(items(12, seed_text=("Write a story.", "Write a poem."), winner="A"))
    assert "--set columns.prompt_id=seed_text" in refusal(table)


def test_property_of_a_rater_is_not_an_item():
    rows = [
        {"rater": n, "model_a": a, "model_b": b, "winner": a, "university": n % 4}
        for n in range(12)
        for a, b in ("xy", "xz", "yz")
    ]
    assert analysis.read(pd.DataFrame(rows), rater_kind="person")["pair_id"].nunique() == 36


@pytest.mark.parametrize(("group", "number"), [("book", "chapter"), ("file", "line"), ("url", "paragraph")])
def test_columns_that_name_a_pair_together_are_declared(group, number):
    """Twelve pairs of two texts are two units, unless the user says that the texts are no prompts."""
    names = {group: ["b0"] * 6 + ["b1"] * 6, number: (0, 1, 2, 3, 4, 5)}
    table = by_raters(items(12, winner="A", **names).drop(columns="item"), "xy")
    assert f"write --set columns.pair_id={group},{number}." in refusal(table)
    for pair in (f"{group}, {number}", f"{number},{group}"):
        message = refusal(table, columns={"pair_id": pair})
        assert f"several pairs have the same {group!r}. If they share a prompt" in message
        assert f"write --set columns.prompt_id={group}. If" in message
        assert counts(table, columns={"pair_id": pair, "prompt_id": group}) == ("24/0/0", 2)
        assert counts(table, columns={"pair_id": pair, "prompt_id": ""}) == ("24/0/0", 12)


@pytest.mark.parametrize("text", ["prompt", "question", "story", "Source Text"])
def test_prompt_ids_that_hardly_repeat_group_no_pairs(text):
    """12 pairs of 4 texts are 4 units, also if a running number is called prompt_id."""
    texts = {text: [f"Write text {n // 3}" for n in range(12)]}
    table = by_raters(items(12, winner="A", **texts), "xy").rename(columns={"item": "prompt_id"})
    assert counts(table) == ("24/0/0", 4)
    pairs = table.assign(pair_id=table["prompt_id"])
    assert counts(pairs) == ("24/0/0", 4)
    assert counts(pairs.assign(prompt_id=pairs["prompt_id"].replace(1, 0))) == ("24/0/0", 4)
    assert counts(table, columns={"prompt_id": "prompt_id"}) == ("24/0/0", 12)
    unknown = pairs.rename(columns={text: "Aufgabe"})
    assert "several pairs have the same 'Aufgabe'. If they share a prompt" in refusal(unknown)


def test_missing_prompt_is_no_prompt_of_its_own():
    numbers = [n // 2 for n in range(12)]
    table = items(12, prompt_id=numbers, winner="A").astype({"prompt_id": object})
    table = table.rename(columns={"item": "pair_id"})
    assert counts(table) == ("12/0/0", 6)
    table.loc[3:5, "prompt_id"] = None
    assert "prompt_id is empty on rows 4, 5, 6, and filled in other rows" in refusal(table)
    assert counts(table, columns={"prompt_id": ""}) == ("12/0/0", 12)


@pytest.mark.parametrize(
    "headings",
    [
        ("coherence", "fluency", "preference"),
        ("fluency", "answer", "coherence"),
        ("funny", "clear", "winner"),
        ("quality", "relevance", "wit"),
    ],
)
@pytest.mark.parametrize("winners", [{}, {"A": "alpha", "B": "beta"}])
def test_criteria_with_unusual_headings_are_not_lost(headings, winners):
    answers = {name: ["B"] + ["A"] * size for size, name in enumerate(headings, start=1)}
    table = items(12, rater="r", **answers)
    columns = {}
    if headings[2] in {"preference", "winner"}:
        message = refusal(table)
        assert f"may hold verdicts, too, beside {headings[2]}. If all are criteria" in message
        assert "columns.headings=rater" not in message
        columns = {"headings": "criterion"}
    verdicts = analysis.read(table.replace(winners), columns=columns, rater_kind="person")
    assert verdicts["criterion"].nunique() == 3


@pytest.mark.parametrize("name", ["item", "prompt"])
def test_error_suggests_an_item_column_as_the_pair(name):
    rows = [
        {"pair_id": f"{a}_vs_{b}", name: n, "model_a": a, "model_b": b, "rater": "r", "winner": "A"}
        for n in range(6)
        for a, b in ("xy", "xz", "yz")
    ]
    message = refusal(pd.DataFrame(rows))
    assert f"--set columns.pair_id={name}" in message
    assert f"criterion={name}" not in message
    assert analysis.read(pd.DataFrame(rows), columns={"pair_id": name})["pair_id"].nunique() == 6


NESTED = [
    {"domain": d, "doc_id": n, "seg_id": s, **AB, "rater": rater, "winner": "A" if s else "B"}
    for d in ("news", "law")
    for n in range(3)
    for s in range(4)
    for rater in "xy"
]
BY_LANGUAGE = [{**row, "rater": row["rater"] + row["domain"], "lang": row["domain"]} for row in NESTED]


@pytest.mark.parametrize(
    ("rows", "columns", "pairs", "units"),
    [
        (NESTED, "domain,doc_id,seg_id", 24, 6),
        ([row for row in NESTED if row["doc_id"] == 0], "domain,seg_id", 8, 8),
        ([row for row in BY_LANGUAGE if row["doc_id"] == 0], "lang,seg_id", 8, 8),
    ],
)
def test_ids_that_restart_in_each_group_are_joined(rows, columns, pairs, units):
    """The units are documents if the columns name them."""
    table = pd.DataFrame(rows)[[*columns.split(","), *AB, "rater", "winner"]]
    message = refusal(table)
    for _ in range(2):
        if f"--set columns.pair_id={columns}" not in message:
            message = refusal(table, columns={"pair_id": "doc_id,seg_id"})
    assert f"--set columns.pair_id={columns}" in message
    verdicts = analysis.read(table, columns={"pair_id": columns})
    prompt = "prompt_id" if "prompt_id" in verdicts else "pair_id"
    assert (verdicts["pair_id"].nunique(), verdicts[prompt].nunique()) == (pairs, units)


@pytest.mark.parametrize("name", ["timestamp", "rt", "time_elapsed"])
def test_error_suggests_no_time_as_a_criterion(name):
    """Two showings of a pair are one rating."""
    table = rated("item").assign(**{name: [*range(1000, 1020)] * 3})
    table = pd.concat([table, table[:1].assign(**{name: 2000})])
    message = refusal(table)
    assert "columns.criterion" not in message
    assert f"--set columns.presentation={name}" in message
    assert counts(table, columns={"presentation": name}) == ("39/0/21", 20)


def test_error_suggests_rows_with_other_texts_as_pairs():
    responses = {f"response_{side}": [f"{side}{n}" for n in range(20)] for side in (0, 1)}
    table = items(20, winner="A", **responses).rename(columns={"item": "prompt"})
    table["prompt"] //= 2
    assert "--set columns.pair_id= --set columns.prompt_id=prompt" in refusal(table)
    assert counts(table, columns={"pair_id": "", "prompt_id": "prompt"}) == ("20/0/0", 10)


@pytest.mark.parametrize("names", [("system1rank", "system2rank"), ("score_a", "score_b")])
def test_numbers_of_both_texts_are_no_verdict(names):
    table = items(12, **{names[0]: (0, 1, 2), names[1]: (0, 1)})
    declared = {"columns": {"verdict": names[0]}}
    words = {"verdicts": {"0": "b", "1": "tie", "2": "a"}}
    for options in ({}, declared, declared | words):
        assert f"{names[0]} and {names[1]} have a number for each text" in refusal(table, **options)
    better = ["tie", "tie", "alpha", "beta", "alpha", "alpha"]
    assert counts(table.assign(verdict=better * 2)) == ("6/4/2", 12)


@pytest.mark.parametrize("name", ["pair", "Paar", "match", "uuid", "trial_id"])
def test_column_with_one_prompt_for_each_cell_names_pairs(name):
    """Two raters judge twelve pairs of four prompts. One of them judges nine of the pairs."""
    rows = [
        {"prompt": f"Write story {n // 3}", name: f"x{n}", **AB, "rater": rater, "winner": "A"}
        for n in range(12)
        for rater in ("uv" if n % 4 else "u")
    ]
    assert counts(pd.DataFrame(rows)) == ("21/0/0", 4)
    crossed = pd.DataFrame(rows).assign(
        **{name: [f"x{n % 3}" for n in range(12) for _ in "uv"[: 1 + (n % 4 > 0)]]}
    )
    assert f"columns.pair_id=prompt,{name}" in refusal(crossed)


@pytest.mark.parametrize("name", ["group", "handedness", "batch"])
def test_property_of_a_rater_is_no_verdict(name):
    table = by_raters(items(8), (0, 1, 2))
    table[name] = table["rater"].map({0: "A", 1: "B", 2: "A"})
    table["best text"] = (table["item"] * table["rater"] % 3 == 1).map({True: "B", False: "A"})
    assert set(analysis.read(table)["criterion"]) == {"best text"}


def test_headings_can_be_raters_or_criteria():
    table = items(6, ann="A", bob="B").rename(columns={"item": "prompt"})
    assert "--set columns.headings=rater" in refusal(table)
    assert counts(table, columns={"headings": "rater"}) == ("6/0/6", 6)
    by_criterion = analysis.shares(table, columns={"headings": "criterion"}, rater_kind="person")
    assert by_criterion.set_index("criterion")["wins"].to_dict() == {"ann": 6, "bob": 0}


@pytest.mark.parametrize("heading", ["Q{} [{}]", "Q{}_{}", "{}{}", "{1}: story {0}", "{1}_{0}"])
def test_survey_headings_that_form_a_grid_are_refused(heading):
    names = [heading.format(n, criterion) for n in range(5) for criterion in ("fluency", "style")]
    table = pd.DataFrame([{"Email": f"p{n}", **dict.fromkeys(names, "AB"[n % 2])} for n in range(4)])
    declared = {"headings": "pair_id", "rater": "Email"}
    assert "combine two things" in refusal(table, columns=declared, verdicts={"A": "alpha", "B": "beta"})


def test_model_column_beside_sides_is_not_a_third_method():
    rows = [
        {"left_model": "x1", "right_model": "y1", "model": "m", "item": n, "winner": "left"} for n in range(9)
    ]
    assert counts(pd.DataFrame(rows)) == ("9/0/0", 9)


def test_flag_about_raters_does_not_name_them():
    table = rated("item")
    student = table["rater"].eq(table["rater"].iloc[0]).map({True: "Yes", False: "No"})
    assert counts(table.rename(columns={"rater": "Annotator"}).assign(Student=student)) == ("39/0/21", 20)


def test_named_index_is_a_column():
    table = rated("item")
    assert counts(table.set_index("item")) == ("39/0/21", 20)
    assert counts(table.set_index(table["item"].rename("item"))) == ("39/0/21", 20)
    assert counts(table.set_index("item").rename_axis(None)) == ("39/0/21", 20)
    assert counts(table.set_index(["item", "rater"])) == ("39/0/21", 20)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        *(("tone", ("neutral", "formal")), ("languages", ("both", "en")), ("similar", ("yes", "no"))),
        *(("topic", ("draw", "paint")), ("gpt4", ("tie", "alpha", "beta")), ("quality", (1, 2))),
    ],
)
def test_unrelated_column_does_not_mark_ties(name, cells):
    assert counts(items(12, winner="alpha", **{name: cells})) == ("12/0/0", 12)


def test_compared_texts_yes_and_no_do_not_mark_winners():
    table = items(12, response_a=("yes", "no"), response_b=("no", "yes"), human="A")
    assert counts(table) == ("12/0/0", 12)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("answer", ("ignore", "accept")),
        ("quality.responses.status", ("draft", "submitted")),
        ("AssignmentStatus", ("Rejected", "Approved")),
        ("was_cancelled", (True, False)),
        ("is_practice", (1, 0)),
        ("Trial Type", ("practice", "main")),
        ("_tainted", ("true", "false")),
        ("attention_check", ("failed", "passed")),
        ("failed_attention_check", ("yes", "no")),
        ("passed_attention", ("no", "yes")),
        ("isGold", ("x", "")),
        ("trial_kind", ("practice", "main")),
        ("usable", (0, 1)),
        ("duplicate", ("TRUE", "FALSE")),
        ("consent", ("no", "yes")),
        ("anony", (False, True)),
        ("Blind", ("no", "yes")),
        ("models_shown", (1, 0)),
        ("Reject", ("x", "no")),
        ("excluded", (1, 0)),
        ("Finished", (False, True)),
        ("quality.valid", (False, True)),
        ("rating_complete", (0, 2)),
        ("dedup_tag.sampled", (False, True)),
        ("submitdate", ("", "2026-01-02 03:04:05")),
        ("rating_timestamp", ("[not completed]", "2026-01-02 03:04:05")),
        ("DistributionChannel", ("test", "anonymous")),
        ("passed_attention_check", ("no", "yes")),
        ("Status", ("TIMED-OUT", "OK")),
        *(("Valid", ("nein", "ja")), ("duplicate", ("oui", "non")), ("consent", ("否", "是"))),
    ],
)
def test_invalid_and_practice_rows_are_left_out(name, cells):
    """The 4 marked rows are won by alpha, so with them alpha would have 8 wins instead of 4."""
    mark, other = cells
    table = items(12, winner=("alpha", "alpha", "beta"), **{name: (mark, other, other)})
    assert counts(table) == ("4/0/4", 8)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("valid", ("não", "sim")),
        ("keep", ("да", "нет")),
        ("excluded", ("いいえ", "はい")),
        ("consent", ("No.", "Yes.")),
    ],
)
def test_unknown_words_for_yes_and_no_are_asked_about(name, cells):
    table = items(12, winner="alpha", **{name: (*cells, cells[1])})
    assert f"'{cells[0]}' and '{cells[1]}' are no known words for yes and no" in refusal(table)
    assert counts(table, columns={"excluded": ""}) == ("12/0/0", 12)


@pytest.mark.parametrize(
    ("name", "marked", "other"),
    [
        ("task", "practice", "main"),
        ("screen", "tutorial", "study"),
        ("approval", "Rejected", "Approved"),
        ("worker_status", "banned", "ok"),
        ("QC", "fail", "pass"),
        ("analysis", "exclude", "include"),
        ("Status", "NOT_SUBMITTED", "SUBMITTED"),
        ("participant", "incomplete", "complete"),
        ("exclude_reason", "failed", ""),
        ("qf", "bad", "good"),
        ("Quality_Flag", "poor", "ok"),
        ("exclusion", "too fast", ""),
        ("duplicate_of", "r1", ""),
        ("deleted_at", "2025-01-01", ""),
        ("error", "timeout", ""),
        ("api_error", "429", None),
        ("Approve", "x", ""),
        ("low_quality", 1, 0),
        ("timed_out", "yes", "no"),
        ("screened_out", "True", "False"),
        ("Status", 1, 0),
        ("incomplete", 1, 0),
        ("story_complete", 1, 0),
        ("saw_model_name", "yes", "no"),
        ("names_visible", "true", "false"),
        ("sandbox", "y", "n"),
        ("drop", "x", "no"),
        *((name, 1, 0) for name in ("rejected", "attention_check", "failed", "gold", "flagged", "passed")),
        ("is_check", "yes", "no"),
        ("Aufmerksamkeitstest", "nicht bestanden", "bestanden"),
        *(
            (name, "ja", "nein")
            for name in ("ungültig", "Ausschluss", "Kontrollfrage", "Ausreißer", "golden")
        ),
        *((name, "oui", "non") for name in ("invalide", "exclu")),
        ("无效", "是", "否"),
        *((name, 1, 0) for name in ("straightlining", "speeder", "voided", "draft")),
    ],
)
def test_rows_that_may_not_count_are_asked_about(name, marked, other):
    """The marked rows are all won by alpha, and the others by beta."""
    table = items(12, rater="u", winner=("alpha", "beta", "beta"), **{name: (marked, other, other)})
    message = refusal(table)
    assert f"columns.excluded={name}".replace(" ", "") in message
    is_yes = str(marked).casefold() in {"1", "x", "y", "yes", "true", "ja", "oui", "是"}
    assert ("call the column 'valid'" in message) == is_yes
    assert counts(table, columns={"excluded": name}) == ("0/0/8", 8)
    assert counts(table, columns={"excluded": ""}) == ("4/0/8", 12)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "accepted",
            "passed_check",
            "reliable",
            "used_in_analysis",
            "is_latest",
            "parse_ok",
            "ok",
            "submitted",
        ),
        "qa.passed",
    ],
)
def test_rows_that_may_not_be_valid_are_asked_about(name):
    table = items(12, winner=("alpha", "beta", "beta"), **{name: ("no", "yes", "yes")})
    assert "count, call the column 'valid'" in refusal(table)
    assert counts(table.rename(columns={name: "valid"})) == ("0/0/8", 8)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("native_speaker", ("yes", "no")),
        ("used_dictionary", ("yes", "no")),
        ("difficulty", ("easy", "hard")),
        ("course", ("training", "sports")),
        ("failed", ("some text", "")),
        ("device", ("phone", "")),
        ("topic", ("spam", "news", "sports", "art")),
    ],
)
def test_ordinary_columns_do_not_leave_out_rows(name, cells):
    table = items(12, winner="alpha", **{name: cells})
    assert counts(table, columns={"prompt_id": ""}) == ("12/0/0", 12)


@pytest.mark.parametrize(
    ("who", "what"),
    [("rater{}", "label{}"), ("annotator_{}_id", "annotator_{}_choice"), ("Worker {}", "vote {}")],
)
def test_columns_that_name_the_raters_of_slots_are_read(who, what):
    """Of five people, two judge each of 10 items; ann always prefers alpha, and the others beta."""
    people = ["ann", "bob", "cy", "dee", "eve"]
    rows = [
        {"item": n, **AB}
        | {who.format(slot): people[(n + slot) % 5] for slot in (1, 2)}
        | {what.format(slot): "A" if (n + slot) % 5 == 0 else "B" for slot in (1, 2)}
        for n in range(10)
    ]
    verdicts = analysis.read(pd.DataFrame(rows))
    assert sorted(set(verdicts["rater"])) == people
    assert set(verdicts["rater"][verdicts["verdict"] == "alpha"]) == {"ann"}
    assert counts(pd.DataFrame(rows)) == ("4/0/16", 10)


@pytest.mark.parametrize(
    "columns",
    [{"winner": "A"}, {"winner": "alpha", "loser": "beta"}, {"fluency": "A", "style": "B"}],
)
def test_repeated_header_in_joined_files_is_refused(tmp_path, columns):
    table = items(12, **columns).to_csv(index=False)
    path = tmp_path / "joined.csv"
    path.write_text(table + table)
    assert "the header is repeated on line 14" in refusal(path)


def test_unknown_kind_of_raters_can_be_declared_later(tmp_path):
    verdicts = analysis.read(rated("item"))
    assert set(verdicts["rater_kind"]) == {"unknown"}
    summary = analysis.report(verdicts, tmp_path, rater_kind="person").summary
    assert summary.startswith("3\xa0people rated 20")


@pytest.mark.parametrize(
    "name",
    [
        "majority",
        "consensus",
        "Gold",
        "rater_final",
        "agreed_label",
        "mean rater",
        "majority_of_3",
        "the mean of experts",
        "gesamt",
    ],
)
def test_aggregate_of_raters_is_no_rater(name):
    table = rated("item").assign(winner="model_a")
    summed = rated("item", raters=1).assign(rater=name, winner="model_b")
    assert counts(pd.concat([table, summed])) == ("60/0/0", 20)
    wide = items(20, rater_1="A", rater_2="A", **{name: "B"})
    assert counts(wide) == ("40/0/0", 20)


@pytest.mark.parametrize("form", ["{item}_{rater}", "by-{rater}/{item}", "https://x.org/{item}?by={rater}"])
def test_ids_that_contain_the_rater_are_refused(form):
    """3 raters of 20 pairs are no 60 pairs."""
    table = rated("item")
    table["item"] = [form.format(item=row.item, rater=row.rater.upper()) for row in table.itertuples()]
    assert "seems to contain the rater" in refusal(table)
    assert counts(table, columns={"pair_id": "item"})[1] == 60
    table.loc[::20, "item"] = "0"  # one pair has the same id for all
    assert "seems to contain the rater 'r0'" in refusal(table)


def test_ids_with_a_common_beginning_are_read():
    table = rated("item").assign(item=[f"story-{number}" for number in range(60)])
    assert counts(table)[1] == 60


def test_criterion_may_have_the_name_true():
    table = items(12, rater="r", fluent="A", coherent="A", true="B")
    assert analysis.read(table, columns={"headings": "criterion"})["criterion"].nunique() == 3


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("alpha_is_A", ("yes", "no")),
        ("is_A_alpha", (True, False)),
        ("system_is_A", ("yes", "no")),
        ("key", ("A=alpha", "A=beta")),
        ("which_is_alpha", ("A", "B")),
        ("mapping", ("1", "2")),
        ("file_a", ("alpha/1.txt", "beta/1.txt")),
        ("A_is", ("alpha", "beta")),
        ("condition", ("alpha_left", "alpha_right")),
        ("layout", ("beta first", "beta second")),
        ("vertauscht", ("nein", "ja")),
        ("inversé", ("non", "oui")),
    ],
)
def test_column_that_may_name_method_a_is_refused(name, cells):
    """The winners equal the cells of A_is if letters are read as columns, so equality proves nothing."""
    table = items(12, rater="r", choice=("A", "B"), **{name: cells})
    assert f"the column '{name}' may say that sides changed" in refusal(table)


@pytest.mark.parametrize("cells", [("12", "21"), ("alpha-beta", "beta-alpha"), ("AB", "BA"), ("A,B", "B,A")])
def test_words_on_screens_are_no_headings_beside_an_order(cells):
    """Raters saw "Model A" on the left, and the column `order` says that the left text changed."""
    table = items(12, rater="r", choice=("Model A", "Model B"), order=cells)
    assert "the column 'order' may say that sides changed" in refusal(table)
    assert counts(table.drop(columns="order")) == ("6/0/6", 12)
    assert counts(table.assign(choice=["model_a", "model_b"] * 6)) == ("6/0/6", 12)
    meanings = {"Model A": "a", "Model B": "b"}
    assert counts(table, verdicts=meanings) == ("6/0/6", 12)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("winner_model", ("alpha", "beta")),
        ("alpha_has_list", (1, 0)),
        ("genre", ("x", "y")),
        ("checkpoint", ("alpha v1", "alpha v2")),
        ("inverse_problem", ("yes", "no")),
        ("speeding_ticket", ("yes", "no")),
        ("golden_age", ("yes", "no")),
        *(
            (heading, cells)
            for heading in ("Duration (in seconds)", "WorkTimeInSeconds", "First Language", "random_seed")
            for cells in ("3", ("3", "5"))
        ),
        ("residence", ("3", "5")),
    ],
)
def test_unrelated_column_does_not_change_what_letters_mean(name, cells):
    table = items(12, rater="r", choice=("A", "B"), **{name: cells})
    assert counts(table) == ("6/0/6", 12)


def test_letters_do_not_name_methods_declared_by_the_user():
    table = items(12, rater="r", choice=("A", "B")).drop(columns=[*AB])
    message = refusal(table, verdicts={"ours": "ours", "base": "base"})
    assert "'A' and 'B' name sides" in message
    assert "--set 'verdicts.\"A\"=SIDE'" in message
    assert counts(table, verdicts={"A": "ours", "B": "base"}) == ("6/0/6", 12)


@pytest.mark.parametrize(
    ("name", "cells"),
    [("reasoning_effort", ("low", "high")), ("reasoning_effort", (None, "high")), ("decoding", ("k", "p"))],
)
def test_method_with_several_settings_is_refused(name, cells):
    settings = {f"{name}_a": cells, f"{name}_b": cells[0]}
    table = items(12, rater="r", choice="A", **settings)
    assert f"the method 'alpha' has the {name}_a" in refusal(table)
    assert counts(table.assign(**{f"{name}_a": cells[1]})) == ("12/0/0", 12)
    assert counts(table.assign(**{f"{name}_b": table[f"{name}_a"]})) == ("12/0/0", 12)


def test_methods_in_two_files_are_refused(tmp_path):
    """The letters may be those of the columns, or those of the file of items."""
    answers = items(12, rater="r", winner="A")
    key = pd.DataFrame({"item": range(12), "A": ["alpha", "beta"] * 6, "B": ["beta", "alpha"] * 6})
    paths = write_tables(tmp_path, answers=answers, key=key)
    assert "another file has other methods for the same items" in refusal(paths)
    write_tables(tmp_path, key=items(12, prompt="one"))
    assert set(analysis.read(paths)["prompt_id"]) == {"one"}
    write_tables(tmp_path, key=key, answers=answers.drop(columns=[*AB]))
    assert list(analysis.read(paths)["verdict"]) == ["alpha", "beta"] * 6


@pytest.mark.parametrize("name", ["response_id", "rater"])
def test_rater_that_differs_in_every_row_must_be_declared(name):
    table = rated("item").rename(columns={"rater": "Teilnehmer"})
    table[name] = range(60)
    assert f"--set columns.rater=Teilnehmer or --set columns.rater={name}" in refusal(table)
    verdicts = analysis.read(table, columns={"rater": "Teilnehmer"}, rater_kind="person")
    assert verdicts["rater"].nunique() == 3
    alone = table.drop(columns="Teilnehmer")
    verdicts = analysis.read(alone, columns={"rater": name}, rater_kind="person")
    assert verdicts["rater"].nunique() == 60


def test_constant_prompt_is_one_unit():
    assert counts(rated("item").assign(prompt="Write a story.")) == ("39/0/21", 1)
    assert counts(rated("pair_id").assign(prompt="Write a story.")) == ("39/0/21", 1)


@pytest.mark.parametrize("name", ["item", "case_id", "prompt"])
def test_empty_item_column_is_refused(name):
    assert f"{name} is empty on rows 1, 2" in refusal(rated(name).assign(**{name: None}))


def label_studio(annotators=(1, 2)):
    """Return tasks as Label Studio exports them, one for each annotator and each of 12 items."""
    tasks = [(item, who) for who in annotators for item in range(12)]
    result = [{"from_name": "choice", "type": "choices", "value": {"choices": ["A"]}}]
    return [
        {
            "id": number,
            "data": {"prompt": f"p{item % 3}", "text_a": f"a{item}", "text_b": f"b{item}", **AB},
            "annotations": [{"completed_by": who, "result": result}],
        }
        for number, (item, who) in enumerate(tasks)
    ]


def test_label_studio_tasks_with_equal_data_are_one_item(tmp_path):
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(label_studio()))
    verdicts = analysis.read(path)
    assert (verdicts["pair_id"].nunique(), verdicts["prompt_id"].nunique()) == (12, 3)
    path.write_text(json.dumps(label_studio([1])))
    assert counts(path) == ("12/0/0", 3)


@pytest.mark.parametrize("name", ["effort", "temperature", "decoding"])
def test_settings_of_tasks_are_refused_as_in_tables(tmp_path, name):
    tasks = label_studio()
    for number, task in enumerate(tasks):
        task["data"] |= {f"{name}_a": ["low", "high"][number % 2], f"{name}_b": "low"}
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(tasks))
    assert f"has the {name}_a 'high' and 'low', so it may be several methods" in refusal(path)
    for task in tasks:
        del task["data"][f"{name}_a"], task["data"][f"{name}_b"]
    path.write_text(json.dumps(tasks))
    assert counts(path) == ("24/0/0", 3)


def test_texts_of_tasks_can_be_the_prompt(tmp_path):
    path = tmp_path / "tasks.json"
    tasks = label_studio()
    for task in tasks:
        task["data"]["source"] = task["data"].pop("prompt")
    path.write_text(json.dumps(tasks))
    message = refusal(path)
    assert "several pairs have the same 'source'" in message
    assert "text_a" not in message
    assert counts(path, columns={"prompt_id": "source"}) == ("24/0/0", 3)
    assert counts(path, columns={"prompt_id": ""}) == ("24/0/0", 12)


def test_read_table_keeps_its_declarations():
    topics = [n // 3 for n in range(15)]
    table = items(15, topic=topics, rater="r", winner="A").rename(columns={"item": "pair_id"})
    assert "columns.prompt_id=topic" in refusal(table)
    verdicts = analysis.read(table, columns={"prompt_id": ""}, rater_kind="person")
    assert counts(verdicts) == ("15/0/0", 15)


def test_instruction_for_all_rows_is_not_the_prompt():
    """With one prompt alone, all pairs share it."""
    prompts = [f"Why {n}?" for n in range(24)]
    table = items(24, winner="alpha", instruction="Pick one.", rater="ann")
    assert counts(table.assign(prompt=prompts)) == ("24/0/0", 24)
    assert counts(table) == ("24/0/0", 1)


def both_orders(**columns):
    """Return the verdicts of a judge on 20 items in both orders: alpha wins 18 of them in each order."""
    return [
        {"item": n, **AB, "judge": "gpt-4o", "winner": "AB"[(n < 18) == order]}
        | {name: cells[order] for name, cells in columns.items()}
        for n in range(20)
        for order in (0, 1)
    ]


@pytest.mark.parametrize(
    "headings",
    [
        ("winner_ab", "winner_ba"),
        ("pass1", "pass2"),
        ("choice", "choice_flipped"),
        ("normal", "mirrored"),
        ("verdict_1", "verdict_2"),
    ],
)
def test_verdicts_on_two_orders_are_not_criteria(headings):
    rows = both_orders()
    table = pd.DataFrame(
        [
            first | dict(zip(headings, (first["winner"], second["winner"]), strict=True))
            for first, second in zip(rows[::2], rows[1::2], strict=True)
        ]
    )
    table = table.drop(columns="winner").rename(columns={"choice": "winner"})
    assert "may be verdicts on two orders" in refusal(table)
    agreeing = table.assign(**{table.columns[-1]: table[table.columns[-2]]})
    agreeing.columns = [*agreeing.columns[:-2], "fluency", "coherence"]
    assert set(analysis.read(agreeing, rater_kind="model")["criterion"]) == {"fluency", "coherence"}


@pytest.mark.parametrize(
    ("name", "cells"),
    [("variant", ("original", "swapped")), ("direction", ("forward", "backward")), ("order", ("AB", "BA"))],
)
def test_column_that_may_tell_changed_sides_is_refused(name, cells):
    table = pd.DataFrame(both_orders(**{name: cells}))
    for columns in ({}, {"presentation": name}):
        assert f"the column '{name}' may say that sides changed" in refusal(table, columns=columns)


def test_named_methods_in_both_orders_are_two_showings():
    table = pd.DataFrame(both_orders(order=("AB", "BA")))
    table["winner"] = ["alpha" if n < 36 else "beta" for n in range(40)]
    verdicts = analysis.read(table, rater_kind="model")
    assert (len(verdicts), verdicts["presentation"].nunique()) == (40, 2)


@pytest.mark.parametrize(
    "ratings",
    [{"margin": 0}, {"chosen_rating": 4, "rejected_rating": 4}, {"chosen_score": 1, "rejected_score": 1}],
)
def test_equal_ratings_are_ties(ratings):
    table = pd.DataFrame({"prompt": range(12), "chosen": "alpha", "rejected": "beta"})
    for number, (name, value) in enumerate(ratings.items()):
        table[name] = [value if n < 4 else value + n + number for n in range(12)]
    assert counts(table) == ("8/4/0", 12)
    assert counts(table.assign(score_a=4, score_b=4)) == ("8/4/0", 12)


@pytest.mark.parametrize(("last", "expected"), [((5, 4), "8/4/0"), ((4, 5), "12/0/0")])
def test_equal_scores_are_ties_if_no_score_contradicts_a_winner(last, expected):
    """Four rows have equal scores. If the loser of another row has the higher score, scores say nothing."""
    scores = {"score_1": (4, 4, last[0]), "score_2": (4, 3, last[1])}
    table = items(12, winner="alpha", loser="beta", **scores).rename(columns={"item": "prompt"})
    assert counts(table.drop(columns=[*AB])) == (expected, 12)


def test_score_of_one_text_is_no_verdict():
    rows = [
        {"item": n, "rater": "r", "system": name, "score": n % 5} for n in range(6) for name in AB.values()
    ]
    assert "score may rate one text in each row" in refusal(pd.DataFrame(rows))


@pytest.mark.parametrize("name", ["Model", "system", "author", "condition"])
@pytest.mark.parametrize("score", ["Relevance", "overall", "acceptable"])
def test_author_of_a_rated_text_is_no_verdict(name, score):
    """Alpha wrote two of the three texts of each prompt, which is no reason to prefer alpha."""
    rows = [
        {"Prompt": f"Prompt {n}", name: author, "Worker ID": worker, score: (n + worker + copy) % 5}
        for n in range(8)
        for worker in range(2)
        for copy, author in enumerate(["alpha", "alpha", "beta"])
    ]
    assert f"{name} may name the author of one text in each row" in refusal(pd.DataFrame(rows))


@pytest.mark.parametrize("names", [("モデルA", "モデルB"), ("home", "away"), ("النموذج أ", "النموذج ب")])
@pytest.mark.parametrize("is_changing", [False, True])
def test_columns_of_methods_are_found_by_their_cells(names, is_changing):
    """As words, alpha and beta would make a criterion of each column, which one method always wins."""
    rows = []
    for n in range(24):
        methods = ("beta", "alpha") if is_changing and n % 2 else ("alpha", "beta")
        winner = "alpha" if n % 12 < 9 else "beta"
        rows.append({"项目": n % 12, **dict(zip(names, methods, strict=True)), "人": n // 12, "判定": winner})
    columns = dict(zip(("method_a", "method_b"), names, strict=True))
    message = refusal(pd.DataFrame(rows))
    assert all(f"columns.{name}={heading}" in message for name, heading in columns.items())
    assert "verdicts." not in message
    assert counts(pd.DataFrame(rows), columns={**columns, "pair_id": "项目", "rater": "人"}) == ("18/0/6", 12)


def test_columns_that_contradict_each_other_about_sides_are_refused():
    methods = {"first_system": ("alpha", "beta"), "second_system": ("beta", "alpha")}
    table = items(12, left="alpha", right="beta", winner="left", **methods).drop(columns=[*AB])
    assert "the methods could be left and right and first_system" in refusal(table)


@pytest.mark.parametrize("name", ["judge1", "Judge A", "judge_07"])
def test_judge_with_a_number_may_be_a_person(name):
    table = rated("item").assign(judge=name).drop(columns="rater")[:20]
    assert set(analysis.read(table)["rater_kind"]) == {"unknown"}
