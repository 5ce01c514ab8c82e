"""Continuations on disk: nothing torn, nothing lost, nothing doubled, nothing mixed."""

import json
import re
import resource
from dataclasses import replace

import factories
import pytest
from factories import OF_SETTINGS as RECIPE
from factories import PROMPT
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.errors import StudyError
from guard_eval.records import Prompt, Trace
from guard_eval.texts.continuations import (
    append_continuations,
    append_traces,
    continuation_files,
    read_continuations,
    read_run_folders,
    read_traces,
    run_folder,
    trace_files,
)
from guard_eval.texts.shards import Shard


def continuation(text="…", prompt=PROMPT, recipe=RECIPE):
    return factories.continuation(text, prompt, recipe)


def file(folder, recipe=RECIPE):
    """Return the one file of a recipe's texts."""
    (path,) = continuation_files(run_folder(folder, recipe), recipe.strategy)
    return path


def one_code_point_each(text):
    """Two surrogates that make a pair are one character in JSON; a decoder writes that character."""
    return re.search("[\ud800-\udbff][\udc00-\udfff]", text) is None


@given(st.lists(st.text(st.characters(codec=None)).filter(one_code_point_each), min_size=1, max_size=5))
def test_any_text_comes_back(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("c")
    whole = [continuation(text) for text in texts]
    for text in whole:
        append_continuations(folder, [text])
    assert list(read_continuations(file(folder))) == whole


def test_a_line_has_the_text_and_the_folder_its_recipe(tmp_path):
    append_continuations(tmp_path, [continuation("é")])
    row = json.loads(file(tmp_path).read_text(encoding="utf-8"))
    assert row == {
        "id": RECIPE.continuation_id(PROMPT), "prompt_id": "p1", "dataset": "d", "text": "é",
        "prompt_tokens": 1, "new_tokens": 2, "finish": "length", "seconds": 0.5, "batch": 1,
        "device": "cpu", "versions": "torch 2", "strategy": "guard",
    }  # fmt: skip
    assert json.loads((file(tmp_path).parent / "recipe.json").read_text()) == {
        "model": "bundled", "revision": "sha256:00", "dtype": "float32", "seed": 3, "max_new_tokens": 8,
        "max_prompt_tokens": 8, "chat": False, "stop": [],
    }  # fmt: skip


CHANGES = {
    "seed": 4, "chat": True, "revision": "sha256:01", "dtype": "bfloat16", "max_new_tokens": 9,
    "max_prompt_tokens": 9, "stop": (".",),
}  # fmt: skip
VARIANTS = [{"engine": "vllm"}, {"source": "abc"}, {"amateur": "m", "amateur_revision": "r"}]


def test_texts_of_different_recipes_never_share_a_file(tmp_path):
    recipes = [RECIPE, *(replace(RECIPE, **{name: value}) for name, value in CHANGES.items())]
    recipes += [replace(RECIPE, **change) for change in VARIANTS]
    append_continuations(tmp_path, [continuation(str(n), recipe=one) for n, one in enumerate(recipes)])
    files = {path for folder in read_run_folders(tmp_path) for path in continuation_files(folder, "guard")}
    assert len(files) == len(recipes)
    assert len(read_run_folders(tmp_path)) == 1 + len(CHANGES)
    (texts,) = zip(*(read_continuations(path) for path in files), strict=True)
    assert {(int(text.text), text.recipe) for text in texts} == set(enumerate(recipes))


def test_the_path_of_a_model_does_not_count_where_its_content_does(tmp_path):
    assert run_folder(tmp_path, RECIPE) == run_folder(tmp_path, replace(RECIPE, model="/moved"))
    hub = replace(RECIPE, revision="1" * 40)
    assert run_folder(tmp_path, hub) != run_folder(tmp_path, replace(hub, model="another"))


@pytest.mark.parametrize("torn", [b"{", b'{"id": "x"', b"\xff" * 70_000])
def test_a_torn_last_line_is_skipped_and_then_cut_off(tmp_path, torn):
    append_continuations(tmp_path, [continuation("one")])
    with file(tmp_path).open("ab") as stream:
        stream.write(torn)
    assert [c.text for c in read_continuations(file(tmp_path))] == ["one"]
    append_continuations(tmp_path, [continuation("two")])
    assert [c.text for c in read_continuations(file(tmp_path))] == ["one", "two"]


def test_a_file_that_is_torn_from_the_start(tmp_path):
    append_continuations(tmp_path, [continuation("one")])
    file(tmp_path).write_bytes(b'{"id"')
    append_continuations(tmp_path, [continuation("one")])
    assert [c.text for c in read_continuations(file(tmp_path))] == ["one"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{]", "line 2: not a continuation"),
        ('{"id": "x"}', "KeyError: 'strategy'"),
        ('{"strategy": "guard", "more": 1}', "unexpected keyword argument 'more'"),
        ("[]", "line 2: not a cont"),
    ],
)
def test_a_whole_line_that_is_wrong_is_named(tmp_path, line, says):
    append_continuations(tmp_path, [continuation()])
    with file(tmp_path).open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(StudyError) as error:
        list(read_continuations(file(tmp_path)))
    assert says in str(error.value)


@pytest.mark.parametrize("recipe", ["", "[]", "{}", '{"seed": 3}', "[" * 100_000])
def test_a_recipe_that_cannot_be_read_is_named(tmp_path, recipe):
    append_continuations(tmp_path, [continuation()])
    (run_folder(tmp_path, RECIPE) / "recipe.json").write_text(recipe)
    with pytest.raises(StudyError, match=r"recipe\.json is not a recipe"):
        read_run_folders(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write"):
        append_continuations(tmp_path / "file", [continuation()])


def test_the_shards_of_a_strategy_are_read_together(tmp_path):
    shards = [Shard(), Shard(1, 2), Shard(10, 12)]
    for shard in shards:
        append_continuations(tmp_path, [continuation(str(shard))], shard)
    append_traces(tmp_path, RECIPE, [], shards[1])
    folder = run_folder(tmp_path, RECIPE)
    (folder / "guard(window=4).jsonl").write_text("another strategy's\n")
    (folder / "guard.shard-1-of-2.jsonl.bak").write_text("nothing of ours\n")
    assert [path.name for path in continuation_files(folder, "guard")] == [
        "guard.jsonl", "guard.shard-1-of-2.jsonl", "guard.shard-10-of-12.jsonl"
    ]  # fmt: skip
    assert [path.name for path in trace_files(folder, "guard")] == ["guard.shard-1-of-2.trace.jsonl"]
    assert continuation_files(tmp_path / "nowhere", "guard") == []


def test_lines_that_found_room_before_the_disk_was_full_stay(tmp_path):
    """A limit on the size of files stands for the disk's."""
    batch = [continuation("x" * 100, Prompt(id=f"p{n}", dataset="d", text="Once")) for n in range(5)]
    append_continuations(tmp_path, batch[:1])
    line = file(tmp_path).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (line * 7 // 2, before[1]))
    try:
        with pytest.raises(StudyError, match=r"cannot write .*: File too large; fix that"):
            append_continuations(tmp_path, batch[1:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file(tmp_path).stat().st_size == 3 * line
    append_continuations(tmp_path, batch[3:])
    assert list(read_continuations(file(tmp_path))) == batch


ONE = Trace(id="one", prompt_id="p1", values={"H": [3.9, 5.6], "k": [10, 8], "alpha": [0.5, 1.0]})
TWO = Trace(id="two", prompt_id="p2", values={"H": [3.9], "k": [10], "alpha": [0.5]})
PART = Trace(id="three", prompt_id="p3", values={"H": [1.0, 2.0, 3.0]})


def traces(folder):
    return trace_files(run_folder(folder, RECIPE), "guard")


def test_what_was_appended_is_read(tmp_path):
    append_traces(tmp_path, RECIPE, [ONE, TWO], Shard(1, 2))
    append_traces(tmp_path, RECIPE, [PART], Shard(2, 2))
    assert read_traces(traces(tmp_path)) == [ONE, TWO, PART]
    first = json.loads(traces(tmp_path)[0].read_text().splitlines()[0])
    assert first == {"id": "one", "prompt_id": "p1", **ONE.values}
    assert read_traces([]) == []


def test_a_torn_line_is_skipped_and_a_second_trace_of_a_text_counts_once(tmp_path):
    append_traces(tmp_path, RECIPE, [ONE, TWO, ONE])
    with traces(tmp_path)[0].open("ab") as stream:
        stream.write(b'{"id": "torn", "H": [1.')
    assert read_traces(traces(tmp_path)) == [ONE, TWO]


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
        f'{{"id": "x", "prompt_id": "p", "H": [{10**400}]}}',
        '{"id": "x", "prompt_id": "p", "H": [[1.0]]}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_line_that_is_no_trace_is_named(line, tmp_path):
    path = tmp_path / "guard.trace.jsonl"
    path.write_text('{"id": "one", "prompt_id": "p1"}\n')
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(StudyError, match=r"guard\.trace\.jsonl, line 2: not a trace"):
        read_traces([path])


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StudyError, match=r"cannot read .*none.trace.jsonl: No such file"):
        read_traces([tmp_path / "none.trace.jsonl"])
