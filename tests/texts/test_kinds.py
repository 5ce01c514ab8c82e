"""Texts of two kinds are never mixed: of another arithmetic, revision or engine they are named, not used."""

import json
import shutil
from dataclasses import replace

import made
import pytest
from made import OF_SETTINGS as RECIPE
from made import SETTINGS

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import (
    append_continuations,
    continuation_file,
    part_file,
    read_continuations,
    write_parquet,
)
from guard_eval.texts.current import MadeAlready, current_continuations, current_texts, wanted
from guard_eval.texts.generation_files import read_generations
from guard_eval.texts.merging import merge_strategy
from guard_eval.texts.model_files import folder_revision
from guard_eval.texts.shards import Shard

PROMPTS = [Prompt(id=f"p{n}", dataset="d", text=f"Once {n}") for n in range(6)]
OTHERS = {
    "dtype": replace(RECIPE, dtype="bfloat16"),
    "weights": replace(RECIPE, revision="sha256:01"),
    "engine": replace(RECIPE, engine="vllm"),
}
OTHER = pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)


def texts(numbers, by=RECIPE):
    return [made.continuation(f"text {n}", PROMPTS[n], by) for n in numbers]


def settings(**model):
    return SETTINGS.model_copy(update={"model": SETTINGS.model.model_copy(update=model)})


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "study" / "continuations"


def lines(folder, *batches, shard=Shard()):  # noqa: B008
    for batch in batches:
        append_continuations(continuation_file(folder, "guard", shard), batch)


def current(folder, required=SETTINGS):
    return current_continuations(folder, "guard", PROMPTS, required)[1]


@OTHER
@pytest.mark.parametrize("where", ["lines", "shards", "parquet"])
def test_a_file_that_was_resumed_otherwise_is_refused(folder, other, where):
    if where == "lines":
        lines(folder, texts([0, 1]), texts([2, 3, 4, 5], other))
    elif where == "shards":
        lines(folder, texts([0, 1]), shard=Shard(1, 2))
        lines(folder, texts([2, 3, 4, 5], other), shard=Shard(2, 2))
    else:
        lines(folder, texts([0, 1]))
        write_parquet(part_file(folder, "guard"), texts([2, 3, 4, 5], other))
    with pytest.raises(StudyError) as refused:
        current(folder)
    says = str(refused.value)
    assert "guard: texts of several kinds" in says
    assert "2 are only" in says
    assert "guard-eval generate" in says
    for name in ("dtype", "revision"):
        assert str(getattr(other, name)) in says
    with pytest.raises(StudyError, match="texts of several kinds"):
        merge_strategy(folder, [], "guard", PROMPTS, SETTINGS, write=False)


@OTHER
def test_what_was_made_again_is_used_alone(folder, other):
    lines(folder, texts([0, 1]), texts(range(6), other))
    assert {one.recipe for one in current(folder).values()} == {other}
    assert len(current(folder)) == 6
    assert len(list(read_continuations(continuation_file(folder, "guard")))) == 8


def test_a_part_of_one_kind_is_no_mixture(folder):
    lines(folder, texts([0, 1, 2]))
    assert sorted(current(folder)) == ["p0", "p1", "p2"]


def test_the_arithmetic_that_is_asked_for_counts(folder):
    half = OTHERS["dtype"]
    lines(folder, texts(range(6)), texts(range(6), half))
    for dtype in ("float32", "bfloat16"):
        assert {one.recipe.dtype for one in current(folder, settings(dtype=dtype)).values()} == {dtype}
    with pytest.raises(StudyError, match=r"another kind .*dtype 'bfloat16', here 'float16'"):
        current(folder, settings(dtype="float16"))
    quantised = replace(RECIPE, dtype="float16, bitsandbytes")
    lines(folder, texts(range(6), quantised))
    assert {one.recipe for one in current(folder, settings(dtype="float16")).values()} == {quantised}


def test_the_commit_that_is_asked_for_counts(folder):
    """Of the Hub; a commit needs no network to be known."""
    one, two = "1" * 40, "2" * 40
    for commit in (one, two):
        lines(folder, texts(range(6), replace(RECIPE, model="gpt2", revision=commit)))
    for commit in (one, two):
        found = current(folder, settings(name="gpt2", revision=commit))
        assert {text.recipe.revision for text in found.values()} == {commit}


def test_the_weights_in_the_folder_decide_and_its_place_does_not(folder, tmp_path):
    """Weights exchanged, texts made again, weights put back: the first texts are those of the folder."""
    model = folder.parent / "model"
    model.mkdir(parents=True)
    recipes = []
    for content in (b"one", b"two"):
        (model / "model.safetensors").write_bytes(content)
        recipes.append(replace(RECIPE, model="model", revision=folder_revision(model)))
        lines(folder, texts(range(6), recipes[-1]))
    required = settings(name="model")
    assert {text.recipe for text in current(folder, required).values()} == {recipes[1]}
    (model / "model.safetensors").write_bytes(b"one")
    assert {text.recipe for text in current(folder, required).values()} == {recipes[0]}
    moved = tmp_path / "elsewhere"
    shutil.move(model, moved)
    required = settings(name=str(moved))
    found = current(folder, required)
    assert {text.recipe.revision for text in found.values()} == {recipes[0].revision}
    lines(folder, texts([0], replace(recipes[0], model=str(moved))))
    assert len(current(folder, required)) == 6


def test_strategies_of_two_kinds_are_not_compared(folder):
    study = Study(folder.parent, SETTINGS)
    lines(folder, texts(range(6)))
    other = replace(RECIPE, strategy="acs(q=1)")
    path = continuation_file(folder, "acs(q=1)")
    append_continuations(path, texts(range(6), replace(other, engine="vllm")))
    assert set(current_texts(study, ["guard", "acs(q=1)"], PROMPTS)) == {"guard", "acs(q=1)"}
    append_continuations(path, texts(range(6), replace(other, revision="sha256:01")))
    with pytest.raises(
        StudyError, match=r"guard in float32 by sha256:00; acs\(q=1\) in float32 by sha256:01"
    ):
        current_texts(study, ["guard", "acs(q=1)"], PROMPTS)


@OTHER
def test_what_was_made_otherwise_is_missing_and_named(folder, other):
    lines(folder, texts([0, 1], other), texts([2]))
    required = wanted("guard", SETTINGS, revision="sha256:00", dtype="float32")
    found = MadeAlready(folder, "guard", required, PROMPTS)
    assert [prompt.id for prompt in PROMPTS if (prompt, 1) in found] == ["p2"]
    assert (len(found), found.seconds) == (1, 0.5)
    (line,) = found.otherwise((prompt, 1) for prompt in PROMPTS if (prompt, 1) not in found)
    assert line.startswith("2 were made otherwise")
    assert any(word in line for word in ("bfloat16", "sha256:01", "vllm"))


def test_another_engine_counts_where_it_made_all(folder):
    required = wanted("guard", SETTINGS, revision="sha256:00", dtype="float32")
    lines(folder, texts(range(5), OTHERS["engine"]))
    assert (PROMPTS[0], 1) not in MadeAlready(folder, "guard", required, PROMPTS)
    assert (PROMPTS[0], 1) in MadeAlready(folder, "guard", required, PROMPTS, engine="vllm")
    lines(folder, texts([5], OTHERS["engine"]))
    assert all((prompt, 1) in MadeAlready(folder, "guard", required, PROMPTS) for prompt in PROMPTS)


def test_another_machine_with_another_model_is_not_merged(folder, tmp_path):
    lines(folder, texts([0, 1]))
    other_folder = tmp_path / "there"
    for other in OTHERS.values():
        lines(other_folder, texts([2], other))
        with pytest.raises(StudyError, match="line 1: not of this study: it is of another kind"):
            merge_strategy(folder, [other_folder], "guard", PROMPTS, SETTINGS)
        shutil.rmtree(other_folder)
    assert len(list(read_continuations(continuation_file(folder, "guard")))) == 2


@pytest.mark.parametrize(
    ("key", "value"), [("text", "edited"), ("new_tokens", 3), ("finish", "eos"), ("text_hash", "0" * 16)]
)
def test_a_text_that_was_edited_is_named(folder, key, value):
    lines(folder, texts(range(3)))
    path = continuation_file(folder, "guard")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1][key] = value
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        StudyError, match=r"guard\.jsonl, line 2: the text of .* \(prompt 'p1'\) is not the one"
    ):
        current(folder)


def test_a_text_put_under_another_id_with_its_hash_is_named(folder):
    lines(folder, texts(range(2)))
    path = continuation_file(folder, "guard")
    one, two = (json.loads(line) for line in path.read_text().splitlines())
    swapped = two | {name: one[name] for name in ("text", "text_hash")}
    path.write_text(json.dumps(swapped) + "\n")
    with pytest.raises(StudyError, match="is not the one that was made"):
        current(folder)


def test_a_text_edited_in_parquet_is_named(folder):
    pd = pytest.importorskip("pandas")
    path = part_file(folder, "guard")
    write_parquet(path, texts(range(3)))
    frame = pd.read_parquet(path)
    frame.loc[2, "text"] = "edited"
    frame.to_parquet(path)
    with pytest.raises(StudyError, match="record 3: the text of"):
        current(folder)


@OTHER
def test_a_file_of_two_kinds_is_not_measured_and_anybodys_is(folder, tmp_path, other):
    lines(folder, texts([0, 1]))
    path = continuation_file(folder, "guard")
    assert [one.text for one in read_generations(path)] == ["text 0", "text 1"]
    lines(folder, texts([2], other))
    with pytest.raises(StudyError, match=r"line 3: guard with .*; measure texts of one recipe at a time"):
        read_generations(path)
    foreign = tmp_path / "theirs.jsonl"
    foreign.write_text('{"text": "one", "dtype": "float32"}\n{"text": "two", "dtype": "bfloat16"}\n')
    assert [one.text for one in read_generations(foreign)] == ["one", "two"]


def test_tables_of_our_lines_are_measured(folder):
    pd = pytest.importorskip("pandas")
    path = part_file(folder, "guard")
    write_parquet(path, texts([0, 1]))
    pd.read_parquet(path).to_csv(folder / "guard.csv", index=False)
    for table in (path, folder / "guard.csv"):
        assert [one.text for one in read_generations(table)] == ["text 0", "text 1"]


def test_an_edited_line_is_not_measured_as_a_file(folder):
    lines(folder, texts([0, 1]))
    path = continuation_file(folder, "guard")
    path.write_text(path.read_text().replace("text 1", "text of another"))
    with pytest.raises(StudyError, match="line 2: the text of"):
        read_generations(path)
