"""Systems whose texts are in files of a study: which text belongs to which prompt, and what is refused."""

import json

import pytest

from analysis.monitor.status import read_status
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.study import Study
from guard_eval.study.declared import compare_declared_parts
from guard_eval.texts.pair import pair
from guard_eval.texts.systems import find_texts

PROMPTS = [Prompt(id=f"p{n}", dataset="d", text=f"Question {n}") for n in range(3)]
HEAD = 'name = "s"\nseed = 1\n[pairs]\ncompare = [["x", "y"]]\n'
Y = '[[system]]\nname = "y"\nfile = "y.jsonl"\n'


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def study(tmp_path):
    """Return a function that opens a study of the systems x and y, with this file of x."""

    def open_study(content, name="x.jsonl", more="", tables=Y):
        (tmp_path / name).write_text(content)
        (tmp_path / "y.jsonl").write_text(lines(*({"id": p.id, "text": f"y {p.id}"} for p in PROMPTS)))
        rows = [{"id": p.id, "dataset": "d", "prompt": p.text, "reference": f"r {p.id}"} for p in PROMPTS]
        (tmp_path / "prompts.jsonl").write_text(lines(*rows))
        x = f'[[system]]\nname = "x"\nfile = "{name}"\n{more}'
        (tmp_path / "study.toml").write_text(HEAD + x + tables)
        return Study.open(tmp_path)

    return open_study


def texts(study):
    return {key: text.text for key, text in find_texts(study, ["x"], PROMPTS)["x"].items()}


BY_PROMPT = {("p0", 1): "a", ("p1", 1): "b", ("p2", 1): "c"}
FORMS = {
    "by id": lines(*({"id": f"p{n}", "text": "abc"[n]} for n in (2, 0, 1))),
    "by words": lines(*({"prompt": f"Question {n}\r\n", "text": "abc"[n]} for n in (2, 0, 1))),
    "by words under other ids": lines(
        *({"id": 7 + n, "prompt": f"Question {n}", "text": "abc"[n]} for n in (2, 0, 1))
    ),
    "by words under wrong ids": lines(
        *({"id": f"p{(n + 1) % 3}", "prompt": f"Question {n}", "text": "abc"[n]} for n in range(3))
    ),
    "by ids under another heading": lines(*({"case_id": f"p{n}", "text": "abc"[n]} for n in (2, 0, 1))),
    "in their place": lines(*({"text": text} for text in "abc")),
    "of several systems": lines(
        *({"id": f"p{n}", "method": s, "text": "abc"[n] if s == "x" else s} for n in range(3) for s in "xz")
    ),
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS)
def test_text_is_matched_by_id_words_or_order(study, content):
    assert texts(study(content)) == BY_PROMPT


def test_drawn_prompts_get_the_texts_that_belong_to_them(study, tmp_path):
    for content in (FORMS["in their place"], FORMS["by words under wrong ids"]):
        (drawn,) = find_texts(study(content), ["x"], PROMPTS[1:2])["x"].values()
        assert drawn.text == "b"
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace("[pairs]", "[pairs]\nper_dataset = 1"))
    assert len(pair(Study.open(tmp_path)).pairs) == 1


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (["", " ", "c"], "2 of 3 texts by x are empty; write these texts, or remove their prompts"),
        (["y p0\r\n", "y p1", "c"], "x and y have the same text for 2 of 3 prompts, such as p"),
    ],
)
def test_pair_warns_about_useless_pairs(study, words, warning):
    opened = study(lines(*({"id": f"p{n}", "text": text} for n, text in enumerate(words))))
    assert any(line.startswith(warning) for line in pair(opened).warnings)


def test_column_of_a_table_can_be_a_system(study):
    wide = "id,w,x\np0,1,a\np1,2,b\np2,3,c\n"
    assert texts(study(wide, "w.csv")) == BY_PROMPT


def test_references_can_be_compared_as_a_system(study, tmp_path):
    study(FORMS["by id"])
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace('"x.jsonl"', '"prompts.jsonl"\ncolumn = "reference"'))
    assert texts(Study.open(tmp_path)) == {(f"p{n}", 1): f"r p{n}" for n in range(3)}


def test_first_of_several_texts_is_compared(study):
    rows = [{"id": f"p{n}", "text": text} for text in ("", "again") for n in range(3)]
    opened = study(lines(*rows))
    assert texts(opened)["p0", 2] == "again"
    assert {compared.text_a for compared in pair(opened).pairs} == {""}


REFUSED = [
    (
        lines({"id": "p0", "prompt": "Another", "text": "a"}),
        "1 of 1 texts have the id of a prompt that is worded differently",
    ),
    (lines({"id": "q", "text": "a"}), "none of its 1 texts belongs to a prompt of the study"),
    (lines(*({"id": f"p{n + 1}", "text": "a"} for n in range(3))), "1 text with other ids, such as 'p3'"),
    (lines(*({"id": "p0", "method": s, "text": "a"} for s in "zw")), "texts of other systems: choose from"),
    (
        lines({"id": "p0", "text": "a"}, {"id": "p1", "text": None}),
        r"2 of 3 texts by x .*add them to x.jsonl",
    ),
    ("{oops\n", "line 1: not valid JSON"),
    (lines({"id": "p0", "answer": "--column is an option", "first": "a b"}), "write the key column"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_texts_without_matching_prompt_are_refused(study, content, message):
    with pytest.raises(StudyError, match=message):
        pair(study(content))


def warnings_of(study):
    return "\n".join(read_status(study.folder, ()).warnings)


def test_text_changed_after_pairing_is_reported(study):
    rows = [{"id": f"p{n}", "text": "abc"[n]} for n in range(3)]
    ids = {pair_.id for pair_ in pair(study(lines(*rows))).pairs}
    assert {compared.id for compared in pair(study(lines(*reversed(rows)))).pairs} == ids
    assert "other texts" not in warnings_of(study(lines(*rows)))
    changed = study(lines(*rows[:2], {"id": "p2", "text": "C"}))
    assert "no longer give 1 of 3 pairs in the database: x or y wrote other texts" in warnings_of(changed)
    with pytest.raises(StudyError, match=r"give 1 of 3 pairs .*: x or y wrote other texts"):
        pair(changed)


def test_texts_that_repeat_their_prompt_give_a_warning(study):
    rows = [{"id": p.id, "text": f"{p.text} and more."} for p in PROMPTS]
    assert "3 of 3 texts by x begin with their prompt" in "\n".join(pair(study(lines(*rows))).warnings)


def test_repeated_prompts_get_no_pairs(study, tmp_path):
    """The prompt is the unit of the statistics: the same words under another id are not independent."""
    study(FORMS["by id"])
    path = tmp_path / "prompts.jsonl"
    path.write_text(path.read_text().replace("Question 2", "Question 1"))
    paired = pair(Study.open(tmp_path))
    assert [compared.prompt_id for compared in paired.pairs if compared.prompt == "Question 1"] == ["p1"]
    assert "prompts that repeat an earlier prompt get no pairs: 1" in paired.warnings


def test_text_file_outside_the_study_is_refused(study, tmp_path):
    opened = study(FORMS["by id"])
    (tmp_path.parent / "out.jsonl").write_text(lines({"id": "p0", "text": "a"}))
    settings = (tmp_path / "study.toml").read_text().replace("x.jsonl", "../out.jsonl")
    (tmp_path / "study.toml").write_text(settings)
    with pytest.raises(StudyError, match="outside the study's folder"):
        pair(Study.open(opened.folder))


TABLES = [
    ("name = 'x'", "x has no texts; give it one of: file, strategy"),
    ("name = 'x'\nfile = 'a'\nstrategy = 'greedy'", "x has file and strategy; give it one of"),
    ("name = 'x'\nbase_url = 'http://localhost/v1'", "x needs the model's name at the server"),
    ("name = 'x'\nfile = 'a'\ntemperature = 1.0", "temperature, which has no meaning for texts in a file"),
    ("name = 'tie'\nfile = 'a'", "means a side, a tie or the references"),
    ("name = 'x'\nstrategy = 'greedy'", "model: is missing; add it"),
    ("name = 'x'\nstrategy = 'greedi'", "did you mean 'greedy'?"),
    ("name = 'y'\nfile = 'a'", "pairs.compare names x, which is not in"),
    ("name = 'x'\nfile = 'a'\n[[system]]\nname = 'x'\nfile = 'b'", "two systems are named x"),
    ("name = 'x'\nfiel = 'a'", "system[2].fiel: is not a setting; did you mean 'file'?"),
]


@pytest.mark.parametrize(("table", "message"), TABLES)
def test_incomplete_system_tables_are_refused(tmp_path, table, message):
    (tmp_path / "study.toml").write_text(f"{HEAD}{Y.replace('y.jsonl', 'b')}[[system]]\n{table}\n")
    with pytest.raises(StudyError) as error:
        Study.open(tmp_path)
    assert message in str(error.value)


def test_added_system_changes_no_declared_setting(study):
    before = study(FORMS["by id"]).declared
    z = '[[system]]\nname = "z"\nfile = "y.jsonl"\n'
    later = study(FORMS["by id"], tables=Y + z)
    assert [declaration.changes for declaration in compare_declared_parts(later.declared, before)] == [()]
    path = later.folder / "study.toml"
    path.write_text(path.read_text().replace('[["x", "y"]]', '[["x", "y"], ["x", "z"]]'))
    assert [
        declaration.changes
        for declaration in compare_declared_parts(Study.open(later.folder).declared, before)
    ] == [()]
    path.write_text(path.read_text().replace('[["x", "y"], ["x", "z"]]', '[["y", "x"]]'))
    ((change,),) = (
        declaration.changes
        for declaration in compare_declared_parts(Study.open(later.folder).declared, before)
    )
    assert change.startswith("pairs.compare from")


def test_study_of_several_models_is_split_by_model(tmp_path):
    (tmp_path / "study.toml").write_text(
        'name = "s"\nseed = 1\n[model]\nname = "m"\n[generation]\nstrategies = ["greedy"]\n'
        "max_new_tokens = 9\n"
        '[pairs]\ncompare = [["greedy", "other greedy"], ["GUARD", "greedy"]]\n'
        '[[system]]\nname = "other greedy"\nmodel = {name = "n", dtype = "bfloat16"}\nstrategy = "greedy"\n'
        '[[system]]\nname = "GUARD"\nstrategy = "guard"\n'
        '[[system]]\nname = "people"\nfile = "prompts.jsonl"\ncolumn = "reference"\n'
    )
    first, second = (model_study.settings for model_study in Study.open(tmp_path).split_by_model())
    assert [settings.generation.strategies for settings in (first, second)] == [
        ["greedy", "guard"],
        ["greedy"],
    ]
    assert (first.model.name, second.model.name, second.model.dtype) == ("m", "n", "bfloat16")
    assert second.generation.max_new_tokens == 9
