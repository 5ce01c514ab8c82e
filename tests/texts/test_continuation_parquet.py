"""Parquet files of continuations: the keys of the JSONL lines, whole or missing, read with them as one."""

import json
from dataclasses import replace

import made
import pytest
from made import OF_SETTINGS as RECIPE
from made import SETTINGS

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Prompt
from guard_eval.texts import continuations
from guard_eval.texts.continuations import (
    append_continuations,
    continuation_file,
    continuation_files,
    part_file,
    read_continuations,
    write_parquet,
)
from guard_eval.texts.current import MadeAlready, current_continuations, wanted
from guard_eval.texts.shards import Shard

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

PROMPTS = [Prompt(id=f"p{n}", dataset="d", text=f"Once {n}") for n in range(6)]


def text(number, by=RECIPE, **changes):
    return made.continuation(f"text {number}, naïve – \u2028 and 🦉", PROMPTS[number], by, **changes)


def test_what_was_written_is_read(tmp_path):
    rare = text(1, replace(RECIPE, amateur="a", amateur_revision="b", chat=True))
    path = part_file(tmp_path, "guard")
    write_parquet(path, [text(0), rare])
    assert path.name == "guard.part-00001.parquet"
    assert list(read_continuations(path)) == [text(0), rare]
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_pandas_sees_the_keys_and_values_of_a_line(tmp_path):
    for name, batch in {"plain": [text(0)], "chat": [text(0, replace(RECIPE, chat=True))]}.items():
        append_continuations(tmp_path / f"{name}.jsonl", batch)
        write_parquet(tmp_path / f"{name}.parquet", batch)
        line = json.loads((tmp_path / f"{name}.jsonl").read_text(encoding="utf-8"))
        frame = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert list(frame.columns) == list(line)
        assert frame.iloc[0].to_dict() == line


def test_parts_are_numbered_on_and_read_after_the_lines(tmp_path):
    write_parquet(part_file(tmp_path, "guard"), [text(2)])
    write_parquet(part_file(tmp_path, "guard"), [text(3)])
    write_parquet(part_file(tmp_path, "guard", Shard(1, 2)), [text(4)])
    append_continuations(continuation_file(tmp_path, "guard"), [text(0)])
    (tmp_path / "guard.part-00003.parquet.partial").write_bytes(b"PAR1")
    (tmp_path / "guard(window=4).part-00001.parquet").write_bytes(b"another strategy's")
    assert [path.name for path in continuation_files(tmp_path, "guard")] == [
        "guard.jsonl",
        "guard.part-00001.parquet",
        "guard.part-00002.parquet",
        "guard.shard-1-of-2.part-00001.parquet",
    ]
    assert part_file(tmp_path, "guard").name == "guard.part-00003.parquet"
    assert sorted(current_continuations(tmp_path, "guard", PROMPTS, SETTINGS)[1]) == ["p0", "p2", "p3", "p4"]


def test_a_torn_file_is_named_and_its_remedy(tmp_path):
    path = part_file(tmp_path, "guard")
    write_parquet(path, [text(0)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StudyError, match=r"part-00001\.parquet cannot be read as Parquet .* remove it"):
        list(read_continuations(path))


def test_a_writer_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(continuations.os, "fsync", full)
    with pytest.raises(StudyError, match="No space left on device; fix that"):
        write_parquet(part_file(tmp_path, "guard"), [text(0)])
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_is_no_unicode(tmp_path):
    odd = made.continuation("x", Prompt(id="p\ud800", dataset="d", text="Once"), RECIPE)
    with pytest.raises(StudyError, match="no valid Unicode; fix the id"):
        write_parquet(part_file(tmp_path, "guard"), [odd])
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setattr(continuations, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'guard-eval\[metrics\]'"):
        list(read_continuations(tmp_path / "guard.part-00001.parquet"))


def test_what_is_made_already_is_what_is_current(tmp_path):
    """Of another seed, of another prompt text, in lines and in Parquet."""
    path = continuation_file(tmp_path, "guard")
    append_continuations(path, [text(0, seconds=2.0), text(1, replace(RECIPE, seed=4))])
    changed = made.continuation("x", Prompt(id="p2", dataset="d", text="Never"), RECIPE)
    elsewhere = text(3, seconds=3.0, device="gpu")
    write_parquet(part_file(tmp_path, "guard"), [changed, elsewhere, text(0, seconds=2.0)])
    found = MadeAlready(tmp_path, "guard", wanted("guard", SETTINGS), PROMPTS)
    found_ids = {prompt.id for prompt in PROMPTS if (prompt, 1) in found}
    assert found_ids == set(current_continuations(tmp_path, "guard", PROMPTS, SETTINGS)[1]) == {"p0", "p3"}
    assert found.devices == {"cpu", "gpu"}
    assert (Prompt(id="p2", dataset="d", text="Never"), 1) in found
    assert len(MadeAlready(tmp_path / "nowhere", "guard", {}, PROMPTS)) == 0
