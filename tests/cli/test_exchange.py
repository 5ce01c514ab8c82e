"""Verdicts go to other tools and come back the same."""

import json
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made import TIDY

from analysis.verdicts.tidy import read
from guard_eval.cli.commands import import_files
from guard_eval.cli.exchange.row_files import write_rows
from guard_eval.cli.exchange.tool_folders import TOOLS
from guard_eval.errors import StudyError
from guard_eval.records import TIE, Pair
from guard_eval.reporting.writing import write_whole
from guard_eval.store import TidyRow

NAMES = [
    "guard",
    "=1+1",
    "+x",
    "@me",
    "-1",
    "'tis",
    "'=x",
    "\uff1dx",
    "Zoë",
    'quo"te',
    "com,ma",
    "semi;colon",
    "<b>&",
    "007",
    "NA",
    "左",
]
FORMS = ["csv", "jsonl", "parquet", "xlsx", "potato", "label-studio", "huggingface"]
READ = {
    "potato": ["annotations.jsonl", "methods.jsonl"],
    "label-studio": ["annotations.json", "methods.jsonl"],
    "huggingface": ["verdicts.parquet"],
}


def pair(number, methods, dataset):
    a, b = methods
    return Pair(
        id=Pair.make_id(a, b, f"{number}a", f"{number}b"),
        dataset=dataset,
        prompt_id=f"prompt-{number}",
        prompt="Once\nupon",
        method_a=a,
        method_b=b,
        continuation_a=f"{number}a",
        continuation_b=f"{number}b",
        text_a="=a time",
        text_b="<a> & b",
        position=number,
    )


@st.composite
def studies(draw):
    """Draw rows of verdicts, people's and a judge's in both orders, and their pairs."""
    names = draw(st.permutations(NAMES))
    methods, raters, criteria = (names[0], names[1]), names[2:5], names[5:7]
    pairs = [pair(n, methods, draw(st.sampled_from(names[7:9]))) for n in range(draw(st.integers(1, 4)))]
    rows = []
    for one, (who, rater) in product(pairs, enumerate(raters)):
        showings = ("a", "b", "b") if who == 0 else (draw(st.sampled_from("ab")),)
        for slot, side in enumerate(showings):
            first, second = methods if side == "a" else methods[::-1]
            number = len(rows) + 1
            for criterion in criteria:
                choice = draw(st.sampled_from(["A", "tie", "B"]))
                rows.append(
                    replace(
                        TIDY,
                        pair_id=one.id,
                        dataset=one.dataset,
                        prompt_id=one.prompt_id,
                        method_a=methods[0],
                        method_b=methods[1],
                        rater=rater,
                        criterion=criterion,
                        verdict={"A": first, "B": second, "tie": TIE}[choice],
                        rater_kind="model" if who == 0 else "person",
                        presentation=number,
                        slot=slot,
                        shown_first=first,
                        seconds=draw(st.sampled_from([None, 1.5])),
                        position=choice,
                    )
                )
    return rows, pairs


def write(rows, pairs, folder, form):
    """Write them as the command does; return the files to read again."""
    if form not in TOOLS:
        write_rows(rows, folder / f"verdicts.{form}", form=form, kind=TidyRow)
        return [folder / f"verdicts.{form}"]
    for name, data in TOOLS[form](rows, pairs).items():
        write_whole(folder / name, data, make_folder=True)
    return [folder / name for name in READ[form]]


def keys(rows):
    return sorted(
        (
            *(str(getattr(row, name)) for name in ("pair_id", "dataset", "prompt_id", "rater", "rater_kind")),
            *sorted((row.method_a, row.method_b)),
            row.criterion,
            row.shown_first,
            row.verdict,
        )
        for row in rows
    )


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(study=studies())
def test_what_goes_out_comes_in_again(tmp_path_factory, form, study):
    pytest.importorskip(
        {"xlsx": "openpyxl", "parquet": "pyarrow", "huggingface": "pyarrow"}.get(form, "json")
    )
    folder = tmp_path_factory.mktemp("there")
    rows, pairs = study
    files = write(rows, pairs, folder, form)
    found = import_files(files, folder / "again.csv")
    assert keys(read(found.output).itertuples()) == keys(rows)


@pytest.mark.parametrize(("form", "shown"), [("potato", "items.jsonl"), ("label-studio", "tasks.json")])
def test_what_raters_see_does_not_tell_the_methods_apart(tmp_path, form, shown):
    """Exchange the methods: but for ids, which are hashes, every byte that a rater sees is the same."""
    seen = []
    for methods in (("guard", "greedy"), ("greedy", "guard")):
        one = replace(pair(0, ("guard", "greedy"), "news"), method_a=methods[0], method_b=methods[1])
        row = replace(
            TIDY,
            pair_id=one.id,
            method_a=methods[0],
            method_b=methods[1],
            shown_first=methods[0],
            verdict=TIE,
        )
        write([row], [one], tmp_path / methods[0], form)
        text = (tmp_path / methods[0] / shown).read_text()
        assert row.rater not in text
        assert not any(word in text for word in (*methods, one.id, one.prompt_id, "method", "shown"))
        (line,) = (tmp_path / methods[0] / "methods.jsonl").read_text().splitlines()
        seen.append(text.replace(json.loads(line)["id"], "ID"))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("form", "blind"), [("potato", "items.jsonl"), ("label-studio", "tasks.json")])
def test_the_file_that_raters_saw_is_not_the_one_that_names_methods(one, tmp_path, form, blind):
    write(*one, tmp_path, form)
    annotations = tmp_path / READ[form][0]
    for files in ([annotations, tmp_path / blind], [tmp_path / blind]):
        with pytest.raises(StudyError, match=rf"{blind} holds what raters saw.* methods\.jsonl"):
            import_files(files, tmp_path / "verdicts.csv")


@pytest.mark.parametrize("form", ["potato", "label-studio"])
@pytest.mark.parametrize("methods", [("A", "B"), ("B", "A"), ("right", "left")])
def test_methods_called_as_sides_are_come_in_again(tmp_path, form, methods):
    one = pair(0, methods, "news")
    rows = [
        replace(
            TIDY,
            pair_id=one.id,
            prompt_id=one.prompt_id,
            dataset="news",
            method_a=methods[0],
            method_b=methods[1],
            shown_first=shown,
            presentation=number,
            rater=f"r{number}",
            position="A",
            verdict=shown,
        )
        for number, shown in enumerate(methods)
    ]
    found = import_files(write(rows, [one], tmp_path, form), tmp_path / "again.csv")
    assert keys(read(found.output).itertuples()) == keys(rows)


@pytest.fixture
def one():
    pairs = [pair(0, ("=1+1", "b"), "news")]
    row = replace(TIDY, pair_id=pairs[0].id, method_a="=1+1", verdict="=1+1", criterion='<"c">')
    return [row], pairs


def test_a_workbook_holds_no_formula(one, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    (path,) = write(*one, tmp_path, "xlsx")
    (sheet,) = openpyxl.load_workbook(path).worksheets
    cells = {cell.value: cell for row in sheet.iter_rows() for cell in row if cell.value is not None}
    assert cells["=1+1"].data_type == "s"
    assert cells["=1+1"].quotePrefix
    with zipfile.ZipFile(path) as packed:
        assert b"<f>" not in packed.read("xl/worksheets/sheet1.xml")


def test_a_text_that_no_cell_takes_is_refused(one, tmp_path):
    pytest.importorskip("openpyxl")
    rows, _ = one
    object.__setattr__(rows[0], "rater", "x" * 40_000)
    with pytest.raises(
        StudyError, match="row 2 has a text of 40000 characters, more than a cell takes; write CSV"
    ):
        write_rows(rows, tmp_path / "v.xlsx", form="xlsx", kind=TidyRow)
    assert not (tmp_path / "v.xlsx").exists()


def test_datasets_loads_the_folder(one, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    write(*one, tmp_path / "folder", "huggingface")
    loaded = datasets.load_dataset(str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"][0]["verdict"] == "=1+1"
    texts = datasets.load_dataset(str(tmp_path / "folder"), "pairs", cache_dir=str(tmp_path / "cache"))
    assert texts["train"][0]["text_b"] == "<a> & b"


def test_label_studios_configuration_names_what_the_tasks_hold(one, tmp_path):
    write(*one, tmp_path, "label-studio")
    root = ET.fromstring((tmp_path / "config.xml").read_text())
    names = {element.get("name") for element in root.iter() if element.get("name")}
    (task,) = json.loads((tmp_path / "annotations.json").read_text())
    (annotation,) = task.pop("annotations")
    assert json.loads((tmp_path / "tasks.json").read_text()) == [task]
    assert {region["from_name"] for region in annotation["result"]} <= names
    fields = {element.get("value", "")[1:] for element in root.iter("Text")}
    assert fields <= task["data"].keys()
    # B was shown on the left, and the text on the right was taken.
    (methods,) = (json.loads(line) for line in (tmp_path / "methods.jsonl").read_text().splitlines())
    assert (methods["id"], methods["left"], methods["right"]) == (task["data"]["id"], "b", "=1+1")
    assert task["data"]["text_left"] == "<a> & b"
    assert annotation["result"][0]["value"] == {"choices": ["B"]}


def test_potatos_project_names_its_files_and_keys(one, tmp_path):
    write(*one, tmp_path, "potato")
    config = json.loads((tmp_path / "config.yaml").read_text())
    (item,) = (json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines())
    (scheme,) = config["annotation_schemes"]
    assert config["data_files"] == ["items.jsonl"]
    assert item[scheme["items_key"]] == ["<a> & b", "=a time"]
    (line,) = (json.loads(line) for line in (tmp_path / "annotations.jsonl").read_text().splitlines())
    assert (line["instance_id"], line["labels"]) == (item["id"], {scheme["name"]: {"selection": "B"}})
