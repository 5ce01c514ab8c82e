"""Tables whose verdicts name sides or columns: which method a word means."""

import shlex

import pandas as pd
import pytest
from outcomes import AB, by_raters, counts, items, refusal

import analysis
from guard_eval.study.toml import apply_overrides

# Alpha is better in 12 of 16 pairs for both raters, and is the first method in every other pair.
ALPHA, BETA, TIES = "24/0/8", "8/0/24", 0


def compared(names, words, methods=AB, **columns):
    """Return a table in which the columns `names` exchange the methods and `words` name these columns."""
    rows = []
    for item in range(16):
        couple = ("alpha", "beta")[:: 1 if item % 2 else -1]
        is_first = (couple[0] == "alpha") == (item % 4 != 0)
        cells = {"item": item, **dict(zip(names, couple, strict=True)), "winner": words[not is_first]}
        rows += [{**cells, "rater": rater} for rater in "uv"]
    return pd.DataFrame(rows)


def read_with_offer(table, start):
    """Read a table with the options that the message of its refusal offers in the sentence with `start`."""
    message = refusal(table)
    [sentence] = [sentence for sentence in message.split(". ") if start in sentence]
    settings = [word for word in shlex.split(sentence) if word.startswith(("columns.", "verdicts."))]
    return counts(table, **apply_overrides({}, settings))


@pytest.mark.parametrize("noun", ["model", "system", "policy", "method"])
def test_words_that_count_from_zero_name_columns(noun):
    names = (f"{noun}_0", f"{noun}_1")
    for words in (names, (f"{noun.title()} 0", f"{noun.title()} 1")):
        assert counts(compared(names, words)) == (ALPHA, 16)
    assert counts(compared((f"{noun}_1", f"{noun}_2"), names)) == (ALPHA, 16)


@pytest.mark.parametrize("noun", ["response", "text"])
def test_offer_for_words_that_count_from_zero(noun):
    words = (f"{noun}_0", f"{noun}_1")
    table = compared(("model_0", "model_1"), words)
    assert all(f'verdicts."{word}"=SIDE' in refusal(table) for word in words)
    assert counts(table, verdicts=dict(zip(words, "ab", strict=True))) == (ALPHA, 16)


@pytest.mark.parametrize(
    "names",
    [
        *(("old", "new"), ("control", "treatment"), ("upper", "lower"), ("red", "blue"), ("sys", "ref")),
        *(
            ("story_x", "story_y"),
            ("candidate_0", "candidate_1"),
            ("reply1", "reply2"),
        ),
    ],
)
def test_verdict_that_is_a_heading_names_the_method_in_its_column(names):
    table = compared(names, names)
    assert read_with_offer(table, "If two columns do") == (ALPHA, 16)
    declared = dict(zip(("method_b", "method_a"), names, strict=True))
    assert counts(table, columns=declared) == (ALPHA, 16)


def test_columns_of_texts_are_not_offered_as_methods():
    """Then the words old and new are the methods: new is better in 4 of 16 pairs."""
    table = compared(("old", "new"), ("old", "new"))
    table["old"], table["new"] = (table["item"].map(f"text {{}} {name}".format) for name in ("x", "y"))
    assert "columns.method_a=old" not in refusal(table)
    assert read_with_offer(table, "If 'new' and 'old' are the methods") == ("8/0/24", 16)


@pytest.mark.parametrize(
    "names",
    [("Maquette A", "Maquette B"), ("author_A", "author_B"), ("модель_а", "модель_б"), ("arm_1", "arm_2")],
)
@pytest.mark.parametrize("verdict", ["winner", "Which one?"])
def test_columns_of_two_sides_with_one_method_each_are_offered(names, verdict):
    table = by_raters(items(16, **{verdict: ("B", "A", "A", "A")}), "uv")
    table = table.rename(columns=dict(zip(AB, names, strict=True)))
    assert read_with_offer(table, "If two columns do") == (ALPHA, 16)


@pytest.mark.parametrize("verdict", ["key", "response", "Question?"])
def test_column_of_sides_is_offered_as_the_verdict(verdict):
    table = by_raters(items(16, **{verdict: ("right", "left", "left", "left")}), "uv")
    table = table.rename(columns={"model_a": "left", "model_b": "right"})
    expected = read_with_offer(table, "If one does") if verdict == "key" else counts(table)
    assert expected == (ALPHA, 16)


@pytest.mark.parametrize(
    ("name", "first"), [("left", "alpha"), ("right", "beta"), ("Left", "alpha"), ("second_model", "beta")]
)
def test_one_column_says_which_method_was_on_a_side(name, first):
    """Alpha is on the left in even pairs, and better in 12 of 16."""
    other = {"alpha": "beta", "beta": "alpha"}[first]
    is_right = [(n % 2 == 1) != (n < 2) for n in range(8)]
    table = by_raters(items(16, winner=is_right, **{name: (first, other)}), "uv")
    placed = table.assign(winner=table["winner"].map({False: "left", True: "right"}))
    assert counts(placed) == (ALPHA, 16)
    lettered = table.assign(winner=table["winner"].map({False: "A", True: "B"}))
    assert f"the column '{name}' may say that sides changed" in refusal(lettered)


@pytest.mark.parametrize("name", ["text_1", "option_a", "top", "A", "author", "left"])
def test_column_with_the_names_of_all_winners_may_be_a_side(name):
    """Alpha is text 1 in even rows and always better. Read by columns, letters agree with `name`, too."""
    table = items(12, choice=("A", "B"), **{name: ("alpha", "beta")})
    assert f"the column '{name}' may say that sides changed" in refusal(table)


def test_seconds_of_the_first_click_are_no_order():
    table = items(12, winner=("A", "A", "B"), **{"First Click": (0.25, 1.25)})
    assert counts(table) == ("8/0/4", 12)


@pytest.mark.parametrize("name", ["none", "NA", "skip", "no answer"])
def test_method_named_like_a_missing_verdict_is_refused(name):
    """In a quarter of 16 rows the verdict is `name`, A in another quarter, and B in the others."""
    table = items(16, winner=(name, "B", "A", "B")).assign(model_a=name, model_b="cot")
    assert f'verdicts."{name}"=SIDE' in refusal(table)
    assert counts(table, verdicts={name: "tie"}) == ("4/4/8", 16)
    assert counts(table, verdicts={name: ""}) == ("4/0/8", 12)
    assert counts(table.assign(winner=[name, "cot", "cot", "cot"] * 4)) == ("4/0/12", 16)


@pytest.mark.parametrize(
    ("name", "cells", "broken"),
    [
        ("shown_first", ("alpha", "beta"), ""),
        ("shown_first", ("alpha", "beta"), "alhpa"),
        ("order", ("AB", "BA"), ""),
        ("alpha_is_left", ("yes", "no"), "maybe"),
    ],
)
@pytest.mark.parametrize("words", ["AB", ("first", "second")])
def test_column_of_sides_with_an_unclear_cell_is_refused(name, cells, broken, words):
    table = items(12, winner=(words[1], words[0], words[0]), **{name: cells})
    table.loc[7, name] = broken
    message = refusal(table)
    assert f"{name!r} says which method was first, but not on row 8, where it has {broken!r}" in message
    assert "verdicts." not in message


@pytest.mark.parametrize("gap", ["", "n/a"])
@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("swapped", ("no", "yes")),
        ("is_swapped", (0, 1)),
        ("display_order", ("1", "2")),
        ("type", ("normal", "mirrored")),
        ("panel", ("AB", "BA")),
        ("top", ("alpha", "beta")),
        ("reihenfolge", ("normal", "getauscht")),
    ],
)
def test_one_empty_cell_hides_no_changed_sides(name, cells, gap):
    """A wins each time, and sides changed in half of the rows, so that neither method is better."""
    table = items(20, winner="A", **{name: cells}).astype({name: object})
    assert repr(name) in refusal(table)
    table.loc[0, name] = gap
    assert repr(name) in refusal(table)


@pytest.mark.parametrize("words", ["AB", ("model_a", "model_b")])
@pytest.mark.parametrize("name", ["swapped_order", "order_flipped", "swapped"])
def test_column_about_swaps_refuses_names_of_columns(name, words):
    """The winner is always on the same side, so the meaning of the column decides the result."""
    cells = ("no", "yes") if name == "swapped" else ("AB", "BA")
    table = items(36, winner=words[0], **{name: cells})
    message = refusal(table)
    assert f"the column {name!r} may say that sides changed" in message
    assert f'verdicts."{words[0]}"=SIDE' in message
    assert counts(table, verdicts={words[0]: "alpha"}) == ("36/0/0", 36)


@pytest.mark.parametrize(
    "meanings",
    [
        {"L": "a", "R": "b", "B": "tie"},
        {"1": "a", "2": "b", "b": "tie"},
        {"B": "tie"},
        {"H": "a", "D": "b", "A": "tie"},
    ],
)
def test_letter_without_the_other_letter_must_be_declared(meanings):
    words = tuple(meanings) if len(meanings) == 3 else ("alpha", "beta", "B")
    table = items(12, winner=words)
    message = refusal(table)
    assert all(f'verdicts."{word}"=SIDE' in message for word in meanings)
    assert counts(table, verdicts=meanings) == ("4/4/4", 12)
    assert counts(table.assign(winner=["B", "tie"] * 6)) == ("0/6/6", 12)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("System 1", "System 2"), "AB"),
        (("model-0", "model-1"), ("model_a", "model_b")),
        (("System A", "System B"), ("left", "right")),
        (("text1", "gpt"), ("A is better", "B is better")),
    ],
)
def test_method_named_unlike_the_words_is_read(names, words):
    table = pd.DataFrame({"item": range(12), "left": names[0], "right": names[1]})
    table["winner"] = [words[1], words[0], words[0], words[0]] * 3
    assert counts(table) == ("9/0/3", 12)


@pytest.mark.parametrize(
    ("names", "words"),
    [(("B", "A"), ("A", "B")), (("System B", "System A"), ("System A", "System B"))],
)
def test_declared_words_can_be_names_of_methods(names, words):
    """The first word is chosen in 9 of 12 rows."""
    cells = (words[1], words[0], words[0], words[0])
    table = items(12, winner=cells).assign(model_a=names[0], model_b=names[1])
    assert f"may name a side, or the method {words[1]!r}" in refusal(table)
    assert counts(table, verdicts=dict(zip(words, "ab", strict=True))) == ("9/0/3", 12)
    assert counts(table, verdicts={word: word for word in words}) == ("3/0/9", 12)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ({"a": "b", "b": "a"}, "a"),
        ({"A": "b", "B": "a", "C": "tie"}, "C"),
        ({"gpt": "alpha"}, "gpt"),
    ],
)
def test_declared_word_that_no_cell_has_is_refused(words, wrong):
    assert f"no cell is {wrong!r}" in refusal(items(12, winner=("A", "B")), verdicts=words)


@pytest.mark.parametrize(
    "heading", ["loser", "Which is worse?", "least_fluent", "rejected_model", "more_errors"]
)
@pytest.mark.parametrize("words", ["AB", ("alpha", "beta")])
def test_column_of_the_worse_text_must_be_declared(heading, words):
    """Alpha is named in 9 of 12 rows."""
    alpha, beta = words
    table = items(12, **{heading: (beta, alpha, alpha, alpha)})
    assert f"{heading!r} seems to name the worse text" in refusal(table)
    columns = {"verdict": heading}
    opposite = {"A": "b", "B": "a", "alpha": "beta", "beta": "alpha"}
    assert counts(table, columns=columns, verdicts={word: opposite[word] for word in words}) == ("3/0/9", 12)
    assert counts(table, columns=columns) == ("9/0/3", 12)
    assert counts(table.assign(winner=[alpha, beta, beta, beta] * 3)) == ("3/0/9", 12)


@pytest.mark.parametrize(
    ("better", "worse"), [("chosen", "rejected"), ("won", "lost"), ("better_system", "worse_system")]
)
def test_column_of_the_better_text_is_offered(better, worse):
    table = items(12, **{better: [*"BAAA"], worse: [*"ABBB"]})
    message = refusal(table)
    assert f"To read {better!r} instead, write --set columns.verdict={better}" in message
    assert f"""--set columns.verdict={worse} --set 'verdicts."A"=SIDE' --set 'verdicts."B"=SIDE'""" in message
    assert counts(table, columns={"verdict": better}) == ("9/0/3", 12)


@pytest.mark.parametrize("name", ["game", "pass", "run", "call"])
def test_opposite_verdicts_of_two_showings_may_be_changed_sides(name):
    """A judge sees both orders and prefers alpha on 18 of 20 items each time."""
    rows = [
        {"item": n, **AB, "judge": "gpt-4o", name: order, "winner": "AB"[(n < 18) == order]}
        for n in range(20)
        for order in (0, 1)
    ]
    table = pd.DataFrame(rows)
    columns = {"presentation": name}
    assert "have opposite verdicts in 20 of 20 cases" in refusal(table, columns=columns)
    verdicts = {"A": "a", "B": "b"}
    assert counts(table, columns=columns, verdicts=verdicts) == ("0/20/0", 20)
    # One of 20 repeated verdicts differs, as in runs of a judge in one order.
    repeated = table.assign(winner=["AB"[(n < 30) == (n == 7)] for n in range(40)])
    assert counts(repeated, columns=columns) == ("14/1/5", 20)


@pytest.mark.parametrize(
    ("columns", "option"),
    [
        ({"item": "n", "who": "r"}, "--set columns.rater=who"),
        ({"Item-ID": "n", "Kritiker": "r"}, "--set columns.rater=Kritiker"),
        ({"Prompt-ID": "n", "Kritiker": "r"}, "--set columns.pair_id=Prompt-ID,Kritiker"),
        ({"item": "n", "user": "author", "who": "r"}, "--set columns.rater=who"),
        ({"prompt_id": "n", "seed": "r", "annotator": "one"}, "--set columns.pair_id=prompt_id,seed"),
    ],
)
def test_offers_for_repeated_pairs_name_headings_and_meanings(columns, option):
    cells = [{"n": n, "r": r, "author": f"user{n}", "one": "ann"} for n in range(12) for r in "uvw"]
    rows = [{**{name: row[key] for name, key in columns.items()}, **AB, "winner": "A"} for row in cells]
    message = refusal(pd.DataFrame(rows))
    assert option in message
    assert message.index("columns.pair_id=") >= message.index(option.split()[1])


@pytest.mark.parametrize("word", ['"A!"', 'A\'s "x"', "a\\b", "a\tb", "50\\50", "a ; b", "x]"])
def test_offer_for_a_word_with_signs_works_as_an_option(word):
    table = items(12, winner=("beta", word, word, word))
    message = refusal(table)
    options = message[message.index("--set") : message.index(" (a, b, tie")]
    [_, setting] = shlex.split(options)
    declared = apply_overrides({}, [setting.replace("=SIDE", "=a")])
    assert counts(table, **declared) == ("9/0/3", 12)


def test_headings_and_methods_in_options_are_texts():
    settings = ["columns.method_a=1", "columns.method_b=1e5", 'verdicts."X"=101', "verdicts.Y=true"]
    expected = {"columns": {"method_a": "1", "method_b": "1e5"}, "verdicts": {"X": "101", "Y": "true"}}
    assert apply_overrides({}, settings) == expected


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("shown_first", ("alpha", "beta")),
        ("order", ("AB", "BA")),
        ("left_model", ("alpha", "beta")),
        ("alpha_is_left", ("yes", "no")),
    ],
)
@pytest.mark.parametrize("words", ["12", ("links", "rechts")])
def test_declared_words_can_name_places(name, cells, words):
    """Alpha is first in even rows, and better in 16 of 20."""
    table = items(20, winner=[words[(n % 5 == 0) != n % 2] for n in range(10)], **{name: cells})
    assert all(f'verdicts."{word}"=SIDE' in refusal(table) for word in words)
    message = refusal(table, verdicts=dict(zip(words, "ab", strict=True)))
    assert f"the column {name!r} may say that sides changed" in message
    assert "on rows 2, 4, 6" in message
    assert "=SIDE' (a method, first or second)" in message
    places = dict(zip(words, ("first", "second"), strict=True))
    assert counts(table, verdicts=places) == ("16/0/4", 20)
    methods = dict(zip(words, AB.values(), strict=True))
    assert counts(table, verdicts=methods) == ("10/0/10", 20)


def test_words_for_places_do_not_explain_swaps():
    table = items(20, winner=("1", "2"), swapped=("no", "yes"))
    message = refusal(table, verdicts={"1": "a", "2": "b"})
    assert "'swapped' may say that sides changed" in message
    assert "=SIDE' (a method)" in message
    places = {"1": "first", "2": "second"}
    assert "'swapped' may say that sides changed" in refusal(table, verdicts=places)
    assert counts(table, verdicts=dict(zip("12", AB.values(), strict=True))) == ("10/0/10", 20)


@pytest.mark.parametrize("name", ["book", "video", "hospital"])
def test_ids_that_begin_again_for_own_raters_must_be_declared(name):
    """Two raters judge the items 0 to 5 of each of three books."""
    groups = pd.concat([items(6, winner="A", **{name: group}) for group in "xyz"])
    table = by_raters(groups, "uv")
    table["rater"] += table[name]
    message = refusal(table)
    assert f"If ids begin again in each {name}, write --set columns.pair_id={name},item" in message
    assert "If they do not, write --set columns.pair_id=item" in message
    assert counts(table, columns={"pair_id": f"{name},item", "prompt_id": ""}) == ("36/0/0", 18)
    assert counts(table, columns={"pair_id": "item"}) == ("36/0/0", 6)


def test_message_names_the_words_of_a_second_header_row():
    """SurveyMonkey writes "Response" under each question."""
    answers = ["Response", *("Summary A", "Summary B") * 6]
    table = pd.DataFrame(
        {"Email": range(13), "Which is better? (1)": answers, "Which is better? (2)": answers}
    )
    message = refusal(table[:5], columns={"headings": "pair_id"})
    assert "no column has verdicts under its heading. Declare what the words mean" in message
    assert "--set 'verdicts.\"Response\"=SIDE'" in message


@pytest.mark.parametrize(
    ("headings", "words"),
    [
        (("player.item", "player.model_a", "player.model_b", "participant.code", "player.choice"), "AB"),
        (
            (
                "INPUT:item",
                "INPUT:system_left",
                "INPUT:system_right",
                "ASSIGNMENT:worker_id",
                "OUTPUT:result",
            ),
            ("left", "right"),
        ),
        (
            (
                "Spreadsheet: item",
                "Spreadsheet: system_left",
                "Spreadsheet: system_right",
                "Worker",
                "Response",
            ),
            ("left", "right"),
        ),
    ],
)
def test_headings_with_prefixes_of_survey_tools_are_read(headings, words):
    rows = [(n, *AB.values(), r, words[n % 4 == 0]) for n in range(12) for r in "uv"]
    table = pd.DataFrame(rows, columns=headings)
    assert counts(table) == ("18/0/6", 12)
    assert analysis.read(table)["rater"].nunique() == 2
