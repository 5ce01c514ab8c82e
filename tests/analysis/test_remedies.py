"""Follow the remedies of refused tables, as they are written, to the right number of units and ties."""

import re

import pandas as pd
import pytest
from outcomes import AB, counts, refusal

import analysis
from guard_eval.errors import StudyError

WORDS = {"plain": "plain", "rich": "rich"}
_OFFER = re.compile(r"--set (?:'([^']*)'|(\S*[^\s.,()]))")


def follow(table, steps, columns=(), verdicts=()):
    """Declare the steps, each of which the message of the table must offer. Return the counts."""
    columns, verdicts = dict(columns), dict(verdicts)
    for step in steps:
        offers = {
            "".join(offer) for offer in _OFFER.findall(refusal(table, columns=columns, verdicts=verdicts))
        }
        assert step in offers
        name, value = step.split("=")
        columns[name.removeprefix("columns.")] = value
    return counts(table, columns=columns, verdicts=verdicts)


def make_battles():
    """Two judges prefer olmo in both orders of five briefs. The id of a battle names its judge and order."""
    return pd.DataFrame(
        {"brief": f"b{brief}", "model_a": a, "model_b": b, "judge": judge, "winner": "olmo"}
        | {"battle_id": f"{judge}_{a}_{b}"}
        for judge in ("j1", "j2")
        for a, b in (("gpt", "olmo"), ("olmo", "gpt"))
        for brief in range(5)
    )


def make_renderings():
    """A judge sees four renderings of six texts in both orders, and prefers the plain one of the first."""
    return pd.DataFrame(
        {"id": f"t{text}", "rendering": f"style {style}", "judge": "j", "plain_first": order}
        | {"winner": "rich" if text else "plain"}
        for text in range(6)
        for style in range(4)
        for order in (True, False)
    )


def make_records():
    """A judge prefers olmo twice in both orders of five pairs, on two questions. Each answer has an id."""
    return pd.DataFrame(
        {"item": pair, "sitting": number, "record": f"{pair}/{number}/{first}", "judge": "j"}
        | {"left": first, "right": second, "winner": "olmo", "axis": axis}
        for pair in range(5)
        for axis in ("wit", "style")
        for number in range(2)
        for first, second in (("gpt", "olmo"), ("olmo", "gpt"))
    )


def make_orders_without_rater():
    """Eight pairs in two orders, by an unnamed rater, with an object in each row."""
    return pd.DataFrame(
        {"item": item, **AB, "view": view, "seen": f'{{"A": "{view}"}}', "winner": "alpha"}
        for item in range(8)
        for view in ("original", "swapped")
    )


def make_pairs_of_prompts():
    """A judge prefers alpha in both pairs of five prompts."""
    return pd.DataFrame(
        {"prompt": f"p{pair // 2}", "pair": pair, "judge": "j", **AB, "winner": "alpha"} for pair in range(10)
    )


@pytest.mark.parametrize(
    ("table", "declared", "steps", "expected"),
    [
        (make_pairs_of_prompts(), {}, ["columns.pair_id=", "columns.prompt_id=prompt"], ("10/0/0", 5)),
        (make_battles(), {}, ["columns.pair_id=brief"], ("0/0/10", 5)),
        (make_renderings(), {"verdicts": WORDS}, ["columns.pair_id=rendering,id", "columns.prompt_id=id"], 6),
        (
            make_renderings(),
            {"verdicts": WORDS, "columns": {"presentation": "plain_first"}},
            ["columns.pair_id=rendering,id", "columns.prompt_id=id"],
            6,
        ),
        (make_records().query("axis == 'wit'"), {}, ["columns.presentation=sitting"], ("0/0/5", 5)),
        (make_orders_without_rater(), {"columns": {"presentation": "view"}}, [], ("8/0/0", 8)),
    ],
)
def test_remedies_for_repeated_verdicts_keep_the_units(table, declared, steps, expected):
    outcome = follow(table, steps, **declared)
    assert outcome == expected or outcome[1] == expected


@pytest.mark.parametrize(
    "offer", ["columns.rater=seen", "columns.pair_id=seen", "columns.pair_id=record,item"]
)
@pytest.mark.parametrize("table", [make_orders_without_rater(), make_records()])
def test_objects_and_ids_of_answers_name_no_texts(table, offer):
    assert offer not in refusal(table)


@pytest.mark.parametrize("verdict", ["winner", "choice"])
@pytest.mark.parametrize("sides", [("left", "right"), ("shown_a", "shown_b")])
def test_empty_winner_is_a_tie_where_another_column_says_so(verdict, sides):
    """Of 12 verdicts 5 prefer alpha, 4 are ties and 3 prefer beta."""
    words = ("left", "right") if sides[0] == "left" else ("a", "b")
    rows = []
    for item in range(12):
        order = ("alpha", "beta") if item % 2 else ("beta", "alpha")
        best = "alpha" if item < 5 else "beta" if item < 8 else None
        choice = words[order.index(best)] if best else "tie"
        methods = dict(zip(sides, order, strict=True))
        rows.append({"pair_id": item, "rater": "r", **methods, "choice": choice, "winner": best})
    table = pd.DataFrame(rows)
    columns = {} if sides[0] == "left" else dict(zip(("method_a", "method_b"), sides, strict=True))
    assert follow(table, [f"columns.verdict={verdict}"], columns) == ("5/4/3", 12)
    # The last tie becomes a text that the rater skipped.
    table.loc[11, "choice"] = "skip"
    assert follow(table, [f"columns.verdict={verdict}"], columns) == ("5/3/3", 11)


@pytest.mark.parametrize("heading", ["error", "gold", "majority_vote", "style_winner", "length"])
@pytest.mark.parametrize("word", ["both", "tie", "same"])
def test_other_words_beside_an_empty_winner_are_no_ties(heading, word):
    rows = [
        {"item": item, **AB, "rater": rater, "winner": "alpha" if item % 4 else None}
        | {heading: None if item % 4 else word}
        for item in range(12)
        for rater in "xyz"
    ]
    try:
        outcome = counts(pd.DataFrame(rows))
    except StudyError as error:
        outcome = "--set" in str(error)
    assert outcome in {True, ("27/0/0", 9)}


@pytest.mark.parametrize("heading", ["conversation", "scene"])
@pytest.mark.parametrize("cell", ["[{}]", '[{{"role": "user", "content": "q{}"}}]', "{{{}}}"])
def test_lists_that_repeat_name_what_was_compared(heading, cell):
    rows = [{heading: cell.format(n), **AB, "rater": r, "winner": "alpha"} for n in range(12) for r in "xyz"]
    assert counts(pd.DataFrame(rows)) == ("36/0/0", 12)
    assert f"columns.pair_id={heading}" in refusal(pd.DataFrame(rows).drop(columns="rater"))


def test_unknown_word_for_a_tie_in_another_column_is_asked():
    """Each of two raters judges two criteria, and only the second has ties, which it calls T."""
    pairs = {"system_a": "alpha", "system_b": "beta"}
    table = pd.DataFrame(
        {
            **pairs,
            "item": n // 2,
            "annotator": "uv"[n % 2],
            "fluency": "AAB"[n % 3],
            "adequacy": "TAB"[n % 3],
            "batch": "ABC"[n // 2 % 3],
        }
        for n in range(24)
    )
    assert "'batch'" not in refusal(table)
    assert "'adequacy' has other words" in refusal(table)
    verdicts = analysis.read(table, verdicts={"T": "tie"})
    assert verdicts.groupby("criterion")["verdict"].agg(lambda cells: (cells == "tie").sum()).to_dict() == {
        "adequacy": 8,
        "fluency": 0,
    }


def test_one_of_few_columns_of_verdicts_can_be_declared():
    table = pd.DataFrame({"item": n, "gold_choice": "A", "judge_choice": "AB"[n % 2]} for n in range(8))
    verdicts = {"A": "gpt", "B": "olmo"}
    assert follow(table, ["columns.verdict=judge_choice"], verdicts=verdicts) == ("4/0/4", 8)


def test_declared_methods_are_sought_in_the_column_that_has_them():
    rows = [
        {
            "item": n,
            "rater": "r",
            "preferred": f"plan_{'ab'[n % 2]}",
            "winner_role": "ours" if n < 6 else "base",
        }
        for n in range(8)
    ]
    verdicts = {"ours": "ours", "base": "base"}
    assert counts(pd.DataFrame(rows), verdicts=verdicts) == ("2/0/6", 8)


def test_error_says_that_more_than_two_methods_need_columns():
    rows = [{"item": n, "rater": "r", "comparison": "x vs y", "winner": "xyz"[n % 3]} for n in range(12)]
    message = refusal(pd.DataFrame(rows), verdicts={name: name for name in "xyz"})
    assert "3 methods are declared, and nothing says which two a row compares" in message


def test_sides_are_no_methods():
    rows = [{"item": n, "rater": "r", "chosen_index": n % 2} for n in range(12)]
    message = refusal(pd.DataFrame(rows), verdicts={"0": "first", "1": "second"})
    assert "which methods were compared" in message


def test_columns_of_several_people_can_be_raters():
    rows = [{"id": n, "A": "gpt", "B": "olmo", "Anna": "AB~"[n % 3], "Ben": "BA~"[n % 3]} for n in range(12)]
    table = pd.DataFrame(rows)
    assert "if all do: --set columns.headings=rater" in refusal(table)
    assert follow(table, ["columns.headings=rater"], verdicts={"~": "tie"}) == ("8/8/8", 12)


def test_question_numbers_that_begin_again_can_be_joined():
    """Two raters judge 8 questions in each of 3 batches, so 48 verdicts are on 24 pairs."""
    rows = [
        {"batch_id": f"x{batch}", "question_no": n, "annotator": f"{batch}{rater}", **AB, "winner": "A"}
        for batch in range(3)
        for rater in range(2)
        for n in range(8)
    ]
    steps = ["columns.pair_id=batch_id,question_no", "columns.prompt_id="]
    assert follow(pd.DataFrame(rows), steps) == ("48/0/0", 24)
