"""Files with several texts a prompt, in every form in which they are published, and columns by name."""

import json
from pathlib import Path

import factories
import pytest

from guard_eval.errors import StudyError
from guard_eval.texts.continuations import append_continuations
from guard_eval.texts.generation_files import FURTHER, read_generations

GENERATIONS = Path(__file__).parents[2].parent / "shared" / "data" / "generations"
FORMS = {
    "objects": '[{"prefix_text": "p", "generated_result": {"0": "a", "1": "b", "2": "c"}}]',
    "lists": '[{"prompt": "p", "generated_text": ["a", "b", "c"]}]',
    "lists of objects": json.dumps([{"prompt": "p", "text": text} for text in "abc"]) + "\n",
}


def write(folder, text, name="file.json"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def seen(path, **options):
    return [(one.prompt_id, one.run, one.text) for one in read_generations(path, **options)]


@pytest.mark.parametrize("form", ["objects", "lists"])
def test_several_texts_of_a_record_are_runs(tmp_path, form):
    path = write(tmp_path, FORMS[form])
    assert seen(path, all_runs=True) == [("0001", 1, "a"), ("0001", 2, "b"), ("0001", 3, "c")]
    assert seen(path) == [("0001", 1, "a")]


def test_a_line_that_is_a_list_holds_the_runs_of_a_prompt(tmp_path):
    """As contrastive decoding's authors publish them."""
    path = write(tmp_path, 2 * FORMS["lists of objects"].replace("p", "q", 1), "file.jsonl")
    [first, _] = read_generations(path)
    assert (first.text, first.flaws) == ("a", (FURTHER,))
    path = write(tmp_path, FORMS["lists of objects"], "file.jsonl")
    assert seen(path, all_runs=True) == [("0001", 1, "a"), ("0001", 2, "b"), ("0001", 3, "c")]


def test_prompts_that_come_again_are_runs_where_all_are_asked_for(tmp_path):
    """Without ids the number of a prompt is the same in a file that has each once."""
    rows = [("p", "a"), ("p", "b"), ("q", "c"), ("q", "d")]
    path = write(tmp_path, json.dumps([{"prompt": p, "text": t} for p, t in rows]))
    assert seen(path, all_runs=True) == [
        ("0001", 1, "a"),
        ("0001", 2, "b"),
        ("0002", 1, "c"),
        ("0002", 2, "d"),
    ]
    once = write(tmp_path, json.dumps([{"prompt": p, "text": p} for p in "pq"]), "once.json")
    assert seen(once, all_runs=True) == [("0001", 1, "p"), ("0002", 1, "q")]
    assert [one.flaws for one in read_generations(path)] == [
        (),
        ("prompt repeated",),
        (),
        ("prompt repeated",),
    ]


def test_the_time_of_a_prompts_texts_is_no_text(tmp_path):
    value = {"0": "a", "1": "b", "time_cost": 3.0}
    for written in (value, repr(value)):
        path = write(tmp_path, json.dumps([{"prompt": "p", "generated_result": written}]))
        assert [(one.text, one.seconds) for one in read_generations(path, all_runs=True)] == [
            ("a", 1.5),
            ("b", 1.5),
        ]
    path = write(tmp_path, json.dumps([{"generated_result": {"0": "a", "time_cost": 3.0}}]))
    assert [(one.text, one.seconds, one.flaws) for one in read_generations(path)] == [("a", 3.0, ())]


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_columns_by_name(tmp_path, kind):
    head = ["prompt", "static_generated_result", "dynamic_generated_result", "reference"]
    rows = [["p", "{'0': 'a', 'time_cost': 2}", "x", "r"], ["q", "", "=1+1 is two", ""]]
    path = tmp_path / f"file.{kind}"
    if kind == "csv":
        path.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in [head, *rows]))
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [head, *rows]:
            book.active.append([None if cell == "" else cell.replace("=", "'=") for cell in row])
        book.save(path)
    made = read_generations(path, columns=["static_generated_result"])
    assert [(one.strategy, one.text, one.seconds, one.reference) for one in made] == [
        ("file", "a", 2.0, "r"),
        ("file", "", None, None),
    ]
    both = read_generations(path, columns=head[1:3])
    assert [(one.prompt_id, one.strategy) for one in both] == [
        (p, s) for p in ("0001", "0002") for s in head[1:3]
    ]
    assert [one.flaws for one in both] == [()] * 4
    with pytest.raises(StudyError, match=r" 2: has no 'generated', only 'prompt', 'static_gen"):
        read_generations(path, columns=["generated"])
    with pytest.raises(StudyError, match=r"--column NAME"):
        read_generations(path)


def test_a_studys_file_names_its_runs(tmp_path):
    by = factories.recipe(strategy="top_k(k=50)")
    append_continuations(
        tmp_path,
        [
            factories.continuation(f"text {r}", made_by=by, run=r, id=by.continuation_id(factories.PROMPT, r))
            for r in (1, 3)
        ],
    )
    (path,) = tmp_path.glob("*/top_k(k=50).jsonl")
    assert seen(path) == seen(path, all_runs=True) == [("p1", 1, "text 1"), ("p1", 3, "text 3")]


@pytest.mark.skipif(not GENERATIONS.is_dir(), reason=f"{GENERATIONS} is not available")
def test_published_generations_as_runs_of_one_file(tmp_path):
    """Two published files of the same prompts, put into one as two runs: each is what it is by itself."""
    files = [
        GENERATIONS / f"{name}.jsonl"
        for name in ("GUARD_wikitext_guard_w7", "CSvsCD_wikitext_contrastive_k5_a0.6")
    ]
    rows = [
        {r["id"]: r for r in map(json.loads, path.read_text(encoding="utf-8").splitlines())} for path in files
    ]
    both = [
        {
            "id": name,
            "prompt": rows[0][name]["prompt"],
            "generated_result": {str(n): file[name]["text"] for n, file in enumerate(rows)},
        }
        for name in rows[0]
        if name in rows[1]
    ]
    assert len(both) > 1000
    path = write(tmp_path, json.dumps(both))
    result = read_generations(path, all_runs=True)
    for run, file in enumerate(rows, start=1):
        texts = {one.prompt_id: one.text for one in result if one.run == run}
        assert texts == {row["id"]: file[row["id"]]["text"] for row in both}
