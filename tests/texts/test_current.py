"""Which texts count: those of the run that matches study.toml, and of no other."""

import shutil
from dataclasses import replace

import factories
import pytest
from factories import OF_SETTINGS as RECIPE
from factories import SETTINGS

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_continuations, run_folder
from guard_eval.texts.current import current_texts, find_texts, missing_texts, other_runs
from guard_eval.texts.model_files import folder_revision
from guard_eval.texts.shards import Shard

PROMPTS = [Prompt(id=f"p{n}", dataset="d", text=f"Once {n}") for n in range(6)]
KNOWN = {"revision": "sha256:00", "dtype": "float32"}


def texts(numbers, by=RECIPE):
    return [factories.continuation(f"text {n}", PROMPTS[n], by) for n in numbers]


@pytest.fixture
def study(tmp_path):
    """Return a study whose model is not on this machine, with other settings of its model."""
    (tmp_path / "study").mkdir()

    def study(name="absent/model", **model):
        model = SETTINGS.model.model_copy(update={"name": name, **model})
        return Study(tmp_path / "study", SETTINGS.model_copy(update={"model": model}))

    return study


def write(study, *batches, shard=Shard()):  # noqa: B008
    for batch in batches:
        append_continuations(study.continuations, batch, shard)


def found(study, strategy="guard", **options):
    return find_texts(study, [strategy], PROMPTS, **options)[strategy]


def test_only_what_the_settings_ask_for_is_current(study):
    changes = ({"seed": 4}, {"chat": True}, {"source": "x"}, {"amateur": "x"}, {"max_new_tokens": 9})
    others = [text for change in changes for text in texts(range(6), replace(RECIPE, **change))]
    earlier_prompt = factories.continuation("x", Prompt(id="p1", dataset="d", text="Never"), RECIPE)
    write(study(), others, [earlier_prompt], texts([0]))
    assert {key: text.text for key, text in found(study()).texts.items()} == {("p0", 1): "text 0"}
    assert list(missing_texts(study(), "guard", PROMPTS, found(study()))) == [(p, 1) for p in PROMPTS[1:]]


def test_shards_of_several_machines_are_joined_by_copying_files(study, tmp_path):
    write(study(), texts([0, 2, 4]), shard=Shard(1, 2))
    there = tmp_path / "there"
    append_continuations(there, texts([1, 3, 5]), Shard(2, 2))
    shutil.copytree(there, study().continuations, dirs_exist_ok=True)
    assert len(found(study()).texts) == 6


def test_a_line_that_was_copied_into_another_runs_folder_does_not_count(study):
    other = replace(RECIPE, seed=4)
    write(study(), texts([0]), texts([1], other))
    ours, theirs = (run_folder(study().continuations, one) / "guard.jsonl" for one in (RECIPE, other))
    ours.write_bytes(ours.read_bytes() + theirs.read_bytes())
    assert set(found(study()).texts) == {("p0", 1)}


OTHERS = {"dtype": replace(RECIPE, dtype="bfloat16"), "weights": replace(RECIPE, revision="sha256:01")}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_of_runs_that_the_settings_leave_open_the_larger_counts_and_equal_ones_are_refused(study, other):
    write(study(), texts([0, 1]), texts(range(6), other))
    assert {text.recipe for text in found(study()).texts.values()} == {other}
    assert found(study(), known=KNOWN).texts.keys() == {("p0", 1), ("p1", 1)}
    write(study(), texts([2, 3, 4, 5]))
    with pytest.raises(StudyError, match=r"several runs in .* match study.toml: .*Set model.dtype") as error:
        found(study())
    for recipe in (RECIPE, other):
        assert f"{recipe.model} {recipe.revision}, {recipe.dtype}" in str(error.value)


def test_all_strategies_are_of_one_run(study):
    acs, other = (replace(RECIPE, strategy="acs(q=1)", dtype=dtype) for dtype in ("float32", "bfloat16"))
    write(study(), texts([0, 1]), texts([0], acs), texts(range(6), other))
    chosen = find_texts(study(), ["guard", "acs(q=1)"], PROMPTS)
    assert {len(each.texts) for each in chosen.values()} == {0, 6}
    assert {each.folder for each in chosen.values()} == {run_folder(study().continuations, other)}


def test_the_arithmetic_that_is_asked_for_counts(study):
    half, quantised = (replace(RECIPE, dtype=dtype) for dtype in ("bfloat16", "float16, bitsandbytes"))
    write(study(), texts(range(6)), texts(range(6), half), texts(range(6), quantised))
    for dtype, recipe in (("float32", RECIPE), ("bfloat16", half), ("float16", quantised)):
        assert found(study(dtype=dtype)).recipe == recipe


def test_the_commit_that_is_asked_for_counts(study):
    """A commit of the Hub needs no network to be known."""
    for commit in ("1" * 40, "2" * 40):
        write(study(), texts(range(6), replace(RECIPE, model="gpt2", revision=commit)))
    for commit in ("1" * 40, "2" * 40):
        assert found(study("gpt2", revision=commit)).recipe.revision == commit


def test_the_weights_in_the_folder_decide_and_its_place_does_not(study, tmp_path):
    """Weights are exchanged, texts made again, weights put back: the first texts are those of the folder."""
    model = study().folder / "model"
    model.mkdir()
    recipes = []
    for content in (b"one", b"two"):
        (model / "model.safetensors").write_bytes(content)
        recipes.append(replace(RECIPE, model="model", revision=folder_revision(model)))
        write(study(), texts(range(6), recipes[-1]))
    assert found(study("model")).recipe == recipes[1]
    (model / "model.safetensors").write_bytes(b"one")
    assert found(study("model")).recipe == recipes[0]
    moved = shutil.move(model, tmp_path / "elsewhere")
    assert found(study(str(moved))).recipe == recipes[0]


def test_an_engine_goes_on_with_its_own_texts_unless_another_has_made_all(study):
    vllm = replace(RECIPE, engine="vllm")
    write(study(), texts(range(5), vllm), texts([0]))
    assert (len(found(study()).texts), len(found(study(), engine=None).texts)) == (5, 1)
    assert len(found(study(), engine="vllm").texts) == 5
    write(study(), texts([5], vllm))
    assert {text.recipe for text in found(study(), engine=None).texts.values()} == {vllm}


def test_texts_of_other_settings_are_named(study):
    write(study(), texts(range(6), replace(RECIPE, seed=4)))
    (line,) = other_runs(study(), KNOWN)
    assert line.endswith("has seed = 4, not 3")
    with pytest.raises(StudyError, match=r"no run in .* has seed = 4, not 3.* guard-eval generate"):
        current_texts(study(), ["guard"], PROMPTS)
