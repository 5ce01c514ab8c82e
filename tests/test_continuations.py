"""Continuations on disk: nothing torn, nothing lost, nothing doubled."""

import json
from dataclasses import replace
from pathlib import Path

import made
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import PROMPT, recipe

from guard_eval.continuations import (
    append_continuations,
    continuation_file,
    current_continuations,
    read_continuations,
)
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.study import Settings

RECIPE = recipe(model="bundled", revision="sha256:00", seed=3)
SETTINGS = Settings.model_validate(
    {
        "name": "s",
        "seed": 3,
        "model": {"name": "bundled"},
        "generation": {"strategies": ["guard", "acs"], "max_new_tokens": 8, "max_prompt_tokens": 8},
        "pairs": {"compare": [["guard", "acs"]]},
    }
)


def continuation(text="…", prompt=PROMPT, recipe=RECIPE):
    return made.continuation(text, prompt, recipe)


@given(st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=5))
def test_any_text_comes_back(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("c") / "guard.jsonl"
    whole = [continuation(text) for text in texts]
    for one in whole:
        append_continuations(path, [one])
    assert read_continuations(path) == whole


def test_a_line_is_flat_json_with_its_recipe(tmp_path):
    append_continuations(tmp_path / "f.jsonl", [continuation("é")])
    row = json.loads((tmp_path / "f.jsonl").read_text(encoding="utf-8"))
    assert (row["text"], row["strategy"], row["model"], row["seed"]) == ("é", "guard", "bundled", 3)


@pytest.mark.parametrize("torn", [b"{", b'{"id": "x"', b"\xff" * 70_000])
def test_a_torn_last_line_is_skipped_and_then_cut_off(tmp_path, torn):
    path = tmp_path / "f.jsonl"
    append_continuations(path, [continuation("one")])
    with path.open("ab") as file:
        file.write(torn)
    assert [c.text for c in read_continuations(path)] == ["one"]
    append_continuations(path, [continuation("two")])
    assert [c.text for c in read_continuations(path)] == ["one", "two"]


def test_a_file_that_is_torn_from_the_start(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"id"')
    append_continuations(path, [continuation("one")])
    assert [c.text for c in read_continuations(path)] == ["one"]


@pytest.mark.parametrize(
    ("line", "says"), [("{]", "line 2: not a continuation"), ('{"id": "x"}', "line 2: has no key 'model'")]
)
def test_a_whole_line_that_is_wrong_is_named(tmp_path, line, says):
    path = tmp_path / "f.jsonl"
    append_continuations(path, [continuation()])
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(StudyError) as error:
        read_continuations(path)
    assert says in str(error.value)


def test_a_full_disk_leaves_what_stood_there(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    link = tmp_path / "f.jsonl"
    link.symlink_to("/dev/full")
    with pytest.raises(StudyError, match=r"cannot write .*f.jsonl: "):
        append_continuations(link, [continuation()])


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write"):
        append_continuations(tmp_path / "file" / "f.jsonl", [continuation()])


def test_only_what_the_settings_ask_for_is_current(tmp_path):
    path = continuation_file(tmp_path, "guard")
    other_seed = replace(RECIPE, seed=4)
    earlier_text = continuation("of another prompt text", Prompt(id="p1", dataset="d", text="Never"))
    append_continuations(path, [continuation("seed", recipe=other_seed), earlier_text, continuation("this")])
    assert [c.text for c in current_continuations(tmp_path, "guard", [PROMPT], SETTINGS).values()] == ["this"]


def test_of_two_model_revisions_the_later_is_current(tmp_path):
    newer = continuation("newer", recipe=replace(RECIPE, revision="sha256:01"))
    append_continuations(continuation_file(tmp_path, "guard"), [continuation("older"), newer])
    assert current_continuations(tmp_path, "guard", [PROMPT], SETTINGS)["p1"].text == "newer"
