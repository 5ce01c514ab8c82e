"""`guard-eval import`: other tools' files become a table for the report, and texts become generations."""

import json
from datetime import datetime

import pytest

from analysis.verdicts.tidy import read
from guard_eval.cli.commands import import_files
from guard_eval.cli.exchange import importing
from guard_eval.errors import StudyError
from guard_eval.texts.generation_files import read_generations
from guard_eval.texts.prompts import read_prompts

METHODS = {"method_a": "guard", "method_b": "acs"}


def lines(folder, name, *records):
    path = folder / name
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def arena(number, model, score):
    games = [{"score": score}, {"score": score}]
    return {"question_id": f"q{number}", "model": model, "judge": "gpt-4", "games": games}


def potato(instance, who, word):
    return {"instance_id": instance, "user_id": who, "labels": {"coherence": {"selection": word}}}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_several_files_become_one_table(tmp_path, ending):
    one = lines(tmp_path, "one.jsonl", arena(1, "mine", "A>B"), arena(2, "mine", "B>A"))
    two = lines(tmp_path, "two.jsonl", arena(1, "yours", "A=B"))
    found = import_files([one, two], tmp_path / "new" / f"verdicts.{ending}")
    table = read(found.output)
    # The same label in both orders is a win for each side.
    assert list(table["verdict"]) == ["baseline", "mine", "mine", "baseline", "tie", "tie"]
    assert set(table["method_b"]) == {"mine", "yours"}
    assert any("called 'baseline'" in note for note in found.notes)


def test_annotations_and_their_items(tmp_path, capsys):
    items = lines(tmp_path, "items.jsonl", {"id": "i1", **METHODS}, {"id": "i2", **METHODS})
    given = lines(tmp_path, "annotations.jsonl", potato("i1", "anna", "A"), potato("i2", "anna", "tie"))
    importing.command([items, given], tmp_path / "verdicts.csv")
    assert list(read(tmp_path / "verdicts.csv")["verdict"]) == ["guard", "tie"]
    odd = lines(tmp_path, "odd.jsonl", potato("i9", "anna", "A"))
    with pytest.raises(StudyError, match=r"odd.jsonl, line 1: no item has the id 'i9'"):
        import_files([items, odd], tmp_path / "verdicts.csv")
    twice = lines(tmp_path, "items.jsonl", *({"id": i, **METHODS} for i in ("i1", "i2", "i1")))
    with pytest.raises(StudyError, match=r"items.jsonl, line 3: two items have the id 'i1'"):
        import_files([twice, given], tmp_path / "verdicts.csv")


def test_what_two_files_say_of_the_same_pair_is_refused(tmp_path):
    one = lines(tmp_path, "one.jsonl", arena(1, "mine", "A>B"))
    two = lines(tmp_path, "two.jsonl", arena(1, "mine", "B>A"))
    with pytest.raises(StudyError, match=r"one.jsonl, .*two.jsonl together: rater 'gpt-4' judged pair 'q1'"):
        import_files([one, two], tmp_path / "verdicts.csv")
    assert not (tmp_path / "verdicts.csv").exists()


def test_a_formula_in_a_name_stays_text_on_the_way_there_and_back(tmp_path):
    path = tmp_path / "given.csv"
    path.write_text('id,model_a,model_b,annotator,winner\n1,=1+1,"+x",@me,A\n')
    found = import_files([path], tmp_path / "verdicts.csv")
    assert "'=1+1,'+x,'@me" in found.output.read_text()
    row = read(found.output).iloc[0]
    assert (row["method_a"], row["method_b"], row["rater"], row["verdict"]) == ("=1+1", "+x", "@me", "=1+1")


def test_a_date_is_the_name_that_it_is_in_a_csv(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["pair_id", "dataset", "method_a", "method_b", "rater", "criterion", "verdict"])
    day = datetime(2026, 5, 31)  # noqa: DTZ001 (a cell of a sheet has no time zone)
    book.active.append([day, "d", "guard", "greedy", "ann", "fluency", "tie"])
    book.save(tmp_path / "verdicts.xlsx")
    found = import_files([tmp_path / "verdicts.xlsx"], tmp_path / "verdicts.csv")
    assert list(read(found.output)["pair_id"]) == ["2026-05-31"]


def test_the_output_is_none_of_the_files(tmp_path):
    path = lines(tmp_path, "one.jsonl", arena(1, "mine", "A>B"))
    with pytest.raises(StudyError, match="is one of the files to read; name another"):
        import_files([path], path)
    with pytest.raises(StudyError, match=r"written as \.csv or \.parquet, and .*x\.html is neither"):
        import_files([path], tmp_path / "x.html")


def sample(number, **more):
    """Return a sample as lm-evaluation-harness 0.4.13 writes it."""
    return {
        "doc_id": number,
        "doc": {"page": "…"},
        "target": " human",
        "arguments": {"gen_args_0": {"arg_0": f"Prompt {number}", "arg_1": {"until": ["\n"]}}},
        "resps": [[f" text {number}"]],
        "filtered_resps": [f"text {number}"],
        "doc_hash": "0",
        **more,
    }


def test_samples_of_the_harness_become_prompts_and_texts(tmp_path):
    name = "samples_wikitext_2026-11-22T21-26-14.000001.jsonl"
    older = sample(2, arguments=[["Prompt 2", {"until": []}]], target=3)
    found = import_files([lines(tmp_path, name, sample(1), older)], tmp_path / "texts.jsonl")
    first, second = read_generations(found.output)
    assert (first.prompt_id, first.dataset, first.prompt, first.reference, first.text) == (
        "wikitext-0001",
        "wikitext",
        "Prompt 1",
        " human",
        " text 1",
    )
    assert (second.prompt, second.reference) == ("Prompt 2", None)
    assert [prompt.text for prompt in read_prompts(found.output)] == ["Prompt 1", "Prompt 2"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (sample(2, arguments={"gen_args_0": {"arg_0": "x", "arg_1": " yes"}}), "asks for likelihoods"),
        (sample(2, resps=[["a"], ["b"]]), "line 2: has 1 requests; a generated text has one"),
        (sample(1), "the text 'wikitext-0001' occurs twice"),
    ],
)
def test_samples_that_are_no_texts_are_refused(tmp_path, bad, message):
    path = lines(tmp_path, "wikitext.jsonl", sample(1), bad)
    with pytest.raises(StudyError, match=message):
        import_files([path], tmp_path / "texts.jsonl")
    with pytest.raises(StudyError, match=r"written as \.jsonl"):
        import_files([path], tmp_path / "texts.csv")
    with pytest.raises(StudyError, match=r"holds texts, and .* does not"):
        import_files([path, lines(tmp_path, "a.jsonl", arena(1, "m", "A>B"))], tmp_path / "t.jsonl")
