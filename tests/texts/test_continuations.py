"""Continuations on disk: nothing torn, nothing lost, nothing doubled, nothing mixed."""

import json
import re
import resource
from dataclasses import asdict, replace

import factories
import pytest
from factories import OF_SETTINGS as RECIPE
from factories import PROMPT
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.texts.continuations import (
    Shard,
    append_continuations,
    append_traces,
    list_continuation_files,
    locate_run_folder,
    read_continuations,
    read_run_folders,
)


def continuation(text="…", prompt=PROMPT, recipe=RECIPE):
    return factories.continuation(text, prompt, recipe)


def file(folder, recipe=RECIPE):
    """Return the one file of a recipe's texts."""
    (path,) = list_continuation_files(locate_run_folder(folder, recipe), recipe.strategy)
    return path


def one_code_point_each(text):
    """Two surrogates that make a pair are one character in JSON; a decoder writes that character."""
    return re.search("[\ud800-\udbff][\udc00-\udfff]", text) is None


@pytest.mark.slow
@given(st.lists(st.text(st.characters(codec=None)).filter(one_code_point_each), min_size=1, max_size=5))
def test_any_text_is_read_back_unchanged(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("c")
    whole = [continuation(text) for text in texts]
    for text in whole:
        append_continuations(folder, [text])
    assert list(read_continuations(file(folder))) == whole


def test_recipe_is_stored_once_for_all_texts_of_a_folder(tmp_path):
    append_continuations(tmp_path, [continuation("é")])
    row = json.loads(file(tmp_path).read_text(encoding="utf-8"))
    assert row == {
        "id": RECIPE.make_continuation_id(PROMPT), "prompt_id": "p1", "dataset": "d", "text": "é",
        "prompt_tokens": 1, "new_tokens": 2, "finish": "length", "seconds": 0.5, "batch": 1,
        "device": "cpu", "versions": "torch 2", "run": 1, "strategy": "guard",
    }  # fmt: skip
    assert json.loads((file(tmp_path).parent / "recipe.json").read_text()) == {
        "model": "bundled", "revision": "sha256:00", "dtype": "float32", "seed": 3, "max_new_tokens": 8,
        "max_prompt_tokens": 8, "chat": False, "chat_template": "", "stop": [],
    }  # fmt: skip


CHANGES = {
    "seed": 4, "chat": True, "revision": "sha256:01", "dtype": "bfloat16", "max_new_tokens": 9,
    "max_prompt_tokens": 9, "stop": (".",), "chat_template": "{}",
}  # fmt: skip
VARIANTS = [{"engine": "vllm"}, {"source": "abc"}, {"amateur": "m", "amateur_revision": "r"}]


def test_texts_of_different_recipes_are_kept_apart(tmp_path):
    recipes = [RECIPE, *(replace(RECIPE, **{name: value}) for name, value in CHANGES.items())]
    recipes += [replace(RECIPE, **change) for change in VARIANTS]
    append_continuations(tmp_path, [continuation(str(n), recipe=recipe) for n, recipe in enumerate(recipes)])
    folders = read_run_folders(tmp_path)
    assert len(folders) == 1 + len(CHANGES)
    paths = [path for folder in folders for path in list_continuation_files(folder, "guard")]
    texts = [text for path in paths for text in read_continuations(path)]
    assert {(int(text.text), text.recipe) for text in texts} == set(enumerate(recipes))


def test_run_folder_ignores_path_of_local_models(tmp_path):
    assert locate_run_folder(tmp_path, RECIPE) == locate_run_folder(tmp_path, replace(RECIPE, model="/moved"))
    hub = replace(RECIPE, revision="1" * 40)
    assert locate_run_folder(tmp_path, hub) != locate_run_folder(tmp_path, replace(hub, model="another"))


@pytest.mark.parametrize("torn", [b"{", b'{"id": "x"', b"\xff" * 70_000])
def test_incomplete_last_line_is_skipped_then_removed(tmp_path, torn):
    append_continuations(tmp_path, [continuation("one")])
    with file(tmp_path).open("ab") as stream:
        stream.write(torn)
    assert [c.text for c in read_continuations(file(tmp_path))] == ["one"]
    append_continuations(tmp_path, [continuation("two")])
    assert [c.text for c in read_continuations(file(tmp_path))] == ["one", "two"]


@pytest.mark.parametrize(
    "line", ["{]", '{"id": "x"}', '{"strategy": "guard", "more": 1}', "[]", "[" * 100_000]
)
def test_invalid_continuation_line_is_named(tmp_path, line):
    append_continuations(tmp_path, [continuation()])
    with file(tmp_path).open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(StudyError, match=r"guard\.jsonl, line 2: not a continuation"):
        list(read_continuations(file(tmp_path)))


@pytest.mark.parametrize(
    ("key", "value"), [("prompt_id", [["x"]]), ("run", [1]), ("seconds", "x"), ("text", ["x"]), ("engine", 1)]
)
def test_wrong_type_in_a_stored_text_is_named(tmp_path, key, value):
    append_continuations(tmp_path, [continuation("\ud800")])
    [stored] = read_continuations(file(tmp_path))
    assert stored == continuation("\ud800")
    row = json.loads(file(tmp_path).read_bytes()) | {key: value}
    file(tmp_path).write_text(json.dumps(row) + "\n")
    with pytest.raises(StudyError, match=rf"line 1: not a continuation .*{key}: .*remove the line"):
        list(read_continuations(file(tmp_path)))


@pytest.mark.parametrize(
    "recipe",
    ["", "[]", "{}", '{"seed": 3}', "[" * 100_000, json.dumps(asdict(RECIPE) | {"model": ["x"]})],
)
def test_invalid_recipe_is_named(tmp_path, recipe):
    append_continuations(tmp_path, [continuation()])
    (locate_run_folder(tmp_path, RECIPE) / "recipe.json").write_text(recipe)
    with pytest.raises(StudyError, match=r"cannot read the recipe .*recipe\.json"):
        read_run_folders(tmp_path)


def test_all_shards_of_a_strategy_are_read(tmp_path):
    shards = [Shard(), Shard(1, 2), Shard(10, 12)]
    for shard in shards:
        append_continuations(tmp_path, [continuation(str(shard))], shard)
    append_traces(tmp_path, RECIPE, [], shards[1])
    folder = locate_run_folder(tmp_path, RECIPE)
    (folder / "guard(window=4).jsonl").write_text("another strategy's\n")

    assert [path.name for path in list_continuation_files(folder, "guard")] == [
        "guard.jsonl", "guard.shard-1-of-2.jsonl", "guard.shard-10-of-12.jsonl"
    ]  # fmt: skip
    assert list_continuation_files(tmp_path / "nowhere", "guard") == []


def test_lines_written_before_the_disk_was_full_are_kept(tmp_path):
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


def test_traces_are_written_beside_texts(tmp_path):
    trace = {"id": "one", "prompt_id": "p1", "H": [3.9, 5.6], "k": [10, 8]}
    append_traces(tmp_path, RECIPE, [trace], Shard(1, 2))
    (path,) = locate_run_folder(tmp_path, RECIPE).glob("guard.shard-1-of-2.trace.jsonl")
    assert json.loads(path.read_text()) == trace
