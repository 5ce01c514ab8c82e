"""Files of generations: every format gives the same texts, and nothing odd passes uncounted."""

import csv
import gzip
import json
from pathlib import Path

import pytest
from factories import continuation

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.metrics.ngrams import diversity
from guard_eval.records import Prompt
from guard_eval.texts import rows as row_files
from guard_eval.texts.continuations import append_continuations
from guard_eval.texts.generation_files import read_generations
from guard_eval.texts.generations import Generation
from guard_eval.texts.prompts import read_prompts

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "data" / "generations"

# Everything that a reader of tables may take for something else.
ODD = [
    "plain",
    "",
    "NA",
    "null",
    "nan",
    "None",
    "123",
    "1.0",
    "True",
    " blanks around ",
    'quotes " and , commas',
    "two\nlines\n",
    "carriage\rreturn",
    "both\r\nof them",
    "\n",
    "a\u2028b\x85c\x0cd\x1ee",
    "é 漢字 🦊",
    "=1+1",
    "{not: an object}",
    "[1, 2]",
    "'",
    "\\n \\",
    "x" * 200_000,
]


def _write(folder: Path, kind: str, rows: list[dict[str, object]], name: str = "file") -> Path:
    path = folder / f"{name}.{kind}"
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


KINDS = pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])


@KINDS
def test_odd_texts_character_by_character(tmp_path, kind):
    rows = [{"text": text, "prompt": f"p{text}", "id": str(i)} for i, text in enumerate(ODD)]
    read = read_generations(_write(tmp_path, kind, rows))
    assert [one.text for one in read] == ODD
    assert [one.prompt for one in read] == [f"p{text}" for text in ODD]
    assert [one.prompt_id for one in read] == [str(i) for i in range(len(ODD))]
    assert all(one.flaws == () for one in read)


def test_the_longest_cell_of_other_csv_readers_is_left_as_it_was(tmp_path):
    before = csv.field_size_limit()
    read_generations(_write(tmp_path, "csv", [{"text": "x" * 200_000}]))
    assert csv.field_size_limit() == before


@KINDS
@pytest.mark.parametrize("text", ["text", "generated_text", "generated_result", "continuation", "output"])
def test_keys_by_any_of_their_names(tmp_path, kind, text):
    row = {text: "t", "prefix_text": "p", "reference_text": "r", "method": "m", "dataset": "d", "id": "7"}
    (one,) = read_generations(_write(tmp_path, kind, [row]), strategy="other", dataset="other")
    assert one == Generation(prompt_id="7", dataset="d", strategy="m", text="t", prompt="p", reference="r")


@KINDS
def test_what_is_not_named(tmp_path, kind):
    path = _write(tmp_path, kind, [{"completion": "a"}, {"completion": "b"}], name="top_k(k=50)")
    first, second = read_generations(path)
    assert (first.prompt_id, first.strategy, first.dataset) == ("0001", "top_k(k=50)", "unnamed")
    assert (second.prompt_id, second.prompt, second.reference, second.ended) == ("0002", None, None, None)
    (named, _) = read_generations(path, strategy="s", dataset="d")
    assert (named.strategy, named.dataset) == ("s", "d")


@KINDS
def test_measurements(tmp_path, kind):
    row = {
        "text": "t",
        "tokens": 5,
        "new_tokens": 6,
        "finish": "eos",
        "seconds": 0.5,
        "batch": 8,
        "device": "cpu",
    }
    (one,) = read_generations(_write(tmp_path, kind, [row]))
    assert (one.tokens, one.ended, one.seconds, one.batch, one.device) == (6, True, 0.5, 8, "cpu")
    row |= {"finish": "length", "tokens": 5, "new_tokens": "many", "seconds": -1.0, "batch": 1.5}
    (bad,) = read_generations(_write(tmp_path, kind, [row]))
    assert (bad.tokens, bad.ended, bad.seconds, bad.batch) == (None, False, None, None)
    assert {*bad.flaws} == {f"{name} not a number" for name in ("tokens", "seconds", "batch")}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("write", [json.dumps, repr])  # pandas writes a dict into CSV as Python does
def test_several_texts_as_text_of_a_cell(tmp_path, kind, write):
    value = {str(i): f'it\'s "{i}"\n' for i in range(12)}
    path = _write(tmp_path, kind, [{"generated_result": write(value)}])
    assert [g.text for g in read_generations(path, all_runs=True)] == list(value.values())


def test_one_text_under_a_number_has_no_others(tmp_path):
    (one,) = read_generations(_write(tmp_path, "json", [{"generated_result": {"0": "one"}}]))
    assert (one.text, one.flaws) == ("one", ())


def test_a_cut_object_in_a_cell(tmp_path):
    path = _write(tmp_path, "csv", [{"generated_result": '{"0": "cut off her'}])
    with pytest.raises(StudyError, match=r"line 2: 'generated_result' begins like an object .* write valid"):
        read_generations(path)


@pytest.mark.parametrize("value", [None, [], {}, {"0": None, "1": "other"}, [None]])
def test_no_text(tmp_path, value):
    (one,) = read_generations(_write(tmp_path, "jsonl", [{"generated_result": value}]))
    assert one.text == ""
    assert "no text" in one.flaws


def test_the_second_name_serves_where_the_first_holds_nothing(tmp_path):
    (one,) = read_generations(_write(tmp_path, "jsonl", [{"text": None, "output": "t"}]))
    assert (one.text, one.flaws) == ("t", ())


def test_own_files_take_prompts_from_the_study(tmp_path):
    (tmp_path / "prompts.jsonl").write_text(
        '{"id": "p1", "dataset": "wikitext", "prompt": "Once upon", "reference": " a time"}\n'
    )
    prompts = {prompt.id: prompt for prompt in read_prompts(tmp_path / "prompts.jsonl")}
    known = continuation(" a day", id="1", prompt_id="p1", new_tokens=4, finish="eos", batch=2, seconds=0.25)
    unknown = continuation(" one", id="2", prompt_id="p2")
    append_continuations(tmp_path, [known, unknown])
    (path,) = tmp_path.glob("*/guard.jsonl")
    first, second = read_generations(path, prompts=prompts)
    assert (first.prompt, first.reference, first.text, first.flaws) == ("Once upon", " a time", " a day", ())
    assert (first.prompt_id, first.dataset, first.strategy) == ("p1", known.dataset, known.recipe.strategy)
    assert (first.tokens, first.ended, first.seconds, first.batch) == (4, True, 0.25, 2)
    assert (second.prompt, second.reference, second.flaws) == (None, None, ("prompt unknown",))
    assert read_generations(path)[1].flaws == ()  # nobody said what the prompts are


def test_the_records_own_prompt_goes_before_the_studys(tmp_path):
    prompts = {"1": Prompt(id="1", dataset="wikinews", text="P", reference="R")}
    path = _write(tmp_path, "jsonl", [{"id": 1, "prompt": "own", "text": "t"}])
    (one,) = read_generations(path, prompts=prompts)
    assert (one.prompt, one.reference, one.dataset) == ("own", "R", "wikinews")


def test_a_torn_last_line(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": "b"}\n{"text": "caf\xc3')
    assert [(g.text, g.flaws) for g in read_generations(path)] == [("a", ()), ("b", ("torn last line",))]
    path.write_bytes(b'{"text": "a"}\n{"text": "b"}')  # whole, though nothing ends it
    assert [(g.text, g.flaws) for g in read_generations(path)] == [("a", ()), ("b", ())]
    path.write_bytes(b'{"text": "a"}\n{"text": "b\n')
    with pytest.raises(StudyError, match="line 2: not valid JSON"):
        read_generations(path)
    path.write_bytes(b'{"text": "a"')
    with pytest.raises(StudyError, match="line 1: not valid JSON"):
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
    ],
)
def test_bytes_that_are_not_utf8(tmp_path, kind, data):
    (tmp_path / f"f.{kind}").write_bytes(data)
    read = read_generations(tmp_path / f"f.{kind}")
    assert [(g.text, g.flaws) for g in read] == [
        ("good", ()),
        ("caf�", ("not UTF-8",)),
        ("� alone", ("not UTF-8",)),
    ]


def test_bytes_that_are_not_utf8_in_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    binary = arrow.array([b"good \xc3\xa9", b"caf\xe9", None], arrow.binary())
    parquet.write_table(arrow.table({"text": binary}), tmp_path / "f.parquet")
    read = read_generations(tmp_path / "f.parquet")
    assert [(g.text, g.flaws) for g in read] == [("good é", ()), ("caf�", ("not UTF-8",)), ("", ("no text",))]


def test_repeated_prompts(tmp_path):
    rows = [{"prompt": "p", "text": "1"}, {"prompt": "q", "text": "2"}, {"prompt": "p", "text": "3"}]
    made_up = read_generations(_write(tmp_path, "jsonl", rows))
    assert [g.prompt_id for g in made_up] == ["0001", "0002", "0003"]
    assert [g.flaws for g in made_up] == [(), (), ("prompt repeated",)]
    ids = [row | {"id": number} for row, number in zip(rows, (1, 2, 2), strict=True)]
    named = read_generations(_write(tmp_path, "jsonl", ids))
    assert [(g.prompt_id, g.flaws) for g in named] == [("1", ()), ("2", ()), ("2", ("prompt repeated",))]
    apart = [row | {"strategy": str(number)} for number, row in enumerate(rows)]
    assert all(g.flaws == () for g in read_generations(_write(tmp_path, "jsonl", apart)))


def test_a_text_with_its_prompt_before_it(tmp_path):
    (one,) = read_generations(_write(tmp_path, "jsonl", [{"prompt": "Once", "text": "Once upon"}]))
    assert (one.text, one.flaws) == ("Once upon", ("text begins with its prompt",))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("f.json", '{"version": 1, "rows": [{"text": "t"}], "tags": ["x"]}'),
        ("f.json", '{"text": "t"}'),
        ("f.json", '{"text": "t"}\n'),
        ("f.jsonl", '[{"text": "t"}]'),
        ("F.JSON", '\n [{"text": "t"}]'),
        ("f.json", '{"text": "t"}\n\n'),  # lines
    ],
)
def test_json_in_other_shapes(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert [g.text for g in read_generations(tmp_path / name)] == ["t"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.jsonl", "", r"f\.jsonl holds no generations; write"),
        ("f.json", " \n", "holds no generations"),
        ("f.json", "[]", "holds no generations"),
        ("f.csv", "", "holds no generations"),
        ("f.csv", "text,id\n", "holds no generations"),
        ("f.parquet", "", "holds no generations"),
        ("f.parquet", "PAR1 but no more", "cannot be read as Parquet: .*; write the file again"),
        ("f.docx", "x", r"has the suffix '\.docx'; name the file by its format: \.jsonl, \.json, \.csv"),
        ("file", "x", "has no suffix; name"),
        (
            "f.jsonl",
            '{"text": "a"}\n{"txt": "b"}\n',
            r"line 2: has no text, only 'txt'; name it one of text",
        ),
        ("f.jsonl", '{"text": 5}\n', "line 1: 'text' is 5; it must be a string"),
        ("f.jsonl", '{"text": ["a"]}\n', r"line 1: 'text' is \['a'\]; it must be a string"),
        ("f.jsonl", '{"generated_text": [["a"]]}\n', r"'generated_text' is \['a'\]; it must be"),
        ("f.jsonl", '{"text": "a", "reference": {"0": "b"}}\n', "'reference' is .*; it must be a string"),
        ("f.jsonl", '{"text": "a", "id": 1.5}\n', r"'id' is 1\.5; it must be a string"),
        ("f.jsonl", '{"text": "a", "id": true}\n', "'id' is True; it must be a string"),
        ("f.jsonl", "not json\n", r"line 1: not valid JSON \(.*\); write one whole object a line"),
        ("f.jsonl", '"text"\n', "line 1: 'text' is not a JSON object"),
        ("f.jsonl", "[" * 100_000, "not valid JSON"),
        ("f.json", "[1]", "record 1: '1' is not a JSON object"),
        ("f.json", "5", "holds '5'; write a list"),
        ("f.json", '[{"text": "a"}', "not valid JSON"),
        (
            "f.json",
            '{"a": [{"text": "a"}], "b": [{"text": "b"}]}',
            r"2 lists of objects \('a', 'b'\); leave one",
        ),
        ("f.json", '{"a": 1}', r"0 lists of objects \(none\)"),
        ("f.csv", "text,id\na,1\nb, c,2\n", "line 3: 3 cells under 2 headings"),
        ("f.csv", "text,text\na,b\n", "two columns are called 'text'; rename one"),
        ("f.csv", 'text,id\n"a,1\n', "line 3: not valid CSV .*; quote texts"),
        ("f.csv", "text,id\na\rb,1\n", "not valid CSV"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content.encode())
    with pytest.raises(StudyError, match=message) as caught:
        read_generations(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(StudyError, match=r"no file .*none\.jsonl; check its name"):
        read_generations(tmp_path / "none.jsonl")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(StudyError, match=r"cannot read .*folder\.csv"):
        read_generations(tmp_path / "folder.csv")


def test_parquet_without_its_package(tmp_path, monkeypatch):
    path = _write(tmp_path, "parquet", [{"text": "t"}])
    monkeypatch.setattr(row_files, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'guard-eval\[metrics\]'"):
        read_generations(path)


@pytest.mark.parametrize(
    ("name", "published", "strategy"),
    [
        ("CSvsCD_wikitext_contrastive_k5_a0.6.jsonl", 89.35, "contrastive_k5_a0.6"),
        ("GUARD_wikitext_guard_w7.jsonl", 92.86, "guard_w7"),
    ],
)
def test_published_generations_in_every_format(tmp_path, name, published, strategy):
    path = PUBLISHED / name
    if not path.is_file():
        pytest.skip(f"the published generations are not beside the repository: {path}")
    read = read_generations(path)
    assert len(read) == 1314
    assert diversity([one.text for one in read]).diversity == published  # the published figure
    assert {(one.dataset, one.strategy) for one in read} == {("wikitext", strategy)}
    raw = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    rows = [
        {
            "prefix_text": row["prompt"],
            "reference_text": row["reference"],
            "generated_result": {"0": row["text"]},
            "prompt_id": row["id"],
            "dataset": row["dataset"],
            "decoding": row["method"],
        }
        for row in raw
    ]
    flat = [row | {"generated_result": row["generated_result"]["0"]} for row in rows]
    packed = [row | {"generated_result": json.dumps(row["generated_result"])} for row in rows]
    for kind, table in [
        ("json", rows),
        ("jsonl", rows),
        ("parquet", rows),
        ("csv", flat),
        ("csv", packed),
        ("parquet", flat),
    ]:
        assert read_generations(_write(tmp_path, kind, table)) == read


def test_contrastive_decodings_files(tmp_path):
    """A list of one prompt's texts a line, each with the prompt in front, as their reference."""
    path = tmp_path / "cd.jsonl"
    rows = [
        [{"prompt": "Once", "gen_text": "Once upon a time", "gold_ref": "Once there was", "tokens": [1, 2]}],
        [
            {"prompt": "Then", "gen_text": "Then it ended", "gold_ref": "Then"},
            {"prompt": "Then", "gen_text": "x"},
        ],
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = read_generations(path)
    assert (first.prompt, first.text, first.reference) == ("Once", " upon a time", " there was")
    assert (first.tokens, first.flaws) == (2, ())
    assert (second.text, second.reference) == (" it ended", "")
    assert "further texts of the prompt not read" in second.flaws
    path.write_text("[]\n[1]\n")
    with pytest.raises(StudyError, match="is not a JSON object"):
        read_generations(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", "id\ttext\n1\tone, two; three\n"),
        ("t.csv", "id;text\n1;one, two\n"),
        ("t.jsonl.gz", '{"id": 1, "text": "one, two"}\n'),
        ("t.csv.gz", 'id,text\n1,"one, two"\n'),
    ],
)
def test_other_separators_and_gzip(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    (text,) = read_generations(path)
    assert (text.prompt_id, text.text[:8]) == ("1", "one, two")


def test_a_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "one"}\n' * 100)[:-12])
    with pytest.raises(StudyError, match=r"cannot read .*t\.jsonl\.gz"):
        read_generations(path)
