"""Continuations on disk: nothing torn, nothing lost, nothing doubled."""

import json
import re
import resource
from dataclasses import replace

import made
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import OF_SETTINGS as RECIPE
from made import PROMPT, SETTINGS

from guard_eval.errors import StudyError
from guard_eval.records import Prompt, Trace
from guard_eval.texts.continuations import (
    append_continuations,
    append_traces,
    continuation_file,
    continuation_files,
    read_continuations,
    read_traces,
    trace_file,
)
from guard_eval.texts.current import current_continuations
from guard_eval.texts.shards import Shard


def continuation(text="…", prompt=PROMPT, recipe=RECIPE):
    return made.continuation(text, prompt, recipe)


def one_code_point_each(text):
    """Two surrogates that make a pair are one character in JSON; a decoder writes that character."""
    return re.search("[\ud800-\udbff][\udc00-\udfff]", text) is None


@given(st.lists(st.text(st.characters(codec=None)).filter(one_code_point_each), min_size=1, max_size=5))
def test_any_text_comes_back(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("c") / "guard.jsonl"
    whole = [continuation(text) for text in texts]
    for one in whole:
        append_continuations(path, [one])
    assert list(read_continuations(path)) == whole


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
        list(read_continuations(path))
    assert says in str(error.value)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write"):
        append_continuations(tmp_path / "file" / "f.jsonl", [continuation()])


def test_only_what_the_settings_ask_for_is_current(tmp_path):
    path = continuation_file(tmp_path, "guard")
    others = [replace(RECIPE, **change) for change in ({"seed": 4}, {"chat": True}, {"amateur": "x"})]
    earlier_text = continuation("of another prompt text", Prompt(id="p1", dataset="d", text="Never"))
    made_otherwise = [continuation("otherwise", recipe=recipe) for recipe in others]
    append_continuations(path, [earlier_text, continuation("this"), *made_otherwise])
    assert [c.text for c in current_continuations(tmp_path, "guard", [PROMPT], SETTINGS)[1].values()] == [
        "this"
    ]


def test_of_two_model_revisions_the_later_is_current(tmp_path):
    newer = continuation("newer", recipe=replace(RECIPE, revision="sha256:01"))
    append_continuations(continuation_file(tmp_path, "guard"), [continuation("older"), newer])
    assert current_continuations(tmp_path, "guard", [PROMPT], SETTINGS)[1]["p1"].text == "newer"


def test_a_line_from_before_amateurs_and_chats_is_read_and_written_as_it_was(tmp_path):
    path = tmp_path / "f.jsonl"
    append_continuations(path, [continuation("one")])
    keys = list(json.loads(path.read_text()))
    assert keys[-7:] == [
        "model", "revision", "strategy", "seed", "max_new_tokens", "max_prompt_tokens", "dtype"
    ]  # fmt: skip
    rare = replace(RECIPE, amateur="a", amateur_revision="b", chat=True)
    append_continuations(path, [continuation("two", recipe=rare)])
    assert [c.recipe for c in read_continuations(path)] == [RECIPE, rare]
    assert list(json.loads(path.read_text().splitlines()[1]))[-3:] == ["amateur", "amateur_revision", "chat"]


def test_the_shards_of_a_strategy_are_read_together(tmp_path):
    prompts = [Prompt(id=f"p{n}", dataset="d", text="Once") for n in range(3)]
    shards = [Shard(), Shard(1, 2), Shard(10, 12)]
    for prompt, shard in zip(prompts, shards, strict=True):
        append_continuations(continuation_file(tmp_path, "guard", shard), [continuation(prompt.id, prompt)])
    append_traces(trace_file(tmp_path, "guard", shards[1]), [])
    (tmp_path / "guard(window=4).jsonl").write_text("another strategy's\n")
    (tmp_path / "guard.shard-1-of-2.jsonl.bak").write_text("nothing of ours\n")
    assert [path.name for path in continuation_files(tmp_path, "guard")] == [
        "guard.jsonl", "guard.shard-1-of-2.jsonl", "guard.shard-10-of-12.jsonl"
    ]  # fmt: skip
    assert sorted(current_continuations(tmp_path, "guard", prompts, SETTINGS)[1]) == ["p0", "p1", "p2"]
    assert continuation_files(tmp_path / "nowhere", "guard") == []


def test_a_trace_is_a_line_of_lists(tmp_path):
    path = trace_file(tmp_path, "guard")
    append_traces(path, [Trace(id="c", prompt_id="p", values={"H": [1.5, 2.0], "k": [9.0, 10.0]})])
    assert path.name == "guard.trace.jsonl"
    assert json.loads(path.read_text()) == {"id": "c", "prompt_id": "p", "H": [1.5, 2.0], "k": [9.0, 10.0]}


def test_lines_that_found_room_before_the_disk_was_full_stay(tmp_path):
    """A limit on the size of files stands for the disk's."""
    batch = [continuation("x" * 100, Prompt(id=f"p{n}", dataset="d", text="Once")) for n in range(5)]
    path = tmp_path / "f.jsonl"
    append_continuations(path, batch[:1])
    line = path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (line * 7 // 2, before[1]))
    try:
        with pytest.raises(StudyError, match=r"cannot write .*: File too large; fix that"):
            append_continuations(path, batch[1:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size == 3 * line
    append_continuations(path, batch[3:])
    assert list(read_continuations(path)) == batch


ONE = Trace(id="one", prompt_id="p1", values={"H": [3.9, 5.6], "k": [10, 8], "alpha": [0.5, 1.0]})
TWO = Trace(id="two", prompt_id="p2", values={"H": [3.9], "k": [10], "alpha": [0.5]})
PART = Trace(id="three", prompt_id="p3", values={"H": [1.0, 2.0, 3.0]})


def test_what_was_appended_is_read(tmp_path):
    paths = [trace_file(tmp_path, "guard", shard) for shard in (Shard(1, 2), Shard(2, 2))]
    append_traces(paths[0], [ONE, TWO])
    append_traces(paths[1], [PART])
    assert read_traces(paths) == [ONE, TWO, PART]
    assert read_traces([]) == []


def test_a_torn_line_is_skipped_and_a_second_trace_of_a_text_counts_once(tmp_path):
    path = tmp_path / "guard.trace.jsonl"
    append_traces(path, [ONE, TWO, ONE])
    with path.open("ab") as file:
        file.write(b'{"id": "torn", "H": [1.')
    assert read_traces([path]) == [ONE, TWO]


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        "[1, 2]",
        "null",
        '{"prompt_id": "p", "H": [1.0]}',
        '{"id": "x", "H": [1.0]}',
        '{"id": 7, "prompt_id": "p"}',
        '{"id": [], "prompt_id": "p"}',
        '{"id": "x", "prompt_id": "p", "H": 1.0}',
        '{"id": "x", "prompt_id": "p", "H": ["1.0"]}',
        '{"id": "x", "prompt_id": "p", "H": [true]}',
        '{"id": "x", "prompt_id": "p", "H": [NaN]}',
        '{"id": "x", "prompt_id": "p", "H": [1e999]}',
        '{"id": "x", "prompt_id": "p", "H": [[1.0]]}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_line_that_is_no_trace_is_named(line, tmp_path):
    path = tmp_path / "guard.trace.jsonl"
    append_traces(path, [ONE])
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(StudyError, match=r"guard\.trace\.jsonl, line 2: not a trace"):
        read_traces([path])


def test_a_number_too_large_for_a_float_is_no_trace(tmp_path):
    path = tmp_path / "guard.trace.jsonl"
    path.write_text(json.dumps({"id": "x", "prompt_id": "p", "k": [10**400]}) + "\n")
    with pytest.raises(StudyError, match="line 1: not a trace"):
        read_traces([path])


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StudyError, match=r"cannot read .*none.trace.jsonl: No such file"):
        read_traces([tmp_path / "none.trace.jsonl"])
