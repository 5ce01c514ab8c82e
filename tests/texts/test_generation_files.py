"""Files of generations: every format gives the same texts, and nothing odd passes uncounted."""

import csv
import gzip
import json
import sys
from pathlib import Path

import pytest
from factories import PROMPT, continuation, recipe

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.metrics.scorers.ngrams import compute_diversity
from guard_eval.records import Generation, Prompt
from guard_eval.texts.continuations import append_continuations
from guard_eval.texts.generation_files import FURTHER, read_generations
from guard_eval.texts.rows import read_rows

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "data" / "generations"

# Everything that a reader of tables may take for something else.
ODD = [
    *("plain", "", "NA", "null", "nan", "None", "123", "1.0", "True", " blanks around "),
    *('quotes " and , commas', "two\nlines\n", "carriage\rreturn", "both\r\nof them", "\n", "=1+1", "'"),
    *("a\u2028b\x85c\x0cd\x1ee", "é 漢字 🦊", "{not: an object}", "[1, 2]", "\\n \\", "x" * 200_000),
]
KINDS = ["jsonl", "json", "csv", "parquet"]


def write(kind: str, rows: list[dict[str, object]], name: str = "file") -> Path:
    path = Path(f"{name}.{kind}")
    if kind == "jsonl":
        path.write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))
    elif kind == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    return path


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def runs(path):
    return [(text.prompt_id, text.run, text.text) for text in read_generations(path)]


def flaws(path, **options):
    return [text.flaws for text in read_generations(path, **options)]


@pytest.mark.parametrize("kind", KINDS)
def test_unusual_characters_are_read_unchanged(kind):
    rows = [{"text": text, "prompt": f"p{text}", "id": str(i)} for i, text in enumerate(ODD)]
    texts = read_generations(write(kind, rows))
    assert [(text.text, text.prompt, text.prompt_id, text.flaws) for text in texts] == [
        (text, f"p{text}", str(i), ()) for i, text in enumerate(ODD)
    ]


@pytest.mark.parametrize("key", ["text", "generated_text", "generated_result", "continuation", "output"])
def test_each_spelling_of_a_key_is_read(key):
    row = {key: "t", "prefix_text": "p", "reference_text": "r", "method": "m", "dataset": "d", "id": 7.0}
    (text,) = read_generations(write("jsonl", [row]))
    assert text == Generation(prompt_id="7", dataset="d", strategy="m", text="t", prompt="p", reference="r")


def test_records_with_only_a_text_get_default_names():
    path = write("csv", [{"completion": "a"}, {"completion": "b"}], name="top_k(k=50)")
    first, second = read_generations(path)
    assert first == Generation(prompt_id="0001", dataset="unnamed", strategy="top_k(k=50)", text="a")
    assert second.prompt_id == "0002"


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_invalid_token_counts_and_times_are_counted_as_flaws(kind):
    row = {
        "text": "t",
        "tokens": 5,
        "new_tokens": 6,
        "finish": "eos",
        "seconds": 0.5,
        "batch": 8,
        "device": "x",
    }
    (text,) = read_generations(write(kind, [row]))
    assert (text.tokens, text.ended, text.seconds, text.batch, text.device) == (6, True, 0.5, 8, "x")
    row |= {"finish": "length", "new_tokens": "many", "seconds": -1.0, "batch": 1.5}
    (bad,) = read_generations(write(kind, [row]))
    assert (bad.tokens, bad.ended, bad.seconds, bad.batch) == (None, False, None, None)
    assert {*bad.flaws} == {f"{name} not a number" for name in ("tokens", "seconds", "batch")}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("dump", [json.dumps, repr])  # pandas writes a dict into CSV as Python does
def test_table_cell_may_contain_several_texts(kind, dump):
    value = {str(i): f'it\'s "{i}"\n' for i in range(12)}
    path = write(kind, [{"generated_result": dump(value)}])
    assert (runs(path), flaws(path)) == ([("0001", 1, value["0"])], [(FURTHER,)])


@pytest.mark.parametrize("value", [None, [], {}, {"0": None, "1": "other"}, [None]])
def test_records_without_text_are_flawed(value):
    (text,) = read_generations(write("jsonl", [{"generated_result": value}]))
    assert text.text == ""
    assert "no text" in text.flaws


def test_next_key_is_read_if_a_value_is_empty():
    (text,) = read_generations(write("jsonl", [{"text": None, "output": "t"}]))
    assert (text.text, text.flaws) == ("t", ())


def test_continuation_files_take_prompts_from_the_study(tmp_path):
    prompts = {"p1": Prompt(id="p1", dataset="wikitext", text="Once upon", reference=" a time")}
    made_by = recipe(strategy="top_k(k=50)")
    own_texts = [
        continuation(f"text {run}", made_by=made_by, run=run, id=made_by.make_continuation_id(PROMPT, run))
        for run in (1, 3)
    ]
    append_continuations(tmp_path, [*own_texts, continuation("x", made_by=made_by, id="2", prompt_id="p2")])
    (path,) = tmp_path.glob("*/top_k(k=50).jsonl")
    first, _, unknown = read_generations(path, prompts=prompts)
    assert (first.prompt, first.reference, first.dataset, first.flaws) == ("Once upon", " a time", "d", ())
    assert (first.tokens, first.ended, first.seconds, first.batch) == (2, False, 0.5, 1)
    assert (unknown.prompt, unknown.flaws) == (None, ("prompt unknown",))
    assert flaws(path) == [(), (), ()]  # nobody said what the prompts are
    assert runs(path)[:2] == [("p1", 1, "text 1"), ("p1", 3, "text 3")]


def test_prompt_of_record_overrides_prompt_of_study():
    prompts = {"1": Prompt(id="1", dataset="wikinews", text="P", reference="R")}
    (text,) = read_generations(write("jsonl", [{"id": 1, "prompt": "own", "text": "t"}]), prompts=prompts)
    assert (text.prompt, text.reference, text.dataset) == ("own", "R", "wikinews")


def test_truncated_last_line_is_named_in_the_error():
    path = Path("f.jsonl")
    path.write_bytes(b'{"text": "a"}\n{"text": "b"}')
    assert [text for _, _, text in runs(path)] == ["a", "b"]
    path.write_bytes(b'{"text": "a"}\n{"text": "b"}\n{"text": "caf\xc3')
    with pytest.raises(StudyError, match=r"line 3: not valid JSON .*; complete or remove it"):
        read_generations(path)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (
            "jsonl",
            b'\xef\xbb\xbf{"text": "good"}\r\n\r\n{"text": "caf\xe9"}\r\n{"text": "\\ud800 alone"}\r\n',
        ),
        ("json", b'[{"text": "good"}, {"text": "caf\xe9"}, {"text": "\\ud800 alone"}]'),
        ("csv", b"\xef\xbb\xbftext,x\r\ngood,\r\ncaf\xe9,\r\n\xff alone,\r\n"),
        ("parquet", [b"good", b"caf\xe9", b"\xff alone"]),
    ],
)
def test_bytes_that_are_not_utf8_are_flaws(kind, data):
    path = Path(f"f.{kind}")
    if kind == "parquet":
        write(kind, [{"text": text} for text in data], name="f")
    else:
        path.write_bytes(data)
    assert [(text.text, text.flaws) for text in read_generations(path)] == [
        ("good", ()),
        ("caf�", ("not UTF-8",)),
        ("� alone", ("not UTF-8",)),
    ]


def test_repeated_prompt_is_named_as_a_flaw():
    rows = [{"prompt": p, "text": t} for p, t in ("pa", "qb", "pc")]
    path = write("jsonl", rows)
    assert [name for name, _, _ in runs(path)] == ["0001", "0002", "0003"]
    assert flaws(path) == [(), (), ("prompt repeated",)]
    named = write("jsonl", [row | {"id": n} for row, n in zip(rows, (1, 2, 2), strict=True)])
    assert flaws(named) == [(), (), ("prompt repeated",)]
    apart = write("jsonl", [row | {"strategy": str(n)} for n, row in enumerate(rows)])
    assert flaws(apart) == [(), (), ()]


def test_strategies_in_one_file_share_prompts_without_ids():
    """Their first texts of a prompt have one name, and their second texts another."""
    rows = [{"prompt": p, "strategy": s, "text": "t"} for p, s in ("pg", "pa", "pa", "qa", "qg", "pg")]
    path = write("jsonl", rows)
    assert [text.prompt_id for text in read_generations(path)] == [
        "0001",
        "0001",
        "0003",
        "0004",
        "0004",
        "0003",
    ]


def test_text_that_begins_with_its_prompt_is_flawed():
    path = write("jsonl", [{"prompt": "Once", "text": "Once upon"}])
    assert flaws(path) == [("text begins with its prompt",)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("f.json", '{"text": "t"}\n'),
        ("f.json", '{"text": "t"}\n{"text": "t"}\n'),  # lines
        ("f.jsonl", '[{"text": "t"}]'),
        ("F.JSON", '\n [{"text": "t"}]'),
        ("f.tsv", "id\ttext\n1\tt\n"),
        ("f.csv", "id;text\n1;t\n"),
        ("f.jsonl.gz", '{"id": 1, "text": "t"}\n'),
        ("named-like-nothing", '{"id": 1, "text": "t"}\n'),
        ("f.jsonl", '{"text": ["t"]}\n'),
        ("f.json", '{"version": 1, "data": [{"text": "t"}]}'),
        ("f.json", '{"columns": ["id", "text"], "index": [0], "data": [[1, "t"]]}'),
        ("f.json", '{"id": {"0": 1, "1": 2}, "text": {"0": "t", "1": "t"}}'),
        ("f.json", '{"0": {"id": 1, "text": "t"}, "1": {"id": 2, "text": "t"}}'),
        ("f.csv", ",text\n0,t\n1,t\n"),
        ("f.csv.gz", 'id,text\n1,"t"\n'),
        ("f.csv", "  \n\t\n\nid,text\n1,t\n"),  # spaces and tabs above the header
    ],
)
def test_each_shape_of_file_is_read(name, content):
    path = Path(name)
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    assert {text for _, _, text in runs(path)} == {"t"}


@pytest.mark.parametrize(("numbers", "keys"), [((0, 1), ["text"]), ((1, 0), ["index", "text"])])
def test_only_row_numbers_of_pandas_are_left_out(tmp_path, numbers, keys):
    rows = [{"index": number, "text": "a"} for number in numbers]
    (tmp_path / "f.json").write_text(json.dumps({"schema": {"pandas_version": "1.4.0"}, "data": rows}))
    assert [list(record.row) for record in read_rows(tmp_path / "f.json")] == [keys, keys]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.jsonl", "", r"f\.jsonl has no generations; write"),
        ("f.json", "[]", "has no generations"),
        ("f.csv", "text,id\n", "has no generations"),
        ("f.parquet", "PAR1 but no more", "cannot be read as Parquet: .*; write the file again"),
        ("file", "x", "has no generations"),
        ("file", "x\ny", "line 2: has no text or .*, only x; rename the key"),
        ("f.jsonl.gz", b"\x1f\x8b not zipped", r"cannot read .*f\.jsonl\.gz"),
        (
            "f.jsonl",
            '{"text": "a"}\n{"txt": "b"}\n',
            r"line 2: has no text or .*, only txt; rename the key",
        ),
        ("f.jsonl", '{"messages": [{"role": "user"}]}\n', "only messages; write rows without nested values"),
        ("f.jsonl", '{"text": 5.5}\n', r"line 1: 'text' is 5\.5; it must be a string"),
        ("f.jsonl", '{"text": [["a"]]}\n', r"line 1: 'text' is \['a'\]; it must be a string"),
        ("f.jsonl", '{"generated_text": [["a"]]}\n', r"'generated_text' is \['a'\]; it must be"),
        ("f.jsonl", '{"text": "a", "reference": {"0": "b"}}\n', "'reference' is .*; it must be a string"),
        ("f.jsonl", '{"text": "a", "id": 1.5}\n', r"'id' is 1\.5; it must be a string"),
        ("f.jsonl", '{"text": "a", "id": true}\n', "'id' is True; it must be a string"),
        ("f.jsonl", '{"gen_text": "a", "prompt": 5}\n', "line 1: 'prompt' is 5; it must be a string"),
        ("f.jsonl", '{"text": "a passage", "output": "b"}\n', "may be under 'text' or 'output'; say which"),
        ("f.jsonl", '"text"\n', "line 1: 'text' is not a JSON object"),
        ("f.json", "5", "record 1: '5' is not a JSON object"),
        (
            "f.csv",
            'generated_result\n"{""0"": ""cut off her"\n',
            "line 2: .* begins like a JSON object .* write valid",
        ),
    ],
)
def test_unusable_file_is_named_with_the_reason(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StudyError, match=message) as caught:
        read_generations(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_missing_package_are_named(monkeypatch):
    with pytest.raises(StudyError, match=r"cannot read .*none\.jsonl: No such file"):
        read_generations(Path("none.jsonl"))
    path = write("parquet", [{"text": "t"}])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e '.*\[metrics\]'"):
        read_generations(path)


@pytest.mark.parametrize(
    ("name", "published", "strategy"),
    [
        ("CSvsCD_wikitext_contrastive_k5_a0.6.jsonl", 89.35, "contrastive_k5_a0.6"),
        ("GUARD_wikitext_guard_w7.jsonl", 92.86, "guard_w7"),
    ],
)
def test_published_generations_have_the_published_diversity(name, published, strategy):
    path = PUBLISHED / name
    if not path.is_file():
        pytest.skip(f"the published generations are not beside the repository: {path}")
    texts = read_generations(path)
    assert len(texts) == 1314
    assert compute_diversity([text.text for text in texts]).diversity == published  # the published figure
    assert {(text.dataset, text.strategy) for text in texts} == {("wikitext", strategy)}


def test_files_of_contrastive_decoding_are_read():
    """A list of one prompt's texts a line, each with the prompt in front, as their reference."""
    path = Path("cd.jsonl")
    rows = [
        [{"prompt": "Once", "gen_text": "Once upon a time", "gold_ref": "Once there was", "tokens": [1, 2]}],
        [{"prompt": "Then", "gen_text": f"Then {word}", "gold_ref": "Then"} for word in ("one", "two")],
        [{"gen_text": "None of it"}],
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second, third = read_generations(path)
    assert (first.prompt, first.text, first.reference) == ("Once", " upon a time", " there was")
    assert (first.tokens, first.flaws) == (2, ())
    assert (second.text, second.reference, second.flaws) == (" one", None, (FURTHER,))
    assert third.text == "None of it"


@pytest.mark.parametrize("value", [{"0": "a", "1": "b", "2": "c"}, ["a", "b", "c"]])
def test_first_of_several_texts_is_read(value):
    path = write("json", [{"prefix_text": "p", "generated_result": value}])
    assert runs(path) == [("0001", 1, "a")]
    assert flaws(path) == [(FURTHER,)]


@pytest.mark.parametrize("columns", [[], ["text"]])
def test_models_are_strategies_in_a_file_without_prompts(columns):
    path = Path("all.csv")
    path.write_text("model,text\nx,one\nx,two\ny,three\n")
    assert [text.strategy for text in read_generations(path, columns=columns)] == ["x", "x", "y"]


def test_row_without_the_name_of_its_model_is_refused():
    path = Path("all.csv")
    path.write_text("model,text\nx,one\n,two\ny,three\n")
    with pytest.raises(StudyError, match="line 3: has no value under 'model', which names the systems of"):
        read_generations(path)


def test_time_column_is_not_read_as_a_text():
    value = {"0": "a", "1": "b", "time_cost": 3.0}
    for written in (value, repr(value)):
        (text,) = read_generations(write("json", [{"generated_result": written}]))
        assert (text.text, text.seconds) == ("a", 1.5)
    (text,) = read_generations(write("json", [{"generated_result": {"0": "a", "time_cost": 3.0}}]))
    assert (text.text, text.seconds, text.flaws) == ("a", 3.0, ())


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_columns_are_read_by_name(kind):
    head = ["prompt", "static_generated_result", "dynamic_generated_result", "reference"]
    rows = [["p", "{'0': 'a', 'time_cost': 2}", "x", "r"], ["q", "", "=1+1 is two", ""]]
    if kind == "csv":
        path = write(kind, [dict(zip(head, row, strict=True)) for row in rows])
    else:
        path, book = Path("file.xlsx"), pytest.importorskip("openpyxl").Workbook()
        for row in [head, *rows]:
            book.active.append([None if cell == "" else cell.replace("=", "'=") for cell in row])
        book.save(path)
    texts = read_generations(path, columns=["static_generated_result"])
    assert [(text.strategy, text.text, text.seconds, text.reference) for text in texts] == [
        ("file", "a", 2.0, "r"),
        ("file", "", None, None),
    ]
    both = read_generations(path, columns=head[1:3])
    assert [(text.prompt_id, text.strategy) for text in both] == [
        (number, column) for number in ("0001", "0002") for column in head[1:3]
    ]
    with pytest.raises(StudyError, match=r" 2: has no generated, only prompt, static_gen.*--column NAME"):
        read_generations(path, columns=["generated"])


def test_columns_and_named_strategies_are_combined():
    path = write("csv", [{"strategy": "s", "prompt": "p", "a": "x", "b": "y"}])
    assert [(text.strategy, text.text) for text in read_generations(path, columns=["a", "b"])] == [
        ("s a", "x"),
        ("s b", "y"),
    ]
    assert read_generations(path, columns=["a"])[0].strategy == "s"
