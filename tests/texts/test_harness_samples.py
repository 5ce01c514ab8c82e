"""lm-evaluation-harness' samples are read as generations."""

import json

import pytest

from guard_eval.errors import StudyError
from guard_eval.texts.generation_files import read_generations


def lines(folder, name, *rows):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


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
    first, second = read_generations(lines(tmp_path, name, sample(1), sample(2, target=3)))
    assert (first.prompt_id, first.dataset, first.prompt, first.reference, first.text) == (
        "wikitext-0001",
        "wikitext",
        "Prompt 1",
        " human",
        " text 1",
    )
    assert (second.prompt, second.reference) == ("Prompt 2", None)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            sample(2, arguments={"gen_args_0": {"arg_0": "x", "arg_1": " yes"}}),
            "line 2: the task asks",
        ),
        (sample(2, resps=[["a"], ["b"]]), "or several texts; give a task of the kind generate_until"),
    ],
)
def test_samples_that_are_no_texts_are_refused(tmp_path, bad, message):
    path = lines(tmp_path, "wikitext.jsonl", sample(1), bad)
    with pytest.raises(StudyError, match=message):
        read_generations(path)
