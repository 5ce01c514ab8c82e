"""`guard-eval generate` counts only texts of the same model and settings, and reports other texts."""

import shutil
from pathlib import Path

import pytest
from refusals import expect_refusal

from guard_eval.generation.command import generate_texts
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import BUNDLED, locate_model
from guard_eval.texts.continuations import read_continuations
from guard_eval.texts.current import find_generated_texts
from guard_eval.texts.pair import pair
from guard_eval.texts.prompts import read_prompts

STUDY = """
name = "s"
seed = 1
[model]
name = "model"
{model}
[generation]
strategies = ["greedy", "guard"]
max_new_tokens = 4
[pairs]
compare = [["greedy", "guard"]]
"""


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(locate_model(BUNDLED, Path()), tmp_path / "model")
    lines = [f'{{"prompt": "Once there was a cat who had {n} friends"}}\n' for n in range(4)]
    (tmp_path / "prompts.jsonl").write_text("".join(lines))
    return tmp_path


def study(folder, model=""):
    (folder / "study.toml").write_text(STUDY.format(model=model))
    return Study.open(folder)


def generated_texts(folder):
    paths = [*(folder / "continuations").glob("*/greedy.jsonl")]
    paths.sort(key=lambda path: path.stat().st_mtime_ns)
    return [text.recipe for path in paths for text in read_continuations(path)]


def other_tokenizer(model):
    (model / "chat_template.jinja").write_text("{{ messages }}")


def other_weights(model):
    """Change one byte. The name and the size of the file stay."""
    path = next(model.glob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def leave_half(folder, study):
    """Remove half of the texts, as if the run was killed halfway."""
    for strategy in study.settings.generation.strategies:
        (path,) = (folder / "continuations").glob(f"*/{strategy}.jsonl")
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))


@pytest.mark.parametrize(
    ("change", "finished"),
    [("dtype", True), (other_weights, False), (other_tokenizer, True)],
)
def test_changed_model_or_dtype_causes_new_texts(folder, change, finished):
    first = study(folder)
    generate_texts(first)
    if not finished:
        leave_half(folder, first)
    before = generated_texts(folder)
    if change == "dtype":
        changed = study(folder, 'dtype = "bfloat16"')
    else:
        change(folder / "model")
        changed = first
    if change == "dtype" or not finished:
        with expect_refusal(r"no run in|drawn prompts are missing"):
            pair(changed)
    preview = generate_texts(changed, dry_run=True)
    assert (preview.missing, preview.written) == (8, {})
    assert any("would make 8 continuations" in line for line in preview.lines)
    assert generated_texts(folder) == before
    printed = " ".join(generate_texts(changed).lines)
    assert "another run's texts are kept but not used: " in printed
    assert ("'float32', not 'bfloat16'" if change == "dtype" else "revision = 'sha256:") in printed
    after = generated_texts(folder)
    assert after[: len(before)] == before
    (new,) = set(after[len(before) :])
    assert len(after) == len(before) + 4
    prompts = read_prompts(folder / "prompts.jsonl")
    texts = find_generated_texts(changed, ["greedy", "guard"], prompts)
    assert {text.recipe for text in texts["greedy"].values()} == {new}
    assert all(len(result) == 4 for result in texts.values())
    pair(changed)
    assert generate_texts(changed).written == {}
    assert generated_texts(folder) == after


def test_generate_needs_no_model_if_no_text_is_missing(folder):
    first = study(folder)
    generate_texts(first)
    shutil.move(folder / "model", folder / "away")
    second = generate_texts(first)
    assert "not compared with model, which is not on this machine" in "\n".join(second.lines)
    assert (second.written, second.missing) == ({}, 0)
    assert len(generated_texts(folder)) == 4


def test_dry_run_uses_the_chat_template_settings(folder):
    (folder / "model" / "chat_template.jinja").write_text("{{ messages[0].content }}{{ brief }}")
    study(folder)
    chat = Study.open(folder, ["generation.chat=true", "generation.chat_template={brief = true}"])
    assert "would make" in " ".join(generate_texts(chat, dry_run=True).lines)
    misspelt = Study.open(folder, ["generation.chat=true", "generation.chat_template={breif = true}"])
    with expect_refusal(r"generation\.chat_template: the template of .* does not use 'breif'"):
        generate_texts(misspelt, dry_run=True)
