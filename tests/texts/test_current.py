"""Which texts count: those of the run that matches study.toml, and of no other."""

import re
import shutil
from dataclasses import replace

import factories
import pytest
from factories import OF_SETTINGS, SETTINGS

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import Shard, append_continuations, locate_run_folder
from guard_eval.texts.current import describe_mismatched_runs, find_generated_texts
from guard_eval.texts.models import hash_model_folder
from guard_eval.texts.systems import explain_missing_texts, find_texts

PROMPTS = [Prompt(id=f"p{n}", dataset="d", text=f"Once {n}") for n in range(6)]
RECIPE = replace(OF_SETTINGS, model="absent/model")
KNOWN = {"revision": "sha256:00", "dtype": "float32"}


def texts(numbers, by=RECIPE):
    return [factories.continuation(f"text {n}", PROMPTS[n], by) for n in numbers]


@pytest.fixture
def study(tmp_path):
    """Return a function that opens the study of `RECIPE` with other settings of its model."""
    (tmp_path / "study").mkdir()

    def study(name="absent/model", **model):
        model = SETTINGS.model.model_copy(update={"name": name, **model})
        return Study(tmp_path / "study", SETTINGS.model_copy(update={"model": model}))

    return study


def write(study, *batches, shard=Shard()):  # noqa: B008
    for batch in batches:
        append_continuations(study.continuations_folder, batch, shard)


def find(study, strategy="guard", **options):
    return find_generated_texts(study, [strategy], PROMPTS, **options)[strategy]


def recipes(study, **options):
    return {text.recipe for text in find(study, **options).values()}


def test_only_texts_of_the_current_settings_count(study):
    changes = ({"seed": 4}, {"chat": True}, {"source": "x"}, {"amateur": "x"}, {"max_new_tokens": 9})
    others = [text for change in changes for text in texts(range(6), replace(RECIPE, **change))]
    earlier_prompt = factories.continuation("x", Prompt(id="p1", dataset="d", text="Never"), RECIPE)
    write(study(), others, [earlier_prompt], texts([0]))
    assert {key: text.text for key, text in find(study()).items()} == {("p0", 1): "text 0"}


def test_shards_of_several_machines_are_joined_by_copying_files(study, tmp_path):
    write(study(), texts([0, 2, 4]), shard=Shard(1, 2))
    there = tmp_path / "there"
    append_continuations(there, texts([1, 3, 5]), Shard(2, 2))
    shutil.copytree(there, study().continuations_folder, dirs_exist_ok=True)
    assert len(find(study())) == 6


def test_lines_copied_from_another_run_do_not_count(study):
    other = replace(RECIPE, seed=4)
    write(study(), texts([0]), texts([1], other))
    ours, theirs = (
        locate_run_folder(study().continuations_folder, recipe) / "guard.jsonl" for recipe in (RECIPE, other)
    )
    ours.write_bytes(ours.read_bytes() + theirs.read_bytes())
    assert set(find(study())) == {("p0", 1)}


def test_several_matching_runs_are_refused(study):
    half, quantised = (replace(RECIPE, dtype=dtype) for dtype in ("bfloat16", "float16, bitsandbytes"))
    write(study(), texts([0, 1]), texts(range(6), half), texts(range(6), quantised))
    with pytest.raises(StudyError, match=r"several runs in .* match study.toml: .*Set model.dtype") as error:
        find(study())
    assert all(
        f"absent/model sha256:00, {recipe.dtype})" in str(error.value) for recipe in (RECIPE, half, quantised)
    )
    assert recipes(study(), model_facts=KNOWN) == {RECIPE}
    for dtype, recipe in (("float32", RECIPE), ("bfloat16", half), ("float16", quantised)):
        assert recipes(study(dtype=dtype)) == {recipe}


def test_strategies_of_different_runs_are_not_mixed(study):
    acs = replace(RECIPE, strategy="acs(q=1)")
    write(study(), texts([0, 1]), texts([0], acs), texts(range(6), replace(RECIPE, seed=4)))
    chosen = find_generated_texts(study(), ["guard", "acs(q=1)"], PROMPTS)
    assert [len(texts_of) for texts_of in chosen.values()] == [2, 1]


def test_texts_of_other_models_do_not_count_for_a_missing_model(study):
    """Of two model folders' texts, neither counts for a name that does not exist, and one alone neither."""
    for name, content in (("a", "sha256:01"), ("b", "sha256:02")):
        write(study(), texts(range(6), replace(RECIPE, model=name, revision=content)))
        nothing = {"revision": None, "dtype": None}
        assert find(study("./missing")) == find(study("./missing"), model_facts=nothing) == {}
        message = explain_missing_texts(study("./missing"), "guard")
        assert re.search(r"no run in .* has model = 'a', not './missing'", message)
    assert recipes(study("a")) == {replace(RECIPE, model="a", revision="sha256:01")}


def test_only_texts_of_the_requested_commit_count(study):
    """A commit of the Hub needs no network to be known."""
    for commit in ("1" * 40, "2" * 40):
        write(study(), texts(range(6), replace(RECIPE, model="gpt2", revision=commit)))
    for commit in ("1" * 40, "2" * 40):
        assert {recipe.revision for recipe in recipes(study("gpt2", revision=commit))} == {commit}


def test_texts_match_a_model_by_weights_not_by_path(study, tmp_path):
    """Weights are exchanged, texts made again, weights put back: the first texts are those of the folder."""
    model = study().folder / "model"
    model.mkdir()
    known_recipes = []
    for content in (b"one", b"two"):
        (model / "model.safetensors").write_bytes(content)
        known_recipes.append(replace(RECIPE, model="model", revision=hash_model_folder(model)))
        write(study(), texts(range(6), known_recipes[-1]))
    assert recipes(study("model")) == {known_recipes[1]}
    (model / "model.safetensors").write_bytes(b"one")
    assert recipes(study("model")) == {known_recipes[0]}
    moved = shutil.move(model, tmp_path / "elsewhere")
    assert recipes(study(str(moved))) == {known_recipes[0]}


def test_amateur_is_matched_by_content(study, tmp_path):
    strategy = "contrastive_decoding(alpha=0.1, amateur_tau=0.5, beams=5, amateur_prompt=last)"
    for name in ("here", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(f'{{"name": "{name}"}}')
    revision = hash_model_folder(tmp_path / "here")
    recipe = replace(RECIPE, strategy=strategy, amateur=str(tmp_path / "here"), amateur_revision=revision)
    write(study(), texts(range(6), recipe))
    (tmp_path / "here").rename(tmp_path / "there")
    assert len(find(study(amateur=str(tmp_path / "there")), strategy)) == 6
    assert len(find(study(amateur=str(tmp_path / "other")), strategy)) == 0


def test_unfinished_texts_are_continued_by_the_same_engine(study):
    vllm = replace(RECIPE, engine="vllm")
    write(study(), texts(range(5), vllm), texts([0]))
    assert (len(find(study())), len(find(study(), engine=None))) == (5, 1)
    assert len(find(study(), engine="vllm")) == 5
    write(study(), texts([5], vllm))
    assert recipes(study(), engine=None) == {vllm}


def test_runs_with_other_settings_are_described(study):
    write(study(), texts(range(6), replace(RECIPE, seed=4)))
    (line,) = describe_mismatched_runs(study(), KNOWN)
    assert line.endswith("has seed = 4, not 3")
    assert find_texts(study(), ["guard"], PROMPTS) == {"guard": {}}
    message = explain_missing_texts(study(), "guard")
    assert re.search(r"no run in .* has seed = 4, not 3.* guard-eval generate", message)
