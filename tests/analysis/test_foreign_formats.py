"""Verdicts of other tools: each format as its programs write it, on small files made by hand after them."""

import gzip
import json
import re
from contextlib import suppress
from copy import deepcopy

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outcomes import refusal

from analysis import read
from analysis.verdicts.checks import check_verdicts
from analysis.verdicts.reading import get_reading
from analysis.verdicts.sources import FORMATS, load_files
from analysis.verdicts.table import Declarations
from analysis.verdicts.words import find_word_meaning
from guard_eval.errors import StudyError


def save(folder, records, name="given.json"):
    """Write records as JSON, or as lines of it."""
    path = folder / name
    if name.endswith("jsonl"):
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    else:
        path.write_text(json.dumps(records), encoding="utf-8")
    return path


def column(table, *names):
    return list(table[list(names)].itertuples(index=False, name=None))


def notes(table):
    """Return everything that is said of the reading."""
    return "; ".join((*get_reading(table).notes, *get_reading(table).format_lines()))


def alpaca(number, preference, **more):
    return {
        "instruction": f"Do {number}.",
        "output_1": "base",
        "generator_1": "gpt4_1106_preview",
        "dataset": "helpful_base",
        "output_2": "longer text",
        "generator_2": "mine",
        "annotator": "weighted_alpaca_eval_gpt4_turbo",
        "preference": preference,
        "raw_completion": {"logprobs": {"content": [{"token": "m"}]}},
        **more,
    }


def test_alpaca_eval_file_is_read(tmp_path):
    values = [1.0, 2.0, 1.5, 1.9900139974, 1.4593660117, None, float("nan"), 0]
    path = save(tmp_path, [alpaca(number, value) for number, value in enumerate(values)])
    table = read(path)
    base, mine = "gpt4_1106_preview", "mine"
    # Of these alpaca_eval 0.6.6 counts n_wins 2, n_wins_base 2, n_draws 2, n_total 6, win_rate 57.4897.
    assert list(table["verdict"]) == [base, mine, "tie", mine, base, "tie"]
    assert set(column(table, "method_a", "method_b", "rater_kind", "criterion")) == {
        (base, mine, "model", "overall")
    }
    assert set(column(table, "length_a", "length_b")) == {(4.0, 11.0)}
    assert table["pair_id"].nunique() == table["prompt_id"].nunique() == 6
    # The mean of 0, 1, .5, .9900139974, .4593660117 and .5.
    assert table["preference_b"].astype(float).mean() == pytest.approx(0.574897, abs=1e-6)
    assert "2 left out: no verdict (records 6, 7)" in notes(table)
    assert "read as AlpacaEval annotations" in notes(table)


def test_alpaca_eval_preference_follows_its_generator(tmp_path):
    plain, swapped = alpaca(1, 1.2), alpaca(2, 1.2, generator_1="mine", generator_2="gpt4_1106_preview")
    table = read(save(tmp_path, [plain, swapped]))
    # Generator_1 is preferred by .8 in both: the baseline in the first, mine in the second.
    assert column(table, "method_a", "verdict", "preference_a", "preference_b") == [
        ("gpt4_1106_preview", "gpt4_1106_preview", "0.8", "0.2"),
        ("gpt4_1106_preview", "mine", "0.2", "0.8"),
    ]
    assert "where preferences are continuous" in notes(table)


def arena(number, first, second, **more):
    games = [{"user_prompt": "…", "judgment": "…", "score": score} for score in (first, second)]
    return {"question_id": f"q{number}", "model": "mine", "judge": "gpt-4-1106", "games": games, **more}


def test_arena_hard_file_is_read_in_both_orders(tmp_path):
    labels = [("A>>B", "A>B"), ("B>A", "B>>A"), ("A=B", None), ("B=A", "A<<B")]
    path = save(tmp_path, [arena(n, *both) for n, both in enumerate(labels)], "mine.jsonl")
    table = read(path)
    # A is the baseline in the first game, and the model in the second.
    assert column(table, "pair_id", "presentation", "shown_first", "verdict") == [
        ("q0", "1", "baseline", "baseline"),
        ("q0", "2", "mine", "mine"),
        ("q1", "1", "baseline", "mine"),
        ("q1", "2", "mine", "baseline"),
        ("q2", "1", "baseline", "tie"),
        ("q3", "1", "baseline", "tie"),
        ("q3", "2", "mine", "baseline"),
    ]
    assert "1 left out: no verdict (line 3)" in notes(table)
    assert "called 'baseline'" in notes(table)
    assert "the strength of 3 verdicts, such as A>>B, is dropped" in notes(table)


def test_arena_hard_2_names_its_baseline(tmp_path):
    record = arena(1, "A>B", "A<B", baseline="o3-mini", category="hard_prompt")
    record["uid"] = record.pop("question_id")
    table = read(save(tmp_path, [record], "mine.jsonl"))
    assert column(table, "dataset", "method_a", "verdict") == [("hard_prompt", "o3-mini", "o3-mini")] * 2
    assert "called 'baseline'" not in notes(table)


def mt_bench(first, second, **more):
    return {
        "question_id": 81,
        "model_1": "alpaca-13b",
        "model_2": "vicuna-13b",
        "g1_winner": first,
        "g2_winner": second,
        "judge": ["gpt-4", "pair-v2"],
        "g1_judgment": "…",
        "turn": 1,
        "tstamp": 1687222000.1,
        **more,
    }


def test_fastchat_judgments_are_read(tmp_path):
    records = [
        mt_bench("model_2", "model_1"),
        mt_bench("tie", "error", turn=2),
        mt_bench("model_2", "model_2", question_id=82, m1_score=3, m2_score=9),
    ]
    table = read(save(tmp_path, records, "gpt-4_pair.jsonl"))
    # The winners of second games are named as in first ones: FastChat has changed the sides back.
    assert column(table, "pair_id", "prompt_id", "rater", "rater_kind", "verdict") == [
        ("81, turn 1", "81", "gpt-4", "model", "vicuna-13b"),
        ("81, turn 1", "81", "gpt-4", "model", "alpaca-13b"),
        ("81, turn 2", "81", "gpt-4", "model", "tie"),
        ("82, turn 1", "82", "gpt-4", "model", "vicuna-13b"),  # graded singly: one verdict, in no order
    ]
    first, second = "alpaca-13b", "vicuna-13b"
    assert list(table["shown_first"].astype(object).fillna("")) == [first, second, first, ""]
    assert "1 left out: no verdict (line 2)" in notes(table)


def vote(winner, judge, a="alpaca-13b", b="gpt-4", **more):
    record = {"question_id": 81, "model_a": a, "model_b": b, "winner": winner, "judge": judge, "turn": 1}
    return record | more


@pytest.mark.parametrize("name", ["votes.jsonl", "votes.csv", "votes.parquet"])
def test_fastchat_votes_of_people_are_read(tmp_path, name):
    records = [
        vote("model_b", "expert_0"),
        vote("tie", "author_3"),
        vote("model_a", "expert_0", "gpt-4", "alpaca-13b"),  # the same rater on the other order
        vote("tie (bothbad)", "arena_user_973"),
        vote("tie (inconsistent)", "gpt4_pair"),
    ]
    frame = pd.DataFrame(records)
    if name.endswith("csv"):
        frame.to_csv(tmp_path / name, index=False)
    elif name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        frame.to_parquet(tmp_path / name)
    else:
        save(tmp_path, records, name)
    table = read(tmp_path / name)
    assert column(table, "rater", "rater_kind", "verdict") == [
        ("expert_0", "person", "gpt-4"),
        ("author_3", "person", "tie"),
        ("expert_0", "person", "gpt-4"),
        ("arena_user_973", "person", "tie"),
        ("gpt4_pair", "model", "tie"),
    ]
    assert "1 of 'tie (bothbad)' count as ties" in notes(table)
    assert "1 of 'tie (inconsistent)' count as ties" in notes(table)


METHODS = {"method_a": "guard", "method_b": "acs"}


def task(number, *annotations, **data):
    return {
        "id": number,
        "data": {"pair_id": f"p{number}", **METHODS, "left": "acs", "right": "guard", **data},
        "annotations": list(annotations),
        "predictions": [],
    }


def annotation(who, cancelled=False, **answers):
    regions = [
        {"from_name": name, "to_name": "prompt", "type": "choices", "value": {"choices": [word]}}
        if word not in {"left", "right"}
        else {"from_name": name, "to_name": "x,y", "type": "pairwise", "value": {"selected": word}}
        for name, word in answers.items()
    ]
    comment = {"from_name": "note", "type": "textarea", "value": {"text": ["A"]}}
    return {"completed_by": who, "was_cancelled": cancelled, "lead_time": 4.25, "result": [*regions, comment]}


def test_label_studio_file_is_read(tmp_path):
    records = [
        task(
            1,
            annotation(10, coherence="left", fluency="B"),
            annotation({"id": 3, "email": "a@b.c"}, fluency="tie"),
        ),
        task(2, annotation(10, cancelled=True, fluency="A"), annotation(10, coherence="right")),
        task(3) | {"predictions": [{"result": []}]},
    ]
    table = read(save(tmp_path, records))
    assert "1 left out: predictions are no verdicts (record 3)" in notes(table)
    assert column(table, "pair_id", "rater", "criterion", "verdict", "shown_first", "seconds") == [
        ("p1", "10", "coherence", "acs", "acs", 4.25),
        ("p1", "10", "fluency", "guard", "acs", 4.25),
        ("p1", "a@b.c", "fluency", "tie", "acs", 4.25),
        ("p2", "10", "coherence", "guard", "acs", 4.25),
    ]
    assert "1 left out: the annotator skipped it (record 2)" in notes(table)
    assert "1 left out: not annotated (record 3)" in notes(table)


def test_label_studio_mark_without_a_control_is_no_answer(tmp_path):
    answer = annotation(10, fluency="A")
    answer["result"] = [answer["result"][0], {"type": "rectangle", "value": {"x": 1}}]
    table = read(save(tmp_path, [task(1, answer)]))
    assert list(table["verdict"]) == ["acs"]
    assert "left out" not in notes(table)


def test_item_with_changed_sides_must_name_the_sides(tmp_path):
    def blind(**more):
        return {"id": 1, "data": {"pair_id": "p", **METHODS, **more}, "annotations": [annotation(1, flu="A")]}

    table = read(save(tmp_path, [blind()]))
    assert list(table["verdict"]) == ["guard"]
    assert "read by method_a and method_b" in notes(table)
    assert "on record 1 is a side, and the column 'swapped' may say that sides" in refusal(
        save(tmp_path, [blind(swapped=True)])
    )
    assert "on record 1 is a side, and the column 'order' may say that sides" in refusal(
        save(tmp_path, [blind(order="BA")])
    )
    table = read(save(tmp_path, [blind(swapped=True, left="acs", right="guard")]))
    assert list(table["verdict"]) == ["acs"]
    assert "read by left and right" in notes(table)
    assert "on record 1 is a side, and the column 'model_1' may say" in refusal(
        save(tmp_path, [blind(model_1="acs", model_2="guard")])
    )


REFUSED = [
    *(
        (alpaca(1, value), "record 1: preference is .*; write a number from 1 .* 1.5 for a draw")
        for value in (True, "better", 0.5, [1, 2], "inf")
    ),
    *((arena(1, "A>B", label), f"the verdict '{label}' names no method .* record 1") for label in ("C", 1)),
    (vote("model_c", "expert_0"), "the verdict 'model_c' names no method of its pair on record 1"),
    (vote("model_a", "expert_0", a=""), "method_a is empty on record 1"),
    (vote("model_a", None), "judge is empty on record 1"),
    (vote("model_a", "expert_0", a="gpt-4"), "has no verdicts; 1 left out: a method compared with itself"),
    (vote("model_a", "expert_0", a="half \ud83d"), "half a character"),
    (vote("model_a", "expert_0") | {"half \ud83d": ""}, "half a character"),
    (
        task(1, annotation(1, fluency="Maybe"), annotation(2, fluency="A")),
        "verdict 'A' on .* may name a side, or something else.* Declare .*Maybe",
    ),
    (
        task(1, annotation(1, fluency="A"), left="x"),
        "left and right are not the row's methods on record 1; write the same two methods in both",
    ),
    (
        task(1, {"result": [{"type": "choices", "value": {"choices": ["A", "B"]}}]}),
        "record 1: choices has 2 choices .*; keep one",
    ),
    (task(1, annotation(None, fluency="A")), "rater is empty on record 1"),
    (
        task(1, annotation(1, fluency="A")) | {"data": {}},
        "nothing says which methods .*; add the fields method_a",
    ),
    (
        task(1, annotation(1, fluency="A"), method_a="B", method_b="A"),
        "'B' has the name of a side or a tie .* rename it",
    ),
]


@pytest.mark.parametrize(("record", "message"), REFUSED)
def test_faulty_record_is_refused(tmp_path, record, message):
    with pytest.raises(StudyError, match=message):
        read(save(tmp_path, [record]))


@pytest.mark.parametrize("form", ["jsonl", "csv", "old"])
def test_potato_file_is_read(tmp_path, form):
    items = save(tmp_path, [{"id": "i1", "text": "…", **METHODS}, {"id": "i2", **METHODS}], "items.jsonl")
    answers = [("i1", "A", "tie"), ("i2", "B", "B")]
    folder = tmp_path / "anna"
    folder.mkdir()
    if form == "csv":  # of `potato export --format csv`: SCHEME.LABEL
        head = "instance_id,user_id,coherence.selection,coherence.justification,fluency,x._spans"
        path = folder / "annotations.csv"
        lines = (f"{item},anna,{coherence},,{fluency},[]" for item, coherence, fluency in answers)
        path.write_text("\n".join([head, *lines]))
    else:
        ids, chosen = ("id", "label_annotations") if form == "old" else ("instance_id", "labels")
        records = [
            {ids: item, "user_id": "anna", chosen: {"coherence": {first: "1"}, "fluency": {second: "true"}}}
            for item, first, second in answers
        ]
        path = save(folder, records, "annotated_instances.jsonl")
    assert "which methods were compared" in refusal(path)
    table = read([path, items])
    assert column(table.astype(object), "pair_id", "rater", "criterion", "verdict") == [
        ("i1", "anna", "coherence", "guard"),
        ("i1", "anna", "fluency", "tie"),
        ("i2", "anna", "coherence", "acs"),
        ("i2", "anna", "fluency", "acs"),
    ]


def test_table_with_methods_is_not_read_as_potato(tmp_path):
    row = {"user_id": "anna", "model_a": "guard", "model_b": "acs", "winner": "model_a"}
    table = read(save(tmp_path, [{"instance_id": f"i{n}", **row} for n in range(3)]))
    assert list(table["verdict"]) == ["guard"] * 3


HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"


SHOWN = """pair_id,method_a,method_b,left,right,rater,coherence,fluency
1,guard,acs,guard,acs,anna,A,tie
2,guard,acs,acs,guard,anna,A,left
3,guard,acs,acs,guard,anna,right,B
"""
UNBLINDED = {  # by hand: A and left are the method in the column left
    ("1", "coherence", "guard"),
    ("2", "coherence", "acs"),
    ("3", "coherence", "guard"),
    ("1", "fluency", "tie"),
    ("2", "fluency", "acs"),
    ("3", "fluency", "guard"),
}


def test_letters_mean_sides_in_tables_with_sides(tmp_path):
    path = tmp_path / "sides.csv"
    path.write_text(SHOWN)
    table = read(path)
    assert set(column(table, "pair_id", "criterion", "verdict")) == UNBLINDED
    assert set(column(table, "pair_id", "shown_first")) == {("1", "guard"), ("2", "acs"), ("3", "acs")}
    assert "read by left and right" in notes(table)
    path.write_text(SHOWN.replace("1,guard,acs,guard,acs", "1,guard,acs,guard,guard"))
    assert "sides.csv: left and right are not the row's methods on line 2" in refusal(path)
    path.write_text(SHOWN.replace("acs,guard,anna,A,left", "acs,guard,anna,method_a,left"))
    assert "'method_a' on line 3 may mean a column or a side" in refusal(path)


FIRST, WIDE = f"{HEADER},shown_first", "pair_id,method_a,method_b,rater,fluency"


@pytest.mark.parametrize(
    ("header", "rows", "verdicts"),
    [  # the verdicts, or what is wrong
        (f"{HEADER},swapped", "1,d,x,y,anna,c,A,False", ["x"]),
        (f"{HEADER},swapped", "1,d,x,y,anna,c,A,False 2,d,x,y,anna,c,A,True", "line 3 .* 'swapped' may say"),
        (f"{HEADER},is_flipped", "1,d,x,y,anna,c,A,0 2,d,x,y,anna,c,A,1", "line 3 .* 'is_flipped' may say"),
        (f"{HEADER},model_left", "1,d,x,y,anna,c,A,x 2,d,x,y,anna,c,A,y", "line 3 .* 'model_left' may say"),
        (f"{HEADER},model_left", "1,d,x,y,anna,c,y,x 2,d,x,y,anna,c,y,y", ["y", "y"]),  # names need no side
        (f"{WIDE},first", "1,x,y,anna,A,x 2,x,y,anna,A,y", "on line 3 is a side.* 'first' may say"),
        (f"{WIDE},zuerst", "1,x,y,anna,A,x 2,x,y,anna,A,y", "'fluency' has sides, and 'zuerst' has methods"),
        (FIRST, "1,d,x,y,anna,c,A,x 2,d,x,y,anna,c,B,y", "on line 3 is a side.* 'shown_first' may say"),
        (FIRST, "1,d,x,y,anna,c,A,x 2,d,x,y,anna,c,B,a 3,d,x,y,anna,c,y,y", ["x", "y", "y"]),
        (
            HEADER,
            "1,d,B,A,anna,c,A 2,d,B,A,anna,c,left",
            "'A' on line 2 may name a side, or the method 'A'",
        ),
        (HEADER, "1,d,A,B,anna,c,A", ["A"]),  # a method's own name, and its letter
        (HEADER, "1,d,B,A,anna,c,A", "'A' on line 2 may name a side, or the method 'A'"),
        (HEADER, "1,d,x,y,anna,c,C", "the verdict 'C' names no method of its pair on line 2; write 'x'"),
    ],
)
def test_ambiguous_letter_is_refused(tmp_path, header, rows, verdicts):
    path = tmp_path / "blind.csv"
    path.write_text("\n".join((header, *rows.split(" "))))
    if isinstance(verdicts, list):
        assert list(read(path)["verdict"]) == verdicts
    else:
        assert re.search(f"blind.csv: .*{verdicts}", refusal(path))


def test_parquet_index_is_read(tmp_path):
    frame = pd.DataFrame(
        {"pair_id": ["p", "q"], "dataset": "d", "method_a": "x", "method_b": "y", "rater": "anna"}
    ).assign(criterion="c", verdict=["A", "B"], texts=[["one", "two"], ["three"]])
    path = tmp_path / "index.parquet"
    frame.set_index("pair_id").to_parquet(path)
    assert column(read(path), "pair_id", "verdict") == [("p", "x"), ("q", "y")]


def test_apostrophe_before_formula_is_removed(tmp_path):
    path = tmp_path / "safe.csv"
    path.write_text(f"{HEADER}\n1,d,'+x,y,anna,c,'+x\n2,d,'+x,y,'tis,c,tie\n")
    table = read(path)
    assert column(table, "method_a", "verdict", "rater") == [("+x", "+x", "anna"), ("+x", "tie", "'tis")]


def test_real_apostrophe_before_an_id_is_kept(tmp_path):
    path = tmp_path / "real.csv"
    path.write_text(f"{HEADER}\n-0,d,x,y,anna,c,x\n'-0,d,x,y,anna,c,y\n")
    assert column(read(path), "pair_id", "verdict") == [("-0", "x"), ("'-0", "y")]


def test_file_of_two_formats_needs_a_named_format(tmp_path):
    path = save(tmp_path, [alpaca(1, 1.0, **vote("model_b", "expert_0"))])
    assert "--set format=alpaca-eval or --set format=f" in refusal(path)
    assert len(read(path, form="fastchat")) == 1
    assert "no format 'fastchatt'; did you mean 'fastchat'" in refusal(path, form="fastchatt")


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "table"])
def test_error_names_the_record_of_a_foreign_file(tmp_path, form):
    path = save(tmp_path, [{"x": 1}], "odd.jsonl")
    assert "odd.jsonl" in refusal(path, form=form)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1, "a": 2}\n{"a": 1}\n', r"line 1: an object has the key 'a' twice; keep one"),
        (b"[" * 100_000, "not valid JSON"),
        (b'[{"a": 1}, 3]', r"record 2: '3' is not a JSON object"),
        (b'{"a": 1}\n{"a": \n', "line 2: not valid JSON"),
        (b'{"a": "\xff"}\n{"a": 1}\n', r"is not UTF-8 \(line 1"),
        (b'[{"a": ' + b"9" * 5000 + b"}]", r"not valid JSON \(a number or a nesting that cannot be read\)"),
        (b"[]", "has no verdicts"),
        (b"", "has no verdicts"),
        (b"null", "'None' is not a JSON object"),
        (gzip.compress(b'[{"a": 1}]', mtime=0)[:-9], "cannot read"),
        (
            b'[{"doc_id": 1, "resps": [], "arguments": []}]',
            "but no verdicts. To score the texts, give the file to guard-eval measure",
        ),
    ],
)
def test_broken_json_is_refused(tmp_path, content, message):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(StudyError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("side", "words"),
    [
        (
            1,
            'A|model_a|response 1|LEFT|[[A]]|A>B|[[A>>B]]|B<A|A is slightly better|I prefer A|1>2|["A"]',
        ),
        (
            -1,
            "b|output_2|right|Option B|B>A|A<<B|B is far better|Strongly prefer Response B|b_wins|the second",
        ),
        (
            0,
            "Tie|tie (bothbad)|Both are good|No preference|equal|about the same|A=B|=|They are the same",
        ),
        (None, "1|2|0|-3||C|AB|guard|A>C|A>A|<b>&|none|better|not A|A or B"),
    ],
)
def test_common_words_for_sides_are_read(side, words):
    sides = {
        word: word_of.side if (word_of := find_word_meaning(word)) else None for word in words.split("|")
    }
    assert sides == dict.fromkeys(words.split("|"), side)


WHOLE = {
    "alpaca-eval": [alpaca(1, 1.2), alpaca(2, 1.5)],
    "arena-hard": [arena(1, "A>B", "B>>A")],
    "fastchat": [mt_bench("model_1", "tie"), mt_bench("model_2", "error", turn=2)],
    "label-studio": [task(1, annotation(10, coherence="A"), annotation({"email": "a@b.c"}, fluency="tie"))],
    "potato": [
        {"instance_id": "i1", "user_id": "anna", "labels": {"c": {"selection": "A"}, "d": {"B": "1"}}}
    ],
    "table": [{"id": 1, "model_a": "x", "model_b": "y", "rater": "anna", "coherence": "A", "fluency": "tie"}],
}
VALUES = [
    *json.loads(
        '[null, true, false, 0, -1, 1.5, NaN, "", " ", "A", "tie", [], {}, [[["A"]]], {"value": {}}]'
    ),
    *json.loads('[[null], [{}], [1, "B"], {"A": [1]}, "\\u001b[2J", "\\ud83d", "\\u202e"]'),
    10**30,
    "x" * 500,
]


def spots(value, path=()):
    """Yield the paths of everything in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from spots(item, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize("form", WHOLE)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_arbitrary_file_is_read_or_refused(tmp_path, form, data):
    """No record, whatever stands in it, ends in anything but verdicts or a StudyError."""
    records = json.loads(json.dumps(WHOLE[form]))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([path for path in spots(records) if path]))
        index = records
        for key in path[:-1]:
            index = index[key]
        if data.draw(st.booleans()) or isinstance(index, list):
            index[path[-1]] = deepcopy(data.draw(st.sampled_from(VALUES)))
        else:
            del index[path[-1]]
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    items = save(tmp_path, [METHODS | {"id": "i1"}], "items.jsonl")
    for form_given in (form, None):
        with suppress(StudyError):
            ((_, cells),) = load_files([file, items], Declarations(form=form_given))
            table = check_verdicts(cells)
            assert (
                table["verdict"].isin(["tie"])
                | (table["verdict"] == table["method_a"])
                | (table["verdict"] == table["method_b"])
            ).all()
