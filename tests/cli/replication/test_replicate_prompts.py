"""Prompts of a replication: any file that has them, under the paper's names of datasets."""

import json

import pytest

from guard_eval.cli.replication.prompts import (
    case_prompts,
    dataset_of,
    entropy_prompt,
    files_of,
    lines_of,
    prompts_of,
)
from guard_eval.errors import StudyError
from guard_eval.texts.prompts import read_prompts


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path):
    write(
        tmp_path / "wikitext.jsonl", [{"id": f"t{n}", "prompt": f"P{n}", "reference": "R"} for n in range(3)]
    )
    write(
        tmp_path / "news.jsonl", [{"id": f"n{n}", "prompt": f"N{n}", "dataset": "wikinews"} for n in range(3)]
    )
    return tmp_path


def test_a_folder_of_prompts(folder):
    found = prompts_of(files_of([folder]), limit=2)
    assert [(p.id, p.dataset) for p in found] == [
        ("n0", "Wikinews"),
        ("n1", "Wikinews"),
        ("t0", "Wikitext"),
        ("t1", "Wikitext"),
    ]


def test_what_is_written_is_read_again(folder):
    found = prompts_of(files_of([folder]))
    (folder / "prompts.jsonl").write_text(lines_of(found))
    assert read_prompts(folder / "prompts.jsonl") == found


def test_generations_as_their_authors_publish_them(tmp_path):
    """A list of prefix_text and reference_text, and contrastive decoding's lines of lists."""
    rows = [{"prefix_text": "Once", "reference_text": " upon", "generated_result": {"0": " more"}}]
    (tmp_path / "book_contrastive_gpt2-xl_256.json").write_text(json.dumps(rows))
    (prompt,) = prompts_of([tmp_path / "book_contrastive_gpt2-xl_256.json"])
    assert (prompt.dataset, prompt.text, prompt.reference) == ("BookCorpus", "Once", " upon")
    line = [{"ended": True, "gen_text": "Once more", "gold_ref": "Once upon", "prompt": "Once"}]
    (tmp_path / "wikinews_gpt2-0.8.jsonl").write_text(json.dumps(line) + "\n")
    (prompt,) = prompts_of([tmp_path / "wikinews_gpt2-0.8.jsonl"])
    assert (prompt.dataset, prompt.text, prompt.reference) == ("Wikinews", "Once", " upon")


def test_a_files_name_tells_its_dataset(tmp_path):
    assert dataset_of(tmp_path / "wikitext_contrastive_gpt2-xl_256.jsonl") == "Wikitext"
    assert dataset_of(tmp_path / "my-tales.jsonl") == "my-tales"


def test_files_that_do_not_do(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StudyError, match=r"empty holds no prompts .*data_from_CD_repo/benchmarks"):
        files_of([tmp_path / "empty"])
    with pytest.raises(StudyError, match="two prompts have the id 't0'; name each file once"):
        prompts_of([folder / "wikitext.jsonl", folder / "wikitext.jsonl"])
    bare = write(tmp_path / "texts.json", [{"text": "a text"}])
    with pytest.raises(StudyError, match=r"texts.json has texts without a prompt"):
        prompts_of([bare])


def test_the_papers_own_prompts():
    assert [(p.id, p.dataset) for p in case_prompts()] == [
        ("case1", "Wikitext"),
        ("case2", "Wikinews"),
        ("case3", "BookCorpus"),
    ]
    assert case_prompts()[2].text.endswith("looking over at me. My")
    assert entropy_prompt()[0].text.endswith("t-shirt and jeans. The")
